"""Bundles: reading returns what was packed and notices every change, and harness.pyz judges a bundle by itself."""

import hashlib
import io
import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from harness.__main__ import OTHER_WORK, rule_of_this_machine, run
from harness.processes.other_work import OtherWorkRule
from harness.records.errors import TaskError
from harness.records.fields import Mode
from harness.records.judgement import Judgement
from harness.records.provenance import harness_digest
from harness.records.stats import Interval
from harness.task.bundle import MAX_BYTES, BundleError, read_bundle
from harness.task.submission import Champion, Submission
from harness.task.task import Task, load_task
from harness.task.toolchain import Toolchain
from scripts.bot.evaluate.packing import pack, zip_of
from scripts.bot.evaluate.pyz import build_pyz

ROOT = Path(__file__).parent.parent
VECTORADD = ROOT / "tasks" / "vectoradd"
GOOD = (VECTORADD / "examples/accepted/in_float32.py").read_bytes()
BROKEN = b"def custom_kernel(data:\n"
PYZ = b"a harness"
TOOLCHAIN = Toolchain(arch="sm_90a", include_dirs={"cutlass": "/opt/cutlass/include"})


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def request(source: bytes = GOOD, **changes: object) -> bytes:
    fields = {
        "format": "pullrank-request",
        "version": 1,
        "id": "12-aaaaaaaaaaaa-CPU-test-1",
        "task": "vectoradd",
        "gpu": "CPU",
        "mode": "test",
        "login": "ada",
        "user_id": 5,
        "pull_request": 12,
        "head_sha": "a" * 40,
        "blob_sha": "b" * 40,
        "digest": sha256(source),
    }
    return json.dumps(fields | changes).encode()


def champion() -> Champion:
    file = Submission(login="ben", source=b"def custom_kernel(data): ...\n", user_id=6)
    return Champion(submission=file, score=Interval(value=10.5, low=10.25, high=11.0), nominal_us=(12.5, 0.1))


def packed(**parts: object) -> bytes:
    given = {"request": request(), "task": load_task(VECTORADD), "submission": GOOD, "champion": None, "harness": PYZ}
    given["toolchain"] = TOOLCHAIN
    return pack(**(given | parts))


