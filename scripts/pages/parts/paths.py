"""Where pages stand, seen from the site's root; and where things stand on GitHub."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from harness.records.judgement import Judgement
from harness.task.task import Board


def board_path(board: Board, name: str = "index.html") -> str:
    return f"{board.task.name}/{board.gpu}/{name}"


def submission_path(board: Board, login: str, digest: str, name: str = "index.html") -> str:
    return f"{board.task.name}/{board.gpu}/{login}/{digest[:12]}/{name}"


def author_path(login: str, name: str = "index.html") -> str:
    return f"authors/{login.lower()}/{name}"  # GitHub's logins are the same in any case


def pull_url(repository: str, judgement: Judgement) -> str:
    """The pull request of a judgement; empty off GitHub."""
    number = judgement.submission.pull_request
    return f"{repository}/pull/{number}" if repository and number else ""


def changes_url(repository: str, judgement: Judgement) -> str:
    """What its pull request changed; empty off GitHub."""
    pull = pull_url(repository, judgement)
    return f"{pull}/files" if pull else ""


def ledger_url(repository: str, judgement: Judgement) -> str:
    """The folder of the ledger that holds an author's judgements of a board; empty off GitHub."""
    folder = f"{judgement.task}/{judgement.gpu}/{judgement.submission.login}"
    return f"{repository}/tree/ledger/judgements/{folder}" if repository else ""


def raw_url(repository: str, place: Path) -> str:
    """A file of the ledger as it is, for programs; empty off GitHub.

    On the very host that holds such files: the repository's own leads there, and `verify` follows nobody to another.
    """
    server, host, path, *_ = urlsplit(repository)
    raw = "raw.githubusercontent.com" if host == "github.com" else f"raw.{host}"
    return f"{server}://{raw}{path}/ledger/{place.as_posix()}" if repository else ""


def file_url(repository: str, board: Board, judgement: Judgement) -> str:
    """The very file that was judged, at its commit; empty off GitHub."""
    submission = judgement.submission
    if not repository or not submission.head_sha:
        return ""
    folder = f"submissions/{board.task.name}/{submission.login}"
    return f"{repository}/blob/{submission.head_sha}/{folder}/{board.task.submission_name}"
