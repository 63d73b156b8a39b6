"""Other work on the players' cores, measured on a simulated kernel that counts CPU time in ticks."""

import time

import pytest

from harness.processes.other_work import OtherWork, listen

TICK_NS = 4_000_000
SPINNERS = (1001, 1002)


class Kernel:
    """Counts the CPU times of two spinners, which other work keeps from running for a share of the time."""

    def __init__(self, phase_ns, *lost):
        self.now_ns, self.phase_ns, self.lost = 10**9, phase_ns, lost

    def monotonic_ns(self):
        self.now_ns += 1000
        return self.now_ns

    def clock_gettime_ns(self, clock):
        number = SPINNERS.index(~(clock >> 3))
        phase_ns = self.phase_ns * (1 + number)
        last_tick = (self.now_ns + phase_ns) // TICK_NS * TICK_NS - phase_ns
        return int(last_tick * (1 - self.lost[number]))


@pytest.fixture
def on_kernel(monkeypatch):
    def install(*arguments):
        kernel = Kernel(*arguments)
        for name in ("monotonic_ns", "clock_gettime_ns"):
            monkeypatch.setattr(time, name, getattr(kernel, name))
        monkeypatch.setattr(time, "process_time_ns", lambda: kernel.now_ns)
        return kernel

    return install


PHASES = [0, 700_000, 1_900_000, 3_100_000, 3_999_000]


@pytest.mark.parametrize("phase_ns", PHASES)
@pytest.mark.parametrize("lost", [(0.0, 0.0), (0.3, 0.0), (0.1, 0.25), (1.0, 0.0)])
def test_listening_is_exact_although_the_kernel_counts_in_ticks(on_kernel, phase_ns, lost):
    on_kernel(phase_ns, *lost)
    for _ in range(5):
        assert listen(SPINNERS) == pytest.approx(max(lost), abs=0.003)


@pytest.mark.parametrize("phase_ns", PHASES)
@pytest.mark.parametrize("lost", [(0.0, 0.0), (0.3, 0.0), (1.0, 0.0)])
def test_a_run_of_short_windows_is_not_disturbed_by_the_kernels_ticks(on_kernel, phase_ns, lost):
    kernel = on_kernel(phase_ns, *lost)
    # The player has just been stopped: the kernel has counted its core's spinner until now.
    kernel.now_ns += -(kernel.now_ns + phase_ns) % TICK_NS
    other_work = OtherWork(SPINNERS[:1])
    other_work.begin()
    kernel.now_ns += 300_000
    other_work.look(running_s=0.0)
    assert other_work.share == pytest.approx(lost[0], abs=0.003)


def test_a_kernel_that_shows_no_clock_measures_nothing(monkeypatch):
    def hidden(clock):
        raise OSError

    monkeypatch.setattr(time, "clock_gettime_ns", hidden)
    assert listen(SPINNERS) == 0.0
