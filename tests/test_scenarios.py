"""Scenarios of a competition, from an event to the state after it.

Elsewhere: tests/test_deliver.py follows one submission, tests/test_reconcile.py has recovered failures,
tests/test_intake.py the rules for requests, tests/test_forged_artifact.py forged judgements field by field.
"""

import ast
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from threading import Lock
from typing import Any

import pytest

from harness.records.fields import Mode
from scripts.bot.intake import intake
from scripts.bot.intake.decision import EventFacts
from scripts.bot.reconcile import reconcile
from scripts.bot.reconcile.steps import (
    MergePull,
)
from scripts.bot.report import report
from scripts.bot.workflow import open_context
from scripts.github.fork import Fork
from scripts.ledger.branch import LedgerBranch
from scripts.ledger.moderation import Action, Moderated, Moderation
from scripts.ledger.request import EndState, Request
from scripts.standings.standings import standings
from tests.competition import (
    COPIED,
    FASTER,
    OWN,
    SOURCE,
    Scene,
    digest_of,
    duel_with,
    of_its_board,
    path_of,
    the_board,
    two_boards,
)
from tests.github_server import Event, Pull, User
from tests.github_server import Run as WorkflowRun

pytestmark = pytest.mark.judges_nothing

SOON = timedelta(minutes=10)
BOBS = b"def custom_kernel(data):\n    return data[0].add(data[1])\n"
CAROLS = b"def custom_kernel(data):\n    return data[1] + data[0]\n"


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    made = Scene(tmp_path, monkeypatch)
    with made.server:
        yield made


def settle(scene: Scene, capsys: pytest.CaptureFixture[str]) -> str:
    """Reconcile, ten minutes later; returns the output."""
    capsys.readouterr()
    assert scene.reconcile(after=SOON) == 0
    return capsys.readouterr().out


def first_place(scene: Scene) -> str:
    champion = standings(the_board(), scene.judgements()).champion
    return champion.login if champion else ""


# Copies.


def test_a_copy_is_refused_if_its_original_arrives_before_judging(scene: Scene) -> None:
    real, mallory = scene.world.clock, scene.world.add_user("mallory")
    scene.world.clock = lambda: real() - timedelta(minutes=2)
    original = scene.world.open_pull(scene.alice, {path_of("alice"): OWN}, draft=True)
    unheard = list(scene.events)
    scene.events.clear()
    scene.world.clock = real
    copy = scene.submit(mallory, COPIED)
    (run,) = scene.waiting()
    scene.events += unheard
    scene.intake()
    scene.evaluate(run, scene.honest())
    assert f"this is the file that `alice` submitted for `vectoradd` in #{original.number}" in scene.comment(
        copy.number
    )
    assert scene.judgements() == () and not copy.merged_at
    ended = {status.request.login: status.ending and status.ending.state for status in scene.ledger().values()}
    assert ended == {"alice": None, "mallory": EndState.REFUSED}


# Places.


def test_an_equal_time_by_another_author_ranks_behind_the_earlier_one(scene: Scene) -> None:
    scene.submit(scene.alice, SOURCE)
    scene.evaluate(scene.waiting()[0], scene.honest())
    pull = scene.submit(scene.world.add_user("bob"), BOBS)
    scene.evaluate(scene.waiting()[0], scene.honest())
    assert "rank 2 of 2" in scene.comment(pull.number) and "alice" in scene.comment(pull.number)
    assert pull.merged_at and first_place(scene) == "alice"


def test_an_equal_time_by_the_same_author_changes_nothing(scene: Scene) -> None:
    scene.submit(scene.alice, SOURCE)
    scene.evaluate(scene.waiting()[0], scene.honest())
    again = scene.submit(scene.alice, FASTER)
    scene.evaluate(scene.waiting()[0], scene.honest())
    assert "keeps your row" in scene.comment(again.number) and again.state == "open"
    assert scene.world.git.read("main", path_of("alice")) == SOURCE


@pytest.mark.parametrize("login", ["artur-", "-jerry-", "gil--", "grace_acme"])
def test_an_author_with_an_old_or_a_managed_login_is_ranked(scene: Scene, login: str) -> None:
    pull = ranked(scene, scene.world.add_user(login), SOURCE)
    assert pull.merged_at and rows(scene) == [login]


# Merging.


def test_two_pull_requests_of_one_file_are_never_merged_into_a_file_that_was_not_judged(scene: Scene) -> None:
    middle = SOURCE + b"# Line.\n" * 12
    ranked(scene, scene.alice, middle, ratio=0.8)
    above, below = scene.submit(scene.alice, b"# A\n" + middle), scene.submit(scene.alice, middle + b"# B\n")
    first, second = scene.waiting()
    scene.evaluate(first, scene.honest(ratio=0.6))
    assert above.merged_at
    scene.evaluate(second, scene.honest(ratio=0.4))
    assert not below.merged_at and "a file that was never judged" in scene.comment(below.number)
    assert scene.world.git.read("main", path_of("alice")) == b"# A\n" + middle
    assert rows(scene) == ["alice"], "its row counts, merged or not"
    scene.world.update_branch(below)
    scene.intake()
    scene.evaluate(scene.waiting()[0], scene.honest(ratio=0.2))
    assert below.merged_at
    assert scene.world.git.read("main", path_of("alice")) == b"# A\n" + middle + b"# B\n"


def test_an_author_who_goes_on_in_a_branch_that_was_merged_is_merged_again(scene: Scene) -> None:
    middle = SOURCE + b"# Line.\n" * 12
    ranked(scene, scene.alice, middle, ratio=0.8)
    first = ranked(scene, scene.alice, b"# A\n" + middle, ratio=0.6)
    content = {path_of("alice"): b"# A\n" + middle + b"# B\n"}
    head = scene.world.git.commit(content, parent=first.head_sha, message="Go on")
    pull = scene.world.add_pull(scene.alice, head, title="Go on", body="", draft=False, branch="patch-1")
    scene.intake()
    scene.evaluate(scene.waiting()[0], scene.honest(ratio=0.4))
    assert pull.merged_at and {path_of("alice"): scene.world.git.read("main", path_of("alice"))} == content


