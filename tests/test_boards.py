"""`board`, `mine`, `history`, `compare`: the same output from a ledger and from its site."""

import json
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from io import StringIO
from operator import attrgetter
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from pydantic import ValidationError
from rich.console import Console

from harness.referee.machine import read_machine
from scripts.boards.board_facts import BoardFacts, facts_of
from scripts.boards.source import LedgerSource, SiteSource
from scripts.boards.tables import compare_table, mine_table, standings_table
from scripts.boards.web import SiteError, site_address
from scripts.bot.intake.replies import show
from scripts.cli import run
from scripts.common.text import format_limit, format_us, in_words
from scripts.ledger.ledger import Ledger
from scripts.ledger.moderation import Action, Moderation
from scripts.pages.parts.site import Site
from scripts.pages.publishing.publish import build_site
from tests.season.season import END, Size, make_season
from tests.test_standings import Event, board
from tests.test_standings import season as played


@pytest.fixture(scope="module")
def season(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A made-up season with two results moderated, and its site, in `_site`."""
    folder = tmp_path_factory.mktemp("season")
    made = make_season(folder, Size(tasks=2, gpus=2, authors=6, judgements=60), seed=3)
    *_, late, last = made.ledger.judgements("matmul", "H100").judgements
    for judgement, action in ((late, Action.DISQUALIFY), (last, Action.HOLD)):
        facts = {"judgement": judgement.checksum, "reason": f"{action} it.", "by": 1, "at": datetime.now(UTC)}
        made.ledger.append_fact(Moderation(id=action, action=action, **facts))
    build_site(made.tasks, made.ledger, folder / "_site", Site.of(made.settings, sources=made.source_of, now=END))
    return folder


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *arguments: object) -> None:
        pass


@contextmanager
def serving(handler: object) -> Iterator[str]:
    """Serve a site on loopback; its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)  # type: ignore[arg-type]
    thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/cup"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture(scope="module")
def site(season: Path) -> Iterator[str]:
    root = season / "served"
    root.mkdir()
    (root / "cup").symlink_to(season / "_site")
    with serving(partial(Quiet, directory=str(root))) as url:
        yield url


def ledger_of(season: Path) -> list[str]:
    return ["--ledger", str(season / "ledger"), "--tasks", str(season / "tasks")]


