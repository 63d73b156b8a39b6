"""Read boards from a ledger and its tasks, or from a published site, in the same types.

    board              the board of a GPU; by default CPU if the task has it, else its first
    boards_of_task     all boards of a task
    boards_of_author   the boards on which an author has a row, best rank first
    machines           the machines that judge a GPU's boards, the last to judge first

`place` is a source's name in messages; `faults` are the files that could not be read so far.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from operator import attrgetter
from pathlib import Path

from harness.records.errors import TaskError, did_you_mean
from harness.task.task import METHOD, Board, Task, load_tasks
from scripts.boards.board_facts import (
    AuthorFacts,
    BoardFacts,
    BoardName,
    IndexFacts,
    MachineFacts,
    MachinesFacts,
    facts_of,
)
from scripts.boards.web import SiteError, find_facts, site_address
from scripts.competition.boards import as_it_ended, find_machines, shown
from scripts.competition.repository import choose_board, require_task
from scripts.ledger.ledger import Ledger, LedgerFault
from scripts.ledger.moderation import Moderated
from scripts.pages.parts.taken_out import taken_out_of
from scripts.standings.standings import standings


def _best_first(boards: Iterable[BoardFacts], login: str) -> list[BoardFacts]:
    placed = [(board, row) for board in boards if (row := board.find_row(login))]
    return [board for board, _ in sorted(placed, key=lambda pair: (pair[1].rank, pair[0].task, pair[0].gpu))]


def _last_first(machines: Iterable[MachineFacts]) -> list[MachineFacts]:
    return sorted(machines, key=attrgetter("last_at"), reverse=True)


class LedgerSource:
    """A ledger's boards, ranked here, without the judgements that maintainers removed."""

    def __init__(self, ledger: Ledger, tasks: Path, *, allow_unwalled: bool = False) -> None:
        self.place = str(ledger.path)
        decisions = ledger.moderations()
        self.faults = [*decisions.faults]
        self._ledger, self._tasks, self._allow_unwalled = ledger, tasks, allow_unwalled
        self._machines = find_machines(tasks)
        self._moderated = Moderated.after(decisions)
        self._descriptions = ledger.descriptions(self.faults)

    def board(self, task: str, gpu: str | None) -> BoardFacts:
        return self._rank(choose_board(self._shown(require_task(task, self._tasks)), gpu))

    def boards_of_task(self, task: str) -> Sequence[BoardFacts]:
        return [*map(self._rank, self._shown(require_task(task, self._tasks)).boards)]

    def boards_of_author(self, login: str) -> Sequence[BoardFacts]:
        boards = (self._rank(board) for task in load_tasks(self._tasks) for board in self._shown(task).boards)
        return _best_first(boards, login)

    def machines(self, gpu: str) -> list[MachineFacts]:
        contents = self._ledger.judgements(samples=False)
        self.faults += contents.faults
        found = {}
        for one in sorted(contents.judgements, key=attrgetter("finished_at")):
            if one.gpu == gpu:
                machine = one.machine
                found[machine.device, machine.cpu, machine.cores] = MachineFacts(
                    gpu=gpu,
                    device=machine.device,
                    cpu=machine.cpu,
                    cores=machine.cores,
                    last_at=one.finished_at,
                    software=machine.versions,
                )
        return _last_first(found.values())

    def _shown(self, task: Task) -> Task:
        return shown(task, self._machines, self._ledger)

    def _rank(self, board: Board) -> BoardFacts:
        contents = self._ledger.judgements(board.task.name, board.gpu, samples=False)
        self.faults += contents.faults
        removed = self._moderated.removed(contents.judgements)
        out = taken_out_of(contents.judgements, self._moderated)
        gpu = (self._machines or {}).get(board.gpu)
        judged = self._machines is None or gpu is not None
        unwalled = self._allow_unwalled
        board = as_it_ended(board, contents.judgements, datetime.now(UTC), is_judged=judged)
        is_over = not judged or board.method != METHOD
        table = standings(board, contents.judgements, removed, allow_unwalled=unwalled, is_over=is_over)
        return facts_of(table, out, judged=judged, gpu=gpu, descriptions=self._descriptions)


class SiteSource:
    """The boards of a published site, with its ranking."""

    def __init__(self, url: str) -> None:
        self.place = self._address = site_address(url)
        self.faults: list[LedgerFault] = []

    def index(self) -> tuple[BoardName, ...]:
        """All boards.  Raises SiteError: the address is not a PullRank site."""
        if not (found := find_facts(IndexFacts, self._address, "index.json")):
            raise SiteError(f"{self._address} is not a PullRank site: it has no index.json; is the address right?")
        return found.boards

    def board(self, task: str, gpu: str | None) -> BoardFacts:
        gpus = self._gpus(task)
        gpu = gpu or ("CPU" if "CPU" in gpus else gpus[0])
        if gpu not in gpus:
            near = did_you_mean(gpu, gpus) or f"; there are: {', '.join(gpus)}"
            raise TaskError(f"{task} has no board {gpu!r}{near}")
        return self._read(task, gpu)

    def boards_of_task(self, task: str) -> Sequence[BoardFacts]:
        return [self._read(task, gpu) for gpu in self._gpus(task)]

    def boards_of_author(self, login: str) -> Sequence[BoardFacts]:
        author = find_facts(AuthorFacts, self._address, "authors", login.lower(), "author.json")
        if not author:
            self.index()  # Distinguish an unknown author from a wrong address.
            return ()
        boards = {(place.task, place.gpu): None for place in author.rows}
        return _best_first((self._read(*board) for board in boards), login)

    def machines(self, gpu: str) -> list[MachineFacts]:
        found = find_facts(MachinesFacts, self._address, "machines", "machines.json")
        if not found:
            self.index()  # Distinguish an older site from a wrong address.
        return _last_first(one for one in (found.machines if found else ()) if one.gpu == gpu)

    def _gpus(self, task: str) -> list[str]:
        boards = self.index()
        if gpus := [board.gpu for board in boards if board.task == task]:
            return gpus
        known = sorted({board.task for board in boards})
        near = did_you_mean(task, known) or f"; there are: {', '.join(known) or 'none'}"
        raise TaskError(f"no task {task!r} on {self._address}{near}")

    def _read(self, task: str, gpu: str) -> BoardFacts:
        if not (found := find_facts(BoardFacts, self._address, task, gpu, "board.json")):
            raise SiteError(f"{self._address} has no page for {task} / {gpu}; it may be under construction: try again")
        if (found.task, found.gpu) != (task, gpu):
            raise SiteError(f"{self._address} shows another board in place of {task} / {gpu}")
        return found


BoardSource = LedgerSource | SiteSource
