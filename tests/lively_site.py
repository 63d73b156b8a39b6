"""A small site with everything: a made-up season, and three boards.

hostile     every text is an attack, even the author's note and the reason for a disqualification; one row is
            provisional
unsettled   all rows are provisional; the title is one long word
untouched   no entries
"""

import fcntl
import os
from pathlib import Path

import pytest

from harness.task.task import load_task
from scripts.ledger.description import CommitDescription
from scripts.ledger.moderation import Action, Moderation
from scripts.pages.parts.site import Site
from scripts.pages.publishing.publish import build_site
from tests.season.season import Size, make_season
from tests.test_publish import NOW, SCRIPT, TASK_YML, judged, season, task_folder

ADDRESS = "https://kernels.github.io/cup/"


def lively_site(folders: pytest.TempPathFactory) -> Path:
    """The site's folder, built once for all test processes; tests must not change it."""
    root = folders.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent
    with (root / "lively.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = root / "lively.done"
        if not done.exists():
            done.write_text(str(build_lively_site(folders.mktemp("lively"))))
        return Path(done.read_text())


def build_lively_site(folder: Path) -> Path:
    """Build it below a sub-path, as GitHub Pages serves a project's site; returns its folder."""
    made = make_season(folder / "season", Size(tasks=3, gpus=2, authors=24, judgements=110))
    long = TASK_YML.replace("Vector addition", f"Vector{'addition' * 8}")
    ymls = {"hostile": TASK_YML, "unsettled": long, "untouched": TASK_YML}
    tasks = [load_task(task_folder(folder / "tasks", name, yml)) for name, yml in ymls.items()]
    hostile = {"message": SCRIPT, "log": SCRIPT * 40, "note": SCRIPT, "steady": False, "run_url": "javascript:alert(1)"}
    mallory = judged(tasks[0].board("CPU"), "m" * 39, 0.7, day=32, machine={"device": SCRIPT}, **hostile)
    of_commit = mallory.submission.model_copy(update={"head_sha": "a" * 40})
    mallory = mallory.model_copy(update={"submission": of_commit})
    again = judged(tasks[0].board("CPU"), "donald", 1.402, day=34)
    hedy = [judged(task.board("CPU"), "hedy", 4.0, day=33.5, unsteady=1.6) for task in tasks[:2]]
    for index, judgement in enumerate([*season(tasks[0].board("CPU")), mallory, again, *hedy]):
        made.ledger.append(judgement, f"r{index}")
    for login, action, reason in (("zoe", Action.HOLD, "Too fast."), ("yuri", Action.DISQUALIFY, f"Caches: {SCRIPT}")):
        made.ledger.append(judged(tasks[0].board("CPU"), login, 9.0, day=33), login)
        (one,) = (one for one in made.ledger.judgements("hostile").judgements if one.submission.login == login)
        made.ledger.append_fact(
            Moderation(id=login, action=action, judgement=one.checksum, reason=reason, by=1, at=NOW)
        )
    made.ledger.append_fact(
        CommitDescription(
            task="hostile",
            pull_request=of_commit.pull_request,
            head_sha=of_commit.head_sha,
            co_authors=tuple(f"{'w' * 37}{number:02}" for number in range(8)),
            note=f"{SCRIPT} {'w' * 300}\n\n1. Tiles\n2. Prefetch",
            at=NOW,
        )
    )
    code = f"x = 1  # {SCRIPT}\n" + "y = " + "1 + " * 200 + "1\n"
    site = folder / "pages" / "cup"
    build_site(
        [*made.tasks, *tasks],
        made.ledger,
        site,
        Site(
            sources=lambda judgement: made.source_of(judgement) or code,
            title="Kernel Cup",
            now=NOW,
            notice="For a test.",
            repository="https://github.com/kernels/cup",
            address=ADDRESS,
            gpus=made.settings.gpus,
        ),
    )
    return site


def one_of_each(site: Path) -> dict[str, str]:
    """A page of each kind, and the awkward ones: an empty board, a hostile author."""
    found = {
        "landing": "index.html",
        "board": "matmul/H100/index.html",
        "hostile board": "hostile/CPU/index.html",
        "provisional board": "unsettled/CPU/index.html",
        "empty board": "untouched/CPU/index.html",
        "earlier edition": next((site / "softmax/H100/_editions").rglob("index.html")).relative_to(site).as_posix(),
        "author": "authors/edsger/index.html",
        "machines": "machines/index.html",
        "hacks": "hacks/index.html",
        "guide": "guides/judging/index.html",
        "no such page": "404.html",
    }
    for kind, login in (("submission", "edsger"), ("provisional submission", "hedy"), ("hostile submission", "m" * 39)):
        path = next((site / "hostile/CPU" / login).glob("*/index.html"))
        found[kind] = path.relative_to(site).as_posix()
    path = next(
        path for path in sorted((site / "matmul/H100").rglob("index.html")) if "Diff to first place" in path.read_text()
    )
    return found | {"submission of a GPU": path.relative_to(site).as_posix()}
