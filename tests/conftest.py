"""Shared by all tests: fixtures, the order and places of the tests, tests that run alone, messages of failures."""

import contextlib
import enum
import fcntl
import functools
import gc
import os
import re
import shutil
import signal
import tempfile
from pathlib import Path

import pytest
from xdist.scheduler import LoadFileScheduling

from tests import cores, loads

if "PYTEST_XDIST_WORKER" in os.environ:
    # Linux divides a core between sessions.  A session with work on several cores may starve others on one of them for
    # seconds (seen with 6.18), and with them a player under test.
    os.setsid()

# Tests also run on busy machines, where a ranked judging would wait for ever.
os.environ["PULLRANK_OTHER_WORK"] = "allow"

HERE = Path(__file__).parent
LONG_TESTS = HERE / "long.txt"
LONG = [line for line in LONG_TESTS.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
PART = pytest.StashKey[tuple[Path, bool]]()
"""The previous test's file, and whether it ran alone."""
LOCKS = Path(os.environ.get("TESTS_LOCKS", HERE))
"""The folder with the files to lock; several copies of the repository may share it."""
LOCK = pytest.StashKey[contextlib.ExitStack]()
"""The locks that a test passes to the next one, if both run alone or both run without other judges."""
SLOWEST_FIRST = (
    "test_workflow_scenarios",
    "test_scenarios",
    "test_failures",
    "test_exploits",
    "test_judge",
    "test_check_gpu",
    "test_defences",
    "test_site_browser",
    "test_runner",
    "test_controls",
    "test_ci_check",
    "test_sealed",
    "test_sandbox",
    "test_reconcile",
    "test_script",
    "test_vendor_profilers",
    "test_languages",
    "test_announce",
    "test_submit",
    "test_task_tools",
    "test_whole_way",
    "test_walk",
)
"""So that all processes end at about the same time.  All other files follow in the order of their names.  The first of
these judge nothing, so they run beside the tests that no other judge may disturb."""
APART = {"tests/test_exploits.py": "[timing_"}
"""Files that take one process too long: the tests whose names contain this text run in another process."""
ALONE = pytest.StashKey[Path]()
"""A file with the names of the tests that run alone.  A process that runs tests knows them, the scheduler does not."""


@pytest.fixture
def discord():
    """A Discord on loopback."""
    from tests.discord_server import Discord

    made = Discord()
    yield made
    made.close()


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """A CUDA driver without a GPU."""
    from tests import fake_driver

    if not shutil.which("g++"):
        pytest.skip("needs g++")
    return fake_driver.build(tmp_path_factory.mktemp("driver"))


@pytest.fixture(scope="module")
def shared_sandbox():
    """One sandbox for all judgings of a module, since starting one takes seconds."""
    from harness.shared_sandbox import share_sandbox

    with share_sandbox() as shared:
        yield shared


@pytest.fixture(scope="module")
def expressions():
    """GitHub's evaluator of expressions."""
    from tests.actions import Expressions

    with Expressions() as started:
        yield started


@pytest.fixture(scope="module")
def warm():
    """The warm Python for the steps of workflows."""
    from tests.actions import WarmPython

    with WarmPython() as started:
        yield started


def pytest_addoption(parser):
    parser.addoption(
        "--stop",
        choices=["best", "signals"],
        default="best",
        help="how the exploits' players are stopped: as well as this machine can, or by signals",
    )
    parser.addoption("--load", choices=sorted(loads.KINDS), help="judge exploits and controls beside such other work")
    parser.addoption("--all", action="store_true", help="run the long tests, too: those that tests/long.txt names")
    parser.addoption("--pulls", type=int, default=4, help="how many pull requests come at once in the workflows' test")


@pytest.fixture(scope="module")
def load(request):
    """The kind of load beside the tests, if `--load` names one."""
    kind = request.config.getoption("--load")
    with loads.load_of(kind) if kind else contextlib.nullcontext():
        yield kind


# ---------------------------------------------------------------------- where files are written

MEMORY_FOLDER = Path("/dev/shm")
MEMORY_GIB = 4
"""The memory that must be free there.  Tests write less than 1 GiB at a time; git and sites are faster than on disk."""


def pytest_configure(config):
    """Let Ctrl-C reach what the tests start, and keep temporary files in memory where there is room.

    Programs started by an unattended shell or `nohup` ignore SIGINT or SIGHUP, and so do their children.  `TMPDIR` sets
    another folder for temporary files.
    """
    for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)
    config.memory_folder = None
    if "TMPDIR" in os.environ or not MEMORY_FOLDER.is_dir():
        return
    if shutil.disk_usage(MEMORY_FOLDER).free >= MEMORY_GIB << 30:
        config.memory_folder = os.environ["TMPDIR"] = tempfile.mkdtemp(prefix="tests-", dir=MEMORY_FOLDER)
        os.chmod(config.memory_folder, 0o1777)  # like /tmp: the sandbox's user writes there, too
        tempfile.tempdir = None


