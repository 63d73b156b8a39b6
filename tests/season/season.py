"""A fictional season: tasks, thousands of valid judgements, duels, ties, editions, closed boards.

    make_season(folder, size, seed)
      tasks of this repository, on five GPUs          folder/tasks/
      authors, each with files that improve           folder/submissions/, the newest of each
      judgements in the real format                   folder/ledger/

It is for tests and previews of the site, and for measuring how long it takes to build.  The same seed gives the same
bytes.  Nothing is measured, and every login is made up.
"""

from __future__ import annotations

import random
import re
import shutil
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from harness.records.errors import PullRankError
from harness.records.judgement import Judgement
from harness.task.submission import read_directives
from harness.task.task import Task, load_task
from scripts.competition.repository import TASKS
from scripts.competition.settings import SETTINGS, Settings, load_settings
from scripts.ledger.ledger import Ledger
from tests.season.cast import GPUS, MadeUpFile, MadeUpKernel, logins, settings_yml
from tests.season.stage import BoardSeason

NOTICE = "Everything here is made up: the authors do not exist, and nothing was measured."
START = datetime(2026, 8, 24, 7, 30, tzinfo=UTC)
LENGTH = timedelta(days=89)
END = START + timedelta(days=90)
"""The build time of its site, later than everything in it, so that the same season gives the same pages."""
_PLAYED = ("matmul", "softmax", "attention", "prefixsum", "rmsnorm", "vectoradd", "histogram", "conv2d")
_CLOSES_AFTER_DAYS = (210, 150, 120, 104, 130, 60, 45, None)
_ORGANISER, _BASELINES_AT = "made-up-organiser", 0.2
"""Who submits the tasks' baselines, and after which share of the season."""
_JUDGED_AGAIN = 0.12
"""The probability that an author submits the same file again."""


@dataclass(frozen=True, kw_only=True)
class Size:
    """The size of a season; `judgements` is the total of all boards."""

    tasks: int = 8
    gpus: int = 5
    authors: int = 300
    judgements: int = 20_000

    @property
    def played_on(self) -> tuple[str, ...]:
        """The GPUs of the season, and the CPU."""
        return (*GPUS[: self.gpus - 1], GPUS[-1])


@dataclass(frozen=True, kw_only=True)
class Season:
    """A fictional season.  `sources` has all files that were ever judged, by digest."""

    tasks: tuple[Task, ...]
    ledger: Ledger
    settings: Settings
    sources: dict[str, str]

    def source_of(self, judgement: Judgement) -> str | None:
        return self.sources.get(judgement.submission.digest)


@dataclass(kw_only=True)
class _MadeUpAuthor:
    login: str
    user_id: int
    skill: float
    zeal: float
    gpus: tuple[str, ...]
    kernels: dict[str, MadeUpKernel] = field(default_factory=dict)
    files: dict[str, list[MadeUpFile]] = field(default_factory=dict)


