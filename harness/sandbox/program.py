"""Run a program in a player's place: start it in the sandbox, read its results while it runs, report how it ended.

Results are read as they arrive, because a pipe holds 64 KiB and then blocks its writer.  The run is over when the
program's first process has ended; all other processes that it started are then killed.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness.records.errors import JudgeError
from harness.records.verdict import Foul, Verdict
from harness.sandbox.player_handle import PlayerHandle
from harness.sandbox.sandbox import PlayerFiles, Program, Sandbox

_LOOK_S = 0.02
"""How often to check whether the program has ended and how much memory it uses."""
_CHUNK_BYTES = 1 << 16


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a program ended: by itself with a wait status, or by a foul.  `log` is the end of its output."""

    status: int | None
    foul: Foul | None
    seconds: float
    log: str

    @property
    def exit_code(self) -> int | None:
        """None if a signal or a foul ended it."""
        return None if self.status is None or os.WIFSIGNALED(self.status) else os.waitstatus_to_exitcode(self.status)


def run(
    sandbox: Sandbox,
    entry: PlayerFiles,
    program: Program,
    take: Callable[[bytes], None],
    *,
    seconds: float,
    late: str,
    building: bool = False,
) -> Ended:
    """Run a program to its end.

    Args:
        take: called with each chunk of the program's results; may raise Foul, which ends the program.
        seconds: the time limit; `late` is the message if it passes.
        building: whether later players see what the program leaves in its cache.

    Raises:
        JudgeError: the program could not be started, or this machine failed.
    """
    status, foul = None, None
    try:
        with sandbox.start_player(entry, building=building, program=program) as player:
            began = time.monotonic()
            try:
                player.send({"do": "run"})
                status = follow(player, take, began + seconds, late)
            except Foul as error:
                foul = error
            took = time.monotonic() - began
            if why := player.find_start_failure():
                foul = _not_started(sandbox, program, why)
    except Foul as error:  # the program does not end
        foul = error
    return Ended(status=status, foul=foul, seconds=took, log=player.log)


def _not_started(sandbox: Sandbox, program: Program, why: str) -> Foul:
    """Why a command cannot be executed.  Raises JudgeError unless the submission's build made it."""
    if Path(program.command[0]).is_relative_to(sandbox.cache):
        return Foul(Verdict.RUN_TIME_ERROR, f"The program that was built from the submission cannot be executed: {why}")
    raise JudgeError(f"the task's program did not start: {why}")


def follow(player: PlayerHandle, take: Callable[[bytes], None], deadline: float, late: str) -> int:
    """Read results until the program ends; returns its wait status.

    Raises Foul if that takes too long, apart from the time for which other programs keep it from running.
    """
    assert player.results is not None
    player.begin_wait()
    ends = deadline
    poll = select.poll()
    poll.register(player.results, select.POLLIN)
    is_open = True
    while True:
        # The keeper reports the status before it ends, so look for its end first.  Look for both before reading:
        # everything that the program wrote before its end is then readable.
        is_gone, status = player.is_gone, player.find_status()
        if is_open and not _drain(player.results, take):
            poll.unregister(player.results)
            is_open = False
        if status is not None:
            return status
        if is_gone:
            raise player.died()
        if time.monotonic() > ends:
            ends = player.extended(deadline, late)
        player.check_memory()
        poll.poll(_LOOK_S * 1000)


def _drain(results: int, take: Callable[[bytes], None]) -> bool:
    """Read all available results; returns whether more may come.  `take` ends a program that writes without end."""
    while True:
        try:
            chunk = os.read(results, _CHUNK_BYTES)
        except BlockingIOError:
            return True
        if not chunk:
            return False
        take(chunk)
