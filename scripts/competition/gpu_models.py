"""Common GPUs and their vendors' figures, read from `gpus.yml` and validated.  Pure but for that one file.

A board of `.github/pullrank.yml` takes missing values from here, by its own name or by its `model`.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, Field, WithJsonSchema

from harness.records.errors import PullRankError
from harness.task.faults import Faults
from harness.task.task_file import Section
from harness.task.task_values import Dtype, LineField
from harness.task.toolchain import Architecture
from harness.task.yaml_file import read_yaml

TABLE = Path(__file__).with_name("gpus.yml")

_SEVERAL = re.compile(r"x(?:[2-9]|[1-9][0-9])$")

Peak = Annotated[float, Field(strict=True, gt=0, le=1e9)]


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else value


Devices = Annotated[
    tuple[LineField, ...],
    BeforeValidator(_listed),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
]
"""A device's name in its driver, or a list of its spellings."""


class GpuModel(Section):
    """One kind of GPU.  Memory in GB, bandwidth in GB/s, peaks in TFLOPS without sparsity, caches in MiB."""

    device: Devices = Field(min_length=1, description="The name that the driver reports, or a list of its spellings.")
    arch: Architecture = Field(description="The architecture that compilers target.")
    memory_gb: Peak = Field(description="Size of the device's memory, in GB.")
    bandwidth_gbs: Peak = Field(description="Peak bandwidth of the device's memory, in GB/s.")
    tflops: dict[Dtype, Peak] = Field(min_length=1, description="Peak TFLOPS by number format, dense.")
    l2_mib: Peak | None = Field(default=None, description="Size of the L2 cache, in MiB.")
    last_level_mib: Peak | None = Field(default=None, description="Size of a cache behind the L2, in MiB.")
    source: LineField = Field(description="The source of the figures.")

    @property
    def cache_mib(self) -> float | None:
        """The size of the last-level cache, which a flush must fill."""
        return self.last_level_mib or self.l2_mib


class _Table(BaseModel):
    models: dict[str, GpuModel]


@cache
def gpu_models() -> dict[str, GpuModel]:
    """All models, by name.  Raises PullRankError: the table is invalid, one line per fault."""
    faults = Faults(TABLE)
    table = faults.validate(_Table, {"models": read_yaml(TABLE, faults)})
    if faults or not table:
        raise PullRankError(str(faults))
    return table.models


def find_model(name: str) -> GpuModel | None:
    """The model for a board's name, ignoring case, hyphens and underscores; None if there is none.

    A board of several GPUs may end with their number: `H100x2` has the model `H100`.
    """
    known = {_plain(known): model for known, model in gpu_models().items()}
    return known.get(_plain(name)) or known.get(_SEVERAL.sub("", _plain(name)))


def _plain(name: str) -> str:
    return name.casefold().replace("-", "").replace("_", "")
