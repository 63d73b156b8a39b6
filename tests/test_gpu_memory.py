"""Limits of GPU memory, with a driver that the tests compile.

A process holds as many bytes on the card as its file in `ledger` says, until it ends, as with a real driver.
"""

import contextlib
import os
import subprocess
import textwrap
import time
from pathlib import Path

import pytest

from harness.gpu.gpu_memory import CardMemory, find_card
from harness.gpu.gpu_nodes import GpuNode
from harness.inside.protocol import Loaded
from harness.processes import watched_memory
from harness.records.errors import JudgeError
from harness.records.verdict import Foul, Verdict
from harness.sandbox.sandbox import PlayerFiles, Sandbox
from harness.task.task import Limits, load_task
from tests import nvidia_driver
from tests.nvidia_driver import UUID

GIB = 1 << 30


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A machine's root with NVIDIA's driver; `root / "ledger"` says which process holds what."""
    root = tmp_path_factory.mktemp("machine")
    nvidia_driver.install(root)
    return root


@pytest.fixture
def ledger(root):
    yield root / "ledger"
    for file in (root / "ledger").iterdir():
        file.unlink()


GPU = GpuNode(vendor="nvidia", node="/dev/nvidia0", id=UUID)


def test_nvidias_library_reports_a_gpus_memory_by_id_or_node(root, ledger):
    (ledger / str(os.getpid())).write_text(str(2 * GIB))
    assert find_card(GPU, root)() == CardMemory(total=8 * GIB, used=3 * GIB)
    assert find_card(GpuNode(vendor="nvidia", node="/dev/nvidia0"), root)().used == 3 * GIB
    assert find_card(GpuNode(vendor="nvidia", node="/dev/nvidia3"), root)().free == 7 * GIB


def test_find_card_returns_none_for_an_unknown_gpu(root, tmp_path):
    assert find_card(GpuNode(vendor="nvidia", node="/dev/nvidia0", id=UUID.replace("0a", "ff")), root) is None
    assert find_card(GpuNode(vendor="nvidia", node="/dev/nvidia7"), root) is None
    assert find_card(GpuNode(vendor="amd", node="/dev/dri/renderD128"), tmp_path) is None


def test_amds_memory_is_read_from_the_kernel(tmp_path):
    folder = tmp_path / "sys/class/drm/renderD129/device"
    folder.mkdir(parents=True)
    (folder / "mem_info_vram_total").write_text("206141652992\n")
    (folder / "mem_info_vram_used").write_text("298262528\n")
    card = find_card(GpuNode(vendor="amd", node="/dev/dri/renderD129"), tmp_path)
    assert card() == CardMemory(total=206141652992, used=298262528)


@pytest.fixture(scope="module")
def sandbox(root):
    """A player without a sandbox, so that it reaches the ledger, as it would reach a real driver."""
    with Sandbox("none", memory_gib=4, gpu_memory_gib=1, use_cgroup=False) as sandbox:
        sandbox.cards = [find_card(GPU, root)]
        yield sandbox


def holding(ledger: Path, gib: float, then: str = "time.sleep(60)") -> PlayerFiles:
    source = f"""
        import os, time
        with open("{ledger}/" + str(os.getpid()), "w") as file:
            file.write("{int(gib * GIB)}")
        {then}
        def custom_kernel(data): return data
    """
    return PlayerFiles(name="test", files={"submission.py": textwrap.dedent(source)})


def load(player):
    player.send({"do": "load"})
    return player.answer(time.monotonic() + 60, "It took too long.")


def end_of(sandbox, entry):
    with sandbox.start_player(entry) as player, pytest.raises(Foul) as caught:
        load(player)
    return caught.value.verdict, caught.value.message


def test_a_player_that_exceeds_the_boards_gpu_memory_limit_is_ended(sandbox, ledger):
    assert end_of(sandbox, holding(ledger, 2.5)) == (
        Verdict.MEMORY_LIMIT_EXCEEDED,
        "Used 2.5 GiB of the GPU's memory; the limit is 1 GiB.",
    )


def test_a_player_within_the_limit_runs_and_the_next_starts_from_zero(sandbox, ledger):
    for _ in range(3):
        with sandbox.start_player(holding(ledger, 0.8, "pass")) as player:
            assert isinstance(load(player), Loaded)
            for source in player._memory.sources:
                source.look()


def test_the_referee_keeps_a_quarter_of_the_card_without_a_limit(sandbox, ledger, monkeypatch):
    monkeypatch.setattr(sandbox, "gpu_memory_bytes", None)
    with sandbox.start_player(holding(ledger, 4.9, "pass")) as player:
        assert isinstance(load(player), Loaded)
    assert end_of(sandbox, holding(ledger, 5.1))[1] == "Used 5.1 GiB of the GPU's memory; the limit is 5 GiB."
    monkeypatch.setattr(sandbox, "gpu_memory_bytes", 100 * GIB)  # more than there is
    assert end_of(sandbox, holding(ledger, 5.1))[0] is Verdict.MEMORY_LIMIT_EXCEEDED


def test_gpu_memory_held_by_another_process_voids_the_judging(sandbox, ledger, monkeypatch):
    monkeypatch.setattr(watched_memory, "_RETURN_S", 0.2)
    with contextlib.ExitStack() as stack:
        player = stack.enter_context(sandbox.start_player(holding(ledger, 0.5, "pass")))
        assert isinstance(load(player), Loaded)
        (ledger / str(os.getpid())).write_text(str(2 * GIB))
        with pytest.raises(Foul, match=r"Used 2\.5 GiB"):
            player._memory.sources[1].look()
        exits = stack.pop_all()
    with pytest.raises(JudgeError, match="full, but not because of the player"):
        exits.close()


GOES_UP_AND_DOWN = """
        import threading
        def hold():
            name = "{ledger}/" + str(os.getpid())
            for number in range(1000000):
                with open(name + ".new", "w") as file:
                    file.write(str({gib} * (900 + 200 * (number % 2)) // 1000))
                os.replace(name + ".new", name)
        threading.Thread(target=hold, daemon=True).start()
        time.sleep(0.5)
"""


def test_a_player_whose_gpu_memory_goes_up_and_down_never_voids_its_judging(sandbox, ledger, monkeypatch):
    monkeypatch.setattr(watched_memory, "_RETURN_S", 0.2)
    verdicts = set()
    for _ in range(8):
        try:
            with sandbox.start_player(holding(ledger, 0.9, GOES_UP_AND_DOWN.format(ledger=ledger, gib=GIB))) as player:
                verdicts.add(type(load(player)))
        except Foul as foul:
            verdicts.add(foul.verdict)
    assert verdicts <= {Loaded, Verdict.MEMORY_LIMIT_EXCEEDED} and Verdict.MEMORY_LIMIT_EXCEEDED in verdicts


def test_a_gpu_that_falls_off_the_bus_is_not_the_players_fault(sandbox, ledger):
    with sandbox.start_player(holding(ledger, 0.5, "pass")) as player:
        assert isinstance(load(player), Loaded)
        away = ledger.rename(ledger.with_name("away"))
        try:
            with pytest.raises(JudgeError, match="no longer reports memory use: NVML error 15"):
                player._memory.sources[1].look()
        finally:
            away.rename(ledger)


def test_a_player_is_killed_even_if_the_gpu_falls_off_the_bus(sandbox, ledger):
    with contextlib.ExitStack() as stack:
        player = stack.enter_context(sandbox.start_player(holding(ledger, 2.5)))
        with pytest.raises(Foul, match=r"Used 2\.5 GiB"):
            load(player)
        pid, exits = player.pid, stack.pop_all()
    away = ledger.rename(ledger.with_name("away"))
    try:
        with pytest.raises(JudgeError, match="no longer reports memory use"):
            exits.close()
    finally:
        away.rename(ledger)
    assert not os.path.exists(f"/proc/{pid}")


def test_a_gpu_memory_limit_changes_the_edition_and_its_absence_does_not(tmp_path):
    folder = Path(__file__).parent / "tasks" / "tiny"
    board = load_task(folder).board("CPU")
    assert board.limits.gpu_memory_gib is None and "gpu_memory_gib" not in board.edition_facts["limits"]
    copy = tmp_path / "tiny"
    subprocess.run(["cp", "-r", folder, copy], check=True)
    with (copy / "task.yml").open("a") as file:
        file.write("gpu_memory_gib: 2\n")
    limited = load_task(copy).board("CPU")
    assert limited.limits.gpu_memory_gib == 2 and limited.edition != board.edition
    assert Limits().gpu_memory_gib is None
