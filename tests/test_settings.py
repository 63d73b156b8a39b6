"""The competition's settings: the shipped ones, valid values, and every fault with its line.

bad_settings/<what is wrong>.yml     each faulty line has its expected messages after `#!`
"""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from harness.task.toolchain import Toolchain
from scripts.cli import run
from scripts.competition.runs_on import RunnerGroup, to_json
from scripts.competition.settings import (
    Announcements,
    Ban,
    DataSet,
    Gpu,
    Merge,
    Quotas,
    Settings,
    SettingsError,
    load_settings,
    settings_schema,
)

ROOT = Path(__file__).parent.parent
SHIPPED = ROOT / ".github/pullrank.yml"
BAD_SETTINGS = sorted((Path(__file__).parent / "bad_settings").glob("*.yml"))
CPU = "gpus: {CPU: {runs_on: ubuntu-24.04}}\n"


def settings_file(folder: Path, text: str) -> Path:
    path = folder / "pullrank.yml"
    path.write_text(text)
    return path


def load(folder: Path, text: str) -> Settings:
    return load_settings(settings_file(folder, text))


def expected_faults(text: str) -> list[tuple[int, str]]:
    return [
        (number, message.strip()) for number, line in enumerate(text.split("\n"), 1) for message in line.split("#!")[1:]
    ]


