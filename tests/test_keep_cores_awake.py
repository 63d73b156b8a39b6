"""When a judge ends, however that happens, everything that it started ends: spinners, players, the warm parent."""

import contextlib
import json
import os
import signal
import subprocess
import sys

import pytest

from harness.processes import freezer

JUDGE = """
import json, os, sys, time
from harness.processes import freezer
from harness.sandbox.sandbox import PlayerFiles, Sandbox

endless = "import os\\nos.fork()\\nwhile True: pass"
with Sandbox(sys.argv[1], memory_gib=1, use_cgroup=sys.argv[2] == "freezer") as sandbox:
    sandbox.keep_awake()
    with sandbox.start_player(PlayerFiles(name="endless", files={"submission.py": endless})) as player:
        player.send({"do": "load"})
        while len([*freezer.descendants(player._keeper)]) < 2:
            time.sleep(0.01)
        if sys.argv[3] == "stopped":
            player.stop()
        family = [sandbox.warm_parent.process.pid, *freezer.descendants(sandbox.warm_parent.process.pid)]
        print(json.dumps(family), flush=True)
        time.sleep(60)
"""

ENDS = [
    ("bubblewrap", "freezer", "stopped", signal.SIGKILL),
    ("bubblewrap", "signals", "running", signal.SIGINT),
    ("none", "freezer", "stopped", signal.SIGKILL),
    ("none", "signals", "running", signal.SIGKILL),
]


@pytest.mark.walls
def test_no_process_outlives_a_judge(all_cores):
    with contextlib.ExitStack() as cleanup:
        judges = [cleanup.enter_context(judge_with(*how)) for *how, _ in ENDS]
        for (kind, *_, end), judge in zip(ENDS, judges, strict=True):
            family = json.loads(judge.stdout.readline())
            spinners = [pid for pid in family if os.sched_getscheduler(pid) == os.SCHED_IDLE]
            assert len(spinners) == len(os.sched_getaffinity(0)) - 1
            # warm parent, keeper, player, its child; two of bubblewrap
            assert len(family) == len(spinners) + (6 if kind == "bubblewrap" else 4)
            judge.send_signal(end)
            judge.wait()
            freezer.await_end(family)


@contextlib.contextmanager
def judge_with(*arguments):
    with subprocess.Popen(
        [sys.executable, "-c", JUDGE, *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as judge:
        try:
            yield judge
        finally:
            judge.send_signal(signal.SIGINT)