def members_of(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def resealed(members: dict[str, bytes]) -> bytes:
    """A bundle of these members, with a matching manifest."""
    rest = {name: content for name, content in members.items() if name != "manifest.json"}
    manifest = {"format": "pullrank-bundle", "version": 1, "members": {n: sha256(c) for n, c in rest.items()}}
    return zip_of({"manifest.json": json.dumps(manifest).encode(), **rest})


def test_a_bundle_carries_the_file_its_author_and_the_request():
    bundle = read_bundle(packed())
    assert (bundle.order.id, bundle.order.mode) == ("12-aaaaaaaaaaaa-CPU-test-1", Mode.TEST)
    assert bundle.submission == Submission(
        login="ada", source=GOOD, name="submission.py", user_id=5, pull_request=12, head_sha="a" * 40
    )
    assert bundle.champion is None
    assert bundle.harness == PYZ


def test_a_bundle_carries_the_champion():
    assert read_bundle(packed(champion=champion())).champion == champion()


def test_the_board_in_a_bundle_is_the_board_on_main():
    with read_bundle(packed()).open_board() as board:
        assert board.edition == load_task(VECTORADD).board("CPU").edition
        assert board.task.anchor
        assert board.task.anchor.is_file()
        folder = board.task.folder
    assert not folder.exists()


def test_a_bundle_carries_the_boards_toolchain():
    with read_bundle(packed()).open_board() as board:
        assert board.toolchain == TOOLCHAIN


def test_a_bundle_with_an_include_folder_outside_usr_and_opt_is_refused():
    members = members_of(packed())
    members["toolchain.json"] = b'{"arch": null, "include_dirs": {"cutlass": "/root"}}'
    with pytest.raises(BundleError, match=r"toolchain\.json: include_dirs\.cutlass: .* must be below /usr or /opt"):
        read_bundle(resealed(members))


@pytest.mark.parametrize(
    "task", sorted(path.parent for path in (ROOT / "tasks").glob("*/task.yml")), ids=lambda p: p.name
)
def test_every_task_of_the_repository_can_be_packed(task: Path):
    loaded = load_task(task)
    for gpu in loaded.gpus:
        packed(request=request(task=loaded.name, gpu=gpu), task=loaded)


def test_packing_the_same_contents_gives_the_same_bytes():
    assert packed() == packed()


def shared_task(tree: Path) -> Task:
    """A task whose utils.py is next to its folder, as in KernelBot."""
    folder = tree / "mine"
    folder.mkdir(parents=True)
    for path in VECTORADD.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            (folder / path.relative_to(VECTORADD)).parent.mkdir(parents=True, exist_ok=True)
            (folder / path.relative_to(VECTORADD)).write_bytes(path.read_bytes())
    (tree / "shared.py").write_text("SHARED = 1\n")
    (tree / "secret.txt").write_text("not the judge's business\n")
    text = (folder / "task.yml").read_text()
    files = [("submission.py", "'@SUBMISSION@'"), ("task.py", "task.py"), ("reference.py", "reference.py")]
    lines = [f"  - {{name: {name}, source: {source}}}" for name, source in [*files, ("utils.py", "../shared.py")]]
    (folder / "task.yml").write_text(text + "\nfiles:\n" + "\n".join(lines) + "\n")
    return load_task(folder)


def test_a_bundle_carries_shared_files_of_a_task_and_nothing_else(tmp_path):
    task = shared_task(tmp_path / "tasks")
    (task.folder / ".git").mkdir()
    (task.folder / ".git" / "config").write_text("token")
    (task.folder / "leads_out.py").symlink_to("/etc/hostname")
    bundle = read_bundle(packed(task=task, request=request(task="mine")))
    assert bundle.task_files["shared.py"] == b"SHARED = 1\n"
    assert not {"secret.txt", "mine/.git/config", "mine/leads_out.py"} & bundle.task_files.keys()
    with bundle.open_board() as board:
        assert board.task.files["utils.py"] == b"SHARED = 1\n"


def test_a_task_with_a_missing_file_cannot_be_packed(tmp_path):
    task = shared_task(tmp_path / "tasks")
    (task.folder / "task.py").unlink()
    with pytest.raises(TaskError, match=r"task\.py"):
        packed(task=task, request=request(task="mine"))


def test_a_bundle_with_another_digest_is_refused():
    content = packed()
    assert read_bundle(content, sha256(content))
    with pytest.raises(BundleError, match="not made for this judging"):
        read_bundle(content, sha256(content + b" "))


def test_a_truncated_bundle_is_refused():
    content = packed()
    for end in (0, 10, len(content) // 2, len(content) - 1):
        with pytest.raises(BundleError):
            read_bundle(content[:end])


def test_a_bundle_whose_directory_is_said_to_be_elsewhere_is_refused():
    content = bytearray(packed())
    content[content.rindex(b"PK\5\6") + 19] ^= 0x80
    with pytest.raises(BundleError, match="not a bundle: negative seek value"):
        read_bundle(bytes(content))


def test_a_bundle_with_an_unusual_compression_is_refused_unread():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("manifest.json", b"{}")
    with pytest.raises(BundleError, match="compression"):
        read_bundle(file.getvalue())


@pytest.mark.parametrize(
    "name", ["request.json", "submission.py", "harness.pyz", "champion.py", "tasks/vectoradd/task.py"]
)
def test_a_bundle_with_a_changed_member_is_refused(name):
    members = members_of(packed(champion=champion()))
    with pytest.raises(BundleError, match="was changed"):
        read_bundle(zip_of(members | {name: members[name] + b" "}))


@pytest.mark.parametrize("name", ["manifest.json", "request.json", "submission.py", "harness.pyz", "champion.json"])
def test_a_bundle_with_a_missing_member_is_refused(name):
    members = members_of(packed(champion=champion()))
    del members[name]
    with pytest.raises(BundleError):
        read_bundle(zip_of(members))
    if name != "manifest.json":
        with pytest.raises(BundleError, match="not a valid set of members"):
            read_bundle(resealed(members))


@pytest.mark.parametrize(
    "name",
    [
        "../evil.py", "/etc/passwd", "tasks/../evil.py", "tasks//evil.py", "tasks/.hidden", "tasks/a\\b.py",
        "conftest.py", "submission.py/", "tasks/", "tasks/a/./b.py", "SUBMISSION.PY", "tasks/" + "a/" * 9 + "b",
        "tasks/ümlaut.py", "tasks/new\nline", "champion.txt",
    ],
)  # fmt: skip
def test_a_bundle_with_an_unknown_member_is_refused(name):
    with pytest.raises(BundleError, match="unknown member"):
        read_bundle(resealed(members_of(packed()) | {name: b"x"}))


def test_a_bundle_with_a_duplicate_member_is_refused():
    file = io.BytesIO(packed())
    with zipfile.ZipFile(file, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("submission.py", GOOD)
    with pytest.raises(BundleError, match="duplicate member"):
        read_bundle(file.getvalue())


@pytest.mark.parametrize(
    ("name", "size"), [("submission.py", 300_000), ("tasks/vectoradd/big.py", 5 << 20), ("harness.pyz", 5 << 20)]
)
def test_a_member_that_is_too_large_is_refused_unread(name, size):
    with pytest.raises(BundleError, match="too large"):
        read_bundle(resealed(members_of(packed()) | {name: bytes(size)}))


def test_a_zip_bomb_is_refused_unread():
    many = {f"tasks/vectoradd/zeros{number}.py": bytes(4 << 20) for number in range(9)}
    bomb = resealed(members_of(packed()) | many)
    assert len(bomb) < MAX_BYTES // 100
    with pytest.raises(BundleError, match="MiB unpacked"):
        read_bundle(bomb)


def test_a_bundle_with_a_false_member_size_is_refused():
    content = packed()
    lied = content.replace(len(GOOD).to_bytes(4, "little"), (len(GOOD) - 4).to_bytes(4, "little"))
    assert lied != content
    with pytest.raises(BundleError):
        read_bundle(lied)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "pullrank-judgement"}, "format"),
        ({"version": 2}, "version"),
        ({"mode": "fast"}, "mode"),
        ({"login": "../ada"}, "login"),
        ({"task": "../vectoradd"}, "task"),
        ({"head_sha": "main"}, "head_sha"),
        ({"user_id": "5"}, "user_id"),
        ({"digest": "0" * 64}, "not the requested file"),
    ],
)
def test_an_invalid_request_is_refused(changes, message):
    with pytest.raises(BundleError, match=message):
        packed(request=request(**changes))


