"""`.github/pullrank.yml`: the settings of a competition.  Parsing is strict, and reports all faults with their lines.

    title, description      shown on the site
    gpus                    boards by name ── Gpu      runners, required device, its peaks, compiler target;
                                                       missing values come from `scripts/competition/gpus.yml`
    limits                  Quotas                     limits per author
    merge, bans             Merge, Ban                 whether the bot merges; whose pull requests it does not judge
    announcements           Announcements              announcements on Discord
    reader                  Reader                     a language model that reads what is held for review
    dataset                 DataSet                    licence of the data set of submissions

It is on the default branch, so only maintainers change it; still it is validated like any hand-written file.
"""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from harness.records.errors import PullRankError, did_you_mean
from harness.records.fields import LOGIN
from harness.task.faults import Faults, quote
from harness.task.task_file import Section, schema_of
from harness.task.task_values import Dtype, Flag, GpuName, Like, LineField, distinct
from harness.task.toolchain import Architecture, Folder, LibraryField, Toolchain
from harness.task.yaml_file import read_yaml
from scripts.competition.gpu_models import Devices, Peak, find_model, gpu_models
from scripts.competition.runs_on import RunsOn
from scripts.ledger.request import MAX_GPU_NAME

SETTINGS = Path(".github/pullrank.yml")

DEFAULT_WEBHOOK = "DISCORD_WEBHOOK"

_SECRET = r"[A-Z][A-Z0-9_]{0,63}"  # noqa: S105  (a form of names)
_LOGIN = Like(LOGIN, "a GitHub login without @")


class SettingsError(PullRankError):
    """`.github/pullrank.yml` is invalid, or lacks the requested GPU."""


class Merge(StrEnum):
    """Who merges a ranked submission that improves its author's row: the bot, or a maintainer."""

    AUTO = "auto"
    MANUAL = "manual"


def _short(name: str) -> str:
    if len(name) > MAX_GPU_NAME:
        raise ValueError(f"a GPU's name must have at most {MAX_GPU_NAME} characters, not {len(name)}")
    return name


def _distinct_names(gpus: dict[str, Gpu]) -> dict[str, Gpu]:
    distinct(tuple(gpus))
    return {name: gpu.with_vendor_figures(name) for name, gpu in gpus.items()}


def _model(name: str) -> str:
    if not find_model(name):
        near = did_you_mean(name, gpu_models()) or ";"
        raise ValueError(f"unknown model {quote(name)}{near} `pullrank gpus` lists them")
    return name


class Gpu(Section):
    """A GPU, or CPU: the machines that judge its boards."""

    runs_on: RunsOn = Field(description="Its runners: a label, a list of labels, or {group: NAME, labels: [LABEL]}.")
    model: Annotated[str, AfterValidator(_model)] | None = Field(
        default=None,
        description="This GPU's name in `pullrank gpus`, if it is not the board's name. Default device, peaks and arch "
        "come from there.",
    )
    device: Devices = Field(
        default=(),
        description="The device's name in its driver, with or without the vendor's name, such as H100 PCIe; or a list "
        "of such names. A machine with another device does not judge.",
    )
    bandwidth_gbs: Peak | None = Field(default=None, description="Peak memory bandwidth, in GB/s; for % of roofline.")
    tflops: dict[Dtype, Peak] = Field(
        default_factory=dict, description="Peak TFLOPS by number format: {float32: 67, float16: 989}."
    )

    newcomers: bool = Field(
        default=True,
        strict=True,
        description="Whether authors without a merged submission may use its boards. Default: true.",
    )
    minutes_per_day: Annotated[int, Field(strict=True, gt=0, le=100_000)] | None = Field(
        default=None,
        description="Minutes of machine time per day on its boards, for all authors together. Default: no limit.",
    )
    board_minutes_per_day: Annotated[int, Field(strict=True, gt=0, le=100_000)] | None = Field(
        default=None,
        description="Minutes of machine time per day on each of its boards, for all authors. Default: no limit.",
    )
    arch: Architecture | None = Field(
        default=None, description="Target architecture of nvcc, such as sm_90a; needed by tasks with lang: cu."
    )
    include_dirs: dict[LibraryField, Folder] = Field(
        default_factory=dict,
        description="Libraries whose headers tasks with lang: cu may use, with their folders on the machine, below "
        "/usr or /opt: {cutlass: /opt/cutlass/include}.",
    )

    def with_vendor_figures(self, name: str) -> Gpu:
        """This GPU with the vendor's figures for values that the board `name` does not set."""
        if not (model := find_model(self.model or name)):
            return self
        return self.model_copy(
            update={
                "device": self.device or model.device,
                "bandwidth_gbs": self.bandwidth_gbs or model.bandwidth_gbs,
                "tflops": {**model.tflops, **self.tflops},
                "arch": self.arch or model.arch,
            }
        )

    @property
    def toolchain(self) -> Toolchain:
        return Toolchain(device=self.device, arch=self.arch, include_dirs=self.include_dirs)


