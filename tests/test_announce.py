"""Announcements, on a real ledger branch and a Discord on loopback: each is posted once, whatever fails."""

import itertools
import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from harness.records.fields import Mode
from harness.records.judgement import Claim, Judgement
from harness.task.task import Board, load_task
from scripts.announce import announce, posts_due
from scripts.announce.all_news import gather
from scripts.announce.announce import AnnounceContext
from scripts.announce.discord import DiscordChannel
from scripts.announce.embeds import EmbedContext
from scripts.announce.milestones import notices_of
from scripts.announce.news import NewsKind
from scripts.announce.posts_due import due
from scripts.competition.settings import DEFAULT_WEBHOOK, Announcements
from scripts.competition.settings import Webhook as Channel
from scripts.ledger import branch as ledger_branch
from scripts.ledger.announced import AnnouncementLog, Seen, Started
from scripts.ledger.branch import LedgerBranch
from scripts.ledger.ledger import Ledger, LedgerError
from scripts.ledger.moderation import Action, Moderated, Moderation
from scripts.ledger.names import Choose, under
from scripts.ledger.request import Ending, EndState, Request, make_id
from scripts.pages.parts.site import Site
from scripts.pages.parts.summary import summary_of
from scripts.pages.picture import board_picture
from scripts.pages.publishing.load import boards_of, ranked
from tests import chromium
from tests.discord_page import page
from tests.discord_server import FAULTS, TOKEN, Discord
from tests.test_publish import START, TASK_YML, duel_with, judged, season, task_folder

DEADLINE = datetime(2027, 3, 1, tzinfo=UTC)
SITE = "https://kernels.github.io/cup/"
GPUS: tuple[str, ...] = ("CPU", "H100", "B200", "L4")
MULTI = TASK_YML.replace("size: 4096, seed", "size: 8192, seed")


