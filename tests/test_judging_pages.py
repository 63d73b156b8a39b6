"""What the pages on judging and SECURITY.md say in numbers is what the judge does."""

import math
import re
from datetime import timedelta

from harness.gpu import cuda
from harness.inside import gpu_staging, inner_sandbox, keep_cores_awake
from harness.processes import card_watch, freezer
from harness.processes.other_work import MAX_OTHER_WORK
from harness.records import stats
from harness.referee import sampling, sealed, self_timing
from harness.rules import quiet
from harness.sandbox import bubblewrap, player_handle, warm_parent
from harness.task.task_file import IMPORT_S
from scripts.bot.report.recording import LARGE_BOUND
from scripts.standings.case_times import MAX_POOLED
from scripts.standings.provisional import PAUSES
from scripts.standings.rows import DUEL_TRIES
from tests.page_text import ROOT, each_claim, percent, text_of, words

FIRST, *LATER = stats.DUEL_LOOKS
OUTER = sampling.SAMPLES // 5
"""How many of a run's samples are its fastest fifth."""
ERROR = 1 - stats.CONFIDENCE
"""The error of a duel."""


def minutes(seconds: float) -> str:
    return words(seconds / 60)


SLOWEST = OUTER * 2 + (sampling.SAMPLES - OUTER * 2) / stats.OUTER_WEIGHT
IN_A_ROW = math.ceil(1000 * sum(ERROR / place**2 for place in range(1, 10_000))) / 1000
HOURS = [words(pause / timedelta(hours=1)) for pause in PAUSES]

CLAIMS = {
    "judging": [
        f"at least {words(stats.MIN_PAIRS)} pairs",
        f"its {words(sampling.SAMPLES)} timed calls: the {words(OUTER)} fastest and the {words(OUTER)} slowest",
        f"a weight of 1/{SLOWEST:g}, so all {words(sampling.SAMPLES)} together cannot take more than {SLOWEST:g} times",
        f"the {percent(stats.CONFIDENCE)} interval of the signed-rank test, exact up to {stats._EXACT_PAIRS} pairs",
        f"faster by at least {percent(stats.TIE)}",
        f"the newest {words(MAX_POOLED)} count",
        f"in {words(FIRST)} blocks A-B-B-A",
        f"still open after {words(FIRST)} blocks, the duel goes on to {words(LATER[0])}, {words(LATER[1])} and "
        f"{words(LATER[2])}, if all of it is expected to take at most {minutes(stats.LONGEST_EXTENDED_DUEL_S)} minutes, "
        f"or {words(LATER[-1] / FIRST)} times `ranked_timeout`",
        f"these {words(len(stats.DUEL_LOOKS))} evaluations has an error probability of "
        f"{percent(ERROR / len(stats.DUEL_LOOKS))}, so the duel has at most {percent(ERROR)}",
        f"err in at most {percent(IN_A_ROW)} together",
        f"Duels of {words(FIRST)} blocks do not count",
        f"Each may take {minutes(stats.LONGEST_EXTENDED_DUEL_S)} minutes more",
        f"before {stats.DUE_BLOCKS} blocks, the leader loses",
        f"has failed after more than {minutes(stats.RETRY_S)} minutes, it loses",
        f"requests it up to {words(DUEL_TRIES)} times",
    ],
    "judging-times": [
        f"{words(IMPORT_S)} seconds for its import",
        f"that share is at most {percent(MAX_OTHER_WORK)}",
        f"more than {words(stats.STALL_TIMES)} times the run's median, and {stats.STALL_US / 1000:g} ms longer",
        f"at most {words(quiet.MAX_REPEATS)} disturbed runs",
        f"{minutes(quiet.PATIENCE_S)} minute before one run".replace("one minute", "a minute"),
        f"{minutes(quiet.PATIENCE_IN_ALL_S)} minutes in all",
        f"more than {quiet.MAX_OWN_REPEATS} runs of the anchor and the idle players",
        f"at most {minutes(quiet.SHORT_PATIENCE_IN_ALL_S)} a minute in all",
        f"of which it watches at most {keep_cores_awake._MOST}",
        f"blocks of up to {int(bubblewrap.ENVIRONMENT['MALLOC_MMAP_THRESHOLD_']) >> 20} MiB",
        f"wider than ±{percent(stats.PROVISIONAL)}",
        f"{HOURS[0]} hour after the first judging, {HOURS[1]} hours after the second, a day after the third",
    ],
    "judging-gpu": [
        f"differ by more than {percent(sampling.AGREEMENT)}",
        f"more than {words(LARGE_BOUND)} of a first place's time",
        f"up to {sealed._MOST_CALLS} calls",
        f"at most {sealed._WINDOW_BYTES >> 30} GiB and a {1 / sealed._WINDOW_SHARE:g}nd of the card",
        f"{words(sampling.FULL_WARMUPS)} windows to warm up and {words(sampling.FULL_SAMPLES)} samples, instead of "
        f"{words(sampling.WARMUPS)} and {words(sampling.SAMPLES)}",
        f"all free memory minus {words(card_watch._REFEREES_SHARE)} of the card",
        f"at least {1000 * player_handle._WATCH_S:g} ms apart",
    ],
    "judging-amd": [
        f"{words(self_timing._FACTOR)} times as long as an idle player's, plus a millisecond",
        f"allows {words(self_timing._SHARE)} of that time in addition",
        f"plus {self_timing._SWEEP_SLACK_US / 1000:g} ms",
        f"a kernel of about {gpu_staging._DELAY_US / 1000:g} ms",
        f"overwrites {gpu_staging._FLUSH_BYTES >> 20} MiB",
        f"launches it {words(cuda._SWEEPS)} times and takes the fastest",
    ],
    "judging-programs": [
        f"up to {words(stats.MIN_PAIRS)} more processes",
        f"faster by at least {percent(stats.TIE)}",
    ],
    "SECURITY.md": [
        f"The judge waits {minutes(freezer.TEARDOWN_S)} minutes",
        f"used more than {freezer._WORK_S:g} s of CPU time",
        f"RTE after {words(freezer._PATIENCE_S)} seconds",
        f"Sealing takes seconds, and has {minutes(warm_parent._SEAL_S)} minutes",
        f"RTE after {inner_sandbox._CLOSED_LATER_S:g} s",
        f"the machine's total every {1000 * player_handle._WATCH_S:g} ms",
        f"waits for {minutes(quiet.SHORT_PATIENCE_IN_ALL_S)} a minute in all",
        f"differ by more than {percent(sampling.AGREEMENT)}",
        f"err in at most {percent(IN_A_ROW)} together",
    ],
}
"""Parts of sentences that name constants, by page."""


@each_claim(CLAIMS)
def test_a_page_on_judging_has_the_judges_numbers(file, claim):
    assert claim in text_of(file)


def test_the_third_pause_is_a_day_and_the_slack_of_a_step_a_millisecond():
    assert (PAUSES[2], self_timing._SLACK_US) == (timedelta(days=1), 1000)


def test_the_page_on_times_counts_the_defences_that_tests_turn_off():
    table = (ROOT / "tests" / "test_defences.py").read_text().partition("\nDEFENCES = [\n")[2].partition("\n]")[0]
    assert f"turns {len(re.findall(r'^    Defence', table, re.MULTILINE))} defences off" in text_of("judging-times")
