"""Keep other work on the machine out of ranked times.

    before each run   wait until the cores are idle; what the kernel still does for the last player counts, too
    after a run       play it again if other work disturbed it, as if it had not been played

A submission could disturb its own runs in order to repeat those that it does not like.  So a run of a participant's
file is played again a few times only, and then counts: other work makes only that file slower.  A disturbed run of the
judge's own players would make the submission look faster, so it never counts; nor does one in which a call stalled.

Some machines are never idle.  With `OtherWorkRule.AVOID`, the judge waits less, and if that does not help, all runs
count.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection

from harness.processes.other_work import MAX_OTHER_WORK, OtherWorkRule
from harness.records.errors import JudgeError

MAX_REPEATS = 2
"""How often runs of a participant's file are played again, for each benchmark."""
MAX_OWN_REPEATS = 30
"""How often runs of the judge's own players are played again, in the whole judging.  A benchmark has twelve or more."""
PATIENCE_S = 60.0
"""How long to wait for idle cores before a run."""
PATIENCE_IN_ALL_S = 300.0
"""How long to wait for idle cores in the whole judging."""
SHORT_PATIENCE_S, SHORT_PATIENCE_IN_ALL_S = 5.0, 30.0
"""The same if other work does not make the judging void."""
_LONG_WAIT_S = 1.0
"""The judge reports waits that are longer than this."""
_PAUSE_S = 0.05

_WAY_OUT = "times disturbed by other work cannot be ranked. Judge again when this machine is idle"


class Quiet:
    """The patience of one judging with other work."""

    def __init__(
        self, listen: Callable[[], float], ours: Collection[str], rule: OtherWorkRule = OtherWorkRule.REFUSE
    ) -> None:
        """`listen` measures the share of a core that other work takes now; `ours` are the judge's own players."""
        self._listen = listen
        self._ours = ours
        self._voids = rule is OtherWorkRule.REFUSE
        self._repeats: Counter[tuple[str, str]] = Counter()
        self.waited_s = 0.0
        """How long the judge waited for idle cores, in all."""
        self.repeats = 0
        """How many runs were played again."""

    def wait(self, on_long_wait: Callable[[], None] = lambda: None) -> bool:
        """Wait until the cores are idle; return whether that took long, in which case `on_long_wait` was called once.

        Raises:
            JudgeError: it takes too long and makes the judging void.
        """
        began, waited_s, is_long = time.monotonic(), 0.0, False
        for_a_run_s, in_all_s = PATIENCE_S, PATIENCE_IN_ALL_S
        if not self._voids:
            for_a_run_s, in_all_s = SHORT_PATIENCE_S, SHORT_PATIENCE_IN_ALL_S
        while (share := self._listen()) > MAX_OTHER_WORK:
            if waited_s > min(for_a_run_s, in_all_s - self.waited_s):
                if self._voids:
                    raise JudgeError(f"other work takes {share:.0%} of a core: {_WAY_OUT}")
                break
            if not is_long and waited_s > _LONG_WAIT_S:
                is_long = True
                on_long_wait()
            time.sleep(_PAUSE_S)
            waited_s = time.monotonic() - began
        self.waited_s += waited_s
        return is_long

    def must_repeat(self, share: float, side: str, case: str, *, stalls: bool = False) -> bool:
        """Whether to play a run again, because of the share of a core that other work took, or a call that `stalls`.

        Raises:
            JudgeError: too many runs of the judge's own players were disturbed, and this makes a judging void.
        """
        is_ours = side in self._ours
        if share <= MAX_OTHER_WORK and not (is_ours and stalls):
            return False
        key = ("", "") if is_ours else (side, case)
        self._repeats[key] += 1
        is_enough = self._repeats[key] > (MAX_OWN_REPEATS if is_ours else MAX_REPEATS)
        if is_enough and is_ours and self._voids:
            why = f"other work took {share:.0%} of a core" if share > MAX_OTHER_WORK else "a call stalled"
            raise JudgeError(f"{why} during a run of the {side}: {_WAY_OUT}")
        self.repeats += not is_enough
        return not is_enough