def printed(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert run(list(arguments)) == code
    said = capsys.readouterr()
    return said.err if code else said.out


def first_two(season: Path) -> tuple[str, str]:
    rows = source(season).board("matmul", "H100").rows
    return rows[0].login, rows[1].login


def source(season: Path) -> LedgerSource:
    return LedgerSource(Ledger(season / "ledger"), season / "tasks")


# From ledger and site.


@pytest.mark.parametrize(
    "command", ["board matmul --gpu {gpu}", "mine {a}", "history matmul --gpu {gpu}", "compare {a} {b}"]
)
@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_command_prints_the_same_from_a_ledger_and_its_site(season, site, capsys, command, form) -> None:
    board = next(board for board in source(season).boards_of_task("matmul") if len(board.rows) > 1)
    words = command.format(gpu=board.gpu, a=board.rows[0].login, b=board.rows[1].login).split()
    local = printed(capsys, *words, *form, *ledger_of(season))
    assert local == printed(capsys, *words, *form, "--site", site)
    assert board.rows[0].login in local
    if not form:
        assert max(map(len, local.splitlines())) <= 160


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_the_doctor_compares_this_machine_with_the_judge_of_a_board(season, site, capsys, form) -> None:
    words = ["doctor", "--board", "H100", *form]
    local = printed(capsys, *words, "--ledger", str(season / "ledger"))
    assert local == printed(capsys, *words, "--site", site)
    newest = max(source(season)._ledger.judgements().judgements, key=lambda one: (one.gpu == "H100", one.finished_at))
    here = read_machine().versions
    if form:
        told = {one["name"]: (one["judge"], one["here"]) for one in json.loads(local)["software"]}
        assert told["Triton"] == (newest.machine.software["Triton"], here.get("Triton", ""))
        assert told["Python"] == (newest.machine.python, here["Python"])
    else:
        state = "same" if newest.machine.torch == here["torch"] else "differs"
        assert re.search(rf"{state} +torch +{re.escape(newest.machine.torch)} +{re.escape(here['torch'])}", local)
        machine = newest.machine
        assert f"The judge: {machine.device} with {machine.cpu}, {machine.cores} cores; it last judged on" in local


def test_the_doctor_compares_every_machine_and_lists_headers_that_only_the_judge_knows(
    season, tmp_path, capsys
) -> None:
    judgements = source(season)._ledger.judgements().judgements
    first = max((one for one in judgements if one.gpu == "H100"), key=attrgetter("finished_at"))
    machine = first.machine.model_copy(update={"device": "NVIDIA H100 NVL", "software": {"cutlass": "4.3.0"}})
    later = first.model_copy(update={"machine": machine, "finished_at": first.finished_at + timedelta(minutes=1)})
    ledger = Ledger(tmp_path / "ledger")
    for number, judgement in enumerate((first, later)):
        ledger.append(judgement, f"made-{number}")
    words = ["doctor", "--board", "H100", "--ledger", str(ledger.path)]
    told = printed(capsys, *words)
    assert told.index("The judge: NVIDIA H100 NVL") < told.index(f"The judge: {first.machine.device} with")
    assert re.search(r"unknown +cutlass +4\.3\.0 +—", told)
    facts = json.loads(printed(capsys, *words, "--json"))
    assert facts["software"][-1] == {"name": "cutlass", "judge": "4.3.0", "here": None}
    assert [one["device"] for one in facts["others"]] == [first.machine.device]


def test_the_doctor_says_that_no_machine_has_judged_a_board(season, site, capsys) -> None:
    assert printed(capsys, "doctor", "--board", "B200", "--site", site) == (
        f"No judgement in {site}/ says what software the judge of B200 has.\n"
    )


def test_the_doctor_names_a_judgement_that_cannot_be_read(tmp_path, capsys) -> None:
    damaged = tmp_path / "judgements/matmul/H100/ada/1-0123456789ab-x.json"
    damaged.parent.mkdir(parents=True)
    damaged.write_text("{")
    assert run(["doctor", "--board", "H100", "--ledger", str(tmp_path)]) == 0
    assert "left out: judgements/matmul/H100/ada/1-0123456789ab-x.json: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--board H100 --runner", "--board takes --site or --ledger, and not --runner."),
        ("--site https://x.example", "--site and --ledger need --board GPU."),
    ],
)
def test_the_doctor_refuses_options_that_do_not_go_together(words, says, capsys) -> None:
    assert says in printed(capsys, "doctor", *words.split(), code=2)


def test_the_tasks_next_to_a_ledger_are_its_own(season, capsys) -> None:
    words = ["board", "matmul", "--gpu", "H100", "--json"]
    named = printed(capsys, *words, *ledger_of(season))
    assert json.loads(named)["rows"]
    assert printed(capsys, *words, "--ledger", str(season / "ledger")) == named


def test_json_output_keeps_every_digit(season, capsys) -> None:
    shown = json.loads(printed(capsys, "board", "matmul", "--gpu", "H100", "--json", *ledger_of(season)))
    published = json.loads((season / "_site/matmul/H100/board.json").read_text())
    assert [row["score_us"] for row in shown["rows"]] == [row["score_us"] for row in published["rows"]]
    assert [row["cases"] for row in shown["rows"]] == [row["cases"] for row in published["rows"]]


def test_a_board_shows_the_limit_of_each_row_and_the_throughput_of_the_first(season, capsys) -> None:
    said = printed(capsys, "board", "matmul", "--gpu", "H100", *ledger_of(season))
    rows = source(season).board("matmul", "H100").rows
    assert "Of limit" in said and len(rows) > 1
    for row in rows:
        assert row.limit and re.search(rf"{row.login} .* {format_limit(row.limit)} ", said)
    for case in rows[0].cases:
        case_words = in_words(case.params, leave_out="seed")
        assert re.search(
            rf"{case_words} +{format_us(case.time_us.value)} · [0-9,.]+ GB/s · \d+ TFLOP/s · \d+ % of", said
        )


def test_the_anchor_comes_below_the_rows_and_takes_no_rank() -> None:
    on = board()
    vars(on.task).update(title="Vector addition", deadline=None)
    facts = facts_of(played([Event("ada", "a", 0.5, anchor_us=300.0), Event("bob", "b", 1.25, anchor_us=300.0)], on))
    lines = [line.split() for line in shown(facts).splitlines()]
    rows = [line for line in lines if {"ada", "bob", "anchor"} & {*line}]
    assert [line[:2] for line in rows[:2]] == [["1", "ada"], ["2", "bob"]]
    assert " ".join(rows[2]) == "anchor 300.0 µs +100 %"


