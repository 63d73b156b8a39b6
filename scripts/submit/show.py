"""What `submit` and `watch` say while they wait: a live table on a terminal, lines in a log, JSON for programs."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, Self

import click
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from scripts.bot.quotas import Limit, Use
from scripts.submit.follow import BoardNews, News, Stage
from scripts.terminal import cell, console, table
from scripts.text import plain

_STYLES = {
    Stage.QUEUED: "yellow",
    Stage.RUNNING: "cyan",
    Stage.ACCEPTED: "bold green",
    Stage.REJECTED: "bold red",
    Stage.ENDED: "magenta",
}


class Voice(AbstractContextManager["Voice"]):
    """Says each change once.  With `as_json`, one object a line on stdout; else people read it there."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._console = console()
        self._live: Live | None = None
        self._said: dict[str, BoardNews] = {}
        self._trouble = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def clear(self) -> None:
        """Leave the table as it stands, and go on below it."""
        if self._live:
            self._live.stop()
            self._live = None

    def say(self, event: str, sentence: str, **facts: Any) -> None:
        """Something that happens once."""
        if self._as_json:
            click.echo(json.dumps({"event": event, **facts}))
        else:
            self._console.print(plain(sentence), soft_wrap=True)

    def news(self, news: News) -> None:
        """How the boards stand now."""
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
                click.echo(f"{board.gpu}, {board.mode}: {board.stage}: {plain(board.place or board.summary)}")

    def trouble(self, error: str) -> None:
        """GitHub does not answer; said once for each outage."""
        if not self._trouble:
            click.echo(f"pullrank: {error}; trying again", err=True)
        self._trouble = error

    def _draw(self, news: News) -> None:
        if not self._live:
            self._live = Live(console=self._console, refresh_per_second=4)
            self._live.start()
        self._live.update(_table(news))


def _table(news: News) -> Table | Spinner:
    if not news.boards:
        return Spinner("dots", f"#{news.pull.number}: waits to be read")
    made = table("", "Board", "Mode", "State", "")
    for board in news.boards:
        made.add_row(board.gpu, board.mode, _state(board), cell(board.place or board.summary))
    return made


def _state(board: BoardNews) -> Text | Spinner:
    style = _STYLES[board.stage]
    return Text(board.stage, style) if board.stage.is_done else Spinner("dots", Text(board.stage, style), style=style)


def quota_facts(uses: tuple[Use, ...]) -> list[dict[str, Any]]:
    """What is left of each limit; `next_at` is when the oldest that counts is given back."""
    return [
        {
            "limit": use.limit,
            "used": round(use.used, 1),
            "allowed": use.allowed,
            "left": max(0.0, round(use.allowed - use.used, 1)),
            "next_at": at.isoformat() if (at := _next_at(use)) else None,
        }
        for use in uses
    ]


def quota_sentence(uses: tuple[Use, ...]) -> str:
    """`7 of 10 ranked judgings in 24 hours are left; the next one used is given back at 14:05 UTC`."""
    ranked = next((use for use in uses if use.limit is Limit.RANKED), None)
    if not ranked:
        return ""
    left = f"{max(0, ranked.allowed - round(ranked.used))} of {ranked.allowed} {ranked.limit} are left"
    at = _next_at(ranked)
    return f"{left}; the oldest is given back at {at:%Y-%m-%d %H:%M} UTC" if at else left


def _next_at(use: Use) -> datetime | None:
    return use.parts[0][0] if use.parts and use.limit is not Limit.PENDING else None
