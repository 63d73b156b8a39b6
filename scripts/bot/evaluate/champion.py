"""Find the champion of a board, whom a challenger must duel, and the champion's file.

ledger ─► standings ─► first place ─► its file: from `main`, or else, by git, from the commit that was judged
"""

from __future__ import annotations

from pathlib import Path

from harness.task.bundle import sha256
from harness.task.submission import MAX_BYTES, Champion, Submission
from harness.task.task import Board, Task
from scripts.bot.admission.path_rule import entry_path
from scripts.common.git_command import GitError
from scripts.github.fork import Fork
from scripts.ledger.ledger import Ledger
from scripts.ledger.moderation import Moderated
from scripts.ledger.request import Request
from scripts.standings.rows import Row
from scripts.standings.standings import Standings, standings


def find_champion(
    board: Board, ledger: Ledger, request: Request, source: bytes, fork: Fork, root: Path
) -> Champion | None:
    """The champion that a file must duel if it could be first; None if no duel can be due or that file is gone."""
    if not (request.is_ranked and board.task.is_refereed):
        return None
    now = Moderated.after(ledger.moderations())
    table = standings(board, now.counted(ledger.judgements(board.task.name, board.gpu).judgements))
    row = due_opponent(table, request, sha256(source))
    theirs = _read_file(row, board.task, fork, root) if row else None
    if not row or theirs is None:
        return None
    name, user_id = board.task.submission_name, row.judgements[-1].submission.user_id
    file = Submission(login=row.login, source=theirs, name=name, user_id=user_id)
    return Champion(submission=file, score=row.score_us, nominal_us=table.nominal_us)


def due_opponent(table: Standings, request: Request, digest: str) -> Row | None:
    """The row that a file could push from first place; None if it is the author's own or has the same file."""
    first = table.champion
    if not first or first.login.casefold() == request.login.casefold() or first.digest == digest:
        return None
    return first


def _read_file(row: Row, task: Task, fork: Fork, root: Path) -> bytes | None:
    """The champion's file: from `main` if it was merged, else from the commit that was judged."""
    path = entry_path(task.name, row.login, task.submission_name)
    merged = root / path
    if merged.is_file() and sha256(content := merged.read_bytes()) == row.digest:
        return content
    try:
        head_sha = row.judgements[-1].submission.head_sha
        _, content = fork.read(head_sha, path, MAX_BYTES) if head_sha else (None, b"")
    except GitError:
        return None  # The commit may be gone with its fork; the duel stays due.
    return content if sha256(content) == row.digest else None