def test_a_baseline_is_below_the_rows_with_its_error() -> None:
    on = board(baselines=("sum",))
    vars(on.task).update(title="Vector addition")
    facts = facts_of(played([Event("org", "sum", 0.25, noise=0.02), Event("ada", "a", 0.5)], on))
    assert [(one.name, one.judgements) for one in facts.baselines] == [("torch.sum", 1)]
    lines = [line.split() for line in shown(facts).splitlines()]
    rows = [" ".join(line) for line in lines if {"ada", "anchor", "torch.sum"} & {*line}]
    assert rows[1:] == ["torch.sum 25.00 µs 2.0 % −50.0 %", "anchor 100.0 µs +100 %"], rows


def test_a_board_without_rows_still_shows_its_baselines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = make_season(tmp_path, Size(tasks=1, gpus=5, authors=1, judgements=1), seed=3)
    judged_on = {one.gpu for one in made.ledger.judgements().judgements if not one.baseline}
    gpu = next(board.gpu for board in made.tasks[0].boards if board.gpu not in judged_on)
    said = printed(capsys, "board", "matmul", "--gpu", gpu, *ledger_of(tmp_path))
    assert "No ranked entries" in said and "PyTorch matmul" in said and "anchor" in said


def test_the_page_of_a_board_has_the_anchors_times_below_the_rows(season) -> None:
    folder = season / "_site/matmul/H100"
    published, page = json.loads((folder / "board.json").read_text()), (folder / "index.html").read_text()
    standings, heat = re.findall(r"<tfoot>.*?</tfoot>", page, re.DOTALL)
    gap = published["anchor_us"] / published["rows"][0]["score_us"]["value"]
    assert "<code>slices.py</code>, not ranked" in standings and f"+{gap - 1:.0%}".replace("%", "\u00a0%") in standings
    unranked = ["Anchor", *(one["name"] for one in published["baselines"])]
    assert len(unranked) == 2 and all(f">{name}" in standings and f">{name}<" in heat for name in unranked)
    assert heat.count("<small>") == 2 * len(published["nominal_us"]) == 2 * len(published["benchmarks"])
    assert "slices of 16 of the inner dimension" in page


def test_an_older_site_without_throughput_is_still_shown(season) -> None:
    published = json.loads((season / "_site/matmul/H100/board.json").read_text())
    for row in published["rows"]:
        del row["limit"]
        for case in row["cases"]:
            del case["throughput"]
    said = shown(BoardFacts.model_validate_json(json.dumps(published)))
    assert published["rows"][0]["login"] in said and "imit" not in said and "GB/s" not in said


def test_mine_names_the_author_to_beat(season, capsys) -> None:
    board = next(board for board in source(season).boards_of_task("matmul") if board.rows and board.rows[-1].band > 1)
    last = board.rows[-1]
    rows = json.loads(printed(capsys, "mine", last.login.upper(), "--json", *ledger_of(season)))["rows"]
    found = next(row for row in rows if (row["task"], row["gpu"]) == (board.task, board.gpu))
    assert found["of"] == len(board.rows) and found["ahead"]["rank"] < found["rank"]
    behind = last.score_us.value / board.find_row(found["ahead"]["login"]).score_us.value - 1  # type: ignore[union-attr]
    assert found["ahead"]["gap"] == pytest.approx(behind)


def test_mine_suggests_a_board_of_the_same_source(season, tmp_path, capsys) -> None:
    cup = tmp_path / "my cup"
    cup.symlink_to(season)
    source = ["--ledger", str(cup / "ledger"), "--tasks", str(cup / "tasks"), "--allow-unwalled"]
    assert run(["mine", first_two(season)[0], *source]) == 0
    (command,) = re.findall(r"`(pullrank board [^`]*)`", capsys.readouterr().err)
    assert shlex.split(command)[5:] == source
    assert run(shlex.split(command)[1:]) == 0


