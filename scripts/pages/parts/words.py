"""Words and numbers for the site's templates.  Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from typing import Any

from harness.records.judgement import Claim, Judgement
from harness.records.stats import TIE
from harness.records.times import Duel
from harness.task.task_file import Ranking
from scripts.common.text import format_gap, format_percent, format_speedup, format_us, in_words, shorten
from scripts.standings.claims import (
    bound_share,
    claim_sentence,
    duel_margin,
    duel_result,
    is_bounded,
    is_unwalled,
    why_lost,
    worst_bound,
)
from scripts.standings.rows import Row
from scripts.standings.standings import Standings

RANKINGS = {"geom": "geometric mean", "mean": "mean", "last": "last"}
_HEAT_STEPS = ((1.5, "heat3"), (1.2, "heat2"), (1.05, "heat1"))
_BEFORE_A_UNIT = re.compile(r"(?<=\d) (?=%|[mµn]?s\b|[KMG]i?B\b)")
_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
_UNITS = ((1e6, "s"), (1e3, "ms"), (1.0, "µs"), (1e-3, "ns"))


# Numbers.


@dataclass(frozen=True, kw_only=True)
class Unit:
    """The unit and number of digits of a column of times, so that their decimal points align."""

    name: str
    us: float
    digits: int

    @classmethod
    def fitting(cls, best_us: float) -> Unit:
        """The unit in which the best time of a column has four digits."""
        best_us = float(f"{best_us:.4g}")  # 999.96 µs is 1.000 ms
        us, name = next((pair for pair in _UNITS if best_us >= pair[0]), _UNITS[-1])
        return cls(name=name, us=us, digits=max(0, 3 - math.floor(math.log10(max(best_us / us, 1)))))

    def __call__(self, time_us: float) -> str:
        """A time with the column's decimals; one far below the others has three significant digits instead."""
        amount = time_us / self.us
        return f"{amount:,.{self.digits}f}" if amount >= 10 ** (1 - self.digits) else f"{amount:.3g}"


def initials(login: str) -> str:
    """Two letters for a login."""
    parts = login.split("-")
    return (parts[0][:1] + (parts[1][:1] if len(parts) > 1 else parts[0][1:2])).upper()


def hue(login: str) -> int:
    """One of eight colours, always the same for a login."""
    return sum(map(ord, login.lower())) % 8


def lost(ratio: float) -> str:
    """A time over another, in words: `12.3 % slower`, `speedup 1.13×`, `2.5× as long`, `as fast`."""
    if abs(ratio - 1) < 0.0005:
        return "as fast"
    if ratio >= 2:
        return f"{ratio:,.1f}× as\u00a0long"
    return f"{format_percent(ratio - 1)} slower" if ratio > 1 else f"speedup\u00a0{format_speedup(ratio)}"


def behind(gap: float) -> str:
    """A short form of a gap: `+3.1 %`, `+13 %`, `+150 %`."""
    return f"+{gap:,.0%}".replace("%", " %") if gap >= 0.0995 else format_gap(gap)


def gain(share: float | None) -> str:
    """The speedup from the share of time saved: `1.13×` for 0.115; None is a first entry."""
    return "first entry" if share is None else format_speedup(1 - share)


def seconds(value: float) -> str:
    return f"{value:.0f} s" if value >= 10 else f"{value:.2g} s"


def number(value: float) -> str:
    return f"{value:,.4g}" if value < 1e4 else f"{value:,.0f}"


def count(n: int, one: str, many: str) -> str:
    return f"{n:,} {one if n == 1 else many}"


def ordinal(n: int) -> str:
    suffix = "th" if n % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n}{suffix}"


def unbroken(text: str) -> str:
    """The text with no-break spaces between numbers and units."""
    return _BEFORE_A_UNIT.sub("\u00a0", text)


