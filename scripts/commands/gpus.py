"""`pullrank gpus`: the known GPUs, their peaks, and the boards of this repository that use them."""

from __future__ import annotations

import json
from collections.abc import Mapping

import click

from scripts.common.terminal import console, table
from scripts.competition.gpu_models import find_model, gpu_models
from scripts.competition.repository import ROOT
from scripts.competition.settings import SETTINGS, Gpu, load_settings

_SHOWN = ("float64", "float32", "tf32", "float16", "float8")


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON with the source of each model's peaks.")
def gpus(as_json: bool) -> None:
    """List the known GPUs, their peaks, and the boards that use them.

    A board takes the values that the settings omit from this list, by its name or its `model`.

    Example: pullrank gpus --json
    """
    if as_json:
        click.echo(json.dumps({name: model.model_dump(exclude_none=True) for name, model in gpu_models().items()}))
        return
    _print(load_settings(ROOT / SETTINGS).gpus if (ROOT / SETTINGS).is_file() else {})


def _print(boards: Mapping[str, Gpu]) -> None:
    columns = ("GB", "GB/s", *_SHOWN, "cache")
    made = table("GPUs: GB, GB/s, dense TFLOPS, cache in MiB", "Model", "Arch", *columns, "Boards", right=columns)
    for name, model in gpu_models().items():
        peaks = [f"{model.tflops[dtype]:g}" if dtype in model.tflops else "" for dtype in _SHOWN]
        cache = f"{model.cache_mib:g}" if model.cache_mib else ""
        here = [board for board, gpu in boards.items() if find_model(gpu.model or board) is model]
        made.add_row(
            name, model.arch, f"{model.memory_gb:g}", f"{model.bandwidth_gbs:g}", *peaks, cache, ", ".join(here)
        )
    console().print(made)