def test_a_faster_looking_row_without_a_won_duel_is_not_called_tied() -> None:
    def facts(*events: Event) -> BoardFacts:
        on = board()
        vars(on.task).update(title="Vector addition", deadline=None)
        return facts_of(played(list(events), on))

    events = [Event("ada", "a", 0.5), Event("bob", "b", 0.4), Event("cy", "c", 0.502)]
    table = facts(*events)
    ada, bob, cy = table.rows
    assert [table.is_tied(row) for row in table.rows] == [True, False, True]
    assert ada.is_tied_with(cy) and not ada.is_tied_with(bob)
    alone = facts(*events[:2])
    assert not any(map(alone.is_tied, alone.rows))
    said = StringIO()
    Console(width=80, file=said).print(standings_table(alone))
    assert "= tied" not in said.getvalue() and "2~" in said.getvalue()
    assert "~ looks faster than the leader, but has not won their duel" in said.getvalue()
    behind = facts(*events, Event("dan", "d", 0.7))
    assert behind.ahead_of(behind.rows[-1]) == behind.rows[2]
    last = facts(*events[:2], Event("dan", "d", 0.7))
    assert last.ahead_of(last.rows[-1]) == last.rows[0]


def shown(table: BoardFacts) -> str:
    said = StringIO()
    Console(width=200, file=said).print(standings_table(table))
    return said.getvalue()


def test_a_provisional_row_is_marked_and_never_tied() -> None:
    on = board()
    vars(on.task).update(title="Vector addition", deadline=None)
    table = facts_of(played([Event("ada", "a", 0.5), Event("bob", "b", 0.4, noise=0.3)], on))
    bob = table.rows[1]
    assert bob.provisional and not table.is_tied(bob) and table.ahead_of(bob) is None
    assert "2?" in shown(table) and "? provisional: its ± is above 10 %" in shown(table)
    for made in (mine_table([table], "bob"), compare_table(table, *table.rows)):
        said = StringIO()
        Console(width=200, file=said).print(made)
        assert "provisional: its 95 % interval is ±30.0 %" in said.getvalue()
    only = facts_of(played([Event("bob", "b", 0.4, noise=0.3)], on))
    assert [(row.rank, row.champion, row.provisional) for row in only.rows] == [(1, False, True)]
    assert "1?" in shown(only) and "+0.0 %" not in shown(only)
    assert "provisional" not in shown(facts_of(played([Event("ada", "a", 0.5)], on)))


def test_the_answer_to_show_says_which_rows_are_provisional() -> None:
    bob = Event("bob", "b", 0.4, noise=0.3)
    answer = show("bob", [played([Event("ada", "a", 0.5), bob])], (), (), END)
    assert "| `ada`, 50.00 µs ±0.0 % | rank 2, 40.00 µs ±30.0 %, −20.0 %, provisional | 2 |" in answer
    answer = show("ada", [played([bob])], (), (), END)
    assert "| `bob`, 40.00 µs ±30.0 %, provisional | not ranked yet | 1 |" in answer


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"provisional": True}, False),
        ({"provisional": True, "unmerged": False}, True),
        ({"provisional": True, "unmerged": True}, True),
        ({"provisional": False, "unmerged": True}, False),
        ({}, False),
    ],
)
def test_provisional_on_an_older_site_means_not_merged(season: Path, changes: dict[str, bool], expected: bool) -> None:
    published = json.loads((season / "_site/matmul/H100/board.json").read_text())
    for row in published["rows"]:
        del row["provisional"], row["unmerged"]
        row |= changes
    read = BoardFacts.model_validate_json(json.dumps(published))
    assert {row.provisional for row in read.rows} == {expected}
    assert "unmerged" not in read.model_dump_json()


def test_history_of_one_author_leaves_out_the_others(season, capsys) -> None:
    board = source(season).board("matmul", "H100")
    login = board.records[0].login
    words = ["history", "matmul", "--gpu", "H100", "--login", login, "--json"]
    records = json.loads(printed(capsys, *words, *ledger_of(season)))["records"]
    assert {record["login"] for record in records} == {login}
    assert len(records) == sum(record.login == login for record in board.records)


