"""From a pull request to its merge through the shipped steps, and what can come between."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from harness.records.judgement import Claim, Judgement
from harness.records.verdict import Verdict
from scripts.bot.comment.comment_text import read_comment
from scripts.bot.comment.markdown import NBSP
from scripts.ledger.branch import LedgerBranch
from scripts.ledger.description import find_description
from scripts.ledger.moderation import Action, Moderation
from scripts.ledger.request import EndState, Request
from tests.competition import FASTER, SOURCE, Scene, digest_of, judgement_of, of_its_board, path_of, two_boards, zipped
from tests.github_server import Failure, Pull
from tests.github_server import Run as WorkflowRun


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    made = Scene(tmp_path, monkeypatch)
    with made.server:
        yield made


def opened(scene: Scene, source: bytes = SOURCE, **how: object) -> Pull:
    """A pull request of alice's that intake has seen."""
    pull = scene.world.open_pull(scene.alice, {path_of("alice"): source}, **how)  # type: ignore[arg-type]
    scene.intake()
    return pull


def test_a_first_submission_is_judged_reported_and_merged(scene: Scene) -> None:
    pull = opened(scene, body="Tiles by 64.\n\nCo-authored-by: @grace\n<!-- hidden -->")
    assert "queued" in scene.comment(pull.number)
    assert scene.checks() == []
    (run,) = scene.runs()
    assert scene.resolve(run) == 0
    assert scene.checks() == ["PullRank / CPU: in_progress"]
    scene.judge(run, scene.honest())
    assert scene.report(run) == 0
    (status,) = scene.ledger().values()
    assert status.ending and status.ending.verdict is Verdict.ACCEPTED
    (judgement,) = scene.judgements()
    assert judgement.submission.digest == digest_of(SOURCE)
    with LedgerBranch(str(scene.world.git.path)) as branch:
        described = find_description([judgement], branch.ledger.descriptions([]))
    assert described and (described.co_authors, described.note) == (("grace",), "Tiles by 64.")
    assert "accepted (AC), rank 1 of 1" in scene.comment(pull.number)
    assert scene.checks() == ["PullRank / CPU: success"]
    assert pull.merged_at and scene.world.git.read("main", path_of("alice")) == SOURCE
    assert len(scene.runs("publish.yml")) == 1


def test_the_run_summary_shows_the_report_of_the_comment(scene: Scene) -> None:
    pull = opened(scene)
    (run,) = scene.runs()
    scene.evaluate(run, scene.honest(wrong="<img src=x> @everyone"))
    report = read_comment(scene.comment(pull.number)).boards[0].report
    summary = (scene.folder / "summary").read_text()
    assert "| WA `<img src=x> @everyone` |" in report
    assert f"\n\n{report}\n\n" in summary and summary.endswith(": WA`\n")


def test_a_repeated_delivery_posts_nothing_new(scene: Scene) -> None:
    pull = opened(scene)
    (run,) = scene.runs()
    scene.evaluate(run, scene.honest())
    before, annotations = scene.comment(pull.number), [one.annotations for one in scene.world.checks.values()]
    assert scene.report(run) == 0
    assert scene.comment(pull.number) == before
    assert [one.annotations for one in scene.world.checks.values()] == annotations
    assert (len(scene.judgements()), len(scene.checks()), len(scene.runs("publish.yml"))) == (1, 1, 1)


def test_a_repeated_delivery_publishes_the_merge_that_failed_before(scene: Scene) -> None:
    pull = opened(scene)
    (run,) = scene.runs()
    assert scene.resolve(run) == 0
    scene.judge(run, scene.honest())
    scene.server.fail("PUT */merge", Failure(status=422))
    assert scene.report(run) == 3 and not pull.merged_at
    assert scene.report(run) == 0 and pull.merged_at
    assert len(scene.runs("publish.yml")) == 2


