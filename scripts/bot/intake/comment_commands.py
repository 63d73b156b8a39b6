"""Decide what to do about a command in a comment.  Pure.

    who     the author, and everybody with write access; by numeric id
    what    /test /benchmark /profile /rank /rerun     request judgings
            /cancel                                    ends open requests
            /withdraw                                  takes results off the boards; for their author only
            /show /help                                get an answer
            /check                                     is for maintainers, on changed tasks
            /ci                                        is for maintainers, on branches of this repository

A refusal is a reply to the comment.  Strangers get no reply, because every reply costs API requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta

from harness.records.errors import did_you_mean
from harness.records.fields import Mode
from scripts.bot.admission.admission import (
    Admission,
    Refused,
    admit,
    find_entry,
    folder_of,
    removed_task,
    require_gpus,
    require_welcome,
    why_unranked,
)
from scripts.bot.admission.path_rule import SubmissionPath, TaskChange
from scripts.bot.admission.quotas import limit_uses
from scripts.bot.comment.markers import Notice, Tone
from scripts.bot.intake.decision import (
    Decision,
    EventFacts,
    ProfileChoice,
    about_rest,
    choose_boards,
    end_open,
    find_last,
    first_asked_at,
    is_in_time,
    make_requests,
    mode_of,
    newcomer,
)
from scripts.bot.intake.events import CommentEvent
from scripts.bot.intake.replies import COME_BACK, COME_BACK_AFTER_REMOVAL, HELP, WITHDRAWN, show
from scripts.bot.intake.slash import Command, SlashError, Verb
from scripts.bot.intake.withdrawals import ranked_beside, ranked_in, was_obeyed, withdraw
from scripts.common.text import fence, inline
from scripts.github.pulls import Comment, Reaction
from scripts.ledger.ledger import RequestStatus
from scripts.ledger.request import EndState, Request

_SAME_MOMENT, _SOONEST_PUSH = timedelta(seconds=5), timedelta(seconds=1)
"""How much later than a comment GitHub may date the update of its pull request; and the soonest push after it."""


def decide_on_comment(event: CommentEvent, facts: EventFacts) -> Decision:
    author, commenter = facts.pull.author, event.comment.author
    if commenter.id != author.id and not facts.permission.can_write:
        return Decision(why="a stranger's command")
    try:
        return _obey(event, facts)
    except (Refused, SlashError) as refused:
        return Decision(why="refused", answer=str(refused), reaction=Reaction.CONFUSED)


def _obey(event: CommentEvent, facts: EventFacts) -> Decision:
    command = event.command
    if isinstance(command, SlashError):
        raise command
    if command.verb is Verb.HELP:
        return Decision(why="answered", answer=HELP)
    if command.verb is Verb.CHECK:
        return _check(event.comment, facts)
    if command.verb is Verb.CI:
        return _run_ci(facts)
    require_welcome(facts.pull.author.id, facts.pull.author.login, facts.competition)
    # The author may have changed the pull request's target since its judging began.
    if command.verb is Verb.CANCEL:
        return _cancel(event.comment, command.gpus, facts)
    if command.verb is Verb.WITHDRAW:
        return _withdraw(event.comment, command.gpus, facts)
    if facts.pull.base_ref != event.default_branch:
        raise Refused(f"This pull request does not target `{event.default_branch}`, so it is not judged.")
    change = find_entry(facts.contents.files, facts.pull.author, facts.competition)
    if not isinstance(change, SubmissionPath):
        raise Refused(f"This pull request does not change a submission, so `/{command.verb}` has nothing to do.")
    if command.verb is Verb.SHOW:
        return Decision(why="answered", answer=_show(change, facts))
    # A merged pull request cannot be reopened, but some boards may not have judged it yet.
    if not (facts.pull.is_open or facts.pull.merged):
        raise Refused("This pull request is closed. Reopen it to have it judged.")
    admission = admit(change, facts.contents, facts.competition)
    gpus = require_gpus(command.gpus, admission.task, admission.boards, facts.competition) or admission.gpus
    if command.verb is Verb.RERUN:
        modes = {gpu: _mode_to_repeat(facts, admission, gpu) for gpu in gpus}
        return _ask_by_comment(event, facts, admission, modes, _choices_to_repeat(facts, modes))
    mode = command.verb.mode
    assert mode
    _require_rankable(mode, gpus, facts, admission)
    return _ask_by_comment(event, facts, admission, dict.fromkeys(gpus, mode), _choices(command, gpus, admission))


def _show(entry: SubmissionPath, facts: EventFacts) -> str:
    login = folder_of(facts.pull.author, facts.competition)
    waiting = [status for status in facts.of_pull if status.is_open]
    used = limit_uses(facts.history, facts.competition.settings.limits, facts.now)
    return f"Standings of `{login}` in `{entry.task}`:\n\n{show(login, facts.standings, waiting, used, facts.now)}"


def _check(comment: Comment, facts: EventFacts) -> Decision:
    _require_maintainer(Verb.CHECK, facts)
    if not isinstance(find_entry(facts.contents.files, facts.pull.author, facts.competition), TaskChange):
        raise Refused("`/check` runs changed tasks, and this pull request changes none.")
    # Any later update may be a push: GitHub may not report the time of a push to a fork yet.
    if max(facts.pull.head_at - _SOONEST_PUSH, facts.pull.updated_at - _SAME_MOMENT) > comment.created_at:
        head = facts.pull.head_sha[:7]
        raise Refused(
            f"This pull request has changed since your comment, perhaps by a push. Read `{head}`, the newest commit, "
            "and comment again."
        )
    if facts.task_faults:
        raise Refused(f"The task does not load:\n\n{fence(facts.task_faults, 6000)}")
    return Decision(why="a maintainer runs the changed tasks", checks_tasks=True, reaction=Reaction.ROCKET)


def _run_ci(facts: EventFacts) -> Decision:
    """Run ci.yml on the head's branch.

    A fork's code never gets a token, so the branch must be this repository's: only accounts with write access, and
    Dependabot, push to it.
    """
    pull = facts.pull
    _require_maintainer(Verb.CI, facts)
    if not pull.is_of_repository:
        raise Refused(
            "`/ci` runs only branches of this repository, because a fork's code never gets a token. Changed tasks of a "
            "fork run with `/check`. To run anything else, read it and push it to a branch of this repository."
        )
    if not pull.is_open:
        raise Refused("This pull request is closed. Reopen it to run the tests.")
    return Decision(why="a maintainer runs the tests", tested_branch=pull.head_ref, reaction=Reaction.ROCKET)


def _require_maintainer(verb: Verb, facts: EventFacts) -> None:
    if not facts.permission.can_write:
        raise Refused(f"`/{verb}` runs code on our machines, so it needs write access to this repository.")


def _cancel(comment: Comment, gpus: Sequence[str], facts: EventFacts) -> Decision:
    """End the requests that are older than the comment; once, however often and late its event arrives."""
    note = f"/cancel, comment {comment.id}"
    if any(status.ending and status.ending.note == note for status in facts.of_pull):
        return Decision(why="already cancelled by the same comment")
    named = [status for status in facts.of_pull if not gpus or status.request.gpu in gpus]
    known = [status for status in named if status.request.in_time_at <= comment.created_at]
    ended = end_open(facts, EndState.CANCELLED, note, among=known)
    if not ended and end_open(facts, EndState.CANCELLED, note, among=named):
        raise Refused("The open judgings here are newer than your comment. Comment `/cancel` again to cancel them.")
    if not ended:
        raise Refused(f"There is nothing to cancel here{_on_boards(gpus, facts.of_pull) if gpus else '.'}")
    return Decision(why=f"cancels {len(ended)}", endings=ended, reaction=Reaction.THUMBS_UP)


def _withdraw(comment: Comment, gpus: Sequence[str], facts: EventFacts) -> Decision:
    """Withdraw all that the author had ranked on these boards before the comment, in any pull request; once."""
    if comment.author.id != facts.pull.author.id:
        raise Refused("Only the author of a result can withdraw it. Maintainers use `pullrank moderate`.")
    name, note = f"withdraw-{comment.id}", f"/withdraw, comment {comment.id}"
    if was_obeyed(facts, name, note):
        return Decision(why="already withdrawn by the same comment")
    removed = removed_task(facts.contents.files, facts.pull.author, facts.competition)
    ranked = ranked_in(facts.history, removed) if removed else ranked_beside(facts.history, facts.pull.number)
    if gpus:
        ranked = [one for one in ranked if one.request.gpu in gpus]
    reason = f"Commented /withdraw on #{facts.pull.number}."
    taken_back = withdraw(facts, ranked, comment.created_at, name=name, note=note, reason=reason)
    if not taken_back:
        where = f" in `{removed}`." if removed else " on the boards of this pull request."
        raise Refused(f"You have no results to withdraw{_on_boards(gpus, facts.history) if gpus else where}")
    merged = COME_BACK_AFTER_REMOVAL if removed else f"A merged file does not change.\n\n{COME_BACK}"
    return Decision(
        why=f"withdraws {len(taken_back.decisions)} judgements",
        withdrawals=taken_back.decisions,
        endings=taken_back.endings,
        answer=f"{WITHDRAWN.format(taken_back.places)} {merged}\n",
        reaction=Reaction.THUMBS_UP,
    )


def _on_boards(gpus: Sequence[str], asked: Iterable[RequestStatus]) -> str:
    """The end of a sentence, as in `on H100.`, with the name that the author probably meant."""
    known = sorted({status.request.gpu for status in asked})
    near = (did_you_mean(gpu, known) for gpu in gpus if gpu not in known)
    return f" on {' and '.join(map(inline, gpus))}{next(filter(None, near), '.')}"


def _require_rankable(mode: Mode, gpus: Sequence[str], facts: EventFacts, admission: Admission) -> None:
    if mode is Mode.RANKED and facts.pull.is_draft:
        raise Refused("Drafts are not ranked. Mark the pull request as ready for review to have it ranked.")
    if mode is Mode.RANKED and not all(is_in_time(facts, admission, gpu) for gpu in gpus):
        raise Refused(f"{why_unranked(admission.task)} `/test` and `/benchmark` still work, but nothing is ranked.")


def _mode_to_repeat(facts: EventFacts, admission: Admission, gpu: str) -> Mode:
    """The mode of the board's last request for this commit, if still allowed; else the mode of the state."""
    if not facts.pull.is_draft and first_asked_at(facts, gpu) and is_in_time(facts, admission, gpu):
        return Mode.RANKED
    of_head = [status.request for status in facts.of_pull if status.request.head_sha == facts.pull.head_sha]
    last = next((request for request in reversed(of_head) if request.gpu == gpu), None)
    mode, _ = mode_of(facts, admission)
    return last.mode if last and last.mode is not Mode.RANKED else mode