def test_a_disqualified_author_is_off_the_board_and_listed_as_removed(season, tmp_path, capsys) -> None:
    ledger = Ledger(tmp_path)
    for number, judgement in enumerate(Ledger(season / "ledger").judgements("matmul", "H100").judgements):
        ledger.append(judgement, str(number))
    out, _ = first_two(season)
    for number, judgement in enumerate(ledger.judgements().judgements):
        if judgement.submission.login == out:
            facts = {"judgement": judgement.checksum, "reason": "cached", "by": 1, "at": datetime.now(UTC)}
            ledger.append_fact(Moderation(id=f"d{number}", action=Action.DISQUALIFY, **facts))
    words = ["board", "matmul", "--gpu", "H100", "--json", "--ledger", str(tmp_path), "--tasks", str(season / "tasks")]
    shown = json.loads(printed(capsys, *words))
    assert shown["rows"] and out not in [row["login"] for row in shown["rows"]]
    assert {(one["login"], one["action"], one["reason"]) for one in shown["taken_out"]} == {
        (out, "disqualify", "cached")
    }
    for command in ("board", "history"):
        told = printed(capsys, command, *[word for word in words[1:] if word != "--json"])
        assert re.search(rf"removed: {out}, judged 20\d\d-\d\d-\d\d: disqualified 20\d\d-\d\d-\d\d\. cached", told)


def test_a_site_lists_removed_results_as_its_ledger_does(season, site, capsys) -> None:
    words = ["board", "matmul", "--gpu", "H100"]
    local = printed(capsys, *words, *ledger_of(season))
    assert re.search(r"removed: \S+, judged \S+: held for review \S+\. hold it\.", local)
    assert re.search(r"removed: \S+, judged \S+: disqualified \S+\. disqualify it\.", local)
    assert local == printed(capsys, *words, "--site", site)


def test_the_tasks_of_a_site_are_listed(season, site, capsys) -> None:
    listed = json.loads(printed(capsys, "tasks", "--site", site, "--json"))
    assert {task["name"]: set(task["gpus"]) for task in listed} == {
        path.parent.name: {folder.name for folder in (season / "_site" / path.parent.name).iterdir() if folder.is_dir()}
        for path in season.glob("tasks/*/task.yml")
    }
    clones = json.loads(printed(capsys, "tasks", "--tasks", str(season / "tasks"), "--json"))
    assert by_name(listed) == by_name(clones)
    ends = [(board, board.deadline) for board in SiteSource(site).index() if board.deadline]
    assert ends and not any(board.is_open(end) for board, end in ends)
    assert all(board.is_open(end - timedelta(seconds=1)) for board, end in ends)
    assert "matmul" in printed(capsys, "tasks", "--site", site)


def by_name(tasks: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {task["name"]: task | {"gpus": sorted(task["gpus"])} for task in tasks}


# Errors.


def test_an_unknown_author_is_not_ranked_on_any_board(site, capsys) -> None:
    assert "nobody is not ranked on any board" in printed(capsys, "mine", "nobody", "--site", site)


@pytest.mark.parametrize(
    ("token", "message"),
    [
        ("", "name a login: `pullrank mine ada`. Your own is unknown: no token: sign in"),
        ("two words", "name a login: `pullrank mine ada`. Your own is unknown: the token in GH_TOKEN"),
        ("ghp_" + "a" * 36, "no login given; outside a clone of the repository, name a login: `pullrank mine ada`"),
    ],
)
def test_mine_without_a_login_says_what_is_missing(site, tmp_path, monkeypatch, capsys, token, message) -> None:
    for name in ("GITHUB_TOKEN", "GITHUB_REPOSITORY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GH_TOKEN", token)
    monkeypatch.setenv("GH_CONFIG_DIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert message in printed(capsys, "mine", "--site", site, code=2)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["board", "matmull"], "did you mean 'matmul'?"),
        (["board", "matmul", "--gpu", "H10"], "did you mean 'H100'?"),
        (["compare", "nobody", "noone"], "share no board"),
        (["board", "matmul", "--allow-unwalled"], "cannot be combined with --ledger, --tasks or --allow-unwalled"),
        (["board", "matmul", "--tasks", "tasks"], "cannot be combined with --ledger, --tasks or --allow-unwalled"),
    ],
)
def test_a_wrong_name_gets_one_message(site, capsys, words, message) -> None:
    assert message in printed(capsys, *words, "--site", site, code=2)


@pytest.mark.parametrize(
    "url", ["ftp://example.org", "file:///etc", "https://user:word@example.org", "http://", "https://[x"]
)
def test_an_invalid_site_address_is_refused(url) -> None:
    with pytest.raises(SiteError, match="must be the site's address"):
        site_address(url)


