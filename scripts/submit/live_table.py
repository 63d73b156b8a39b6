"""The output of `submit` and `watch`: a live table on a terminal, lines in a log, JSON for programs."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from typing import Any

import click
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from scripts.common.terminal import cell, console, say, table
from scripts.common.text import plain
from scripts.submit.follow import BoardNews, BoardProgress, PullStatus

_STYLES = {
    BoardProgress.QUEUED: "yellow",
    BoardProgress.RUNNING: "cyan",
    BoardProgress.ACCEPTED: "bold green",
    BoardProgress.REJECTED: "bold red",
    BoardProgress.REFUSED: "bold red",
    BoardProgress.ENDED: "magenta",
}


class Voice(AbstractContextManager["Voice"]):
    """Prints each change once on stdout: for people, or with `as_json` as one object per line."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._console = console()
        self._live: Live | None = None
        self._said: dict[str, BoardNews] = {}
        self._trouble = ""

    def __exit__(self, *_: object) -> None:
        self.clear()

    def clear(self) -> None:
        """Leave the table as it is, and continue below it."""
        if self._live:
            self._live.stop()
            self._live = None

    def say(self, event: str, sentence: str, **facts: Any) -> None:
        """Print an event that happens once."""
        if self._as_json:
            click.echo(json.dumps({"event": event, **facts}))
        elif sentence:
            say(plain(sentence))

    def news(self, news: PullStatus) -> None:
        """Print the boards that have changed."""
        self._trouble = ""
        changed = [board for board in news.boards if self._said.get(board.gpu) != board]
        self._said |= {board.gpu: board for board in changed}
        if self._as_json:
            for board in changed:
                click.echo(json.dumps({"event": "board", **board.facts}))
        elif self._console.is_terminal:
            self._draw(news)
        else:
            for board in changed:
                click.echo(f"{board.gpu}, {board.mode}: {board.stage}: {plain(_words(board))}")

    def remark(self, sentence: str) -> None:
        """Print a remark on stderr, where programs need not read it."""
        say(f"pullrank: {sentence}", stderr=True)

    def trouble(self, error: str) -> None:
        """Report that GitHub does not answer, once per outage."""
        if not self._trouble:
            click.echo(f"pullrank: {error}; trying again", err=True)
        self._trouble = error

    def _draw(self, news: PullStatus) -> None:
        if not self._live:
            self._live = Live(console=self._console, refresh_per_second=4)
            self._live.start()
        self._live.update(_table(news))


def _table(news: PullStatus) -> Table | Spinner:
    if not news.boards:
        return Spinner("dots", f"#{news.pull.number}: waiting for the bot")
    made = table("", "Board", "Mode", "State", "")
    for board in news.boards:
        made.add_row(board.gpu, board.mode, _state(board), cell(_words(board)))
    return made


def _words(board: BoardNews) -> str:
    """A board's state in one line; if the file was not accepted, with the reason."""
    if board.stage is BoardProgress.RUNNING:
        return f"being judged; {board.summary.replace('queued since', 'queued at')}"
    message = board.result.get("message") if board.result and board.stage is BoardProgress.REJECTED else None
    wrong = message.partition("\n")[0] if isinstance(message, str) else ""
    return board.place or (f"{board.summary}: {wrong}" if wrong else board.summary)


def _state(board: BoardNews) -> Text | Spinner:
    style = _STYLES[board.stage]
    return Text(board.stage, style) if board.stage.is_done else Spinner("dots", Text(board.stage, style), style=style)
