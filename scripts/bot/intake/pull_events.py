"""Decide what to do when something happens to a pull request.  Pure.

    draft                    tested and benchmarked, unofficially           ┐
    ready for review         ranked; only tested once the task is closed    ┘ on each board, as the quota allows
    a push                   open requests for older commits are superseded
    closed                   open requests are cancelled
    drafted                  open ranked requests are cancelled
    merged                   other boards still judge it: a row needs no open pull request
    a removed submission     its author's results in the task are withdrawn when they open it as ready for review, or
                             mark it as ready; after any other event, the notice says how to withdraw them
    changed tasks            loaded; run after a maintainer's /check

A refusal goes at the top of the pull request's comment.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.records.fields import Mode
from scripts.bot.admission.admission import Admission, Refused, admit, find_entry, require_welcome
from scripts.bot.admission.path_rule import Contribution, RemovedSubmission, TaskChange
from scripts.bot.comment.markers import Notice, Tone
from scripts.bot.intake.decision import (
    Decision,
    Endings,
    EventFacts,
    about_rest,
    choose_boards,
    end_open,
    find_last,
    make_requests,
    mode_of,
    newcomer,
)
from scripts.bot.intake.events import PullAction, PullEvent
from scripts.bot.intake.replies import COME_BACK_AFTER_REMOVAL, WITHDRAWN
from scripts.bot.intake.withdrawals import ranked_in, was_obeyed, withdraw
from scripts.common.text import fence, inline
from scripts.ledger.ledger import RequestStatus
from scripts.ledger.request import BY_COMMAND, EndState


def decide_on_pull(event: PullEvent, facts: EventFacts) -> Decision:
    """Decide what to do about an event of a pull request."""
    match event.action:
        case PullAction.CLOSED:
            return _after_closing(facts)
        case PullAction.DRAFTED:
            return _after_drafting(facts)
        case _:
            return _after_offering(event, facts)


def _after_closing(facts: EventFacts) -> Decision:
    if facts.pull.merged:
        older = [status for status in facts.of_pull if status.request.head_sha != facts.pull.head_sha]
        ended = end_open(facts, EndState.SUPERSEDED, "another commit was merged", among=older)
        return Decision(why="merged: its open requests are still judged", endings=ended)
    ended = end_open(facts, EndState.CANCELLED, "the pull request was closed")
    return Decision(why="closed: its open requests are cancelled", endings=ended)


def _after_drafting(facts: EventFacts) -> Decision:
    ranked = [status for status in facts.of_pull if status.request.is_ranked]
    ended = end_open(facts, EndState.CANCELLED, "the pull request became a draft", among=ranked)
    return Decision(why="a draft again: its ranked requests are cancelled", endings=ended)


def _after_offering(event: PullEvent, facts: EventFacts) -> Decision:
    older = [status for status in facts.of_pull if status.request.head_sha != facts.pull.head_sha]
    ended = end_open(facts, EndState.SUPERSEDED, "there is a newer commit", among=older)
    try:
        if not facts.pull.is_open:
            return Decision(why="no longer open", endings=ended)
        require_welcome(facts.pull.author.id, facts.pull.author.login, facts.competition)
        change = find_entry(facts.contents.files, facts.pull.author, facts.competition)
        if isinstance(change, Contribution):
            return Decision(why="changes no submission and no task", endings=ended, is_settled=True)
        if isinstance(change, RemovedSubmission):
            return _after_removing(event, change, facts, ended)
        if isinstance(change, TaskChange):
            return Decision(why="changes tasks", endings=ended, notice=_about_tasks(change, facts))
        return _ask_by_event(event, facts, admit(change, facts.contents, facts.competition), ended)
    except Refused as refused:
        return Decision(why="refused", endings=ended, notice=Notice(text=f"**Not judged.** {refused}"))


def _ask_by_event(event: PullEvent, facts: EventFacts, admission: Admission, ended: Endings) -> Decision:
    mode, remark = mode_of(facts, admission)
    is_anew = event.action in (PullAction.REOPENED, PullAction.READIED)
    wanted = [gpu for gpu in admission.gpus if _is_due(find_last(facts, gpu, mode), is_anew=is_anew)]
    if mode is Mode.TEST:
        wanted = [gpu for gpu in wanted if not _holds(find_last(facts, gpu, Mode.RANKED))]
    replaced = end_open(facts, EndState.SUPERSEDED, f"{mode} instead", among=_tried_before(facts, wanted, mode))
    fitting = choose_boards(facts, wanted, mode, ended + replaced)
    if wanted and not fitting.gpus:
        notice = Notice(text=f"**Not judged.** {fitting.reasons}")
        return Decision(why="refused by a limit", origin=facts.contents.origin, endings=ended, notice=notice)
    asked = make_requests(facts, admission, fitting.gpus, mode, by=facts.pull.author, reason=event.action)
    if fitting.refused:
        remark = about_rest(fitting, mode)
    return Decision(
        why=f"requests {len(asked)} of {len(admission.gpus)} boards, {mode}",
        account=newcomer(facts, admission),
        origin=facts.contents.origin,
        requests=asked,
        endings=ended + tuple(pair for pair in replaced if pair[0].gpu in fitting.gpus),
        notice=Notice(text=remark, tone=Tone.REMARK, left_out=fitting.left_out) if remark else None,
        is_settled=True,
    )


def _is_due(last: RequestStatus | None, *, is_anew: bool) -> bool:
    """Whether an event requests a judging: not if one is open or judged; after a `/cancel` only if `is_anew`.

    `is_anew`: the author reopened the pull request or marked it as ready, which requests everything again.
    """
    if not last or not last.ending:
        return not last
    return last.ending.is_taken_back or (is_anew and last.ending.state is EndState.CANCELLED)


def _holds(ranked: RequestStatus | None) -> bool:
    """Whether a ranked judging is open or done: requested in time, it makes a test after the deadline pointless."""
    return bool(ranked and (not ranked.ending or ranked.ending.state is EndState.JUDGED))


def _tried_before(facts: EventFacts, gpus: Sequence[str], mode: Mode) -> list[RequestStatus]:
    """This commit's requests on these boards in another mode: of no use once the pull request is ready."""
    of_head = [status for status in facts.of_pull if status.request.head_sha == facts.pull.head_sha]
    return [status for status in of_head if status.request.gpu in gpus and status.request.mode is not mode]


