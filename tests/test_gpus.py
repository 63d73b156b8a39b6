"""The table of GPUs: every figure has a source, fits the others, and can be printed."""

import json
import re

import pytest

from harness.records.judgement import is_named
from scripts.cli import run
from scripts.competition.gpu_models import find_model, gpu_models

ASKED = ("T4", "L4", "A10G", "A100", "A100-40GB", "A100-PCIe", "H100", "H100-PCIe", "H200", "B200", "RTX4090", "RTX5090",
         "MI250", "MI300X", "MI355X")  # fmt: skip
REPORTED = {
    "T4": "Tesla T4", "L4": "NVIDIA L4", "A10G": "NVIDIA A10G", "A100": "NVIDIA A100-SXM4-80GB",
    "A100-40GB": "NVIDIA A100-SXM4-40GB", "A100-PCIe": "NVIDIA A100 80GB PCIe", "A100-PCIe-40GB": "NVIDIA A100-PCIE-40GB",
    "H100": "NVIDIA H100 80GB HBM3", "H100-PCIe": "NVIDIA H100 PCIe", "H200": "NVIDIA H200", "B200": "NVIDIA B200",
    "RTX4090": "NVIDIA GeForce RTX 4090", "RTX5090": "NVIDIA GeForce RTX 5090", "MI250": "AMD Instinct MI250X / MI250",
    "MI300X": "AMD Instinct MI300X", "MI355X": "AMD Instinct MI355X",
}  # fmt: skip
"""The names from the drivers."""
STRANGERS = (
    "NVIDIA L40S", "NVIDIA T400", "NVIDIA A10", "NVIDIA A100-PCIE-80GB MIG 1g.10gb", "NVIDIA H100", "NVIDIA H100 NVL",
    "NVIDIA GH200 480GB", "NVIDIA H200 NVL", "NVIDIA GB200", "NVIDIA GeForce RTX 4090 D",
    "NVIDIA GeForce RTX 4090 Laptop GPU", "NVIDIA GeForce RTX 5090 D", "NVIDIA GeForce RTX 5090 D v2",
    "NVIDIA GeForce RTX 5090 Laptop GPU", "AMD Instinct MI250X", "AMD Instinct MI300A", "AMD Instinct MI300X VF",
    "AMD Instinct MI325X", "NVIDIA", "",
)  # fmt: skip
"""Slower or faster relatives, or parts of a GPU: none may be taken for one of the above."""


@pytest.mark.parametrize("name", ASKED)
def test_the_common_gpus_are_known_with_the_source_of_their_figures(name: str) -> None:
    model = gpu_models()[name]
    assert re.search(r"data sheet|product brief|whitepaper", model.source)
    assert model.tflops["float16"] > 0


def test_a_drivers_device_name_identifies_exactly_one_gpu_model() -> None:
    assert REPORTED.keys() == gpu_models().keys()
    for reported in REPORTED.items():
        assert [name for name, model in gpu_models().items() if is_named(reported[1], model.device)] == [reported[0]]


@pytest.mark.parametrize("stranger", STRANGERS)
def test_a_sibling_of_a_known_gpu_does_not_pass_for_it(stranger: str) -> None:
    assert not [name for name, model in gpu_models().items() if is_named(stranger, model.device)]


@pytest.mark.parametrize(
    ("name", "reported"),
    [
        ("A100", "A100-SXM4-80GB"),  # drivers before 470 left their maker out
        ("A100", "NVIDIA A100-SXM-80GB"),
        ("T4", "NVIDIA T4"),
        ("H100", "nvidia h100  80gb hbm3"),
        ("MI250", "AMD Instinct MI250"),
    ],
)
def test_one_device_is_known_by_all_its_spellings(name: str, reported: str) -> None:
    assert is_named(reported, gpu_models()[name].device)


def test_narrower_numbers_are_never_slower() -> None:
    for name, model in gpu_models().items():
        chain = [model.tflops[dtype] for dtype in ("float64", "float32", "tf32", "float16", "float8", "float4")
                 if dtype in model.tflops]  # fmt: skip
        assert chain == sorted(chain), name


def test_a_gpu_name_is_found_in_any_spelling() -> None:
    assert find_model("h100_pcie") is gpu_models()["H100-PCIe"]
    assert find_model("RTX-4090") is gpu_models()["RTX4090"]
    assert find_model("CPU") is None


def test_a_board_of_several_gpus_has_their_model() -> None:
    assert find_model("H100x2") is find_model("h100-x8") is gpu_models()["H100"]
    assert find_model("MI300Xx16") is gpu_models()["MI300X"]
    assert [name for name in ("H100x", "H100x0", "H100x1", "H100x100", "x2") if find_model(name)] == []


def test_the_table_can_be_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["gpus"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in ("H100-PCIe", "sm_120a", "gfx950", "5300"))
    assert run(["gpus", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["L4"]["bandwidth_gbs"] == 300
