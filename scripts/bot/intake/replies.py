"""The answers to `/help` and `/show`, as Markdown.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from scripts.bot.admission.quotas import LimitUse
from scripts.common.text import format_gap, format_interval
from scripts.ledger.ledger import RequestStatus
from scripts.standings.standings import Standings

HELP = """\
| Comment | What it does |
| :-- | :-- |
| `/rank` | Rank the file; the pull request must be ready for review |
| `/benchmark` | Run the tests, then time the file; unofficial |
| `/test` | Run the tests |
| `/profile` | Run the tests, then show where the time of a call goes; `/profile 2` profiles only the second benchmark |
| `/profile kernel=gemm skip=3 count=1` | Profile only these launches of a call, on an NVIDIA GPU |
| `/rerun` | Judge the same file again |
| `/cancel` | Cancel queued and running judgings |
| `/withdraw` | Take your results off the boards on which this pull request was ranked |
| `/show` | Show your ranks, your open judgings and your quota |
| `/check` | Run changed tasks; for maintainers |
| `/ci` | Run the repository's tests on one of its branches; for maintainers |

Write one command per comment, on a line of its own; `gpu=NAME` limits it to one board, as in `/rank gpu=CPU`.
Every push to a draft is tested and timed. A pull request that is ready for review is ranked until the task's deadline.
"""

WITHDRAWN = (
    "You have withdrawn from {}. Your results there no longer rank, and open judgings there are cancelled. The site "
    "lists your results as withdrawn, with the date."
)
COME_BACK_AFTER_REMOVAL = (
    "A maintainer can merge this pull request, which removes the file. While the task is open, you can come back: "
    "comment `/rank` on the pull request of the file that you want to rank. Its earlier results count again, too."
)
COME_BACK = (
    "While the task is open, you can come back: comment `/rank`, or open another pull request. If a withdrawn file is "
    "judged again, its earlier results count again, too."
)


def show(
    login: str, boards: Sequence[Standings], waiting: Iterable[RequestStatus], used: Iterable[LimitUse], now: datetime
) -> str:
    """An author's ranks on a task's boards, open judgings, and used quota."""
    parts = [_boards(login, boards), _waiting(waiting, now), _quota(used)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _boards(login: str, boards: Sequence[Standings]) -> str:
    if not boards:
        return ""
    rows = (f"| `{one.board.gpu}` | {_first(one)} | {_own(one, login)} | {len(one.rows)} |" for one in boards)
    return "\n".join(["| Board | First place | You | Entries |", "| :-- | :-- | :-- | --: |", *rows])


def _first(standings: Standings) -> str:
    if not standings.rows:
        return "no entries yet"
    first = standings.rows[0]
    return f"`{first.login}`, {format_interval(first.score_us)}{', provisional' if first.provisional else ''}"


def _own(standings: Standings, login: str) -> str:
    row = standings.find_row(login)
    if not row:
        return "not ranked yet"
    gap = "" if row.rank == 1 else f", {format_gap(row.gap)}"
    return f"rank {row.rank}, {format_interval(row.score_us)}{gap}{', provisional' if row.provisional else ''}"


def _waiting(waiting: Iterable[RequestStatus], now: datetime) -> str:
    lines = [
        f"- `{one.gpu}`, {one.mode}, commit `{one.head_sha[:7]}`: for {_minutes(now - one.asked_at)}"
        for one in (status.request for status in waiting)
    ]
    return "\n".join(["Queued or running:", "", *lines]) if lines else "Nothing is queued or running."


def _minutes(since: timedelta) -> str:
    minutes = max(0, round(since / timedelta(minutes=1)))
    return f"{minutes} minute{'' if minutes == 1 else 's'}"


def _quota(used: Iterable[LimitUse]) -> str:
    shares = [f"{use.used:.0f} of {use.allowed} {use.limit}" for use in used]
    return f"Quota used: {', '.join(shares)}." if shares else ""
