"""What a pull request is told: one judgement, and the place it leads to, as Markdown.

    headline        verdict and rank
    why not         the message, if it was not accepted
    place           rank, tie, gap; the duel in plain words
    benchmarks      a table: time, anchor, against first place; or where a call's time went
    tests           a table, folded away when all are right
    next            what to do now
    small print     claim and bound, machine
    log             folded away

Free text of a judgement may be a participant's: it stands in code (`scripts.text`) and is cut, so that the whole
fits into the 65,536 characters of GitHub's comments.  Outside of code stand our own words, numbers, and logins,
which hold nothing but letters, digits and hyphens.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from harness.fields import Mode
from harness.judgement import CaseResult, Judgement
from harness.profile import Profile
from harness.task import Board
from harness.timing import Duel
from harness.verdict import Verdict
from scripts.case_times import CaseTime
from scripts.claims import bound_share, claim_sentence, duel_result, is_bounded, is_self_timed, is_unwalled, worst_bound
from scripts.profiles import WORD, parts_of
from scripts.standings import Row, Standings
from scripts.text import fence, format_gap, format_interval, format_percent, format_us, inline

MAX_CASES = 40
"""Rows of a table; of more tests, those that failed are shown."""

MAX_NOTES = 8
MAX_PROFILES = 12

_NEXT = {
    Mode.TEST: "A benchmark says how fast it is; a pull request that is ready for review is ranked.",
    Mode.BENCHMARK: "These times are unofficial. A pull request that is ready for review is ranked.",
    Mode.RANKED: "Push a faster file and it is judged again; the better one keeps the row.",
    Mode.PROFILE: "A profile ranks nothing. A pull request that is ready for review is ranked.",
}


def render(judgement: Judgement, board: Board, standings: Standings | None = None) -> str:
    """The comment.  `standings` are those with this judgement in; without them there is no rank."""
    if judgement.edition != board.edition:
        standings = None  # The board has begun anew since: there is nothing to compare with.
    place = standings.find_row(judgement.submission.login) if standings and judgement.mode is Mode.RANKED else None
    parts = [
        _headline(judgement, standings, place),
        _failure(judgement),
        _place(judgement, standings, place),
        _duel(judgement.duel, judgement, standings),
        _benchmarks(judgement, board, standings),
        _profiles(judgement),
        _tests(judgement, board),
        _next(judgement),
        _small_print(judgement),
        _log(judgement.log),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _headline(judgement: Judgement, standings: Standings | None, place: Row | None) -> str:
    verdict = f"{judgement.verdict.label} ({judgement.verdict})"
    if judgement.verdict is Verdict.ACCEPTED and judgement.mode is not Mode.RANKED:
        verdict += f", {judgement.mode} only"
    if judgement.verdict is Verdict.ACCEPTED and standings and place and _stands(judgement, place):
        verdict += f", {_rank(place, standings)}"
    return f"### {inline(judgement.task)} on {inline(judgement.gpu)}: {verdict}"


def _failure(judgement: Judgement) -> str:
    if judgement.verdict is Verdict.ACCEPTED or not judgement.message.strip():
        return ""
    return fence(judgement.message, 2000)


# The place.


def _stands(judgement: Judgement, place: Row) -> bool:
    return place.digest == judgement.submission.digest


def _rank(place: Row, standings: Standings) -> str:
    return f"rank {place.rank} of {len(standings.rows)}"


def _place(judgement: Judgement, standings: Standings | None, place: Row | None) -> str:
    if not standings or judgement.mode is not Mode.RANKED or judgement.verdict is not Verdict.ACCEPTED:
        return ""
    if not place:
        return "This judgement does not rank" + (": it was judged without walls." if is_unwalled(judgement) else ".")
    if not _stands(judgement, place):
        return (
            f"Your earlier file {inline(place.digest[:12])} keeps your row, with {format_interval(place.score_us)} and "
            f"{_rank(place, standings)}: this one does not beat it by more than 1 % and the noise."
        )
    pooled = f", over {len(place.judgements)} judgements of this file" if len(place.judgements) > 1 else ""
    rank = f"**{_rank(place, standings).capitalize()}** with {format_interval(place.score_us)}{pooled}"
    return f"{rank}; {_gap(place, standings)}."


def _gap(place: Row, standings: Standings) -> str:
    if place.champion:
        return "first place"
    if place.note:
        return f"it {_as_verb(place.note)}"
    first, leader = standings.rows[0], standings.leader_of(place)
    gap = format_gap(place.gap).removeprefix("+")
    behind = f"{gap} behind {first.login}" if gap.endswith("%") else f"{gap} the time of {first.login}"
    return behind if leader is place else f"{behind}, tied with {leader.login}"


def _as_verb(note: str) -> str:
    return note if note.startswith("looks") else f"is {note}"


def _duel(duel: Duel | None, judgement: Judgement, standings: Standings | None) -> str:
    if not duel:
        return ""
    outcome = _outcome(duel, judgement, standings)
    return f"**Duel with {duel.opponent}**, then first: {duel_result(duel)}. {outcome}"


def _outcome(duel: Duel, judgement: Judgement, standings: Standings | None) -> str:
    if not duel.won:
        return "Lost: first place takes a gain of at least 1 %, and more than the noise."
    champion = standings.champion if standings else None
    if champion and champion.digest != judgement.submission.digest:
        return f"Won, but {champion.login} stands first now: the duel with {champion.login} decides."
    return "Won: it takes first place."


# The cases.


def _benchmarks(judgement: Judgement, board: Board, standings: Standings | None) -> str:
    if not judgement.benchmarks:
        return ""
    notes = [case.timing.note for case in judgement.benchmarks if case.timing and not case.timing.steady]
    if board.task.is_refereed:
        head: tuple[str, ...] = ("Benchmark", "Time", "Anchor", "Against the anchor", "Against first place")
        rows = [_benchmark(case, board, standings) for case in judgement.benchmarks[:MAX_CASES]]
    else:
        head = ("Benchmark", "Time, self-timed", "Best call", "Against first place")
        rows = [_told_benchmark(case, board, standings) for case in judgement.benchmarks[:MAX_CASES]]
        notes = [case.told.note for case in judgement.benchmarks if case.told and case.told.note]
    table = _table(head, rows)
    return "\n\n".join([table, *map(inline, list(dict.fromkeys(notes))[:MAX_NOTES])])


def _benchmark(case: CaseResult, board: Board, standings: Standings | None) -> tuple[str, ...]:
    timing = case.timing
    if not timing:
        return _name(case), case.verdict, "", inline(case.message), ""
    first = _same_case_of_first(case, board, standings)
    anchor_us = (first and first.nominal_us) or timing.anchor_us
    return (
        _name(case),
        format_interval(timing.ratio.scaled(anchor_us)),
        format_us(anchor_us),
        f"{1 / timing.ratio.value:.2f}×",
        format_gap(timing.ratio.value / first.ratio.value - 1) if first and first.ratio else "",
    )


def _told_benchmark(case: CaseResult, board: Board, standings: Standings | None) -> tuple[str, ...]:
    told = case.told
    if not told:
        return _name(case), case.verdict, "", inline(case.message)
    first = _same_case_of_first(case, board, standings)
    return (
        _name(case),
        format_interval(told.time_us),
        format_us(min(run.best_us for run in told.runs)),
        format_gap(told.time_us.value / first.time_us.value - 1) if first else "",
    )


def _same_case_of_first(case: CaseResult, board: Board, standings: Standings | None) -> CaseTime | None:
    """By parameters, not by place: where a benchmark fails, those that were not played any more are missing."""
    if not standings or not standings.champion:
        return None
    times = zip(board.benchmarks, standings.champion.cases, strict=True)
    return next((time for known, time in times if dict(known.params) == case.params), None)


def _profiles(judgement: Judgement) -> str:
    profiles = [(_name(case), case.profile) for case in judgement.profiles if case.profile]
    if not profiles:
        return ""
    head = ("Part", "Where", "Calls", "Time", "Share")
    tables = [f"{name}, one call of {format_us(one.call_us)}:\n\n{_table(head, _parts(one))}" for name, one in profiles]
    return "\n\n".join([*tables[:MAX_PROFILES], WORD])


def _parts(profile: Profile) -> Iterator[tuple[str, ...]]:
    for part in parts_of(profile):
        calls = "" if part.calls is None else str(part.calls)
        yield inline(part.name, 80), part.where, calls, format_us(part.own_us), format_percent(part.share)


def _tests(judgement: Judgement, board: Board) -> str:
    tests = judgement.tests
    if not tests:
        return ""
    wrong = [case for case in tests if case.verdict is not Verdict.ACCEPTED]
    shown = tests if len(tests) <= MAX_CASES else (wrong or tests)[:MAX_CASES]
    rows = ((_name(case), case.verdict, inline(case.message)) for case in shown)
    table = _table(("Test", "Verdict", "Message"), rows)
    summary = f"{len(tests) - len(wrong)} of {len(board.tests)} tests accepted"
    left_out = f"\n\n{len(tests) - len(shown)} more tests are not shown." if len(shown) < len(tests) else ""
    return f"{summary}.\n\n{table}{left_out}" if wrong else _folded(summary, table + left_out)


def _name(case: CaseResult) -> str:
    return inline(", ".join(f"{name}: {value}" for name, value in case.params.items()), 120) or str(case.kind)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


# The rest.


def _next(judgement: Judgement) -> str:
    if judgement.verdict is Verdict.ACCEPTED:
        return f"**Next:** {_NEXT[judgement.mode]}"
    return f"**Next:** {judgement.verdict.help}{_how_to_replay(judgement)}"


def _how_to_replay(judgement: Judgement) -> str:
    if judgement.verdict is Verdict.JUDGING_ERROR:
        return ""
    return " `pullrank test` judges a file on your own machine in the same way."


def _small_print(judgement: Judgement) -> str:
    machine = judgement.machine
    cores = f"{machine.cores} cores" if machine.cores > 1 else "one core"
    seconds = (judgement.finished_at - judgement.started_at).total_seconds()
    facts = [
        f"Judged in {seconds:.0f} s on {inline(machine.device, 80)} ({inline(machine.cpu, 80)}, {cores})",
        inline(machine.note) if not machine.quiet else "",
        _link(judgement.run_url),
    ]
    lines = [*_claim(judgement), ", ".join(fact for fact in facts if fact) + "."]
    return "<sub>" + " ".join(lines) + "</sub>"


def _claim(judgement: Judgement) -> Iterator[str]:
    worst = worst_bound(judgement)
    if worst and is_bounded(judgement):
        yield (
            f"{claim_sentence(judgement).removesuffix('.')}; none understates the truth by more than "
            f"{format_us(worst.bound_us)} a call, {format_percent(bound_share(worst))} at worst."
        )
    elif worst or is_unwalled(judgement) or is_self_timed(judgement):
        yield claim_sentence(judgement)


def _link(url: str | None) -> str:
    if not url:
        return ""
    is_harmless = re.fullmatch(r"https://[A-Za-z0-9.-]+(:\d+)?/[A-Za-z0-9/_.-]*", url)
    return f"[run]({url})" if is_harmless else inline(url)


def _log(log: str) -> str:
    return _folded("Log", fence(log, keep_end=True)) if log.strip() else ""


def _folded(summary: str, body: str) -> str:
    # The blank lines make GitHub read the body as Markdown again.
    return f"<details><summary>{summary}</summary>\n\n{body}\n\n</details>"
