"""`pullrank ci`: help, a strict environment, and outputs for later steps."""

import re
from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path

import click
import pytest
import yaml

from scripts.bot.ci import CiError, ci, say, write_outputs
from scripts.cli import COMMANDS, HIDDEN, cli, run
from scripts.github.pages import pages_address
from tests.competition import FASTER, SOURCE, Scene, path_of
from tests.discord_server import TOKEN, Discord, Message

ROOT = Path(__file__).parent.parent
NEEDED = ("GITHUB_TOKEN", "GITHUB_REPOSITORY", "GITHUB_API_URL", "GITHUB_SERVER_URL")


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    made = Scene(tmp_path, monkeypatch)
    with made.server:
        yield made


# Help.


@pytest.mark.parametrize("name", ["", *ci.commands])
def test_every_step_has_one_plain_sentence_and_an_example(name: str) -> None:
    command = ci.commands[name] if name else ci
    sentence, *rest = cleandoc(command.help or "").split("\n\n")
    assert re.fullmatch(r"[A-Z][^.]*\.", sentence)
    assert any(part.startswith(f"Example: pullrank ci {name}") for part in rest)
    assert all(one.help for one in command.params if isinstance(one, click.Option))


def test_help_hides_the_commands_meant_for_workflows(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    assert not re.search(r"^ *ci\b", capsys.readouterr().out, re.MULTILINE)
    assert "ci" in HIDDEN and "ci" not in COMMANDS
    assert cli.get_command(click.Context(cli), "ci") is ci
    assert run(["ci", "--help"]) == 0
    assert "reconcile" in capsys.readouterr().out


def steps() -> list[tuple[str, str]]:
    """Every `ci` command of the shipped workflows, with its file."""
    found = []
    for file in sorted((ROOT / ".github/workflows").glob("*.yml")):
        jobs = yaml.safe_load(file.read_text())["jobs"].values()
        lines = [step.get("run", "") for job in jobs for step in job["steps"]]
        found += [(file.name, line) for line in lines if "scripts.cli ci" in line]
    return found


@pytest.mark.parametrize(("file", "line"), steps())
def test_every_command_that_a_workflow_calls_exists(file: str, line: str) -> None:
    _, _, arguments = line.partition("python -m scripts.cli ci ")
    name, *options = arguments.split()
    ci.commands[name].make_context(name, options, resilient_parsing=False)


def test_every_ci_command_is_called_by_a_workflow() -> None:
    assert {line.split()[4] for _, line in steps()} == set(ci.commands)


# The environment.


def test_all_missing_variables_are_named_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in NEEDED:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GITHUB_REPOSITORY", "acme/kernels")
    assert run(["ci", "reconcile"]) == 2
    said = capsys.readouterr().err
    assert "GITHUB_TOKEN, GITHUB_API_URL, GITHUB_SERVER_URL are not set" in said
    assert ".github/workflows/" in said and len(said.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "missing"),
    [
        (["intake"], "GITHUB_EVENT_NAME, GITHUB_EVENT_PATH"),
        (["resolve", "--out", "x"], "REQUEST, GITHUB_OUTPUT, GITHUB_RUN_ID"),
        (["report"], "REQUEST, JUDGE, GITHUB_RUN_ID"),
    ],
)
def test_each_step_names_the_variables_it_needs(
    arguments: list[str], missing: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in missing.split(", "):
        monkeypatch.delenv(name, raising=False)
    assert run(["ci", *arguments]) == 2
    assert f"{missing} are not set" in capsys.readouterr().err


@pytest.mark.parametrize(("result", "run_id"), [("sucess", "7"), ("success", "0"), ("success", "7; rm"), ("", "7")])
def test_a_report_with_an_invalid_result_or_run_id_is_refused(
    result: str, run_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = {"REQUEST": "12-aaaaaaaaaaaa-CPU-ranked-1", "JUDGE": result, "GITHUB_RUN_ID": run_id}
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    assert run(["ci", "report"]) == 2


# Outputs.


def test_outputs_are_single_lines(tmp_path: Path) -> None:
    write_outputs(tmp_path / "out", {"wanted": "true", "runs-on": '["a", "b"]'})
    assert (tmp_path / "out").read_text() == 'wanted=true\nruns-on=["a", "b"]\n'
    with pytest.raises(CiError):
        write_outputs(tmp_path / "out", {"digest": "x\nwanted=true"})


def test_printed_text_cannot_issue_workflow_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary"))
    say("::error::x\n::add-mask::y ##[set-env]z <img> @everyone \x1b[31m")
    said = capsys.readouterr().out
    assert said.startswith("error::x ::add-mask") and said.count("\n") == 1
    assert "##[" not in said and "\x1b" not in said
    assert re.fullmatch(r"- `[^`\n]+`\n", (tmp_path / "summary").read_text())


@pytest.mark.parametrize(
    ("repository", "path"), [("acme/kernels", "/kernels/"), ("acme/acme.github.io", "/"), ("Acme/acme.github.io", "/")]
)
def test_the_site_of_a_repository_has_its_name_as_path_unless_it_is_the_owners(repository: str, path: str) -> None:
    assert pages_address(repository) == f"https://acme.github.io{path}"


def test_an_unwanted_request_makes_no_bundle(scene: Scene) -> None:
    pull = scene.world.open_pull(scene.alice, {path_of("alice"): SOURCE})
    scene.intake()
    (judging,) = scene.runs()
    scene.world.push(pull, {path_of("alice"): FASTER})
    scene.intake()
    assert scene.resolve(judging) == 0
    assert scene.outputs() == {"wanted": "false"}
    assert not (scene.folder / f"bundle-{judging.id}").exists()


def test_a_resolved_request_gives_the_next_job_its_outputs(scene: Scene) -> None:
    scene.world.open_pull(scene.alice, {path_of("alice"): SOURCE})
    scene.intake()
    (judging,) = scene.runs()
    assert scene.resolve(judging) == 0
    outputs = scene.outputs()
    assert (outputs["wanted"], outputs["runs-on"]) == ("true", '"ubuntu-24.04"')
    assert re.fullmatch(r"[0-9a-f]{64}", outputs["digest"]) and int(outputs["minutes"]) > 5
    (check,) = scene.world.checks.values()
    assert f"]({scene.run_url(judging)})" in check.output["summary"]


def test_the_site_is_built_from_main_and_ledger(scene: Scene) -> None:
    scene.world.open_pull(scene.alice, {path_of("alice"): SOURCE})
    scene.intake()
    scene.evaluate(scene.waiting()[0], scene.honest())
    scene.root = scene.copy_of_main()
    merged = scene.root / path_of("alice")
    merged.parent.mkdir(parents=True)
    merged.write_bytes(scene.world.git.read("main", path_of("alice")) or b"")
    assert scene.step("publish", "--out", str(scene.folder / "_site"), workflow="publish.yml", job="build") == 0
    board = (scene.folder / "_site/vectoradd/CPU/index.html").read_text()
    assert "alice" in board
    pages = [page.read_text() for page in (scene.folder / "_site/vectoradd/CPU/alice").rglob("index.html")]
    assert any("custom_kernel" in page for page in pages)


def test_no_row_is_called_unmerged_without_the_history_of_main(scene: Scene) -> None:
    scene.world.open_pull(scene.alice, {path_of("alice"): SOURCE})
    scene.intake()
    scene.evaluate(scene.waiting()[0], scene.honest())
    scene.root = scene.copy_of_main()
    assert scene.step("publish", "--out", str(scene.folder / "_site"), workflow="publish.yml", job="build") == 0
    board = (scene.folder / "_site/vectoradd/CPU/index.html").read_text()
    assert "alice" in board and "not merged" not in board
    assert (scene.folder / "summary").read_text().count("git history is incomplete") == 1


# Discord.


def announce(scene: Scene, **environment: str) -> int:
    return scene.step("announce", workflow="publish.yml", job="announce", **environment)


def announce_first_entry(scene: Scene, discord: Discord, site: str) -> Message:
    """Announce twice after alice's first entry, and return the only message."""
    told = {"DISCORD_WEBHOOK": discord.add_webhook(), "SITE": site}
    assert announce(scene, **told) == 0
    scene.world.open_pull(scene.alice, {path_of("alice"): SOURCE})
    scene.intake()
    scene.evaluate(scene.waiting()[0], scene.honest())
    assert announce(scene, **told) == announce(scene, **told) == 0
    (message,) = discord.messages
    return message


def test_a_judged_submission_is_announced_once_with_a_link_to_the_site(scene: Scene, discord: Discord) -> None:
    message = announce_first_entry(scene, discord, "https://cup.example")
    assert message.embed["title"] == "alice makes the first entry: Vector addition, CPU"
    assert message.embed["url"] == "https://cup.example/vectoradd/CPU/"
    assert "announced first-entry/vectoradd/CPU/" in (scene.folder / "summary").read_text()


def test_without_an_address_the_site_is_on_the_pages_host_of_its_server(scene: Scene, discord: Discord) -> None:
    message = announce_first_entry(scene, discord, "")
    assert message.embed["url"] == f"{scene.server.url.replace('//', '//pages.')}/acme/kernels/vectoradd/CPU/"


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({}, "DISCORD_WEBHOOK: there is no such secret"),
        ({"DISCORD_WEBHOOK": f"https://discord.example/api/webhooks/1/{TOKEN}"}, "DISCORD_WEBHOOK is no webhook"),
        ({"DISCORD_WEBHOOK": "{discord}", "GITHUB_TOKEN": "wrong"}, "not announced: "),
        ({"DISCORD_WEBHOOK": "{discord}", "GITHUB_REF_NAME": "other"}, "not announced: this runs on branch"),
        ({"DISCORD_WEBHOOK": "{discord}", "GITHUB_REPOSITORY": f"x/{TOKEN}"}, "not announced: "),
    ],
)
def test_a_failed_announcement_fails_no_publication_and_shows_no_token(
    scene: Scene, discord: Discord, environment: dict[str, str], said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    address = discord.add_webhook()
    assert announce(scene, **{name: value.format(discord=address) for name, value in environment.items()}) == 0
    summary, shown = (scene.folder / "summary").read_text(), "".join(capfd.readouterr())
    assert said in shown and said.split(":")[0] in summary
    assert TOKEN not in summary + shown and not discord.messages


def test_an_internal_bug_is_reported_in_one_line_without_the_token(
    scene: Scene, discord: Discord, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    address = discord.add_webhook()

    def broken(*_: object) -> None:
        raise KeyError(address)

    monkeypatch.setattr("scripts.announce.discord.DiscordChannel.at", broken)
    assert announce(scene, DISCORD_WEBHOOK=address) == 0
    shown = "".join(capfd.readouterr())
    assert "not announced, because of a bug in PullRank: KeyError" in shown and TOKEN not in shown
