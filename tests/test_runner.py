"""The judge's machine: its scripts run for real, in a folder in place of the machine.

Programs that would change the machine itself (users, packages, services) are stand-ins in PATH that log their calls;
the gate, the loop's requests, the copies and the cleaning are real.
"""

import base64
import hashlib
import importlib.metadata
import itertools
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from packaging.requirements import Requirement

from harness.__main__ import OTHER_WORK
from scripts.doctor.finding import Availability
from scripts.doctor.runner import examine_runner

ROOT = Path(__file__).parent.parent
RUNNER = ROOT / ".github" / "runner"
SCRIPTS = sorted(RUNNER.glob("*.sh"))
BASH = shutil.which("bash") or "/bin/bash"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the judge's machine runs Linux")
needs_jq = pytest.mark.skipif(not all(map(shutil.which, ("jq", "curl", "openssl"))), reason="no jq, curl or openssl")


@pytest.mark.skipif(not shutil.which("shellcheck"), reason="no shellcheck")
def test_the_scripts_are_clean():
    done = subprocess.run(["shellcheck", *SCRIPTS], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


# The gate.

RIGHT = {
    "GITHUB_REPOSITORY": "kernels/cup",
    "GITHUB_REPOSITORY_ID": "4711",
    "GITHUB_EVENT_NAME": "workflow_dispatch",
    "GITHUB_REF": "refs/heads/main",
    "GITHUB_WORKFLOW_REF": "kernels/cup/.github/workflows/evaluate.yml@refs/heads/main",
}
CONF = "repository_id=4711\nbranch=main\nworkflow=.github/workflows/evaluate.yml\n"


def pass_gate(folder: Path, environment: dict[str, str], conf: str | None = CONF) -> subprocess.CompletedProcess[str]:
    """Start a worker that runs the hook, as the runner does, and then continues with the job."""
    shutil.copy(RUNNER / "gate.sh", folder)
    if conf is not None:
        (folder / "gate.conf").write_text(conf)
    worker = f"{BASH} -e {folder / 'gate.sh'}; echo the job goes on, whatever the hook said"
    return subprocess.run(
        [BASH, "-c", worker], env=environment, cwd="/", capture_output=True, text=True, timeout=20, check=False
    )


def test_the_gate_lets_the_judges_workflow_in(tmp_path):
    done = pass_gate(tmp_path, RIGHT)
    assert done.returncode == 0
    assert "job accepted" in done.stdout
    assert "the job goes on" in done.stdout


WRONG = [
    ("GITHUB_REPOSITORY_ID", ["4712", "47110", "", "*", "4711 ", None]),
    ("GITHUB_EVENT_NAME", ["pull_request", "pull_request_target", "push", "schedule", "issue_comment", "", None]),
    ("GITHUB_REF", ["refs/heads/evil", "refs/pull/1/merge", "refs/tags/main", "refs/heads/main2", "main", "", None]),
    ("GITHUB_REPOSITORY", ["kernels/other", "", None]),
    (
        "GITHUB_WORKFLOW_REF",
        [
            "kernels/cup/.github/workflows/ci.yml@refs/heads/main",
            "kernels/cup/.github/workflows/evaluate.yml@refs/heads/evil",
            "kernels/cup/.github/workflows/evaluate.yml@refs/pull/1/merge",
            "evil/cup/.github/workflows/evaluate.yml@refs/heads/main",
            "kernels/cup/x/.github/workflows/evaluate.yml@refs/heads/main",
            "kernels/cup/.github/workflows/evaluate.yml@refs/heads/main\n",
            "",
            None,
        ],
    ),
]


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in WRONG for value in values])
def test_the_gate_ends_the_worker_for_anything_else(tmp_path, name, value):
    environment = RIGHT | {name: value} if value is not None else {k: v for k, v in RIGHT.items() if k != name}
    done = pass_gate(tmp_path, environment)
    assert done.returncode == -signal.SIGKILL
    assert "the job ends here" in done.stdout
    assert "the job goes on" not in done.stdout


@pytest.mark.parametrize(
    "conf", [None, "", "repository_id=\nbranch=main\nworkflow=x\n", CONF.replace("branch=main\n", "")]
)
def test_a_gate_without_a_complete_configuration_lets_no_job_in(tmp_path, conf):
    assert pass_gate(tmp_path, RIGHT, conf).returncode == -signal.SIGKILL


def test_the_gate_uses_no_program_that_a_job_could_replace(tmp_path):
    for name in ("kill", "printf", "sleep", "cat"):
        _write_program(tmp_path / name, "exit 0")
    done = pass_gate(tmp_path, RIGHT | {"PATH": str(tmp_path), "GITHUB_REF": "refs/heads/evil"})
    assert done.returncode == -signal.SIGKILL


# The loop.


