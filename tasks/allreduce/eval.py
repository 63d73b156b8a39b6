"""Judges an all-reduce: starts the ranks, gives each its matrices, measures, and checks the sums.

    this process                           each rank
    draws the matrices        shape  ──▶   takes its own to its device
    starts the clock          go     ──▶   calls the submission for each, and waits for its device
    stops the clock           ◀──  done    when the last rank has ended its calls
    checks the sums           ◀──  saved   copies its sums to memory that this process can read

Matrices and sums are in files that both map.  The submission is only imported by ranks.
"""

import math
import os
import re
import statistics
import sys
import tempfile
import time
import traceback
from contextlib import contextmanager
from datetime import timedelta
from itertools import groupby
from multiprocessing import connection, get_context

import torch
import torch.distributed as dist
from reference import check_implementation, generate_input

BATCHES = 20
"""Timed batches of a benchmark.  In a batch, each rank gets `calls` matrices, one call after the other."""
PATIENCE_S = 20
"""How long a rank waits for another one in `torch.distributed`."""


def mapped(path, shape):
    """A tensor in a file: all processes that map it see the same numbers."""
    return torch.from_file(path, shared=True, size=math.prod(shape), dtype=torch.bfloat16).view(shape)


# ------------------------------------------------------------------ in a rank


def serve(rank, world_size, folder, pipe, results):
    os.close(results)
    try:
        play(rank, world_size, folder, pipe)
    except BaseException:  # the last lines of the log say which line of the submission failed
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)


def play(rank, world_size, folder, pipe):
    on_gpu = torch.cuda.is_available()
    device = torch.device("cuda", rank) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    else:
        torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // world_size))
    dist.init_process_group(
        "nccl" if on_gpu else "gloo",
        init_method=f"file://{folder}/meeting",
        rank=rank,
        world_size=world_size,
        timeout=timedelta(seconds=PATIENCE_S),
    )
    from submission import custom_kernel

    pipe.send_bytes(b"ready")
    while shape := pipe.recv():
        given, kept = mapped(f"{folder}/given.{rank}", shape), mapped(f"{folder}/kept.{rank}", shape)
        matrices = [matrix.to(device, copy=True) for matrix in given]
        pipe.send_bytes(b"ready")
        pipe.recv()
        sums = [custom_kernel((matrix, rank, world_size)) for matrix in matrices]
        if on_gpu:
            torch.cuda.synchronize()
        pipe.send_bytes(b"done")
        pipe.send_bytes(save(sums, kept).encode())
    dist.destroy_process_group()


def save(sums, kept):
    """Copy the sums to where the other process reads them; returns what is wrong with their types."""
    for got, place in zip(sums, kept, strict=True):
        if not isinstance(got, torch.Tensor):
            return f"custom_kernel returned {type(got).__name__}, not a tensor"
        if got.dtype != place.dtype or got.shape != place.shape:
            wanted = f"{place.dtype} of shape {tuple(place.shape)}"
            return f"custom_kernel returned {got.dtype} of shape {tuple(got.shape)}, not {wanted}"
        place.copy_(got)
    return ""


# ------------------------------------------------------------------ in this process


