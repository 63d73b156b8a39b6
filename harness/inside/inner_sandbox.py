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

import contextlib
import ctypes
import errno
import os
import platform
import resource
import signal
import stat
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.inside import seccomp

_NEW_MOUNT, _NEW_IPC, _NEW_PID = 0x00020000, 0x08000000, 0x20000000
_DETACH = 2
_READ_ONLY, _NO_SUID, _NO_DEV, _NO_EXEC, _REMOUNT, _BIND, _RECURSIVE, _PRIVATE = 1, 2, 4, 8, 32, 4096, 16384, 1 << 18
_PR_SET_DUMPABLE, _PR_CAPBSET_DROP, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT = 4, 24, 36, 38, 47
_CAP_AMBIENT_CLEAR_ALL, _CAPABILITY_VERSION_3 = 4, 0x20080522

CACHES = "/caches"
"""Where the warm parent keeps one cache folder for each entry; players never see this folder."""

FILES = "files"
"""The folder in it that players see as /cache."""
CACHE_BYTES = 2 << 30
"""The size limit of one entry's cache, a tmpfs: only used pages take memory."""
_INODES = 100_000
_CLOSED_LATER_S = 20.0
"""How long the kernel may take to close the files that an ended player had under way between sockets."""
_RESERVED_BYTES = 4 << 30
"""Address space that threads reserve but never fill: stacks of 8 MiB, and malloc arenas of 64 MiB."""

_SYS_CLONE = {"x86_64": 56, "aarch64": 220}

_libc = ctypes.CDLL(None, use_errno=True)
_libc_with_gil = ctypes.PyDLL(None, use_errno=True)
"""The same library, but calls keep Python's GIL."""


@dataclass(frozen=True, kw_only=True)
class PlayerSetup:
    """The files and limits of one player, in bytes.

    `memory_bytes` is None where address space can't be limited (CUDA).  If there is a `program`, a command, the player
    executes it instead of importing a submission, with `environment` added to ours.  One that `starts_profiler` keeps
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
    starts_profiler: bool = False
    has_loopback: bool = False


def prepare() -> None:
    """Mount the caches' folder, once, in the warm parent; it disappears when the warm parent ends."""
    _mount("tmpfs", CACHES, "tmpfs", _NO_SUID | _NO_DEV, "size=1m,mode=0700")


def prepare_cache(name: str) -> None:
    """Mount an entry's own cache, in the warm parent.  Its size is limited: no entry can fill another's cache."""
    folder = _cache_folder(name)
    if not os.path.isdir(folder):
        os.mkdir(folder)
        _mount("tmpfs", folder, "tmpfs", _NO_SUID | _NO_DEV, f"size={CACHE_BYTES},nr_inodes={_INODES},mode=0700")
        os.mkdir(os.path.join(folder, FILES), mode=0o700)
        with open(os.path.join(folder, "page"), "w", encoding="utf-8") as page:
            page.write("A size of 0 would mean that the sealed cache has no limit.")


def _cache_folder(name: str) -> str:
    return os.path.join(CACHES, os.path.basename(name))


def seal_cache(name: str) -> None:
    """Make an entry's cache read-only and exactly as large as its contents, after its build, in the warm parent.

    Reading a hole of a file, or a page that was only reserved, changes the file even on a read-only tmpfs: a player
    could leave a mark for later players.  So they are filled.  A hole for which there is no room cannot be mapped.
    """
    folder = _cache_folder(name)
    _fill_holes(os.path.join(folder, FILES))
    give_up = time.monotonic() + _CLOSED_LATER_S
    while True:
        facts = os.statvfs(folder)
        size, inodes = (facts.f_blocks - facts.f_bfree) * facts.f_frsize, facts.f_files - facts.f_ffree
        flags = _REMOUNT | _READ_ONLY | _NO_SUID | _NO_DEV
        try:
            return _mount(None, folder, None, flags, f"size={size},nr_inodes={inodes}")
        except OSError as error:
            # The kernel closes files late that were under way between two sockets.
            if error.errno != errno.EBUSY or time.monotonic() > give_up:
                raise
        time.sleep(0.01)


def _fill_holes(folder: str) -> None:
    """Fill the holes of all files, folder by folder: they may be nested deeper than paths reach."""
    os.chdir(folder)
    waiting, filled = [iter(os.listdir())], set[int]()
    while waiting:
        if (name := next(waiting[-1], None)) is None:
            waiting.pop()
            os.chdir("..")
            continue
        with contextlib.suppress(OSError):  # it may have any name and any mode
            facts = os.lstat(name)
            if stat.S_ISDIR(facts.st_mode):
                os.chmod(name, 0o700)
                os.chdir(name)
                waiting.append(iter(os.listdir()))
            elif stat.S_ISREG(facts.st_mode) and facts.st_size and facts.st_ino not in filled:
                _fill_file(name, facts)
                if facts.st_nlink > 1:
                    filled.add(facts.st_ino)
    os.chdir("/")


