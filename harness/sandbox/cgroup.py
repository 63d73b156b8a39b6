"""Control groups, version 2: where we may make some, and the limits that the kernel keeps for them.

    <base>                               our own group or the one above it: whichever hands limits on
      └ pullrank-<pid>-<when>/           one judging's
          └ player-<pid>/                one player's: frozen, limited, killed and removed as one

`memory.max` counts everything that a player makes the kernel keep for it: pages, tmpfs and memfds, page tables,
what waits in sockets and pipes.  The kernel hands limits on only from a group without processes of its own; a
service gets one by systemd's `Delegate=yes` and `DelegateSubgroup=`.  Freezing needs none of that.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.records import stale_folders
from harness.records.errors import JudgeError

_CONTROLLERS = ("memory", "pids")
_PATIENCE_S = 60.0
"""How long the processes of a group may take to be gone after they were killed: gigabytes have to be freed."""


@dataclass(frozen=True, kw_only=True)
class CgroupLimits:
    """What the kernel allows a player's group."""

    memory_bytes: int
    processes: int


class Cgroup:
    """One judging's own group."""

    def __init__(self, base: Path) -> None:
        """Raises OSError where we may not make one."""
        self.folder = base / f"pullrank-{os.getpid()}-{time.monotonic_ns()}"
        self.folder.mkdir()
        self._claim = stale_folders.claim(self.folder)
        self._handed_on = hand_on_limits(self.folder)

    @property
    def limits_memory(self) -> bool:
        return "memory" in self._handed_on

    def remove(self) -> None:
        """Remove it with what is below it.  Raises JudgeError if there are still processes in it."""
        try:
            for below in self.folder.glob("player-*"):
                remove(below)
            remove(self.folder)
        finally:
            os.close(self._claim)


def find_bases() -> list[Path]:
    """The groups below which we might make our own, those that hand limits on first."""
    return sorted(_own_groups(), key=lambda base: -len(hand_on_limits(base)))


def _own_groups() -> Iterator[Path]:
    own = re.search(r"^0::(/.*)$", Path("/proc/self/cgroup").read_text(), re.MULTILINE)
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields = line.split()
        if own and " - cgroup2 " in line:
            mounted, below = Path(fields[4]), os.path.relpath(own[1], fields[3])
            group = mounted if below.startswith("..") else mounted / below
            yield group
            if group != mounted:
                yield group.parent


def hand_on_limits(group: Path) -> set[str]:
    """Have a group hand its limits on to those below it, as far as it can; returns which it hands on."""
    wanted = [name for name in _CONTROLLERS if name in controllers(group)]
    missing = set(wanted) - _handed_on(group)
    # Memory or nothing: the number of processes alone would be handed on even from a group that has processes, and
    # then none below it could have any.
    if missing and "memory" in wanted:
        with contextlib.suppress(OSError):  # EBUSY: it has processes of its own.  EACCES: it is not ours.
            (group / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in wanted))
    return _handed_on(group)


def controllers(group: Path) -> set[str]:
    """What a group could hand on."""
    return _words(group / "cgroup.controllers")


def _handed_on(group: Path) -> set[str]:
    return _words(group / "cgroup.subtree_control") & set(_CONTROLLERS)


def _words(file: Path) -> set[str]:
    try:
        return set(file.read_text().split())
    except OSError:
        return set()


def set_limits(group: Path, limits: CgroupLimits) -> bool:
    """Set those limits that this group has; returns whether its memory is limited."""
    wanted = {
        "pids.max": limits.processes,
        "memory.max": limits.memory_bytes,
        "memory.swap.max": 0,
        "memory.oom.group": 1,  # the whole player or nothing: without a helper it might still answer
    }
    for name, value in wanted.items():
        if (group / name).exists():
            (group / name).write_text(str(value))
    return (group / "memory.max").exists()


def count_events(text: bytes, event: str) -> int:
    """How often something has happened, by a file of lines like `oom_kill 1`; 0 if this kernel does not tell."""
    found = re.search(rb"^%s (\d+)$" % event.encode(), text, re.MULTILINE)
    return int(found[1]) if found else 0


def remove(group: Path) -> None:
    """Remove a group whose processes have been killed.  Raises JudgeError if they don't end."""
    give_up = time.monotonic() + _PATIENCE_S
    while group.exists():
        try:
            group.rmdir()
        except OSError as error:
            # It is busy until the last of them has freed its memory.
            if time.monotonic() > give_up:
                raise JudgeError(f"processes are left in the cgroup {group}: {error.strerror}") from None
            time.sleep(0.001)


def remove_abandoned(base: Path) -> None:
    """Remove the groups of judges that were killed."""
    for group in stale_folders.abandoned(base.glob("pullrank-*")):
        for folder in (*group.glob("player-*"), group):
            with contextlib.suppress(OSError):
                folder.rmdir()
