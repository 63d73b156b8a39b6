"""Control groups, version 2: where we may create some, and the limits that the kernel enforces on them.

    <base>                               our own group or its parent: whichever delegates controllers
      └ pullrank-<pid>-<random>/         the group of one judging
          └ player-<random>/             the group of one player: frozen, limited, killed and removed as one

`memory.max` counts everything that the kernel stores for a player: pages, tmpfs and memfds, page tables, socket and
pipe buffers.  The kernel delegates controllers only from a group without processes of its own; a service gets one by
systemd's `Delegate=yes` and `DelegateSubgroup=`.  Freezing works without delegation.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.records import stale_folders
from harness.records.errors import JudgeError

_CONTROLLERS = ("memory", "pids")
_PATIENCE_S = 60.0
"""How long killed processes of a group may take to end: the kernel has to free gigabytes."""


@dataclass(frozen=True, kw_only=True)
class CgroupLimits:
    """The kernel's limits for a player's group."""

    memory_bytes: int
    processes: int


class Cgroup:
    """The group of one judging."""

    def __init__(self, base: Path) -> None:
        """Create the group.  Raises OSError if we may not."""
        self.folder = base / f"pullrank-{os.getpid()}-{secrets.token_hex(8)}"
        self.folder.mkdir()
        self._claim = stale_folders.claim(self.folder)
        self._delegated = delegate_controllers(self.folder)

    @property
    def limits_memory(self) -> bool:
        return "memory" in self._delegated

    def remove(self) -> None:
        """Remove the group and its players' groups.  Raises JudgeError if processes are left in it."""
        try:
            for below in self.folder.glob("player-*"):
                remove(below)
            remove(self.folder)
        finally:
            os.close(self._claim)


def find_bases() -> list[Path]:
    """The groups below which we may be able to create our own; those that delegate the most controllers first."""
    return sorted(_own_groups(), key=lambda base: -len(delegate_controllers(base)))


def _own_groups() -> Iterator[Path]:
    for mounted, group in _mounted_groups("cgroup2"):
        yield group
        if group != mounted:
            yield group.parent


def _mounted_groups(kind: str, controller: str = "", proc: Path = Path("/proc/self")) -> Iterator[tuple[Path, Path]]:
    """Each folder where a hierarchy of this kind, with this controller, is mounted, and our group in it."""
    # The names of mounts and groups are bytes, and need not be valid UTF-8.
    groups, mounts = (os.fsdecode((proc / name).read_bytes()) for name in ("cgroup", "mountinfo"))
    own = re.search(rf"^\d+:(?:.*,)?{controller}(?:,.*)?:(/.*)$", groups, re.MULTILINE)
    for line in mounts.split("\n"):
        mount, _, source = line.partition(" - ")
        filesystem, _, options = source.partition(" ")
        if own and filesystem == kind and (not controller or controller in re.split("[ ,]", options)):
            root, mounted = mount.split(" ")[3:5]
            below = os.path.relpath(own[1], root)
            yield Path(mounted), Path(mounted) if below.startswith("..") else Path(mounted, below)


@dataclass(frozen=True)
class MemoryLimit:
    """A memory limit of our own group, or of a group above it: of a container or a service."""

    bytes: int
    folder: Path
    usage: str
    """The file with the bytes in use."""
    cached: tuple[str, str]
    """The lines of `memory.stat` with the bytes of files that the kernel can drop."""

    @property
    def left_bytes(self) -> int:
        """What may still be used, in bytes."""
        stat = (self.folder / "memory.stat").read_bytes()
        cached = sum(count_events(stat, name) for name in self.cached)
        return self.bytes - int((self.folder / self.usage).read_text()) + cached


_OF_VERSION_1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", ("total_inactive_file", "total_active_file"))
_OF_VERSION_2 = ("memory.max", "memory.current", ("inactive_file", "active_file"))


def find_memory_limit() -> MemoryLimit | None:
    """The lowest memory limit of our own group and of the groups above it that we can see."""
    limits: list[MemoryLimit] = []
    with contextlib.suppress(OSError):  # without control groups
        places = [(one, _OF_VERSION_2) for one in _mounted_groups("cgroup2")]
        places += [(one, _OF_VERSION_1) for one in _mounted_groups("cgroup", "memory")]
        for (mounted, group), (limit, usage, cached) in places:
            for folder in [one for one in (group, *group.parents) if one.is_relative_to(mounted)]:
                text = (folder / limit).read_text().strip() if (folder / limit).exists() else "max"
                limits += [MemoryLimit(int(text), folder, usage, cached)] if text.isdecimal() else []
    return min(limits, key=lambda one: one.bytes, default=None)


def delegate_controllers(group: Path) -> set[str]:
    """Delegate a group's controllers to its children, as far as possible; returns the controllers delegated."""
    wanted = [name for name in _CONTROLLERS if name in controllers(group)]
    missing = set(wanted) - _delegated(group)
    # Only together with memory: the kernel delegates `pids` alone even from a group that has processes, and then no
    # group below it may have any.
    if missing and "memory" in wanted:
        with contextlib.suppress(OSError):  # EBUSY: the group has processes of its own.  EACCES: it is not ours.
            (group / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in wanted))
    return _delegated(group)


def controllers(group: Path) -> set[str]:
    """The controllers that a group could delegate."""
    return _words(group / "cgroup.controllers")


def _delegated(group: Path) -> set[str]:
    return _words(group / "cgroup.subtree_control") & set(_CONTROLLERS)


def _words(file: Path) -> set[str]:
    try:
        return set(file.read_text().split())
    except OSError:
        return set()


def set_limits(group: Path, limits: CgroupLimits) -> bool:
    """Set the limits that this group supports; returns whether its memory is limited."""
    wanted = {
        "pids.max": limits.processes,
        "memory.max": limits.memory_bytes,
        "memory.swap.max": 0,
        "memory.oom.group": 1,  # kill the whole player: without one of its helpers it might still answer
    }
    for name, value in wanted.items():
        if (group / name).exists():
            (group / name).write_text(str(value))
    return (group / "memory.max").exists()


def count_events(text: bytes, event: str) -> int:
    """Read a counter from a file of lines like `oom_kill 1`; 0 if this kernel does not have it."""
    found = re.search(rb"^%s (\d+)$" % event.encode(), text, re.MULTILINE)
    return int(found[1]) if found else 0


def remove(group: Path) -> None:
    """Remove a group whose processes have been killed.  Raises JudgeError if they don't end."""
    give_up = time.monotonic() + _PATIENCE_S
    while group.exists():
        try:
            group.rmdir()
        except OSError as error:
            # EBUSY until the last process has freed its memory.
            if time.monotonic() > give_up:
                raise JudgeError(f"processes are left in the cgroup {group}: {error.strerror}") from None
            time.sleep(0.001)


def remove_abandoned(base: Path) -> None:
    """Remove the groups of judges that were killed."""
    for group in stale_folders.abandoned(base.glob("pullrank-*")):
        for folder in (*group.glob("player-*"), group):
            with contextlib.suppress(OSError):
                folder.rmdir()