def make_season(folder: Path, size: Size | None = None, seed: int = 1) -> Season:
    """Make a season in `folder`.

    Raises:
        PullRankError: `folder` is not empty.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise PullRankError(f"{folder} is not empty; choose an empty or new folder for the season")
    size, dice = size or Size(), random.Random(seed)
    (folder / "ledger").mkdir(parents=True, exist_ok=True)
    (folder / SETTINGS).parent.mkdir()
    (folder / SETTINGS).write_text(settings_yml(size.played_on))
    settings = load_settings(folder / SETTINGS)
    tasks = tuple(_copy_task(folder, index, size) for index in range(min(size.tasks, len(_PLAYED))))
    authors = [_new_author(login, index, size, dice) for index, login in enumerate(logins(size.authors, dice), start=1)]
    season = Season(tasks=tasks, ledger=Ledger(folder / "ledger"), settings=settings, sources={})
    for index, task in enumerate(tasks):
        _play(season, task, authors, size.judgements // len(tasks), random.Random(f"{seed} {task.name}"), index)
    _write_submissions(folder, tasks, authors)
    return season


def _copy_task(folder: Path, index: int, size: Size) -> Task:
    name, days = _PLAYED[index], _CLOSES_AFTER_DAYS[index]
    shutil.copytree(TASKS / name, folder / "tasks" / name)
    path = folder / "tasks" / name / "task.yml"
    closes = f"\ndeadline: {START + timedelta(days=days):%Y-%m-%dT18:00:00Z}" if days else ""
    path.write_text(re.sub(r"^gpus:.*$", rf"\g<0>{closes}", path.read_text("utf-8"), count=1, flags=re.M), "utf-8")
    return load_task(path.parent).on(size.played_on)


def _new_author(login: str, index: int, size: Size, dice: random.Random) -> _MadeUpAuthor:
    gpus = tuple(gpu for gpu in size.played_on if dice.random() < 0.55) or size.played_on[:1]
    skill = dice.betavariate(4.5, 1.6)
    return _MadeUpAuthor(login=login, user_id=9_000_000 + index, skill=skill, zeal=dice.paretovariate(1.3), gpus=gpus)


def _write_submissions(folder: Path, tasks: tuple[Task, ...], authors: list[_MadeUpAuthor]) -> None:
    for task in tasks:
        for author in authors:
            if files := author.files.get(task.name):
                path = folder / "submissions" / task.name / author.login / task.submission_name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(files[-1].text, "utf-8")


# One task's season.


def _play(
    season: Season, task: Task, authors: list[_MadeUpAuthor], wanted: int, dice: random.Random, index: int
) -> None:
    stages = {board.gpu: BoardSeason(season.settings, board, began_anew=index == 1) for board in task.boards}
    if index == len(_PLAYED) - 1:
        stages.pop(GPUS[-1], None)  # This board has no entries.
    end = min(LENGTH, timedelta(days=_CLOSES_AFTER_DAYS[index] or LENGTH.days))
    for number, baseline in enumerate(task.baselines, start=1):
        file = MadeUpFile(
            login=_ORGANISER, user_id=9_000_000, number=number, text=baseline.path.read_text("utf-8"),
            language="PyTorch", quality=0.4 + 0.1 * number,
        )  # fmt: skip
        season.sources[file.digest] = file.text
        only = read_directives(file.text).gpus
        for gpu, stage in ((gpu, stage) for gpu, stage in stages.items() if not only or gpu in only):
            judgement = stage.judge(file, START + end * _BASELINES_AT, _BASELINES_AT, baseline=baseline.name)
            season.ledger.append(judgement, f"baseline-{number}-{gpu}")
    for number, moment in enumerate(_moments(authors, wanted, dice), start=1):
        author = dice.choices(authors, [one.zeal for one in authors])[0]
        file = _next_file(author, task, number, moment, dice)
        season.sources.setdefault(file.digest, file.text)
        for gpu in (gpu for gpu in author.gpus if gpu in stages):
            at = START + end * moment + timedelta(minutes=3 * GPUS.index(gpu))
            season.ledger.append(stages[gpu].judge(file, at, moment), f"{file.number}-{number}-{gpu}")


def _moments(authors: list[_MadeUpAuthor], wanted: int, dice: random.Random) -> list[float]:
    """The times of the submissions, as shares of the season, denser towards its end.

    Each submission is judged on its author's GPUs, so `wanted` judgements need fewer submissions.
    """
    boards = sum(one.zeal * len(one.gpus) for one in authors) / sum(one.zeal for one in authors)
    return sorted(dice.random() ** 0.8 for _ in range(max(1, round(wanted / boards))))


def _next_file(author: _MadeUpAuthor, task: Task, number: int, moment: float, dice: random.Random) -> MadeUpFile:
    """A new version, or sometimes the last one again."""
    files = author.files.setdefault(task.name, [])
    if files and dice.random() < _JUDGED_AGAIN:
        return files[-1]
    kernel = author.kernels.setdefault(task.name, MadeUpKernel(task.name, author.login, dice))
    before = files[-1].quality if files else 0.0
    reached = author.skill * (0.75 + 0.25 * moment) * (1 - 0.5 ** (len(files) + 1)) + dice.gauss(0, 0.03)
    quality = min(max(reached, before + dice.gauss(0.01, 0.02)), 0.995)
    files.append(
        MadeUpFile(
            login=author.login, user_id=author.user_id, number=100 + number, text=kernel.next_version(),
            language=kernel.language, quality=max(quality, 0.02),
        )
    )  # fmt: skip
    return files[-1]
