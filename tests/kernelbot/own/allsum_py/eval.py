"""Starts a case's number of ranks, lets each call the submission, and writes the results."""

import os
import re
import statistics
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from datetime import timedelta

import torch
from torch.multiprocessing import get_context

CALLS = 20
PATIENCE_S = 20


def read_cases(path):
    with open(path) as file:
        for line in file:
            yield line.strip(), {key: int(value) for key, value in re.findall(r"(\w+): (\d+)", line)}


def part_of(case, rank, call):
    return torch.randint(
        -99, 99, (case["size"],), generator=torch.Generator().manual_seed(case["seed"] * 64 + rank + call)
    )


def rank_main(rank, case, meeting, calls):
    from submission import all_sum

    world = case["world_size"]
    on_gpu = torch.cuda.is_available()
    torch.distributed.init_process_group(
        "nccl" if on_gpu else "gloo", init_method=f"file://{meeting}", rank=rank, world_size=world,
        timeout=timedelta(seconds=PATIENCE_S),
    )  # fmt: skip
    device = torch.device("cuda", rank) if on_gpu else torch.device("cpu")
    times, is_right = [], True
    for call in range(calls):
        part = part_of(case, rank, call).to(device)
        expected = sum(part_of(case, other, call) for other in range(world))
        torch.distributed.barrier()
        start = time.perf_counter_ns()
        got = all_sum(part, rank, world)
        times.append(time.perf_counter_ns() - start)
        is_right = is_right and torch.equal(got.cpu(), expected)
    torch.distributed.destroy_process_group()
    return rank, is_right, times


def play(case, calls):
    """By rank: whether all was right, and the times.  Ranks wait for each other, so each needs its own worker."""
    workers = int(os.getenv("POPCORN_GPUS", "1"))
    with (
        tempfile.TemporaryDirectory() as folder,
        ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool,
    ):
        ranks = [pool.submit(rank_main, rank, case, f"{folder}/meeting", calls) for rank in range(case["world_size"])]
        try:
            return [rank.result() for rank in ranks]
        except BrokenProcessPool:
            raise SystemExit("a rank has died") from None


def main(mode, path):
    kind = "test" if mode == "test" else "benchmark"
    cases = list(read_cases(path))
    with os.fdopen(int(os.environ["POPCORN_FD"]), "w", buffering=1) as pen:
        pen.write(f"{kind}-count: {len(cases)}\n")
        good = True
        for number, (spec, case) in enumerate(cases):
            pen.write(f"{kind}.{number}.spec: {spec}\n")
            answers = play(case, 1 if kind == "test" else CALLS)
            wrong = [rank for rank, is_right, _ in answers if not is_right]
            good = good and not wrong
            if wrong:
                pen.write(f"{kind}.{number}.status: fail\n{kind}.{number}.error: rank {wrong[0]} has another sum\n")
            elif kind == "test":
                pen.write(f"test.{number}.status: pass\n")
            else:
                write_times(pen, number, [max(call) for call in zip(*(times for _, _, times in answers))])
        pen.write(f"check: {'pass' if good else 'fail'}\n")
    return 0 if good else 112


def write_times(pen, number, times):
    """Write the time of each call's slowest rank."""
    std = statistics.stdev(times)
    facts = {"runs": CALLS, "mean": statistics.fmean(times), "std": std, "err": std / CALLS**0.5}
    for key, value in (facts | {"best": min(times), "worst": max(times)}).items():
        pen.write(f"benchmark.{number}.{key}: {value}\n")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