def _quota(default: int, most: int, what: str) -> Any:
    return Field(default=default, strict=True, gt=0, le=most, description=f"{what} Default: {default}.")


class Quotas(Section):
    """Limits per author, for all modes and boards together.  A day is the last 24 hours."""

    file_kib: int = _quota(256, 256, "Largest size of a submission, in KiB.")
    pending: int = _quota(4, 100, "Judgings that wait or run at the same time.")
    judgings_per_day: int = _quota(50, 10_000, "Judgings per day.")
    ranked_per_day: int = _quota(20, 10_000, "Ranked judgings per day; they also count as judgings.")
    minutes_per_day: int = _quota(120, 100_000, "Minutes of machine time per day.")
    account_days: Annotated[int, Field(strict=True, ge=0, le=3650)] = Field(
        default=0, description="Minimum age of a new author's GitHub account, in days. Default: 0."
    )


class Ban(Section):
    """An account whose pull requests are not judged.  A login can be renamed; the numeric id is permanent."""

    user_id: Annotated[int, Field(strict=True, gt=0)] | None = Field(
        default=None, description="Numeric id: `gh api users/LOGIN --jq .id`."
    )
    login: Annotated[str, _LOGIN] | None = Field(default=None, description="Login, without @.")
    reason: LineField = Field(description="The reason; the bot shows it to the author.")

    @model_validator(mode="after")
    def _names_somebody(self) -> Self:
        if self.user_id is None and self.login is None:
            raise ValueError("must have user_id, login, or both")
        return self

    def meets(self, user_id: int, login: str) -> bool:
        """Whether the ban is for this account; with a user_id, the login is only a note for people."""
        if self.user_id is not None:
            return self.user_id == user_id
        return self.login is not None and self.login.casefold() == login.casefold()


def _secret(value: object) -> str:
    if isinstance(value, str) and re.fullmatch(_SECRET, value):
        return value
    # Not quoted: if somebody wrote the URL itself here, the message must not repeat it.
    raise ValueError(
        "must be the name of a secret with the webhook's URL, such as DISCORD_WEBHOOK: capitals, digits and _"
    )


def _distinct_secrets(webhooks: tuple[Webhook, ...]) -> tuple[Webhook, ...]:
    distinct(tuple(webhook.secret for webhook in webhooks))
    return webhooks


class Webhook(Section):
    """A channel on Discord.  Its webhook URL is a secret: anyone who has it can post there."""

    secret: Annotated[str, BeforeValidator(_secret)] = Field(
        description="Name of the secret with its webhook URL; publish.yml passes it on under the same name.",
        json_schema_extra={"pattern": f"^{_SECRET}$"},
    )
    tasks: tuple[LineField, ...] = Field(default=(), min_length=1, description="Tasks that it announces. Default: all.")

    def hears_of(self, task: str) -> bool:
        return not self.tasks or task in self.tasks


