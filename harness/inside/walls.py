"""The inner sandbox, which confines a fresh player before it reads a line of the submission.

The warm parent holds CAP_SYS_ADMIN in its own user namespace only for this.  Each player gets

    pid, mount, ipc namespace   its own: it sees only itself and its keeper
    /entry                      the submission and the task's shared files, read-only
    /tmp, /dev/shm              fresh tmpfs of limited size
    /cache                      writable during the build; later an overlay whose changes end with the player
    limits, no capabilities, no_new_privs, seccomp

This module calls Linux by ctypes: Python 3.11 has no `os.unshare`.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import resource
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.inside import seccomp

_NEW_MOUNT, _NEW_IPC, _NEW_PID = 0x00020000, 0x08000000, 0x20000000
_READ_ONLY, _NO_SUID, _NO_DEV, _NO_EXEC, _REMOUNT, _BIND, _RECURSIVE, _PRIVATE = 1, 2, 4, 8, 32, 4096, 16384, 1 << 18
_PR_SET_DUMPABLE, _PR_CAPBSET_DROP, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT = 4, 24, 36, 38, 47
_CAP_AMBIENT_CLEAR_ALL, _CAPABILITY_VERSION_3 = 4, 0x20080522

CACHES = "/caches"
"""Where the warm parent keeps one cache folder for each entry; players never see this folder."""

CACHE_BYTES = 2 << 30
"""The size limit of one entry's cache, a tmpfs: only used pages take memory."""
_INODES = 100_000
_RESERVED_BYTES = 4 << 30
"""Address space that threads reserve but never fill: stacks of 8 MiB, and malloc arenas of 64 MiB."""

_SYS_CLONE = {"x86_64": 56, "aarch64": 220}

_libc = ctypes.CDLL(None, use_errno=True)
_holding_on = ctypes.PyDLL(None, use_errno=True)
"""The same library, but calls keep Python's GIL."""


@dataclass(frozen=True, kw_only=True)
class Room:
    """The files and limits of one player, in bytes.

    `memory_bytes` is None where address space can't be limited (CUDA).  If there is a `program`, a command, the player
    executes it instead of importing a submission, with `environment` added to ours.  A program that `is_watcher` keeps
    the control socket for the player that it starts.  With `has_loopback`, the player's processes may talk to each
    other by IP; nothing else is on that network.
    """

    files: dict[str, str]
    cache: str
    building: bool
    scratch_bytes: int
    memory_bytes: int | None
    max_processes: int | None
    program: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    is_watcher: bool = False
    has_loopback: bool = False


def prepare() -> None:
    """Mount the caches' folder, once, in the warm parent; it disappears when the warm parent ends."""
    _mount("tmpfs", CACHES, "tmpfs", _NO_SUID | _NO_DEV, "size=1m,mode=0700")


def prepare_cache(name: str) -> None:
    """Mount an entry's own cache, in the warm parent.  Its size is limited: no entry can fill another's cache."""
    folder = os.path.join(CACHES, os.path.basename(name))
    if not os.path.isdir(folder):
        os.mkdir(folder)
        _mount("tmpfs", folder, "tmpfs", _NO_SUID | _NO_DEV, f"size={CACHE_BYTES},nr_inodes={_INODES},mode=0700")


def fork() -> int:
    """Fork a process that is the first in its own pid, mount and ipc namespaces; returns like `os.fork`.

    This takes one call; `unshare` would need a second fork, and each fork copies the page tables of all of torch.  The
    call bypasses Python and libc, which is safe for a process with one thread that forks again.
    """
    flags = _NEW_MOUNT | _NEW_IPC | _NEW_PID | signal.SIGCHLD
    pid: int = _holding_on.syscall(_SYS_CLONE[platform.machine()], flags, 0, 0, 0, 0)
    _check(pid < 0, "clone")
    if pid == 0:
        _mount(None, "/", None, _RECURSIVE | _PRIVATE)
    return pid