def pytest_unconfigure(config):
    if config.memory_folder:
        shutil.rmtree(config.memory_folder, ignore_errors=True)
        del os.environ["TMPDIR"]


# ---------------------------------------------------------------------- which tests, in which process, in which order


def pytest_xdist_auto_num_workers(config):
    """Two processes for each core, since many tests wait half of the time; each needs 2 GiB.

    With `-k`, one process: for a few tests that is quicker than to start several.
    """
    fit = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 31
    return 0 if config.option.keyword else max(1, min(2 * len(cores.ALL), fit))


def pytest_configure_node(node):
    """Tell a process where to list the tests that run alone."""
    if ALONE not in node.config.stash:
        node.config.stash[ALONE] = Path(tempfile.gettempdir(), f"alone-{os.getpid()}")
    node.workerinput["alone"] = str(node.config.stash[ALONE])


class AloneFirst(LoadFileScheduling):
    """First the tests that run alone or without other judges, all in one process; then the others, file by file."""

    @functools.cached_property
    def _alone(self):
        listed = self.config.stash[ALONE]
        names = set(listed.read_text(encoding="utf-8").splitlines())
        listed.unlink()
        return names

    def _split_scope(self, nodeid):
        if nodeid in self._alone:
            return "alone"
        file = super()._split_scope(nodeid)
        return f"{file}{APART[file]}" if file in APART and APART[file] in nodeid else file


def pytest_xdist_make_scheduler(config, log):
    """Run the tests of a file in one process, so that they share costly fixtures, and begin with the slowest files."""
    config.option.loadscopereorder = False
    return AloneFirst(config, log)


def pytest_ignore_collect(collection_path, config):
    """With `-k`, import only the test files that mention one of its words, and the files that the arguments name."""
    is_searched = collection_path.name.startswith("test_") and not _is_named(collection_path, config)
    return True if is_searched and not _mentions(collection_path, config.option.keyword) else None


def pytest_report_header(config):
    if _leaves_long_out(config):
        return f"without the long tests of {LONG_TESTS.relative_to(HERE.parent)}: make test-all runs them, too"
    if words := _words(config.option.keyword):
        return f"-k: collects test files in which a word begins with {' or '.join(words)}, and those that you name"
    return None


def _is_named(path, config):
    return any(path == (config.invocation_params.dir / arg.split("::")[0]).resolve() for arg in config.args)


def _mentions(path, expression):
    """Whether a word is in a test's name, or begins a word of the file or of its data files' names."""
    words = _words(expression)
    beside = HERE / path.stem.removeprefix("test_")
    names = " ".join([path.name, *(file.name for file in beside.glob("*"))])
    text = f"{names} {path.read_text(encoding='utf-8')}".lower()
    return not words or any(re.search(rf"def test\w*{word}|(?<![a-z]){word}", text) for word in map(re.escape, words))


def _words(expression):
    """The words to look for; none if `-k` also selects tests without them."""
    words = [word.lower() for word in re.findall(r"[^\s()]+", expression)]
    return [] if "not" in words else [word for word in words if word not in ("and", "or")]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    if _leaves_long_out(config):
        long = [item for item in items if any(is_named(name, item.nodeid) for name in LONG)]
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item not in long]
    items.sort(key=lambda item: (_company(item), _place(item)))
    if getattr(config, "workerinput", {}).get("workerid") == "gw0":
        names = [item.nodeid for item in items if _company(item) < Company.JUDGES]
        Path(config.workerinput["alone"]).write_text("\n".join(names), encoding="utf-8")


