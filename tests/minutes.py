"""A pytest plugin that prints how long the tests take, by file and by cause: `make test-minutes`.

Each worker adds up the wall-clock seconds of each file's tests, in total and by the causes below.  The seconds of a
wrapped call count for its own cause only, not for calls around it.
"""

import collections
import contextlib
import functools
import importlib
import json
import os
import shutil
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import pytest

CAUSES = {
    "sandboxes start and end": [
        "harness.sandbox.sandbox:Sandbox.__enter__",
        "harness.sandbox.sandbox:Sandbox.__exit__",
    ],
    "warm parents import torch": ["harness.sandbox.warm_parent:WarmParent.await_warmth"],
    "players start and end": [
        "harness.sandbox.player_handle:PlayerHandle.__init__",
        "harness.sandbox.player_handle:PlayerHandle.await_ready",
        "harness.sandbox.player_handle:PlayerHandle.close",
    ],
    "players compute": ["harness.sandbox.player_handle:PlayerHandle.receive"],
    "the judge's own work": ["harness.judge:judge", "harness.judge:duel", "harness.judge:JudgeSession.judge"],
    "sites built": ["scripts.pages.publishing.publish:build_site"],
    "browser": ["playwright._impl._sync_base:SyncBase._sync"],
    "sleeps": ["time:sleep"],
}
PROGRAMS = {"git": "git", "node": "node", "npm": "node", "chromium": "browser", "bash": "shells", "sh": "shells"}
"""The cause of waiting for a program, by the program's name; all others are `other programs`."""

_rest = "everything else"


class Minutes:
    """The seconds of this process, by file and cause."""

    def __init__(self):
        self.seconds = collections.defaultdict(collections.Counter)
        self.file = ""
        self._causes = [_rest]
        self._since = time.perf_counter()
        self._thread = threading.get_ident()

    def _count(self):
        now = time.perf_counter()
        if self.file:
            self.seconds[self.file][self._causes[-1]] += now - self._since
        self._since = now

    @contextlib.contextmanager
    def of(self, cause):
        if threading.get_ident() != self._thread:
            yield
            return
        self._count()
        self._causes.append(cause)
        try:
            yield
        finally:
            self._count()
            self._causes.pop()

    def begin(self, file):
        self._count()
        self.file = file

    def wrap(self, owner, name, cause_of):
        function = getattr(owner, name)

        @functools.wraps(function)
        def wrapped(*arguments, **options):
            with self.of(cause_of(*arguments)):
                return function(*arguments, **options)

        setattr(owner, name, wrapped)


def _program(popen, command=None, *_):
    command = getattr(popen, "args", command)
    arguments = command if isinstance(command, (list, tuple)) else [command]
    name = os.path.basename(os.fspath(arguments[0]))
    return PROGRAMS.get(name, "other programs")


FOLDER = "PULLRANK_TEST_MINUTES"
"""The environment variable with the folder where workers write their figures."""


def pytest_configure(config):
    if FOLDER not in os.environ:  # the first process; workers inherit it
        os.environ[FOLDER] = tempfile.mkdtemp(prefix="minutes-")
    minutes = config.minutes = Minutes()
    for cause, functions in CAUSES.items():
        for function in functions:
            module, path = function.split(":")
            with contextlib.suppress(ImportError):
                owner = importlib.import_module(module)
                *owners, name = path.split(".")
                minutes.wrap(functools.reduce(getattr, owners, owner), name, lambda *_, cause=cause: cause)
    for name in ("__init__", "wait", "communicate"):
        minutes.wrap(subprocess.Popen, name, _program)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item):
    minutes = item.config.minutes
    minutes.begin(item.nodeid.split("::")[0])
    try:
        return (yield)
    finally:
        minutes.begin("")


def pytest_sessionfinish(session):
    path = Path(os.environ[FOLDER]) / f"{os.getpid()}.json"
    path.write_text(json.dumps(session.config.minutes.seconds))


def pytest_terminal_summary(terminalreporter, config):
    if hasattr(config, "workerinput"):
        return
    files = collections.defaultdict(collections.Counter)
    for path in Path(os.environ[FOLDER]).glob("*.json"):
        for file, seconds in json.loads(path.read_text()).items():
            files[file].update(seconds)
    shutil.rmtree(os.environ.pop(FOLDER))
    causes = sum(files.values(), collections.Counter())
    terminalreporter.section("minutes")
    names = [cause for cause, _ in causes.most_common()]
    terminalreporter.line(f"| file | all | {' | '.join(names)} |")
    terminalreporter.line("|---|" + "---:|" * (1 + len(names)))
    for file, seconds in [("all", causes), *sorted(files.items(), key=lambda one: -sum(one[1].values()))]:
        cells = [
            f"{sum(seconds.values()):.0f}",
            *(f"{seconds[name]:.0f}" if seconds[name] >= 0.5 else "" for name in names),
        ]
        terminalreporter.line(f"| {Path(file).stem} | {' | '.join(cells)} |")
