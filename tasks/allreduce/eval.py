"""Judges an all-reduce: starts the ranks, gives each its matrices, measures, and checks the sums.

    this process                           each rank
    draws the matrices      bytes    ──▶   copies its own to its device
    starts the clock        calls    ──▶   calls the submission, copies each sum, waits for its device
    stops the clock         ◀──  "done"    when the last rank has ended its calls
    checks the sums         ◀──  bytes     sends its sums

Only ranks import the submission, and each is sent its own matrices only.
"""

import glob
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
TIMEOUT_S = 20
"""How long a rank waits for another one in `torch.distributed`."""
FAILED = b"failed: "


def as_bytes(tensor):
    return tensor.contiguous().view(torch.int16).numpy().tobytes()


def from_bytes(content, shape):
    return torch.frombuffer(bytearray(content), dtype=torch.bfloat16).view(shape)


# ------------------------------------------------------------------ in a rank


def serve(rank, world_size, folder, pipe, results, others):
    os.close(results)
    for other in others:
        other.close()
    try:
        play(rank, world_size, folder, pipe)
    except BaseException:
        pipe.send_bytes(FAILED + traceback.format_exc()[-4000:].encode(errors="replace"))
        time.sleep(3600)  # the other ranks would fail if this one ended first


def device_of(rank):
    """The CPU on the board CPU, for which the sandbox shows no GPU; else this rank's GPU."""
    has_gpu = glob.glob("/dev/nvidia[0-9]*") or os.path.exists("/dev/kfd")
    if not has_gpu or os.getenv("CUDA_VISIBLE_DEVICES") == "":
        return torch.device("cpu")
    torch.cuda.set_device(rank)
    return torch.device("cuda", rank)


def play(rank, world_size, folder, pipe):
    device = device_of(rank)
    if device.type == "cpu":
        torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // world_size))
    dist.init_process_group(
        "gloo" if device.type == "cpu" else "nccl",
        init_method=f"file://{folder}/meeting",
        rank=rank,
        world_size=world_size,
        timeout=timedelta(seconds=TIMEOUT_S),
        device_id=None if device.type == "cpu" else device,
    )
    from submission import custom_kernel

    pipe.send_bytes(b"ready")
    while True:  # until it is killed
        shape = pipe.recv()
        together = from_bytes(pipe.recv_bytes(), shape).to(device)
        matrices = [one.clone() for one in together]  # no call can reach the matrices of the next ones
        sums, fault = torch.zeros_like(together), ""
        del together
        pipe.send_bytes(b"ready")
        while (calls := pipe.recv()) is not None:
            for matrix, place in zip(matrices[:calls], sums, strict=False):
                got = custom_kernel((matrix, rank, world_size))
                fault = fault or objection(got, place)
                if not fault:
                    place.copy_(got)
            if device.type != "cpu":
                torch.cuda.synchronize(device)
            pipe.send_bytes(b"done")
        pipe.send_bytes(fault.encode())
        pipe.send_bytes(as_bytes(sums.cpu()))
        del matrices, sums


def objection(got, place):
    """What is wrong with the type of a sum.  A subclass of torch.Tensor could compute when it is copied."""
    if type(got) is not torch.Tensor:
        return f"custom_kernel returned {type(got).__name__}, not a torch.Tensor"
    if (got.dtype, got.shape, got.device) != (place.dtype, place.shape, place.device):
        kinds = [f"{one.dtype} of shape {tuple(one.shape)} on {one.device}" for one in (got, place)]
        return f"custom_kernel returned {kinds[0]}, not {kinds[1]}"
    return ""


# ------------------------------------------------------------------ in this process