def _choices_to_repeat(facts: EventFacts, modes: Mapping[str, Mode]) -> dict[str, ProfileChoice]:
    """What a board's last profile of this commit covered, for the boards that are profiled again."""
    profiles = {gpu: find_last(facts, gpu, mode) for gpu, mode in modes.items() if mode is Mode.PROFILE}
    requests = {gpu: last.request for gpu, last in profiles.items() if last}
    return {gpu: ProfileChoice(case=request.case, launches=request.launches) for gpu, request in requests.items()}


def _choices(command: Command, gpus: Sequence[str], admission: Admission) -> dict[str, ProfileChoice]:
    """What to profile, by board.

    Raises:
        Refused: a board has no such benchmark, or launches are chosen and every board is `CPU`.
    """
    if command.case:
        _require_benchmark(command.case, gpus, admission)
    if command.launches and set(gpus) == {"CPU"}:
        raise Refused("`kernel=`, `skip=` and `count=` choose launches on a GPU, and this would be profiled on `CPU`.")
    on_gpu = ProfileChoice(case=command.case, launches=command.launches)
    return {gpu: ProfileChoice(case=command.case) if gpu == "CPU" else on_gpu for gpu in gpus}


def _require_benchmark(number: int, gpus: Sequence[str], admission: Admission) -> None:
    for gpu in gpus:
        board = admission.task.board(gpu)
        if not board.benchmarks_to_profile(number):
            count = len(board.benchmarks)
            numbers = "only 1" if count == 1 else f"1 to {count}"
            raise Refused(f"`{board.task.name}` has no benchmark {number} on `{gpu}`: name {numbers}.")