def pytest_collection_finish():
    """Leave the thousands of collected tests out of garbage collections: that saves a twentieth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


def _leaves_long_out(config):
    """Whether to leave out the long tests: not if `--all`, a path or `-k` asks for them."""
    paths = [(config.invocation_params.dir / arg.split("::")[0]).resolve() for arg in config.args]
    return not config.option.all and not config.option.keyword and paths == [HERE]


def is_named(name, nodeid):
    """Whether a line of tests/long.txt names this test: its file, the test, or this case of it."""
    return nodeid == name or nodeid.startswith((f"{name}[", f"{name}::"))


def _place(item):
    name = item.path.stem
    return SLOWEST_FIRST.index(name) if name in SLOWEST_FIRST else len(SLOWEST_FIRST)


# ---------------------------------------------------------------------- what a test needs


class Company(enum.IntEnum):
    """What may run beside a test."""

    NOTHING = 0
    NO_JUDGES = 1
    JUDGES = 2


def _company(item):
    if _is_alone(item):
        return Company.NOTHING
    return Company.NO_JUDGES if item.get_closest_marker("only_judge") else Company.JUDGES


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item, nextitem):
    """A test that runs alone waits until the other processes' tests have ended, and they wait for it.

    They wait for all such tests in a row: otherwise the processes would wait for each other after every test.
    """
    locks = item.config.stash.get(LOCK, None) or _locks_of(item)
    _take_cores(item)
    try:
        return (yield)
    finally:
        company = _company(item)
        is_kept = company < Company.JUDGES and nextitem is not None and _company(nextitem) == company
        item.config.stash[LOCK] = locks if is_kept else None
        if not is_kept:
            locks.close()


def _locks_of(item):
    company = _company(item)
    locks = contextlib.ExitStack()
    locks.enter_context(_locked("conftest.py", "cores.py", is_shared=company > Company.NOTHING))
    if not item.get_closest_marker("judges_nothing"):
        locks.enter_context(_locked("judge_sessions.py", "loads.py", is_shared=company != Company.NO_JUDGES))
    return locks


@contextlib.contextmanager
def _locked(name, door_name, *, is_shared):
    kind = fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX
    with open(LOCKS / name, "rb") as lock:
        with open(LOCKS / door_name, "rb") as door:
            # While a test waits for the exclusive lock, it holds the door's lock, so no other test begins.
            fcntl.flock(door, kind)
            fcntl.flock(lock, kind)
            fcntl.flock(door, fcntl.LOCK_UN)
        try:
            yield
        finally:
            fcntl.flock(lock, fcntl.LOCK_UN)  # a child that a test has left behind would keep holding it


def _take_cores(item):
    """At a file's first test: later, a module's fixture may have started a sandbox that is pinned to its cores."""
    part = item.path, _is_alone(item)
    if item.config.stash.get(PART, None) != part:
        item.config.stash[PART] = part
        os.sched_setaffinity(0, cores.ALL if _is_alone(item) else cores.own())


def _is_alone(item):
    return item.get_closest_marker("alone") is not None


@pytest.fixture
def all_cores():
    """All cores, for one test: this process has one, or an earlier sandbox has pinned it to one."""
    ours = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores.ALL)
    yield cores.ALL
    os.sched_setaffinity(0, ours)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    if item.get_closest_marker("walls") and (faults := _sandbox_faults()):
        pytest.skip(f"the sandbox does not work here: {'; '.join(faults)}")


@functools.cache
def _sandbox_faults():
    from harness.sandbox.works_here import find_faults

    return find_faults()


# ---------------------------------------------------------------------- how a failure reads


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    """Head a failure with the sentence that is the test's name."""
    report = yield
    if report.failed:
        file, line, name = report.location
        function, bracket, case = name.partition("[")
        sentence = function.removeprefix("test_").replace("_", " ")
        report.location = file, line, sentence[:1].upper() + sentence[1:] + bracket + case
    return report


@pytest.hookimpl(wrapper=True)
def pytest_assertrepr_compare(op, left, right):
    """Say which of two values was expected: in these tests, the one on the right."""
    explanations = yield
    if op == "==" and explanations:
        summary, *details = explanations[0]
        explanations[0] = [summary, f"came:     {_short(left)}", f"expected: {_short(right)}", *details]
    return explanations


def _short(value):
    text = repr(value)
    return text if len(text) <= 300 else f"{text[:300]} …"