def test_a_wrong_answer_is_reported_with_its_numbers_and_not_merged(scene: Scene) -> None:
    pull = opened(scene)
    scene.evaluate(scene.waiting()[0], scene.honest(wrong="line 2: output[3] is 1, expected 2"))
    assert "output[3] is 1, expected 2" in scene.comment(pull.number)
    (check,) = scene.world.checks.values()
    assert check.conclusion == "failure"
    assert [(one["path"], one["start_line"]) for one in check.annotations] == [(path_of("alice"), 2)]
    assert '"verdict": "WA"' in check.output["text"]
    assert pull.state == "open" and len(scene.judgements()) == 1


def test_an_improvement_is_merged_and_a_slower_file_is_not(scene: Scene) -> None:
    opened(scene)
    scene.evaluate(scene.waiting()[0], scene.honest(ratio=0.5))
    slower = opened(scene, FASTER + b"# slower\n")
    scene.evaluate(scene.waiting()[0], scene.honest(ratio=0.8))
    assert "keeps your row" in scene.comment(slower.number) and slower.state == "open"
    better = opened(scene, FASTER)
    scene.evaluate(scene.waiting()[0], scene.honest(ratio=0.3))
    assert better.merged_at and scene.world.git.read("main", path_of("alice")) == FASTER


def test_the_comment_compares_a_new_file_with_the_last_valid_one(scene: Scene) -> None:
    first = opened(scene)
    scene.evaluate(scene.waiting()[0], scene.honest(ratio=0.5))
    assert "Your last" not in scene.comment(first.number)
    better = opened(scene, FASTER)
    scene.evaluate(scene.waiting()[0], scene.honest(ratio=0.4))
    told = scene.comment(better.number).replace(NBSP, " ")
    assert "Your last and best" in told and "**−20.0 %**" in told
    take_out(scene, scene.judgements()[0])
    assert scene.report(scene.runs()[1]) == 0
    assert "Your last" not in scene.comment(better.number)


def take_out(scene: Scene, judgement: Judgement) -> None:
    decision = Moderation(
        id="1", action=Action.DISQUALIFY, judgement=judgement.checksum, reason="copied", by=1, at=judgement.finished_at
    )
    with LedgerBranch(str(scene.world.git.path)) as branch:
        branch.ledger.append_fact(decision)
        branch.commit("disqualified")


def test_a_draft_is_benchmarked_and_stays_out_of_ledger_and_main(scene: Scene) -> None:
    pull = opened(scene, draft=True)
    scene.evaluate(scene.waiting()[0], scene.honest())
    assert "accepted (AC), benchmark only" in scene.comment(pull.number)
    assert scene.judgements() == () and pull.state == "open"
    scene.world.mark_ready(pull)
    scene.intake()
    scene.evaluate(scene.waiting()[0], scene.honest())
    assert pull.merged_at


def test_a_crashed_judge_is_retried_until_the_third_failure(scene: Scene) -> None:
    pull = opened(scene)
    for attempt in (1, 2, 3):
        (run,) = scene.waiting()
        assert run.inputs["request"].endswith(f"-ranked-{attempt}")
        scene.evaluate(run, lambda request, run: None)
    assert not scene.waiting()
    assert [one.ending.state for one in scene.ledger().values() if one.ending] == [EndState.FAILED] * 3
    assert "failed on our side; `/rerun` starts it again" in scene.comment(pull.number)
    assert scene.checks() == ["PullRank / CPU: neutral"]


def test_a_branch_in_conflict_keeps_its_row_and_gets_instructions(scene: Scene) -> None:
    first = opened(scene)
    scene.evaluate(scene.waiting()[0], scene.honest(ratio=0.5))
    assert first.merged_at
    # On top of the squashed commit in the default branch, like an author who continues on the same branch.
    head = scene.world.git.commit({path_of("alice"): SOURCE + b"# faster\n"}, parent=first.head_sha, message="Go on")
    pull = scene.world.add_pull(scene.alice, head, title="Go on", body="", draft=False, branch="patch-1")
    scene.intake()
    scene.evaluate(scene.waiting()[0], scene.honest(ratio=0.3))
    assert pull.state == "open" and len(scene.judgements()) == 2
    told = scene.comment(pull.number)
    assert "but GitHub did not merge it: `" in told and "not mergeable" in told and "on a new branch" in told
    assert "rank 1 of 1" in told
    scene.reconcile()
    assert scene.comment(pull.number) == told


