"""Paths of pages, relative to the site's root, and URLs on GitHub."""

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
    return f"authors/{login.lower()}/{name}"  # Logins on GitHub ignore case.


def pull_url(repository: str, judgement: Judgement) -> str:
    """The URL of a judgement's pull request; empty if there is none."""
    number = judgement.submission.pull_request
    return f"{repository}/pull/{number}" if repository and number else ""


def changes_url(repository: str, judgement: Judgement) -> str:
    """The URL of the changes of a judgement's pull request; empty if there is none."""
    pull = pull_url(repository, judgement)
    return f"{pull}/files" if pull else ""


def ledger_url(repository: str, judgement: Judgement) -> str:
    """The URL of the ledger's folder with an author's judgements on a board; empty without a repository."""
    folder = f"{judgement.task}/{judgement.gpu}/{judgement.submission.login}"
    return f"{repository}/tree/ledger/judgements/{folder}" if repository else ""


def raw_url(repository: str, place: Path) -> str:
    """The URL of a raw file of the ledger, for programs; empty without a repository.

    It names the host of raw files itself: the repository's host would redirect, and `verify` follows no redirects.
    """
    server, host, path, *_ = urlsplit(repository)
    raw = "raw.githubusercontent.com" if host == "github.com" else f"raw.{host}"
    return f"{server}://{raw}{path}/ledger/{place.as_posix()}" if repository else ""


def file_url(repository: str, board: Board, judgement: Judgement) -> str:
    """The URL of the judged file at its commit; empty without a repository or commit."""
    submission = judgement.submission
    if not repository or not submission.head_sha:
        return ""
    folder = f"submissions/{board.task.name}/{submission.login}"
    return f"{repository}/blob/{submission.head_sha}/{folder}/{board.task.submission_name}"