class FakeGitHub(ThreadingHTTPServer):
    """Serves the two requests that register a runner."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.seen: list[tuple[str, str, dict[str, object]]] = []
        self.status = 201

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Answers(BaseHTTPRequestHandler):
    server: FakeGitHub

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.seen.append((self.path, self.headers["Authorization"], body))
        answer = {"token": "ghs_short"} if self.path.endswith("/access_tokens") else {"encoded_jit_config": "aml0"}
        if self.server.status >= 400:
            answer = {"message": "Resource not accessible"}
        self.send_response(self.server.status)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def github() -> Iterator[FakeGitHub]:
    with FakeGitHub() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def registrar(tmp_path, github) -> dict[str, str]:
    """The environment that systemd gives to the loop; `curl` logs its calls."""
    for name in ("run", "credential", "bin"):
        (tmp_path / name).mkdir()
    (tmp_path / "credential" / "token").write_text("github_pat_secret\n")
    curl = shutil.which("curl")
    _write_program(tmp_path / "bin" / "curl", f'echo "$*" >> {tmp_path}/curl.log; exec {curl} "$@"')
    return {
        "PATH": f"{tmp_path}/bin:{os.environ['PATH']}",
        "HOSTNAME": "gpu_1.example",
        "REPOSITORY": "kernels/cup",
        "LABELS": "self-hosted,Linux,X64,h100",
        "API_URL": github.url,
        "RUNTIME_DIRECTORY": str(tmp_path / "run"),
        "CREDENTIAL": str(tmp_path / "credential"),
    }


def register(environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [BASH, RUNNER / "loop.sh", "--once"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30, check=False)


@needs_jq
def test_a_runner_of_the_repository_is_registered_with_a_token(tmp_path, github, registrar):
    done = register(registrar)
    assert done.returncode == 0, done.stderr
    [(path, authorization, body)] = github.seen
    assert path == "/repos/kernels/cup/actions/runners/generate-jitconfig"
    assert authorization == "Bearer github_pat_secret"
    name = body.pop("name")
    assert isinstance(name, str)
    assert re.fullmatch(r"pullrank-gpu-1-\d{14}-\d+", name)
    labels = ["self-hosted", "Linux", "X64", "h100"]
    assert body == {"runner_group_id": 1, "labels": labels, "work_folder": "_work"}
    jit = tmp_path / "run" / "jitconfig"
    assert jit.read_text() == "aml0"
    assert stat.S_IMODE(jit.stat().st_mode) == 0o600
    assert "secret" not in (tmp_path / "curl.log").read_text() + done.stdout + done.stderr


@needs_jq
def test_a_runner_of_a_group_is_registered_by_an_app(tmp_path, github, registrar):
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (tmp_path / "credential" / "app.key").write_bytes(key.private_bytes(*pem))
    done = register(registrar | {"GROUP_ID": "3", "APP_ID": "99", "INSTALLATION_ID": "1234"})
    assert done.returncode == 0, done.stderr
    (first, signed, asked), (second, authorization, body) = github.seen
    assert first == "/app/installations/1234/access_tokens"
    claims = jwt.decode(signed.removeprefix("Bearer "), key.public_key(), algorithms=["RS256"])
    assert claims["iss"] == "99"
    assert 0 < claims["exp"] - claims["iat"] <= 600
    assert asked == {"permissions": {"organization_self_hosted_runners": "write"}}
    assert (second, authorization) == ("/orgs/kernels/actions/runners/generate-jitconfig", "Bearer ghs_short")
    assert body["runner_group_id"] == 3
    assert "ghs_short" not in (tmp_path / "curl.log").read_text()


@needs_jq
def test_a_refused_registration_is_reported_and_leaves_nothing_for_the_worker(tmp_path, github, registrar):
    github.status = 403
    done = register(registrar)
    assert done.returncode == 1
    assert "Resource not accessible" in done.stderr
    assert not list((tmp_path / "run").iterdir())


@needs_jq
def test_the_loop_says_where_a_missing_credential_belongs(tmp_path, registrar):
    (tmp_path / "credential" / "token").unlink()
    done = register(registrar)
    assert done.returncode == 1
    assert str(tmp_path / "credential") in done.stderr


# One job.


@pytest.fixture
def machine(tmp_path) -> Path:
    """A machine with a runner; the current user is the worker."""
    root = tmp_path / "root"
    for folder in ("opt/pullrank/runner-1.2.3/bin", "opt/pullrank/bin", "tmp", "dev/shm", "run/pullrank", "bin"):
        (root / folder).mkdir(parents=True)
    (root / "opt/pullrank/runner").symlink_to("runner-1.2.3")
    _write_program(
        root / "opt/pullrank/runner-1.2.3/run.sh",
        'printf "%s\\n" "$@" > called; env > env; touch "$HOME/.cache_of_this_job"; pwd > where',
    )
    # Never the real one: it would kill every process of the current user.
    _write_program(root / "bin/pkill", f'echo "$*" >> {root}/pkill.log; exit 1')
    _write_program(root / "bin/pgrep", "exit 1")
    _write_program(root / "bin/chown", f'echo "$*" >> {root}/chown.log')
    return root


def job(root: Path, verb: str, **more: str) -> subprocess.CompletedProcess[str]:
    user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
    environment = {
        "PATH": f"{root}/bin:{os.environ['PATH']}", "PULLRANK_ROOT": str(root), "PULLRANK_WORKER": user, **more
    }  # fmt: skip
    command = [BASH, RUNNER / "job.sh", *verb.split()]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30, check=False)


def test_a_job_gets_a_fresh_runner_its_registration_and_the_gate(machine, tmp_path):
    home = machine / "var/lib/pullrank-runner"
    home.mkdir(parents=True)
    (home / "left_by_the_last").write_text("x")
    assert job(machine, "prepare").returncode == 0
    assert [path.name for path in home.iterdir()] == ["job"]
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    (tmp_path / "jitconfig").write_text("aml0")
    done = job(machine, "run", CREDENTIALS_DIRECTORY=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert (home / "job/called").read_text().splitlines() == ["--jitconfig", "aml0"]
    environment = dict(line.split("=", 1) for line in (home / "job/env").read_text().splitlines() if "=" in line)
    assert environment["ACTIONS_RUNNER_HOOK_JOB_STARTED"] == f"{machine}/opt/pullrank/bin/gate.sh"
    assert environment["PATH"].startswith(f"{machine}/opt/pullrank/venv/bin:")
    assert not (machine / "opt/pullrank/runner-1.2.3/called").exists(), "the installed runner must not change"


def test_an_update_during_the_preparation_does_not_mix_two_runners(machine):
    other = machine / "opt/pullrank/runner-1.2.4"
    shutil.copytree(machine / "opt/pullrank/runner-1.2.3", other)
    _write_program(other / "run.sh", "another version")
    link = machine / "opt/pullrank/runner"
    _write_program(machine / "bin/cp", f'ln -sfn runner-1.2.4 {link}; exec {shutil.which("cp")} "$@"')
    assert job(machine, "prepare").returncode == 0
    assert os.readlink(link) == "runner-1.2.4"
    copied = machine / "var/lib/pullrank-runner/job/run.sh"
    assert copied.read_text() == (machine / "opt/pullrank/runner-1.2.3/run.sh").read_text()


@pytest.mark.parametrize("ends", ["true", "false"])
def test_job_preparation_makes_cudas_nodes_and_tolerates_a_failure(machine, ends):
    _write_program(machine / "bin/nvidia-modprobe", f'echo "$*" >> {machine}/modprobe.log; {ends}')
    for minor in (0, 1):
        folder = machine / f"proc/driver/nvidia/gpus/0000:0{minor}:00.0"
        folder.mkdir(parents=True)
        (folder / "information").write_text(f"Model: \t\t NVIDIA L4\nDevice Minor: \t {minor}\n")
    done = job(machine, "prepare")
    assert (machine / "modprobe.log").read_text() == "-c 255\n-c 0\n-c 1\n-c 0 -u\n"
    assert done.returncode == 0 and (machine / "var/lib/pullrank-runner/job/run.sh").exists()
    assert ("nvidia-modprobe -c 0 -u failed" in done.stderr) is (ends == "false")


def test_a_finished_job_leaves_nothing_behind(machine):
    job(machine, "prepare")
    for path in ("tmp/a/b", "dev/shm/c", "var/tmp/d", "var/lib/pullrank-runner/.nv/cache", "run/pullrank/jitconfig"):
        (machine / path).parent.mkdir(parents=True, exist_ok=True)
        (machine / path).write_text("x")
    (machine / "tmp/link").symlink_to(machine / "opt")
    done = job(machine, "clean")
    assert done.returncode == 0, done.stderr
    for folder in ("tmp", "dev/shm", "var/tmp", "var/lib/pullrank-runner", "run/pullrank"):
        assert not list((machine / folder).iterdir()), folder
    assert (machine / "opt/pullrank/runner/run.sh").exists(), "a link must not lead out of the folder"
    assert re.fullmatch(r"-KILL -u \S+\n", (machine / "pkill.log").read_text())


def test_processes_that_do_not_end_are_a_fault_and_block_other_jobs(machine):
    _write_program(machine / "bin/pgrep", "echo 4711")
    (machine / "run/pullrank/jitconfig").write_text("x")
    done = job(machine, "clean")
    assert done.returncode == 1
    assert "do not end" in done.stderr
    assert (machine / "run/pullrank/jitconfig").exists()


@pytest.mark.parametrize("verb", ["", "main", "clean_home", "--help"])
def test_the_job_script_refuses_unknown_verbs(machine, verb):
    assert job(machine, verb).returncode == 2


# The installation.

USERS = ("pullrank-runner", "pullrank-registrar")
ASIDE = ("apt-get", "chown", "nft", "sysctl", "systemctl", "systemd-tmpfiles")
"""Stand-ins that only log their calls."""


class Box:
    """A bare machine: a root folder, and stand-ins for its programs."""

    def __init__(self, folder: Path, *, torch: bool = True, libraries: bool = True, nft: bool = True) -> None:
        self.folder = folder
        self.root = folder / "root"
        self.bin = folder / "bin"
        self.log = folder / "log"
        for path in (
            "etc/systemd/system",
            "etc/sysctl.d",
            "etc/tmpfiles.d",
            "proc/sys/kernel",
            "sys/fs/cgroup",
            "opt",
            "var/lib",
        ):
            (self.root / path).mkdir(parents=True)
        self.bin.mkdir()
        (self.root / "etc/debian_version").write_text("13.1\n")
        (self.root / "etc/passwd").write_text("root:x:0:0::/root:/bin/bash\n")
        (self.root / "sys/fs/cgroup/cgroup.controllers").write_text("cpu memory pids\n")
        for name in ASIDE:
            self.stand_in(name, "")
        if not nft:
            # The stand-ins come first in PATH, and here they are the only programs.
            (self.bin / "nft").unlink()
        self.stand_in(
            "dpkg-query", f'grep -qx "${{@: -1}}" {folder}/packages 2> /dev/null && echo installed', log=False
        )
        self.stand_in("getent", f'grep "^$2:" {self.root}/etc/passwd', log=False)
        self.stand_in("useradd", f'echo "${{@: -1}}:x:999:999::/:/bin/false" >> {self.root}/etc/passwd')
        self.stand_in("userdel", f'sed -i "/^$1:/d" {self.root}/etc/passwd')
        self.stand_in("setpriv", 'while [[ $1 != -- ]]; do shift; done; shift; exec "$@"')
        # A release of github.com, from its file.
        self.stand_in(
            "curl", f'while (($# > 1)); do [[ $1 != --output ]] || out=$2; shift; done; cp {folder}/"${{1##*/}}" "$out"'
        )
        self.python(torch=torch, libraries=libraries)
        self.sha256 = self.pack_runner("2.330.0")
        (folder / "token").write_text("github_pat_secret")

    def stand_in(self, name: str, body: str, *, log: bool = True) -> None:
        _write_program(self.bin / name, (f'echo "{name} $*" >> {self.log}\n' if log else "") + body)

    def python(self, *, torch: bool, libraries: bool) -> None:
        """A Python that makes virtual environments at once; pip brings missing packages."""
        brought = self.folder / "torch"
        # The file of requirements has a temporary name.
        keep = f"""; n=$(grep -c requirement {self.log})
            [[ $* != *--requirement* ]] || cp "${{@: -1}}" {self.folder}/requirements-$((n - 1))"""
        if torch:
            brought.write_text("")
        _write_program(
            self.folder / "python",
            f"""
            case "$*" in
                "-m pip install "*torch*) echo "python $*" >> {self.log}; touch {brought}{keep} ;;
                "-m pip install "*) echo "python $*" >> {self.log}{keep} ;;
                *find_spec*" pydantic yaml "*) {"true" if libraries else "false"} ;;
                *"import torch"*) [[ -e {brought} ]] ;;
                *torch*) [[ -e {brought} ]] && exec {sys.executable} "$@" ;;
                *) exec {sys.executable} "$@" ;;
            esac""",
        )
        _write_program(
            self.bin / "python3",
            f"""
            [[ "$1 $2" == "-m venv" ]] || exec {self.folder}/python "$@"
            echo "python3 $*" >> {self.log}
            mkdir -p "${{@: -1}}/bin"
            cp {self.folder}/python "${{@: -1}}/bin/python" """,
        )

    def pack_runner(self, version: str, *, prints: str | None = None) -> str:
        """Make a release of the runner, and return its SHA-256."""
        source = self.folder / f"runner-{version}"
        (source / "bin").mkdir(parents=True)
        _write_program(source / "run.sh", "true")
        _write_program(source / "bin/installdependencies.sh", f"echo installdependencies >> {self.log}")
        _write_program(source / "bin/Runner.Listener", f"touch ${{0%/bin/*}}/_diag/log; echo {prints or version}")
        path = self.folder / _archive(version)
        with tarfile.open(path, "w:gz") as archive:
            archive.add(source, ".")
        return hashlib.sha256(path.read_bytes()).hexdigest()

    @property
    def options(self) -> dict[str, str]:
        return {
            "--repository": "kernels/cup",
            "--repository-id": "4711",
            "--labels": "h100,pullrank",
            "--runner-version": "2.330.0",
            "--runner-sha256": self.sha256,
            "--token-file": str(self.folder / "token"),
        }

    def run(self, *words: str, **changes: str | None) -> subprocess.CompletedProcess[str]:
        """Run the installation with these options; None removes one."""
        options = self.options | {f"--{name.replace('_', '-')}": value for name, value in changes.items()}
        given = [word for name, value in options.items() if value is not None for word in (name, value)]
        return self.call(*given, *words)

    def call(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.script("install.sh", "--root", str(self.root), *arguments)

    def script(self, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        self.log.write_text("")
        command = [BASH, RUNNER / name, *arguments]
        environment = {"PATH": f"{self.bin}:{_plain_tools(self.folder)}", "PULLRANK_ROOT": str(self.root)}
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)

    @property
    def calls(self) -> list[str]:
        return self.log.read_text().splitlines()

    def path(self, path: str) -> Path:
        return self.root / path

    def text(self, path: str) -> str:
        return self.path(path).read_text()

    def mode(self, path: str) -> str:
        return f"{stat.S_IMODE(self.path(path).stat().st_mode):04o}"

    def files(self) -> dict[str, str]:
        """All files below the root, with mode and content."""
        return {
            str(path.relative_to(self.root)): f"{path.lstat().st_mode:o} {_content(path)}"
            for path in sorted(self.root.rglob("*"))
        }


def _content(path: Path) -> str:
    if path.is_symlink():
        return os.readlink(path)
    return base64.b64encode(path.read_bytes()).decode() if path.is_file() else ""


def _plain_tools(folder: Path) -> Path:
    """A PATH with only harmless tools: nothing else is on this machine except stand-ins."""
    tools = folder / "tools"
    if not tools.exists():
        tools.mkdir()
        for name in (
            "awk", "bash", "basename", "cat", "chmod", "cp", "dirname", "env", "flock", "grep", "gzip", "head", "jq", "ln", "mkdir",
            "mktemp", "mv", "readlink", "rm", "sed", "sh", "sha256sum", "sort", "tail", "tar", "timeout", "touch", "tr",
            "uname", "wc",
        ):  # fmt: skip
            found = shutil.which(name)
            assert found or name == "jq", name  # tests that need jq are skipped
            if found:
                (tools / name).symlink_to(found)
    return tools


def _archive(version: str) -> str:
    return f"actions-runner-linux-{'arm64' if os.uname().machine == 'aarch64' else 'x64'}-{version}.tar.gz"


def _write_program(path: Path, body: str) -> None:
    path.write_text(f"#!{BASH}\n{body}\n")
    path.chmod(0o755)


@pytest.fixture
def box(tmp_path) -> Box:
    return Box(tmp_path)


def test_a_bare_machine_becomes_a_judge(box):
    done = box.run()
    assert done.returncode == 0, done.stderr
    for name in ("gate.sh", "job.sh", "loop.sh", "update.sh"):
        assert box.path(f"opt/pullrank/bin/{name}").read_bytes() == (RUNNER / name).read_bytes()
        assert box.mode(f"opt/pullrank/bin/{name}") == "0755"
    assert box.text("opt/pullrank/bin/gate.conf") == CONF
    assert box.text("etc/pullrank/registrar.conf").splitlines()[:3] == [
        "REPOSITORY=kernels/cup",
        "GROUP_ID=",
        f"LABELS=self-hosted,Linux,{'ARM64' if os.uname().machine == 'aarch64' else 'X64'},h100,pullrank",
    ]
    assert os.access(box.path("opt/pullrank/runner/run.sh"), os.X_OK)
    assert [line.split(":")[0] for line in box.text("etc/passwd").splitlines()] == ["root", *USERS]
    assert box.calls[-1] == "systemctl restart pullrank-registrar.service"
    assert "systemctl enable --quiet --now pullrank-worker.path" in box.calls


def test_only_the_registrar_can_read_the_credential(box):
    box.run()
    assert box.text("etc/pullrank/credential/token") == "github_pat_secret"
    assert (box.mode("etc/pullrank/credential"), box.mode("etc/pullrank/credential/token")) == ("0700", "0400")
    owned = [call for call in box.calls if call.startswith("chown pullrank-registrar:pullrank-registrar")]
    assert [bool(re.search(r"/credential(/token\.\w+)?$", call)) for call in owned] == [True, True]
    home = next(call for call in box.calls if call.endswith("/var/lib/pullrank-runner") and "chown" in call)
    assert home.startswith("chown pullrank-runner:")
    rest = [call for call in box.calls if call.startswith("chown") and call not in (*owned, home)]
    assert all(call.startswith("chown root:root") for call in rest)


def test_only_root_can_change_the_files_that_a_job_starts_with(box):
    box.run()
    for path in (*box.path("opt/pullrank").rglob("*"), *box.path("etc").rglob("*")):
        assert path.is_symlink() or not path.lstat().st_mode & 0o022, path


def test_a_second_installation_changes_nothing(box):
    assert box.run().returncode == 0
    (box.folder / "packages").write_text("\n".join(re.findall(r"^PACKAGES=\((.*)\)", _install_text(), re.M)[0].split()))
    before = box.files()
    done = box.run(token_file=None)
    assert done.returncode == 0, done.stderr
    assert box.files() == before
    kinds = {call.split()[0] for call in box.calls}
    assert kinds <= {"chown", "systemctl", "setpriv"}, "no packages, no users, no download, no pip"


def test_an_installation_of_a_new_runner_keeps_one_earlier_version(box):
    box.run()
    for version in ("2.331.0", "2.332.0"):
        assert box.run(runner_version=version, runner_sha256=box.pack_runner(version)).returncode == 0
    assert os.readlink(box.path("opt/pullrank/runner")) == "runner-2.332.0"
    assert sorted(path.name for path in box.path("opt/pullrank").glob("runner-*")) == [
        "runner-2.331.0", "runner-2.332.0"
    ]  # fmt: skip


def test_a_runner_with_a_wrong_checksum_is_not_installed(box):
    done = box.run(runner_sha256="0" * 64)
    assert done.returncode == 2
    assert "SHA-256" in done.stderr
    assert not box.path("opt/pullrank/runner").is_symlink()
    assert not list(box.path("opt/pullrank").glob(".incoming*"))
    assert "installdependencies" not in box.calls


def test_a_runner_from_a_file_needs_no_download(box):
    assert box.run(runner_archive=str(box.folder / _archive("2.330.0"))).returncode == 0
    assert not [call for call in box.calls if call.startswith("curl")]
    assert "installdependencies" in box.calls


def test_an_existing_torch_is_kept(box):
    box.run()
    assert any(call.startswith("python3 -m venv --system-site-packages") for call in box.calls)
    assert not [call for call in box.calls if "pip" in call and "torch" in call]


def test_a_pydantic_that_is_too_old_is_replaced(box):
    old = box.folder / "old" / "pydantic-2.7.4.dist-info"
    old.mkdir(parents=True)
    (old / "METADATA").write_text("Name: pydantic\nVersion: 2.7.4\n")
    python = box.folder / "python"
    python.write_text(python.read_text().replace("case", f"export PYTHONPATH={old.parent}\ncase", 1))
    assert box.run().returncode == 0
    [(_, locked)] = installed_libraries(box)
    assert [line for line in locked if line.startswith("pydantic==")]


def installed_libraries(box: Box) -> list[tuple[str, list[str]]]:
    """The calls of pip with a file of requirements: each call, and the file's lines."""
    calls = [call for call in box.calls if "--requirement" in call]
    return [(call, (box.folder / f"requirements-{i}").read_text().splitlines()) for i, call in enumerate(calls)]


