"""How a sandbox limits its players, and how it stops them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from harness.gpu.gpu_memory import ReadCard
from harness.processes.cgroup import Cgroup, CgroupLimits
from harness.processes.freezer import CgroupFreezer, Freezer, SignalFreezer

_LEAST_BYTES = 1 << 20
"""The limit of a player whose build filled the cache beyond the limit: less than any player uses."""


@dataclass(frozen=True, kw_only=True)
class Confinement:
    """How a sandbox limits and stops its players."""

    limits: CgroupLimits
    gpu_memory_bytes: int | None
    cards: Sequence[ReadCard]
    cgroup: Cgroup | None
    has_core_of_its_own: bool
    """Whether the referee can spin without using the player's core."""
    is_sandboxed: bool
    cores: Collection[int]
    """Those of the players."""
    yielding: Collection[int] = ()
    """Processes of ours that may run on these cores, but yield to the player."""

    def limits_beside(self, cached_bytes: int) -> CgroupLimits:
        """The limits of a player whose build has left this much in the cache, which is memory, too."""
        return replace(self.limits, memory_bytes=max(_LEAST_BYTES, self.limits.memory_bytes - cached_bytes))

    def freezer_for(self, keeper: int, player: int, limits: CgroupLimits) -> Freezer:
        if self.cgroup:
            shares_core = not self.has_core_of_its_own
            return CgroupFreezer(self.cgroup.folder, player, limits, shares_core=shares_core)
        return SignalFreezer(keeper, player)