def _ask_by_comment(
    event: CommentEvent,
    facts: EventFacts,
    admission: Admission,
    modes: dict[str, Mode],
    choices: Mapping[str, ProfileChoice],
) -> Decision:
    assert isinstance(event.command, Command)
    by, reason = event.comment.author, f"/{event.command.verb}, comment {event.comment.id}"
    if any(status.request.reason == reason for status in facts.of_pull):
        return Decision(why="already requested by the same comment")
    waiting = {gpu for gpu, mode in modes.items() if (last := find_last(facts, gpu, mode)) and last.is_open}
    if waiting == set(modes):
        what = "A profile" if event.command.verb is Verb.PROFILE else "This"  # perhaps of another benchmark
        raise Refused(f"{what} is already queued; the comment above says since when. `/cancel` stops it.")
    asked: list[Request] = []
    left_out: list[str] = []
    reasons: list[str] = []
    remarks: list[str] = []
    is_free = by.id != facts.pull.author.id
    for mode in dict.fromkeys(modes.values()):
        gpus = [gpu for gpu in modes if modes[gpu] is mode and gpu not in waiting]
        fitting = choose_boards(facts, gpus, mode, asked=asked, is_free=is_free)
        asked += make_requests(facts, admission, fitting.gpus, mode, by=by, reason=reason, choices=choices)
        if fitting.refused:
            reasons.append(fitting.reasons)
            left_out += fitting.left_out
            remarks.append(about_rest(fitting, mode))
    if not asked:
        raise Refused(" ".join(dict.fromkeys(reasons)))
    return Decision(
        why=f"requests {len(asked)} of {len(modes)} boards",
        account=newcomer(facts, admission),
        origin=facts.contents.origin,
        requests=tuple(asked),
        notice=Notice(text=" ".join(remarks), tone=Tone.REMARK, left_out=tuple(left_out)) if remarks else None,
        is_settled=True,
        reaction=Reaction.ROCKET,
    )
