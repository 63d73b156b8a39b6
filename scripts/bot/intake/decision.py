"""What is known when an event arrives, what a decision can hold, and how judgings are requested.  Pure.

    EventFacts ─┬─▶ pull_events        opened, pushed to, ready, closed ─┬─▶ Decision: requests, endings, a notice,
                └─▶ comment_commands   /rank, /rerun, /cancel, …        ─┘             an answer, a reaction

An event that arrives twice makes requests with the same ids; a comment is recognized by its number in the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from harness.records.counters import LaunchFilter
from harness.records.fields import Mode
from harness.records.judgement import Judgement
from scripts.bot.admission.admission import Admission, Competition, PullContents, find_known, why_unranked
from scripts.bot.admission.quotas import QuotaRefusal, find_board_refusal, find_refusal, longest_refusal
from scripts.bot.comment.markers import Notice
from scripts.bot.intake.slash import Command, Verb
from scripts.github.pulls import Account, Permission, PullRequest, Reaction
from scripts.ledger.ledger import RequestStatus
from scripts.ledger.moderation import KnownAccount, Moderation
from scripts.ledger.origin import Origin
from scripts.ledger.request import Ending, EndState, Request, make_id
from scripts.standings.standings import Standings

Endings = tuple[tuple[Request, Ending], ...]


@dataclass(frozen=True, kw_only=True)
class EventFacts:
    """Everything that a decision depends on.  Fields that an event does not need are not read and stay empty.

    `now` is when we handle the event, `happened_at` when it happened by GitHub's clock.  `history` holds the author's
    requests, for this pull request and for others; `on_limited_boards` those of all authors on boards with a limit of
    their own; `judged` has the author's judgements that could be withdrawn, by request id, if some are to be;
    `permission` is the commenter's.  `author_joined_at` is when a new author's account was created, if that
    matters; `has_merged` whether a submission of theirs is on `main`.  `task_faults` says what is wrong with the tasks
    that a pull request changes.
    """

    now: datetime
    pull: PullRequest
    competition: Competition
    contents: PullContents = field(default_factory=PullContents)
    history: tuple[RequestStatus, ...] = ()
    on_limited_boards: tuple[RequestStatus, ...] = ()
    author_joined_at: datetime | None = None
    has_merged: bool = False
    permission: Permission = Permission.NONE
    task_faults: str = ""
    standings: tuple[Standings, ...] = ()
    judged: Mapping[str, Judgement] = field(default_factory=dict)
    happened_at: datetime | None = None

    @property
    def in_time_at(self) -> datetime:
        """The time to compare with a deadline: handling an event late makes no submission late."""
        return min(self.happened_at or self.now, self.now)

    @property
    def of_pull(self) -> tuple[RequestStatus, ...]:
        return tuple(status for status in self.history if status.request.pull_request == self.pull.number)


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What to do.  `why` is a line for the log, `answer` a comment of its own that replies to a command.

    `withdrawals` are the author's own.  `tested_branch` is the branch of this repository on which ci.yml runs.
    `notice` goes at the top of the pull request's comment.  If it is None and `is_settled`, an older notice is removed.
    """

    why: str
    account: KnownAccount | None = None
    origin: Origin | None = None
    requests: tuple[Request, ...] = ()
    endings: Endings = ()
    withdrawals: tuple[Moderation, ...] = ()
    notice: Notice | None = None
    is_settled: bool = False
    answer: str = ""
    reaction: Reaction | None = None
    checks_tasks: bool = False
    tested_branch: str = ""


# Modes and open requests.


def mode_of(facts: EventFacts, admission: Admission) -> tuple[Mode, str]:
    """The mode in which a pull request is judged in its current state, and a remark if that may surprise."""
    if facts.pull.is_draft:
        return Mode.BENCHMARK, ""
    if admission.task.is_open(facts.in_time_at):
        return Mode.RANKED, ""
    return Mode.TEST, f"{why_unranked(admission.task)} This is tested but not ranked."