@pytest.mark.parametrize("path", BAD_SETTINGS, ids=lambda path: path.stem)
def test_every_fault_of_bad_settings_is_named_with_its_line(path: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as error:
        load(tmp_path, path.read_text())
    found = [re.fullmatch(r".*/pullrank\.yml:(\d+): (.*)", fault) for fault in str(error.value).split("\n")]
    unmet = expected_faults(path.read_text())
    assert unmet
    for match in found:
        assert match, error.value
        met = [(line, message) for line, message in unmet if int(match[1]) == line and message in match[2]]
        assert met, f"not expected: {match[0]}"
        unmet.remove(met[0])
    assert not unmet


def test_a_fresh_fork_has_one_practice_board_on_hosted_machines() -> None:
    settings = load_settings(SHIPPED)
    assert settings.gpus == {"CPU": Gpu(runs_on="ubuntu-24.04")}
    assert settings.merge is Merge.AUTO
    assert settings.limits == Quotas()
    assert not settings.bans


def test_the_commented_examples_in_the_shipped_file_are_valid(tmp_path: Path) -> None:
    # Comments that look like YAML after the `# ` are examples; prose does not.
    text = re.sub(r"(?m)^( *)# ( *)(?=[A-Za-z0-9_]+:( |$)|- \{)(?!auto:)", r"\1\2", SHIPPED.read_text())
    settings = load(tmp_path, text)
    assert settings.gpus["H100"].device == ("H100 80GB HBM3",)
    assert settings.gpus["H100"].tflops["float16"] == 989
    assert settings.gpus["H100"].runs_on == ("self-hosted", "h100")
    assert settings.bans[0].login == "mallory"


def test_settings_may_omit_everything_but_the_gpus(tmp_path: Path) -> None:
    settings = load(tmp_path, CPU)
    assert (settings.title, settings.description, settings.merge) == ("PullRank", "", Merge.AUTO)
    assert settings.limits == Quotas(
        file_kib=256, pending=4, judgings_per_day=50, ranked_per_day=20, minutes_per_day=120
    )
    assert settings.announcements == Announcements()


def test_every_key_is_read(tmp_path: Path) -> None:
    settings = load(
        tmp_path,
        """
title: "Kernels: fast ones"
description: |
  Be *quick*.
gpus:
  H100: {runs_on: h100, device: [H100 PCIe, H100 NVL], bandwidth_gbs: 3300, tflops: {float16: 900, float32: 6.7e1}, arch: sm_90}
  B200: {runs_on: b200, model: B200, device: NVIDIA B200, include_dirs: {cutlass: /opt/cutlass/include, thunderkittens: /opt/TK/include}}
limits: {file_kib: 64, pending: 2, judgings_per_day: 10, ranked_per_day: 5, minutes_per_day: 30}
merge: manual
bans: [{user_id: 7, login: mallory, reason: Attacked the judge.}]
announcements: {records: false, webhooks: [{secret: DISCORD_WEBHOOK}, {secret: DISCORD_GEMM, tasks: [gemm]}]}
dataset: {license: CC-BY-4.0, without: [mallory]}
""",
    )
    assert (settings.title, settings.description) == ("Kernels: fast ones", "Be *quick*.\n")
    h100 = settings.gpu("H100")
    assert (h100.runs_on, h100.device, h100.bandwidth_gbs) == ("h100", ("H100 PCIe", "H100 NVL"), 3300)
    assert (h100.tflops["float16"], h100.tflops["float32"]) == (900, 67)
    assert h100.toolchain == Toolchain(device=("H100 PCIe", "H100 NVL"), arch="sm_90")
    assert settings.gpu("B200").toolchain == Toolchain(
        device=("NVIDIA B200",),
        arch="sm_100a",
        include_dirs={"cutlass": "/opt/cutlass/include", "thunderkittens": "/opt/TK/include"},
    )
    assert settings.limits == Quotas(file_kib=64, pending=2, judgings_per_day=10, ranked_per_day=5, minutes_per_day=30)
    assert settings.merge is Merge.MANUAL
    assert settings.bans == (Ban(user_id=7, login="mallory", reason="Attacked the judge."),)
    assert not settings.announcements.records and settings.announcements.deadlines
    assert [webhook.hears_of("sort") for webhook in settings.announcements.webhooks] == [True, False]
    assert settings.dataset == DataSet(license="CC-BY-4.0", without=("mallory",))


@pytest.mark.parametrize(
    ("text", "read", "for_workflows"),
    [
        ("ubuntu-24.04", "ubuntu-24.04", "ubuntu-24.04"),
        ("[self-hosted, h100]", ("self-hosted", "h100"), ["self-hosted", "h100"]),
        ("{group: judges}", RunnerGroup(group="judges"), {"group": "judges"}),
        (
            "{group: GPU judges, labels: [h100]}",
            RunnerGroup(group="GPU judges", labels=("h100",)),
            {"group": "GPU judges", "labels": ["h100"]},
        ),
    ],
)
def test_runs_on_accepts_the_same_forms_as_a_workflow(
    tmp_path: Path, text: str, read: object, for_workflows: object
) -> None:
    gpu = load(tmp_path, f"gpus: {{X: {{runs_on: {text}}}}}").gpu("X")
    assert gpu.runs_on == read
    assert json.loads(to_json(gpu.runs_on)) == for_workflows


def test_a_board_takes_missing_values_from_the_table_by_name_or_model(tmp_path: Path) -> None:
    settings = load(
        tmp_path,
        "gpus: {h-100: {runs_on: a}, fast: {runs_on: b, model: MI300X, bandwidth_gbs: 5325}, own: {runs_on: c}}",
    )
    h100, fast = settings.gpu("h-100"), settings.gpu("fast")
    assert (h100.device, h100.arch, h100.bandwidth_gbs) == (("H100 80GB HBM3",), "sm_90a", 3350)
    assert (fast.device, fast.arch, fast.bandwidth_gbs, fast.tflops["float32"]) == (("MI300X",), "gfx942", 5325, 163.4)
    assert settings.gpu("own") == Gpu(runs_on="c")


def test_an_unknown_gpu_is_refused_with_a_list_of_the_known_ones(tmp_path: Path) -> None:
    settings = load(tmp_path, "gpus: {CPU: {runs_on: a}, H100: {runs_on: b}}")
    with pytest.raises(SettingsError, match=r"no GPU 'h100'; did you mean 'H100'\? It has: CPU, H100"):
        settings.gpu("h100")
    with pytest.raises(SettingsError, match=r"no GPU 'B200'\. It has: CPU, H100"):
        settings.gpu("B200")


@pytest.mark.parametrize(
    ("ban", "user_id", "login", "meets"),
    [
        ("{user_id: 7, login: mallory, reason: x}", 7, "renamed", True),
        (
            "{user_id: 7, login: mallory, reason: x}",
            8,
            "mallory",
            False,
        ),  # the new owner of a freed login is not banned
        ("{user_id: 7, reason: x}", 7, "mallory", True),
        ("{login: Mallory, reason: x}", 7, "mALLORY", True),
        ("{login: mallory, reason: x}", 7, "ada", False),
    ],
)
def test_a_ban_applies_to_the_account(tmp_path: Path, ban: str, user_id: int, login: str, meets: bool) -> None:
    settings = load(tmp_path, f"{CPU}bans: [{ban}]")
    assert bool(settings.find_ban(user_id, login)) is meets


def test_a_missing_settings_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"pullrank\.yml:1: cannot be read: No such file"):
        load_settings(tmp_path / "pullrank.yml")