@pytest.mark.parametrize(
    "url", ["acme.github.io/cup", "https://acme.github.io/cup/", "https://acme.github.io/cup/index.html"]
)
def test_a_site_address_is_accepted_in_every_copied_form(url) -> None:
    assert site_address(url) == "https://acme.github.io/cup/"


def hostile(
    content: bytes, status: int = 200, headers: tuple[tuple[str, str], ...] = ()
) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            for name, value in headers:
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *arguments: object) -> None:
            pass

    return Handler


@pytest.mark.parametrize(
    ("content", "status", "headers", "message", "code"),
    [
        (b"<html>", 200, (), "is not a file of a PullRank site", 2),
        (b'{"boards": [{"task": "../../etc"}]}', 200, (), "is not a file of a PullRank site", 2),
        (b'{"boards": ' + b"[" * 100_000, 200, (), "is not a file of a PullRank site", 2),
        (b"", 404, (), "is not a PullRank site", 2),
        (b"", 503, (), "answers 503; try again later", 3),
        (b"", 302, (("Location", "ftp://127.0.0.1/x"),), "redirects away from https", 2),
        (b"{", 200, (("Content-Length", "99"),), "cannot be read", 3),
    ],
)
def test_a_hostile_site_gets_one_message(capsys, content, status, headers, message, code) -> None:
    with serving(hostile(content, status, headers)) as url:
        said = printed(capsys, "board", "matmul", "--site", url, code=code)
    assert message in said and "Traceback" not in said


def test_an_unreachable_site_gets_one_message(capsys) -> None:
    assert "cannot be read" in printed(capsys, "board", "matmul", "--site", "http://127.0.0.1:9", code=3)


def test_text_from_a_hostile_site_cannot_control_the_terminal(season, capsys) -> None:
    board = json.loads((season / "_site/matmul/H100/board.json").read_text())
    board["title"] = board["rows"][0]["language"] = board["rows"][0]["note"] = "\x1b[2Jpwned\u202e"
    index = {"boards": [{"task": "matmul", "title": "\x1b[1m", "gpu": "H100", "deadline": None, "entries": 1}]}

    class Handler(hostile(b"")):  # type: ignore[misc]
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(index if self.path.endswith("index.json") else board).encode())

    with serving(Handler) as url:
        for words in (["board", "matmul"], ["history", "matmul"]):
            shown = printed(capsys, *words, "--site", url)
            assert "pwned" in shown and not re.search("[\x1b\u202e]", shown)


@pytest.mark.parametrize(
    ("first", "others", "code"), [(5e-324, 1.0, 2), (1.0, 1e308, 2), (1e-30, 1e30, 0), (1e30, 1e-30, 0)]
)
def test_extreme_times_of_a_hostile_site_cause_no_internal_error(season, capsys, first, others, code) -> None:
    board = json.loads((season / "_site/matmul/H100/board.json").read_text())
    index = (season / "_site/index.json").read_bytes()
    for number, row in enumerate(board["rows"]):
        time = others if number else first
        row["score_us"] = {"value": time, "low": time, "high": time}
        for case in row["cases"]:
            case["time_us"] = row["score_us"]

    class Handler(hostile(b"")):  # type: ignore[misc]
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(index if self.path.endswith("index.json") else json.dumps(board).encode())

    one, other = (row["login"] for row in board["rows"][:2])
    with serving(Handler) as url:
        for words in (["board", "matmul"], ["compare", one, other, "--task", "matmul"], ["history", "matmul"]):
            said = printed(capsys, *words, "--gpu", "H100", "--site", url, code=code)
            assert ("is not a file of a PullRank site" in said) is bool(code) and "internal error" not in said


def test_a_record_that_saves_all_of_the_time_is_refused(season) -> None:
    board = json.loads((season / "_site/matmul/H100/board.json").read_text())
    board["records"][-1]["gain"] = 1.0
    with pytest.raises(ValidationError, match="less than 1"):
        BoardFacts.model_validate_json(json.dumps(board))


def test_a_site_that_serves_another_board_is_refused(season, capsys) -> None:
    index = (season / "_site/index.json").read_bytes()
    other = (season / "_site/softmax/H100/board.json").read_bytes()

    class Handler(hostile(b"")):  # type: ignore[misc]
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(index if self.path.endswith("index.json") else other)

    with serving(Handler) as url, pytest.raises(SiteError, match="shows another board"):
        SiteSource(url).board("matmul", "H100")