def is_in_time(facts: EventFacts, admission: Admission, gpu: str) -> bool:
    """Whether a ranked judging may be requested: now, or as a retry of one that was in time and failed on our side."""
    task, since = admission.task, first_asked_at(facts, gpu)
    return task.is_open(facts.in_time_at) or (since is not None and task.is_open(since))


def first_asked_at(facts: EventFacts, gpu: str) -> datetime | None:
    """When this commit's last ranked judging was first requested, if it failed on our side; else None."""
    last = find_last(facts, gpu, Mode.RANKED)
    is_ours = last and last.ending and last.ending.state is EndState.FAILED
    return last.request.in_time_at if last and is_ours else None


def end_open(facts: EventFacts, state: EndState, note: str, among: Iterable[RequestStatus] | None = None) -> Endings:
    """Endings for the pull request's open requests, or for those `among` some.  Rematches stay open."""
    among = facts.of_pull if among is None else among
    open_ones = [status.request for status in among if status.is_open and not status.request.is_rematch]
    return tuple((one, Ending(request=one.id, state=state, at=facts.now, note=note)) for one in open_ones)


def find_last(facts: EventFacts, gpu: str, mode: Mode) -> RequestStatus | None:
    """The last request for the pull request's head on a board in a mode."""
    board = (facts.pull.head_sha, gpu, mode)
    same = [one for one in facts.of_pull if (one.request.head_sha, one.request.gpu, one.request.mode) == board]
    return max(same, key=lambda status: status.request.attempt, default=None)


@dataclass(frozen=True)
class BoardRefusal:
    """Why an author may not use a board yet, whatever their quota; `remark` is for when they may use others."""

    reason: str
    remark: str = ""

    def __str__(self) -> str:
        return self.reason


@dataclass(frozen=True)
class BoardChoice:
    """The boards that may be requested, and why the others may not."""

    gpus: list[str]
    refused: dict[str, QuotaRefusal | BoardRefusal]

    @property
    def reasons(self) -> str:
        return " ".join(dict.fromkeys(map(str, self.refused.values())))

    @property
    def left_out(self) -> tuple[str, ...]:
        """The boards for which a limit has no room now."""
        return tuple(gpu for gpu, refusal in self.refused.items() if isinstance(refusal, QuotaRefusal))


def choose_boards(
    facts: EventFacts,
    gpus: Sequence[str],
    mode: Mode,
    ended: Endings = (),
    asked: Iterable[Request] = (),
    *,
    is_free: bool = False,
) -> BoardChoice:
    """As many of the boards as their own limits and the author's quota allow."""
    if is_free:
        return BoardChoice(list(gpus), {})
    refused = {gpu: refusal for gpu in gpus if (refusal := _refusal_of(gpu, mode, facts, ended))}
    gpus = [gpu for gpu in gpus if gpu not in refused]
    history = _after(facts.history, ended) + [RequestStatus(request=request) for request in asked]
    limits = facts.competition.settings.limits
    for count in range(len(gpus), 0, -1):
        refusal = find_refusal(history, mode, limits, facts.now, wanted=count)
        if not refusal:
            return BoardChoice(gpus[:count], refused)
        refused |= dict.fromkeys(gpus[count - 1 :], refusal)
    return BoardChoice([], refused)


def _after(history: Iterable[RequestStatus], ended: Endings) -> list[RequestStatus]:
    """The requests as they are once this event's endings are written."""
    endings = {request.id: ending for request, ending in ended}
    return [replace(one, ending=one.ending or endings.get(one.request.id)) for one in history]


