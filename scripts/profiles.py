"""A profile in lines for people: what a call's time went into, the longest first, each with its share of the call."""

from __future__ import annotations

from dataclasses import dataclass

from harness.profile import Profile

WORD = "A profile is one call, watched, and slower for it; it is your own process's word, and ranks nothing."


@dataclass(frozen=True, kw_only=True)
class Part:
    """`calls` is None for what no operation was seen of; `name` is a participant's text."""

    name: str
    where: str
    calls: int | None
    own_us: float
    share: float


def parts_of(profile: Profile, most: int = 8) -> tuple[Part, ...]:
    """The longest operations, the others of host and device together, and what torch saw nothing of."""
    parts: list[Part] = []
    for where, on_device in (("device", True), ("host", False)):
        operations = [one for one in profile.operations if one.on_device is on_device]
        shown, rest = operations[:most], operations[most:]
        parts += (_part(profile, one.name, where, one.calls, one.own_us) for one in shown)
        if rest:
            calls = sum(one.calls for one in rest)
            parts.append(_part(profile, f"{len(rest)} more", where, calls, sum(one.own_us for one in rest)))
    if profile.elsewhere_us:
        parts.append(_part(profile, "outside of torch, or waiting", "host", None, profile.elsewhere_us))
    return tuple(parts)


def _part(profile: Profile, name: str, where: str, calls: int | None, own_us: float) -> Part:
    return Part(name=name, where=where, calls=calls, own_us=own_us, share=own_us / profile.call_us)
