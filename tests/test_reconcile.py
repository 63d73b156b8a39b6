"""Repeats missed work: first the plan as a table, then the world after each failure."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from threading import Barrier
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.records.fields import Mode
from harness.records.verdict import Verdict
from scripts.bot.comment.markers import MARKER, BoardMarker
from scripts.bot.comment.pull_record import PullRecord
from scripts.bot.comment.sections import done_section, ended_section, queued_section
from scripts.bot.context import BotContext
from scripts.bot.intake.events import PullEvent
from scripts.bot.reconcile import reconcile
from scripts.bot.reconcile.judged_again import DueJudging
from scripts.bot.reconcile.plan import MAX_LOST_EVENTS, RepositoryState, look_back, plan
from scripts.bot.reconcile.steps import (
    AskForJudging,
    ClosePull,
    EndRequest,
    Step,
    UpdateComment,
)
from scripts.bot.report.merging import merge, why_not_merged
from scripts.bot.report.places import PlaceKind
from scripts.bot.workflow import open_context
from scripts.competition.settings import Ban, Gpu, Settings
from scripts.github.fork import Fork
from scripts.github.gh import GitHub
from scripts.github.pulls import ACTIONS_BOT, Account, ChangedFile, PullRequest, WorkflowRun
from scripts.ledger.branch import LedgerBranch
from scripts.ledger.ledger import Ledger, RequestStatus
from scripts.ledger.moderation import Action, KnownAccount, Moderated, Moderation
from scripts.ledger.names import Choose
from scripts.ledger.request import RETRY, Ending, EndState, Request, make_id
from tests.competition import FASTER, SOURCE, Scene, of_its_board, path_of, the_board, two_boards
from tests.github_server import Failure, Pull

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
OLD, LATE = NOW - timedelta(hours=1), NOW - timedelta(minutes=1)
SOON = timedelta(minutes=10)
HEAD, NEWER = "a" * 40, "b" * 40
ALICE = Account(id=7, login="alice")


def asked(
    state: EndState | None = None,
    mode: Mode = Mode.RANKED,
    at: datetime = OLD,
    attempt: int = 1,
    note: str = "",
    **changes: Any,
) -> RequestStatus:
    head = changes.get("head_sha", HEAD)
    fields: dict[str, Any] = {
        "id": make_id(12, head, "CPU", mode, attempt), "user_id": 7, "login": "alice", "pull_request": 12,
        "head_sha": head, "blob_sha": "c" * 40, "task": "vectoradd", "gpu": "CPU", "mode": mode, "asked_at": at,
        "asked_by": 7, "reason": "opened",
    }  # fmt: skip
    request = Request(**(fields | changes))
    verdict = Verdict.ACCEPTED if state is EndState.JUDGED else None
    note = note or ("/cancel" if state is EndState.CANCELLED else "")
    ending = Ending(request=request.id, state=state, verdict=verdict, at=at, note=note) if state else None
    return RequestStatus(request=request, ending=ending)


def pull(**changes: Any) -> PullRequest:
    fields: dict[str, Any] = {
        "number": 12, "author": ALICE, "head_sha": HEAD, "base_ref": "main",
        "is_draft": False, "is_open": True, "merged": False, "updated_at": OLD,
        "head_at": OLD,
    }  # fmt: skip
    return PullRequest(**(fields | changes))


def ran(status: str = "completed", of: RequestStatus | None = None, run_id: int = 5) -> WorkflowRun:
    request = (of or asked()).request
    return WorkflowRun(
        id=run_id, title=f"judge {request.id}", event="workflow_dispatch", status=status, conclusion="success",
        created_at=OLD,
    )  # fmt: skip


def telling(status: RequestStatus, how: str = "done") -> dict[int, tuple[BoardMarker, ...]]:
    request = status.request
    section = {
        "done": done_section(request, Verdict.ACCEPTED, "### x: accepted\n"),
        "queued": queued_section(request),
        "ended": ended_section(request, Ending(request=request.id, state=EndState.CANCELLED, at=OLD)),
    }[how]
    return {12: (section.facts,)}


def facts(*statuses: RequestStatus, **changes: Any) -> RepositoryState:
    fields: dict[str, Any] = {"now": NOW, "default_branch": "main", "statuses": statuses, "pulls": (pull(),)}
    fields["published_at"] = NOW
    fields |= {"shown": telling(statuses[-1])} if statuses else {}
    return RepositoryState(**(fields | changes))


def names(steps: tuple[Step, ...]) -> list[str]:
    return [type(step).__name__ for step in steps]


JUDGED, FAILED, CANCELLED = EndState.JUDGED, EndState.FAILED, EndState.CANCELLED
ROW, BEHIND = {asked().request.id: PlaceKind.ROW}, {asked().request.id: PlaceKind.BEHIND}
TEST = asked(mode=Mode.TEST)
WAITING = asked(gpu="H100", id=make_id(12, HEAD, "H100", Mode.RANKED))
TELLING_BOTH = {12: (*telling(asked())[12], queued_section(WAITING.request).facts)}
ON_H100 = {"gpu": "H100", "id": WAITING.request.id}
BENCHMARKED = asked(JUDGED, mode=Mode.BENCHMARK, reason="opened")
WAS_CLOSED = {"state": CANCELLED, "note": "the pull request was closed"}
WAS_DRAFTED = asked(CANCELLED, note="the pull request became a draft")
BANNED = Moderated.after(
    [Moderation(id="ban-1", action=Action.BAN, user_id=7, login="alice", reason="Cheats.", by=1, at=OLD)]
)
THREE_DAYS, FOUR_DAYS, LONG_AGO = (NOW - timedelta(days=days) for days in (3, 4, 15))
DUE = DueJudging(last=asked().request, reason="its duel with bob (dddddddddddd) is due", tries=2)
WITH_ANOTHER = DueJudging(last=asked().request, reason="its duel with carol (eeeeeeeeeeee) is due")
UNSURE = DueJudging(last=asked().request, reason="its time is provisional after 1 judging")
STILL_UNSURE = DueJudging(last=asked().request, reason="its time is provisional after 2 judgings")
OF_BOB = DueJudging(
    last=asked(login="bob", pull_request=13, id=make_id(13, HEAD, "CPU", Mode.RANKED)).request, reason=UNSURE.reason
)
OF_BOB_ON_H100 = DueJudging(
    last=asked(login="bob", pull_request=13, gpu="H100", id=make_id(13, HEAD, "H100", Mode.RANKED)).request,
    reason=UNSURE.reason,
)


def rematch(
    state: EndState | None = None,
    of: DueJudging = DUE,
    at: datetime = OLD,
    *,
    attempt: int = 2,
    verdict: Verdict = Verdict.ACCEPTED,
) -> RequestStatus:
    request = replace(of, last=asked(attempt=attempt - 1).request).request(at)
    known = verdict if state is EndState.JUDGED else None
    ending = Ending(request=request.id, state=state, verdict=known, at=at) if state else None
    return RequestStatus(request=request, ending=ending)


PLANS: list[tuple[str, RepositoryState, list[str]]] = [
    ("an empty repository", RepositoryState(now=NOW, default_branch="main"), []),
    ("all is well", facts(asked(JUDGED)), []),
    # Open requests.
    ("just asked for", facts(asked(at=LATE)), []),
    ("never started", facts(asked()), ["StartRun"]),
    ("waits for a machine", facts(asked(), runs=(ran("queued"),), shown=telling(asked(), "queued")), []),
    ("runs", facts(asked(), runs=(ran("in_progress"),)), []),
    ("runs, but the comment does not show it", facts(asked(), runs=(ran("in_progress"),), shown={}), ["UpdateComment"]),
    ("ran, and was not delivered", facts(asked(), runs=(ran(),)), ["DeliverResult"]),
    ("ran, and runs once more", facts(asked(), runs=(ran(), ran("queued", run_id=6))), []),
    ("another's run", facts(asked(), runs=(ran(of=TEST),)), ["StartRun"]),
    ("the pull request was closed", facts(asked(), pulls=(), closed=(pull(is_open=False),)), ["EndRequest"]),
    ("the state of the pull request is unknown", facts(asked(), pulls=()), ["StartRun"]),
    ("pushed, and asked for anew", facts(asked(), asked(head_sha=NEWER), pulls=(pull(head_sha=NEWER),)),
     ["EndRequest", "StartRun"]),
    ("a draft again", facts(asked(), pulls=(pull(is_draft=True),)), ["EndRequest"]),
    ("a draft may be tested", facts(TEST, pulls=(pull(is_draft=True),)), ["StartRun"]),
    ("closed while it runs", facts(asked(), pulls=(), closed=(pull(is_open=False),), runs=(ran("queued"),)), ["EndRequest"]),
    ("closed a moment after it was asked for", facts(asked(at=LATE), pulls=(), runs=(ran("queued"),)), []),
    ("withdrawn, and its run lives", facts(asked(CANCELLED), runs=(ran("in_progress"),), shown=telling(asked(), "ended")),
     ["StopRun"]),
    ("superseded, and both of its runs live",
     facts(asked(EndState.SUPERSEDED), asked(attempt=2), runs=(ran("queued"), ran("queued", run_id=6))),
     ["StopRun", "StopRun", "StartRun"]),
    ("withdrawn, but the comment does not show it", facts(asked(CANCELLED), runs=(ran("queued"),), shown=telling(asked(), "queued")),
     ["StopRun", "UpdateComment"]),
    ("withdrawn a moment ago", facts(asked(CANCELLED, at=LATE), runs=(ran("queued"),)), []),
    ("withdrawn, and its run has ended", facts(asked(CANCELLED), runs=(ran(),), shown=telling(asked(), "ended")), []),
    ("judged, and its run merges still", facts(asked(JUDGED), runs=(ran("in_progress"),)), []),
    ("banned while it waits", facts(asked(), runs=(ran("queued"),), bans=(Ban(user_id=7, reason="Cheats."),)), ["EndRequest"]),
    ("banned in the ledger while it waits", facts(asked(), runs=(ran("queued"),), moderated=BANNED), ["EndRequest"]),
    ("banned by login", facts(asked(), runs=(ran("queued"),), bans=(Ban(login="Alice", reason="Cheats."),)), ["EndRequest"]),
    ("somebody else is banned", facts(asked(), bans=(Ban(login="bob", reason="Cheats."),)), ["StartRun"]),
    # Comments.
    ("judged, told as queued", facts(asked(JUDGED), runs=(ran(),), shown=telling(asked(), "queued")), ["DeliverResult"]),
    ("judged, not told", facts(asked(JUDGED), runs=(ran(),), shown={}), ["DeliverResult"]),
    ("judged, its run forgotten", facts(asked(JUDGED), shown=telling(asked(), "queued")), ["DeliverResult"]),
    ("failed, told as queued", facts(asked(FAILED), shown=telling(asked(), "queued")), ["UpdateComment"]),
    ("cancelled before anybody was told", facts(asked(CANCELLED), shown={}), []),
    ("just judged", facts(asked(JUDGED, at=LATE), shown=telling(asked(), "queued")), []),
    ("judged, and the comments of then are too many to be listed",
     facts(asked(JUDGED), runs=(ran(),), shown={}, comments_since=OLD), []),
    ("judged since the oldest comment that is listed, and not told",
     facts(asked(JUDGED), runs=(ran(),), shown={}, comments_since=OLD - timedelta(seconds=1)), ["DeliverResult"]),
    ("runs for days, and was told when that began",
     facts(asked(at=THREE_DAYS), runs=(ran("in_progress"),), shown={}, last_at=OLD), []),
    ("long ago", facts(asked(JUDGED, at=THREE_DAYS), shown={}, last_at=OLD), []),
    ("a newer request of the board is told of", facts(asked(JUDGED), asked(JUDGED, at=OLD, attempt=2)), []),
    # Lost events.
    ("a head without a request", facts(), ["AskForJudging"]),
    ("pushed a moment ago", facts(pulls=(pull(updated_at=LATE),)), []),
    ("a head without one, long ago", facts(pulls=(pull(updated_at=LONG_AGO),)), []),
    ("pushed three days ago, in an outage of four",
     facts(pulls=(pull(updated_at=THREE_DAYS),), last_at=FOUR_DAYS), ["AskForJudging"]),
    ("pushed three days ago, before we began", facts(pulls=(pull(updated_at=THREE_DAYS),)), ["AskForJudging"]),
    ("pushed before an outage of a month",
     facts(pulls=(pull(updated_at=LONG_AGO),), last_at=NOW - timedelta(days=30)), []),
    ("a bot's", facts(pulls=(pull(author=Account(id=9, login="b", is_bot=True)),)), []),
    ("for another branch", facts(pulls=(pull(base_ref="release"),)), []),
    ("pushed, and not heard", facts(asked(JUDGED), pulls=(pull(head_sha=NEWER),)), ["AskForJudging"]),
    ("superseded by a late event", facts(asked(EndState.SUPERSEDED), shown={}), ["AskForJudging"]),
    ("cancelled by its author", facts(asked(CANCELLED), shown=telling(asked(), "ended")), []),
    ("a draft that was benchmarked is ready", facts(BENCHMARKED), ["AskForJudging"]),
    ("a draft that was benchmarked", facts(BENCHMARKED, pulls=(pull(is_draft=True),)), []),
    ("a draft that is ready, and tested by command",
     facts(BENCHMARKED, asked(JUDGED, mode=Mode.TEST, reason="/test, comment 5")), ["AskForJudging"]),
    ("a draft that became ready after the deadline",
     facts(BENCHMARKED, asked(JUDGED, mode=Mode.TEST, reason="ready_for_review")), []),
    ("tested while its task was closed, which is open again",
     facts(asked(JUDGED, mode=Mode.TEST, reason="opened"), opened=frozenset({"vectoradd"})), ["AskForJudging"]),
    ("tested while its task was closed, and another task is open again",
     facts(asked(JUDGED, mode=Mode.TEST, reason="opened"), opened=frozenset({"matmul"})), []),
    ("tested while its task was closed, open again, and ranked",
     facts(asked(JUDGED, mode=Mode.TEST, reason="opened"), asked(JUDGED, attempt=2), opened=frozenset({"vectoradd"})), []),
    ("a draft, tested while its task was closed, which is open again",
     facts(asked(JUDGED, mode=Mode.TEST, reason="opened"), opened=frozenset({"vectoradd"}), pulls=(pull(is_draft=True),)),
     []),
    ("a draft again, judged before", facts(asked(JUDGED), pulls=(pull(is_draft=True),)), []),
    ("a draft again, cancelled thereby",
     facts(WAS_DRAFTED, pulls=(pull(is_draft=True),), shown=telling(asked(), "ended")), []),
    ("a draft again, and then ready", facts(WAS_DRAFTED, shown=telling(asked(), "ended")), ["AskForJudging"]),
    ("closed, and open again", facts(asked(**WAS_CLOSED), shown=telling(asked(), "ended")), ["AskForJudging"]),
    ("a draft that was closed, and is open again",
     facts(asked(**WAS_CLOSED, mode=Mode.BENCHMARK), pulls=(pull(is_draft=True),), shown={}), ["AskForJudging"]),
    ("closed, and open again, and asked for", facts(asked(**WAS_CLOSED), asked(JUDGED, attempt=2)), []),
    ("judged on one board, closed, and open again", facts(asked(JUDGED), asked(**WAS_CLOSED, **ON_H100), shown=TELLING_BOTH),
     ["UpdateComment", "AskForJudging"]),
    ("cancelled by its author, closed, and open again", facts(asked(CANCELLED), shown=telling(asked(), "ended")), []),
    ("asked for by a command, closed, and open again",
     facts(asked(JUDGED), asked(**WAS_CLOSED, **ON_H100, reason="/rank, comment 5"), shown=TELLING_BOTH), ["UpdateComment"]),
    ("a head without a request, of a banned author", facts(moderated=BANNED), []),
    ("its author is banned no more", facts(asked(CANCELLED, note="the author was banned"), shown={}), ["AskForJudging"]),
    # Merges.
    ("makes a row", facts(asked(JUDGED), places=ROW), ["MergePull"]),
    ("made a row, and GitHub has refused for days", facts(asked(JUDGED, at=THREE_DAYS), places=ROW, last_at=OLD), []),
    ("made a row, and was released only now",
     facts(asked(JUDGED, at=THREE_DAYS), places=ROW, last_at=OLD, decided_at=OLD), ["MergePull"]),
    ("makes a row, and its author is banned", facts(asked(JUDGED), places=ROW, moderated=BANNED), []),
    ("makes a row, and the settings ban its author",
     facts(asked(JUDGED), places=ROW, bans=(Ban(user_id=7, reason="Cheats."),)), []),
    ("makes a row, and was opened again for another board",
     facts(asked(JUDGED), asked(**WAS_CLOSED, **ON_H100), places=ROW, shown={}, runs=(ran(),)), ["DeliverResult", "AskForJudging"]),
    ("makes a row, and another's event was lost",
     facts(asked(JUDGED), places=ROW, pulls=(pull(number=13), pull()), published_at=None), ["MergePull", "PublishSite", "AskForJudging"]),
    ("makes a row, just now", facts(asked(JUDGED, at=LATE), places=ROW), []),
    ("makes a row, and a maintainer merges", facts(asked(JUDGED), places=ROW, merges=False), []),
    ("makes a row, and a machine is away",
     facts(asked(JUDGED), WAITING, places=ROW, runs=(ran("queued", WAITING),), shown=TELLING_BOTH),
     ["MergePull"]),
    ("was merged, and a machine is away",
     facts(asked(JUDGED), WAITING, pulls=(), closed=(pull(is_open=False, merged=True),),
           runs=(ran("queued", WAITING),), shown=TELLING_BOTH), []),
    ("was merged, and has no run",
     facts(WAITING, pulls=(), closed=(pull(is_open=False, merged=True),)), ["StartRun"]),
    ("another commit was merged",
     facts(WAITING, pulls=(), closed=(pull(is_open=False, merged=True, head_sha=NEWER),)), ["EndRequest"]),
    ("was closed, and something waits", facts(WAITING, pulls=(), closed=(pull(is_open=False),)), ["EndRequest"]),
    ("improves nothing for two weeks, and a machine is away",
     facts(asked(JUDGED), WAITING, places=BEHIND, pulls=(pull(updated_at=LONG_AGO),), runs=(ran("queued", WAITING),),
           shown=TELLING_BOTH), []),
    ("makes a row, and something waits", facts(asked(JUDGED), asked(mode=Mode.TEST, at=LATE), places=ROW), []),
    ("makes a row, a draft again", facts(asked(JUDGED), places=ROW, pulls=(pull(is_draft=True),)), []),
    ("makes a row, pushed since", facts(asked(JUDGED), places=ROW, pulls=(pull(head_sha=NEWER, updated_at=LATE),)), []),
    # Entries that improve nothing.
    ("improves nothing", facts(asked(JUDGED), places=BEHIND), []),
    ("improves nothing for two weeks", facts(asked(JUDGED), places=BEHIND, pulls=(pull(updated_at=LONG_AGO),)),
     ["ClosePull"]),
    ("behind on one board, and held back on another for two weeks",
     facts(asked(JUDGED), replace(WAITING, ending=asked(JUDGED, at=LONG_AGO).ending), places=BEHIND, shown=TELLING_BOTH,
           pulls=(pull(updated_at=LONG_AGO),)), []),
    ("behind on one board, and failed on another by our fault",
     facts(asked(JUDGED), replace(WAITING, ending=asked(FAILED, at=LONG_AGO).ending), places=BEHIND, shown=TELLING_BOTH,
           pulls=(pull(updated_at=LONG_AGO),)), []),
    ("held back for two weeks", facts(asked(JUDGED), pulls=(pull(updated_at=LONG_AGO),)), []),
    # Duels that are due.
    ("a duel with a former champion", facts(asked(JUDGED), duels=(DUE,)), ["Rematch"]),
    ("of a pull request that was merged", facts(asked(JUDGED), pulls=(), duels=(DUE,)), ["Rematch"]),
    ("of a banned author", facts(asked(JUDGED), duels=(DUE,), moderated=BANNED), []),
    ("judged a moment ago", facts(asked(JUDGED, at=LATE), duels=(DUE,)), []),
    ("the duel is asked for", facts(asked(JUDGED), rematch(at=LATE), duels=(DUE,)), []),
    ("has no run", facts(asked(JUDGED), rematch(), duels=(DUE,)), ["StartRun"]),
    ("merged, and has no run yet", facts(asked(JUDGED), rematch(), duels=(DUE,), pulls=()), ["StartRun"]),
    ("it was judged, and the duel was void", facts(asked(JUDGED), rematch(JUDGED), duels=(DUE,)), ["Rematch"]),
    ("less than an hour ago", facts(asked(JUDGED), rematch(JUDGED, at=OLD + SOON), duels=(DUE,)), []),
    ("it failed, and was void when it was tried again",
     facts(asked(JUDGED), rematch(FAILED), asked(JUDGED, attempt=3, reason=RETRY), duels=(DUE,)), ["Rematch"]),
    ("it was not accepted", facts(asked(JUDGED), rematch(JUDGED, verdict=Verdict.WRONG_ANSWER), duels=(DUE,)), []),
    ("the second was void, too",
     facts(asked(JUDGED, at=LONG_AGO), rematch(JUDGED, at=FOUR_DAYS), rematch(JUDGED, attempt=3, at=THREE_DAYS),
           duels=(DUE,)), []),
    ("it failed", facts(asked(JUDGED), rematch(FAILED), duels=(DUE,), shown=telling(rematch(), "ended")), []),
    ("judged, and there is another champion", facts(asked(JUDGED), rematch(JUDGED), duels=(WITH_ANOTHER,)),
     ["Rematch"]),
    ("its author asks for it", facts(asked(JUDGED), asked(attempt=2, at=LATE), duels=(DUE,)), []),
    ("due no more", facts(asked(JUDGED), rematch()), ["EndRequest"]),
    ("due once more", facts(asked(JUDGED), rematch(EndState.SUPERSEDED), duels=(DUE,),
                            shown=telling(rematch(), "ended")), ["Rematch"]),
    # Provisional rows.
    ("a provisional time", facts(asked(JUDGED), provisional=(UNSURE,)), ["Rematch"]),
    ("a provisional time, merged", facts(asked(JUDGED), pulls=(), provisional=(UNSURE,)), ["Rematch"]),
    ("a provisional time of a banned author", facts(asked(JUDGED), provisional=(UNSURE,), moderated=BANNED), []),
    ("a provisional time, and its machine has work",
     facts(asked(JUDGED), asked(at=LATE, mode=Mode.TEST, pull_request=14, id=make_id(14, HEAD, "CPU", Mode.TEST)),
           provisional=(UNSURE,), shown=telling(asked())), []),
    ("a provisional time, and another machine has work",
     facts(asked(JUDGED), WAITING, runs=(ran("queued", WAITING),), provisional=(UNSURE,), shown=TELLING_BOTH), ["Rematch"]),
    ("two provisional times on one machine", facts(asked(JUDGED), provisional=(UNSURE, OF_BOB)), ["Rematch"]),
    ("two provisional times on two machines", facts(asked(JUDGED), provisional=(UNSURE, OF_BOB_ON_H100)),
     ["Rematch", "Rematch"]),
    ("a provisional time, and a duel is due on its machine",
     facts(asked(JUDGED), duels=(DUE,), provisional=(OF_BOB,)), ["Rematch"]),
    ("it was judged again, and is still provisional",
     facts(asked(JUDGED), rematch(JUDGED, UNSURE), provisional=(STILL_UNSURE,)), ["Rematch"]),
    ("it was not accepted when it was judged again", facts(asked(JUDGED), rematch(JUDGED, UNSURE), provisional=(UNSURE,)), []),
    ("its judging is asked for", facts(asked(JUDGED), rematch(of=UNSURE, at=LATE), provisional=(UNSURE,)), []),
    ("its judging has not started", facts(asked(JUDGED), rematch(of=UNSURE), provisional=(UNSURE,)), ["StartRun"]),
    ("provisional no more", facts(asked(JUDGED), rematch(of=UNSURE)), ["EndRequest"]),
    # Several comments of ours.
    ("two first comments", facts(asked(JUDGED), spare={77: 12}), ["DeleteComment"]),
    # Publication.
    ("never published", facts(asked(JUDGED), published_at=None), ["PublishSite"]),
    ("published before", facts(asked(JUDGED), published_at=OLD - timedelta(seconds=1)), ["PublishSite"]),
    ("published since", facts(asked(JUDGED), published_at=OLD), []),
    ("decided since it was published", facts(asked(JUDGED), published_at=OLD, decided_at=OLD + timedelta(seconds=1)),
     ["PublishSite"]),
    ("decided a moment ago", facts(asked(JUDGED), published_at=OLD, decided_at=LATE), []),
    ("a test is not published", facts(asked(JUDGED, mode=Mode.TEST), published_at=None), []),
]  # fmt: skip


@pytest.mark.parametrize(("known", "steps"), [row[1:] for row in PLANS], ids=[row[0] for row in PLANS])
def test_the_plan_has_the_right_steps_for_each_state(known: RepositoryState, steps: list[str]) -> None:
    assert names(plan(known)) == steps


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, ""),
        ({"is_open": False}, "not open and ready for review"),
        ({"is_draft": True}, "not open and ready for review"),
        ({"head_sha": NEWER}, "the head has moved since it was judged"),
        ({"base_ref": "old"}, "it no longer targets the default branch"),
        ({"author": ALICE.model_copy(update={"id": 8})}, "its author is not the request's"),
    ],
)
def test_the_bot_merges_only_the_judged_commit(changes: dict[str, Any], why: str) -> None:
    assert why_not_merged(asked(JUDGED).request, pull(**changes), "main") == why


@pytest.mark.parametrize("path", ["README.md", "submissions/sort/alice/submission.py"])
def test_the_bot_does_not_merge_a_commit_that_changes_other_files(path: str) -> None:
    fork = SimpleNamespace(changes=lambda *_, **__: (ChangedFile(path=path, status="modified"),))
    settings = Settings(gpus={"CPU": Gpu(runs_on="cpu")})
    context = BotContext(
        github=cast(GitHub, None), open_ledger=lambda _: LedgerBranch(""), open_fork=lambda: cast(Fork, nullcontext(fork)),
        settings=settings, root=Path(), default_branch="main",
    )  # fmt: skip
    said = merge(asked(JUDGED).request, PullRecord(number=12), Moderated(), context)
    assert said == "not merged: it changes more than the judged file"


@pytest.mark.parametrize(
    ("last", "back"),
    [
        (timedelta(minutes=1), timedelta(days=2)),
        (timedelta(days=3), timedelta(days=3, minutes=5)),
        (timedelta(days=30), timedelta(days=14)),
        (None, timedelta(days=14)),
    ],
)
def test_the_reconciler_looks_back_as_far_as_an_outage_lasted(last: timedelta | None, back: timedelta) -> None:
    assert look_back(NOW, last and NOW - last) == NOW - back


def test_a_lost_push_keeps_its_time_and_a_lost_reopening_counts_as_now() -> None:
    (pushed,), (opened_again,) = plan(facts()), plan(facts(asked(**WAS_CLOSED), shown=telling(asked(), "ended")))
    assert isinstance(pushed, AskForJudging) and isinstance(opened_again, AskForJudging)
    assert (pushed.happened_at, opened_again.happened_at) == (OLD, NOW)


def test_the_reconciler_retries_a_fruitless_pull_request_less_and_less_often() -> None:
    begin, quarter = NOW - timedelta(days=20), timedelta(minutes=15)
    runs = [begin + quarter * count for count in range(1, 20 * 96)]
    offered = []
    for now in runs:
        known = RepositoryState(now=now, default_branch="main", pulls=(pull(updated_at=begin),), last_at=now - quarter)
        offered += [now] if names(plan(known)) == ["AskForJudging"] else []
    assert offered[:5] == runs[:5]
    assert {later - earlier for earlier, later in pairwise(offered[5:])} == {timedelta(hours=2)}
    assert timedelta(days=13) < offered[-1] - begin <= timedelta(days=14)


def test_the_reconciler_catches_up_after_an_outage_a_few_at_a_time() -> None:
    unheard = {number: pull(number=number, updated_at=THREE_DAYS) for number in range(1, 101)}
    last_at = FOUR_DAYS
    for now in (NOW + timedelta(minutes=15) * run for run in range(12)):
        steps = plan(RepositoryState(now=now, default_branch="main", pulls=tuple(unheard.values()), last_at=last_at))
        assert len(steps) == MAX_LOST_EVENTS if last_at == FOUR_DAYS else len(steps) <= MAX_LOST_EVENTS
        for step in steps:
            assert isinstance(step, AskForJudging)
            del unheard[step.pull.number]
        last_at = now
    assert not unheard


# The world.


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    made = Scene(tmp_path, monkeypatch)
    with made.server:
        yield made


def opened(scene: Scene, source: bytes = SOURCE) -> Pull:
    return scene.world.open_pull(scene.alice, {path_of("alice"): source})


def settle(scene: Scene, capsys: pytest.CaptureFixture[str]) -> str:
    """Reconcile, ten minutes later; returns the output."""
    assert scene.reconcile(after=SOON) == 0
    return capsys.readouterr().out


def test_the_order_in_which_requests_are_read_does_not_decide_when_a_duel_is_requested_again() -> None:
    first = asked(JUDGED, at=FOUR_DAYS)
    for again in (rematch(JUDGED, at=OLD + SOON), rematch(JUDGED, verdict=Verdict.WRONG_ANSWER)):
        assert "Rematch" not in names(plan(facts(again, first, duels=(DUE,), pulls=())))


def test_a_rematch_is_a_new_attempt_that_the_bot_asks_for() -> None:
    request = rematch().request
    assert (request.id, request.asked_by) == (make_id(12, HEAD, "CPU", Mode.RANKED, 2), ACTIONS_BOT.id)
    assert request.is_rematch and not asked().request.is_rematch
    assert (request.head_sha, request.blob_sha, request.user_id) == (HEAD, "c" * 40, 7)


def test_the_reconciler_makes_up_for_a_lost_event(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    pull = opened(scene)
    assert "requests 1 of 1 boards" in settle(scene, capsys)
    assert "queued" in scene.comment(pull.number)
    scene.evaluate(scene.waiting()[0], scene.honest())
    assert pull.merged_at
    assert "Nothing to do" in settle(scene, capsys)


def test_one_pull_request_that_breaks_the_bot_stops_no_others(
    scene: Scene, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken, sound = (
        scene.world.open_pull(scene.alice, {path_of("alice"): SOURCE + text}) for text in (b"#1\n", b"#2\n")
    )
    scene.events.clear()
    real = reconcile.handle_event

    def break_on_one(event: PullEvent, *rest: Any) -> str:
        if event.pull.number == broken.number:
            raise OSError(36, "File name too long")
        return real(event, *rest)

    monkeypatch.setattr(reconcile, "handle_event", break_on_one)
    said = settle(scene, capsys)
    assert f"#{broken.number}: failed: internal error: OSError: [Errno 36] File name too long; please report it" in said
    assert [run.inputs["request"].split("-")[0] for run in scene.waiting()] == [str(sound.number)]


def test_lost_events_leave_time_for_everything_else(
    scene: Scene, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for text in (b"#1\n", b"#2\n"):
        scene.world.open_pull(scene.alice, {path_of("alice"): SOURCE + text})
    scene.events.clear()
    monkeypatch.setattr(reconcile, "LONGEST_S", -1.0)
    assert "2 events are left to the next run" in settle(scene, capsys)
    assert not scene.waiting()
    monkeypatch.setattr(reconcile, "LONGEST_S", 60.0)
    settle(scene, capsys)
    assert len(scene.waiting()) == 2


def test_a_draft_that_becomes_ready_is_ranked_despite_a_lost_event(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    pull = scene.submit(scene.alice, SOURCE, draft=True)
    scene.evaluate(scene.waiting()[0], scene.honest())
    assert "Nothing to do" in settle(scene, capsys)
    scene.world.mark_ready(pull)
    scene.events.clear()
    assert "requests 1 of 1 boards, ranked" in settle(scene, capsys)
    scene.evaluate(scene.waiting()[0], scene.honest())
    assert pull.merged_at and "rank 1 of 1" in scene.comment(pull.number)
    assert "Nothing to do" in settle(scene, capsys)


def test_a_draft_is_benchmarked_and_then_ranked_without_any_event(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    pull = scene.world.open_pull(scene.alice, {path_of("alice"): SOURCE}, draft=True)
    assert "requests 1 of 1 boards, benchmark" in settle(scene, capsys)
    scene.world.mark_ready(pull)
    assert "requests 1 of 1 boards, ranked" in settle(scene, capsys)
    (run,) = scene.waiting()
    scene.evaluate(run, scene.honest())
    assert pull.merged_at


def test_a_reopened_pull_request_is_judged_despite_a_lost_event(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    pull = two_boards(scene)
    scene.intake()
    first, _ = scene.waiting()
    scene.evaluate(first, of_its_board(scene))
    scene.world.close(pull)
    scene.intake()
    assert not scene.waiting() and "Nothing to do" in settle(scene, capsys)
    scene.world.reopen(pull)
    scene.events.clear()
    assert "requests 1 of 2 boards, ranked" in settle(scene, capsys)
    scene.evaluate(scene.waiting()[0], of_its_board(scene))
    assert len(scene.judgements()) == 2
    settle(scene, capsys)
    assert pull.merged_at


def test_a_cancelled_judging_is_not_requested_again(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    pull = two_boards(scene)
    scene.intake()
    scene.world.add_comment(pull.number, scene.alice, "/cancel gpu=H100")
    scene.intake()
    assert "Nothing to do" in settle(scene, capsys)
    scene.world.close(pull)
    scene.world.reopen(pull)
    scene.events.pop()
    scene.intake()
    assert "requests 1 of 2 boards, ranked" in settle(scene, capsys)
    (run,) = scene.waiting()
    assert "CPU" in run.title


def test_the_bot_merges_nothing_of_a_banned_author(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    pull = two_boards(scene)
    scene.intake()
    first, second = scene.waiting()
    scene.evaluate(first, of_its_board(scene))
    assert scene.resolve(second) == 0
    scene.judge(second, of_its_board(scene))
    decide(scene, Action.BAN)
    assert scene.report(second) == 0  # its row stands until it is disqualified
    scene.world.finish_run(second, "success")
    settle(scene, capsys)
    assert len(scene.judgements()) == 2 and not pull.merged_at
    decide(scene, Action.UNBAN)
    settle(scene, capsys)
    assert pull.merged_at


def test_the_reconciler_respects_a_ban_that_comes_during_its_work(scene: Scene) -> None:
    from scripts.bot.reconcile.gather import gather
    from scripts.bot.reconcile.reconcile import act

    pull = scene.submit(scene.alice, SOURCE)
    scene.server.fail("PUT */merge", Failure(status=405))
    scene.evaluate(scene.waiting()[0], scene.honest())
    scene.enter("reconcile.yml", "reconcile")
    with open_context(default_branch_only=True) as context:
        now = datetime.now(UTC) + SOON
        steps = plan(gather(context, now))
        assert names(steps) == ["MergePull"]
        decide(scene, Action.BAN)
        assert act(steps[0], context, now).endswith("its author is banned")
    assert not pull.merged_at


def test_a_withdrawal_makes_the_reconciler_read_its_board_only(
    scene: Scene, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pull = scene.submit(scene.alice, SOURCE)
    scene.evaluate(scene.waiting()[0], scene.honest())
    scene.world.add_comment(pull.number, scene.alice, "/withdraw")
    scene.intake()
    head = scene.world.git.find_commit("ledger")
    more = scene.world.git.commit({"judgements/sort/CPU/ada/1.json": "{}"}, parent=head)
    scene.world.git.set_ref("refs/heads/ledger", more)
    read: list[set[str]] = []
    real = LedgerBranch.check_out

    def noting(branch: LedgerBranch, choose: Choose) -> None:
        read.append({name.split("/")[1] for name in choose(branch.names) if name.startswith("judgements/")})
        real(branch, choose)

    monkeypatch.setattr(LedgerBranch, "check_out", noting)
    settle(scene, capsys)
    assert set().union(*read) == {"vectoradd"}


@pytest.mark.parametrize("is_pushed", [True, False])
def test_a_pull_request_that_is_pushed_to_after_the_plan_stays_open(scene: Scene, *, is_pushed: bool) -> None:
    pull = scene.submit(scene.alice, SOURCE)
    scene.enter("reconcile.yml", "reconcile")
    with open_context(default_branch_only=True) as context:
        step = ClosePull(pull=context.github.get_pull(pull.number))
        if is_pushed:
            scene.world.push(pull, {path_of("alice"): FASTER})
        said = reconcile.act(step, context, datetime.now(UTC))
    assert ("not closed, because it was pushed to" in said) == (pull.state == "open") == is_pushed


def decide(scene: Scene, action: Action) -> None:
    """A maintainer decides about alice."""
    decision = Moderation(
        id=f"{action}-1", action=action, user_id=scene.alice.id, login="alice", reason="Cheats.", by=1,
        at=datetime.now(UTC),
    )  # fmt: skip
    with LedgerBranch(str(scene.world.git.path)) as branch:
        branch.ledger.append_fact(decision)
        branch.commit(str(action))


def test_a_push_in_time_is_ranked_despite_lost_events_and_later_comments(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    deadline = scene.world.clock() - timedelta(hours=1)
    close_the_task(scene, deadline)
    now, late = scene.world.clock, scene.world.add_user("late")
    scene.world.clock = lambda: deadline - timedelta(minutes=5)
    in_time = opened(scene)
    scene.world.clock = now
    scene.world.add_comment(in_time.number, scene.world.add_user("rival"), "Too late?")
    scene.world.open_pull(late, {path_of("late"): FASTER})
    scene.events.clear()
    settle(scene, capsys)
    asked = {one.request.login: one.request for one in scene.ledger().values()}
    assert {login: request.mode for login, request in asked.items()} == {"alice": Mode.RANKED, "late": Mode.TEST}
    run = next(run for run in scene.waiting() if run.inputs["request"] == asked["alice"].id)
    scene.evaluate(run, scene.honest(edition=the_board(scene.root).edition))
    assert "rank 1 of 1" in scene.comment(in_time.number)


def allow_one_pending(scene: Scene) -> None:
    settings = scene.root / ".github/pullrank.yml"
    settings.write_text(re.sub(r"pending: \d+", "pending: 1", settings.read_text()))


def two_pulls(scene: Scene) -> list[Pull]:
    return [scene.world.open_pull(scene.alice, {path_of("alice"): SOURCE + text}) for text in (b"#1\n", b"#2\n")]


def request_of(scene: Scene, pull: Pull) -> Request:
    (request,) = (one.request for one in scene.ledger().values() if one.request.pull_request == pull.number)
    return request


def test_a_refusal_by_a_limit_gives_no_rank_after_the_deadline(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    close_the_task(scene, datetime.now(UTC) + timedelta(minutes=5))
    allow_one_pending(scene)
    _, second = two_pulls(scene)
    scene.intake()
    assert "pending judgings" in scene.comment(second.number)
    (run,) = scene.waiting()
    scene.evaluate(run, scene.honest(edition=the_board(scene.root).edition))
    settle(scene, capsys)
    assert request_of(scene, second).mode is Mode.TEST


def test_a_push_in_time_that_a_limit_refuses_after_the_deadline_is_ranked_later(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    deadline = scene.world.clock() - timedelta(hours=1)
    close_the_task(scene, deadline)
    allow_one_pending(scene)
    now = scene.world.clock
    scene.world.clock = lambda: deadline - timedelta(minutes=5)
    pulls = two_pulls(scene)
    scene.events.clear()
    scene.world.clock = now
    settle(scene, capsys)
    (run,) = scene.waiting()
    (later,) = (pull for pull in pulls if not run.inputs["request"].startswith(f"{pull.number}-"))
    assert "pending judgings" in scene.comment(later.number)
    scene.evaluate(run, scene.honest(edition=the_board(scene.root).edition))
    settle(scene, capsys)
    assert request_of(scene, later).mode is Mode.RANKED


def close_the_task(scene: Scene, deadline: datetime) -> None:
    scene.root = scene.copy_of_main()
    task = scene.root / "tasks/vectoradd/task.yml"
    task.write_text(f"deadline: {deadline.isoformat()}\n{task.read_text()}")


def test_a_comment_behind_a_thousand_others_does_not_count_as_missing(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    now = scene.world.clock
    scene.world.clock = lambda: now() - timedelta(minutes=1)
    pull = scene.submit(scene.alice, SOURCE)
    scene.evaluate(scene.waiting()[0], scene.honest(wrong="output[0] is 1, expected 2"))
    scene.world.clock = lambda: now() + timedelta(minutes=1)
    for number in range(1000):
        scene.world.add_comment(pull.number, scene.alice, f"{number} is a number.")
    assert "Nothing to do" in settle(scene, capsys)


def test_the_reconciler_starts_a_judging_that_never_started(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    pull = opened(scene)
    scene.server.fail("POST */dispatches", Failure(status=500))
    scene.intake()
    assert not scene.runs()
    assert "started again" in settle(scene, capsys)
    scene.evaluate(scene.waiting()[0], scene.honest())
    assert pull.merged_at


def test_the_reconciler_reports_foreign_ledger_pushes_except_decisions(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    def push(**how: Any) -> None:
        with LedgerBranch(scene.server.git_url, token=scene.world.personal_token(carol).value) as branch:
            how["add"](branch.ledger)
            branch.commit("By hand")

    carol = scene.world.add_user("carol", permission="write")
    ban = Moderation(
        id="b", action=Action.BAN, user_id=scene.alice.id, reason="Spam.", by=carol.id, at=datetime.now(UTC)
    )
    pull = opened(scene)
    scene.intake()
    (waiting,) = scene.ledger().values()
    ended = Ending(request=waiting.request.id, state=EndState.CANCELLED, at=datetime.now(UTC), note="banned")

    def ban_author(ledger: Ledger) -> None:
        ledger.append_fact(ban)
        ledger.append_ending(waiting.request, ended)

    push(add=ban_author)
    assert pull.merged_at is None and "carol" not in settle(scene, capsys)
    hold = Moderation(id="hold", action=Action.HOLD, judgement="0" * 64, reason="?", by=carol.id, at=datetime.now(UTC))
    again = waiting.request.model_copy(update={"id": make_id(pull.number, pull.head_sha, "CPU", Mode.RANKED, 9)})

    def end_rival(ledger: Ledger) -> None:
        ledger.append_fact(hold)
        ledger.append_ending(again, ended.model_copy(update={"request": again.id}))

    push(add=end_rival)
    assert ".ended.json" in settle(scene, capsys), "only a ban ends others' requests"
    third = waiting.request.model_copy(update={"id": make_id(pull.number, pull.head_sha, "CPU", Mode.RANKED, 8)})

    def pretend_to_ban(ledger: Ledger) -> None:
        ledger.append_fact(ban.model_copy(update={"id": "c", "user_id": 99}))
        ledger.append_ending(third, ended.model_copy(update={"request": third.id}))
        (ledger.path / "moderation/deep.json").write_text("[" * 60_000)

    push(add=pretend_to_ban)
    assert "ranked-8.ended.json" in settle(scene, capsys), "only of the author who is banned"
    forged = KnownAccount(user_id=77, login="mallory", first_seen=datetime.now(UTC))
    push(add=lambda ledger: ledger.append_account(forged))
    said = settle(scene, capsys)
    assert f"carol (account {carol.id}) pushed" in said and f"`{forged.place}`" in said
    scene.submit(scene.world.add_user("bob"), FASTER)
    assert "github-actions" not in settle(scene, capsys)


def test_a_forged_push_is_found_behind_many_of_the_bots(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    carol = scene.world.add_user("carol", permission="write")
    with LedgerBranch(scene.server.git_url, token=scene.world.personal_token(carol).value) as branch:
        branch.ledger.append_account(KnownAccount(user_id=7, login="mallory", first_seen=datetime.now(UTC)))
        branch.commit("By hand")
    (push,) = scene.world.activity
    many = [replace(push, id=-number, actor=scene.world.bot) for number in range(1, 321)]
    scene.world.activity += many
    before = len(scene.server.requests("GET */activity"))
    assert f"carol (account {carol.id}) pushed" in settle(scene, capsys)
    assert len(scene.server.requests("GET */activity")) == before + 4
    scene.world.activity += [replace(one, id=one.id - 1000) for one in many * 4]
    assert "were not looked at: there were too many" in settle(scene, capsys)


def test_the_reconciler_delivers_an_undelivered_result(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    pull = opened(scene)
    scene.intake()
    scene.evaluate(scene.waiting()[0], scene.honest(), report=False)
    assert "AC; merged" in settle(scene, capsys)
    assert pull.merged_at and "rank 1 of 1" in scene.comment(pull.number)
    assert "Nothing to do" in settle(scene, capsys)


@pytest.mark.parametrize(
    ("pattern", "times"),
    [
        ("PATCH */issues/comments/*", 2),  # the full comment, and the short one
        ("PATCH */check-runs/*", 2),
        ("POST /graphql/Comments/*", 1),
        ("PUT */merge", 1),
        ("POST */dispatches", 1),
    ],
)
def test_the_reconciler_finishes_a_report_that_failed_partway(
    scene: Scene, capsys: pytest.CaptureFixture[str], pattern: str, times: int
) -> None:
    pull = opened(scene)
    scene.intake()
    (run,) = scene.waiting()
    assert scene.resolve(run) == 0
    scene.judge(run, scene.honest())
    scene.server.fail(pattern, Failure(status=422), times=times)
    assert scene.report(run) == 3
    scene.world.finish_run(run, "failure")
    settle(scene, capsys)
    assert "rank 1 of 1" in scene.comment(pull.number)
    assert scene.checks() == ["PullRank / CPU: success"]
    assert pull.merged_at and len(scene.judgements()) == 1
    # Twice if the first report did not merge: once for the row, and once for the merge.
    assert len(scene.runs("publish.yml")) == (1 if pattern == "POST */dispatches" else 2)
    assert "Nothing to do" in settle(scene, capsys)


def test_a_report_rejected_as_a_comment_goes_to_the_check_run(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    pull = scene.submit(scene.alice, SOURCE)
    (run,) = scene.waiting()
    scene.server.fail("PATCH */issues/comments/*", Failure(status=422))
    scene.evaluate(run, scene.honest())
    assert pull.merged_at and "read it in the [check run](" in scene.comment(pull.number)
    assert "accepted (AC), rank 1 of 1" in scene.comment(pull.number)
    assert "the comment lacks a report" in (scene.folder / "summary").read_text()
    (check,) = scene.world.checks.values()
    assert "Rank 1 of 1" in check.output["summary"]
    assert "Nothing to do" in settle(scene, capsys)


@pytest.mark.parametrize(
    ("pattern", "times", "words"),
    [
        ("POST /graphql/Comments/*", 1, "accepted (AC), benchmark only"),  # from the check run
        ("PATCH */check-runs/*", 2, "accepted (AC); its report is lost; `/rerun` judges it again"),
    ],
)
def test_the_reconciler_reports_what_remains_of_a_benchmark_with_a_lost_judgement(
    scene: Scene, capsys: pytest.CaptureFixture[str], pattern: str, times: int, words: str
) -> None:
    pull = scene.submit(scene.alice, SOURCE, draft=True)
    (run,) = scene.waiting()
    assert scene.resolve(run) == 0
    scene.judge(run, scene.honest())
    scene.server.fail(pattern, Failure(status=422), times=times)
    assert scene.report(run) == 3
    scene.world.finish_run(run, "failure")
    assert "queued since" in scene.comment(pull.number)
    scene.root = scene.copy_of_main()
    reference = scene.root / "tasks/vectoradd/reference.py"
    reference.write_text(reference.read_text() + "\n# Changed.\n")
    assert "already judged" in settle(scene, capsys)
    assert words in scene.comment(pull.number)
    assert "Nothing to do" in settle(scene, capsys)


def test_an_older_event_that_comes_late_changes_nothing(scene: Scene) -> None:
    clock = scene.world.clock
    scene.world.clock = lambda: clock() - timedelta(minutes=1)
    pull = opened(scene)
    scene.world.clock = clock
    (late,) = scene.events
    scene.events.clear()
    scene.world.push(pull, {path_of("alice"): FASTER})
    scene.intake()
    assert scene.hear(late) == 0
    (run,) = scene.waiting()
    scene.evaluate(run, scene.honest())
    assert pull.merged_at and scene.world.git.read("main", path_of("alice")) == FASTER
    assert "rank 1 of 1" in scene.comment(pull.number)


def test_an_older_event_that_comes_late_does_no_lasting_harm(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    pull = opened(scene)
    (late,) = scene.events
    late.payload["pull_request"]["updated_at"] = "2999-01-01T00:00:00Z"  # it does not look late
    scene.events.clear()
    scene.world.push(pull, {path_of("alice"): FASTER})
    scene.intake()
    assert scene.hear(late) == 0
    for run in scene.waiting():
        scene.evaluate(run, scene.honest())
    assert not pull.merged_at
    for _ in range(3):
        settle(scene, capsys)
        for run in scene.waiting():
            scene.evaluate(run, scene.honest(ratio=0.4))
    assert pull.merged_at and scene.world.git.read("main", path_of("alice")) == FASTER
    assert "rank 1 of 1" in scene.comment(pull.number)


def test_a_lost_closing_event_still_cancels_the_waiting_judging(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    pull = opened(scene)
    scene.server.fail("POST */dispatches", Failure(status=500))
    scene.intake()
    scene.world.close(pull)
    assert "cancelled, the pull request was closed" in settle(scene, capsys)
    assert "cancelled" in scene.comment(pull.number) and scene.checks() == ["PullRank / CPU: cancelled"]
    assert "Nothing to do" in settle(scene, capsys)


def test_a_repeated_step_of_the_plan_changes_nothing(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    from scripts.bot.reconcile.gather import gather
    from scripts.bot.reconcile.reconcile import act

    pull = opened(scene)
    scene.intake()
    scene.evaluate(scene.waiting()[0], scene.honest(), report=False)
    assert scene.reconcile() == 0  # Too early: nothing is done.
    with open_context(default_branch_only=True) as context:
        now = datetime.now(UTC) + SOON
        steps = plan(gather(context, now))
        assert names(steps) == ["DeliverResult"]
        said = [act(step, context, now) for step in (*steps, *steps)]
    assert "merged" in said[0] and len(scene.judgements()) == 1 and pull.merged_at
    assert len(scene.runs("publish.yml")) == 1 and "rank 1 of 1" in scene.comment(pull.number)


def test_two_reconcilers_at_the_same_moment_do_nothing_twice(scene: Scene) -> None:
    from scripts.bot.reconcile.gather import gather
    from scripts.bot.reconcile.reconcile import act

    heard, unheard = opened(scene), scene.world.open_pull(scene.world.add_user("bob"), {path_of("bob"): FASTER})
    scene.events.pop()
    scene.intake()
    scene.evaluate(scene.waiting()[0], scene.honest(), report=False)
    scene.enter("reconcile.yml", "reconcile")
    both = Barrier(2, timeout=60)

    def once(_: int) -> list[str]:
        with open_context(default_branch_only=True) as context:
            steps = plan(gather(context, now := datetime.now(UTC) + SOON))
            both.wait()
            return [act(step, context, now) for step in steps]

    with ThreadPoolExecutor(2) as two:
        said = list(two.map(once, range(2)))
    assert [len(lines) for lines in said] == [2, 2]
    assert heard.merged_at and len(scene.judgements()) == 1
    assert [one.request.pull_request for one in scene.ledger().values() if one.is_open] == [unheard.number]
    (waiting,) = scene.waiting()
    scene.evaluate(waiting, scene.honest(ratio=0.6))
    scene.reconcile(after=2 * SOON)  # If both wrote a first comment, the younger is deleted.
    assert unheard.merged_at
    assert "rank 1 of" in scene.comment(heard.number) and "rank 2 of 2" in scene.comment(unheard.number)


def test_an_entry_that_improves_nothing_is_closed_after_two_quiet_weeks(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    opened(scene)
    scene.intake()
    scene.evaluate(scene.waiting()[0], scene.honest(ratio=0.5))
    slower = opened(scene, FASTER)
    scene.intake()
    scene.evaluate(scene.waiting()[0], scene.honest(ratio=0.9))
    settle(scene, capsys)
    assert slower.state == "open"
    assert scene.reconcile(after=timedelta(days=15)) == 0
    assert slower.state == "closed"
    assert [one.body for one in scene.world.comments_on(slower.number)][-1].startswith("<!-- pullrank closed -->")


def test_an_unreadable_pull_request_holds_up_no_other(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    gone = opened(scene)
    scene.intake()
    scene.world.close(gone)
    scene.events.clear()
    scene.server.fail("GET */pulls", Failure(status=404), nth=2, times=1000)  # the list of closed ones
    scene.server.fail(f"* /graphql/Pull/{gone.number}", Failure(status=404), times=1000)
    unheard = scene.world.open_pull(scene.world.add_user("bob"), {path_of("bob"): FASTER})
    scene.events.clear()
    assert "requests 1 of 1 boards" in settle(scene, capsys)
    assert "queued since" in scene.comment(unheard.number) and "queued since" in scene.comment(gone.number)
    scene.server.failures.clear()
    assert "cancelled, the pull request was closed" in settle(scene, capsys)


def test_a_waiting_run_behind_a_hundred_others_is_not_started_again(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    opened(scene)
    scene.intake()
    (longest,) = scene.waiting()
    for number in range(120):
        scene.world.start_run("evaluate.yml", "workflow_dispatch", title=f"judge {number}-0-CPU-ranked-1")
    assert "Nothing to do" in settle(scene, capsys)
    assert [run for run in scene.waiting() if run.title == longest.title] == [longest]


def test_the_reconciler_stops_a_withdrawn_run_if_intake_failed_to(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    pull = scene.submit(scene.alice, SOURCE)
    (run,) = scene.waiting()
    assert scene.resolve(run) == 0
    scene.world.add_comment(pull.number, scene.alice, "/cancel")
    scene.server.fail(
        "POST /graphql/Comments/*", Failure(status=422)
    )  # the command was executed, but its answer is lost
    scene.intake()
    assert scene.waiting() == [run]
    assert "stopped its run, which is no longer wanted" in settle(scene, capsys)
    assert run.conclusion == "cancelled" and "cancelled" in scene.comment(pull.number)
    assert "Nothing to do" in settle(scene, capsys)


def hide_behind_a_hundred_others(scene: Scene) -> None:
    for number in range(120):
        run = scene.world.start_run("evaluate.yml", "workflow_dispatch", title=f"judge {number}-0-CPU-ranked-1")
        scene.world.finish_run(run, "success")


@pytest.mark.parametrize("draft", [False, True], ids=["ranked", "a benchmark"])
def test_the_reconciler_reports_a_run_behind_a_hundred_others(
    scene: Scene, capsys: pytest.CaptureFixture[str], draft: bool
) -> None:
    pull = scene.submit(scene.alice, SOURCE, draft=draft)
    (run,) = scene.waiting()
    assert scene.resolve(run) == 0
    scene.judge(run, scene.honest())
    scene.server.fail("PATCH */check-runs/*", Failure(status=422), times=2)
    assert scene.report(run) == 3
    scene.world.finish_run(run, "failure")
    hide_behind_a_hundred_others(scene)
    settle(scene, capsys)
    assert "### 🟢 `vectoradd` on `CPU`: accepted (AC)" in scene.comment(pull.number)
    assert scene.checks() == ["PullRank / CPU: success"] and bool(pull.merged_at) is not draft


def test_a_result_behind_a_hundred_other_runs_is_delivered_without_rejudging(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    pull = scene.submit(scene.alice, SOURCE)
    (run,) = scene.waiting()
    scene.evaluate(run, scene.honest(), report=False)
    hide_behind_a_hundred_others(scene)
    assert "AC; merged" in settle(scene, capsys)
    assert pull.merged_at and not scene.waiting()


def test_a_request_judged_after_the_plan_stays_judged(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    from scripts.bot.reconcile.reconcile import act

    pull = opened(scene)
    scene.intake()
    (status,) = scene.ledger().values()
    scene.evaluate(scene.waiting()[0], scene.honest())
    before = scene.comment(pull.number)
    scene.enter("reconcile.yml", "reconcile")
    with open_context(default_branch_only=True) as context:
        step = EndRequest(request=status.request, state=EndState.CANCELLED, note="the pull request was closed")
        assert act(step, context, datetime.now(UTC)).endswith("already ended differently")
    assert scene.comment(pull.number) == before and scene.checks() == ["PullRank / CPU: success"]


def test_a_request_reported_after_the_plan_keeps_its_check_run(scene: Scene) -> None:
    from scripts.bot.reconcile.reconcile import act

    scene.submit(scene.alice, SOURCE, draft=True)
    (status,) = scene.ledger().values()
    scene.evaluate(scene.waiting()[0], scene.honest())
    (check,) = scene.world.checks.values()
    report = check.output["summary"]
    scene.enter("reconcile.yml", "reconcile")
    with open_context(default_branch_only=True) as context:
        act(UpdateComment(request=status.request, ending=None), context, datetime.now(UTC))
    assert scene.checks() == ["PullRank / CPU: success"] and check.output["summary"] == report


def test_the_reconciler_reports_when_no_event_reaches_intake(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    opened(scene)
    assert "Pull request events do not reach intake.yml" in settle(scene, capsys)
    assert "Nothing to do" in settle(scene, capsys)
    run = scene.world.start_run("intake.yml", "pull_request_target")
    scene.world.finish_run(run, "startup_failure")
    opened(scene, FASTER)
    assert "Pull request events do not reach intake.yml" in settle(scene, capsys), "it was blocked"
    scene.world.start_run("intake.yml", "pull_request_target")
    opened(scene, FASTER + b"# Faster.\n")
    said = settle(scene, capsys)
    assert "requests 1 of 1 boards" in said and "Pull request events" not in said


def test_the_reconciler_deletes_the_younger_of_two_first_comments(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    pull = opened(scene)
    scene.intake()
    mallory = scene.world.add_user("mallory")
    for author in (scene.world.bot, mallory):
        scene.world.add_comment(pull.number, author, f"{MARKER}\nAnother.")
    scene.world.add_comment(pull.number, scene.world.bot, f"An answer that quotes {MARKER}.")
    assert "deleted our second comment" in settle(scene, capsys)
    first, *others = [one.body for one in scene.world.comments_on(pull.number)]
    assert "queued since" in first and others == [f"{MARKER}\nAnother.", f"An answer that quotes {MARKER}."]


def test_the_reconciler_reports_a_disabled_workflow_once(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    bob = scene.world.add_user("bob")
    scene.world.disabled_workflows.add("evaluate.yml")
    pulls = [opened(scene), scene.world.open_pull(bob, {path_of("bob"): FASTER})]
    scene.intake()
    capsys.readouterr()
    assert scene.reconcile(after=SOON) == 3
    said = capsys.readouterr()
    assert said.err.count("it is disabled. Enable it: Actions → evaluate.yml → Enable workflow") == 1
    assert len(scene.server.requests("POST */evaluate.yml/dispatches")) == 3
    scene.world.disabled_workflows.clear()
    assert settle(scene, capsys).count("started again") == 2
    for run in scene.waiting():
        scene.evaluate(run, scene.honest())
    assert all(pull.merged_at for pull in pulls)


def test_the_reconciler_names_an_unreadable_decision(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    with LedgerBranch(str(scene.world.git.path)) as branch:
        (branch.ledger.path / "moderation").mkdir()
        (branch.ledger.path / "moderation/2026-11-02-x.json").write_text("{")
        branch.commit("torn")
    scene.reconcile()
    assert "left out: moderation/2026-11-02-x.json: this decision has no effect: not JSON" in capsys.readouterr().out


def test_an_idle_reconciler_makes_at_most_seven_requests(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    scene.reconcile()
    assert len(scene.server.rest_requests()) <= 7
    assert "Nothing to do" in capsys.readouterr().out