class Cup:
    """A competition: a task, a ledger branch in a bare repository, and a Discord.

    The repository is a copy of `repository`, if given.
    """

    def __init__(self, folder: Path, discord: Discord, repository: Path | None = None) -> None:
        self.folder, self.discord = folder, discord
        self.repository = folder / "cup.git"
        if repository:
            shutil.copytree(repository, self.repository)
        else:
            subprocess.run(["git", "init", "--quiet", "--bare", "--template=", str(self.repository)], check=True)
        self.tasks = [load_task(task_folder(folder / "tasks"))]
        self.settings = Announcements()
        self.gpus = GPUS
        self.addresses = {DEFAULT_WEBHOOK: discord.add_webhook()}
        self.open: Callable[[Choose], LedgerBranch] = lambda wanted: LedgerBranch(self.url, wanted=wanted)
        self.has_pictures = False
        self.lines: list[str] = []
        self._judged = self._added = 0

    @property
    def url(self) -> str:
        return str(self.repository)

    @property
    def board(self) -> Board:
        return self.tasks[0].board("CPU")

    def judge(self, *judgements: Judgement) -> None:
        with self.adding() as ledger:
            for judgement in judgements:
                self._judged += 1
                ledger.append(judgement, f"r{self._judged}")

    def moderate(self, action: Action, judgement: Judgement, at: datetime) -> None:
        checksum = checksum_of(judgement)
        with self.adding() as ledger:
            ledger.append_fact(
                Moderation(
                    id=f"{action}-{checksum[:8]}-{at:%H%M}",
                    action=action,
                    judgement=checksum,
                    reason="Looks cached.",
                    by=1,
                    at=at,
                )
            )

    @contextmanager
    def adding(self) -> Iterator[Ledger]:
        """An empty ledger; one git process commits what the block appends to it."""
        self._added += 1
        folder = self.folder / "added" / str(self._added)
        folder.mkdir(parents=True)
        yield Ledger(folder)
        commit = [b"commit refs/heads/ledger\ncommitter bot <bot> now\ndata 3\nAdd", b"from refs/heads/ledger^0"]
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            content = path.read_bytes()
            name = path.relative_to(folder).as_posix().encode()
            commit += [b"M 100644 inline " + name, b"data %d" % len(content), content]
        command = ["git", "-C", self.url, "fast-import", "--quiet", "--done", "--date-format=now"]
        subprocess.run(command, input=b"\n".join([*commit, b"done\n"]), check=True)

    def announce(self, now: datetime, **pace: float) -> list[str]:
        """Run `announce` once; returns the lines of its summary."""
        pace = {"timeout_s": 10.0, "patience_s": 0.16} | pace

        def open_webhook(name: str) -> DiscordChannel | None:
            address = self.addresses.get(name)
            return DiscordChannel.at(address, name, "https://github.com/acme/kernels", **pace) if address else None

        context = AnnounceContext(
            settings=self.settings,
            tasks=self.tasks,
            gpus=self.gpus,
            embed_context=EmbedContext(competition="Kernel Cup", site=SITE, find_picture=self.find_picture),
            open_ledger=self.open,
            open_webhook=open_webhook,
            now=now,
        )
        lines: list[str] = []
        for line in announce.run(context):
            lines.append(line)
            self.lines.append(line)
        return lines

    def find_picture(self, task: str, gpu: str) -> str | None:
        return f"{SITE}{task}/{gpu}/og.png" if self.has_pictures else None

    def draw(self) -> dict[str, bytes]:
        """Each board's picture by address, as the site would draw it now."""
        site = Site(title="Kernel Cup", now=DEADLINE + timedelta(days=1), sources=lambda judgement: None, address=SITE)
        with LedgerBranch(self.url) as branch:
            moderated = Moderated.after(branch.ledger.moderations())
            tables = [
                ranked(files, branch.ledger, moderated, judges=site.judges, allow_unwalled=False, now=site.now).table
                for files in boards_of(self.tasks, branch.ledger, [])
            ]
        pictures = (picture for table in tables for picture in board_picture(site, summary_of(site, table)))
        return {f"{SITE}{path}": png for path, png in pictures}

    def told(self) -> dict[str, AnnouncementLog]:
        with LedgerBranch(self.url, wanted=under("announced")) as branch:
            found = branch.ledger.announced()
        assert not found.faults
        return {key: told for (_, key), told in found.told.items()}

    def change_task(self, **changes: Any) -> None:
        self.tasks[0] = replace(self.tasks[0], **changes)


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository whose ledger says that a channel has listened since the day before the season."""
    discord = Discord()
    cup = Cup(tmp_path_factory.mktemp("begun"), discord)
    for name, value in (("receive.autogc", "false"), ("core.fsync", "none")):
        subprocess.run(["git", "-C", cup.url, "config", name, value], check=True)
    cup.announce(START - timedelta(days=1))
    discord.close()
    return cup.repository


@pytest.fixture
def cup(begun: Path, tmp_path: Path, discord: Discord, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cup]:
    """A channel that has listened since the day before the season."""
    monkeypatch.setattr(ledger_branch, "LONGEST_WAIT_S", 0.1)
    made = Cup(tmp_path, discord, begun)
    yield made
    assert TOKEN not in "".join(made.lines), "a token has leaked"
    assert TOKEN.encode() not in _whole_history(made), "a token has leaked"


def _whole_history(cup: Cup) -> bytes:
    """All contents that were ever committed."""
    command = ["git", "-C", cup.url, "cat-file", "--batch-all-objects", "--batch", "--buffer", "--unordered"]
    return subprocess.run(command, capture_output=True, check=True).stdout


def after(judgement: Judgement) -> datetime:
    return judgement.finished_at + timedelta(hours=1)


def checksum_of(judgement: Judgement) -> str:
    return Judgement.from_json(judgement.to_json()).checksum


def only(found: Sequence[Any]) -> Any:
    assert len(found) == 1, found
    return found[0]


# News.


def test_announcements_follow_a_season_and_a_repeated_run_posts_nothing(cup: Cup, discord: Discord) -> None:
    for judgement in season(cup.board):
        cup.judge(judgement)
        cup.announce(after(judgement))
    now = DEADLINE - timedelta(hours=20)
    for _ in range(3):
        cup.announce(now)
    cup.announce(DEADLINE + timedelta(hours=1))
    assert discord.titles() == [
        "ada makes the first entry: Vector addition, CPU",
        "linus is second: Vector addition, CPU",
        "grace takes first place: Vector addition, CPU",
        "edsger takes first place: Vector addition, CPU",
        "barbara is second: Vector addition, CPU",
        "Vector addition is about to close",
        "Vector addition has closed",
    ]
    calls = len(discord.calls)
    assert cup.announce(DEADLINE + timedelta(hours=2)) == [] and len(discord.calls) == calls
    assert all(message.edits == 0 for message in discord.messages)


def test_a_newer_timing_method_changes_no_final_standings_and_is_no_news_of_a_closed_task(
    cup: Cup, discord: Discord
) -> None:
    before = replace(cup.board, method=1)
    cup.judge(*season(before))
    with cup.adding() as ledger:
        ledger.append_fact(Seen(task="vectoradd", gpu="CPU", edition=before.edition, at=START))
    cup.announce(DEADLINE + timedelta(hours=1))
    assert discord.titles() == ["Vector addition has closed"]
    assert "with 6 entries" in discord.messages[0].embed["description"]


def test_a_record_message_names_holder_time_speedup_rival_and_duel(cup: Cup, discord: Discord) -> None:
    cup.has_pictures = True
    ada, _, grace, *_ = season(cup.board)
    cup.judge(ada, grace)
    cup.announce(after(grace))
    embed = discord.messages[-1].embed
    assert embed["author"]["name"] == "New record"
    assert "**211.3 µs ±0.3 %**, speedup 1.52× over ada" in embed["description"]
    assert "Won the duel: speedup 1.52×, ±1.0 %, over 8 interleaved blocks." in embed["description"]
    assert [field["name"] for field in embed["fields"]] == ["🥇 grace", "🥈 ada"]
    assert embed["fields"][1]["value"] == "316.6 µs · +49.8 %"
    assert embed["image"]["url"].startswith(f"{SITE}vectoradd/CPU/og.png?of=")
    assert embed["url"] == f"{SITE}vectoradd/CPU/" and embed["footer"]["text"] == "Kernel Cup"
    assert f"{SITE}vectoradd/CPU/grace/{grace.submission.digest[:12]}/" in embed["description"]


def test_an_improved_record_is_announced_but_an_improved_second_place_is_not(cup: Cup, discord: Discord) -> None:
    ada = judged(cup.board, "ada", 2.0, day=0)
    bob, faster_bob = judged(cup.board, "bob", 1.0, day=0.1), judged(cup.board, "bob", 1.5, day=0.2)
    faster_ada = judged(cup.board, "ada", 3.0, day=0.3)
    cup.judge(ada, bob, faster_bob, faster_ada)
    cup.announce(after(faster_ada))
    assert [title.partition(":")[0] for title in discord.titles()] == [
        "ada makes the first entry", "bob is second", "ada improves the record",
    ]  # fmt: skip
    assert "speedup 1.50× over their own record" in discord.messages[-1].embed["description"]


def test_an_entry_that_looks_faster_but_lost_its_duel_says_so(cup: Cup, discord: Discord) -> None:
    ada = judged(cup.board, "ada", 2.0, day=0)
    bob = judged(cup.board, "bob", 2.1, day=0.1, duel=duel_with(cup.board, ada, 0.995))
    cup.judge(ada, bob)
    cup.announce(after(bob))
    assert "looks faster, but lost its duel with ada" in discord.messages[-1].embed["description"]


def test_an_announcement_marks_a_loosely_bounded_time(cup: Cup, discord: Discord) -> None:
    ada = judged(cup.board, "ada", 2.0, claim=Claim.INSIDE_TIMED)
    cup.judge(ada)
    cup.announce(after(ada))
    assert "only loosely bounded" in only(discord.messages).embed["description"]


def test_a_new_task_and_a_new_edition_are_announced_when_first_seen(cup: Cup, discord: Discord) -> None:
    cup.tasks.append(load_task(task_folder(cup.folder / "tasks", "sort")))
    cup.announce(START)
    embed = only(discord.messages).embed
    assert (embed["author"]["name"], embed["title"]) == ("New task", "Vector addition")
    assert embed["description"] == "Add two vectors of float32."
    assert [field["value"] for field in embed["fields"][:2]] == ["CPU, H100", f"<t:{int(DEADLINE.timestamp())}:F>"]
    cup.tasks[1] = load_task(task_folder(cup.folder / "changed", "sort", MULTI))
    cup.announce(START + timedelta(hours=1))
    cup.announce(START + timedelta(hours=2))
    embed = discord.messages[1].embed
    assert (embed["author"]["name"], embed["title"]) == ("New edition", "Vector addition has changed")
    assert "New, empty standings on CPU, H100: the reference" in embed["description"] and len(discord.messages) == 2


def test_a_board_added_to_a_task_later_is_announced_once(cup: Cup, discord: Discord) -> None:
    more = TASK_YML.replace("H100]", "H100, B200, L4]")
    assert more != TASK_YML
    cup.tasks[0] = load_task(task_folder(cup.folder / "more", yml=more))
    cup.announce(START)
    cup.announce(START + timedelta(hours=1))
    embed = only(discord.messages).embed
    assert (embed["author"]["name"], embed["title"]) == ("New board", "Vector addition, now also on B200, L4")
    assert embed["url"] == f"{SITE}vectoradd/B200/" and embed["fields"][0]["value"] == "B200, L4"
    assert embed["description"] == "Add two vectors of float32."
    few = cup.tasks[0] = load_task(task_folder(cup.folder / "tasks"))
    assert few.gpus == ("CPU", "H100")
    cup.announce(START + timedelta(hours=2))
    assert only(discord.messages).embed["author"]["name"] == "Withdrawn"
    cup.tasks[0] = load_task(task_folder(cup.folder / "more", yml=more))
    cup.announce(START + timedelta(hours=3))
    assert only(discord.messages).embed == embed


def test_a_board_is_announced_only_once_it_has_a_machine(cup: Cup, discord: Discord) -> None:
    cup.gpus = ("CPU",)
    cup.tasks.append(load_task(task_folder(cup.folder / "tasks", "sort")))
    cup.tasks.append(load_task(task_folder(cup.folder / "tasks", "scan", TASK_YML.replace("[CPU, H100]", "[B200]"))))
    cup.announce(START)
    boards = [field["value"] for field in only(discord.messages).embed["fields"] if field["name"] == "Boards"]
    assert boards == ["CPU"] and discord.titles() == ["Vector addition"]
    cup.tasks[1] = load_task(task_folder(cup.folder / "changed", "sort", MULTI))
    cup.announce(START + timedelta(hours=1))
    assert "New, empty standings on CPU: the reference" in discord.messages[1].embed["description"]
    cup.gpus = ("CPU", "H100")
    cup.announce(START + timedelta(hours=2))
    assert discord.titles()[2:] == ["Vector addition, now also on H100"]
    cup.gpus = ("CPU", "H100", "B200")
    cup.announce(START + timedelta(hours=3))
    assert discord.titles()[3:] == ["Vector addition"] and discord.messages[3].embed["url"] == f"{SITE}scan/B200/"


def test_the_last_call_skips_boards_without_a_machine_but_their_podium_stays(cup: Cup, discord: Discord) -> None:
    ada = judged(cup.tasks[0].board("H100"), "ada", 2.0, day=1)
    cup.judge(ada)
    cup.announce(after(ada))
    for cup.gpus, hours in ((("CPU",), -5), (("L4",), 1)):
        cup.announce(DEADLINE + timedelta(hours=hours))
    first, call, final = (message.embed for message in discord.messages)
    assert first["title"].startswith("ada makes the first entry") and call["title"].endswith("is about to close")
    assert [field["value"] for field in call["fields"] if field["name"] == "Boards"] == ["CPU"]
    assert [field["name"] for field in final["fields"]] == ["H100"] and "**ada**" in final["fields"][0]["value"]
    assert discord.messages[0].edits == 0


def test_a_task_without_a_machine_is_not_announced(cup: Cup, discord: Discord) -> None:
    cup.gpus = ("T4",)
    cup.tasks[0] = load_task(task_folder(cup.folder / "tasks", "sort"))
    for hours in (-5, 1):
        cup.announce(DEADLINE + timedelta(hours=hours))
    assert not discord.messages


def test_a_task_is_not_new_after_its_deadline_unless_it_opens_again(cup: Cup, discord: Discord) -> None:
    cup.tasks.append(load_task(task_folder(cup.folder / "tasks", "sort")))
    cup.announce(DEADLINE)
    assert not discord.messages
    cup.tasks[1] = replace(cup.tasks[1], deadline=None)
    cup.announce(DEADLINE + timedelta(hours=1))
    assert only(discord.messages).embed["author"]["name"] == "New task"


def test_a_task_that_closed_without_an_entry_is_announced_only_if_one_is_judged_late(
    cup: Cup, discord: Discord
) -> None:
    cup.announce(DEADLINE + timedelta(minutes=10))
    assert not discord.messages
    cup.judge(judged(cup.board, "bob", 1.0, day=(DEADLINE - START) / timedelta(days=1) + 0.01))
    cup.announce(DEADLINE + timedelta(hours=1))
    assert discord.titles()[0] == "Vector addition has closed"


def test_a_channel_without_its_secret_names_the_workflow_line_to_add(cup: Cup) -> None:
    cup.settings = Announcements(webhooks=(Channel(secret="OTHER"),))
    assert only(cup.announce(START)).endswith("in a line after DISCORD_WEBHOOK: OTHER: ${{ secrets.OTHER }}")


def test_an_edition_that_returns_is_announced_again(cup: Cup, discord: Discord) -> None:
    old = cup.tasks[0]
    for hour, task in enumerate([load_task(task_folder(cup.folder / "changed", yml=MULTI)), old]):
        cup.tasks[0] = task
        cup.announce(START + timedelta(hours=hour))
    assert discord.titles() == ["Vector addition has changed"] * 2


def test_a_new_edition_of_removed_boards_is_not_announced(cup: Cup) -> None:
    anew = [Seen(task="vectoradd", gpu="B200", edition=digit * 64, at=START) for digit in "ab"]
    kept = [one.model_copy(update={"gpu": "CPU"}) for one in anew]
    assert [one.gpus for one in notices_of(cup.tasks[0], kept, GPUS) if one.kind is NewsKind.EDITION] == [("CPU",)]
    assert not [one for one in notices_of(cup.tasks[0], anew, GPUS) if one.kind is NewsKind.EDITION]


def test_a_new_edition_leaves_earlier_messages_unchanged(cup: Cup, discord: Discord) -> None:
    ada = judged(cup.board, "ada", 2.0)
    cup.judge(ada)
    cup.announce(after(ada))
    cup.tasks[0] = load_task(task_folder(cup.folder / "changed", yml=MULTI))
    cup.announce(after(ada) + timedelta(hours=1))
    assert [message.edits for message in discord.messages] == [0, 0]


def test_final_standings_wait_for_open_requests_and_are_corrected_by_later_judgements(
    cup: Cup, discord: Discord
) -> None:
    ada = judged(cup.board, "ada", 2.0, day=1)
    cup.judge(ada)
    cup.announce(after(ada))
    sha = "1" * 40
    request = Request(
        id=make_id(8, sha, "CPU", Mode.RANKED), user_id=7, login="bob", pull_request=8, head_sha=sha, blob_sha=sha,
        task="vectoradd", gpu="CPU", mode=Mode.RANKED, asked_at=DEADLINE - timedelta(minutes=1), asked_by=7,
    )  # fmt: skip
    with cup.adding() as ledger:
        ledger.append_request(request)
    cup.announce(DEADLINE + timedelta(minutes=5))
    assert len(discord.messages) == 1
    with cup.adding() as ledger:
        ledger.append_ending(
            request, Ending(request=request.id, state=EndState.CANCELLED, at=DEADLINE + timedelta(minutes=6))
        )
    cup.announce(DEADLINE + timedelta(minutes=10))
    assert "with 1 entry" in discord.messages[-1].embed["description"]
    late = judged(cup.board, "bob", 1.0, day=(DEADLINE - START) / timedelta(days=1) + 0.01)
    cup.judge(late)
    cup.announce(DEADLINE + timedelta(hours=1))
    final = discord.messages[1]
    assert final.edits == 1 and "**bob**" in final.embed["fields"][0]["value"]


def test_the_final_podium_shows_medals_for_each_board(cup: Cup, discord: Discord) -> None:
    cup.has_pictures = True
    cpu, h100 = (cup.tasks[0].board(gpu) for gpu in ("CPU", "H100"))
    speeds = {"ada": 2.0, "grace": 1.6, "linus": 1.3, "dora": 0.8}
    cup.judge(*(judged(cpu, login, speed, day=n / 10) for n, (login, speed) in enumerate(speeds.items())))
    cup.announce(DEADLINE + timedelta(hours=1))
    final = only(discord.messages).embed
    assert (final["author"]["name"], final["title"]) == ("Final standings", "Vector addition has closed")
    assert final["description"].endswith("with 4 entries.")
    assert [field["name"] for field in final["fields"]] == ["CPU", "H100"] == list(cup.tasks[0].gpus)
    podium, empty = (field["value"] for field in final["fields"])
    assert [line.split(" ")[:2] for line in podium.splitlines()] == [
        ["🥇", "**ada**"], ["🥈", "**grace**"], ["🥉", "**linus**"],
    ]  # fmt: skip
    assert (
        all(re.search(r" · \+\d+\.\d %$", line) for line in podium.splitlines()[1:])
        and "·" not in podium.splitlines()[0]
    )
    assert empty == "There were no entries." and final["image"]["url"].startswith(f"{SITE}vectoradd/{cpu.gpu}/og.png")

    # The first place of the other board, judged late: in the same message, not a new one.
    cup.judge(judged(h100, "grace", 1.5, day=(DEADLINE - START) / timedelta(days=1) + 0.01))
    cup.announce(DEADLINE + timedelta(hours=2))
    final = discord.messages[0]
    assert final.edits == 1 and final.embed["fields"][1]["value"].startswith("🥇 **grace** ")
    assert final.embed["description"].endswith("with 5 entries.")


def test_final_standings_call_no_duel_due_on_a_board_without_a_machine(cup: Cup, discord: Discord) -> None:
    cup.judge(judged(cup.board, "ada", 2.0), judged(cup.board, "bob", 2.4, day=0.1))
    cup.announce(START + timedelta(hours=1))
    cup.gpus = ("H100",)
    cup.announce(DEADLINE + timedelta(hours=1))
    podium = discord.messages[-1].embed["fields"][0]["value"]
    assert "**bob**" in podium and podium.endswith("duel not played")


def test_a_provisional_time_gets_no_announcement_and_no_medal(cup: Cup, discord: Discord) -> None:
    cup.judge(judged(cup.board, "ada", 2.0))
    cup.announce(START + timedelta(hours=1))
    assert only(discord.messages).embed["author"]["name"] == "First entry"
    cup.judge(judged(cup.board, "hedy", 9.0, day=0.1, unsteady=1.6), judged(cup.board, "grace", 1.6, day=0.2))
    cup.announce(DEADLINE + timedelta(hours=1))
    told = [message.embed for message in discord.messages[1:]]
    assert all("hedy" not in json.dumps(embed) for embed in told)
    final = next(embed for embed in told if embed["author"]["name"] == "Final standings")
    assert final["description"].endswith("with 3 entries.")
    assert re.findall(r"(.) \*\*(\w+)\*\*", final["fields"][0]["value"]) == [("🥇", "ada"), ("🥈", "grace")]


def test_a_first_entry_is_announced_once_its_time_is_no_longer_provisional(cup: Cup, discord: Discord) -> None:
    cup.judge(judged(cup.board, "hedy", 2.0, unsteady=1.6, source="x"))
    cup.announce(START + timedelta(hours=1))
    assert not discord.messages
    cup.judge(*(judged(cup.board, "hedy", 2.0, day=0.1 * count, source="x") for count in (1, 2, 3)))
    cup.announce(START + timedelta(hours=9))
    assert only(discord.messages).embed["author"]["name"] == "First entry"


def test_a_winner_removed_after_the_deadline_loses_the_medal_by_edit(cup: Cup, discord: Discord) -> None:
    ada, grace = judged(cup.board, "ada", 2.0), judged(cup.board, "grace", 1.5, day=0.1)
    cup.judge(ada, grace)

    def podium_after(action: Action, hour: int) -> list[str]:
        cup.moderate(action, ada, DEADLINE + timedelta(hours=hour))
        cup.announce(DEADLINE + timedelta(hours=hour, minutes=1))
        return re.findall(r"(.) \*\*(\w+)\*\*", only(discord.messages).embed["fields"][0]["value"])

    cup.announce(DEADLINE + timedelta(minutes=1))
    both = [("🥇", "ada"), ("🥈", "grace")]
    assert podium_after(Action.HOLD, 1) == [("🥇", "grace")]
    assert podium_after(Action.RELEASE, 2) == both
    assert podium_after(Action.DISQUALIFY, 3) == [("🥇", "grace")]
    assert podium_after(Action.RESTORE, 4) == both
    assert discord.messages[0].edits == 4


def test_a_moved_deadline_withdraws_the_last_call_and_posts_a_new_one(cup: Cup, discord: Discord) -> None:
    cup.announce(DEADLINE - timedelta(hours=3))
    cup.change_task(deadline=DEADLINE + timedelta(days=30))
    cup.announce(DEADLINE - timedelta(hours=2))
    assert only(discord.messages).embed["author"]["name"] == "Withdrawn"
    cup.announce(DEADLINE + timedelta(days=29, hours=12))
    assert discord.titles() == ["~~Vector addition is about to close~~", "Vector addition is about to close"]


def test_a_task_that_is_opened_again_takes_its_final_standings_back_until_it_closes(cup: Cup, discord: Discord) -> None:
    ada, *_ = season(cup.board)
    cup.judge(ada)
    cup.announce(DEADLINE + timedelta(hours=1))
    assert discord.titles()[0] == "Vector addition has closed"
    later = DEADLINE + timedelta(days=30)
    cup.change_task(deadline=later)
    cup.announce(DEADLINE + timedelta(hours=2))
    embed = only(discord.messages).embed
    assert embed["title"] == "~~Vector addition has closed~~" and "its deadline" in embed["description"]
    cup.announce(later - timedelta(hours=3))
    cup.announce(later + timedelta(hours=1))
    assert discord.titles()[1:] == ["Vector addition is about to close", "Vector addition has closed"]


# Channels.


def test_a_new_channel_gets_no_earlier_news(cup: Cup, discord: Discord) -> None:
    judgements = season(cup.board)
    cup.judge(*judgements[:3])
    cup.addresses["LATE"] = discord.add_webhook()
    cup.settings = Announcements(webhooks=(Channel(secret="LATE"),))
    lines = cup.announce(after(judgements[2]))
    assert lines == ["LATE: a new channel; it gets news from now on"] and not discord.messages
    cup.judge(judgements[3])
    cup.announce(after(judgements[3]))
    assert discord.titles() == ["edsger takes first place: Vector addition, CPU"]


def test_settings_limit_a_channel_to_tasks_and_switch_off_kinds_of_news(cup: Cup, discord: Discord) -> None:
    cup.addresses["OTHER"] = discord.add_webhook()
    cup.settings = Announcements(
        top_three=False, webhooks=(Channel(secret=DEFAULT_WEBHOOK), Channel(secret="OTHER", tasks=("sort",)))
    )
    cup.announce(START - timedelta(hours=12))
    cup.tasks.append(load_task(task_folder(cup.folder / "tasks", "sort")))
    ada, linus, *_ = season(cup.board)
    cup.judge(ada, linus)
    cup.announce(after(linus))
    other = cup.addresses["OTHER"].rpartition("/webhooks/")[2].partition("/")[0]
    assert [(one.embed["author"]["name"], one.webhook == other) for one in discord.messages] == [
        ("First entry", False), ("New task", False), ("New task", True),
    ]  # fmt: skip


KINDS = {
    "records": {NewsKind.RECORD},
    "top_three": {NewsKind.TOP_THREE},
    "first_entries": {NewsKind.FIRST_ENTRY},
    "new_tasks": {NewsKind.NEW_TASK, NewsKind.NEW_BOARD},
    "deadlines": {NewsKind.DEADLINE, NewsKind.CLOSED},
    "editions": {NewsKind.EDITION},
}
"""By the setting that switches them on."""


def test_each_switch_alone_silences_its_kinds_and_nothing_else(cup: Cup) -> None:
    assert set(KINDS) == set(Announcements.model_fields) - {"webhooks"} and set().union(*KINDS.values()) == set(
        NewsKind
    )
    cup.settings = Announcements(**dict.fromkeys(KINDS, False))
    ada, linus, grace, *_ = season(cup.board)
    cup.judge(ada, linus, grace)
    changes = [SORT_YML.replace(", B200", ""), SORT_YML, SORT_YML.replace("size: 4096", "size: 8192")]
    for hour, yml in enumerate(changes):
        cup.tasks[1:] = [load_task(task_folder(cup.folder / str(hour), "sort", yml))]
        assert cup.announce(START + timedelta(hours=hour)) == [], "nothing is posted"
    with LedgerBranch(cup.url) as branch:
        announced, ledger = branch.ledger.announced(), branch.ledger
        at = [START + timedelta(hours=3), after(linus), after(grace), *(DEADLINE + timedelta(hours=h) for h in (-1, 1))]
        news = [(now, gather(cup.tasks, ledger, announced.seen, now, GPUS)) for now in at]

    def told(**switches: bool) -> set[NewsKind]:
        settings = Announcements(**switches)
        posts = (due(settings.webhooks[0], settings, cup.tasks, all_, announced, now) for now, all_ in news)
        return {post.news.kind for some in posts for post in some if post.news}

    assert told() == set(NewsKind)
    for switch, kinds in KINDS.items():
        assert told(**{switch: False}) == set(NewsKind) - kinds
        assert told(**(dict.fromkeys(KINDS, False) | {switch: True})) == kinds


def test_messages_are_posted_and_corrected_in_a_thread(cup: Cup, discord: Discord) -> None:
    address = cup.addresses[DEFAULT_WEBHOOK]
    cup.addresses = {"RECORDS": f"{address}?thread_id=77", "ALL": address}
    cup.settings = Announcements(webhooks=(Channel(secret="RECORDS"), Channel(secret="ALL")))
    cup.announce(START - timedelta(hours=1))
    ada = judged(cup.board, "ada", 2.0)
    cup.judge(ada)
    cup.announce(after(ada))
    assert [message.thread for message in discord.messages] == ["77", ""]
    cup.moderate(Action.DISQUALIFY, ada, after(ada))
    cup.announce(after(ada) + timedelta(hours=1))
    assert [(one.edits, one.embed["author"]["name"]) for one in discord.messages] == [(1, "Withdrawn")] * 2
    sent = [(call.method, call.query.get("thread_id"), call.query.get("wait")) for call in discord.calls]
    assert sent.count(("POST", ["77"], ["true"])) == 1 and sent.count(("PATCH", ["77"], None)) == 1


def test_a_missing_thread_is_reported_and_no_message_is_in_doubt(cup: Cup, discord: Discord) -> None:
    discord.threads = {"78"}
    cup.addresses[DEFAULT_WEBHOOK] += "?thread_id=77"
    ada = judged(cup.board, "ada", 2.0)
    cup.judge(ada)
    line = only(cup.announce(after(ada)))
    assert "DISCORD_WEBHOOK: there is no such thread" in line and "thread_id=" in line and not discord.messages
    cup.addresses[DEFAULT_WEBHOOK] = cup.addresses[DEFAULT_WEBHOOK].replace("thread_id=77", "thread_id=78")
    cup.announce(after(ada) + timedelta(hours=1))
    assert only(discord.messages).thread == "78" and not any(told.doubtful for told in cup.told().values())


def to_correct_in_an_archived_thread(cup: Cup, discord: Discord) -> tuple[Judgement, Judgement]:
    """The judgement of a message that is no longer true, in an archived thread, and one that is not judged yet."""
    cup.addresses[DEFAULT_WEBHOOK] += "?thread_id=77"
    ada, linus, *_ = season(cup.board)
    cup.judge(ada)
    cup.announce(after(ada))
    discord.archived = {"77"}
    cup.moderate(Action.DISQUALIFY, ada, after(ada))
    return ada, linus


def test_a_message_in_an_archived_thread_is_corrected_once_a_post_has_opened_it(cup: Cup, discord: Discord) -> None:
    ada, linus = to_correct_in_an_archived_thread(cup, discord)
    for hour in (1, 2):
        assert "the thread is archived" in only(cup.announce(after(ada) + timedelta(hours=hour)))
    cup.judge(linus)
    cup.announce(after(linus) + timedelta(hours=3))
    cup.announce(after(linus) + timedelta(hours=4))
    assert [one.embed["author"]["name"] for one in discord.messages] == ["Withdrawn", "First entry"]


def test_corrections_that_cannot_be_made_hold_up_no_news(
    cup: Cup, discord: Discord, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(announce, "BATCH", 1)
    _, linus = to_correct_in_an_archived_thread(cup, discord)
    cup.judge(linus)
    cup.announce(after(linus) + timedelta(hours=1))
    assert len(discord.messages) == 2, "the post comes in the same run, and opens the thread"
    cup.announce(after(linus) + timedelta(hours=2))
    assert discord.messages[0].embed["author"]["name"] == "Withdrawn"


def test_too_many_edits_of_old_messages_hold_up_neither_newer_edits_nor_news(cup: Cup, discord: Discord) -> None:
    ada, linus, grace, *_ = season(cup.board)
    cup.judge(ada, linus)
    cup.announce(after(linus))
    cup.judge(grace)
    discord.old, discord.old_edits = {discord.messages[0].id}, 0
    cup.moderate(Action.DISQUALIFY, ada, after(ada))
    cup.moderate(Action.DISQUALIFY, linus, after(linus))
    lines = cup.announce(after(grace))
    assert "older than 1 hour" in lines[0] and lines[0].endswith("; the next run tries again")
    assert [one.edits for one in discord.messages] == [0, 1, 0], "an edit of a newer message, and a post"
    discord.old_edits = 1
    assert "withdrew" in only(cup.announce(after(grace) + timedelta(hours=1)))


def test_a_forum_without_a_thread_uses_up_no_attempts(cup: Cup, discord: Discord) -> None:
    discord.is_forum = True
    ada = judged(cup.board, "ada", 2.0)
    cup.judge(ada)
    for hour in range(8):
        assert "a forum needs a thread" in only(cup.announce(after(ada) + timedelta(hours=hour)))
    cup.addresses[DEFAULT_WEBHOOK] += "?thread_id=77"
    cup.announce(after(ada) + timedelta(hours=9))
    assert len(discord.messages) == 1


def test_an_edit_that_discord_refuses_is_tried_again(
    cup: Cup, discord: Discord, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada = judged(cup.board, "ada", 2.0)
    cup.judge(ada)
    cup.announce(after(ada))
    cup.moderate(Action.DISQUALIFY, ada, after(ada))
    with monkeypatch.context() as patch:
        patch.setattr(posts_due, "withdrawal_of", lambda *_: {"embeds": []})
        assert "not withdrew" in only(cup.announce(after(ada) + timedelta(hours=1)))
    assert "withdrew" in only(cup.announce(after(ada) + timedelta(hours=2)))


def test_a_missing_secret_is_reported_and_nothing_is_announced(cup: Cup, discord: Discord) -> None:
    cup.addresses.clear()
    line = only(cup.announce(START))
    assert line == "DISCORD_WEBHOOK: there is no such secret, so nothing is announced there"
    assert not discord.calls


def test_news_that_is_too_old_is_not_announced(cup: Cup, discord: Discord) -> None:
    ada, linus, *_ = season(cup.board)
    cup.judge(ada, linus)
    cup.announce(ada.finished_at + timedelta(days=4))
    assert discord.titles() == ["linus is second: Vector addition, CPU"]


def test_a_flood_of_news_is_announced_in_batches(cup: Cup, discord: Discord, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(announce, "BATCH", 2)
    judgements = [judged(cup.board, f"author{n}", 1 + n / 10, day=n / 100) for n in range(3)]
    cup.judge(*judgements)
    assert "1 more; the next run continues" in cup.announce(after(judgements[-1]))[-1]
    cup.announce(after(judgements[-1]))
    assert len(discord.messages) == 3


def test_a_run_that_runs_out_of_time_reports_the_messages_left(
    cup: Cup, discord: Discord, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(announce, "LONGEST_S", -1.0)
    ada = judged(cup.board, "ada", 2.0)
    cup.judge(ada)
    assert cup.announce(after(ada)) == ["DISCORD_WEBHOOK: 1 more; the next run continues"] and not discord.messages


# Corrections.


def test_a_disqualified_record_is_withdrawn_in_place_and_restored_in_place(cup: Cup, discord: Discord) -> None:
    ada, _, grace, *_ = season(cup.board)
    cup.judge(ada, grace)
    cup.announce(after(grace))
    before = json.dumps(discord.messages[0].body)
    cup.moderate(Action.DISQUALIFY, grace, after(grace))
    assert "withdrew record/" in only(cup.announce(after(grace) + timedelta(hours=1)))
    embed = discord.messages[0].embed
    assert embed["title"] == "~~grace takes first place: Vector addition, CPU~~"
    assert embed["author"]["name"] == "Withdrawn" and "image" not in embed and not embed["fields"]
    cup.moderate(Action.RESTORE, grace, after(grace) + timedelta(hours=2))
    cup.announce(after(grace) + timedelta(hours=3))
    assert json.dumps(discord.messages[0].body) == before and len(discord.messages) == 1
    assert cup.announce(after(grace) + timedelta(hours=4)) == []


def test_a_champion_who_withdraws_is_not_said_to_have_lost_first_place(cup: Cup, discord: Discord) -> None:
    ada, _, grace, *_ = season(cup.board)
    cup.judge(ada, grace)
    cup.announce(after(grace))
    cup.moderate(Action.WITHDRAW, grace, after(grace))
    assert "withdrew record/" in only(cup.announce(after(grace) + timedelta(hours=1)))
    embed = only(discord.messages).embed
    assert embed["description"] == "The board's results have changed, so this is no longer true."
    assert "ada" not in json.dumps(embed)


def test_a_held_record_is_withdrawn_until_release_and_for_good_once_disqualified(cup: Cup, discord: Discord) -> None:
    ada, _, grace, *_ = season(cup.board)
    cup.judge(ada, grace)
    cup.announce(after(grace))
    before = json.dumps(discord.messages[0].body)

    def shown_after(action: Action, hour: int) -> tuple[str, int]:
        cup.moderate(action, grace, after(grace) + timedelta(hours=hour))
        cup.announce(after(grace) + timedelta(hours=hour, minutes=1))
        return only(discord.messages).embed["author"]["name"], discord.messages[0].edits

    assert shown_after(Action.HOLD, 1) == ("Withdrawn", 1)
    assert shown_after(Action.RELEASE, 2) == ("New record", 2) and json.dumps(discord.messages[0].body) == before
    assert shown_after(Action.HOLD, 3) == ("Withdrawn", 3)
    assert shown_after(Action.DISQUALIFY, 4) == ("Withdrawn", 3), "already announced"
    assert shown_after(Action.RELEASE, 5) == ("Withdrawn", 3), "a disqualified entry is no news"


def test_a_record_held_before_its_announcement_is_announced_after_release(cup: Cup, discord: Discord) -> None:
    ada, _, grace, *_ = season(cup.board)
    cup.judge(ada, grace)
    cup.moderate(Action.HOLD, grace, grace.finished_at)
    cup.announce(after(grace))
    assert not discord.messages
    later = after(grace) + timedelta(days=5)
    cup.moderate(Action.RELEASE, grace, later)
    cup.announce(later + timedelta(hours=1))
    assert only(discord.titles()) == "grace takes first place: Vector addition, CPU"


def test_a_later_message_stops_naming_a_disqualified_author(cup: Cup, discord: Discord) -> None:
    ada = judged(cup.board, "ada", 1.4, day=0)
    linus = judged(cup.board, "linus", 0.5, day=0.1)
    dora = judged(cup.board, "dora", 0.6, day=0.2)
    cup.has_pictures = True
    cup.judge(ada, linus, dora)
    cup.announce(after(dora))
    before = discord.messages[2].embed["image"]["url"]
    cup.moderate(Action.DISQUALIFY, linus, after(dora))
    cup.announce(after(dora) + timedelta(hours=1))
    assert [message.edits for message in discord.messages] == [0, 1, 1]
    assert discord.messages[2].embed["description"].count("Before: ada.") == 1
    assert discord.messages[2].embed["image"]["url"] != before, "Discord would show the old picture"


def test_messages_drop_a_disqualified_time_even_if_its_author_keeps_the_rank(cup: Cup, discord: Discord) -> None:
    """The time is in the podium of a later message, in the gain of a later record, and in the final standings."""
    ada, better_ada = judged(cup.board, "ada", 2.0, day=0), judged(cup.board, "ada", 3.0, day=0.1)
    bob, better_bob = judged(cup.board, "bob", 1.0, day=0.2), judged(cup.board, "bob", 1.5, day=0.3)
    carol, best_ada = judged(cup.board, "carol", 0.8, day=0.4), judged(cup.board, "ada", 4.0, day=0.5)
    cup.judge(ada, better_ada, bob, better_bob, carol, best_ada)
    cup.announce(after(best_ada))
    cup.announce(DEADLINE + timedelta(hours=1))
    of_carol, of_ada, final = discord.messages[3:]
    assert of_carol.embed["title"].startswith("carol is third") and final.embed["title"].endswith("has closed")

    def gone(judgement: Judgement, hour: int) -> list[tuple[str, str]]:
        """How often the three messages had such fields and words before."""
        before = [(one.embed["description"], str(one.embed["fields"])) for one in (of_carol, of_ada, final)]
        cup.moderate(Action.DISQUALIFY, judgement, DEADLINE + timedelta(hours=hour))
        cup.announce(DEADLINE + timedelta(hours=hour, minutes=1))
        return before

    (_, podium), (_, of_record), (_, end) = gone(better_bob, 2)
    for message, old in ((of_carol, podium), (of_ada, of_record), (final, end)):
        assert "bob" in old and str(message.embed["fields"]) != old
    _, (words, _), _ = gone(better_ada, 3)
    assert (
        "speedup 1.33× over their own record" in words
        and "speedup 2.00× over their own record" in of_ada.embed["description"]
    )
    assert final.edits == 1, "her best is a different file"


def test_final_standings_recount_entries_when_one_below_the_podium_is_disqualified(cup: Cup, discord: Discord) -> None:
    four = [judged(cup.board, login, 2 - n / 10, day=n / 10) for n, login in enumerate(("ada", "bob", "carol", "dan"))]
    cup.judge(*four)
    cup.announce(DEADLINE + timedelta(hours=1))
    assert "with 4 entries" in only(discord.messages).embed["description"]
    cup.moderate(Action.DISQUALIFY, four[3], DEADLINE + timedelta(hours=2))
    cup.announce(DEADLINE + timedelta(hours=3))
    assert "with 3 entries" in only(discord.messages).embed["description"]


def test_drifting_times_edit_no_message(cup: Cup, discord: Discord) -> None:
    judgements = season(cup.board)
    cup.judge(*judgements[:2])
    cup.announce(after(judgements[1]))
    cup.judge(judged(cup.board, "slow", 0.2, day=3))
    cup.announce(after(judgements[1]) + timedelta(days=1, hours=1))
    assert [message.edits for message in discord.messages[:2]] == [0, 0]


def test_a_deleted_message_is_not_edited_twice(cup: Cup, discord: Discord) -> None:
    ada, _, grace, *_ = season(cup.board)
    cup.judge(ada, grace)
    cup.announce(after(grace))
    discord.messages.pop()
    cup.moderate(Action.DISQUALIFY, grace, after(grace))
    assert "the message was deleted on Discord" in only(cup.announce(after(grace) + timedelta(hours=1)))
    assert cup.announce(after(grace) + timedelta(hours=2)) == []


# Failures.


def assert_converged(cup: Cup, discord: Discord, wanted: set[str], now: datetime) -> None:
    """After two clean runs: no message twice, at most one missing, and a summary named it as doubtful."""
    for minutes in (10, 20):
        cup.announce(now + timedelta(minutes=minutes))
    titles = discord.titles()
    assert len(titles) == len(set(titles)), titles
    doubts = [key for key, told in cup.told().items() if told.doubtful]
    assert len(doubts) <= 1
    missing = wanted - set(titles)
    assert set(titles) <= wanted and len(missing) <= len(doubts)
    for key in doubts:
        assert any(key in line and "doubt" in line for line in cup.lines)
    assert not [key for key, told in cup.told().items() if told.lost]


@pytest.fixture
def due_now(cup: Cup) -> tuple[set[str], datetime]:
    """Three messages are due."""
    ada, linus, grace, *_ = season(cup.board)
    linus, grace = (
        judged(cup.board, "linus", 0.5, day=0.1),
        judged(cup.board, "grace", 2.1, day=0.2, duel=duel_with(cup.board, ada, 0.66)),
    )
    cup.judge(ada, linus, grace)
    return {
        "ada makes the first entry: Vector addition, CPU",
        "linus is second: Vector addition, CPU",
        "grace takes first place: Vector addition, CPU",
    }, after(grace)


@pytest.mark.parametrize(
    ("fault", "call"), [*((fault, 1) for fault in FAULTS), ("500 after", 3), ("drop before", 2), ("drop after", 0)]
)
def test_a_failing_call_never_posts_a_message_twice(
    cup: Cup, discord: Discord, due_now: tuple[set[str], datetime], fault: str, call: int
) -> None:
    wanted, now = due_now
    discord.hang_s = 1.5
    discord.faults = [*[""] * call, fault]
    cup.announce(now, **({"timeout_s": 1.0} if fault.startswith("hang") else {}))
    assert_converged(cup, discord, wanted, now)
    may_be_lost = fault.startswith(("5", "drop", "hang", "garbled")) and fault != "503" and call > 0
    assert any("In doubt" in line for line in cup.lines) == may_be_lost
    assert (set(discord.titles()) == wanted) == (not may_be_lost or fault.endswith("after"))


@pytest.mark.parametrize("fault", ["429", "502 after", "drop before"])
def test_a_failed_edit_is_retried_until_it_succeeds(cup: Cup, discord: Discord, fault: str) -> None:
    ada, _, grace, *_ = season(cup.board)
    cup.judge(ada, grace)
    cup.announce(after(grace))
    cup.moderate(Action.DISQUALIFY, grace, after(grace))
    discord.faults = ["", fault, fault]
    cup.announce(after(grace) + timedelta(hours=1))
    assert discord.messages[-1].embed["author"]["name"] == "Withdrawn"
    assert cup.announce(after(grace) + timedelta(hours=2)) == []


@pytest.mark.parametrize("fault", ["429", "500 before", "drop before"])
def test_an_outage_of_discord_is_retried_and_leaves_nothing_in_doubt(
    cup: Cup, discord: Discord, due_now: tuple[set[str], datetime], fault: str
) -> None:
    wanted, now = due_now
    discord.faults = [fault] * 100
    line = cup.announce(now)[-1]
    assert "5 times; the next run continues" in line and len(discord.calls) == 5
    discord.faults = []
    cup.announce(now + timedelta(hours=1))
    assert set(discord.titles()) == wanted and not any(told.doubtful for told in cup.told().values())


def test_the_announcer_waits_out_a_short_rate_limit(
    cup: Cup, discord: Discord, due_now: tuple[set[str], datetime]
) -> None:
    wanted, now = due_now
    discord.asks_to_wait_s = 0.3
    discord.faults = ["", "", "429", "", "429 html"]
    cup.announce(now, patience_s=5.0)
    assert set(discord.titles()) == wanted
    posts = [call for call in discord.calls if call.method == "POST"]
    assert [call.fault for call in posts] == ["", "429", "", "429 html", ""]
    waits_s = [after.at - before.at for before, after in itertools.pairwise(posts) if before.fault]
    assert min(waits_s) >= discord.asks_to_wait_s


@pytest.mark.parametrize("asks_s", [10**400, None, "soon"], ids=["a huge one", "none", "a word"])
def test_the_header_of_a_rate_limit_counts_if_its_body_has_no_usable_wait(
    cup: Cup, discord: Discord, due_now: tuple[set[str], datetime], asks_s: Any
) -> None:
    wanted, now = due_now
    discord.asks_to_wait_s = asks_s
    discord.faults = ["", "", "429"]
    cup.announce(now, patience_s=5.0)
    assert set(discord.titles()) == wanted


def test_a_long_rate_limit_is_left_to_the_next_run(
    cup: Cup, discord: Discord, due_now: tuple[set[str], datetime]
) -> None:
    wanted, now = due_now
    discord.limit, discord.per_s = 1, 3600
    lines = cup.announce(now)
    assert len(discord.messages) == 1 and "asks to wait 3600 s, so the next run continues" in lines[-1]
    discord.limit = 100
    cup.announce(now + timedelta(minutes=5))
    assert set(discord.titles()) == wanted and not any(told.doubtful for told in cup.told().values())


def test_no_message_is_given_up_during_a_long_outage(
    cup: Cup, discord: Discord, due_now: tuple[set[str], datetime]
) -> None:
    wanted, now = due_now
    discord.limit, discord.per_s = 1, 3600
    for minute in range(posts_due.MAX_REFUSALS + 1):
        assert "the next run continues" in cup.announce(now + timedelta(minutes=minute))[-1]
    discord.limit, discord.threads = 100, set()
    cup.addresses[DEFAULT_WEBHOOK] += "?thread_id=77"
    for minute in range(posts_due.MAX_REFUSALS + 1):
        assert "there is no such thread" in only(cup.announce(now + timedelta(minutes=30 + minute)))
    discord.threads = None
    cup.announce(now + timedelta(hours=1))
    assert set(discord.titles()) == wanted and len(discord.messages) == len(wanted)


def test_a_deleted_webhook_is_reported_and_other_channels_still_get_news(
    cup: Cup, discord: Discord, due_now: tuple[set[str], datetime]
) -> None:
    wanted, now = due_now
    cup.addresses["OTHER"] = discord.add_webhook()
    cup.settings = Announcements(webhooks=(Channel(secret=DEFAULT_WEBHOOK), Channel(secret="OTHER")))
    with cup.adding() as ledger:
        ledger.append_fact(Started(channel="OTHER", at=START - timedelta(days=1)))
    del discord.webhooks[next(iter(discord.webhooks))]
    lines = cup.announce(now)
    assert "put a new one into the secret DISCORD_WEBHOOK (404 Unknown Webhook)" in lines[0]
    assert set(discord.titles()) == wanted
    cup.addresses[DEFAULT_WEBHOOK] = discord.add_webhook()
    cup.announce(now + timedelta(hours=1))
    assert len(discord.messages) == 6


def test_a_refused_message_holds_up_no_other_and_is_finally_given_up(
    cup: Cup, discord: Discord, due_now: tuple[set[str], datetime], monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted, now = due_now
    real = posts_due.payload_of
    monkeypatch.setattr(
        posts_due,
        "payload_of",
        lambda news, context: {"embeds": []} if "linus" in str(news.facts[3]) else real(news, context),
    )
    for hour in range(8):
        lines = cup.announce(now + timedelta(hours=hour))
        assert bool(lines) == (hour < posts_due.MAX_REFUSALS)
        given_up = "given up after 5 attempts: announce it yourself" in "".join(lines)
        assert given_up == (hour == posts_due.MAX_REFUSALS - 1)
    assert set(discord.titles()) == {title for title in wanted if "linus" not in title}


class Struck(BaseException):
    """The machine goes away during a run."""


class Failing(LedgerBranch):
    """A branch where something happens at the nth commit, before or after its push."""

    left = 0
    after = False
    error: BaseException = Struck()

    def commit(self, message: str) -> tuple[Path, ...]:
        Failing.left -= 1
        if Failing.left == 0 and not self.after:
            raise self.error
        standing = super().commit(message)
        if Failing.left == 0:
            raise self.error
        return standing


GONE = LedgerError("the network is gone")


@pytest.mark.parametrize(
    ("commit", "is_after", "error"),
    [
        *((commit, is_after, Struck()) for commit in (2, 3, 5) for is_after in (False, True)),
        *((commit, False, GONE) for commit in (1, 3)),
    ],
)
def test_a_run_that_ends_at_any_commit_is_continued_without_repeats(
    cup: Cup,
    discord: Discord,
    due_now: tuple[set[str], datetime],
    commit: int,
    is_after: bool,
    error: BaseException,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wanted, now = due_now
    clean = cup.open
    monkeypatch.setattr(Failing, "left", commit)
    monkeypatch.setattr(Failing, "after", is_after)
    monkeypatch.setattr(Failing, "error", error)
    cup.open = lambda choice: Failing(cup.url, wanted=choice)
    with suppress(Struck, LedgerError):
        cup.announce(now)
    assert Failing.left <= 0
    cup.open = clean
    assert_converged(cup, discord, wanted, now)


@pytest.mark.parametrize("is_after", [False, True])
@pytest.mark.parametrize("call", [1, 2, 4])
def test_a_run_that_ends_at_any_discord_call_is_continued_without_repeats(
    cup: Cup, discord: Discord, due_now: tuple[set[str], datetime], call: int, is_after: bool
) -> None:
    """Call 1 checks that the webhook exists, calls 2 to 4 post."""
    wanted, now = due_now
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DiscordChannel, "_try", struck_at(call, DiscordChannel._try, is_after=is_after))
        with pytest.raises(Struck):
            cup.announce(now)
    posted = call - 2 + is_after if call > 1 else 0
    assert len(discord.messages) == posted
    assert_converged(cup, discord, wanted, now)
    assert any("In doubt" in line for line in cup.lines) == (call > 1)
    assert len(discord.messages) == len(wanted) - (call > 1 and not is_after)


@pytest.mark.parametrize("is_after", [False, True])
def test_the_next_run_completes_an_interrupted_correction(cup: Cup, discord: Discord, is_after: bool) -> None:
    ada = judged(cup.board, "ada", 2.0)
    cup.judge(ada)
    cup.announce(after(ada))
    cup.moderate(Action.DISQUALIFY, ada, after(ada))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DiscordChannel, "_try", struck_at(2, DiscordChannel._try, is_after=is_after))
        with pytest.raises(Struck):
            cup.announce(after(ada) + timedelta(hours=1))
    cup.announce(after(ada) + timedelta(hours=2))
    assert only(discord.messages).embed["author"]["name"] == "Withdrawn"
    assert cup.announce(after(ada) + timedelta(hours=3)) == []


def struck_at(call: int, method: Callable[..., Any], *, is_after: bool) -> Callable[..., Any]:
    """A method whose nth call ends with the machine, before or after it takes effect."""
    calls = itertools.count(1)

    def wrapped(*words: Any) -> Any:
        is_last = next(calls) == call
        if is_last and not is_after:
            raise Struck
        answer = method(*words)
        if is_last:
            raise Struck
        return answer

    return wrapped


def test_two_concurrent_runs_post_each_message_once(
    cup: Cup, discord: Discord, due_now: tuple[set[str], datetime]
) -> None:
    """The second run reads the ledger before the first writes to it."""
    wanted, now = due_now
    clean = cup.open

    def late(choice: Choose) -> LedgerBranch:
        branch = clean(choice)
        enter = branch.__enter__

        def entered() -> LedgerBranch:
            made = enter()
            cup.open = clean
            cup.announce(now)
            return made

        return _Entered(branch, entered)  # type: ignore[return-value]

    cup.open = late
    lines = cup.announce(now)
    assert len([line for line in lines if "another run announces it" in line]) == 3
    assert sorted(discord.titles()) == sorted(wanted)


class _Entered:
    def __init__(self, branch: LedgerBranch, entered: Callable[[], LedgerBranch]) -> None:
        self.branch, self.entered = branch, entered

    def __enter__(self) -> LedgerBranch:
        return self.entered()

    def __exit__(self, *what: Any) -> None:
        self.branch.__exit__(*what)


def test_an_unreadable_intent_still_counts_as_an_intent(cup: Cup, discord: Discord) -> None:
    ada = judged(cup.board, "ada", 2.0)
    cup.judge(ada)
    key = f"first-entry/vectoradd/CPU/{checksum_of(ada)[:16]}"
    with cup.adding() as ledger:
        torn = ledger.path / "announced" / DEFAULT_WEBHOOK / key / "1.intent.json"
        torn.parent.mkdir(parents=True)
        torn.write_text('{"format": "pullrank-ann')
    assert "left out" in only(cup.announce(after(ada))) and not discord.messages


# Rendered.


def one_of_each(folder: Path) -> tuple[list[dict[str, Any]], dict[str, bytes]]:
    """A message of each kind and a withdrawn one, as Discord received them, and their pictures by address."""
    pictures: dict[str, bytes] = {}
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    discord = Discord()
    try:
        cup = Cup(folder, discord)
        cup.has_pictures = True

        def announce_now(now: datetime) -> None:
            """Run `announce`; Discord fetches a picture once, when its message is posted."""
            cup.announce(now)
            images = [message.embed.get("image") for message in discord.messages]
            if new := [image["url"] for image in images if image and image["url"] not in pictures]:
                drawn = cup.draw()
                pictures.update((url, drawn[url.partition("?")[0]]) for url in new)

        announce_now(START - timedelta(days=1))
        cup.tasks.append(load_task(task_folder(folder / "tasks", "sort", SORT_YML.replace(", B200", ""))))
        announce_now(START - timedelta(hours=1))
        cup.tasks[1] = load_task(task_folder(folder / "more", "sort", SORT_YML))
        announce_now(START - timedelta(minutes=30))
        for judgement in season(cup.board):
            cup.judge(judgement)
            announce_now(after(judgement))
        announce_now(DEADLINE - timedelta(hours=23, minutes=40))
        announce_now(DEADLINE + timedelta(hours=1))
        cup.tasks[1] = load_task(task_folder(folder / "changed", "sort", SORT_YML.replace("size: 4096", "size: 8192")))
        announce_now(DEADLINE + timedelta(hours=2))
        cup.moderate(Action.DISQUALIFY, season(cup.board)[4], DEADLINE)
        announce_now(DEADLINE + timedelta(hours=3))
        return [message.body for message in discord.messages], pictures
    finally:
        discord.close()
        shutil.rmtree(folder)


SORT_YML = """\
title: Sort 64-bit keys
description: Sort `size` random 64-bit keys in ascending order. Any algorithm counts; the result is compared bit by bit.
gpus: [CPU, H100, B200]
deadline: 2027-06-01T00:00:00Z
templates: {Python: template.py}
tests: [{size: 127, seed: 4242}]
benchmarks: [{size: 4096, seed: 2146}]
"""


def test_each_kind_of_message_fits_discords_layout(tmp_path: Path) -> None:
    """Within Discord's width, nothing is cut off or overlaps; `make announcements` shows it."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
    if not chromium.PROGRAM:
        pytest.skip(chromium.MISSING)
    bodies, pictures = one_of_each(tmp_path / "cup")
    kinds = {body["embeds"][0]["author"]["name"] for body in bodies}
    assert kinds == {
        "New task", "New board", "First entry", "Top three", "New record", "Withdrawn", "Last call", "Final standings", "New edition",
    }  # fmt: skip
    (tmp_path / "page.html").write_text(page(bodies, pictures=pictures), encoding="utf-8")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium.PROGRAM, args=chromium.FLAGS)
        for width in (390, 1200):
            shown = browser.new_page(viewport={"width": width, "height": 900})
            shown.goto((tmp_path / "page.html").as_uri())
            assert shown.evaluate("document.documentElement.scrollWidth") <= width
            assert shown.locator(".embed").count() == len(bodies)
            assert shown.evaluate(SPILLS) == []
            assert shown.evaluate(WIDTHS) == [1200] * sum("image" in body["embeds"][0] for body in bodies)
        browser.close()


WIDTHS = """() => [...document.querySelectorAll(".image")].map(one => one.naturalWidth)"""
"""The widths of the pictures; a box has none."""

SPILLS = """() => [...document.querySelectorAll(".embed *")].filter(one => {
  const inside = one.closest(".embed").getBoundingClientRect(), box = one.getBoundingClientRect();
  return box.right > inside.right + 1 || box.bottom > inside.bottom + 1 || one.scrollWidth > one.clientWidth + 1 && one.clientWidth;
}).map(one => one.outerHTML.slice(0, 200))"""
