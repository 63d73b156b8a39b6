"""The outer sandbox as a command line: bubblewrap, the files that it shows, and the user that starts it.

It never starts as root, because its processes would then be root on the host.  If we are root, we first become another
user, in a mount namespace of our own in which that user can reach the libraries.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import site
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from harness.gpu.gpu_nodes import Shown
from harness.inside import inner_sandbox
from harness.task.torch_compiler import HEADERS

_PLAYER_UID = 65534
_ENCLOSED_BYTES = 4 << 30
"""The size limit of each folder that an enclosed program can write to.  They are tmpfs: only used pages take memory."""

ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin:/tools",
    "HOME": "/tmp",
    "TMPDIR": "/tmp",
    "USER": "player",
    "LOGNAME": "player",
    "LC_ALL": "C.UTF-8",
    "PYTHONDONTWRITEBYTECODE": "1",
    "TORCH_EXTENSIONS_DIR": "/cache/torch_extensions",
    "TORCHINDUCTOR_CACHE_DIR": "/cache/inductor",
    # With 1, torch looks for a precompiled header in each process, which takes a second.  The judge precompiles it
    # instead (`torch_header`).
    "TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "0",
    "TRITON_CACHE_DIR": "/cache/triton",
    "TRITON_CACHE_AUTOTUNING": "1",  # its results, too: otherwise each fresh player tunes again
    "NUMBA_CACHE_DIR": "/cache/numba",
    "CUPY_CACHE_DIR": "/cache/cupy",
    "JAX_COMPILATION_CACHE_DIR": "/cache/jax",
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",  # by default, JAX caches only what took over a second
    # Otherwise JAX allocates three quarters of the GPU's memory at its first call, and all of it counts as used.
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    "XDG_CACHE_HOME": "/cache/xdg",
    "PULLRANK_BUILD": "/cache/build",
    # glibc returns freed memory by thresholds that adapt to recent frees: the same kernel took 1.4 or 6 ms, depending
    # on the call's number.  With fixed, maximal thresholds, a player keeps blocks of up to 32 MiB: it warms up once and
    # stays warm.
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
    "MALLOC_TOP_PAD_": str(64 << 20),
}


INTERPRETED = {"TRITON_INTERPRET": "1"}
"""Variables on CPU boards, for which Triton has no compiler.  Submissions need not set them, so that the same file is
compiled on a GPU."""


def environment_of(gpu: Shown | None) -> dict[str, str]:
    """The environment of a player, on a CPU or with a GPU."""
    return ENVIRONMENT | (dict(gpu.environment) if gpu else INTERPRETED)


_MOUNT_POINTS = ("/proc/sys/fs/binfmt_misc", "/proc/fs/nfsd", "/proc/openprom", "/proc/xen")
"""Folders of /proc that exist as mount points: they are empty, so a mount covers nothing."""


def find_covers(mountinfo: str) -> list[str]:
    """Mounts over parts of /proc, from /proc/self/mountinfo; latest first, the order in which to unmount them.

    While there are any, no new user namespace may mount a /proc: it would uncover them (Linux, `mnt_already_visible`).
    """
    places = [line.split(" ")[4] for line in mountinfo.split("\n") if line]
    return [place for place in reversed(places) if place.startswith("/proc/") and place not in _MOUNT_POINTS]


def remedy() -> str:
    """The most likely reason why user namespaces do not work on this machine, and the way out."""
    if covers := find_covers(os.fsdecode(Path("/proc/self/mountinfo").read_bytes())):
        what = "parts of /proc are covered by mounts, as in most containers, so a sandbox can't mount its own /proc"
        return f"; {what}: as root, umount {' '.join(covers)}, or judge outside a container"
    with contextlib.suppress(OSError):
        if Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns").read_text().strip() == "1":
            return "; allow user namespaces: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
    return "; in a container, allow user namespaces and mounts (for example --security-opt seccomp=unconfined)"


def command(stage: Path, program: list[str], shown: Sequence[str] = (), gpu: Shown | None = None) -> list[str]:
    """The command that runs `program` in bubblewrap; as another user if we are root.

    `shown` are additional folders that it can see; `gpu` is what it can see of GPUs.
    """
    return _without_root(stage, lambda libraries: _player_command(stage, libraries, shown, gpu, program))


def enclosing_command(stage: Path, shown: Path, program: list[str]) -> list[str]:
    """The command that runs `program` in an outer sandbox in which it can start its own; it sees the folder `shown`.

    The folder has the same path inside as outside: at a path of our choice it might hide the libraries.
    """
    return _without_root(stage, lambda libraries: _outer_command(shown, libraries, program))


def _without_root(stage: Path, command_with: Callable[[dict[str, str]], list[str]]) -> list[str]:
    """The command from `command_with`, run without root rights; its argument maps library folders to their sources."""
    libraries = {path: path for path in library_folders()}
    if os.geteuid() != 0:
        return command_with(libraries)
    # The user that we become may not be able to read root's folders: bind them elsewhere, in a mount namespace that
    # ends with the sandbox.
    steps = []
    for number, path in enumerate(libraries):
        mirror = stage / f"library{number}"
        mirror.mkdir()
        libraries[path] = str(mirror)
        steps.append(shlex.join(["mount", "--bind", path, str(mirror)]))
    become = ["setpriv", f"--reuid={_PLAYER_UID}", f"--regid={_PLAYER_UID}", "--clear-groups", "--inh-caps=-all"]
    steps.append("exec " + shlex.join([*become, "--no-new-privs", *command_with(libraries)]))
    return ["unshare", "--mount", "--propagation", "private", "--", "sh", "-c", " && ".join(steps)]


def places(libraries: list[str]) -> dict[str, str]:
    """Where each folder is mounted: at its own path, or at another path if a player's own folders would hide it."""
    hiding = ("/tmp", "/dev", "/entry", "/player", "/cache", "/upper", inner_sandbox.CACHES, "/proc")
    return {
        path: f"/library{number}" if any(Path(path).is_relative_to(folder) for folder in hiding) else path
        for number, path in enumerate(libraries)
    }