@pytest.mark.parametrize(
    ("changes", "message"), [({"gpu": "H999"}, "no board"), ({"task": "matmul"}, "no such folder")]
)
def test_a_request_for_a_missing_board_or_task_is_refused(changes, message):
    with pytest.raises(TaskError, match=message):
        packed(request=request(**changes))


def test_a_champion_file_that_does_not_match_its_description_is_refused():
    members = members_of(packed(champion=champion()))
    with pytest.raises(BundleError, match=r"champion\.json describes"):
        read_bundle(resealed(members | {"champion.py": b"def custom_kernel(data): return 1\n"}))


# The rest runs harness.pyz as a judge's machine does.


@pytest.fixture(scope="module")
def pyz() -> bytes:
    return build_pyz()


class Machine:
    """A judge's machine: a folder with only a bundle and its harness."""

    def __init__(self, folder: Path, bundle: bytes, pyz: bytes) -> None:
        self.folder = folder
        (folder / "bundle").mkdir()
        (folder / "bundle" / "bundle.zip").write_bytes(bundle)
        (folder / "bundle" / "harness.pyz").write_bytes(pyz)

    def command(self, *options: str, python: tuple[str, ...] = ("-I",)) -> list[str]:
        judge = [sys.executable, *python, "bundle/harness.pyz", "judge", "bundle", "--out", "judgement.json"]
        return [*judge, *options]

    def judge(self, *options: str, **how: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
        command = self.command(*options, **how)
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=120, check=False)

    @property
    def judgement(self) -> Judgement:
        return Judgement.from_json((self.folder / "judgement.json").read_bytes())

    @property
    def error(self) -> str:
        fields = json.loads((self.folder / "error.json").read_text())
        assert fields.keys() == {"format", "version", "message"}
        assert (fields["format"], fields["version"]) == ("pullrank-error", 1)
        return fields["message"]

    @property
    def left_behind(self) -> set[str]:
        return {path.name for path in self.folder.iterdir()} - {"bundle"}


def machine(folder: Path, pyz: bytes, source: bytes = GOOD, **parts: object) -> Machine:
    bundle = packed(**({"request": request(source), "submission": source, "harness": pyz} | parts))
    return Machine(folder, bundle, pyz)


def test_building_the_same_harness_gives_the_same_pyz(pyz, tmp_path):
    copy = tmp_path / "harness"
    for path in (ROOT / "harness").rglob("*.py"):
        (copy / path.relative_to(ROOT / "harness")).parent.mkdir(parents=True, exist_ok=True)
        (copy / path.relative_to(ROOT / "harness")).write_bytes(path.read_bytes())
    (copy / "__pycache__").mkdir()
    (copy / "__pycache__" / "judge.pyc").write_bytes(b"x")
    assert build_pyz(tmp_path) == pyz