def test_the_installer_installs_libraries_by_hash_and_keeps_an_existing_numpy(tmp_path):
    box = Box(tmp_path, libraries=False)
    assert box.run().returncode == 0
    [(call, lines)] = installed_libraries(box)
    assert "--require-hashes --no-deps --only-binary :all:" in call
    names = {line.partition("==")[0] for line in lines if not line.startswith(" ")}
    assert names == _needed("click", "pydantic", "pyyaml", "rich")
    assert set(lines) <= set((ROOT / "requirements.lock").read_text().splitlines())
    assert all("--hash=sha256:" in after for before, after in itertools.pairwise(lines) if "==" in before)


def _needed(*names: str) -> set[str]:
    """These libraries and all that they import, on Linux."""
    found, left = set(), list(names)
    while left:
        name = re.sub(r"[-_.]+", "-", left.pop()).lower()
        if name not in found:
            found.add(name)
            for line in importlib.metadata.requires(name) or ():
                if (needed := Requirement(line)).marker is None or needed.marker.evaluate({"extra": ""}):
                    left.append(needed.name)
    return found


def test_torch_can_be_installed_by_hash_too(tmp_path):
    box = Box(tmp_path, torch=False)
    (tmp_path / "torch.lock").write_text("torch==2.13.0 --hash=sha256:0\n")
    done = box.run(torch_requirements=str(tmp_path / "torch.lock"))
    assert done.returncode == 0, done.stderr
    assert [lines for call, lines in installed_libraries(box) if call.endswith("torch.lock")] == [
        ["torch==2.13.0 --hash=sha256:0"]
    ]
    assert not [call for call in box.calls if call.endswith(" torch")]


def test_a_machine_without_torch_gets_the_named_version(tmp_path):
    box = Box(tmp_path, torch=False)
    done = box.run(torch="torch==2.13.0")
    assert done.returncode == 0, done.stderr
    assert "python -m pip install --quiet torch==2.13.0" in box.calls


def test_missing_packages_are_installed_in_one_go(box):
    (box.folder / "packages").write_text("curl\njq\n")
    box.run()
    [install] = [call for call in box.calls if call.startswith("apt-get install")]
    assert "bubblewrap" in install
    assert not {"curl", "jq"} & set(install.split())


@pytest.mark.parametrize(
    ("key", "now", "wanted"),
    [
        ("kernel/apparmor_restrict_unprivileged_userns", "1", "0"),
        ("kernel/unprivileged_userns_clone", "0", "1"),
        ("kernel/yama/ptrace_scope", "2", "1"),
        ("user/max_user_namespaces", "0", "15000"),
    ],
)
def test_settings_that_block_the_sandbox_are_changed_permanently(box, key, now, wanted):
    setting = box.path(f"proc/sys/{key}")
    setting.parent.mkdir(parents=True, exist_ok=True)
    setting.write_text(now + "\n")
    assert box.run().returncode == 0
    line = f"{key.replace('/', '.')} = {wanted}\n"
    assert box.text("etc/sysctl.d/60-pullrank.conf") == line
    assert any(call.startswith("sysctl") for call in box.calls)
    setting.write_text(wanted + "\n")
    assert box.run().returncode == 0
    assert box.text("etc/sysctl.d/60-pullrank.conf") == line, "the second run must keep it"