def places_aside() -> dict[str, str]:
    """The library folders that are not mounted at their own paths, and where they are mounted."""
    return {path: inside for path, inside in places(library_folders()).items() if path != inside}


def library_folders() -> list[str]:
    """The folders outside /usr that hold the interpreter and its packages."""
    folders: list[str] = []
    for folder in (sys.base_prefix, sys.prefix, *site.getsitepackages(), *sys.path):
        real = os.path.abspath(folder)
        is_library = folder in (sys.base_prefix, sys.prefix) or "-packages" in folder
        if is_library and os.path.isdir(real) and not any(Path(real).is_relative_to(f) for f in ("/usr", *folders)):
            folders.append(real)
    return folders


def _outer_command(shown: Path, libraries: dict[str, str], program: list[str]) -> list[str]:
    arguments = [
        *_namespaces("check", environment_of(None)),
        "--size",
        str(_ENCLOSED_BYTES),
        "--tmpfs",
        "/tmp",
        *_system(),
    ]
    # This sandbox needs a /dev/shm of its own: the players' sandbox, which starts inside, mounts one too.
    arguments += ["--size", str(_ENCLOSED_BYTES), "--tmpfs", "/dev/shm"]
    for path, source in libraries.items():
        arguments += ["--ro-bind", source, path]
    return [*arguments, "--ro-bind", str(shown), str(shown), "--remount-ro", "/", "--chdir", "/tmp", "--", *program]


def _player_command(
    stage: Path, libraries: dict[str, str], shown: Sequence[str], gpu: Shown | None, program: list[str]
) -> list[str]:
    arguments = _namespaces("player", environment_of(gpu))
    # Only for the warm parent, in its own user namespace: it sets up each player's inner sandbox.
    for capability in ("CAP_SYS_ADMIN", "CAP_SETPCAP", "CAP_DAC_OVERRIDE"):
        arguments += ["--cap-add", capability]
    arguments += _system()
    arguments += _gpu(gpu) if gpu else []
    # torch's compiler makes the folder of its cache when it is imported; each player's own cache hides this one.
    inductor = ENVIRONMENT["TORCHINDUCTOR_CACHE_DIR"]
    for folder in ("/dev/shm", "/tmp", "/entry", "/cache", inductor, "/upper", inner_sandbox.CACHES):
        arguments += ["--dir", folder]
    inside = places(list(libraries))
    for path, source in libraries.items():
        # Always at its own path too: the warm parent starts from there.
        arguments += ["--ro-bind", source, path, *(["--ro-bind", source, inside[path]] if inside[path] != path else [])]
    for path in shown:
        arguments += ["--ro-bind", path, path]
    for name in ("tools", "player", HEADERS):
        if (stage / name).exists():
            arguments += ["--ro-bind", str(stage / name), f"/{name}"]
    return [*arguments, "--remount-ro", "/", "--chdir", "/", "--", *program]


def _gpu(gpu: Shown) -> list[str]:
    """Binds for the GPUs' nodes, and for the driver's folders outside /usr."""
    nodes = [part for node in gpu.nodes for part in ("--dev-bind", node, node)]
    return nodes + [part for folder in gpu.folders for part in ("--ro-bind-try", folder, folder)]


def _namespaces(hostname: str, environment: dict[str, str]) -> list[str]:
    """All namespaces of its own, no network, and only the given environment."""
    arguments = ["bwrap", "--unshare-all", "--unshare-user", "--uid", str(_PLAYER_UID), "--gid", str(_PLAYER_UID)]
    arguments += ["--hostname", hostname, "--die-with-parent", "--new-session", "--clearenv"]
    for name, value in environment.items():
        arguments += ["--setenv", name, value]
    return arguments


def _system() -> list[str]:
    """The system's programs and libraries, read-only; /proc and harmless devices."""
    arguments = ["--ro-bind", "/usr", "/usr"]
    for folder in ("/bin", "/sbin", "/lib", "/lib32", "/lib64"):
        if os.path.islink(folder):
            arguments += ["--symlink", os.readlink(folder), folder]
        elif os.path.isdir(folder):
            arguments += ["--ro-bind", folder, folder]
    for path in ("/etc/ld.so.cache", "/etc/alternatives"):
        arguments += ["--ro-bind-try", path, path]
    arguments += ["--proc", "/proc", "--dir", "/dev"]
    for device in ("null", "zero", "full", "random", "urandom"):
        arguments += ["--dev-bind", f"/dev/{device}", f"/dev/{device}"]
    return arguments