@pytest.mark.walls
def test_harness_pyz_judges_a_bundle_in_an_empty_folder(pyz, tmp_path):
    judge = machine(tmp_path, pyz)
    done = judge.judge("--run-url", "https://github.com/o/r/actions/runs/1")
    assert done.returncode == 0, done.stderr
    judgement = judge.judgement
    assert (judgement.verdict, judgement.sandbox.kind) == ("AC", "bubblewrap")
    assert judgement.edition == load_task(VECTORADD).board("CPU").edition
    assert judgement.submission.head_sha == "a" * 40
    assert judgement.harness.digest == harness_digest(), "the zip gives the same as the folder"
    assert judgement.run_url == "https://github.com/o/r/actions/runs/1"
    assert "judge: test 5 of 5" in done.stderr.splitlines()
    assert judge.left_behind == {"judgement.json"}


@pytest.mark.walls
def test_harness_pyz_profiles_only_the_requested_benchmark(pyz, tmp_path):
    launches = {"kernel": "gemm", "skip": 1, "count": 1}  # for ncu: a CPU has no launches to choose
    judge = machine(tmp_path, pyz, request=request(mode="profile", case=2, launches=launches))
    done = judge.judge()
    assert done.returncode == 0, done.stderr
    assert [case.params["size"] for case in judge.judgement.profiles] == [2201]


def test_a_request_for_a_missing_benchmark_exits_with_2(pyz, tmp_path):
    judge = machine(tmp_path, pyz, BROKEN, request=request(BROKEN, mode="profile", case=3))
    assert judge.judge("--sandbox", "none").returncode == 2
    assert judge.error.endswith("vectoradd has no benchmark 3 on CPU")


def test_a_submission_that_is_not_accepted_exits_with_1(pyz, tmp_path):
    judge = machine(tmp_path, pyz, BROKEN)
    done = judge.judge("--sandbox", "none")
    assert done.returncode == 1, done.stderr
    assert judge.judgement.verdict == "CE"
    assert judge.left_behind == {"judgement.json"}


def test_a_bundle_with_another_digest_exits_with_2(pyz, tmp_path):
    judge = machine(tmp_path, pyz, BROKEN)
    (tmp_path / "judgement.json").write_text("an older one")
    done = judge.judge("--sandbox", "none", "--digest", "0" * 64)
    assert done.returncode == 2
    assert "not made for this judging" in judge.error
    assert judge.left_behind == {"error.json"}, "an older judgement could be taken for this one"


@pytest.mark.parametrize("out", ["", "/", "."])
def test_an_output_that_is_no_file_is_a_wrong_call(out, capsys):
    with pytest.raises(SystemExit) as caught:
        run(["judge", "bundle.zip", "--out", out])
    assert caught.value.code == 2 and "--out: must be the path of a file" in capsys.readouterr().err


def test_a_bundle_with_the_expected_digest_is_judged(pyz, tmp_path):
    judge = machine(tmp_path, pyz, BROKEN)
    digest = sha256((tmp_path / "bundle" / "bundle.zip").read_bytes())
    assert judge.judge("--sandbox", "none", "--digest", digest).returncode == 1


def test_a_harness_other_than_the_bundles_own_judges_nothing(pyz, tmp_path):
    judge = machine(tmp_path, pyz, BROKEN)
    (tmp_path / "bundle" / "harness.pyz").write_bytes(pyz + b"\0")
    assert judge.judge("--sandbox", "none").returncode == 2
    assert "not the harness of this bundle" in judge.error


@pytest.mark.parametrize(("value", "rule"), [("", "refuse"), *((rule.value, rule.value) for rule in OtherWorkRule)])
def test_a_machine_says_what_a_ranked_judging_does_about_other_work(monkeypatch, value, rule):
    monkeypatch.setenv(OTHER_WORK, value)
    assert rule_of_this_machine() is OtherWorkRule(rule)


@pytest.mark.parametrize(("mode", "exit_code"), [("ranked", 3), ("test", 1)])
def test_an_unknown_rule_about_other_work_is_an_error_of_ranked_judgings(pyz, tmp_path, monkeypatch, mode, exit_code):
    monkeypatch.setenv(OTHER_WORK, "alow")
    judge = machine(tmp_path, pyz, BROKEN, request=request(BROKEN, mode=mode))
    assert judge.judge("--sandbox", "none").returncode == exit_code
    if exit_code == 3:
        assert judge.error == "this machine's PULLRANK_OTHER_WORK is 'alow': it must be allow, avoid or refuse"