def furnish(room: Room, libraries: Mapping[str, str]) -> None:
    """Mount the player's file system.  Call it in the first process of the new pid namespace.

    `libraries` maps folders that the new /tmp would hide to where they are mounted.
    """
    plain = _NO_SUID | _NO_DEV
    scratch = f"size={room.scratch_bytes},nr_inodes={_INODES},mode=0700"
    _mount("proc", "/proc", "proc", plain | _NO_EXEC)
    _mount("tmpfs", "/tmp", "tmpfs", plain, scratch)
    _mount("tmpfs", "/dev/shm", "tmpfs", plain, scratch)
    _mount("tmpfs", "/entry", "tmpfs", plain, f"size={8 << 20},mode=0755")
    for folder, elsewhere in libraries.items():
        os.makedirs(folder, exist_ok=True)
        _mount(elsewhere, folder, None, _BIND)
    write_files(room.files, "/entry")
    _mount(None, "/entry", None, _REMOUNT | _BIND | _READ_ONLY | plain)
    _mount_cache(room, plain)


def write_files(files: dict[str, str], folder: str) -> None:
    for name, text in files.items():
        with open(os.path.join(folder, os.path.basename(name)), "w", encoding="utf-8", newline="") as file:
            file.write(text)
        # Fixed times: caches such as Numba's are valid only for a file with the same modification time.
        os.utime(file.name, (0, 0))


def _mount_cache(room: Room, flags: int) -> None:
    sealed = os.path.join(CACHES, os.path.basename(room.cache))
    if room.building:
        _mount(sealed, "/cache", None, _BIND)
    else:
        # ninja and torch's extension loader write locks and logs even if there is nothing to build.
        _mount("tmpfs", "/upper", "tmpfs", flags, f"size={room.scratch_bytes},nr_inodes={_INODES},mode=0700")
        for folder in ("/upper/changes", "/upper/work"):
            os.mkdir(folder)
        options = f"lowerdir={sealed},upperdir=/upper/changes,workdir=/upper/work,userxattr"
        _mount("overlay", "/cache", "overlay", flags, options)
    for hidden in (CACHES, "/upper"):
        _mount("tmpfs", hidden, "tmpfs", flags | _READ_ONLY, "size=4k,mode=0000")


def adopt_orphans() -> None:
    """Make a player's orphans children of this process, so that it can find them without a pid namespace."""
    _check(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl(PR_SET_CHILD_SUBREAPER)")


def hide(hidden: bool) -> None:
    """Hide the keeper's memory from the player, before the player starts; False undoes that in the player.

    Both run as the same user.  The player can't open /proc/1/mem only because the keeper is not dumpable.
    """
    _check(_libc.prctl(_PR_SET_DUMPABLE, 0 if hidden else 1, 0, 0, 0), "prctl(PR_SET_DUMPABLE)")


def lock_keeper() -> None:
    """Drop the keeper's privileges, after it has forked its player."""
    _drop_capabilities()


def lock_player(room: Room) -> None:
    """Apply the player's limits and drop its privileges, as the last step; it can't regain anything."""
    set_limits(room)
    _drop_capabilities()
    seccomp.install(has_loopback=room.has_loopback)


def set_limits(room: Room) -> None:
    limits = {
        # Not 0: with 0, the kernel would still start a core pattern that pipes into a program of the host.
        resource.RLIMIT_CORE: 1,
        resource.RLIMIT_NOFILE: 1024,
        resource.RLIMIT_FSIZE: room.scratch_bytes,
    }
    if room.max_processes is not None:
        limits[resource.RLIMIT_NPROC] = room.max_processes
    if room.memory_bytes is not None:
        # An allocation that cannot fit fails at once; the referee watches the memory actually used.
        limits[resource.RLIMIT_AS] = _address_space() + room.memory_bytes + _RESERVED_BYTES
    for limit, value in limits.items():
        hard = resource.getrlimit(limit)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(limit, (value, value))


def _address_space() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def _drop_capabilities() -> None:
    _check(_libc.prctl(_PR_CAP_AMBIENT, _CAP_AMBIENT_CLEAR_ALL, 0, 0, 0), "prctl(PR_CAP_AMBIENT)")
    for capability in range(64):
        if _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) and ctypes.get_errno() != errno.EINVAL:
            _check(1, "prctl(PR_CAPBSET_DROP)")  # EINVAL: this kernel does not have the capability
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    none = (ctypes.c_uint32 * 6)()
    _check(_libc.capset(header, none), "capset")
    _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl(PR_SET_NO_NEW_PRIVS)")


def _mount(source: str | None, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    arguments = (value.encode() if value is not None else None for value in (source, target, kind))
    failed = _libc.mount(*arguments, ctypes.c_ulong(flags), options.encode() if options else None)
    _check(failed, f"mount {target}")


def _check(failed: bool | int, what: str) -> None:
    if failed:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
