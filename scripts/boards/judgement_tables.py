"""A judgement as tables for a terminal: its tests, its times, its profiles, and what went wrong."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness.records.counters import Counters
from harness.records.judgement import CaseResult, Judgement
from harness.records.profile import Profile
from harness.records.verdict import Verdict
from scripts.common.terminal import case_table, cell, quoting, table, verdict_text
from scripts.common.text import format_error, format_percent, format_us, in_words, plain
from scripts.standings.claims import bound_share, claim_sentence, is_self_timed, is_unwalled
from scripts.standings.profiles import WORD, cpu_sentences, kernel_table, machine_in_words, parts_of, troubles_of
from scripts.standings.roofline import NO_ROOFLINE, Roofline

_LOG_LINES, _FEW_LOG_LINES = 30, 10
"""How much of its output is shown of a file that was not accepted, and of one that was."""


def show(judgement: Judgement, stdout: Console, roofline: Roofline = NO_ROOFLINE) -> None:
    """Print all cases of a judgement, then its verdict and what to do."""
    with quoting(stdout):
        if judgement.tests:
            stdout.print(_tests_table(judgement), "")
        if any(case.timing for case in judgement.benchmarks):
            stdout.print(_benchmarks_table(judgement), "")
        if any(case.told for case in judgement.benchmarks):
            stdout.print(_told_table(judgement), "")
        if rates := [(case.params, str(rate)) for case in judgement.benchmarks if (rate := roofline.of(case))]:
            stdout.print(case_table("Throughput", rates), "")
        if judgement.profiles:
            _show_profiles(judgement, stdout, roofline)
        timed = [case.timing or case.told for case in judgement.benchmarks]
        for note in dict.fromkeys(one.note for one in timed if one and one.note):
            stdout.print(f"Note: {plain(note)}", soft_wrap=True)
        if is_self_timed(judgement):
            stdout.print(claim_sentence(judgement), soft_wrap=True)
        if judgement.verdict is not Verdict.ACCEPTED:
            _show_trouble(judgement, stdout)
        _show_output(judgement, stdout)
    seconds = (judgement.finished_at - judgement.started_at).total_seconds()
    walls = ", without a sandbox: it cannot rank" if is_unwalled(judgement) else ""
    stdout.print(
        verdict_text(judgement.verdict),
        f"{judgement.verdict.label}: {judgement.task} / {judgement.gpu}, {judgement.mode}, in {seconds:.1f} s, "
        f"{judgement.cases[0].seconds:.1f} s of it for the build{walls}",
    )
    if judgement.verdict is not Verdict.ACCEPTED:
        stdout.print(judgement.verdict.help, soft_wrap=True)


def _show_profiles(judgement: Judgement, stdout: Console, roofline: Roofline) -> None:
    for case in judgement.profiles:
        if case.profile:
            call = f"{in_words(case.params)}: {roofline.line(case.params, case.profile.call_us)}"
            stdout.print(Text(plain(call), "bold"), soft_wrap=True)
            stdout.print(_profile_table(case.profile), "")
            if case.profile.cpu:
                stdout.print(f"{cpu_sentences(case.profile.cpu)}\n", soft_wrap=True)
            if case.profile.counters and case.profile.counters.kernels:
                stdout.print(_kernels_table(case, case.profile.counters), "")
    for trouble in troubles_of(judgement.profiles):
        stdout.print(f"Note: {plain(trouble)}", soft_wrap=True)
    stdout.print(f"Profiled on {plain(machine_in_words(judgement.machine))}. {WORD}", soft_wrap=True)


def _tests_table(judgement: Judgement) -> Table:
    made = table("Tests", "", "Case", "Message")
    for case in judgement.tests:
        made.add_row(verdict_text(case.verdict), cell(in_words(case.params)), cell(case.message.partition("\n")[0]))
    return made


def _benchmarks_table(judgement: Judgement) -> Table:
    columns = ("Time", "±", "Anchor", "Speedup", "Bound")
    made = table("Benchmarks", "Case", *columns, right={*columns} - {"Speedup"})
    for case in judgement.benchmarks:
        if timing := case.timing:
            made.add_row(
                cell(in_words(case.params)),
                format_us(timing.submission_us),
                format_error(timing.ratio).removeprefix("±"),
                format_us(timing.anchor_us),
                f"{1 / timing.ratio.value:.2f}×",
                format_percent(bound_share(timing)),
            )
    return made


def _told_table(judgement: Judgement) -> Table:
    columns = ("Time", "±", "Best call", "Worst call", "Calls")
    made = table("Benchmarks, self-timed", "Case", *columns, right=columns)
    for case in judgement.benchmarks:
        if told := case.told:
            made.add_row(
                cell(in_words(case.params)),
                format_us(told.time_us.value),
                format_error(told.time_us).removeprefix("±"),
                format_us(min(run.best_us for run in told.runs)),
                format_us(max(run.worst_us for run in told.runs)),
                str(sum(run.calls for run in told.runs)),
            )
    return made


def _profile_table(profile: Profile) -> Table:
    right = ("Calls", "Time", "Share")
    made = table("", "Part", "Where", *right, right=right)
    for part in parts_of(profile):
        calls = "" if part.calls is None else str(part.calls)
        made.add_row(cell(part.name), part.where, calls, format_us(part.own_us), format_percent(part.share))
    return made


def _kernels_table(case: CaseResult, counters: Counters) -> Table:
    head, rows = kernel_table(counters)
    right = [name.removesuffix(":") for name in head if name.endswith(":")]
    chosen = f", only the launches of {counters.chosen}" if counters.chosen else ""
    made = table(
        f"{in_words(case.params)}: {counters.tool}{chosen}", *(name.removesuffix(":") for name in head), right=right
    )
    for name, *others in rows:
        made.add_row(cell(name), *others)
    return made


def _show_trouble(judgement: Judgement, stdout: Console) -> None:
    """Print what the tables omit: the rest of long messages, each once, and a failed build or benchmark."""
    shown: set[str] = set()
    for case in judgement.tests:
        if "\n" in case.message and case.message not in shown:
            shown.add(case.message)
            stdout.print(cell(f"{in_words(case.params)}: {case.message}"), soft_wrap=True)
    for case in judgement.cases:
        if case.verdict is not Verdict.ACCEPTED and case not in judgement.tests:
            stdout.print(
                verdict_text(case.verdict), cell(f"{case.kind} {in_words(case.params)}".rstrip() + f": {case.message}")
            )


def _show_output(judgement: Judgement, stdout: Console) -> None:
    """Print the end of what the submission has printed."""
    lines = plain(judgement.log).rstrip().splitlines()
    if lines:
        stdout.print("The end of its output:", style="dim")
    for line in lines[-(_FEW_LOG_LINES if judgement.verdict is Verdict.ACCEPTED else _LOG_LINES) :]:
        stdout.print(f"  {line}", soft_wrap=True)