def _after_removing(event: PullEvent, change: RemovedSubmission, facts: EventFacts, ended: Endings) -> Decision:
    """Withdraw the author's results in the task, once, if the author opens this as ready or marks it as ready.

    Others may push to the branch, or mark the pull request as ready; and a push may be a mistake.
    """
    what, number = f"This removes {inline(change.path)}.", facts.pull.number
    name, note = f"withdraw-by-{number}", f"{BY_COMMAND}withdraw, by #{number}"
    if was_obeyed(facts, name, note):
        return Decision(why="already withdrawn by the same pull request", endings=ended)
    superseded = {request.id for request, _ in ended}
    ranked = [one for one in ranked_in(facts.history, change.task) if one.request.id not in superseded]
    reason = f"Removed the file in #{number}."
    taken_back = withdraw(facts, ranked, facts.in_time_at, name=name, note=note, reason=reason)
    if not taken_back:
        notice = Notice(text=f"{what} You have no results to withdraw in `{change.task}`.", tone=Tone.REMARK)
        return Decision(why="nothing to withdraw", endings=ended, notice=notice)
    is_marked = event.action is PullAction.READIED and event.sender_id == facts.pull.author.id
    if facts.pull.is_draft or not (event.action is PullAction.OPENED or is_marked):
        text = f"{what} To withdraw your results in `{change.task}`, comment `/withdraw` here."
        return Decision(why="withdraws nothing", endings=ended, notice=Notice(text=text, tone=Tone.REMARK))
    text = f"{what} {WITHDRAWN.format(taken_back.places)}\n\n{COME_BACK_AFTER_REMOVAL}"
    return Decision(
        why=f"withdraws {len(taken_back.decisions)} judgements",
        withdrawals=taken_back.decisions,
        endings=ended + taken_back.endings,
        notice=Notice(text=text, tone=Tone.REMARK),
    )


def _about_tasks(change: TaskChange, facts: EventFacts) -> Notice:
    names = ", ".join(inline(name) for name in change.tasks)
    what = f"This changes the task{'s' if len(change.tasks) > 1 else ''} {names}."
    if facts.task_faults:
        return Notice(text=f"{what} Loading failed:\n\n{fence(facts.task_faults, 6000)}")
    return Notice(
        text=f"{what} Loading found no faults. Nothing has been run yet: "
        "a maintainer can run the examples and the probes with `/check`.",
        tone=Tone.REMARK,
    )
