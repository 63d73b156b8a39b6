"""Plays one file after the other in one sandbox, in any mode: for tests that differ only in the file."""

from __future__ import annotations

import itertools
from pathlib import Path
from types import TracebackType
from typing import Self

from harness.gpu.device import Device
from harness.judge import open_context
from harness.records.fields import Mode
from harness.records.judgement import CaseResult
from harness.task.submission import Submission
from harness.task.task import Board


class GameSession:
    """Each file has its own players and cache, as in `harness.judge.JudgeSession`, which has no profiles."""

    def __init__(self, board: Board, mode: Mode, device: Device | None = None) -> None:
        self._opened = open_context(board, mode, "bubblewrap", device=device)
        self._numbers = itertools.count(1)

    def __enter__(self) -> Self:
        self._context = self._opened.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened.__exit__(kind, error, trace)

    def play(self, source: str, reports: Path | None = None) -> tuple[CaseResult, ...]:
        """The result of each case.  Checks that the machine is unchanged."""
        from harness.rules.game import Game

        file = Submission(login="sample", source=source.encode(), name="submission.py")
        game = Game(self._context, file, name=f"submission {next(self._numbers)}", reports=reports)
        game.play()
        self._context.sandbox.require_health()
        return tuple(game.results)