def px(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def case_costs(ours_us: Sequence[float], theirs_us: Sequence[float], ranking_by: Ranking) -> list[float]:
    """What each case adds to the difference between the two scores; the unit depends on the ranking."""
    pairs = list(zip(ours_us, theirs_us, strict=True))
    match ranking_by:
        case Ranking.LAST:
            return [0.0] * (len(pairs) - 1) + [ours - theirs for ours, theirs in pairs[-1:]]
        case Ranking.MEAN:
            return [ours - theirs for ours, theirs in pairs]
        case _:
            return [math.log(ours / theirs) for ours, theirs in pairs]


def heat(ours_us: Sequence[float], theirs_us: Sequence[float], ranking_by: Ranking) -> list[str]:
    """A CSS class for each case of a row, by its share of what the row's score loses to another row's.

    `heat1` to `heat3` cost more than an even share, `worst` costs most, `faster` costs nothing.  Differences within a
    tie have no class, and no case has a heat class if only one case ranks.
    """
    ratios = [ours / theirs for ours, theirs in zip(ours_us, theirs_us, strict=True)]
    kinds = ["faster" if ratio < 1 - TIE else "" for ratio in ratios]
    if ranking_by is Ranking.LAST or len(ratios) == 1 or max(ratios) < 1 + TIE:
        return kinds
    costs = case_costs(ours_us, theirs_us, ranking_by)
    even, most = sum(cost for cost in costs if cost > 0) / len(costs), max(costs)
    for index, (cost, ratio) in enumerate(zip(costs, ratios, strict=True)):
        if ratio >= 1 + TIE:
            step = next((step for share, step in _HEAT_STEPS if cost >= share * even), "")
            kinds[index] = f"{step} worst".lstrip() if cost == most else step
    return kinds


def iso(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="seconds")


def day(at: datetime) -> str:
    return f"{at.astimezone(UTC):%-d %b %Y}"


def minute(at: datetime) -> str:
    return f"{at.astimezone(UTC):%-d %b %Y, %H:%M} UTC"


# Words.


def params(values: Mapping[str, Any]) -> str:
    return in_words(values) or "no arguments"


def sentence(text: str) -> str:
    """The text with a capital at its start, and a full stop unless it ends with another mark."""
    text = text[:1].upper() + text[1:]
    return text if not text or text.endswith((".", "!", "?", "…")) else f"{text}."


def first_sentence(markdown: str) -> str:
    """The first sentence of a statement, as one line of plain text."""
    lines = (line for line in markdown.strip().split("\n") if not line.startswith("#"))
    blocks = "\n".join(lines).strip().split("\n\n")
    paragraph = " ".join(next((block for block in blocks if not block.lstrip().startswith(("|", "```"))), "").split())
    found = re.match(r".+?[.!?](?=\s+[^a-z\s]|$)", paragraph)  # The stop of an "e.g." does not count.
    return shorten(re.sub(r"[`*]|\[([^]]*)\]\([^)]*\)", r"\1", found[0] if found else paragraph), 160)


def bound(judgement: Judgement) -> str:
    """How much a time could understate the truth, at its worst benchmark."""
    worst = worst_bound(judgement)
    if judgement.claim is Claim.INSIDE_TIMED and not is_unwalled(judgement):
        return "loose: timed inside the submission’s process"
    if not worst or not is_bounded(judgement):
        return "none"
    return f"at most {format_us(worst.bound_us)}, {format_percent(bound_share(worst))} of a call"


def duel_sentence(duel: Duel) -> str:
    said = [f"{'Won' if duel.won else 'Lost'}: {duel_result(duel)}", why_lost(duel)]
    return "; ".join(filter(None, said)) + "."


def note_of(row: Row) -> str:
    """A row's note, with the margin of the duel that it lost to the champion."""
    if not row.note or not row.lost_duel:
        return row.note
    return f"{row.note}: " + "; ".join(filter(None, (duel_margin(row.lost_duel), why_lost(row.lost_duel))))


def claims(standings: Standings) -> str:
    """Sentences about the claims of a board's times that are not bounded, each once."""
    judgements = [judgement for row in standings.rows for judgement in row.judgements]
    return " ".join(sorted({claim_sentence(one) for one in judgements if not is_bounded(one)}))


# Cases.


@dataclass(frozen=True, kw_only=True)
class CaseLabel:
    """A case's name: `text` by itself, or `cell` in a column with the head `head`.

    `exact` has the numbers as in the task's file, for searching and copying.
    """

    text: str
    head: str
    cell: str
    exact: str


def case_labels(cases: Sequence[Mapping[str, Any]]) -> list[CaseLabel]:
    """A name for each case, from the parameters that differ; if only one differs, it becomes the column's head."""
    found = _telling(cases)
    names = list(dict.fromkeys(chain(*found)))
    write = {name: _writer([one[name] for one in found if name in one]) for name in names}
    is_one = len(names) == 1 and all(found)
    labels = []
    for one in found:
        text = ", ".join(f"{name}\u00a0{write[name](value)}" for name, value in one.items()) or "no arguments"
        head, cell = (names[0], write[names[0]](one[names[0]])) if is_one else ("Case", text)
        labels.append(CaseLabel(text=text, head=head, cell=cell, exact=params(one)))
    return labels


def _telling(cases: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The parameters that differ, or all of them if those do not suffice; the seed, redrawn for ranked runs, last."""
    every = list(dict.fromkeys(chain(*cases)))
    telling = [name for name in every if len({str(case.get(name)) for case in cases}) > 1]
    unseeded = [name for name in every if name != "seed"] or every
    for names in ([name for name in telling if name != "seed"], telling, unseeded):
        found = [{name: case[name] for name in names if name in case} for case in cases]
        if len(set(map(params, found))) == len(cases) > 1:
            return found
    return found


def _writer(values: Sequence[Any]) -> Callable[[Any], str]:
    """A formatter for one parameter's values: powers of two if all large values are, else grouped thousands."""
    large = [value for value in values if _is_large(value)]
    are_powers = all(value > 0 and value.bit_count() == 1 for value in large)
    return _power_of_two if are_powers and max(large, default=0) >= 100_000 else _in_thousands


def _is_large(value: Any) -> bool:
    return isinstance(value, int) and abs(value) >= 1000


def _power_of_two(value: Any) -> str:
    return "2" + str(value.bit_length() - 1).translate(_RAISED) if _is_large(value) else str(value)


def _in_thousands(value: Any) -> str:
    return f"{value:,}".replace(",", "\u202f") if _is_large(value) and abs(value) >= 10_000 else str(value)