class Ranks:
    """The ranks of one world, which play one batch after the other."""

    def __init__(self, world_size, folder, results):
        self.pipes, self.processes = [], []
        for rank in range(world_size):
            ours, theirs = connection.Pipe()
            # A fork has torch already.  That is safe: this process uses neither CUDA nor threads.
            others = [*self.pipes, ours]
            process = get_context("fork").Process(
                target=serve, args=(rank, world_size, folder, theirs, results, others)
            )
            process.start()
            theirs.close()
            self.pipes.append(ours)
            self.processes.append(process)
        self.receive()

    def receive(self):
        """The next message of each rank, when all have sent one.  Ends this program if a rank has failed."""
        messages, silent = {}, set(self.pipes)
        while silent:
            for pipe in connection.wait(silent):
                rank = self.pipes.index(pipe)
                try:
                    messages[rank] = pipe.recv_bytes()
                except (EOFError, OSError):
                    self.fail(rank)
                if messages[rank].startswith(FAILED):
                    self.fail(rank, messages[rank].removeprefix(FAILED).decode(errors="replace"))
                silent.remove(pipe)
        return [messages[rank] for rank in range(len(self.pipes))]

    def fail(self, rank, words=""):
        """End this program.  The last lines of its log say which rank failed, and why."""
        time.sleep(0.1)  # a rank that ends closes its connections first
        dead = [number for number, process in enumerate(self.processes) if process.exitcode is not None]
        if dead and words:  # that rank only noticed that another one was gone
            rank, words = dead[0], ""
        self.processes[rank].join(0 if words else 1)
        code = self.processes[rank].exitcode
        self.end()
        how = "closed its pipe" if code is None else f"ended with exit code {code}"
        raise SystemExit(words or f"rank {rank} {how}")

    def end(self):
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.join()

    def send(self, message):
        for rank, pipe in enumerate(self.pipes):
            try:
                pipe.send(message)
            except OSError:
                self.fail(rank)

    def seconds(self, calls):
        start = time.perf_counter_ns()
        self.send(calls)
        self.receive()
        return (time.perf_counter_ns() - start) / 1e9

    def batch(self, case, seed):
        """Play `calls` calls.  Returns the faults, and the seconds of a batch without calls and of this one."""
        data = generate_input(**{**case, "seed": seed})
        calls, shape = case["calls"], (case["calls"], *data.shape[2:])
        self.send(shape)
        for rank, pipe in enumerate(self.pipes):
            try:
                pipe.send_bytes(as_bytes(data[:, rank]))
            except OSError:
                self.fail(rank)
        self.receive()
        seconds = self.seconds(0), self.seconds(calls)
        self.send(None)
        faults = [word.decode(errors="replace")[:500] for word in self.receive()]
        sums = [from_bytes(content, shape) for content in self.receive()]
        for rank, one in enumerate(sums):
            if not faults[rank]:
                is_same = rank > 0 and not faults[0] and torch.equal(one, sums[0])
                faults[rank] = "" if is_same else check_implementation(data, one)[1]
        wrong = [f"rank {rank}: {fault}" for rank, fault in enumerate(faults) if fault]
        return "; ".join(wrong), seconds


@contextmanager
def started(world_size, results):
    with tempfile.TemporaryDirectory() as folder:
        ranks = Ranks(world_size, folder, results)
        try:
            yield ranks
        finally:
            ranks.end()


def read_cases(path):
    secret = int(os.environ.pop("POPCORN_SEED", "0"))
    with open(path) as file:
        for number, line in enumerate(file):
            case = {key: int(value) for key, value in re.findall(r"(\w+): (\d+)", line)}
            yield number, line.strip(), {**case, "seed": case["seed"] + secret * 1000}


def play_case(ranks, case, batches):
    """Returns the faults, and the nanoseconds of a call in all batches but the first."""
    seconds = []
    for batch in range(batches):
        fault, taken = ranks.batch(case, case["seed"] + batch)
        if fault:
            return fault, []
        seconds.append(taken)
    overhead = min(empty for empty, _ in seconds)
    times = [(taken - overhead) / case["calls"] * 1e9 for _, taken in seconds[1:]]
    if times and min(times) <= 0:
        raise SystemExit("a batch of calls took no longer than one without calls")
    return "", times


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
                        found = statistics_of(times, case["calls"])
                        pen.writelines(f"benchmark.{number}.{key}: {one}\n" for key, one in found.items())
        pen.write(f"check: {'pass' if is_right else 'fail'}\n")
    return 0 if is_right else 112


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