class Announcements(Section):
    """Which kinds of news are announced on Discord, and in which channels."""

    records: Flag = Field(default=True, description="A new first place.")
    top_three: Flag = Field(default=True, description="A change in the top three.")
    first_entries: Flag = Field(default=True, description="The first entry on a board.")
    new_tasks: Flag = Field(default=True, description="A new task, or a new board of a task.")
    deadlines: Flag = Field(default=True, description="A deadline in 24 hours, and the final standings.")
    editions: Flag = Field(default=True, description="A changed task, whose boards begin a new edition.")
    webhooks: Annotated[tuple[Webhook, ...], Field(max_length=20), AfterValidator(_distinct_secrets)] = Field(
        default=(Webhook(secret=DEFAULT_WEBHOOK),),
        description=f"The channels. Default: the channel of the secret {DEFAULT_WEBHOOK}, if it exists.",
    )


class DataSet(Section):
    """What `pullrank dataset` may publish: the ranked submissions with their code and times."""

    license: Annotated[str, Like(r"[A-Za-z0-9][A-Za-z0-9.+-]{0,63}", "an SPDX identifier, such as Apache-2.0")] = Field(
        description="The licence of all submissions, by its SPDX identifier: Apache-2.0."
    )
    without: Annotated[tuple[Annotated[str, _LOGIN], ...], Field(max_length=1000)] = Field(
        default=(), description="Authors whose submissions stay out of it."
    )


def _api(url: str) -> str:
    if not re.fullmatch(r"(https://[A-Za-z0-9.-]+|http://127\.0\.0\.1)(:[0-9]+)?(/[A-Za-z0-9/._-]*)?", url):
        raise ValueError("must be an address without a key in it, such as https://api.example.com/v1")
    return url


class Reader(Section):
    """A language model that reads submissions held for review.  Its key is the secret READER_KEY."""

    url: Annotated[LineField, AfterValidator(_api)] = Field(
        description="The address of an API like OpenAI's, without /chat/completions: https://api.example.com/v1."
    )
    model: Annotated[str, Like(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}", "a model's name, such as example-large-1")] = (
        Field(description="The model's name there.")
    )


class Settings(Section):
    """The settings of one competition on PullRank."""

    title: LineField = Field(default="PullRank", description="Name of the competition.")
    description: Annotated[str, Field(max_length=10_000)] = Field(
        default="", description="Description of the competition, in Markdown; shown on the site's home page."
    )
    gpus: Annotated[
        dict[Annotated[GpuName, AfterValidator(_short)], Gpu], AfterValidator(_distinct_names), Field(min_length=1)
    ] = Field(
        description="The GPUs that judge, by the names that tasks use in `gpus`; a GPU that is not listed here has no "
        "board. CPU is a name like any other."
    )
    limits: Quotas = Field(default_factory=Quotas, description="Limits per author.")
    merge: Merge = Field(
        default=Merge.AUTO,
        description="auto: the bot merges submissions that improve their author's row. manual: a maintainer does.",
    )
    bans: tuple[Ban, ...] = Field(
        default=(), max_length=1000, description="Accounts whose pull requests are not judged."
    )
    announcements: Announcements = Field(
        default_factory=Announcements, description="Announcements on Discord, by kind."
    )
    reader: Reader | None = Field(
        default=None,
        description="A language model that reads submissions held for review, for maintainers. Default: none.",
    )
    dataset: DataSet | None = Field(
        default=None, description="Whether and how `pullrank dataset` publishes submissions. Default: it does not."
    )

    def gpu(self, name: str) -> Gpu:
        """A GPU by its name.  Raises SettingsError: there is no GPU of that name."""
        if name not in self.gpus:
            near = did_you_mean(name, self.gpus) or "."
            raise SettingsError(f"{SETTINGS} has no GPU '{name}'{near} It has: {', '.join(self.gpus)}")
        return self.gpus[name]

    def find_ban(self, user_id: int, login: str) -> Ban | None:
        return next((ban for ban in self.bans if ban.meets(user_id, login)), None)


def load_settings(path: Path = SETTINGS) -> Settings:
    """Read the settings.

    Raises:
        SettingsError: one line per fault: `.github/pullrank.yml:12: merge: must be one of …`.
    """
    faults = Faults(path)
    settings = faults.validate(Settings, read_yaml(path, faults))
    if faults or not settings:
        raise SettingsError(str(faults))
    return settings


def settings_schema() -> dict[str, Any]:
    """The JSON Schema of pullrank.yml, for completion in editors."""
    return schema_of(Settings, "PullRank settings")
