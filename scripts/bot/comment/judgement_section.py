"""Report one judgement and its rank in a pull request, as Markdown.

    headline        verdict and rank
    failure         the message, if it was not accepted
    place           rank, tie, gap, or why it does not rank; the duel's result
    benchmarks      a table of times, compared with others; or where a call's time went, also as CSV
    tests           a table of failed tests; the others folded
    next            what to do now
    small print     claim and bound, machine
    log             folded

Free text in a judgement may be a participant's: it is put in code (`scripts.common.text`) and cut, so that the whole
fits into the 65,536 characters of a GitHub comment.  Outside of code there are only our own words, numbers, and logins,
which consist of letters, digits and hyphens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

from harness.records.counters import Counters
from harness.records.fields import Mode
from harness.records.judgement import CaseResult, Judgement
from harness.records.profile import Profile
from harness.records.stats import beats, is_provisional
from harness.records.verdict import Verdict
from harness.task.task import Board, Task
from scripts.bot.comment.markdown import MAX_SAID, case_name, first_paragraph, folded, not_shown, run_link, solid, table
from scripts.bot.comment.times_table import MAX_CASES, benchmarks
from scripts.common.text import (
    fence,
    format_error,
    format_factor,
    format_gap,
    format_interval,
    format_percent,
    format_us,
    inline,
)
from scripts.ledger.moderation import REMOVED, Action, Moderation
from scripts.standings.claims import (
    FIRST_PLACE_TAKES,
    bound_share,
    claim_sentence,
    duel_result,
    is_bounded,
    is_self_timed,
    is_unwalled,
    why_lost,
    worst_bound,
)
from scripts.standings.profiles import WORD, cpu_sentences, kernel_table, parts_of, to_csv, troubles_of
from scripts.standings.provisional import provisional_sentence
from scripts.standings.roofline import NO_ROOFLINE, Roofline
from scripts.standings.rows import Row
from scripts.standings.standings import Standings

MAX_PROFILES = 12
MAX_CSV = 12_000
"""Characters of a profile's CSV in a comment."""
_LAMPS = {Verdict.ACCEPTED: "🟢", Verdict.JUDGING_ERROR: "⚪"}

_TO_RANK = "A pull request that is ready for review is ranked."
_NEXT = {
    Mode.TEST: ("A benchmark shows how fast it is.", _TO_RANK),
    Mode.BENCHMARK: ("These times are unofficial.", _TO_RANK),
    Mode.RANKED: ("", "Submit a faster file to improve your row. A slower one changes nothing."),
    Mode.PROFILE: ("A profile does not rank.", _TO_RANK),
}
"""What to do after an accepted judging: at any time, and while the task is open."""