def _fill_file(name: str, facts: os.stat_result) -> None:
    os.chmod(name, 0o600)
    descriptor = os.open(name, os.O_RDWR | os.O_NOFOLLOW)
    try:
        with contextlib.suppress(OSError):  # no room
            hole = os.lseek(descriptor, 0, os.SEEK_HOLE)
            while hole < facts.st_size:
                hole = _fill_hole(descriptor, hole, facts.st_size)
    finally:
        # ninja and others compare times of files.
        os.utime(descriptor, ns=(facts.st_atime_ns, facts.st_mtime_ns))
        os.fchmod(descriptor, stat.S_IMODE(facts.st_mode))
        os.close(descriptor)


def _fill_hole(descriptor: int, start: int, size: int) -> int:
    """Write zeros to a file's hole that begins at `start`; returns where the next one begins."""
    try:
        end = os.lseek(descriptor, start, os.SEEK_DATA)
    except OSError:  # there is no data behind it
        end = size
    while start < end:
        start += os.pwrite(descriptor, bytes(min(end - start, 1 << 20)), start)
    return os.lseek(descriptor, start, os.SEEK_HOLE) if start < size else size


def fork() -> int:
    """Fork a process that is the first in its own pid, mount and ipc namespaces; returns like `os.fork`.

    This takes one call; `unshare` would need a second fork, and each fork copies the page tables of all of torch.  The
    call bypasses Python and libc, which is safe for a process with one thread that forks again.
    """
    flags = _NEW_MOUNT | _NEW_IPC | _NEW_PID | signal.SIGCHLD
    pid: int = _libc_with_gil.syscall(_SYS_CLONE[platform.machine()], flags, 0, 0, 0, 0)
    _check(pid < 0, "clone")
    if pid == 0:
        _mount(None, "/", None, _RECURSIVE | _PRIVATE)
    return pid


def mount_player_files(setup: PlayerSetup, libraries: Mapping[str, str], *, has_device: bool) -> None:
    """Mount the player's file system.  Call it in the first process of the new pid namespace.

    `libraries` maps folders that the new /tmp would hide to where they are mounted.
    """
    plain = _NO_SUID | _NO_DEV
    scratch = f"size={setup.scratch_bytes},nr_inodes={_INODES},mode=0700"
    # With /proc/self/autogroup, a player could change the share of the core that all players get.  CUDA needs a
    # writable /proc, because it names its threads there.  On a GPU, `health` checks afterwards instead.
    _mount("proc", "/proc", "proc", plain | _NO_EXEC | (0 if has_device else _READ_ONLY))
    _mount("tmpfs", "/tmp", "tmpfs", plain, scratch)
    _mount("tmpfs", "/dev/shm", "tmpfs", plain, scratch)
    _mount("tmpfs", "/entry", "tmpfs", plain, f"size={8 << 20},mode=0755")
    for folder, elsewhere in libraries.items():
        os.makedirs(folder, exist_ok=True)
        _mount(elsewhere, folder, None, _BIND)
    write_files(setup.files, "/entry")
    _mount(None, "/entry", None, _REMOUNT | _BIND | _READ_ONLY | plain)
    _mount_cache(setup, plain)


def write_files(files: dict[str, str], folder: str) -> None:
    for name, text in files.items():
        with open(os.path.join(folder, os.path.basename(name)), "w", encoding="utf-8", newline="") as file:
            file.write(text)
        # Fixed times: caches such as Numba's are valid only for a file with the same modification time.
        os.utime(file.name, (0, 0))


def _mount_cache(setup: PlayerSetup, flags: int) -> None:
    files = os.path.join(_cache_folder(setup.cache), FILES)
    if setup.building:
        _mount(files, "/cache", None, _BIND)
    else:
        # ninja and torch's extension loader write locks and logs even if there is nothing to build.
        _mount("tmpfs", "/upper", "tmpfs", flags, f"size={setup.scratch_bytes},nr_inodes={_INODES},mode=0700")
        for folder in ("/upper/changes", "/upper/work"):
            os.mkdir(folder)
        options = f"lowerdir={files},upperdir=/upper/changes,workdir=/upper/work,userxattr"
        _mount("overlay", "/cache", "overlay", flags, options)
    # The list of mounts would show the caches of all sides in the order of their builds, which tells them apart.
    _check(_libc.umount2(CACHES.encode(), _DETACH), f"umount {CACHES}")
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


def lock_player(setup: PlayerSetup) -> None:
    """Apply the player's limits and drop its privileges, as the last step; it can't regain anything."""
    set_limits(setup)
    _drop_capabilities()
    seccomp.install(has_loopback=setup.has_loopback)


def set_limits(setup: PlayerSetup) -> None:
    limits = {
        # Not 0: with 0, the kernel would still start a core pattern that pipes into a program of the host.
        resource.RLIMIT_CORE: 1,
        resource.RLIMIT_NOFILE: 1024,
        resource.RLIMIT_FSIZE: CACHE_BYTES if setup.building else setup.scratch_bytes,
    }
    if setup.max_processes is not None:
        limits[resource.RLIMIT_NPROC] = setup.max_processes
    if setup.memory_bytes is not None:
        # An allocation that cannot fit fails at once; the referee watches the memory actually used.
        limits[resource.RLIMIT_AS] = _address_space() + setup.memory_bytes + _RESERVED_BYTES
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
