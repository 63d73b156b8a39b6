"""`pullrank doctor --runner`: check that this machine is as `.github/runner/install.sh` set it up.

It may judge, register runners for judges, or both: its role.

    files      users, credential, gate, runner, network rules: below `root`, which tests replace
    tried      the worker's Python and sandbox, services: only on the machine itself, as root

The usual remedy is to run install.sh again.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from scripts.common.http_request import RequestFailed, RequestLimits, download
from scripts.doctor.finding import LIMITED, MISSING, OK, Finding, check

WORKER, REGISTRAR, RECEIVER = "pullrank-runner", "pullrank-registrar", "pullrank-receiver"
USERS = {"both": (WORKER, REGISTRAR), "judge": (WORKER, RECEIVER), "registrar": (REGISTRAR,)}
"""Of each role."""
GRACE = timedelta(days=30)
"""GitHub gives no jobs to a runner that lacks a release which has been out for longer."""
SOON = timedelta(days=10)

_AGAIN = "run .github/runner/install.sh again"
_TIMER = "pullrank-update.timer"
_UPDATE = "systemctl start pullrank-update, then journalctl --unit pullrank-update"
_ACCESS = 'restrict,command="/opt/pullrank/bin/receive.sh" '
_SERVICES = {
    "both": ("pullrank-registrar.service", "pullrank-worker.path"),
    "judge": ("pullrank-worker.path",),
    "registrar": ("pullrank-registrar.service",),
}


def examine_runner(root: Path = Path("/")) -> list[Finding]:
    """All findings.  Checks that need the machine itself run only if `root` is /."""
    settings = _settings(root)
    role = role_of(root)
    findings = [_users(root, role)]
    if role == "judge":
        findings.append(_no_credential(root))
        findings.append(check("registrar's key", _fault_of_access(root), "delivers registrations, and no more", _AGAIN))
    else:
        findings.append(_credential(root, settings))
    if role == "registrar":
        findings.append(_judges(root))
    else:
        findings += [
            check("gate", _fault_of_gate(root), "runs before every job; only root can change it", _AGAIN),
            _runner(root, settings),
            _updates(root, settings),
            _network(root),
            _cgroups(root),
            *_cuda_nodes(root),
        ]
    if root == Path("/"):
        findings.append(_services(role))
        if role != "registrar":
            findings += _tried_as_worker()
    return findings


def role_of(root: Path = Path("/")) -> str:
    """both, judge or registrar."""
    role = _settings(root).get("ROLE", "both")
    return role if role in USERS else "both"


def _settings(root: Path) -> dict[str, str]:
    """The settings that install.sh wrote."""
    settings: dict[str, str] = {}
    for name in ("registrar", "machine"):
        path = root / f"etc/pullrank/{name}.conf"
        if path.is_file():
            settings |= re.findall(r"^(\w+)=(.*)$", path.read_text("utf-8"), re.MULTILINE)
    return settings


def _users(root: Path, role: str) -> Finding:
    known = _user_ids(root)
    missing = ", ".join(user for user in USERS[role] if user not in known)
    return check("users", f"no {missing}" if missing else "", ", ".join(USERS[role]), _AGAIN)


def _user_ids(root: Path) -> dict[str, int]:
    lines = (root / "etc/passwd").read_text("utf-8", "replace").splitlines()
    fields = (line.split(":") for line in lines)
    return {field[0]: int(field[2]) for field in fields if len(field) > 2 and field[2].isdecimal()}


def _credential(root: Path, settings: dict[str, str]) -> Finding:
    if fault := _fault_of_credential(root):
        return check("credential", fault, "", _AGAIN)
    # Without a runner group it has the permission Administration.
    fault = ""
    if role_of(root) == "both" and not settings.get("GROUP_ID"):
        fault = f"root on this machine is an admin of {settings.get('REPOSITORY', 'the repository')}"
    remedy = f"{_AGAIN} with --group-id, or put the registrar on another machine with --role"
    return check("credential", fault, f"only {REGISTRAR} can read it", remedy, LIMITED)


def _no_credential(root: Path) -> Finding:
    if (found := _credential_files(root)) is None:
        return Finding("credential", LIMITED, "only root can see whether there is one", "run the doctor as root")
    fault = "in /etc/pullrank/credential: a machine that only judges has none" if found else ""
    return check("credential", fault, "none here", "revoke it on GitHub, and delete it")


def _credential_files(root: Path) -> list[Path] | None:
    """The files in the folder of credentials; None if this user may not look."""
    try:
        return list((root / "etc/pullrank/credential").iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except PermissionError:
        return None


def _fault_of_access(root: Path) -> str:
    path = root / "var/lib/pullrank-receiver/.ssh/authorized_keys"
    try:
        lines = path.read_text("utf-8").splitlines()
        paths = [path, *path.parents[:2], root / "opt/pullrank/bin/receive.sh"]
        if open_to_others := [one.name for one in paths if one.stat().st_mode & 0o022]:
            return f"users other than root can change {', '.join(open_to_others)}"
        if root == Path("/") and any(one.stat().st_uid != 0 for one in paths):
            return "its file does not belong to root"
    except OSError as error:
        return f"{error.filename}: {error.strerror}"
    if not lines or not all(line.startswith(_ACCESS) for line in lines):
        return f"{path.name} allows more than receive.sh"
    return ""


def _judges(root: Path) -> Finding:
    folder = root / "etc/pullrank/judges"
    names = sorted(path.stem for path in folder.glob("*.conf"))
    unknown = [name for name in names if not (folder / f"{name}.known_hosts").is_file()]
    fault = f"no host key of {', '.join(unknown)}" if unknown else "" if names else "none in /etc/pullrank/judges"
    files = _credential_files(root)
    if not fault and files is not None and "judge.key" not in {path.name for path in files}:
        fault = "no judge.key in /etc/pullrank/credential"
    return check("judges", fault, ", ".join(names), f"{_AGAIN} with --judge")


def _fault_of_credential(root: Path) -> str:
    folder, files = root / "etc/pullrank/credential", _credential_files(root)
    if files is None:
        return ""
    files = [path for path in files if path.name in ("token", "app.key")]
    if not files:
        return "missing from /etc/pullrank/credential"
    if open_to_others := [path.name for path in (folder, *files) if path.stat().st_mode & 0o077]:
        return f"other users can read {', '.join(open_to_others)}"
    if root == Path("/") and folder.stat().st_uid != _user_ids(root).get(REGISTRAR):
        return f"its owner is not {REGISTRAR}"
    return ""


def _fault_of_gate(root: Path) -> str:
    folder = root / "opt/pullrank/bin"
    for path in (folder / "gate.sh", folder / "gate.conf"):
        if not path.is_file():
            return f"{path.name} is missing"
        if path.stat().st_mode & 0o022 or (root == Path("/") and path.stat().st_uid != 0):
            return f"users other than root can change {path.name}"
    conf = dict(re.findall(r"^(\w+)=(.+)$", (folder / "gate.conf").read_text("utf-8"), re.MULTILINE))
    if missing := {"repository_id", "branch", "workflow"} - conf.keys():
        return f"gate.conf lacks {', '.join(sorted(missing))}: the gate refuses every job"
    job = folder / "job.sh"
    if not job.is_file() or "ACTIONS_RUNNER_HOOK_JOB_STARTED=" not in job.read_text("utf-8"):
        return "job.sh does not set it as the job hook"
    return ""


def _runner(root: Path, settings: dict[str, str]) -> Finding:
    link = root / "opt/pullrank/runner"
    found = re.fullmatch(r"runner-(\d+\.\d+\.\d+)", os.readlink(link)) if link.is_symlink() else None
    if not found or not (link / "run.sh").is_file():
        return check("runner", "not installed", "", _AGAIN)
    version, releases = found[1], _releases(settings.get("API_URL", "https://api.github.com"))
    remedy = f"{_AGAIN} without --runner-version" if settings.get("PINNED_VERSION") else _UPDATE
    if not releases:
        unknown = f"{version}; the list of releases could not be read, so when to replace it is unknown"
        return Finding("runner", LIMITED, unknown, "run the doctor with a network")
    newer = [published for other, published in releases.items() if _numbers(other) > _numbers(version)]
    if not newer:
        return Finding("runner", OK, f"{version}, the newest")
    end = min(newer) + GRACE
    day, left = f"{end:%Y-%m-%d}", end - datetime.now(UTC)
    if left < timedelta(0):
        return Finding("runner", MISSING, f"{version}: GitHub has given it no jobs since {day}", remedy)
    fault = f"{version} gets no jobs after {day}" if left < SOON else ""
    return check("runner", fault, f"{version}, to be replaced by {day}", remedy, LIMITED)


def _releases(api_url: str) -> dict[str, datetime]:
    """When GitHub published each version of the runner; empty if that is unknown."""
    limits = RequestLimits(max_bytes=50_000_000, timeout_s=10, longest_s=30)
    try:
        answer = download(f"{api_url}/repos/actions/runner/releases?per_page=100", limits)
        return {
            release["tag_name"].removeprefix("v"): datetime.fromisoformat(release["published_at"]).astimezone(UTC)
            for release in (json.loads(answer.content) if answer.is_ok else [])
            if not release["draft"] and not release["prerelease"]
            and re.fullmatch(r"v\d+\.\d+\.\d+", release["tag_name"])
        }  # fmt: skip
    except (RequestFailed, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _updates(root: Path, settings: dict[str, str]) -> Finding:
    if pinned := settings.get("PINNED_VERSION"):
        fault, remedy = f"off: the runner is pinned to {pinned}", f"{_AGAIN} without --runner-version"
    elif not (root / f"etc/systemd/system/{_TIMER}").is_file():
        fault, remedy = f"no {_TIMER}", _AGAIN
    elif root == Path("/") and not _succeeds(["systemctl", "is-active", "--quiet", _TIMER]):
        fault, remedy = f"{_TIMER} is not active", f"systemctl enable --now {_TIMER}"
    else:
        fault, remedy = "", ""
    return check("updates", fault, "daily, of the runner", remedy, LIMITED)


def _network(root: Path) -> Finding:
    rules = (root / "etc/pullrank/egress.nft").is_file()
    needed = root / "etc/systemd/system/pullrank-worker.service.d/egress.conf"
    fault = (
        "" if rules and needed.is_file() else "jobs can reach this machine's network and the cloud's metadata service"
    )
    if not fault and "ExecStartPre" not in needed.read_text():
        fault = "a reload of the host's firewall deletes the rules"
    remedy = f"apt install nftables, then {_AGAIN}"
    return check("network", fault, "DNS and HTTPS to the outside only", remedy, LIMITED)


def _cgroups(root: Path) -> Finding:
    cgroups = root / "sys/fs/cgroup"
    found = any((place / "cgroup.controllers").is_file() for place in (cgroups, cgroups / "unified"))
    fault = "no cgroup v2: players are stopped by signals, and their memory is watched from outside"
    remedy = "boot with systemd.unified_cgroup_hierarchy=1"
    return check("cgroups", "" if found else fault, "version 2", remedy, LIMITED)


def _cuda_nodes(root: Path) -> Iterator[Finding]:
    """/dev/nvidia-uvm does not exist after a boot: `job.sh` creates it with this program of the driver."""
    if (root / "proc/driver/nvidia").is_dir():
        found = any((root / folder / "nvidia-modprobe").exists() for folder in ("usr/bin", "usr/sbin", "bin", "sbin"))
        fault = "" if found else "no nvidia-modprobe: after a boot CUDA's nodes are missing, and judging fails"
        good = "nvidia-modprobe creates them before each job"
        yield check("CUDA's nodes", fault, good, "apt install nvidia-modprobe", LIMITED)


def _services(role: str) -> Finding:
    idle = [unit for unit in _SERVICES[role] if not _succeeds(["systemctl", "is-active", "--quiet", unit])]
    fault = f"not running: {', '.join(idle)}" if idle else ""
    remedy = f"journalctl --unit {idle[0]}" if idle else ""
    return check("services", fault, ", ".join(_SERVICES[role]), remedy)


def _tried_as_worker() -> Iterator[Finding]:
    """Try the worker's Python and sandbox, as the worker."""
    if os.geteuid() != 0 or not shutil.which("setpriv") or WORKER not in _user_ids(Path("/")):
        yield Finding("worker", LIMITED, "Python and sandbox were not tried", "run the doctor as root")
        return
    # Through a shell: setpriv itself looks up its command with root's rights.
    shell = ["sh", "-c", 'exec "$@"', "sh"]
    worker = ["setpriv", f"--reuid={WORKER}", f"--regid={WORKER}", "--clear-groups", "--", *shell]
    python = [*worker, "/opt/pullrank/venv/bin/python", "-I", "-c", "import torch, pydantic, yaml"]
    fault = "" if _succeeds(python) else f"{WORKER} cannot import torch, pydantic and yaml"
    yield check("worker's Python", fault, "torch, pydantic, yaml", _AGAIN)
    walls = [*worker, "bwrap", "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "true"]
    fault = "" if _succeeds(walls) else f"{WORKER} cannot make user namespaces"
    yield check("worker's sandbox", fault, "bubblewrap works", _AGAIN)


def _succeeds(command: list[str]) -> bool:
    try:
        done = subprocess.run(command, capture_output=True, timeout=120, stdin=subprocess.DEVNULL, check=False, cwd="/")
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