def render(
    judgement: Judgement,
    board: Board,
    standings: Standings | None = None,
    earlier: Sequence[Judgement] = (),
    hidden: Moderation | None = None,
    roofline: Roofline = NO_ROOFLINE,
) -> str:
    """The report.

    Args:
        standings: those that include this judgement; without them there is no rank and nothing to compare with.
        earlier: the author's judgements on this board, in ledger order.
        hidden: the decision that holds or disqualifies this judgement, if there is one.
        roofline: of the board; without it there is no throughput.
    """
    if judgement.edition != board.edition:
        standings = None  # A new edition has started since: there is nothing to compare with.
    place = standings.find_row(judgement.submission.login) if standings and judgement.mode is Mode.RANKED else None
    parts = [
        _headline(judgement, standings, place, hidden),
        _failure(judgement),
        _hidden(hidden, standings, place) if hidden else _place(judgement, standings, place, earlier),
        _duel(judgement, standings, hidden),
        benchmarks(judgement, board, standings, earlier, roofline),
        _profiles(judgement, board, roofline),
        _tests(judgement, board),
        _next(judgement, board.task),
        _small_print(judgement),
        folded("Log", fence(judgement.log, keep_end=True)) if judgement.log.strip() else "",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _headline(judgement: Judgement, standings: Standings | None, place: Row | None, hidden: Moderation | None) -> str:
    verdict = f"{judgement.verdict.label} ({judgement.verdict})"
    if judgement.verdict is Verdict.ACCEPTED and judgement.mode is not Mode.RANKED:
        verdict += f", {judgement.mode} only"
    if hidden:
        verdict += f", {REMOVED[hidden.action]}"
    elif judgement.verdict is Verdict.ACCEPTED and judgement.mode is Mode.RANKED and judgement.baseline:
        verdict += ", a baseline, not ranked"
    elif judgement.verdict is Verdict.ACCEPTED and standings and place and _stands(judgement, place):
        verdict += f", {_rank(place, standings)}"
    return f"### {_LAMPS.get(judgement.verdict, '🔴')} {inline(judgement.task)} on {inline(judgement.gpu)}: {verdict}"


def _failure(judgement: Judgement) -> str:
    """The message, unless a row of the test table shows all of it."""
    message = judgement.message.strip()
    is_short = "\n" not in message and len(message) <= MAX_SAID
    is_said = is_short and message in {case.message.strip() for case in judgement.tests[:MAX_CASES]}
    if judgement.verdict is Verdict.ACCEPTED or not message or is_said:
        return ""
    return fence(message, 2000)


# The place.


def _stands(judgement: Judgement, place: Row) -> bool:
    return place.digest == judgement.submission.digest


_REMOVED = {
    Action.DISQUALIFY: "Disqualified by a maintainer",
    Action.HOLD: "Held for a maintainer's review; it does not rank until then",
    Action.WITHDRAW: "Withdrawn by its author",
}


def _hidden(hidden: Moderation, standings: Standings | None, place: Row | None) -> str:
    what = _REMOVED[hidden.action]
    row = f" Your row without it: {_rank(place, standings)}." if standings and place else ""
    aid = " For maintainers: `PullRank review` among the checks, or `pullrank moderate review FILE`."
    return f"**{what}**: {inline(hidden.reason.removesuffix('.'))}.{row}{aid if hidden.action is Action.HOLD else ''}"


def _rank(place: Row, standings: Standings) -> str:
    return f"rank {place.rank} of {len(standings.rows)}{', provisional' if place.provisional else ''}"


def _place(judgement: Judgement, standings: Standings | None, place: Row | None, earlier: Sequence[Judgement]) -> str:
    if not standings or judgement.mode is not Mode.RANKED or judgement.verdict is not Verdict.ACCEPTED:
        return ""
    if judgement.baseline:
        baseline = standings.find_baseline(judgement)
        time = f": the board shows its time, {format_interval(baseline.score_us)}, without a rank" if baseline else ""
        return f"This is the task's baseline {inline(judgement.baseline)}{time}."
    if not place:
        return "This judgement does not rank" + (
            ": it was judged without a sandbox." if is_unwalled(judgement) else "."
        )
    if not _stands(judgement, place):
        when = "earlier" if place.first_at <= judgement.finished_at else "later"
        return (
            f"Your {when} file {inline(place.digest[:12])} keeps your row, with {format_interval(place.score_us)} and "
            f"{_rank(place, standings)}: {_why_behind(judgement, standings, place, earlier)}"
        )
    pooled = f", over {len(place.judgements)} judgements of this file" if len(place.judgements) > 1 else ""
    rank = f"**{_rank(place, standings).capitalize()}** with {format_interval(place.score_us)}{pooled}"
    if place.provisional:
        return f"{rank}. {provisional_sentence(place.score_us, len(place.judgements))}"
    return f"{rank}; {_gap(place, standings)}."


def _why_behind(judgement: Judgement, standings: Standings, place: Row, earlier: Sequence[Judgement]) -> str:
    """Why a file does not replace its author's earlier one."""
    score_us = standings.scores_us.get(judgement.checksum)
    if score_us and is_provisional(score_us):
        wide = f"the 95 % interval of this file's time is {format_error(score_us)}, too wide to replace it."
        return f"{wide} `/rerun` measures it again."
    ours = (one.duel for one in [*earlier, judgement] if one.submission.digest == judgement.submission.digest)
    lost = [duel for duel in ours if duel and not duel.won]
    if lost and score_us and beats(score_us, place.score_us):
        return f"this file looks faster, but lost its duel with {lost[-1].opponent}."
    return "this file does not beat it by more than 1 % and the noise."


def _gap(place: Row, standings: Standings) -> str:
    if place.champion:
        return "first place"
    if place.note:
        return f"it {place.note}" if place.note.startswith("looks") else f"it is {place.note}"
    first, leader = standings.rows[0], standings.leader_of(place)
    if round(place.gap, 3) < 0:
        faster = format_gap(-place.gap).removeprefix("+")
        return (
            f"it looks {faster} faster than {first.login}, but is tied: first place changes only by more than the noise"
        )
    behind = f"{format_gap(place.gap).removeprefix('+')} behind {first.login}"
    if place.gap >= 1:
        behind = f"{format_factor(1 + place.gap)} the time of {first.login}"
    return behind if leader is place else f"{behind}, tied with {leader.login}"


def _duel(judgement: Judgement, standings: Standings | None, hidden: Moderation | None) -> str:
    if forfeit := judgement.forfeit:
        opponent, result = forfeit.opponent, f"by forfeit, as {forfeit.opponent}'s file failed ({forfeit.verdict})"
    elif duel := judgement.duel:
        opponent, result = duel.opponent, duel_result(duel)
    else:
        return ""
    return f"**Duel with {opponent}**, the leader at that time: {result}. {_outcome(judgement, standings, hidden)}"


def _outcome(judgement: Judgement, standings: Standings | None, hidden: Moderation | None) -> str:
    if judgement.duel and not judgement.duel.won:
        return f"Lost: {why_lost(judgement.duel) or FIRST_PLACE_TAKES}."
    if hidden:
        return "Won, but this does not rank."
    champion = standings.champion if standings else None
    row = standings.find_row(judgement.submission.login) if standings else None
    if row and row.provisional:
        return "Won, but a provisional time cannot take first place: the next judging plays the duel again."
    if not champion or _stands(judgement, champion):
        return "Won: it takes first place."
    if champion is row:
        return "Won: your faster file takes first place."
    undecided = standings.undecided_duels(judgement.submission.login) if standings else 0
    if (duel := judgement.duel) and duel.opponent_digest == champion.digest and duel.earlier < undecided:
        return f"Won, but another duel of yours with {duel.opponent} ended before, undecided: the next one decides."
    return f"Won, but {champion.login} is first now: the duel with {champion.login} decides."


# The cases.


def _profiles(judgement: Judgement, board: Board, roofline: Roofline) -> str:
    profiles = [(case, case.profile) for case in judgement.profiles if case.profile]
    if not profiles:
        return ""
    head = ("Part", "Where", "Calls:", "Time:", "Share:")
    said: list[str] = []
    wanted = [dict(case.params) for case in board.benchmarks]
    for place, (case, one) in enumerate(profiles[:MAX_PROFILES], 1):
        call = f"{case_name(case.kind, case.params)}, one call of {roofline.line(case.params, one.call_us)}"
        said.append(f"{call}:\n\n{table(head, _parts(one))}")
        if one.cpu:
            said.append(cpu_sentences(one.cpu))
        if one.counters and one.counters.kernels:
            number = wanted.index(case.params) + 1 if case.params in wanted else place
            said.append(_kernels(one.counters, number, judgement.run_url))
    troubles = [inline(trouble, 500) for trouble in troubles_of(judgement.profiles)]
    return "\n\n".join([*said, *troubles, WORD, _csv(judgement)])


def _csv(judgement: Judgement) -> str:
    """Operations and kernels, folded; a table that is too long loses its last rows."""
    rows = to_csv(judgement).splitlines()
    lengths = accumulate(len(row) + 1 for row in rows)
    shown = rows[: sum(length <= MAX_CSV for length in lengths)]
    left_out = f", {len(rows) - len(shown)} rows left out" if len(shown) < len(rows) else ""
    return folded(f"Operations and kernels as CSV{left_out}", fence("\n".join(shown), MAX_CSV))


def _kernels(counters: Counters, number: int, run_url: str | None) -> str:
    """The table of the vendor's profiler, and where to find its full report."""
    head, kernels = kernel_table(counters)
    rows = ((inline(name, 80), *map(solid, others)) for name, *others in kernels)
    where = ""
    if counters.report_bytes:
        artifacts = run_link(run_url, "the run's artifacts", "#artifacts") or "the run's artifacts"
        where = f"; the full report is `{counters.report_name(number)}` in `reports`, among {artifacts} (kept 7 days)"
    chosen = f", only the launches of {inline(str(counters.chosen))}" if counters.chosen else ""
    return f"{counters.tool} on one more call{chosen}{where}:\n\n{table(head, rows)}"


def _parts(profile: Profile) -> Iterator[tuple[str, ...]]:
    for part in parts_of(profile):
        calls = "" if part.calls is None else str(part.calls)
        yield inline(part.name, 80), part.where, calls, solid(format_us(part.own_us)), solid(format_percent(part.share))


def _tests(judgement: Judgement, board: Board) -> str:
    """The failed tests, then the accepted ones, folded."""
    right = [case for case in judgement.tests if case.verdict is Verdict.ACCEPTED]
    wrong = [case for case in judgement.tests if case.verdict is not Verdict.ACCEPTED]
    accepted = f"{len(right)} of {len(board.tests)} tests accepted"
    if not right:
        accepted = f"{accepted}." if wrong else ""
    return "\n\n".join(filter(None, [_listed(wrong), folded(accepted, _listed(right)) if right else accepted]))


def _listed(tests: Sequence[CaseResult]) -> str:
    if not tests:
        return ""
    shown = (
        (case_name(case.kind, case.params), f"{case.verdict} {first_paragraph(case.message)}".strip())
        for case in tests[:MAX_CASES]
    )
    return "\n\n".join(filter(None, [table(("Test", "Verdict"), shown), not_shown(len(tests) - MAX_CASES)]))


# The rest.


def _next(judgement: Judgement, task: Task) -> str:
    if judgement.verdict is Verdict.ACCEPTED:
        always, while_open = _NEXT[judgement.mode]
        if judgement.baseline and judgement.mode is Mode.RANKED:
            while_open = "To get a rank, submit a file of your own."
        said = [always, while_open if task.is_open(judgement.finished_at) else ""]
        return f"**Next:** {' '.join(filter(None, said))}" if any(said) else ""
    replay = " Run `pullrank test` to judge a file in the same way on your own machine."
    return f"**Next:** {judgement.verdict.help}{'' if judgement.verdict is Verdict.JUDGING_ERROR else replay}"


def _small_print(judgement: Judgement) -> str:
    machine = judgement.machine
    cores = f"{machine.cores} cores" if machine.cores > 1 else "one core"
    seconds = (judgement.finished_at - judgement.started_at).total_seconds()
    device = "" if machine.device == machine.cpu else f"{inline(machine.device, 80)}, "
    facts = [
        f"Judged in {seconds:.0f} s, of which {judgement.cases[0].seconds:.0f} s for the build, "
        f"on {device}{inline(machine.cpu, 80)}, {cores}",
        inline(machine.note.removesuffix(".")) if not machine.quiet else "",
        run_link(judgement.run_url, "log (kept 90 days)"),
    ]
    lines = [*_claim(judgement), ", ".join(fact for fact in facts if fact) + "."]
    return "<sub>" + " ".join(lines) + "</sub>"


def _claim(judgement: Judgement) -> Iterator[str]:
    worst = worst_bound(judgement)
    if worst and is_bounded(judgement):
        yield (
            f"{claim_sentence(judgement).removesuffix('.')}; none understates the true time by more than "
            f"{format_us(worst.bound_us)} per call, {format_percent(bound_share(worst))} at worst."
        )
    elif worst or is_unwalled(judgement) or is_self_timed(judgement):
        yield claim_sentence(judgement)