def test_a_pull_request_that_changes_its_target_during_the_report_is_not_merged(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    pull = scene.submit(scene.alice, SOURCE)
    scene.world.git.set_ref("refs/heads/topic", pull.base_sha)
    real = scene.world.edit_comment

    def edit_and_retarget(*arguments: Any) -> None:
        real(*arguments)
        pull.base_ref = "topic"

    monkeypatch.setattr(scene.world, "edit_comment", edit_and_retarget)
    scene.evaluate(scene.waiting()[0], scene.honest())
    assert "rank 1 of 1" in scene.comment(pull.number) and not pull.merged_at
    assert scene.world.git.read("topic", path_of("alice")) is None


def test_a_result_that_is_withdrawn_between_plan_and_merge_is_not_merged(
    scene: Scene, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.world.settings["merge_refusal"] = "Base branch was modified. Review and try the merge again."
    pull = ranked(scene, scene.alice, SOURCE)
    del scene.world.settings["merge_refusal"]
    real = reconcile.act

    def withdraw_and_act(step: Any, *rest: Any) -> str:
        if isinstance(step, MergePull):
            say(scene, pull, scene.alice, "/withdraw")
            scene.enter("reconcile.yml", "reconcile")
        return real(step, *rest)

    monkeypatch.setattr(reconcile, "act", withdraw_and_act)
    assert "not merged: its result no longer makes its author's row" in settle(scene, capsys)
    assert not pull.merged_at


# Withdrawing.


def ranked(scene: Scene, author: User, source: bytes, **how: Any) -> Pull:
    """A pull request that was judged, and merged if it has a row."""
    pull = scene.submit(author, source)
    scene.evaluate(scene.waiting()[-1], scene.honest(**how))
    return pull


def say(scene: Scene, pull: Pull, author: User, body: str) -> str:
    """Comment on the pull request; returns its last comment afterwards."""
    scene.world.add_comment(pull.number, author, body)
    scene.intake()
    return scene.world.comments_on(pull.number)[-1].body


def rows(scene: Scene) -> list[str]:
    """The logins on the board, in order."""
    ledger = scene.copy_of_ledger()
    moderated = Moderated.after(ledger.moderations())
    return [row.login for row in standings(the_board(), moderated.counted(ledger.judgements().judgements)).rows]


def withdrawals(scene: Scene) -> list[Moderation]:
    return [one for one in scene.copy_of_ledger().moderations() if one.action is Action.WITHDRAW]


def test_an_author_withdraws_and_the_next_one_leads(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    older = ranked(scene, scene.alice, SOURCE, ratio=0.5)
    ranked(scene, scene.alice, FASTER, ratio=0.3)
    ranked(scene, scene.world.add_user("bob"), BOBS, ratio=0.6)
    assert rows(scene) == ["alice", "bob"]
    published = len(scene.runs("publish.yml"))
    answer = say(scene, older, scene.alice, "Too hasty.\n\n/withdraw")
    assert "You have withdrawn from `vectoradd` on `CPU`." in answer
    assert rows(scene) == ["bob"] and len(withdrawals(scene)) == 2, "her older file must not get a row instead"
    assert {(one.by, one.reason) for one in withdrawals(scene)} == {
        (scene.alice.id, f"Commented /withdraw on #{older.number}.")
    }
    assert len(scene.runs("publish.yml")) == published + 1
    assert scene.world.git.read("main", path_of("alice")) == FASTER
    assert "Nothing to do" in settle(scene, capsys)


def test_only_the_author_can_withdraw_whoever_has_the_login(scene: Scene) -> None:
    pull = ranked(scene, scene.alice, SOURCE)
    maintainer = scene.world.add_user("mona", permission="write")
    assert "Only the author of a result can withdraw it" in say(scene, pull, maintainer, "/withdraw")
    scene.world.rename(scene.alice, "alice-moved")
    usurper = scene.world.add_user("alice")
    before = len(scene.world.comments_on(pull.number))
    say(scene, pull, usurper, "/withdraw")
    assert len(scene.world.comments_on(pull.number)) == before + 1, "a stranger gets no answer"
    assert rows(scene) == ["alice"] and not withdrawals(scene)
    own = scene.submit(usurper, BOBS)  # refused: the folder belongs to the other account
    assert "You have no results to withdraw" in say(scene, own, usurper, "/withdraw")
    say(scene, pull, scene.alice, "/withdraw")
    assert rows(scene) == []


def test_a_withdrawal_received_twice_is_obeyed_once(scene: Scene) -> None:
    pull = ranked(scene, scene.alice, SOURCE)
    scene.world.add_comment(pull.number, scene.alice, "/withdraw")
    event = scene.events[-1]
    scene.intake()
    answer = scene.world.comments_on(pull.number)[-1].body
    say(scene, pull, scene.alice, "/rank")
    scene.evaluate(scene.waiting()[0], scene.honest())
    scene.hear(event)
    assert scene.world.comments_on(pull.number)[-2].body == answer
    assert rows(scene) == ["alice"] and len(withdrawals(scene)) == 1
    say(scene, pull, scene.alice, "/withdraw")
    assert "You have no results to withdraw" in say(scene, pull, scene.alice, "/withdraw")
    assert rows(scene) == [] and len(withdrawals(scene)) == 2


def test_a_withdrawn_file_that_is_judged_again_keeps_its_earlier_times(scene: Scene) -> None:
    pull = ranked(scene, scene.alice, SOURCE, ratio=0.8)
    say(scene, pull, scene.alice, "/withdraw")
    say(scene, pull, scene.alice, "/rank")
    scene.evaluate(scene.waiting()[0], scene.honest(ratio=0.4))
    (row,) = standings(the_board(), scene.judgements()).rows
    ledger = scene.copy_of_ledger()
    again = Moderated.after(ledger.moderations()).counted(ledger.judgements().judgements)
    assert standings(the_board(), again).rows == (row,) and len(row.judgements) == 2


def test_a_withdrawal_cancels_what_is_still_being_judged(scene: Scene) -> None:
    first = ranked(scene, scene.alice, SOURCE)
    second = scene.submit(scene.alice, FASTER)
    (run,) = scene.waiting()
    assert scene.resolve(run) == 0
    say(scene, first, scene.alice, "/withdraw")
    assert run.conclusion == "cancelled"
    scene.judge(run, scene.honest(ratio=0.1))
    assert scene.report(run) == 0
    assert rows(scene) == [] and not second.merged_at
    assert {one.ending and one.ending.state for one in scene.ledger().values()} == {
        EndState.JUDGED,
        EndState.CANCELLED,
    }


def unreported(scene: Scene) -> tuple[Pull, WorkflowRun]:
    """Alice's file has been judged, and the result is not in the ledger yet."""
    pull = scene.submit(scene.alice, SOURCE)
    (run,) = scene.waiting()
    assert scene.resolve(run) == 0
    scene.judge(run, scene.honest())
    return pull, run


def test_a_withdrawal_during_a_report_finds_its_judgement(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    pull, run = unreported(scene)
    gather = intake.gather

    def gather_before_the_report(*given: Any) -> EventFacts:
        facts = gather(*given)
        assert not facts.judged and scene.report(run) == 0
        return facts

    monkeypatch.setattr(intake, "gather", gather_before_the_report)
    assert "You have withdrawn from `vectoradd`" in say(scene, pull, scene.alice, "/withdraw")
    assert rows(scene) == [] and len(withdrawals(scene)) == 1


def test_a_report_during_a_withdrawal_leaves_no_judgement(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    pull, run = unreported(scene)
    record = report.record

    def record_after_the_withdrawal(*given: Any) -> Request | None:
        say(scene, pull, scene.alice, "/withdraw")
        return record(*given)

    monkeypatch.setattr(report, "record", record_after_the_withdrawal)
    assert scene.report(run) == 0
    assert not scene.judgements() and not pull.merged_at
    (status,) = scene.ledger().values()
    assert status.ending and status.ending.state is EndState.CANCELLED


def test_a_late_withdrawal_spares_what_was_asked_after_it(scene: Scene) -> None:
    real = scene.world.clock
    scene.world.clock = lambda: real() - timedelta(minutes=1)
    pull = scene.world.open_pull(scene.alice, {path_of("alice"): SOURCE})
    scene.intake()
    scene.evaluate(scene.waiting()[0], scene.honest())
    scene.world.add_comment(pull.number, scene.alice, "/withdraw")
    late = scene.events.pop()
    scene.world.clock = real
    ranked(scene, scene.alice, FASTER, ratio=0.3)
    scene.hear(late)
    (row,) = standings(the_board(), Moderated.after(withdrawals(scene)).counted(scene.judgements())).rows
    assert row.digest == digest_of(FASTER)


def remove(scene: Scene, author: User, owner: str = "alice", **how: Any) -> Pull:
    """A pull request that removes a merged file, and that intake has seen."""
    pull = scene.world.open_pull(author, {path_of(owner): None}, **how)
    scene.intake()
    return pull


def test_opening_a_pull_request_that_removes_the_file_withdraws_once(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    ranked(scene, scene.alice, SOURCE, ratio=0.5)
    ranked(scene, scene.alice, FASTER, ratio=0.3)
    ranked(scene, scene.world.add_user("bob"), BOBS, ratio=0.6)
    waiting = scene.submit(scene.alice, SOURCE + b"# Tuned.\n")
    pull = remove(scene, scene.alice)
    assert rows(scene) == ["bob"] and not scene.waiting()
    comment = scene.comment(pull.number)
    assert "You have withdrawn from `vectoradd` on `CPU`." in comment and "A maintainer can merge" in comment
    assert {one.reason for one in withdrawals(scene)} == {f"Removed the file in #{pull.number}."}
    assert len(withdrawals(scene)) == 2 and scene.runs("publish.yml")
    assert "already withdrawn" in settle(scene, capsys) and not scene.waiting(), "a cancelled judging stays cancelled"

    say(scene, waiting, scene.alice, "/rank")
    scene.evaluate(scene.waiting()[0], scene.honest(ratio=0.4))
    settle(scene, capsys)
    scene.world.close(pull)
    scene.world.reopen(pull)
    scene.intake()
    assert rows(scene) == ["bob", "alice"] and len(withdrawals(scene)) == 2
    assert "You have withdrawn" in scene.comment(pull.number)


def test_marking_a_removal_as_ready_withdraws_if_its_author_does_it(scene: Scene) -> None:
    ranked(scene, scene.alice, SOURCE)
    pull = remove(scene, scene.alice, draft=True)
    assert rows(scene) == ["alice"]
    scene.world.mark_ready(pull)
    scene.intake()
    assert rows(scene) == [] and len(withdrawals(scene)) == 1
    assert "You have withdrawn from `vectoradd` on `CPU`." in scene.comment(pull.number)


def test_every_other_event_of_a_removal_only_says_how_to_withdraw(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    first = ranked(scene, scene.alice, SOURCE)
    pull = remove(scene, scene.alice, draft=True)
    scene.world.mark_ready(pull, actor=scene.world.owner)
    scene.intake()
    settle(scene, capsys)
    assert "To withdraw your results in `vectoradd`, comment `/withdraw` here." in scene.comment(pull.number)
    assert rows(scene) == ["alice"] and not withdrawals(scene)
    answer = say(scene, pull, scene.alice, "/withdraw")
    assert "You have withdrawn from `vectoradd`" in answer and "on the pull request of the file" in answer
    assert rows(scene) == [] and scene.world.git.read("main", path_of("alice")) == SOURCE
    assert "no results to withdraw in `vectoradd`" in say(scene, pull, scene.alice, "/withdraw")
    say(scene, first, scene.alice, "/rank")
    scene.evaluate(scene.waiting()[0], scene.honest())
    settle(scene, capsys)
    assert rows(scene) == ["alice"], "a later result stays"


def test_withdraw_in_a_pull_request_that_has_come_to_remove_a_file_covers_the_task_of_that_file(
    scene: Scene,
) -> None:
    ranked(scene, scene.alice, SOURCE, ratio=0.5)
    pull = ranked(scene, scene.alice, FASTER, ratio=0.6)
    scene.world.push(pull, {path_of("alice"): None})
    scene.intake()
    assert "comment `/withdraw` here" in scene.comment(pull.number)
    answer = say(scene, pull, scene.alice, "/withdraw")
    assert "You have withdrawn from `vectoradd`" in answer and "A maintainer can merge" in answer
    assert rows(scene) == []


def test_a_removal_that_was_closed_before_the_bot_saw_it_withdraws_nothing(scene: Scene) -> None:
    ranked(scene, scene.alice, SOURCE)
    pull = scene.world.open_pull(scene.alice, {path_of("alice"): None})
    opened = scene.events.pop()
    scene.world.close(pull)
    scene.intake()
    scene.hear(opened)
    assert rows(scene) == ["alice"] and not withdrawals(scene)


def test_only_the_author_withdraws_by_removing_the_file(scene: Scene) -> None:
    ranked(scene, scene.alice, SOURCE)
    pull = remove(scene, scene.world.add_user("bob"))
    assert "which is not your submission" in scene.comment(pull.number)
    scene.world.rename(scene.alice, "alice-moved")
    usurper = scene.world.add_user("alice")
    pull = remove(scene, usurper)
    assert "belongs to another account" in scene.comment(pull.number)
    assert rows(scene) == ["alice"] and not withdrawals(scene)


def test_an_author_withdraws_from_one_board_and_stays_on_the_other(scene: Scene) -> None:
    pull = two_boards(scene)
    scene.intake()
    for run in scene.waiting():
        scene.evaluate(run, of_its_board(scene))
    assert "no results to withdraw on `A100`; did you mean 'H100'?" in say(
        scene, pull, scene.alice, "/withdraw gpu=A100"
    )
    assert "from `vectoradd` on `H100`." in say(scene, pull, scene.alice, "/withdraw gpu=H100")
    judgements = scene.judgements()
    left = Moderated.after(withdrawals(scene)).counted(judgements)
    assert [one.gpu for one in left] == ["CPU"] and len(judgements) == 2


def test_a_withdrawn_champions_challengers_are_dueled_again(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    bob = scene.world.add_user("bob")
    ranked(scene, bob, BOBS, ratio=0.6)
    champion = ranked(scene, scene.alice, SOURCE, ratio=0.3, duel=duel_with("bob", BOBS, 0.5))
    ranked(scene, scene.world.add_user("carol"), CAROLS, ratio=0.5)
    assert rows(scene) == ["alice", "carol", "bob"] and first_place(scene) == "alice"
    say(scene, champion, scene.alice, "/withdraw")
    assert f"its duel with bob ({digest_of(BOBS)[:12]}) is due" in settle(scene, capsys)
    scene.evaluate(scene.waiting()[0], scene.honest(ratio=0.5, duel=duel_with("bob", BOBS, 0.8)))
    assert rows(scene) == ["carol", "bob"]


def test_a_judging_that_the_bot_asked_for_brings_no_withdrawn_row_back(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    _, second = dueled_at_once(scene)
    settle(scene, capsys)
    (rematch,) = scene.waiting()
    request = scene.request(rematch.inputs["request"])
    say(scene, second, scene.world.add_user("carol"), "/withdraw")
    assert rows(scene) == ["bob", "alice"] and rematch.conclusion == "cancelled"
    # A reconciler that read the ledger before may still request it.
    again = request.model_copy(update={"id": f"{request.id.removesuffix('2')}3"})
    with LedgerBranch(str(scene.world.git.path)) as branch:
        assert branch.ledger.append_request(again)
        branch.commit("Asked meanwhile")
    run = scene.world.start_run("evaluate.yml", "workflow_dispatch", inputs={"request": again.id})
    scene.evaluate(run, scene.honest(ratio=0.3))
    assert rows(scene) == ["bob", "alice"]
    ending = scene.ledger()[again.id].ending
    assert ending and ending.state is EndState.REFUSED


# Two challengers.


def dueled_at_once(scene: Scene) -> tuple[Pull, Pull]:
    """Bob and carol have each won their duel with alice; bob's judgement came first."""
    scene.submit(scene.alice, SOURCE)
    scene.evaluate(scene.waiting()[0], scene.honest(ratio=0.5))
    bob, carol = scene.world.add_user("bob"), scene.world.add_user("carol")
    pulls = scene.submit(bob, BOBS), scene.submit(carol, CAROLS)
    runs = scene.waiting()
    assert [scene.resolve(run) for run in runs] == [0, 0]
    for run, ratio in zip(runs, (0.4, 0.3), strict=True):
        scene.judge(run, scene.honest(ratio=ratio, duel=duel_with("alice", SOURCE, 2 * ratio)))
    for run in runs:
        assert scene.report(run) == 0
        scene.world.finish_run(run, "success")
    return pulls


def test_a_challenger_who_beat_a_former_champion_duels_the_present_one(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = dueled_at_once(scene)
    assert "Won: it takes first place" in scene.comment(first.number)
    assert "bob is first now" in scene.comment(second.number) and second.merged_at
    assert first_place(scene) == "bob" and not scene.waiting()

    assert f"its duel with bob ({digest_of(BOBS)[:12]}) is due" in settle(scene, capsys)
    assert "queued since" in scene.comment(second.number)
    (run,) = scene.waiting()
    scene.evaluate(run, scene.honest(ratio=0.3, duel=duel_with("bob", BOBS, 0.75)))
    assert "Won: it takes first place" in scene.comment(second.number)
    assert first_place(scene) == "carol"
    assert set(scene.checks()) == {"PullRank / CPU: success"}, "none of them waits for ever"
    assert "Nothing to do" in settle(scene, capsys)


def test_a_duel_without_a_result_is_requested_three_times_in_all(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    _, second = dueled_at_once(scene)
    for pause in (SOON, timedelta(hours=2), timedelta(hours=8)):
        settle(scene, capsys)
        if pause > SOON:
            assert not scene.waiting(), "there is a pause between two"
            assert scene.reconcile(after=pause) == 0
        scene.evaluate(scene.waiting()[0], scene.honest(ratio=0.39))  # Not fast enough this time, so there is no duel.
    assert scene.reconcile(after=timedelta(hours=30)) == 0
    assert not scene.waiting() and first_place(scene) == "bob"
    attempts = [one.request.attempt for one in scene.ledger().values() if one.request.pull_request == second.number]
    assert attempts == [1, 2, 3, 4]


def test_a_requested_duel_survives_a_push(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    scene.root = scene.copy_of_main()
    settings = scene.root / ".github/pullrank.yml"
    settings.write_text(settings.read_text().replace("merge: auto", "merge: manual"))
    _, second = dueled_at_once(scene)
    settle(scene, capsys)
    scene.world.push(second, {path_of("carol"): CAROLS + b"# Slower.\n"})
    scene.intake()
    for run in scene.waiting():
        is_rematch = scene.request(run.inputs["request"]).is_rematch
        how = {"ratio": 0.3, "duel": duel_with("bob", BOBS, 0.75)} if is_rematch else {"ratio": 0.9}
        scene.evaluate(run, scene.honest(**how))
    assert first_place(scene) == "carol"
    assert {one.ending.state for one in scene.ledger().values() if one.ending} == {EndState.JUDGED}


def test_a_provisional_time_remeasured_on_an_idle_machine_takes_first_place(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    scene.submit(scene.alice, SOURCE)
    scene.evaluate(scene.waiting()[0], scene.honest(ratio=0.5))
    pull = scene.submit(scene.world.add_user("bob"), BOBS)
    won = duel_with("alice", SOURCE, 0.8)
    scene.evaluate(scene.waiting()[0], scene.honest(ratio=0.4, spread=0.4, duel=won))
    assert "rank 2 of 2, provisional" in scene.comment(pull.number) and first_place(scene) == "alice"

    assert "Nothing to do" in settle(scene, capsys) and not scene.waiting()
    assert scene.reconcile(after=timedelta(minutes=61)) == 0
    assert "its time is provisional after 1 judging" in capsys.readouterr().out
    assert "queued since" in scene.comment(pull.number)
    scene.evaluate(scene.waiting()[0], scene.honest(ratio=0.4, duel=won))
    assert "Won: it takes first place" in scene.comment(pull.number) and first_place(scene) == "bob"


def test_the_faster_of_two_first_entries_gets_its_duel_after_the_deadline(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    scene.submit(scene.alice, SOURCE)
    scene.submit(scene.world.add_user("bob"), BOBS)
    for run, ratio in zip(scene.waiting(), (0.5, 0.4), strict=True):
        scene.evaluate(run, scene.honest(ratio=ratio))
    assert first_place(scene) == "alice"
    scene.root = scene.copy_of_main()
    task = scene.root / "tasks/vectoradd/task.yml"
    task.write_text(f"deadline: 2020-01-01T00:00:00Z\n{task.read_text()}")
    assert "its duel with alice" in settle(scene, capsys)
    scene.evaluate(scene.waiting()[0], scene.honest(ratio=0.4, duel=duel_with("alice", SOURCE, 0.8)))
    assert first_place(scene) == "bob"
    assert "Nothing to do" in settle(scene, capsys)


# Many at once.


def hear_at_once(scene: Scene) -> list[str]:
    """Run intake for all events, eight at a time; returns a line from each."""
    events, scene.events = list(scene.events), []
    scene.enter("intake.yml", "intake")
    repository = str(scene.world.git.path)

    def hear(numbered: tuple[int, Event]) -> str:
        number, event = numbered
        payload = scene.folder / f"event-{number}.json"
        payload.write_text(json.dumps(event.payload))
        with open_context() as context:
            # Git without HTTP takes half as long, so more of them push at the same moment.
            local = replace(
                context,
                open_ledger=lambda wanted: LedgerBranch(repository, wanted=wanted),
                open_fork=lambda: Fork(repository),
            )
            return intake.run(event.name, payload, local)

    with ThreadPoolExecutor(8) as runners, one_parser():
        return list(runners.map(hear, enumerate(events)))


@contextmanager
def one_parser() -> Iterator[None]:
    """Let one thread parse at a time: Python 3.11 counts how deep its parser is for all threads together."""
    parse, lock = ast.parse, Lock()

    def parse_alone(*args: Any, **kwargs: Any) -> ast.AST:
        with lock:
            return parse(*args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ast, "parse", parse_alone)
        yield


def test_two_dozen_pull_requests_at_once_all_get_in(scene: Scene) -> None:
    for number in range(24):
        source = SOURCE + f"x = {number}\n".encode()
        scene.world.open_pull(scene.world.add_user(f"user{number}"), {path_of(f"user{number}"): source})
    said = hear_at_once(scene)
    assert all(line.endswith("requests 1 of 1 boards, ranked.") for line in said)
    requests = scene.ledger()
    assert sorted(one.request.pull_request for one in requests.values()) == sorted(scene.world.pulls)
    assert sorted(run.inputs["request"] for run in scene.runs()) == sorted(requests)
    assert all("queued since" in scene.comment(number) for number in scene.world.pulls)


def test_an_author_with_sixteen_pull_requests_gets_only_the_pending_quota(scene: Scene) -> None:
    for number in range(16):
        scene.world.open_pull(scene.alice, {path_of("alice"): SOURCE + f"x = {number}\n".encode()})
    hear_at_once(scene)
    with open_context() as context:
        allowed = context.settings.limits.pending
    requests = scene.ledger()
    assert len(requests) == allowed and all(one.is_open for one in requests.values())
    assert sorted(run.inputs["request"] for run in scene.runs()) == sorted(requests)
    told = ["pending judgings" in scene.comment(number) for number in scene.world.pulls]
    assert told.count(True) == 16 - allowed


def test_an_older_event_after_a_newer_one_cancels_nothing(scene: Scene) -> None:
    pull = scene.world.open_pull(scene.alice, {path_of("alice"): SOURCE})
    scene.world.push(pull, {path_of("alice"): FASTER})
    opened, pushed = scene.events
    for event in scene.events:
        event.payload["pull_request"]["updated_at"] = "2026-01-01T00:00:00Z"  # before the first intake, in any case
    scene.hear(pushed)
    scene.hear(opened)
    (status,) = scene.ledger().values()
    assert status.is_open and status.request.head_sha == pull.head_sha
    assert len(scene.waiting()) == 1


@pytest.mark.parametrize("what", ["close", "convert_to_draft"])
def test_a_pull_request_closed_or_drafted_before_intake_gets_no_row(scene: Scene, what: str) -> None:
    pull = scene.world.open_pull(scene.alice, {path_of("alice"): SOURCE})
    getattr(scene.world, what)(pull)
    scene.events.reverse()
    scene.intake()
    scene.evaluate(scene.waiting()[0], scene.honest())
    (status,) = scene.ledger().values()
    assert status.ending and status.ending.state is EndState.CANCELLED
    assert not scene.judgements() and not pull.merged_at and not scene.runs("publish.yml")
    assert "cancelled; `/rerun` starts it again" in scene.comment(pull.number)
    assert scene.checks() == ["PullRank / CPU: cancelled"]


def test_a_pull_request_that_github_hides_gets_no_row_or_second_judging(scene: Scene) -> None:
    pull = scene.world.open_pull(scene.alice, {path_of("alice"): SOURCE})
    scene.intake()
    (run,) = scene.waiting()
    scene.resolve(run)
    scene.judge(run, scene.honest())
    del scene.world.pulls[pull.number]  # as GitHub does with those of an account that it has flagged
    scene.report(run)
    (status,) = scene.ledger().values()
    assert status.ending and status.ending.state is EndState.CANCELLED and "no longer exists" in status.ending.note
    assert not scene.judgements() and len(scene.runs("evaluate.yml")) == 1


def test_a_reopened_pull_request_is_judged_and_merged(scene: Scene) -> None:
    pull = scene.world.open_pull(scene.alice, {path_of("alice"): SOURCE})
    scene.world.close(pull)
    scene.events.reverse()
    scene.intake()
    scene.evaluate(scene.waiting()[0], scene.honest())
    scene.world.reopen(pull)
    scene.intake()
    scene.evaluate(scene.waiting()[0], scene.honest())
    assert pull.merged_at and first_place(scene) == "alice"


def test_a_late_opening_event_of_a_closed_pull_request_requests_nothing(scene: Scene) -> None:
    pull = scene.world.open_pull(scene.alice, {path_of("alice"): SOURCE})
    scene.world.close(pull)
    (opened, _), scene.events[:] = scene.events, []
    opened.payload["pull_request"]["updated_at"] = f"{pull.created_at - timedelta(minutes=2):%Y-%m-%dT%H:%M:%SZ}"
    scene.hear(opened)
    assert not scene.ledger() and not scene.waiting()


def cancel(scene: Scene, pull: Pull, ago: timedelta) -> Event:
    """A `/cancel` from some time ago that intake has not seen yet."""
    real = scene.world.clock
    scene.world.clock = lambda: real() - ago
    scene.world.add_comment(pull.number, scene.alice, "/cancel")
    scene.world.clock = real
    return scene.events.pop()


def test_a_cancel_from_before_a_push_spares_the_push(scene: Scene) -> None:
    pull = scene.submit(scene.alice, SOURCE)
    said = cancel(scene, pull, ago=timedelta(minutes=1))
    scene.world.push(pull, {path_of("alice"): FASTER})
    scene.intake()
    scene.hear(said)
    assert [one.state for one in (status.ending for status in scene.ledger().values()) if one] == [EndState.SUPERSEDED]
    assert "are newer than your comment" in scene.world.comments_on(pull.number)[-1].body


def test_a_cancel_ends_a_judging_that_an_earlier_event_requested_late(scene: Scene) -> None:
    real = scene.world.clock
    scene.world.clock = lambda: real() - timedelta(seconds=50)
    pull = scene.world.open_pull(scene.alice, {path_of("alice"): SOURCE})
    scene.world.clock = real
    said = cancel(scene, pull, ago=timedelta(seconds=30))
    scene.intake()
    scene.hear(said)
    assert not any(status.is_open for status in scene.ledger().values())


def test_a_cancel_received_twice_is_obeyed_once(scene: Scene) -> None:
    pull = scene.submit(scene.alice, SOURCE)
    said = cancel(scene, pull, ago=timedelta())
    scene.hear(said)
    scene.world.push(pull, {path_of("alice"): FASTER})
    scene.intake()
    scene.hear(said)
    assert len(scene.world.comments_on(pull.number)) == 2
    assert [status.is_open for status in scene.ledger().values()].count(True) == 1


# Requests that nobody needs any more.


def running(scene: Scene) -> set[str]:
    """GPU and mode of the runs that still use a machine, or wait for one."""
    return {run.inputs["group"].partition("-")[2] for run in scene.waiting()}


def test_a_draft_that_becomes_ready_stops_its_benchmark(scene: Scene) -> None:
    pull = scene.submit(scene.alice, SOURCE, draft=True)
    assert running(scene) == {"CPU-benchmark"}
    scene.world.mark_ready(pull)
    scene.intake()
    assert running(scene) == {"CPU-ranked"}


def test_a_refused_push_stops_the_run_it_replaces(scene: Scene) -> None:
    pull = scene.submit(scene.alice, SOURCE)
    scene.world.push(pull, {path_of("alice"): b"x = 1\n"})
    scene.intake()
    assert "Not judged" in scene.comment(pull.number) and not running(scene)


def test_a_push_for_fewer_boards_stops_the_others(scene: Scene) -> None:
    pull = two_boards(scene)
    scene.intake()
    assert running(scene) == {"CPU-ranked", "H100-ranked"}
    scene.world.push(pull, {path_of("alice"): b"#!POPCORN gpus CPU\n" + SOURCE})
    scene.intake()
    assert running(scene) == {"CPU-ranked"}


@pytest.mark.parametrize("status", ["queued", "pending", "in_progress"])
def test_a_superseded_run_behind_a_hundred_others_is_stopped_too(scene: Scene, status: str) -> None:
    pull = scene.submit(scene.alice, SOURCE, draft=True)
    (old,) = scene.waiting()
    old.status = status
    for _ in range(100):
        scene.world.finish_run(scene.world.start_run("evaluate.yml", "workflow_dispatch"), "success")
    scene.world.mark_ready(pull)
    scene.intake()
    assert old.conclusion == "cancelled" and running(scene) == {"CPU-ranked"}


# A machine that is away.


def test_an_absent_machine_holds_up_no_other_board_and_no_merge(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    pull = two_boards(scene)
    scene.intake()
    present, away = sorted(scene.waiting(), key=lambda run: run.inputs["request"])
    scene.evaluate(present, of_its_board(scene))
    assert [one.gpu for one in scene.judgements()] == ["CPU"] and not pull.merged_at
    scene.reconcile(after=timedelta(minutes=10))
    assert not pull.merged_at
    scene.reconcile(after=timedelta(hours=2))
    assert pull.merged_at and away.status == "queued"
    scene.reconcile(after=timedelta(hours=3))
    assert away.status == "queued" and "queued since" in scene.comment(pull.number)
    scene.evaluate(away, of_its_board(scene))
    assert sorted(one.gpu for one in scene.judgements()) == ["CPU", "H100"]
    assert scene.checks() == ["PullRank / CPU: success", "PullRank / H100: success"]
    assert "queued since" not in scene.comment(pull.number)
    capsys.readouterr()
    scene.reconcile(after=timedelta(hours=4))
    assert "Nothing to do" in capsys.readouterr().out


def test_a_board_left_out_by_a_merge_can_still_be_requested(scene: Scene) -> None:
    pull = two_boards(scene)
    settings = scene.root / ".github/pullrank.yml"
    settings.write_text(settings.read_text().replace("pending: 4", "pending: 1"))
    scene.intake()
    (first,) = scene.waiting()
    left = "H100" if "CPU" in first.title else "CPU"
    assert f"/rank gpu={left}" in scene.comment(pull.number)
    scene.evaluate(first, of_its_board(scene))
    assert pull.merged_at
    scene.world.add_comment(pull.number, scene.alice, f"/rank gpu={left}")
    scene.intake()
    (second,) = scene.waiting()
    scene.evaluate(second, of_its_board(scene))
    assert sorted(one.gpu for one in scene.judgements()) == ["CPU", "H100"]
    scene.world.close(closed := scene.world.open_pull(scene.alice, {path_of("alice"): SOURCE + b"# again\n"}))
    scene.events.clear()
    scene.world.add_comment(closed.number, scene.alice, "/rank")
    scene.intake()
    assert "This pull request is closed" in scene.world.comments_on(closed.number)[-1].body


def test_a_merge_is_published_even_if_the_last_judging_failed(scene: Scene) -> None:
    pull = two_boards(scene)
    scene.intake()
    first, second = scene.waiting()
    scene.evaluate(first, of_its_board(scene))
    assert not pull.merged_at and len(scene.runs("publish.yml")) == 1
    scene.evaluate(second, lambda request, run: None)
    for _ in range(2):  # fails for good
        scene.evaluate(scene.waiting()[0], lambda request, run: None)
    assert pull.merged_at and len(scene.runs("publish.yml")) == 2


# Changes meanwhile.


def test_an_account_renamed_before_the_merge_keeps_its_folder(scene: Scene) -> None:
    pull = scene.submit(scene.alice, SOURCE)
    scene.world.rename(scene.alice, "alicia")
    scene.evaluate(scene.waiting()[0], scene.honest())
    assert pull.merged_at and scene.world.git.read("main", path_of("alice")) == SOURCE
    mallory = scene.world.add_user("alice")
    stolen = scene.world.open_pull(mallory, {path_of("alice"): FASTER})
    scene.intake()
    assert "belongs to another account" in scene.comment(stolen.number) and not scene.waiting()
    kept = scene.world.open_pull(scene.alice, {path_of("alice"): FASTER})
    scene.intake()
    scene.evaluate(scene.waiting()[0], scene.honest(ratio=0.3))
    assert kept.merged_at


def test_a_submission_is_rejudged_and_merged_if_its_task_changes_meanwhile(scene: Scene) -> None:
    pull, run = unreported(scene)
    scene.root = scene.copy_of_main()
    reference = scene.root / "tasks/vectoradd/reference.py"
    reference.write_text(reference.read_text() + "\n# Changed.\n")
    assert scene.report(run) == 0 and not pull.merged_at
    scene.world.finish_run(run, "success")
    scene.evaluate(scene.waiting()[0], scene.honest(edition=the_board(scene.root).edition))
    assert pull.merged_at
    assert [one.edition for one in scene.judgements()] == [the_board(scene.root).edition]


def test_a_push_after_the_deadline_is_tested_but_not_ranked(scene: Scene) -> None:
    scene.root = scene.copy_of_main()
    task = scene.root / "tasks/vectoradd/task.yml"
    text = task.read_text()
    in_time = scene.submit(scene.alice, SOURCE)
    (run,) = scene.waiting()
    deadline = scene.request(run.inputs["request"]).asked_at + timedelta(seconds=1)
    task.write_text(f"deadline: {deadline:%Y-%m-%dT%H:%M:%SZ}\n{text}")
    scene.evaluate(run, scene.honest())
    assert in_time.merged_at
    task.write_text(f"deadline: 2020-01-01T00:00:00Z\n{text}")
    late = scene.submit(scene.alice, FASTER)
    assert "This is tested but not ranked." in scene.comment(late.number)
    (run,) = scene.waiting()
    assert scene.request(run.inputs["request"]).mode is Mode.TEST
    scene.evaluate(run, scene.honest())
    assert late.state == "open" and len(scene.judgements()) == 1
    scene.world.add_comment(late.number, scene.alice, "Please!\n/rank")
    scene.intake()
    assert any("but nothing is ranked" in one.body for one in scene.world.comments_on(late.number))
    assert not scene.waiting()


def test_a_task_that_is_opened_again_ranks_what_was_only_tested(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    scene.root = scene.copy_of_main()
    task = scene.root / "tasks/vectoradd/task.yml"
    text = task.read_text()
    scene.submit(scene.alice, SOURCE)
    scene.evaluate(scene.waiting()[0], scene.honest(ratio=0.5))
    task.write_text(f"deadline: 2020-01-01T00:00:00Z\n{text}")
    late = scene.submit(scene.world.add_user("bob"), BOBS)
    scene.evaluate(scene.waiting()[0], scene.honest())
    assert "Nothing to do" in settle(scene, capsys)
    task.write_text(f"deadline: 2100-01-01T00:00:00Z\n{text}")
    settle(scene, capsys)
    assert "not ranked" not in scene.comment(late.number)
    (run,) = scene.waiting()
    scene.evaluate(run, scene.honest(ratio=0.4, duel=duel_with("alice", SOURCE, 0.8)))
    assert late.merged_at and first_place(scene) == "bob"
    assert "Nothing to do" in settle(scene, capsys)


def rank_in_the_last_second(scene: Scene) -> tuple[Pull, Event]:
    """A pull request with lost events and a `/rank`: made a second before the deadline, seen by intake after it."""
    real = scene.world.clock
    deadline = real() - timedelta(minutes=1)
    scene.root = scene.copy_of_main()
    task = scene.root / "tasks/vectoradd/task.yml"
    task.write_text(f"deadline: {deadline:%Y-%m-%dT%H:%M:%SZ}\n{task.read_text()}")
    scene.world.clock = lambda: deadline - timedelta(seconds=1)
    pull = scene.world.open_pull(scene.alice, {path_of("alice"): SOURCE})
    scene.world.add_comment(pull.number, scene.alice, "/rank")
    scene.world.clock = real
    (_, said), scene.events[:] = scene.events, []
    return pull, said


def test_a_rank_command_in_time_counts_despite_later_comments(scene: Scene) -> None:
    pull, said = rank_in_the_last_second(scene)
    scene.world.add_comment(pull.number, scene.world.add_user("rival"), "Late?")
    scene.hear(said)
    assert running(scene) == {"CPU-ranked"}


def test_an_earlier_rank_command_does_not_rank_a_push_after_the_deadline(scene: Scene) -> None:
    pull, said = rank_in_the_last_second(scene)
    scene.world.push(pull, {path_of("alice"): FASTER})
    scene.hear(said)
    assert not scene.waiting()
    assert "but nothing is ranked" in scene.world.comments_on(pull.number)[-1].body


def test_hostile_titles_branches_and_words_never_reach_our_output(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    hostile = "${{ github.token }} `id` $(id) @everyone <img src=x>\n::set-output name=wanted::true"
    mallory = scene.world.add_user("mallory", permission="read")
    pull = scene.world.open_pull(scene.alice, {path_of("alice"): SOURCE}, title=hostile, body=hostile, branch="a;$(id)")
    scene.world.add_comment(pull.number, mallory, f"/rank {hostile}")
    scene.world.add_comment(pull.number, scene.alice, f"{hostile}\n/rank gpu=$(id)")
    scene.intake()
    scene.evaluate(scene.waiting()[0], scene.honest())
    assert pull.merged_at
    ours = [one.body for one in scene.world.comments_on(pull.number) if one.author is scene.world.bot]
    merged = scene.world.git.message("main")
    written = "\n".join([*ours, merged, capsys.readouterr().out, (scene.folder / "summary").read_text()])
    for word in ("github.token", "@everyone", "<img", "set-output", "a;$(id)"):
        assert word not in written
    assert "`gpu=$(id)` is not an argument of `/rank`" in written
    assert merged.startswith(f"vectoradd: alice (#{pull.number})\n")


# Another default branch.


def test_the_bot_works_with_any_default_branch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    scene = Scene(tmp_path, monkeypatch, default_branch="trunk")
    with scene.server:
        merged = scene.submit(scene.alice, SOURCE)
        scene.evaluate(scene.waiting()[0], scene.honest())
        assert merged.merged_at and scene.world.git.read("trunk", path_of("alice")) == SOURCE
        scene.world.open_pull(scene.alice, {path_of("alice"): FASTER})
        assert "requests 1 of 1 boards" in settle(scene, capsys)
        assert {run.head_branch for run in scene.world.runs.values()} == {"trunk"}


@pytest.mark.parametrize("step", [("reconcile",), ("report",)])
def test_a_step_on_a_non_default_branch_is_refused(
    scene: Scene, capsys: pytest.CaptureFixture[str], step: tuple[str]
) -> None:
    workflow, job = ("reconcile.yml", "reconcile") if step == ("reconcile",) else ("evaluate.yml", "report")
    asked = {"REQUEST": "1-aaaaaaaaaaaa-CPU-test-1", "JUDGE": "success", "GITHUB_RUN_ID": "7"}
    assert scene.step(*step, workflow=workflow, job=job, GITHUB_REF_NAME="wip", **asked) == 2
    assert "this runs on branch `wip`: run it on `main`, the default branch" in capsys.readouterr().err
