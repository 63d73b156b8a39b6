"""What the pages for participants, README.md, AGENTS.md and the help say in numbers is what the code does."""

from harness import __version__
from harness.records import counters, stats
from harness.records.profile import MAX_OPERATIONS
from harness.referee.sampling import STEADY
from harness.task.task_file import Limits
from scripts.bot.report.recording import MAX_FAILURES
from scripts.commands.duel import duel
from scripts.competition.settings import Quotas
from scripts.ledger.description import MAX_CO_AUTHORS, MAX_NOTE
from scripts.pages.submission import JUDGEMENTS_BESIDE
from scripts.standings import profiles
from scripts.standings.case_times import MAX_POOLED
from scripts.standings.provisional import PAUSES
from tests.page_text import ROOT, each_claim, percent, text_of, words

EXPLOITS = ROOT / "tests" / "exploits"
LIMITS, QUOTAS = Limits(), Quotas()
PAIRS = f"{words(stats.MIN_PAIRS)} pairs of runs or more"
CLAIMS = {
    "site/pages/participants.md": [
        f"up to {words(MAX_CO_AUTHORS)} co-authors",
        f"first {MAX_NOTE:,} characters",
        PAIRS,
    ],
    "site/pages/participants-results.md": [
        f"differ by less than {percent(stats.TIE)}",
        f"at least {percent(stats.TIE)} faster",
        f"did not get below ±{percent(STEADY)}",
        f"a file's newest {words(MAX_POOLED)} judgings",
        f"wider than ±{percent(stats.PROVISIONAL)}",
        f"up to {words(len(PAUSES))} times within about a day and a half",
        f"the longest first, at most {counters.MAX_KERNELS}",
        f"at least {percent(profiles._BUSY)}; else latency, and with less than {words(profiles._FEW_WARPS)} of the warps",
        f"a call's first {counters.MAX_LAUNCHES} kernels",
        f"Reports over {counters.MAX_REPORT >> 20} MiB",
    ],
    "site/pages/participants-commands.md": [
        f"at most {MAX_OPERATIONS} rows of operations for each case",
        f"the {counters.MAX_KERNELS} longest kernels",
        f"replays {words(stats.MIN_PAIRS)} pairs",
        f"first {JUDGEMENTS_BESIDE} rows and latest {JUDGEMENTS_BESIDE} records",
    ],
    "site/pages/participants-languages.md": [f"`compile_timeout`, {LIMITS.compile_timeout_s:g} s by default"],
    "README.md": [PAIRS, f"with {len([*EXPLOITS.glob('*.py')])} attacks on the judge"],
    "AGENTS.md": [
        f"(default: {QUOTAS.judgings_per_day} judgings, {QUOTAS.ranked_per_day} of them ranked, "
        f"{QUOTAS.minutes_per_day} minutes of machine time, {QUOTAS.pending} at once, {QUOTAS.file_kib} KiB per file)",
        f"`null` for the {QUOTAS.pending} at once",
        f"Differences below {percent(stats.TIE)}",
    ],
}
"""Parts of sentences that name constants, by file."""


@each_claim(CLAIMS)
def test_a_page_for_participants_has_the_codes_numbers(file, claim):
    assert claim in text_of(file)


def test_calls_of_a_build_and_first_calls_have_the_shares_of_the_build_that_the_page_on_languages_says():
    slow = Limits(case_timeout_s=100.0, compile_timeout_s=120.0)
    assert (LIMITS.building_call_s, LIMITS.first_call_s) == (LIMITS.compile_timeout_s / 2, LIMITS.case_timeout_s)
    assert (slow.building_call_s, slow.first_call_s) == (slow.case_timeout_s, slow.case_timeout_s)
    assert Limits(case_timeout_s=1.0).first_call_s == LIMITS.compile_timeout_s / 4


def test_a_judging_error_is_retried_as_often_as_the_pages_say():
    twice = {2: "twice"}[MAX_FAILURES - 1]
    assert f"judged again {twice}, then by `/rerun`" in text_of("site/pages/participants-results.md")
    assert f"it retries {twice}, then comment `/rerun`" in text_of("AGENTS.md")
    assert f"the bot retries it {twice}" in text_of(".github/ISSUE_TEMPLATE/judging.yml")


def test_the_help_of_duel_names_its_numbers_of_blocks():
    first, *later = stats.DUEL_LOOKS
    (blocks,) = (option for option in duel.params if option.name == "blocks")
    assert f"Default: {first}, then {later[0]}, {later[1]} and {later[2]} while undecided" in blocks.help
    assert f"played {later[-1]} blocks" in " ".join(duel.help.split())


def test_the_page_on_the_command_line_has_the_wheels_version():
    assert f"/pullrank-{__version__}-py3-none-any.whl" in text_of("site/pages/participants-commands.md")


def test_reports_of_profilers_are_kept_for_the_days_that_the_page_and_the_comment_say():
    upload = text_of(".github/workflows/evaluate.yml").partition("name: reports ")[2]
    assert upload.startswith("path: reports retention-days: 7 ")
    assert "keeps the full reports for seven days" in text_of("site/pages/participants-results.md")
    assert "(kept 7 days)" in text_of("scripts/bot/comment/judgement_section.py")


def test_the_reconciler_looks_for_missed_pull_requests_every_fifteen_minutes():
    minutes = text_of(".github/workflows/reconcile.yml").partition('cron: "')[2].split()[0]
    times = [int(minute) for minute in minutes.split(",")]
    assert "every fifteen minutes" in text_of("site/pages/participants.md")
    assert {(later - earlier) % 60 for earlier, later in zip(times, times[1:] + times[:1], strict=True)} == {15}