def test_the_schema_describes_every_key_for_editors(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["schema", "settings"]) == 0
    schema = json.loads(capsys.readouterr().out)
    assert schema == settings_schema()
    sections = [schema, *(part for part in schema["$defs"].values() if "properties" in part)]
    described = [key for section in sections for key in section["properties"].values()]
    assert len(described) > 20
    assert all("description" in key for key in described)
    assert schema["required"] == ["gpus"]
    assert not any("null" in json.dumps(key) for key in described)


def test_the_schema_refuses_what_only_begins_or_ends_like_an_architecture() -> None:
    for arch, fits in (("sm_90a", True), ("gfx942", True), ("sm_90nonsense", False), ("xxgfx942", False)):
        instance = {"gpus": {"H100": {"runs_on": "h100", "arch": arch}}}
        assert Draft202012Validator(settings_schema()).is_valid(instance) is fits, arch


def in_full() -> str:
    """The shipped settings with all commented-out examples."""
    text = SHIPPED.read_text()
    keys = "H100|runs_on|model|device|include_dirs|arch|bandwidth_gbs|tflops|announcements|bans|top_three|webhooks|dataset|license|without|reader"
    return re.sub(rf"(?m)^( *)# ((?: *)(?:(?:{keys}):|- {{))", r"\1\2", text)


def test_the_shipped_settings_fit_the_schema() -> None:
    """As an editor checks it, without our own code."""
    first = SHIPPED.read_text().partition("\n")[0]
    schema = json.loads((SHIPPED.parent / first.partition("$schema=")[2]).read_text())
    assert schema == settings_schema(), "pullrank schema settings > .github/pullrank.schema.json"
    validator = Draft202012Validator(schema)
    for text in (SHIPPED.read_text(), in_full()):
        assert not list(validator.iter_errors(yaml.safe_load(text)))
    settings = yaml.safe_load(in_full())
    assert settings["gpus"]["H100"]["tflops"] and settings["bans"] and settings["announcements"]["webhooks"][1]["tasks"]
    assert settings["dataset"] == {"license": "Apache-2.0", "without": ["mallory"]}


@pytest.mark.parametrize(
    "damage",
    [
        lambda settings: settings.update(gpu={}),
        lambda settings: settings["gpus"]["H100"].update(bandwith_gbs=3350),
        lambda settings: settings["gpus"]["H100"].update(bandwidth_gbs="3350"),
        lambda settings: settings["limits"].update(pending=0),
        lambda settings: settings["announcements"]["webhooks"][0].update(secret="https://discord.com/api/webhooks/1/x"),
        lambda settings: settings["bans"][0].pop("reason"),
        lambda settings: settings.update(merge="sometimes"),
        lambda settings: settings.pop("gpus"),
    ],
)
def test_the_schema_catches_faults_at_any_depth(tmp_path: Path, damage: Callable[[Any], object]) -> None:
    settings = yaml.safe_load(in_full())
    load(tmp_path, yaml.safe_dump(settings))
    damage(settings)
    assert list(Draft202012Validator(settings_schema()).iter_errors(settings))
    with pytest.raises(SettingsError):
        load(tmp_path, yaml.safe_dump(settings))
