"""What may happen in a competition, from the event to the world that comes of it.

Elsewhere: tests/test_deliver.py follows one submission, tests/test_reconcile.py has what is made up for,
tests/test_intake.py the rules of asking, tests/test_artifact.py forged judgements case by case.
"""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel, ValidationError

from harness.fields import Mode
from harness.judgement import Judgement
from scripts.bot import intake
from scripts.bot.artifact import ArtifactError, Window, read_artifact, why_not_the_answer
from scripts.bot.ci import Workflow
from scripts.github.fork import Fork
from scripts.ledger.branch import LedgerBranch
from scripts.ledger.request import EndState, Request, make_id
from scripts.settings import Gpu
from scripts.standings import standings
from tests.competition import (
    FASTER,
    SOURCE,
    Scene,
    digest_of,
    duel_with,
    judgement_of,
    path_of,
    the_board,
    zipped,
)
from tests.github_server import Event, Pull

SOON = timedelta(minutes=10)
BOBS = b"def custom_kernel(data):\n    return data[0].add(data[1])\n"
CAROLS = b"def custom_kernel(data):\n    return data[1] + data[0]\n"


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    made = Scene(tmp_path, monkeypatch)
    with made.server:
        yield made


def settle(scene: Scene, capsys: pytest.CaptureFixture[str]) -> str:
    """Reconcile, ten minutes later; what it says."""
    capsys.readouterr()
    assert scene.reconcile(after=SOON) == 0
    return capsys.readouterr().out


def first_place(scene: Scene) -> str:
    champion = standings(the_board(), scene.judgements()).champion
    return champion.login if champion else ""


# Places.


def test_an_equal_time_of_another_is_a_row_of_its_own_behind_the_earlier_one(scene: Scene) -> None:
    scene.submit(scene.alice, SOURCE)
    scene.evaluate(scene.waiting()[0], scene.honest())
    pull = scene.submit(scene.world.add_user("bob"), BOBS)
    scene.evaluate(scene.waiting()[0], scene.honest())
    assert "rank 2 of 2" in scene.comment(pull.number) and "alice" in scene.comment(pull.number)
    assert pull.merged_at and first_place(scene) == "alice"


def test_an_equal_time_of_ones_own_changes_nothing(scene: Scene) -> None:
    scene.submit(scene.alice, SOURCE)
    scene.evaluate(scene.waiting()[0], scene.honest())
    again = scene.submit(scene.alice, FASTER)
    scene.evaluate(scene.waiting()[0], scene.honest())
    assert "keeps your row" in scene.comment(again.number) and again.state == "open"
    assert scene.world.git.read("main", path_of("alice")) == SOURCE


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