def test_settings_that_are_good_are_left_alone(box):
    box.path("proc/sys/kernel/apparmor_restrict_unprivileged_userns").write_text("0\n")
    box.run()
    assert not box.path("etc/sysctl.d/60-pullrank.conf").exists()


def test_the_network_is_closed_before_a_worker_starts(box):
    box.run("--allow", "10.1.2.3", "--allow", "fd12::/16")
    rules = box.text("etc/pullrank/egress.nft")
    assert rules.index("ip daddr 10.1.2.3 accept") < rules.index("169.254.0.0/16")
    assert rules.index("ip6 daddr fd12::/16 accept") < rules.index("169.254.0.0/16")
    worker = box.text("etc/systemd/system/pullrank-worker.service.d/egress.conf")
    assert "Requires=pullrank-egress.service" in worker
    assert "ExecStartPre=+/usr/sbin/nft --file /etc/pullrank/egress.nft\n" in worker, "a flushed table comes back"
    started = [call for call in box.calls if call.startswith("systemctl enable")]
    egress, worker = (next(i for i, call in enumerate(started) if unit in call) for unit in ("egress", "worker"))
    assert egress < worker


def test_the_installer_warns_about_a_machine_without_nft(tmp_path):
    done = Box(tmp_path, nft=False).run()
    assert done.returncode == 0
    assert "metadata service" in done.stderr


@pytest.mark.skipif(not shutil.which("nft") or os.geteuid() != 0, reason="no nft, or not root")
def test_nft_accepts_the_network_rules(box):
    box.run("--allow", "10.1.2.3")
    rules = box.text("etc/pullrank/egress.nft").replace('"pullrank-runner"', "65534")
    done = subprocess.run(
        ["nft", "--check", "--file", "-"], input=rules, capture_output=True, text=True, timeout=20, check=False
    )
    if "Operation not permitted" in done.stderr or "not supported" in done.stderr:
        pytest.skip("this machine's kernel has no nftables for us")
    assert done.returncode == 0, done.stderr


def test_a_kept_credential_keeps_its_runner_group(box):
    box.run(group_id="3")
    box.run(token_file=None)
    assert "GROUP_ID=3\n" in box.text("etc/pullrank/registrar.conf")
    box.run()
    assert "GROUP_ID=\n" in box.text("etc/pullrank/registrar.conf")


def test_an_app_replaces_a_token(box):
    box.run()
    (box.folder / "key.pem").write_text("key")
    app = {"app_id": "99", "installation_id": "1234"}
    done = box.run(token_file=None, key_file=str(box.folder / "key.pem"), **app)
    assert done.returncode == 0, done.stderr
    assert [path.name for path in box.path("etc/pullrank/credential").iterdir()] == ["app.key"]
    assert "APP_ID=99\nINSTALLATION_ID=1234\n" in box.text("etc/pullrank/registrar.conf")
    assert box.run(token_file=None).returncode == 0
    assert "APP_ID=99\nINSTALLATION_ID=1234\n" in box.text("etc/pullrank/registrar.conf"), "it is kept"


def test_a_dry_run_changes_nothing_and_lists_every_step(box):
    before = box.files()
    done = box.run("--dry-run")
    assert done.returncode == 0, done.stderr
    assert box.files() == before
    assert box.calls == []
    assert "github_pat_secret" not in done.stdout
    for part in (
        "useradd",
        "pullrank-worker.service",
        "gate.conf",
        "update.sh",
        "credential/token",
        "systemctl restart",
    ):
        assert part in done.stdout


def test_uninstalling_restores_the_bare_machine(box):
    before = box.files()
    box.path("proc/sys/kernel/unprivileged_userns_clone").write_text("0\n")
    box.run()
    done = box.call("--uninstall")
    assert done.returncode == 0, done.stderr
    box.path("proc/sys/kernel/unprivileged_userns_clone").unlink()
    assert box.files() == before
    assert [call for call in box.calls if "userdel" in call] == [f"userdel {user}" for user in USERS]
    assert box.call("--uninstall").returncode == 0, "a second run changes nothing"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"role": "referee"}, "both, judge or registrar"),
        ({"repository": None}, "--repository is missing"),
        ({"repository": "kernels"}, "OWNER/NAME"),
        ({"repository": "a/b;reboot"}, "OWNER/NAME"),
        ({"repository_id": "kernels"}, "numeric id"),
        ({"labels": "h100, x"}, "commas"),
        ({"branch": "main\nbranch=evil"}, "name of a branch"),
        ({"runner_version": "latest"}, "--runner-version"),
        ({"runner_version": None}, "--runner-version is missing"),
        ({"runner_sha256": None}, "--runner-sha256 is missing"),
        ({"runner_sha256": "abc"}, "64 hex digits"),
        ({"token_file": None}, "a credential is missing"),
        ({"token_file": "/nowhere"}, "cannot be read"),
        ({"app_id": "99"}, "not both"),
        ({"token_file": None, "app_id": "99"}, "must be given together"),
        ({"token_file": None, "app_id": "99", "installation_id": "1"}, "--key-file is missing"),
        ({"api_url": "http://github.example"}, "https://"),
        ({"group_id": "judges"}, "a number"),
        ({"allow": "example.org"}, "an IP address"),
        ({"frobnicate": "1"}, "unknown option '--frobnicate'"),
    ],
)
def test_a_wrong_call_changes_nothing(box, changes, message):
    before = box.files()
    done = box.run(**changes)
    assert done.returncode == 2
    assert message in done.stderr
    assert box.files() == before
    assert box.calls == []


def test_a_system_other_than_debian_or_ubuntu_is_refused(box):
    box.path("etc/debian_version").unlink()
    assert "neither Debian nor Ubuntu" in box.run().stderr