class Ranks:
    """The ranks of one world, which play one batch after the other."""

    def __init__(self, world_size, folder, results):
        self.folder, self.pipes, self.processes = folder, [], []
        for rank in range(world_size):
            ours, theirs = connection.Pipe()
            # A fork has torch already.  That is safe: this process uses neither CUDA nor threads.
            process = get_context("fork").Process(
                target=serve, args=(rank, world_size, folder, theirs, results), daemon=True
            )
            process.start()
            theirs.close()
            self.pipes.append(ours)
            self.processes.append(process)
        self.hear()

    def hear(self):
        """The next word of each rank, as soon as all have spoken.  Ends this program if a rank has ended."""
        words, silent = {}, set(self.pipes)
        while silent:
            for pipe in connection.wait(silent):
                try:
                    words[pipe] = pipe.recv_bytes(1000).decode(errors="replace")
                except (EOFError, OSError):
                    self.fail(self.pipes.index(pipe))
                silent.remove(pipe)
        return [words[pipe] for pipe in self.pipes]

    def fail(self, rank):
        """End, with the traceback of that rank as the last lines of the log."""
        self.processes[rank].join()
        for process in self.processes:
            process.kill()
        code = self.processes[rank].exitcode
        raise SystemExit(1 if code == 1 else f"rank {rank} ended with exit code {code}")

    def tell(self, word):
        for pipe in self.pipes:
            pipe.send(word)

    def batch(self, case, seed):
        """Play `calls` calls.  Returns what is wrong, and the nanoseconds of a call."""
        data = generate_input(**{**case, "seed": seed})
        shape = (case["calls"], *data.shape[2:])
        world = range(len(self.pipes))
        given, kept = ([mapped(f"{self.folder}/{name}.{rank}", shape) for rank in world] for name in ("given", "kept"))
        for rank in world:
            given[rank].copy_(data[:, rank])
        self.tell(shape)
        self.hear()
        start = time.perf_counter_ns()
        self.tell(True)
        self.hear()
        nanoseconds = (time.perf_counter_ns() - start) / case["calls"]
        faults = self.hear()
        faults = [fault or check_implementation(data, sums)[1] for fault, sums in zip(faults, kept, strict=True)]
        return "; ".join(f"rank {rank}: {fault}" for rank, fault in enumerate(faults) if fault), nanoseconds


@contextmanager
def started(world_size, results):
    with tempfile.TemporaryDirectory() as folder:
        ranks = Ranks(world_size, folder, results)
        try:
            yield ranks
            ranks.tell(None)
            for process in ranks.processes:
                process.join(PATIENCE_S)
        finally:
            for process in ranks.processes:
                process.kill()


def read_cases(path):
    secret = int(os.getenv("POPCORN_SEED", "0"))
    with open(path) as file:
        for number, line in enumerate(file):
            case = {key: int(value) for key, value in re.findall(r"(\w+): (\d+)", line)}
            yield number, line.strip(), {**case, "seed": case["seed"] + secret * 1000}


def play_case(ranks, case, batches):
    """Returns what is wrong, and the times of all batches but the first."""
    times = []
    for batch in range(batches):
        fault, nanoseconds = ranks.batch(case, case["seed"] + batch)
        if fault:
            return fault, []
        times.append(nanoseconds)
    return "", times[1:]


def statistics_of(times, calls):
    """The times are means of a batch of `calls` calls."""
    std = statistics.stdev(times)
    return {
        "runs": len(times) * calls, "mean": statistics.fmean(times), "std": std, "err": std / len(times) ** 0.5,
        "best": min(times), "worst": max(times),
    }  # fmt: skip


def main(mode, path):
    kind, batches = ("test", 1) if mode == "test" else ("benchmark", 1 + BATCHES)
    cases, is_right = list(read_cases(path)), True
    torch.set_num_threads(1)
    with os.fdopen(int(os.environ["POPCORN_FD"]), "w", buffering=1) as pen:
        pen.write(f"{kind}-count: {len(cases)}\n")
        for world_size, group in groupby(cases, key=lambda one: one[2]["world_size"]):
            with started(world_size, pen.fileno()) as ranks:
                for number, spec, case in group:
                    pen.write(f"{kind}.{number}.spec: {spec}\n")
                    fault, times = play_case(ranks, case, batches)
                    is_right = is_right and not fault
                    if fault:
                        pen.write(f"{kind}.{number}.status: fail\n{kind}.{number}.error: {' '.join(fault.split())}\n")
                    elif kind == "test":
                        pen.write(f"test.{number}.status: pass\n")
                    else:
                        pen.writelines(
                            f"benchmark.{number}.{key}: {one}\n"
                            for key, one in statistics_of(times, case["calls"]).items()
                        )
        pen.write(f"check: {'pass' if is_right else 'fail'}\n")
    return 0 if is_right else 112


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