def test_a_machine_without_libraries_gets_an_error_naming_them(pyz, tmp_path):
    judge = machine(tmp_path, pyz, BROKEN)
    done = judge.judge(python=("-I", "-S"))
    assert done.returncode == 3
    assert "lacks torch and pydantic and yaml" in judge.error
    assert "pip install torch" in judge.error
    assert len(done.stderr.splitlines()) == 1, "one line, no traceback"


def test_a_machine_with_an_old_pydantic_gets_an_error_saying_so(pyz, tmp_path, monkeypatch):
    old = tmp_path / "old" / "pydantic-2.7.4.dist-info"
    old.mkdir(parents=True)
    (old / "METADATA").write_text("Name: pydantic\nVersion: 2.7.4\n")
    monkeypatch.setenv("PYTHONPATH", str(old.parent))
    judge = machine(tmp_path, pyz, BROKEN)
    assert judge.judge("--sandbox", "none", python=("-B",)).returncode == 3
    assert "has pydantic 2.7.4; the judge needs torch, pydantic 2.12 and PyYAML 6: pip install" in judge.error


def test_reports_of_an_earlier_judging_are_deleted_even_if_nothing_is_judged(pyz, tmp_path):
    judge = machine(tmp_path, pyz, BROKEN)
    (tmp_path / "reports" / "profile-of-mine").mkdir(parents=True)
    (tmp_path / "reports" / "profile-1.ncu-rep").write_text("another participant's")
    assert judge.judge("--sandbox", "none", "--digest", "0" * 64, "--reports", "reports").returncode == 2
    assert "not made for this judging" in judge.error
    assert [path.name for path in (tmp_path / "reports").iterdir()] == ["profile-of-mine"]


def test_a_machine_without_a_sandbox_reports_a_judging_error(pyz, tmp_path, monkeypatch):
    judge = machine(tmp_path, pyz)
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    done = judge.judge()
    assert done.returncode == 3
    assert "apt install bubblewrap" in judge.error


def test_a_missing_bundle_exits_with_2(pyz, tmp_path):
    judge = machine(tmp_path, pyz, BROKEN)
    (tmp_path / "bundle" / "bundle.zip").unlink()
    assert judge.judge().returncode == 2
    assert judge.error == "bundle/bundle.zip cannot be read: No such file or directory"


@pytest.mark.parametrize("options", [("--sandbox", "paper"), ("--run-url", "javascript:alert(1)"), ("--frob",)])
def test_a_wrong_call_exits_with_2(pyz, tmp_path, options):
    judge = machine(tmp_path, pyz, BROKEN)
    assert judge.judge(*options).returncode == 2


@pytest.mark.walls
def test_a_cancelled_judging_leaves_nothing_running(pyz, tmp_path):
    sleeper = b"import time\ntime.sleep(1000)\ndef custom_kernel(data): ...\n"
    judge = machine(tmp_path, pyz, sleeper)
    with subprocess.Popen(
        judge.command(), cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stderr
        next(line for line in process.stderr if line == "judge: build\n")
        time.sleep(0.5)
        process.send_signal(signal.SIGTERM)
    assert process.returncode == 128 + signal.SIGTERM
    assert not any(_is_of_session(pid, process.pid) for pid in os.listdir("/proc") if pid.isdigit())


def _is_of_session(pid: str, session: int) -> bool:
    try:
        return os.getsid(int(pid)) == session
    except ProcessLookupError:
        return False


def test_a_bundle_for_a_compiled_task_may_hold_a_baseline_in_python():
    task = load_task(ROOT / "tasks" / "causalconv1d")
    library, *_ = (one.path.read_bytes() for one in task.baselines)
    for source in (library, library + b"\n"):
        is_baseline = source == library
        content = packed(request=request(source, task=task.name), task=task, submission=source)
        bundle = read_bundle(content)
        assert bundle.submission.name == ("submission.py" if is_baseline else "submission.cu")
        with bundle.open_board() as board:
            assert bool(board.task.baseline_name(bundle.submission.digest)) is is_baseline


def test_a_bundle_with_a_file_of_another_language_is_refused():
    task = replace(load_task(VECTORADD), lang="cu")
    assert task.submission_name == "submission.cu"
    members = members_of(packed())
    members["submission.cu"] = members.pop("submission.py")
    with pytest.raises(TaskError, match=r"expects a submission\.py"), read_bundle(resealed(members)).open_board():
        pass