def test_the_installer_refuses_a_root_folder_with_this_machines_programs(box):
    command = [BASH, RUNNER / "install.sh", "--root", str(box.root), "--uninstall"]
    tools = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    done = subprocess.run(command, env=tools, capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 2
    assert "stand-ins" in done.stderr


# New versions of the runner.


class Releases(ThreadingHTTPServer):
    """Serves GitHub's list of the runner's releases, and their files."""

    def __init__(self, box: Box) -> None:
        super().__init__(("127.0.0.1", 0), _Releases)
        self.box = box
        self.known: list[dict[str, object]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def publish(
        self, version: str, days: float, *, digest: str | None = None, prints: str | None = None, **more: object
    ) -> None:
        """Add a release that has been out for this many days."""
        sha256 = self.box.pack_runner(version, prints=prints)
        name = _archive(version)
        asset = {
            "name": name, "browser_download_url": f"{self.url}/{name}", "digest": digest or f"sha256:{sha256}"
        }  # fmt: skip
        other = asset | {"name": name.replace("linux", "osx"), "digest": f"sha256:{'1' * 64}"}
        when = (datetime.now(UTC) - timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%SZ")
        release = {"tag_name": f"v{version}", "published_at": when, "draft": False, "prerelease": False}
        self.known.insert(0, release | {"assets": [other, asset]} | more)


class _Releases(BaseHTTPRequestHandler):
    server: Releases

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/repos/actions/runner/releases":
            content = json.dumps(self.server.known).encode()
        else:
            content = (self.server.box.folder / path.removeprefix("/")).read_bytes()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def releases(box) -> Iterator[Releases]:
    """GitHub with one release, a month old; the machine has the real curl, and no worker."""
    if not all(map(shutil.which, ("jq", "curl"))):
        pytest.skip("no jq or curl")
    _write_program(box.bin / "curl", f'exec {shutil.which("curl")} "$@"')
    box.stand_in("systemctl", '[[ "$1" != is-active ]]')
    with Releases(box) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        server.publish("2.340.0", 31)
        yield server
        server.shutdown()


def install(box: Box, releases: Releases) -> subprocess.CompletedProcess[str]:
    """Install the newest runner, with updates, in a runner group."""
    return box.run(runner_version=None, runner_sha256=None, api_url=releases.url, group_id="3")


def installed(box: Box) -> str:
    return os.readlink(box.path("opt/pullrank/runner")).removeprefix("runner-")


def busy_or_idle(box: Box, *, busy: bool) -> None:
    """A worker that runs a copy of the installed runner."""
    box.stand_in("systemctl", "")
    box.stand_in("pgrep", str(busy).lower())
    shutil.copytree(box.path("opt/pullrank/runner"), box.path("var/lib/pullrank-runner/job"))


def test_an_unpinned_runner_is_the_newest_and_a_timer_updates_it(box, releases):
    done = install(box, releases)
    assert done.returncode == 0, done.stderr
    assert installed(box) == "2.340.0"
    assert "installdependencies" in box.calls
    assert "systemctl enable --quiet --now pullrank-update.timer" in box.calls
    assert box.text("etc/pullrank/machine.conf") == f"ROLE=both\nAPI_URL={releases.url}\nPINNED_VERSION=\n"
    assert not box.path("opt/pullrank/runner/_diag").exists()
    releases.publish("2.341.0", 4)
    box.path("opt/pullrank/runner/.env").write_text(f"{OTHER_WORK}=allow\n")
    done = box.script("update.sh")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "update: runner 2.341.0 is installed; before, it was 2.340.0\n"
    assert installed(box) == "2.341.0"
    assert "installdependencies" not in box.calls, "the service may not install packages"
    assert box.text("opt/pullrank/runner/.env") == f"{OTHER_WORK}=allow\n", "a host's own settings are kept"
    before = box.files()
    assert box.script("update.sh").stdout == "update: runner 2.341.0 is the newest that has been out for 3 days\n"
    assert box.files() == before


def test_a_release_younger_than_three_days_is_not_installed_yet(box, releases):
    releases.publish("2.341.0", 5)
    releases.publish("2.342.0", 2.9)
    install(box, releases)
    assert installed(box) == "2.341.0"


@pytest.mark.parametrize("kind", [{"draft": True}, {"prerelease": True}, {"tag_name": "v2.350.0-beta"}, {"assets": []}])
def test_an_unsuitable_release_is_ignored(box, releases, kind):
    releases.publish("2.350.0", 9, **kind)
    install(box, releases)
    assert installed(box) == "2.340.0"


def test_an_update_compares_versions_as_numbers_and_never_downgrades(box, releases):
    releases.publish("2.1000.0", 8)
    releases.publish("2.999.0", 7)
    install(box, releases)
    assert installed(box) == "2.1000.0"
    releases.known = [release for release in releases.known if release["tag_name"] != "v2.1000.0"]
    box.script("update.sh")
    assert installed(box) == "2.1000.0"


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ({"digest": f"sha256:{'0' * 64}"}, "runner 2.341.0: the SHA-256 is not 000000"),
        ({"digest": "md5:abc"}, "the release 2.341.0 has no SHA-256"),
        ({"prints": "2.340.0"}, "runner 2.341.0 does not start on this machine"),
        ({"published_at": "yesterday"}, "sent no list of releases"),
    ],
)
def test_an_update_that_fails_changes_nothing_and_says_so_in_one_line(box, releases, fault, message):
    install(box, releases)
    before = box.files()
    releases.publish("2.341.0", 4, **fault)
    done = box.script("update.sh")
    assert done.returncode == 1
    assert message in done.stderr
    assert done.stderr.endswith("; runner 2.340.0 stays in use\n") and done.stderr.count("\n") == 1
    assert box.files() == before


@pytest.mark.parametrize("lost", ["the file", "the list", "the network"])
def test_an_update_without_a_network_changes_nothing(box, releases, lost):
    install(box, releases)
    releases.publish("2.341.0", 4)
    before = box.files()
    if lost == "the file":
        (box.folder / _archive("2.341.0")).unlink()
    elif lost == "the list":
        releases.known = None
    else:
        releases.server_close()
    done = box.script("update.sh")
    assert done.returncode == 1
    assert done.stderr.endswith("; runner 2.340.0 stays in use\n") and done.stderr.count("\n") == 1, done.stderr
    assert box.files() == before


def test_an_update_removes_the_folder_of_a_killed_update(box, releases):
    install(box, releases)
    box.path("opt/pullrank/.incoming.abc123/runner").mkdir(parents=True)
    box.script("update.sh")
    assert sorted(path.name for path in box.path("opt/pullrank").iterdir()) == [
        "bin",
        "runner",
        "runner-2.340.0",
        "venv",
    ]


def test_a_waiting_worker_gets_the_new_version_at_once(box, releases):
    install(box, releases)
    busy_or_idle(box, busy=False)
    box.script("update.sh")
    assert "systemctl stop pullrank-worker.service" not in box.calls, "it has the newest version"
    releases.publish("2.341.0", 4)
    done = box.script("update.sh")
    assert "systemctl stop pullrank-worker.service" in box.calls
    assert "pgrep -x -u pullrank-runner Runner.Worker" in box.calls
    assert "the worker was waiting" in done.stdout


def test_an_update_never_stops_a_busy_worker_and_stops_it_once_idle(box, releases):
    install(box, releases)
    busy_or_idle(box, busy=True)
    releases.publish("2.341.0", 4)
    done = box.script("update.sh")
    assert installed(box) == "2.341.0"
    assert [call for call in box.calls if call.startswith("systemctl")] == [
        "systemctl is-active --quiet pullrank-worker.service"
    ]
    assert "the worker is busy" in done.stdout
    # It was still preparing, and has waited with the old version since.
    box.stand_in("pgrep", "false")
    box.script("update.sh")
    assert "systemctl stop pullrank-worker.service" in box.calls


def test_a_pinned_runner_is_not_updated_until_the_pin_is_gone(box, releases):
    done = box.run(api_url=releases.url, runner_archive=str(box.folder / _archive("2.330.0")))
    assert installed(box) == "2.330.0"
    assert "pinned, so it is never updated" in done.stderr
    assert "systemctl disable --quiet --now pullrank-update.timer" in box.calls
    done = box.script("update.sh")
    assert (done.returncode, installed(box)) == (0, "2.330.0")
    assert "is pinned" in done.stdout
    install(box, releases)
    assert installed(box) == "2.340.0"
    assert "systemctl enable --quiet --now pullrank-update.timer" in box.calls


def test_the_installer_keeps_a_runner_it_cannot_update_but_fails_without_one(box, releases):
    url = releases.url
    releases.server_close()
    first = box.run(runner_version=None, runner_sha256=None, api_url=url)
    assert first.returncode == 2
    assert "no runner was installed" in first.stderr
    assert "no runner is installed" in first.stderr
    box.run(runner_archive=str(box.folder / _archive("2.330.0")))
    again = box.run(runner_version=None, runner_sha256=None, api_url=url)
    assert again.returncode == 0
    assert "tries again daily" in again.stderr
    assert installed(box) == "2.330.0"


def test_the_judges_job_uses_no_action_of_this_repository():
    judge = (ROOT / ".github/workflows/evaluate.yml").read_text().partition("\n  judge:")[2].partition("\n  report:")[0]
    assert "uses:" in judge
    assert "$/" not in judge


# A registrar on another machine.

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBcX6uMsX4mQ2uS0cYQd2eWq"
JUDGE = {"role": "judge", "repository": None, "labels": None, "token_file": None}
REGISTRAR = {
    "role": "registrar", "repository_id": None, "runner_version": None, "runner_sha256": None,
    "judge": "gpu-1.example:2222",
}  # fmt: skip


def as_judge(box: Box, **changes: str | None) -> subprocess.CompletedProcess[str]:
    (box.folder / "registrar.pub").write_text(f"{KEY} root@registrar\n")
    return box.run(**JUDGE | {"registrar_key": str(box.folder / "registrar.pub")} | changes)


def as_registrar(box: Box, **changes: str | None) -> subprocess.CompletedProcess[str]:
    (box.folder / "key").write_text("-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n-----END OPENSSH PRIVATE KEY-----\n")
    (box.folder / "host.pub").write_text(f"{KEY} root@gpu-1\n")
    files = {"judge_key": str(box.folder / "key"), "judge_host_key": str(box.folder / "host.pub")}
    return box.run(**REGISTRAR | files | changes)


def test_a_judge_only_machine_has_no_credential_and_accepts_a_delivery_key(box):
    done = as_judge(box)
    assert done.returncode == 0, done.stderr
    assert not box.path("etc/pullrank/credential").exists()
    assert not box.path("etc/pullrank/registrar.conf").exists()
    assert not box.path("etc/systemd/system/pullrank-registrar.service").exists()
    assert not box.path("opt/pullrank/bin/loop.sh").exists()
    assert box.text("opt/pullrank/bin/gate.conf") == CONF
    users = [line.split(":")[0] for line in box.text("etc/passwd").splitlines()]
    assert users == ["root", "pullrank-runner", "pullrank-receiver"]
    access = "var/lib/pullrank-receiver/.ssh/authorized_keys"
    assert box.text(access) == f'restrict,command="/opt/pullrank/bin/receive.sh" {KEY}\n'
    assert box.mode(access) == "0644"
    assert not [call for call in box.calls if "chown pullrank-receiver" in call], "it cannot change its own keys"
    (user,) = [call for call in box.calls if call.startswith("useradd") and "receiver" in call]
    assert "--shell /bin/sh --password *" in user
    assert box.text("etc/tmpfiles.d/pullrank.conf").endswith(
        "\nd /run/pullrank 0700 pullrank-receiver pullrank-receiver -\n"
    )
    assert "Requires=pullrank-egress.service" in box.text("etc/systemd/system/pullrank-worker.service.d/egress.conf")
    assert "openssh-server" in next(call for call in box.calls if call.startswith("apt-get install"))
    before = box.files()
    (box.folder / "packages").write_text("openssh-server\n")
    assert box.run(**JUDGE | {"role": None}).returncode == 0, "role and key are kept"
    assert box.files() == before


def test_a_registrar_only_machine_serves_each_configured_judge(box):
    done = as_registrar(box)
    assert done.returncode == 0, done.stderr
    done = as_registrar(
        box, role=None, judge="me@192.0.2.7", labels="b200", token_file=None, judge_key=None
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    judges = {path.name: path.read_text() for path in box.path("etc/pullrank/judges").iterdir()}
    assert judges == {
        "gpu-1.example-2222.conf": "JUDGE=pullrank-receiver@gpu-1.example:2222\n"
        "LABELS=self-hosted,Linux,h100,pullrank\n",
        "gpu-1.example-2222.known_hosts": f"judge {KEY}\n",
        "192.0.2.7.conf": "JUDGE=me@192.0.2.7\nLABELS=self-hosted,Linux,b200\n",
        "192.0.2.7.known_hosts": f"judge {KEY}\n",
    }
    assert box.mode("etc/pullrank/credential/judge.key") == "0400"
    for path in ("opt/pullrank/runner", "opt/pullrank/venv", "etc/pullrank/egress.nft", "var/lib/pullrank-runner"):
        assert not box.path(path).exists(), path
    assert [path.name for path in box.path("opt/pullrank/bin").iterdir()] == ["loop.sh"]
    assert [path.name for path in box.path("etc/systemd/system").iterdir()] == ["pullrank-registrar.service"]
    assert box.calls[-1] == "systemctl restart pullrank-registrar.service"


@pytest.mark.parametrize("installs", [as_judge, as_registrar])
def test_each_half_changes_its_role_only_after_an_uninstall(box, installs):
    before = box.files()
    installs(box)
    (box.path("run/pullrank")).mkdir(parents=True)
    done = box.run(role="both")
    assert done.returncode == 2
    assert "--uninstall" in done.stderr
    assert box.call("--uninstall").returncode == 0
    box.path("run").rmdir()
    assert box.files() == before


@pytest.mark.parametrize(
    ("installs", "changes", "message"),
    [
        (as_judge, {"role": "both"}, "--repository is missing"),
        (as_judge, {"role": "referee"}, "both, judge or registrar"),
        (as_judge, {"token_file": "KEY"}, "has no credential"),
        (as_judge, {"registrar_key": None}, "--registrar-key is missing"),
        (as_judge, {"registrar_key": "/etc/hostname"}, "one public SSH key"),
        (as_judge, {"registrar_key": "TWO"}, "one public SSH key"),
        (as_judge, {"judge": "gpu"}, "--role registrar"),
        (as_registrar, {"judge": None}, "--judge is missing"),
        (as_registrar, {"judge": "-oProxyCommand=x"}, "HOST"),
        (as_registrar, {"judge": "gpu;reboot"}, "HOST"),
        (as_registrar, {"labels": None}, "--labels is missing"),
        (as_registrar, {"judge_host_key": None}, "--judge-host-key is missing"),
        (as_registrar, {"judge_host_key": "KEY"}, "must have a public SSH key"),
        (as_registrar, {"judge_key": None}, "--judge-key is missing"),
        (as_registrar, {"judge_key": "TWO"}, "must be a private SSH key"),
        (as_registrar, {"token_file": None}, "a credential is missing"),
        (as_registrar, {"registrar_key": "KEY"}, "--role judge"),
    ],
)
def test_a_wrong_call_for_one_half_changes_nothing(box, installs, changes, message):
    files = {"KEY": "-----BEGIN OPENSSH PRIVATE KEY-----\n", "TWO": f"{KEY} a\n{KEY} b\n"}
    for name, text in files.items():
        (box.folder / name).write_text(text)
    before = box.files()
    done = installs(
        box, **{key: str(box.folder / value) if value in files else value for key, value in changes.items()}
    )
    assert done.returncode == 2
    assert message in done.stderr
    assert box.files() == before
    assert box.calls == []


def test_the_installer_warns_about_an_admins_credential_on_one_machine(box):
    warning = "root on this machine can read the credential, which makes its holder an admin of kernels/cup"
    assert warning in box.run().stderr
    assert warning not in box.run(group_id="3").stderr


# On a judge.

SSH = all(shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") for name in ("ssh", "sshd", "ssh-keygen"))
JIT = base64.b64encode(b'{".runner": "e30="}' * 300).decode()


class Judge:
    """The judge's side: the folder for registrations; a file `busy` in place of a running worker."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.run = folder / "run"
        self.bin = folder / "bin"
        self.busy = folder / "busy"
        for path in (self.run, self.bin):
            path.mkdir(parents=True)
        _write_program(self.bin / "systemctl", f"[[ -e {self.busy} ]]")

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PATH": f"{self.bin}:{os.environ['PATH']}", "RUNTIME_DIRECTORY": str(self.run),
            "LONGEST_WAIT": "1", "LONGEST_DELIVERY": "2",
        }  # fmt: skip

    def receive(self, words: str, content: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        """Run receive.sh as sshd does for the registrar."""
        return subprocess.run(
            [BASH, RUNNER / "receive.sh"], env=self.environment | {"SSH_ORIGINAL_COMMAND": words}, input=content,
            capture_output=True, timeout=30, check=False,
        )  # fmt: skip

    @property
    def delivered(self) -> str:
        return (self.run / "jitconfig").read_text()

    def files(self) -> list[str]:
        return sorted(path.name for path in self.run.iterdir())


@pytest.fixture
def judge(tmp_path) -> Judge:
    return Judge(tmp_path / "judge")


def test_a_registration_is_left_for_the_worker(judge):
    done = judge.receive(f"deliver {len(JIT)}", JIT.encode())
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert judge.delivered == JIT
    assert judge.files() == ["jitconfig"]
    assert stat.S_IMODE((judge.run / "jitconfig").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("words", "content", "message"),
    [
        ("deliver 5", b"aGk=\n", b"not base64"),
        ("deliver 9", b"aGk=\naGk=", b"not base64"),
        ("deliver 4", b"a\0k=", b"not base64"),
        ("deliver 4", b"a;k=", b"not base64"),
        ("deliver 4", b"-x  ", b"not base64"),
        ("deliver 4", "ä==".encode(), b"not base64"),
        ("deliver 4", b"aGk", b"does not have 4 bytes"),
        ("deliver 4", b"aGk=a", b"does not have 4 bytes"),
        ("deliver 4", b"", b"does not have 4 bytes"),
        ("deliver 65537", b"a" * 65537, b"at most 65536 bytes"),
        ("deliver 999999", b"a" * 999999, b"at most 65536 bytes"),
        ("deliver 9999999", b"", b"say wait, or deliver BYTES"),
        ("deliver 0", b"", b"say wait, or deliver BYTES"),
        ("deliver 4; id", b"aGk=", b"say wait, or deliver BYTES"),
        ("deliver $(id)", b"aGk=", b"say wait, or deliver BYTES"),
        ("deliver 4\nwait", b"aGk=", b"say wait, or deliver BYTES"),
        ("", b"aGk=", b"say wait, or deliver BYTES"),
        ("cat /etc/passwd", b"", b"say wait, or deliver BYTES"),
        ("/usr/lib/openssh/sftp-server", b"", b"say wait, or deliver BYTES"),
    ],
)
def test_a_judge_receives_only_a_whole_registration(judge, words, content, message):
    done = judge.receive(words, content)
    assert done.returncode not in (0, 75)
    assert message in done.stderr
    assert judge.files() == []


@pytest.mark.parametrize("by", ["its registration", "its worker"])
def test_a_judge_with_a_job_refuses_another_registration(judge, by):
    if by == "its worker":
        judge.busy.touch()
    else:
        (judge.run / "jitconfig").write_text("first")
    before = judge.files()
    assert judge.receive(f"deliver {len(JIT)}", JIT.encode()).returncode == 75
    assert judge.receive("wait").returncode == 75
    assert judge.files() == before


def test_waiting_ends_with_the_job(judge):
    assert judge.receive("wait").returncode == 0
    (judge.run / "jitconfig").write_text("first")
    with subprocess.Popen(
        [BASH, RUNNER / "receive.sh"],
        env=judge.environment | {"SSH_ORIGINAL_COMMAND": "wait", "LONGEST_WAIT": "60"},
    ) as waits:
        (judge.run / "jitconfig").unlink()
        assert waits.wait(timeout=30) == 0


def test_only_one_of_several_simultaneous_deliveries_succeeds(judge):
    done = []
    contents = [base64.b64encode(bytes([i]) * 3000) for i in range(6)]
    threads = [
        threading.Thread(target=lambda one=one: done.append(judge.receive(f"deliver {len(one)}", one).returncode))
        for one in contents
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == [0, 75, 75, 75, 75, 75]
    assert judge.delivered.encode() in contents
    assert judge.files() == ["jitconfig"]


def test_a_judge_does_not_wait_forever_for_a_silent_registrar(judge):
    with subprocess.Popen(
        [BASH, RUNNER / "receive.sh"], env=judge.environment | {"SSH_ORIGINAL_COMMAND": "deliver 4"},
        stdin=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as reads:  # fmt: skip
        assert reads.stderr and b"did not arrive in time" in reads.stderr.read()
        assert reads.wait(timeout=30) == 1
    assert judge.files() == []


# A registrar with judges elsewhere.


@pytest.fixture
def judges(tmp_path, registrar) -> dict[str, Judge]:
    """Two judges; `ssh` starts receive.sh as their sshd would, and logs its calls."""
    judges = {name: Judge(tmp_path / name) for name in ("gpu1", "gpu2")}
    cases = "".join(
        f"*@{name}) export {' '.join(f'{key}={value}' for key, value in judge.environment.items())} ;;\n"
        for name, judge in judges.items()
    )
    _write_program(
        tmp_path / "bin" / "ssh",
        f"""
        echo "$*" >> {tmp_path}/ssh.log
        export SSH_ORIGINAL_COMMAND="${{@: -1}}"
        case "${{@: -2:1}}" in {cases} esac
            exec {BASH} {RUNNER}/receive.sh""",
    )
    folder = tmp_path / "judges"
    folder.mkdir()
    for name in judges:
        (folder / f"{name}.conf").write_text(f"JUDGE=pullrank-receiver@{name}\nLABELS=self-hosted,{name}\n")
    registrar |= {"JUDGES": str(folder), "FIRST_PAUSE": "1", "MAX_PAUSE": "1"}
    del registrar["LABELS"]
    return judges


@needs_jq
def test_each_judge_gets_a_runner_with_its_own_labels(tmp_path, github, registrar, judges):
    done = register(registrar)
    assert done.returncode == 0, done.stderr
    assert [judge.delivered for judge in judges.values()] == ["aml0", "aml0"]
    assert [body["labels"] for _, _, body in github.seen] == [["self-hosted", "gpu1"], ["self-hosted", "gpu2"]]
    assert re.fullmatch(r"pullrank-gpu1-\d{14}-\d+", str(github.seen[0][2]["name"]))
    assert not list((tmp_path / "run").iterdir()), "nothing is left on the registrar's machine"
    assert "aml0" not in (tmp_path / "ssh.log").read_text()
    for call in (tmp_path / "ssh.log").read_text().splitlines():
        assert "-o BatchMode=yes -o StrictHostKeyChecking=yes" in call
        assert f"-o UserKnownHostsFile={tmp_path}/judges/gpu" in call


@needs_jq
def test_the_loop_registers_only_for_free_judges_and_none_blocks_another(tmp_path, github, registrar, judges):
    judges["gpu1"].busy.touch()
    with subprocess.Popen([BASH, RUNNER / "loop.sh"], env=registrar, stderr=subprocess.PIPE, text=True) as loop:
        try:
            gpu2 = judges["gpu2"].run / "jitconfig"
            for _ in range(2):
                wait_for(gpu2.exists)
                gpu2.unlink()  # the end of the job
            wait_for(gpu2.exists)
            assert {body["labels"][1] for _, _, body in github.seen} == {"gpu2"}
            judges["gpu1"].busy.unlink()
            assert loop.stderr
            assert any("loop: pullrank-receiver@gpu1: registered pullrank-gpu1-" in line for line in loop.stderr)
            assert judges["gpu1"].delivered == "aml0"
        finally:
            loop.terminate()


@needs_jq
@pytest.mark.parametrize(("shortest", "waits"), [("1", False), ("60", True)], ids=["jobs", "workers that end at once"])
def test_only_workers_that_end_at_once_make_the_loop_wait(tmp_path, github, registrar, judges, shortest, waits):
    judges["gpu1"].busy.touch()
    registrar |= {"SHORTEST_JOB": shortest, "FIRST_PAUSE": "60"}
    with subprocess.Popen([BASH, RUNNER / "loop.sh"], env=registrar, stderr=subprocess.PIPE, text=True) as loop:
        try:
            gpu2 = judges["gpu2"].run / "jitconfig"
            wait_for(gpu2.exists)
            time.sleep(1.5)
            gpu2.unlink()  # the end of the job
            assert loop.stderr
            assert "registered pullrank-gpu2" in loop.stderr.readline()
            after = loop.stderr.readline()
            assert ("next try in 60 s" if waits else "registered pullrank-gpu2") in after
        finally:
            loop.terminate()


def wait_for(ready: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not ready():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.fixture
def connection(tmp_path, registrar, judge) -> Iterator[dict[str, str]]:
    """A real sshd of the current user, with the line that install.sh wrote, and the registrar's environment."""
    box = Box(tmp_path / "box")
    keys = tmp_path / "keys"
    keys.mkdir()
    for name in ("host", "registrar", "other"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", keys / name]
        subprocess.run(command, check=True, timeout=60)
    box.run(**JUDGE | {"registrar_key": str(keys / "registrar.pub")})
    access = box.text("var/lib/pullrank-receiver/.ssh/authorized_keys")
    (keys / "authorized_keys").write_text(access.replace("/opt/pullrank/bin", str(RUNNER)))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    given = " ".join(f'"{key}={value}"' for key, value in judge.environment.items())
    (keys / "sshd_config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {keys}/host\nAuthorizedKeysFile {keys}/authorized_keys\n"
        f"StrictModes no\nPidFile none\nPasswordAuthentication no\nUsePAM no\nSetEnv {given}\n"
        "Subsystem sftp internal-sftp\n"
    )
    sshd = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
    assert sshd
    user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
    folder = tmp_path / "judges"
    folder.mkdir()
    (folder / "judge.conf").write_text(f"JUDGE={user}@127.0.0.1:{port}\nLABELS=h100\n")
    (folder / "judge.known_hosts").write_text(f"judge {' '.join((keys / 'host.pub').read_text().split()[:2])}\n")
    shutil.copy(keys / "registrar", tmp_path / "credential" / "judge.key")
    with subprocess.Popen(
        [sshd, "-D", "-e", "-f", keys / "sshd_config"], stderr=subprocess.PIPE, text=True
    ) as server:  # fmt: skip
        try:
            assert server.stderr
            first = server.stderr.readline()
            if "listening" not in first:
                pytest.skip(f"sshd does not start here: {first}")
            yield registrar | {"JUDGES": str(folder)}
        finally:
            server.terminate()
            server.communicate(timeout=20)


needs_sshd = pytest.mark.skipif(not SSH, reason="no sshd")


@needs_jq
@needs_sshd
def test_a_registration_travels_by_ssh(connection, judge):
    done = register(connection)
    assert done.returncode == 0, done.stderr
    assert judge.delivered == "aml0"
    again = register(connection)
    assert again.returncode != 0, "a job is there"
    assert judge.delivered == "aml0"


@needs_jq
@needs_sshd
def test_a_judge_with_a_wrong_host_key_gets_no_registration(tmp_path, connection, judge):
    other = (tmp_path / "keys/other.pub").read_text().split()
    (tmp_path / "judges/judge.known_hosts").write_text(f"judge {other[0]} {other[1]}\n")
    done = register(connection)
    assert done.returncode != 0
    assert "Host key verification failed" in done.stderr
    assert judge.files() == []


@needs_jq
@needs_sshd
def test_a_registrar_with_a_wrong_key_delivers_nothing(tmp_path, connection, judge):
    shutil.copy(tmp_path / "keys/other", tmp_path / "credential" / "judge.key")
    done = register(connection)
    assert done.returncode != 0
    assert "Permission denied" in done.stderr
    assert judge.files() == []


def ssh(tmp_path: Path, *arguments: str, before: tuple[str, ...] = ()) -> list[str]:
    """Call ssh like a registrar, with its key."""
    where = re.findall(r"JUDGE=(.*)", (tmp_path / "judges/judge.conf").read_text())[0]
    return [
        "ssh", "-F", "/dev/null", "-i", f"{tmp_path}/credential/judge.key", "-o", "BatchMode=yes",
        "-o", f"UserKnownHostsFile={tmp_path}/judges/judge.known_hosts", "-o", "HostKeyAlias=judge",
        *before, f"ssh://{where}", *arguments,
    ]  # fmt: skip


@needs_sshd
@pytest.mark.parametrize(
    ("before", "words", "says"),
    [
        ((), ("cat", "/etc/passwd"), "say wait, or deliver BYTES"),
        ((), (), "say wait, or deliver BYTES"),
        (("-s",), ("sftp",), ""),
        (("-tt",), ("wait",), "PTY allocation request failed"),
        (("-W", "127.0.0.1:22"), (), "open failed: administratively prohibited"),
        (("-R", "0:127.0.0.1:22", "-o", "ExitOnForwardFailure=yes"), ("wait",), "forwarding failed"),
    ],
)
def test_the_registrars_key_allows_only_waiting_and_delivering(tmp_path, connection, judge, before, words, says):
    del connection
    done = subprocess.run(
        ssh(tmp_path, *words, before=before), capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60,
        check=False,
    )  # fmt: skip
    assert says in done.stderr
    assert done.returncode != 0 or before == ("-tt",)
    assert done.stdout in ("", "receive: say wait, or deliver BYTES\n")
    assert judge.files() == []


@needs_sshd
def test_a_registrar_that_hangs_up_leaves_nothing_behind(tmp_path, connection, judge):
    del connection
    with subprocess.Popen(ssh(tmp_path, "deliver 8"), stdin=subprocess.PIPE) as caller:
        assert caller.stdin
        caller.stdin.write(b"aGk=")
        caller.stdin.flush()
        wait_for(lambda: judge.files() != [])
        caller.kill()
    wait_for(lambda: judge.files() == [])


# The units.


def unit(name: str) -> str:
    """A systemd unit without comments."""
    return "\n".join(line for line in (RUNNER / name).read_text().splitlines() if not line.startswith("#"))


def test_the_worker_and_the_registrar_run_as_separate_users():
    worker, registrar = unit("pullrank-worker.service"), unit("pullrank-registrar.service")
    assert "User=pullrank-runner" in worker
    assert "User=pullrank-registrar" in registrar
    assert "RuntimeDirectoryMode=0700" in registrar
    assert "LoadCredential=jitconfig:/run/pullrank/jitconfig" in worker
    assert "InaccessiblePaths=-/etc/pullrank/credential" in worker


def test_the_worker_can_build_its_sandbox():
    # Each of these mounts something over /proc or forbids a call of bubblewrap; then no player could start.
    forbidden = (
        "ProtectProc|ProcSubset|ProtectKernelTunables|ProtectKernelLogs|ProtectControlGroups|ProtectHostname"
        "|RestrictNamespaces|SystemCallFilter|PrivateDevices|PrivateUsers"
    )
    worker = unit("pullrank-worker.service")
    assert not re.findall(rf"^(?:{forbidden})=", worker, re.MULTILINE)
    assert re.search(r"^Delegate=.*memory.*pids", worker, re.MULTILINE)


def test_every_program_that_a_unit_starts_is_installed(box):
    box.run()
    for name in ("pullrank-worker.service", "pullrank-registrar.service", "pullrank-update.service"):
        for program in re.findall(r"^Exec\w+=\+?(\S+)", unit(name), re.MULTILINE):
            assert os.access(box.path(program.lstrip("/")), os.X_OK), program


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd")
def test_systemd_accepts_the_units(tmp_path):
    for path in [*RUNNER.glob("*.service"), *RUNNER.glob("*.path"), *RUNNER.glob("*.timer")]:
        # This machine lacks its programs; any program will do.
        text = re.sub(r"^(Exec\w+=\+?)\S+", r"\1/bin/true", path.read_text(), flags=re.MULTILINE)
        (tmp_path / path.name).write_text(text)
    units = sorted(tmp_path.glob("pullrank-*"))
    command = ["systemd-analyze", "verify", "--man=no", *units]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert not [line for line in done.stderr.splitlines() if "pullrank" in line], done.stderr


# GitHub's own machines.


def test_a_hosted_machine_gets_locked_libraries_and_the_torch_of_the_makefile(tmp_path):
    log = tmp_path / "log"
    for name in ("sudo", "bwrap"):
        _write_program(tmp_path / name, f'echo "{name} $*" >> {log}')
    pip = tmp_path / "pip"
    _write_program(pip, f'echo "pip $*" >> {log}')
    _write_program(tmp_path / "python3", f'[[ "$1 $2" == "-m venv" ]] && mkdir -p "$3/bin" && cp {pip} "$3/bin/pip"')
    environment = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}", "RUNNER_TEMP": str(tmp_path),
        "GITHUB_PATH": str(tmp_path / "path"), "GITHUB_ENV": str(tmp_path / "env"),
    }  # fmt: skip
    done = subprocess.run([BASH, RUNNER / "hosted.sh"], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "path").read_text() == f"{tmp_path}/judge/bin\n"
    assert (tmp_path / "env").read_text() == f"{OTHER_WORK}=avoid\n"
    libraries, torch = (line for line in log.read_text().splitlines() if line.startswith("pip"))
    assert "--require-hashes" in libraries
    assert libraries.endswith("/judge.lock")
    assert torch.split()[-1] in (ROOT / "Makefile").read_text(), "one torch for all: see TORCH in the Makefile"


# Documents.


def _install_text() -> str:
    return (RUNNER / "install.sh").read_text()


@pytest.mark.parametrize(
    "guide",
    [RUNNER / "README.md", *(ROOT / "site" / "pages").glob("runner-hosts*.md")],
    ids=lambda p: p.name,
)
def test_the_guides_name_only_options_that_exist(guide):
    usage = subprocess.run([BASH, RUNNER / "install.sh", "--help"], capture_output=True, text=True, check=True).stdout
    known = set(re.findall(r"--[a-z][a-z0-9-]+", usage)) | {"--runner", "--jq", "--follow", "--unit", "--jitconfig"}
    text = guide.read_text()
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", text)) <= known
    assert "install.sh" in text


# The doctor.


def findings(box: Box) -> dict[str, str]:
    return {finding.name: finding.state for finding in examine_runner(box.root)}


def test_the_doctor_finds_no_fault_in_an_installed_machine(box, releases):
    install(box, releases)
    found = examine_runner(box.root)
    assert {finding.name for finding in found} == {
        "users",
        "credential",
        "gate",
        "runner",
        "updates",
        "network",
        "cgroups",
    }
    assert [finding for finding in found if finding.state is not Availability.OK] == []


def test_the_doctor_reports_that_nothing_makes_cudas_nodes(box, releases):
    install(box, releases)
    (box.root / "proc/driver/nvidia").mkdir(parents=True)
    found = [finding for finding in examine_runner(box.root) if finding.state is not Availability.OK]
    assert [(finding.name, finding.remedy) for finding in found] == [("CUDA's nodes", "apt install nvidia-modprobe")]
    (box.root / "usr/bin").mkdir(parents=True)
    (box.root / "usr/bin/nvidia-modprobe").write_text("")
    assert findings(box)["CUDA's nodes"] == "ok"


def test_the_doctor_reports_what_a_bare_machine_lacks_and_the_fix(box):
    found = [finding for finding in examine_runner(box.root) if finding.name != "cgroups"]
    assert {finding.state for finding in found} == {Availability.MISSING, Availability.LIMITED}
    assert all("install.sh" in finding.remedy for finding in found)


@pytest.mark.parametrize(
    ("harm", "name"),
    [
        ("chmod 0644 etc/pullrank/credential/token", "credential"),
        ("chmod 0755 etc/pullrank/credential", "credential"),
        ("rm -f etc/pullrank/credential/token", "credential"),
        ("chmod 0775 opt/pullrank/bin/gate.sh", "gate"),
        ("sed -i /branch/d opt/pullrank/bin/gate.conf", "gate"),
        ("sed -i /ACTIONS_RUNNER_HOOK_JOB_STARTED/d opt/pullrank/bin/job.sh", "gate"),
        ("rm opt/pullrank/bin/gate.sh", "gate"),
        ("ln -sfn runner-2.100.0 opt/pullrank/runner", "runner"),
        ("rm etc/systemd/system/pullrank-update.timer", "updates"),
        ("rm opt/pullrank/runner/run.sh", "runner"),
        ("rm etc/systemd/system/pullrank-worker.service.d/egress.conf", "network"),
        ("sed -i /ExecStartPre/d etc/systemd/system/pullrank-worker.service.d/egress.conf", "network"),
        ("sed -i /pullrank-registrar/d etc/passwd", "users"),
        ("rm sys/fs/cgroup/cgroup.controllers", "cgroups"),
    ],
)
def test_the_doctor_names_the_broken_part(box, releases, harm, name):
    install(box, releases)
    subprocess.run(harm.split(), cwd=box.root, check=True)
    assert [found for found, state in findings(box).items() if state != "ok"] == [name]


@pytest.mark.parametrize(
    ("days", "state", "says"),
    [
        ([19.9], "ok", "to be replaced by"),
        ([20.1], "limited", "gets no jobs after"),
        ([29.9, 3], "limited", "gets no jobs after"),
        ([30.1, 3], "missing", "GitHub has given it no jobs since"),
    ],
)
def test_the_doctor_counts_thirty_days_from_the_first_newer_release(box, releases, days, state, says):
    install(box, releases)
    for minor, age in enumerate(days, 341):
        releases.publish(f"2.{minor}.0", age)
    releases.publish("2.339.0", 60)
    releases.publish("2.900.0", 60, prerelease=True)
    (runner,) = [finding for finding in examine_runner(box.root) if finding.name == "runner"]
    assert runner.state == state
    end = datetime.now(UTC) + timedelta(days=30 - days[0])
    assert f"2.340.0{':' if state == 'missing' else ''}" in runner.detail
    assert runner.detail.endswith(f"{says} {end:%Y-%m-%d}")
    assert ("pullrank-update" in runner.remedy) is (state != "ok")


def test_the_doctor_says_that_a_pin_ends_updates(box, releases):
    box.run(api_url=releases.url, runner_archive=str(box.folder / _archive("2.330.0")))
    releases.publish("2.331.0", 40)
    found = {finding.name: finding for finding in examine_runner(box.root)}
    assert found["updates"].detail == "off: the runner is pinned to 2.330.0"
    assert found["runner"].state is Availability.MISSING
    assert all("without --runner-version" in found[name].remedy for name in ("runner", "updates"))


@pytest.mark.parametrize("answer", ["none", "null", "[1]", "other"])
def test_the_doctor_says_the_day_is_unknown_without_the_release_list(box, releases, answer):
    install(box, releases)
    if answer == "none":
        releases.server_close()
    else:
        releases.known = {
            "null": None,
            "[1]": [1],
            "other": [{"tag_name": "v2.341.0", "draft": 0, "prerelease": 0, "published_at": "?"}],
        }[answer]
    (runner,) = [finding for finding in examine_runner(box.root) if finding.name == "runner"]
    assert runner.state is Availability.LIMITED
    assert "is unknown" in runner.detail


def test_the_doctor_warns_that_root_is_an_admin_of_the_repository(box, releases):
    box.run(runner_version=None, runner_sha256=None, api_url=releases.url)
    (found,) = [finding for finding in examine_runner(box.root) if finding.state is not Availability.OK]
    assert (found.name, found.state) == ("credential", Availability.LIMITED)
    assert found.detail == "root on this machine is an admin of kernels/cup"
    assert "--role" in found.remedy


@pytest.mark.parametrize(
    ("harm", "name"),
    [
        ("true", None),
        ("mkdir -p etc/pullrank/credential/token", "credential"),
        ("chmod 0666 var/lib/pullrank-receiver/.ssh/authorized_keys", "registrar's key"),
        ("chmod 0777 var/lib/pullrank-receiver", "registrar's key"),
        ("sed -i s/restrict,// var/lib/pullrank-receiver/.ssh/authorized_keys", "registrar's key"),
        ("sed -i s/receive/recite/ var/lib/pullrank-receiver/.ssh/authorized_keys", "registrar's key"),
        ("sed -i $aextra var/lib/pullrank-receiver/.ssh/authorized_keys", "registrar's key"),
        ("rm opt/pullrank/bin/receive.sh", "registrar's key"),
        ("rm opt/pullrank/bin/gate.sh", "gate"),
        ("sed -i /pullrank-receiver/d etc/passwd", "users"),
    ],
)
def test_the_doctor_checks_a_judge_only_machine(box, releases, harm, name):
    as_judge(box, runner_version=None, runner_sha256=None, api_url=releases.url)
    subprocess.run(harm.split(), cwd=box.root, check=True)
    assert [found for found, state in findings(box).items() if state != "ok"] == [name] * bool(name)


@pytest.mark.parametrize(
    ("harm", "name"),
    [
        ("true", None),
        ("rm etc/pullrank/credential/token", "credential"),
        ("rm etc/pullrank/credential/judge.key", "judges"),
        ("rm etc/pullrank/judges/gpu-1.example-2222.known_hosts", "judges"),
        ("rm -r etc/pullrank/judges", "judges"),
        ("sed -i /pullrank-registrar/d etc/passwd", "users"),
    ],
)
def test_the_doctor_checks_a_registrar_only_machine(box, harm, name):
    as_registrar(box)
    subprocess.run(harm.split(), cwd=box.root, check=True)
    found = findings(box)
    assert set(found) == {"users", "credential", "judges"}
    assert [found for found, state in found.items() if state != "ok"] == [name] * bool(name)


@pytest.mark.parametrize("role", ["both", "judge", "registrar"])
def test_the_doctor_claims_nothing_about_a_credential_that_it_may_not_see(role):
    root = Path(tempfile.mkdtemp())
    folder, settings = root / "etc/pullrank/credential", root / "etc/pullrank/machine.conf"
    folder.mkdir(parents=True)
    settings.write_text(f"ROLE={role}\nGROUP_ID=1\n")
    (root / "etc/passwd").touch()
    for path in (*folder.parents[:3], folder):
        path.chmod(0o755)
    folder.chmod(0)
    user = os.geteuid()
    try:
        os.seteuid(user or 65534)
        (found,) = (finding for finding in examine_runner(root) if finding.name == "credential")
    finally:
        os.seteuid(user)
        folder.chmod(0o700)
        shutil.rmtree(root)
    if role == "judge":
        assert (found.state, found.remedy) == (Availability.LIMITED, "run the doctor as root")
    else:
        assert (found.state, found.detail) == (Availability.OK, "only pullrank-registrar can read it")
