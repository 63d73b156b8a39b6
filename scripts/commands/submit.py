"""`pullrank submit FILE` and `pullrank watch`: open a pull request with a file and follow it until it is judged.

`--json` prints one object per line, as things happen:

    {"event": "tested", "gpu", "verdict", "message"}          on this machine; or "not tested" with a "reason"
    {"event": "submitted", "pull_request", "url", "head_sha", "branch", "repository", "draft", "pushed", "opened"}
    {"event": "board", "gpu", "mode", "state", "summary", "rank", "of", "gap", "place", "result"}   at each change
    {"event": "refused", "reason"}                            by the bot: Markdown
    {"event": "left out", "gpus", "reason"}                   boards that exceed the quota: Markdown
    {"event": "end", "exit_code", "boards", "quota", "site"}  the last line, except after an error (2, 3) or Ctrl-C
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.records.errors import JudgeError
from harness.records.fields import Mode
from harness.records.verdict import Verdict
from harness.task.submission import Submission, read_submission
from harness.task.task import Task
from scripts.boards.judgement_tables import show
from scripts.commands.judge_file import find_task, judge_here
from scripts.common.options import PATH, in_repository, in_sandbox
from scripts.common.terminal import console
from scripts.competition.completion import judged_gpu_names, task_names
from scripts.competition.repository import ROOT, UPDATE, choose_board
from scripts.competition.settings import SETTINGS, load_settings
from scripts.github.access import CLASSIC_TOKEN, connect, require_repository, require_token, server_url
from scripts.github.contribute import Contributor, Sent, explaining
from scripts.github.pulls import GitHubError, RateLimitError
from scripts.submit.ending import ClosingLine
from scripts.submit.follow import PullStatus, is_submission, look
from scripts.submit.live_table import Voice
from scripts.submit.prepare import PreparedSubmission, SubmitError, find_stale, prepare, read_accounts, with_gpus

if TYPE_CHECKING:
    from scripts.github.gh import GitHub

RIGHTS = "a classic one with `public_repo` and `workflow`"
MAX_FAILURES = 30
"""Failed requests to GitHub in a row after which following ends."""
ANSWER_S = 120.0
"""Seconds without an answer from the bot after which a remark says so."""
INTERRUPTED = 130


class _RequestPause(click.FloatRange):
    """A time between a tenth of a second and an hour."""

    def __init__(self) -> None:
        super().__init__(min=0.1, max=3600)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        seconds = float(super().convert(value, param, ctx))
        return seconds if not math.isnan(seconds) else self.fail("nan is not a time.", param, ctx)


_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object per event.")
_EVERY = click.option(
    "--every", type=_RequestPause(), default=10.0, show_default=True, help="Seconds between requests."
)


@click.command()
@click.argument("file", type=PATH)
@click.option("--task", shell_complete=task_names, help="Task name. Default: from the file's directive or folder.")
@click.option(
    "--gpu",
    multiple=True,
    shell_complete=judged_gpu_names,
    help="Judge on this board only (repeatable). Adds a line to the file.",
)
@click.option("--draft", is_flag=True, help="Open a draft: tested and timed, not ranked.")
@click.option(
    "--test/--no-test", default=True, help="Test the file on this machine first, if possible. Default: --test."
)
@in_sandbox
@click.option("--wait/--no-wait", default=True, help="Follow the pull request until it is judged. Default: --wait.")
@in_repository
@_EVERY
@_JSON
def submit(
    file: Path,
    task: str | None,
    gpu: tuple[str, ...],
    draft: bool,
    test: bool,
    sandbox: str,
    wait: bool,
    repo: str | None,
    every: float,
    as_json: bool,
) -> int:
    """Open a pull request with a file and follow it until it is judged.

    Checks and tests the file on this machine, forks the competition, commits the file, and opens your pull request for
    this task or updates the open one. Ctrl-C stops following; the judging goes on.

    Exits with 0 if all boards accepted the file, 1 if one did not, 2 if it could not be submitted, was refused, or
    exceeds the quota on a board, 3 if GitHub or the judge failed.

    Example: pullrank submit kernel.py --task vectoradd --draft
    """
    submission = read_submission(file)
    wanted = find_task(file, submission, task, None)
    token = require_token(RIGHTS, CLASSIC_TOKEN)
    with Voice(as_json=as_json) as voice, connect(require_repository(repo), token) as github:
        ending = ClosingLine(github=github, token=token, voice=voice)
        contributor = Contributor(github)
        named = _named(with_gpus(submission, gpu, wanted), wanted, contributor.me.login)
        _require_current(contributor, wanted, tests=test)
        parcel = _prepared(contributor, named, wanted, draft=draft)
        if test and not _is_accepted(named, parcel, sandbox, voice, as_json=as_json):
            return ending.say(contributor.me.id, 1)
        title = f"{wanted.name}: {contributor.me.login}"
        with _stopped_with(voice, "it may have been submitted already; `pullrank watch` shows it"):
            sent = contributor.send(parcel.path, parcel.source, branch=parcel.branch, title=title, draft=draft)
        with _left_to_judge(voice, sent.number):
            then = "" if wait else f" `pullrank watch {sent.number}` follows it."
            voice.say("submitted", _sentence(sent) + then, **_facts(sent))
            return _follow(ending, sent.number, every) if wait else ending.say(contributor.me.id, 0)


@click.command()
@click.argument("number", type=click.IntRange(min=1), required=False)
@in_repository
@_EVERY
@_JSON
def watch(number: int | None, repo: str | None, every: float, as_json: bool) -> int:
    """Follow a pull request until it is judged.

    NUMBER defaults to your newest open submission, else to your newest closed one. Exits like `pullrank submit`.

    Example: pullrank watch 12 --repo OWNER/NAME
    """
    token = require_token(RIGHTS, CLASSIC_TOKEN)
    with Voice(as_json=as_json) as voice, connect(require_repository(repo), token) as github:
        number = number or _newest(github)
        with _left_to_judge(voice, number):
            return _follow(ClosingLine(github=github, token=token, voice=voice), number, every)


def _newest(github: GitHub) -> int:
    me = Contributor(github).me
    with explaining(github.repository):
        # An accepted pull request is merged, and thereby closed.
        for pulls in (github.open_pulls, github.closed_pulls):
            mine = sorted((pull for pull in pulls() if pull.author.id == me.id), key=lambda one: -one.number)
            if found := next((pull for pull in mine if is_submission(github, pull)), None):
                return found.number
    raise SubmitError(
        f"{me.login} has no pull request with a submission in {github.repository}; `pullrank submit FILE` opens one"
    )


# Before the file is sent.


def _named(submission: Submission, task: Task, login: str) -> Submission:
    """The file under the name that it gets in the repository."""
    wanted = Path(task.name_of(submission.digest))
    if Path(submission.name).suffix != wanted.suffix:
        raise SubmitError(f"the task {task.name} takes a {wanted.suffix} file, not {submission.name}")
    return replace(submission, login=login, name=wanted.name)


def _prepared(contributor: Contributor, submission: Submission, task: Task, *, draft: bool) -> PreparedSubmission:
    try:
        accounts = read_accounts(contributor)
        return prepare(submission, task, contributor.me, load_settings(ROOT / SETTINGS), accounts, draft=draft)
    except SubmitError as error:
        # Machines, limits and bans may have changed since.
        theirs = contributor.files_of(SETTINGS.parent.as_posix()).get(SETTINGS.name)
        if not theirs or not find_stale((ROOT / SETTINGS).parent, {SETTINGS.name: theirs}):
            raise
        raise SubmitError(
            f"{error}\n{SETTINGS} here differs from the competition's: update it with {UPDATE}, and try again"
        ) from None


def _require_current(contributor: Contributor, task: Task, *, tests: bool) -> None:
    """Check that the competition has the task and, if the file is tested here, that the local copy is the same."""
    theirs = contributor.files_of(f"tasks/{task.name}")
    if not theirs:
        raise SubmitError(f"the competition has no task {task.name}: name the right one with --repo OWNER/NAME")
    if tests and (stale := find_stale(task.folder, theirs)):
        raise SubmitError(
            f"this copy of the task differs from the competition's: {', '.join(stale[:3])} in {task.folder}. "
            f"Update it with {UPDATE}; --no-test submits without testing here"
        )


def _is_accepted(
    submission: Submission, parcel: PreparedSubmission, sandbox: str, voice: Voice, *, as_json: bool
) -> bool:
    """Whether the file passes the tests on this machine; true if they cannot be run."""
    gpu = "CPU" if "CPU" in parcel.gpus else parcel.gpus[0]
    try:
        board = choose_board(parcel.task, gpu)
        judgement = judge_here(board, submission, Mode.TEST, name=submission.name, sandbox=sandbox)
        reason = judgement.message if judgement.verdict is Verdict.JUDGING_ERROR else None
    except (JudgeError, ImportError, OSError) as error:
        reason = str(error)
    if reason is not None:
        voice.say("not tested", f"Not tested on this machine: {reason}", gpu=gpu, reason=reason)
        return True
    is_accepted = judgement.verdict is Verdict.ACCEPTED
    if not is_accepted and not as_json:
        show(judgement, console())
    end = "accepted" if is_accepted else "not submitted; fix the file, or use --no-test"
    sentence = f"Tested on this machine ({gpu}): {end}."
    voice.say("tested", sentence, gpu=gpu, verdict=judgement.verdict, message=judgement.message)
    return is_accepted


# After the file is sent.


@contextmanager
def _left_to_judge(voice: Voice, number: int) -> Iterator[None]:
    """Once the pull request exists, say at Ctrl-C and in errors that the judging goes on without this command."""
    then = f"the judging goes on; `pullrank watch {number}` shows it"
    with _stopped_with(voice, then):
        try:
            yield
        except GitHubError as error:
            raise GitHubError(f"{error}. #{number} is open, and {then}", error.status) from None


@contextmanager
def _stopped_with(voice: Voice, sentence: str) -> Iterator[None]:
    """Print `sentence` at Ctrl-C, and exit."""
    try:
        yield
    except KeyboardInterrupt:
        voice.clear()
        click.echo(f"pullrank: {sentence}", err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None


def _sentence(sent: Sent) -> str:
    kind = "draft, tested and timed only" if sent.is_draft else "to be ranked"
    if not sent.pushed:
        return f"{sent.url} already has this file ({kind})."
    return f"{'Opened' if sent.opened else 'Pushed to'} {sent.url} ({kind})."


def _facts(sent: Sent) -> dict[str, object]:
    facts = sent.model_dump()
    return {"pull_request": facts.pop("number"), "draft": facts.pop("is_draft"), **facts}


def _follow(ending: ClosingLine, number: int, every_s: float) -> int:
    voice = ending.voice
    news = _until_done(ending.github, number, voice, every_s)
    voice.clear()
    if news.refusal:
        voice.say("refused", f"Refused: {news.refusal}", reason=news.refusal)
    elif not news.boards:
        voice.say("refused", f"#{number} is closed.", reason="closed")
    if news.left_out:
        voice.say("left out", news.remark, gpus=news.left_out, reason=news.remark)
    return ending.say_of(news)


def _until_done(github: GitHub, number: int, voice: Voice, every_s: float) -> PullStatus:
    failures, is_known, silent_from = 0, False, time.monotonic() + ANSWER_S
    while True:
        try:
            news = look(github, number)
            voice.news(news)
            if news.is_done:
                return news
            if not (is_known or news.boards or is_submission(github, news.pull)):
                follows = "`pullrank watch` follows your newest"
                raise SubmitError(f"#{number} is not a submission, so the bot does not judge it; {follows}")
            is_known, failures = True, 0
            if not news.boards and time.monotonic() > silent_from:
                runs = f"{server_url()}/{github.repository}/actions/workflows/intake.yml"
                voice.remark(f"the bot has not answered yet. If {runs} shows no run, tell the organisers")
                silent_from = math.inf
        except GitHubError as error:
            failures += 1
            if error.status in (401, 403, 404) and not isinstance(error, RateLimitError):
                way_out = "`gh auth status` shows the token; `pullrank watch` follows your newest"
                raise SubmitError(f"#{number} cannot be followed: {error}. {way_out}") from None
            if failures >= MAX_FAILURES:
                raise
            voice.trouble(str(error))
        time.sleep(every_s * min(failures + 1, 6))