def test_a_pull_request_overtaken_by_another_merge_is_quietly_merged_later(scene: Scene) -> None:
    scene.world.settings["merge_refusal"] = "Base branch was modified. Review and try the merge again."
    pull = opened(scene)
    scene.evaluate(scene.waiting()[0], scene.honest())
    assert pull.state == "open" and "did not merge" not in scene.comment(pull.number)
    del scene.world.settings["merge_refusal"]
    scene.pass_time(timedelta(minutes=10))
    scene.reconcile()
    assert pull.merged_at


@pytest.mark.parametrize("runner", ["judge-1", ""], ids=["a machine was at work", "none had taken it"])
def test_a_superseded_request_costs_the_machine_time_it_used(scene: Scene, runner: str) -> None:
    pull = opened(scene)
    (run,) = scene.waiting()
    assert scene.resolve(run) == 0
    job = scene.world.start_job(run, "judge", runner)
    scene.world.push(pull, {path_of("alice"): FASTER})
    scene.intake()
    job.started_at = scene.world.clock() - timedelta(seconds=90)
    scene.world.finish_job(job, "cancelled")
    for _ in range(2):
        assert scene.report(run) == 0
    first = scene.ledger()[run.inputs["request"]]
    assert first.ending and first.ending.state is EndState.SUPERSEDED
    assert 90 <= first.seconds < 120 if runner else first.seconds == 0


def test_a_run_that_somebody_cancelled_by_hand_is_judged_again(scene: Scene) -> None:
    pull = opened(scene)
    (run,) = scene.waiting()
    assert scene.resolve(run) == 0
    job = scene.world.start_job(run, "judge", "judge-1")
    scene.world.finish_job(job, "cancelled")
    assert scene.report(run) == 0
    again = next(one for one in scene.waiting() if one.id != run.id)
    scene.evaluate(again, scene.honest())
    assert pull.merged_at


def test_a_rerun_resets_the_count_of_failures(scene: Scene) -> None:
    pull = opened(scene)
    for _ in range(3):
        scene.evaluate(scene.waiting()[0], lambda request, run: None)
    scene.world.add_comment(pull.number, scene.alice, "/rerun")
    scene.intake()
    scene.evaluate(scene.waiting()[0], scene.honest())
    assert pull.merged_at


def test_the_judges_error_message_is_made_harmless(scene: Scene) -> None:
    pull = opened(scene)
    error = '{"format": "pullrank-error", "version": 1, "message": "no torch\\n::error::@everyone <img>"}'
    for _ in range(3):
        scene.evaluate(scene.waiting()[0], lambda request, run: zipped(error, "error.json"))
    assert "`no torch ::error::@everyone <img>`" in scene.comment(pull.number)


