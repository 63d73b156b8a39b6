"""What the pages for organisers and for runner hosts say in numbers is what the bot, the judge and the workflows do."""

import re
from datetime import timedelta

from benchmarks.check_gpu.command import parse
from harness.gpu import cuda
from harness.processes import card_watch, memory
from harness.rules import quiet
from harness.task_check import judge_examples
from scripts.announce import announce, news, posts_due
from scripts.bot.reconcile import plan
from scripts.bot.report import recording
from scripts.competition.settings import Quotas
from scripts.doctor.runner import GRACE
from scripts.tasks.check_board import TOO_SHORT
from scripts.tasks.check_process import STEP_MINUTES
from tests.page_text import ROOT, each_claim, text_of, words
from tests.test_requests_per_board import CLAIM

SHARES = {3 / 4: "three quarters", 1 / 4: "a quarter"}
TIMES = {1: "once", 2: "twice"}
UPDATE = (ROOT / ".github/runner/update.sh").read_text()
RECONCILE = (ROOT / ".github/workflows/reconcile.yml").read_text()
COOL_DOWN_DAYS = int(re.findall(r"^COOL_DOWN_DAYS=(\d+)", UPDATE, re.MULTILINE)[0])
RUNS_AN_HOUR = len(re.findall(r'cron: "([\d,]+) \* \* \* \*"', RECONCILE)[0].split(","))


def span(time: timedelta | float) -> str:
    """A time, or seconds, in the largest unit that divides it: `two weeks`, `an hour`, `half a minute`."""
    seconds = time.total_seconds() if isinstance(time, timedelta) else time
    if seconds == 30:
        return "half a minute"
    units = {"week": 604_800, "day": 86_400, "hour": 3600, "minute": 60, "second": 1}
    unit = next(name for name, size in units.items() if seconds % size == 0)
    number = seconds / units[unit]
    return f"a{'n' * (unit == 'hour')} {unit}" if number == 1 else f"{words(number)} {unit}s"


CLAIMS = {
    "organisers-app": [
        f"The bot needs {words(CLAIM)} for each board",
        f"enough for {5000 // CLAIM // 10 * 10} boards",
    ],
    "organisers-boards": [
        f"It waits until all boards of the pull request are done, but for {span(plan.MERGE_WAIT)} at most",
        f"the bot tries for {span(plan.LOOK_BACK)}",
        f"closes it after {span(plan.QUIET)} without activity",
        f"the open pull requests of the last {span(plan.LONGEST_LOOK_BACK)}",
    ],
    "organisers-discord": [
        f"or more than {announce.BATCH} messages were due",
        f"older than {span(news.FRESH)} is dropped",
        f"refused this message {words(posts_due.MAX_REFUSALS)} times",
    ],
    "organisers-moderation": [f"bounds to more than {words(recording.LARGE_BOUND)} of them"],
    "organisers-stuck": [
        f"Every {span(timedelta(hours=1) / RUNS_AN_HOUR)}, the bot looks",
        f"every time for {span(plan.OFTEN)}, then every {span(plan.TURNS * plan.TURN)} for "
        f"{span(plan.LONGEST_LOOK_BACK)}, at most {words(plan.MAX_LOST_EVENTS)} in one run",
        f"judged again automatically, up to {words(recording.MAX_FAILURES)} times in all",
        f"and pull requests of the last {span(plan.LONGEST_LOOK_BACK)}",
    ],
    "organisers-tasks": [
        f"no submission gets more than {SHARES[memory._MOST_SHARE]} of it",
        f"the whole card except {SHARES[card_watch._REFEREES_SHARE]}",
        f"in {words(judge_examples._PAIRS)} pairs of runs alongside the anchor",
        f"more than {span(60 * STEP_MINUTES)} for one step",
    ],
    "runner-hosts-upkeep": [
        f"the bot tries it {TIMES[recording.MAX_FAILURES - 1]} more",
        f"waits at most {span(cuda._ANSWER_S)} for it",
        f"has not installed a release within {GRACE.days} days",
        f"that has been out for {span(timedelta(days=COOL_DOWN_DAYS))}",
        f"waits for up to {span(quiet.PATIENCE_S)}, {span(quiet.PATIENCE_IN_ALL_S)} in all",
        f"waits for up to {span(quiet.SHORT_PATIENCE_S)}, {span(quiet.SHORT_PATIENCE_IN_ALL_S)} in all",
        f"After {words(quiet.MAX_REPEATS)} repetitions for a benchmark",
    ],
    "gpu-check": [f"Each stage ends within {span(parse([]).budget)}"],
}
"""Parts of sentences that name constants, by page."""


@each_claim(CLAIMS)
def test_a_page_for_organisers_has_the_numbers_of_the_code(file, claim):
    assert claim in text_of(file)


def test_the_fifth_machine_is_the_first_beyond_the_limit_of_pending_judgings():
    assert "Raise that limit when you add the fifth machine" in text_of("organisers-boards")
    assert Quotas().pending == 4


def test_an_example_of_the_recommended_length_is_not_too_short():
    said = r"should take (\d+) ms or more, since a window itself costs up to ([\d.]+) ms"
    ((length, cost),) = re.findall(said, text_of("organisers-tasks"))
    assert float(cost) / float(length) < TOO_SHORT
