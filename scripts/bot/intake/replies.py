"""What is answered to `/help` and `/show`, as Markdown of ours.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from scripts.bot.admission.quotas import Use
from scripts.common.text import format_gap, format_interval
from scripts.ledger.ledger import RequestStatus
from scripts.standings.standings import Row, Standings

HELP = """\
| Comment | What it does |
| :-- | :-- |
| `/rank` | ranks the file, once the pull request is ready for review |
| `/benchmark` | runs the tests, then times it; unofficial |
| `/test` | runs the tests |
| `/profile` | runs the tests, then says where the time of a call goes |
| `/rerun` | judges the same file once more |
| `/cancel` | stops what waits or runs |
| `/show` | shows where you stand, and what is left of your quota |
| `/check` | runs a changed task; for maintainers |

Write one command in a comment, on a line of its own; `gpu=NAME` narrows it to a board, as in `/rank gpu=CPU`.
A draft is tested and timed with every push; a pull request that is ready for review is ranked.
"""


def show(
    login: str, boards: Sequence[Standings], waiting: Iterable[RequestStatus], used: Iterable[Use], now: datetime
) -> str:
    """Where an author stands on a task's boards, what waits, and what is left of the quota."""
    parts = [_boards(login, boards), _waiting(waiting, now), _quota(used)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _boards(login: str, boards: Sequence[Standings]) -> str:
    if not boards:
        return ""
    rows = (f"| `{one.board.gpu}` | {_first(one)} | {_own(one, login)} | {len(one.rows)} |" for one in boards)
    return "\n".join(["| Board | First place | You | Entries |", "| :-- | :-- | :-- | --: |", *rows])


def _first(standings: Standings) -> str:
    champion = standings.champion
    return f"`{champion.login}`, {format_interval(champion.score_us)}" if champion else "still free"


def _own(standings: Standings, login: str) -> str:
    row = standings.find_row(login)
    return f"rank {row.rank}, {_time(row)}" if row else "no row yet"


def _time(row: Row) -> str:
    gap = "" if row.champion else f", {format_gap(row.gap)}"
    return format_interval(row.score_us) + gap


def _waiting(waiting: Iterable[RequestStatus], now: datetime) -> str:
    lines = [
        f"- `{one.gpu}`, {one.mode}, of `{one.head_sha[:7]}`: for {_minutes(now - one.asked_at)}"
        for one in (status.request for status in waiting)
    ]
    return "\n".join(["Not judged yet:", "", *lines]) if lines else "Nothing waits to be judged."


def _minutes(since: timedelta) -> str:
    minutes = max(0, round(since / timedelta(minutes=1)))
    return f"{minutes} minute{'' if minutes == 1 else 's'}"


def _quota(used: Iterable[Use]) -> str:
    shares = [f"{use.used:.0f} of {use.allowed} {use.limit}" for use in used]
    return f"Quota used: {', '.join(shares)}." if shares else ""