def test_a_duel_with_a_former_champion_is_fought_again_with_the_present_one(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = dueled_at_once(scene)
    assert "Won: it takes first place" in scene.comment(first.number)
    assert "bob stands first now" in scene.comment(second.number) and second.merged_at
    assert first_place(scene) == "bob" and not scene.waiting()

    assert f"its duel with bob ({digest_of(BOBS)[:12]}) is due" in settle(scene, capsys)
    assert "queued since" in scene.comment(second.number)
    (run,) = scene.waiting()
    scene.evaluate(run, scene.honest(ratio=0.3, duel=duel_with("bob", BOBS, 0.75)))
    assert "Won: it takes first place" in scene.comment(second.number)
    assert first_place(scene) == "carol"
    assert "Nothing to do" in settle(scene, capsys)


def test_a_duel_is_fought_again_once_whatever_comes_of_it(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    _, second = dueled_at_once(scene)
    settle(scene, capsys)
    scene.evaluate(scene.waiting()[0], scene.honest(ratio=0.39))  # Not fast enough this time: no duel.
    for _ in range(3):
        settle(scene, capsys)
    assert not scene.waiting() and first_place(scene) == "bob"
    attempts = [one.request.attempt for one in scene.ledger().values() if one.request.pull_request == second.number]
    assert attempts == [1, 2]


def test_a_duel_that_is_asked_for_outlives_a_push(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
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


def test_of_two_first_entries_at_once_the_faster_gets_its_duel_even_after_the_deadline(
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


# Fifty at once.


def test_fifty_pull_requests_at_once_all_get_in(scene: Scene) -> None:
    for number in range(50):
        source = SOURCE + f"x = {number}\n".encode()
        scene.world.open_pull(scene.world.add_user(f"user{number}"), {path_of(f"user{number}"): source})
    events, scene.events = list(scene.events), []
    scene.enter("intake.yml", "intake")
    workflow, repository = Workflow(), str(scene.world.git.path)

    def hear(event: Event) -> str:
        payload = scene.folder / f"event-{event.payload['number']}.json"
        payload.write_text(json.dumps(event.payload))
        with workflow.github() as github:
            # The same git without HTTP, which takes half as long: as many as can be push at the same moment.
            doors = replace(
                workflow.intake_doors(github),
                open_ledger=lambda wanted: LedgerBranch(repository, wanted=wanted),
                open_fork=lambda: Fork(repository),
            )
            return intake.run(event.name, payload, doors)

    with ThreadPoolExecutor(8) as runners:
        said = list(runners.map(hear, events))
    assert all(line.endswith("asks for 1 of 1 boards, ranked.") for line in said)
    requests = scene.ledger()
    assert sorted(one.request.pull_request for one in requests.values()) == sorted(scene.world.pulls)
    assert sorted(run.inputs["request"] for run in scene.runs()) == sorted(requests)
    assert all("queued since" in scene.comment(number) for number in scene.world.pulls)


# Whatever may change meanwhile.


def test_an_account_that_is_renamed_before_the_merge_is_still_itself(scene: Scene) -> None:
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


def test_a_task_that_changed_while_it_was_judged_is_judged_again_and_then_merged(scene: Scene) -> None:
    pull = scene.submit(scene.alice, SOURCE)
    (run,) = scene.waiting()
    assert scene.resolve(run) == 0
    scene.judge(run, scene.honest())
    scene.root = scene.copy_of_main()
    reference = scene.root / "tasks/vectoradd/reference.py"
    reference.write_text(reference.read_text() + "\n# Changed.\n")
    assert scene.report(run) == 0 and not pull.merged_at
    scene.world.finish_run(run, "success")
    scene.evaluate(scene.waiting()[0], scene.honest(edition=the_board(scene.root).edition))
    assert pull.merged_at
    assert [one.edition for one in scene.judgements()] == [the_board(scene.root).edition]


def test_after_the_deadline_a_push_is_tested_and_ranks_nothing(scene: Scene) -> None:
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
    assert "This is tested, and not ranked." in scene.comment(late.number)
    (run,) = scene.waiting()
    assert scene.request(run.inputs["request"]).mode is Mode.TEST
    scene.evaluate(run, scene.honest())
    assert late.state == "open" and len(scene.judgements()) == 1
    scene.world.add_comment(late.number, scene.alice, "Please!\n/rank")
    scene.intake()
    assert any("nothing is ranked any more" in one.body for one in scene.world.comments_on(late.number))
    assert not scene.waiting()


def test_hostile_titles_branches_and_words_reach_nothing(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
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
    assert "`gpu=$(id)` says nothing to `/rank`" in written
    assert merged.startswith(f"vectoradd: alice (#{pull.number})\n")


# Another default branch.


def test_any_default_branch_will_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    scene = Scene(tmp_path, monkeypatch, default_branch="trunk")
    with scene.server:
        merged = scene.submit(scene.alice, SOURCE)
        scene.evaluate(scene.waiting()[0], scene.honest())
        assert merged.merged_at and scene.world.git.read("trunk", path_of("alice")) == SOURCE
        scene.world.open_pull(scene.alice, {path_of("alice"): FASTER})
        assert "asks for 1 of 1 boards" in settle(scene, capsys)
        assert {run.head_branch for run in scene.world.runs.values()} == {"trunk"}


@pytest.mark.parametrize("step", [("reconcile",), ("report",)])
def test_a_step_on_another_branch_than_the_default_one_is_refused(
    scene: Scene, capsys: pytest.CaptureFixture[str], step: tuple[str]
) -> None:
    workflow, job = ("reconcile.yml", "reconcile") if step == ("reconcile",) else ("evaluate.yml", "report")
    asked = {"REQUEST": "1-aaaaaaaaaaaa-CPU-test-1", "JUDGE": "success", "GITHUB_RUN_ID": "7"}
    assert scene.step(*step, workflow=workflow, job=job, GITHUB_REF_NAME="wip", **asked) == 2
    assert "this runs on the branch `wip`: run it on `main`, the default branch" in capsys.readouterr().err


# Each field of a judgement, forged.

URL = "https://github.com/acme/kernels/actions/runs/7"
REQUEST = Request(
    id=make_id(12, "a" * 40, "CPU", Mode.RANKED), user_id=7, login="alice", pull_request=12, head_sha="a" * 40,
    blob_sha="b" * 40, task="vectoradd", gpu="CPU", mode=Mode.RANKED, digest=digest_of(SOURCE),
    asked_at=datetime.now(UTC), asked_by=7,
)  # fmt: skip
HONEST = judgement_of(REQUEST, URL, duel=duel_with("bob", BOBS, 0.8))
LATER = (datetime.now(UTC) + timedelta(days=1)).isoformat()

REFUSED, JUDGED_AGAIN, NOT_RANKED, TAKEN = "refused", "judged again", "not ranked", "taken as told"
FORGED: dict[str, tuple[Any, str]] = {
    "format": ("pullrank-request", REFUSED),
    "version": (2, REFUSED),
    "task": ("matmul", REFUSED),
    "edition": ("0" * 64, JUDGED_AGAIN),
    "gpu": ("H100", REFUSED),
    "mode": ("benchmark", REFUSED),
    "submission.login": ("bob", REFUSED),
    "submission.user_id": (8, REFUSED),
    "submission.pull_request": (13, REFUSED),
    "submission.head_sha": ("c" * 40, REFUSED),
    "submission.digest": ("d" * 64, REFUSED),
    "verdict": ("WA", REFUSED),
    "cases": ([], REFUSED),
    "duel.won": (False, REFUSED),
    "duel.ratio": ({"value": 0.1, "low": 0.2, "high": 0.3}, REFUSED),
    "duel.cases": ([], REFUSED),
    "machine.device": ("H100", REFUSED),
    "sandbox.kind": ("none", NOT_RANKED),
    "harness.digest": ("0" * 64, REFUSED),
    "started_at": ("2026-01-01T00:00:00Z", REFUSED),
    "finished_at": (LATER, REFUSED),
    "run_url": ("https://evil.example/", REFUSED),
    "checksum": ("0" * 64, REFUSED),
    # A duel with anybody but the first of the board decides nothing, whoever won it.
    "duel.opponent": ("nobody", TAKEN),
    "duel.opponent_digest": ("e" * 64, TAKEN),
    # Words of the judge's machine about itself, and about what the file printed: shown, and nothing follows from them.
    "message": ("<img>", TAKEN),
    "log": ("::error::", TAKEN),
    "claim": ("self-timed", TAKEN),
    "submission.lines": (9, TAKEN),
    "submission.language": ("Triton", TAKEN),
    "sandbox.stop": ("freezer", TAKEN),
    "sandbox.missing": (["cgroup"], TAKEN),
    "harness.version": ("9", TAKEN),
    "harness.method": (9, TAKEN),
    "machine.cpu": ("x", TAKEN),
    "machine.cores": (64, TAKEN),
    "machine.memory_gib": (1.5, TAKEN),
    "machine.os": ("x", TAKEN),
    "machine.python": ("x", TAKEN),
    "machine.torch": ("x", TAKEN),
    "machine.driver": ("x", TAKEN),
    "machine.clock_mhz": (1.0, TAKEN),
    "machine.temperature_c": (1.0, TAKEN),
    "machine.quiet": (False, TAKEN),
    "machine.note": ("x", TAKEN),
}


def fields_of(model: type[BaseModel], within: str = "") -> Iterator[str]:
    """`task`, `submission.login`, …: whatever a judgement says but for what its lists hold."""
    for name, field in model.model_fields.items():
        kinds = [field.annotation, *get_args(field.annotation)]
        inner = next((one for one in kinds if isinstance(one, type) and issubclass(one, BaseModel)), None)
        if inner and name not in ("cases", "ratio"):
            yield from fields_of(inner, f"{within}{name}.")
        else:
            yield within + name


def test_of_every_field_it_is_known_what_comes_of_forging_it() -> None:
    assert sorted(FORGED) == sorted(fields_of(Judgement))


def what_comes_of(fields: dict[str, Any]) -> str:
    try:
        handed = read_artifact(zipped(json.dumps(fields)))
    except ArtifactError:
        return REFUSED
    assert isinstance(handed, Judgement)
    window = Window(started_at=HONEST.started_at, ended_at=HONEST.finished_at)
    gpu = Gpu(runs_on="x", device="CPU")
    if why_not_the_answer(handed, REQUEST, the_board(), gpu, HONEST.harness.digest, window, URL):
        return REFUSED
    if handed.edition != the_board().edition:
        return JUDGED_AGAIN
    return TAKEN if standings(the_board(), [handed]).rows else NOT_RANKED


def test_an_honest_judgement_is_taken() -> None:
    assert what_comes_of(json.loads(HONEST.to_json())) == TAKEN


@pytest.mark.parametrize("place", FORGED)
def test_a_forged_field_gets_nobody_anywhere(place: str) -> None:
    forged, outcome = FORGED[place]
    fields: dict[str, Any] = json.loads(HONEST.to_json())
    *folders, name = place.split(".")
    inner = fields
    for folder in folders:
        inner = inner[folder]
    assert inner[name] != forged
    inner[name] = forged
    if name != "checksum":
        fields = sealed(fields)
    assert what_comes_of(fields) == outcome


def sealed(fields: dict[str, Any]) -> dict[str, Any]:
    """With the checksum that a forger would write, where what is forged can be written at all."""
    try:
        return dict(json.loads(Judgement.model_validate_json(json.dumps(fields)).to_json()))
    except ValidationError:
        return fields