def _refusal_of(gpu: str, mode: Mode, facts: EventFacts, ended: Endings) -> QuotaRefusal | BoardRefusal | None:
    """Why the author may not use a board, whatever their own quota."""
    settings = facts.competition.settings
    board, days = settings.gpus[gpu], settings.limits.account_days
    if facts.author_joined_at and (welcome_at := facts.author_joined_at + timedelta(days=days)) > facts.now:
        age = f"{days} day{'s' if days > 1 else ''}"
        return BoardRefusal(
            f"Your GitHub account must be at least {age} old to take part here. "
            f"Comment `{_command(mode)}` at {welcome_at:%Y-%m-%d %H:%M} UTC or later."
        )
    if not (board.newcomers or facts.has_merged):
        then = f"comment `{_command(mode, [gpu])}`"
        return BoardRefusal(
            f"`{gpu}` is only for authors with a merged submission. Get one merged on another board, then {then}.",
            f"Not judged on `{gpu}`, which is only for authors with a merged submission: {then} once you have one.",
        )
    assert facts.contents.task
    on_boards = _after(facts.on_limited_boards, ended)
    limits = (board.minutes_per_day, None), (board.board_minutes_per_day, facts.contents.task.name)
    found = [find_board_refusal(on_boards, gpu, minutes, facts.now, task=task) for minutes, task in limits if minutes]
    return longest_refusal(filter(None, found))


@dataclass(frozen=True, kw_only=True)
class ProfileChoice:
    """What to profile: one benchmark, by its number from 1, or all; some launches of a call, or its first ones."""

    case: int | None = None
    launches: LaunchFilter | None = None


def make_requests(
    facts: EventFacts,
    admission: Admission,
    gpus: Iterable[str],
    mode: Mode,
    *,
    by: Account,
    reason: str,
    choices: Mapping[str, ProfileChoice] | None = None,
) -> tuple[Request, ...]:
    """Requests for the pull request's head; `choices` says what to profile, by board."""
    pull, asked = facts.pull, []
    for gpu in gpus:
        last = find_last(facts, gpu, mode)
        attempt = last.request.attempt + 1 if last else 1
        choice = (choices or {}).get(gpu, ProfileChoice())
        is_late = mode is Mode.RANKED and not admission.task.is_open(facts.now)
        since = (first_asked_at(facts, gpu) if is_late else None) or facts.in_time_at
        asked.append(
            Request(
                id=make_id(pull.number, pull.head_sha, gpu, mode, attempt),
                user_id=pull.author.id,
                login=admission.entry.login,
                pull_request=pull.number,
                head_sha=pull.head_sha,
                blob_sha=admission.blob.sha,
                task=admission.task.name,
                gpu=gpu,
                mode=mode,
                case=choice.case,
                launches=choice.launches,
                digest=admission.digest,
                fingerprint=facts.contents.origin.fingerprint if facts.contents.origin else None,
                asked_at=facts.now,
                first_asked_at=since if since < facts.now else None,
                asked_by=by.id,
                reason=reason,
            )
        )
    return tuple(asked)


def newcomer(facts: EventFacts, admission: Admission) -> KnownAccount | None:
    """The author's new entry in the register; None if there is one already."""
    author = facts.pull.author
    if find_known(author, facts.competition):
        return None
    return KnownAccount(user_id=author.id, login=admission.entry.login, first_seen=facts.now)


def about_rest(fitting: BoardChoice, mode: Mode) -> str:
    """The remark on the requested boards for which there is no room, if there is room for others."""
    refusals = dict.fromkeys(fitting.refused.values())
    return " ".join(
        _about(refusal, [gpu for gpu in fitting.refused if fitting.refused[gpu] == refusal], mode)
        for refusal in refusals
    )


def _about(refusal: QuotaRefusal | BoardRefusal, gpus: Sequence[str], mode: Mode) -> str:
    if isinstance(refusal, BoardRefusal):
        return refusal.remark
    when = f"at {refusal.next_at:%Y-%m-%d %H:%M} UTC or later" if refusal.next_at else "when there is room"
    names, command = ", ".join(f"`{gpu}`" for gpu in gpus), _command(mode, gpus)
    limit = f"the limit{' of ' + refusal.boards if refusal.boards else ''} is {refusal.use.allowed} {refusal.use.limit}"
    return f"Not judged on {names}: {limit}. Comment `{command}` {when}."


def _command(mode: Mode, gpus: Sequence[str] = ()) -> str:
    """The comment that requests a judging in a mode."""
    return str(Command(verb=next(verb for verb in Verb if verb.mode is mode), gpus=tuple(gpus)))