def test_an_artifact_that_is_too_large_is_reported_as_such(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scripts.bot.report.outcome.MAX_ZIP", 99)
    pull = opened(scene)
    for _ in range(3):
        scene.evaluate(scene.waiting()[0], scene.honest())
    assert "`the machine's result has expired or is too large`" in scene.comment(pull.number)


def test_a_submission_is_judged_again_if_its_task_changed_meanwhile(scene: Scene) -> None:
    pull = opened(scene)
    (run,) = scene.runs()
    assert scene.resolve(run) == 0
    scene.judge(run, scene.honest())
    scene.root = scene.copy_of_main()
    reference = scene.root / "tasks/vectoradd/reference.py"
    reference.write_text(reference.read_text() + "\n# Changed.\n")
    assert scene.report(run) == 0
    assert pull.state == "open" and scene.judgements() == ()
    assert [one.inputs["request"][-8:] for one in scene.waiting()] == ["ranked-1", "ranked-2"]


def test_a_removed_task_ends_its_requests(scene: Scene) -> None:
    pull = opened(scene)
    (run,) = scene.runs()
    scene.judge(run, scene.honest())
    scene.root = scene.copy_of_main()
    (scene.root / "tasks/vectoradd/task.yml").unlink()
    assert scene.report(run) == 0
    (status,) = scene.ledger().values()
    assert status.ending and status.ending.state is EndState.FAILED
    assert "the board no longer exists" in scene.comment(pull.number)


def test_a_forged_judgement_is_refused_and_judged_again(scene: Scene) -> None:
    pull = opened(scene)
    forged = "a" * 40

    def forge(request, run):  # type: ignore[no-untyped-def]
        honest = judgement_of(request, scene.run_url(run))
        submission = honest.submission.model_copy(update={"head_sha": forged})
        return judgement_of(request, scene.run_url(run), submission=submission)

    scene.evaluate(scene.waiting()[0], forge)
    assert scene.judgements() == () and pull.state == "open"
    assert [run.inputs["request"][-8:] for run in scene.waiting()] == ["ranked-2"]


def test_a_push_while_judging_supersedes_the_request(scene: Scene) -> None:
    pull = opened(scene)
    (run,) = scene.runs()
    assert scene.resolve(run) == 0
    scene.world.push(pull, {path_of("alice"): FASTER})
    scene.intake()
    scene.judge(run, scene.honest())
    assert scene.report(run) == 0
    assert scene.judgements() == () and not pull.merged_at
    assert "queued" in scene.comment(pull.number)
    scene.world.finish_run(run, "success")
    scene.evaluate(scene.waiting()[0], scene.honest())
    assert pull.merged_at and scene.world.git.read("main", path_of("alice")) == FASTER


def test_a_push_between_judging_and_merge_is_not_merged(scene: Scene) -> None:
    pull = opened(scene)
    (run,) = scene.runs()
    assert scene.resolve(run) == 0
    scene.judge(run, scene.honest())
    scene.world.push(pull, {path_of("alice"): b"import os\n"})  # Its event is still on its way.
    assert scene.report(run) == 0
    assert pull.state == "open" and scene.world.git.read("main", path_of("alice")) is None
    assert [one.submission.digest for one in scene.judgements()] == [digest_of(SOURCE)]


def test_a_pull_request_is_not_merged_while_one_of_its_requests_waits(scene: Scene) -> None:
    pull = opened(scene)
    scene.world.add_comment(pull.number, scene.alice, "/test")
    scene.intake()
    ranked, tested = scene.waiting()
    scene.evaluate(ranked, scene.honest())
    assert pull.state == "open"
    scene.evaluate(tested, scene.honest())
    scene.reconcile(after=timedelta(minutes=10))
    assert pull.merged_at


def test_manual_merging_leaves_the_merge_to_a_maintainer(scene: Scene) -> None:
    scene.root = scene.copy_of_main()
    settings = scene.root / ".github/pullrank.yml"
    settings.write_text(settings.read_text().replace("merge: auto", "merge: manual"))
    pull = opened(scene)
    scene.evaluate(scene.waiting()[0], scene.honest())
    assert pull.state == "open" and "rank 1 of 1" in scene.comment(pull.number)


def test_two_challengers_at_once_both_get_their_rows(scene: Scene) -> None:
    bob = scene.world.add_user("bob")
    pulls = [opened(scene)]
    pulls.append(scene.world.open_pull(bob, {path_of("bob"): FASTER}))
    scene.intake()
    first, second = scene.waiting()
    for run in (first, second):
        assert scene.resolve(run) == 0
        scene.judge(run, scene.honest())
    assert [scene.report(run) for run in (second, first)] == [0, 0]
    assert all(pull.merged_at for pull in pulls) and len(scene.judgements()) == 2


@pytest.mark.parametrize(
    ("claim", "measured"),
    [(Claim.INSIDE_TIMED, "measured inside its own process"), (Claim.SELF_TIMED, "measured by the task's own program")],
)
def test_a_first_place_not_timed_by_the_referee_needs_a_review(scene: Scene, claim: Claim, measured: str) -> None:
    first = opened(scene)
    scene.evaluate(scene.waiting()[0], scene.honest(ratio=0.5, claim=claim))
    with LedgerBranch(scene.server.git_url) as branch:
        (hold,) = branch.ledger.moderations()
    assert hold.action is Action.HOLD and measured in hold.reason
    assert first.state == "open" and "needs a maintainer's review" in scene.comment(first.number)
    assert f"it does not rank until then**: `{hold.reason}`." in scene.comment(first.number)


def test_a_row_that_comes_to_lead_without_a_review_is_held_by_the_reconciler_until_it_is_released(scene: Scene) -> None:
    opened(scene)
    scene.evaluate(scene.waiting()[0], scene.honest(ratio=0.5))
    bob = scene.world.add_user("bob")
    pull = scene.submit(bob, FASTER)
    scene.evaluate(scene.waiting()[0], scene.honest(ratio=0.9, claim=Claim.INSIDE_TIMED))
    scene.world.add_comment(pull.number, bob, "/rank")
    scene.intake()
    (again,) = scene.waiting()
    scene.evaluate(again, scene.honest(ratio=0.9, claim=Claim.INSIDE_TIMED))
    first, *others = scene.judgements()
    take_out(scene, first)
    assert scene.reconcile() == 0

    def holds() -> list[Moderation]:
        with LedgerBranch(scene.server.git_url) as branch:
            return [one for one in branch.ledger.moderations() if one.action is Action.HOLD]

    held = holds()
    assert len(held) == 2 and {one.judgement for one in held} == {one.checksum for one in others}
    assert "measured inside its own process" in held[0].reason
    assert [one.inputs for one in scene.runs("review.yml")] == [{"request": again.inputs["request"]}]
    with LedgerBranch(str(scene.world.git.path)) as branch:
        for hold in held:
            update = {"id": f"2-{hold.id}", "action": Action.RELEASE, "at": hold.at + timedelta(seconds=1)}
            branch.ledger.append_fact(hold.model_copy(update=update))
        branch.commit("released")
    assert scene.reconcile(after=timedelta(days=1)) == 0
    assert holds() == held and len(scene.runs("review.yml")) == 1


def test_a_result_that_the_reconciler_delivers_is_held_with_a_review_aid(scene: Scene) -> None:
    opened(scene)
    (judging,) = scene.waiting()
    scene.evaluate(judging, scene.honest(ratio=0.5, claim=Claim.INSIDE_TIMED), report=False)
    assert scene.reconcile(after=timedelta(minutes=10)) == 0
    assert [one.inputs for one in scene.runs("review.yml")] == [{"request": judging.inputs["request"]}]


def test_a_result_is_held_and_reported_even_if_no_review_aid_can_be_started(scene: Scene) -> None:
    pull = opened(scene)
    scene.world.disabled_workflows.add("review.yml")
    scene.evaluate(scene.waiting()[0], scene.honest(ratio=0.5, claim=Claim.INSIDE_TIMED))
    assert not scene.runs("review.yml") and "needs a maintainer's review" in scene.comment(pull.number)


@pytest.mark.parametrize(("bound_us", "is_held"), [(9_000.0, False), (11_000.0, True)])
def test_a_first_place_on_a_gpu_whose_bound_is_a_fifth_of_its_time_needs_a_review(
    scene: Scene, bound_us: float, is_held: bool
) -> None:
    two_boards(scene)
    scene.intake()
    honest = of_its_board(scene)

    def make(request: Request, run: WorkflowRun) -> object:
        judgement = honest(request, run)
        assert isinstance(judgement, Judgement)
        cases = [
            case.model_copy(update={"timing": case.timing and case.timing.model_copy(update={"bound_us": bound_us})})
            for case in judgement.cases
        ]
        return judgement.model_copy(update={"cases": tuple(cases)})

    for run in scene.waiting():
        scene.evaluate(run, make)
    with LedgerBranch(scene.server.git_url) as branch:
        holds = list(branch.ledger.moderations())
    assert [one.action for one in holds] == [Action.HOLD] * is_held
    assert not is_held or "bounds only to 22.0 %" in holds[0].reason


def test_a_bounded_first_place_is_merged_without_a_review(scene: Scene) -> None:
    first = opened(scene)
    scene.evaluate(scene.waiting()[0], scene.honest(ratio=0.5))
    assert first.merged_at
