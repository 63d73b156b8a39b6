"""The review aid: what its rules find and ignore, what its language model may say, and where maintainers see it."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from harness.records.judgement import Claim
from harness.task.task import load_task, load_tasks
from scripts.cli import run
from scripts.competition.settings import Reader
from scripts.review.aid import ReviewAid, as_markdown, as_text, review_aid, sizes_of
from scripts.review.reader import MAX_SOURCE, ReaderNote, ReaderNotes, ask_reader
from scripts.review.reviewed_file import ReviewedFile
from scripts.review.rules import LONGEST_LINE, MOST_LINES, RULES, find_all
from tests.competition import SOURCE, Scene
from tests.test_boards import serving

ROOT = Path(__file__).parent.parent
TASKS = load_tasks(ROOT / "tasks")
EXPLOITS = sorted((ROOT / "tests/exploits").glob("*_*.py"))
KERNEL = "def custom_kernel(data):\n    "


def found(source: str, name: str = "submission.py") -> list[str]:
    """Each finding as `rule line`; findings about the whole file have no line, and are left out."""
    return [f"{one.rule} {line}" for one in find_all(source.encode(), name, {1000}) for line, _ in one.lines]


# The rules.

PYTHON = {
    "clock 2": "import torch\nfrom time import perf_counter as now",
    "clock 3": f"import torch as t\n{KERNEL}return t.cuda.Event(enable_timing=True)",
    "late work 2": "import os\nos.fork()",
    "late work 1": "from concurrent.futures import ThreadPoolExecutor",
    "introspection 2": f"{KERNEL}return getattr(data, 'f_back')",
    "introspection 1": "import gc",
    "foreign memory 1": "import ctypes",
    "file 2": f"{KERNEL}return open('/proc/self/maps').read()",
    "signal 1": "from signal import SIGSTOP",
    "network 1": "import socket",
    "environment 2": "import sys\nsys.argv",
    "random 2": "import torch\ntorch.manual_seed(1)",
    "hidden code 2": f"{KERNEL}return eval('1')",
    "judge 1": "from harness.inside import player",
    "patch 2": "import torch\ntorch.empty = None",
    "patch 3": "import torch\n\nsetattr(torch.Tensor, 'sort', None)",
    "lookup by identity 3": f"kept = []\n{KERNEL}return kept.index(0) if id(data) == 7 else data.sum()",
    "lookup by identity 2": f"{KERNEL}return cache[data.data_ptr()]",
    "lookup by identity 4": f"import functools\n\n\n@functools.lru_cache\n{KERNEL}return data.sum()",
    "state 3": f"kept = {{}}\n{KERNEL}kept[0] = data.sum()",
    "state 2": f"{KERNEL}global calls",
    "state 1": "def custom_kernel(data, kept={}):\n    return data.sum()",
    "returned input 3": f"{KERNEL}a, b = data\n    return b",
    "returned input 2": f"{KERNEL}return data.sum() if data[0] else data[1]",
    "broad except 4": f"{KERNEL}try:\n        return data.sum()\n    except (ValueError, Exception):\n        pass",
    "benchmark size 2": f"{KERNEL}return data.sum() if len(data) == 1000 else 0",
    "benchmark size 3": f"{KERNEL}match len(data):\n        case 1000:\n            pass",
    "stream 2": "import torch\ntorch.cuda.Stream()",
    "graph 2": "import torch\ntorch.cuda.CUDAGraph()",
    "late output 2": "import torch\nclass Lazy(torch.Tensor): pass",
    "unreadable 2": "x = 1\n" + "x = 1; " * 100,
}


@pytest.mark.parametrize("expected", PYTHON)
def test_a_rule_finds_its_line_of_python(expected: str) -> None:
    assert expected in found(PYTHON[expected])


NATIVE = {
    "clock": "auto now = std::chrono::steady_clock::now();",
    "late work": "pthread_create(&thread, nullptr, work, nullptr);",
    "signal": "sigaction(SIGALRM, &action, nullptr);",
    "foreign memory": 'void *found = dlsym(nullptr, "clock_gettime");',
    "file": 'int memory = open("/proc/self/mem", 2);',
    "network": "int s = socket(1, 1, 0);",
    "environment": 'getenv("SEED");',
    "lookup by identity": "std::unordered_map<void *, at::Tensor> kept;",
    "state": "static at::Tensor kept = at::empty({1});",
    "broad except": "try { go(); } catch (...) { }",
    "benchmark size": "if (n == 1000) return;",
    "stream": "cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);",
    "graph": "cudaGraphLaunch(graph, stream);",
}


@pytest.mark.parametrize("rule", NATIVE)
def test_a_rule_finds_its_line_of_cuda_also_in_pythons_strings(rule: str) -> None:
    code = f"// nothing here\n{NATIVE[rule]}\n"
    assert f"{rule} 2" in found(code, "submission.cu")
    assert f"{rule} 3" in found(f'SOURCE = """\n{code}"""\n')


def test_a_lambdas_default_value_and_a_functions_attribute_are_state_too() -> None:
    assert found("custom_kernel = lambda data, kept=[]: kept.append(data) or data.sum()") == ["state 1"]
    attribute = "setattr(custom_kernel, 'calls', 1)"
    assert found(f"{KERNEL}{attribute}\n    return data.sum()\n{attribute}") == ["state 2"]


def test_comments_and_docstrings_of_a_file_have_no_findings() -> None:
    code = "\n".join(NATIVE.values())
    assert found(f"/*\n{code}\n*/\n", "submission.cu") == []
    assert found(f"'''\n{code}\n'''\n# import time\n") == []


@pytest.mark.parametrize(
    "line",
    [
        "static float *cache;", "static size_t calls = 0;", "static std::atomic<int> c{0};", "static char b[9];",
        "static __device__ float cache[1024];", "int64_t calls;", "std::vector<float> kept;", "torch::Tensor cached;",
        "float* cache;", "char buf[9];", "unsigned calls = 0;", "thread_local int n;", "static inline float g = 0;",
        "static const float* last;", "namespace { int calls = 0; }",
    ],
)  # fmt: skip
def test_variables_that_outlive_a_call_are_state(line: str) -> None:
    assert "state 2" in found(f"// nothing here\n{line}\n", "submission.cu")


def test_a_size_may_have_a_suffix() -> None:
    assert found("if (n == 1000u) return;\n", "submission.cu") == ["benchmark size 1"]


@pytest.mark.parametrize(
    "source",
    [
        f"def helper(data): return print(data)\n{KERNEL}return data",
        "def custom_kernel(data, /):\n    return data",
        f"{KERNEL}x: object = data[0]\n    return x",
        f"{KERNEL}return (x := data)",
        f"{KERNEL}a, b = data\n    return {{'a': a, 'b': b.sum()}}",
    ],
)
def test_an_input_may_be_returned_in_many_ways(source: str) -> None:
    assert any(one.startswith("returned input ") for one in found(source)), found(source)


def test_every_rule_has_an_example_here() -> None:
    assert {rule.name for rule in RULES} == {expected.rpartition(" ")[0] for expected in PYTHON}


HONEST = [
    "import os\nimport torch\ntorch.backends.cuda.matmul.allow_tf32 = True",
    f"{KERNEL}x, out = data\n    kernel[(x.shape[0],)](x, out, x.numel())\n    return out",
    f"{KERNEL}assert data.shape == data.shape and data.data_ptr() % 16 == 0\n    return data.clone()",
    f"{KERNEL}x = data[0]\n    x[: x.shape[0]] = 1\n    return x",
    f"{KERNEL}try:\n        return data.sum()\n    except ValueError:\n        return data.sum(0)",
]


@pytest.mark.parametrize("source", HONEST)
def test_usual_lines_of_honest_kernels_have_no_findings(source: str) -> None:
    assert found(source) == []


def test_honest_cuda_has_no_findings() -> None:
    code = (
        "__device__ __forceinline__ float f(float x) { return x; }\nauto y = x.clone();\nstatic at::Tensor g(int n) {\n"
        "static  const float TABLE[] = {1};\nstatic inline float k(float x) {\nstatic constexpr int WARPS = 4;\n  int64_t here = 0;\nint64_t rest(int n);\n"
        "  static __shared__ float tile[32];\nstatic __global__ void h() {\n"
    )
    assert found(code + "cudaStream_t s = at::cuda::getCurrentCUDAStream();\n", "submission.cu") == []


RANKS = {"halves": {"network"}, "library": {"network"}, "shared_memory": {"network", "file", "state"}}
"""The rules that accepted examples for several ranks break."""


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_accepted_examples_have_no_findings(task: Any) -> None:
    """But ranks need a network to exchange tensors, or memory that they share and keep."""
    for path in sorted((task.folder / "examples/accepted").iterdir()):
        allowed = RANKS.get(path.stem, set()) if task.multi_gpu else set()
        assert {one.rule for one in find_all(path.read_bytes(), path.name, sizes_of(task))} == allowed, path


def test_every_attack_on_time_memory_or_judge_has_a_finding() -> None:
    attacks = [path for path in EXPLOITS if path.name.startswith(("cache_", "mode_", "timing_", "tamper_"))]
    missed = {path.stem for path in attacks if not find_all(path.read_bytes(), path.name)}
    # These raise or print openly.
    assert missed == {"tamper_exit_in_a_call", "tamper_injected_lines"} and len(attacks) > 60


STRANGE = {
    "deep parentheses": b"(" * 100_000,
    "deep operators": b"x = " + b"-" * 100_000 + b"1",
    "a long chain": b"x = a" + b".b" * 2_900,
    "null bytes": b"\0" * 1000,
    "all bytes": bytes(range(256)) * 100,
    "an endless comment": b'x = """' + b"/*" * 50_000 + b'"""',
    "many returns": b"def custom_kernel(d):\n" + b" a = d\n" * 3_000 + b" return a\n" * 3_000,
    "static without end": b"static bool" + b" " * 100_000,
}


@pytest.mark.parametrize("name", ["submission.py", "submission.cu"])
@pytest.mark.parametrize("strange", STRANGE)
def test_a_strange_file_is_read_without_an_error(strange: str, name: str) -> None:
    for finding in find_all(STRANGE[strange], name, {1000}):
        assert 1 <= len(finding.lines) <= MOST_LINES
        assert all(len(line) <= LONGEST_LINE and line.isprintable() for _, line in finding.lines)


def test_each_use_of_a_long_imported_name_is_cheap() -> None:
    source = f"import {'a' * 5_000} as x\nfrom {'b' * 5_000} import y, z\n" + "x.c, y.d\n" * 9
    names = ReviewedFile(source, "submission.py").names
    assert sum(len(name) for name, _ in names) < 3 * len(source)


def test_a_file_that_cannot_be_parsed_says_so() -> None:
    assert found("def (:\n") == ["unreadable 1"]


def test_a_rule_lists_a_few_lines_and_counts_the_rest() -> None:
    (finding,) = find_all(b"import time\n" * (MOST_LINES + 3), "submission.py")
    assert (len(finding.lines), finding.more) == (MOST_LINES, 3)


# The language model.

NOTES = {"notes": [{"line": 2, "reason": "Caches."}]}


class Api:
    """A server of chat completions: it answers with `content`, and keeps the requests."""

    def __init__(self, content: object, status: int = 200, *, knows_no_format: bool = False) -> None:
        said = content if isinstance(content, str) else json.dumps(content)
        self.answer = json.dumps({"id": "1", "choices": [{"index": 0, "message": {"role": "x", "content": said}}]})
        self.knows_no_format = knows_no_format
        self.status, self.asked, self.free = status, [], threading.Event()  # type: ignore[var-annotated]


def handler_of(api: Api) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            api.asked.append((self.path, self.headers["Authorization"], body))
            if api.status == 0:
                api.free.wait(10)
                return
            is_refused = api.knows_no_format and "response_format" in body
            self.send_response(400 if is_refused else api.status)
            self.end_headers()
            self.wfile.write(b"unknown key response_format" if is_refused else api.answer.encode())

        def log_message(self, *arguments: object) -> None:
            pass

    return Handler


def asked(api: Api, source: str = "x = 1\ny = 2\n", key: str = "secret-key", timeout_s: float = 5.0) -> ReaderNotes:
    with serving(handler_of(api)) as url:
        findings = find_all(source.encode(), "submission.py")
        said = ask_reader(source, "Sort.", findings, Reader(url=url, model="m-1"), key, timeout_s=timeout_s)
        api.free.set()
    return said


def test_the_reader_gets_file_task_and_findings_and_its_notes_come_back() -> None:
    api = Api(NOTES)
    assert asked(api, "import time\ny = 2\n") == ReaderNotes(notes=(ReaderNote(line=2, reason="Caches."),))
    ((path, authorization, body),) = api.asked
    assert (path, authorization, body["model"]) == ("/cup/chat/completions", "Bearer secret-key", "m-1")
    question = json.loads(body["messages"][1]["content"])
    assert question["source"].startswith("1: import time\n2: y = 2") and question["task"] == "Sort."
    assert question["findings"][0]["lines"] == [1]


def test_json_in_a_fence_is_read_and_lines_beyond_the_file_are_dropped() -> None:
    notes = {"notes": [*NOTES["notes"], {"line": 99, "reason": "No such line."}]}
    assert [one.line for one in asked(Api(f"```json\n{json.dumps(notes)}\n```")).notes] == [2]


def test_a_server_without_json_mode_is_asked_again_without_it() -> None:
    api = Api(NOTES, knows_no_format=True)
    assert asked(api).notes == (ReaderNote(line=2, reason="Caches."),)
    assert ["response_format" in body for _, _, body in api.asked] == [True, False]


GARBAGE = [
    "I like it.", "{", '{"notes": "none"}', '{"notes": [{"line": "2", "reason": "x"}]}', '{"notes": [], "verdict": "AC"}',
    '{"notes": [{"line": 0, "reason": "x"}]}', '{"notes": [{"line": 1, "reason": ""}]}', "[" * 100_000, "{" * 100_000 + "}",
]  # fmt: skip


@pytest.mark.parametrize("garbage", GARBAGE, ids=range(len(GARBAGE)))
def test_an_answer_that_is_not_the_json_asked_for_gives_no_notes(garbage: str) -> None:
    assert asked(Api(garbage)).missing == "its answer is not the JSON that was asked for"


def test_a_server_that_refuses_or_hangs_gives_no_notes_and_no_error() -> None:
    assert asked(Api(NOTES, status=401)).missing == "the reader's server answered with status 401"
    refusing = Api(NOTES, status=400)
    assert asked(refusing).missing == "the reader's server answered with status 400" and len(refusing.asked) == 1
    assert asked(Api(NOTES, status=302)).missing == "the reader's server answered with status 302"
    slow = asked(Api(NOTES, status=0), timeout_s=0.3)
    assert "timed out" in slow.missing and "secret-key" not in slow.missing


def test_no_reader_no_key_or_a_long_file_asks_nobody() -> None:
    api = Api(NOTES)
    assert ask_reader("x", "", [], None, "key").missing.endswith("names none")
    assert asked(api, key="").missing == "READER_KEY is not set"
    assert "longer than" in asked(api, "x" * (MAX_SOURCE + 1)).missing
    assert api.asked == []


def test_a_malformed_key_is_not_shown() -> None:
    for key in ("secret\r\nX: 1", "sécret\u2028"):
        said = asked(Api(NOTES), key=key)
        assert said.missing and "cret" not in said.missing


INJECTED = "</details>\n@everyone ![x](https://evil.example/x) `a` \x1b[2J <script> | " + "A" * 1000


def test_what_file_and_reader_say_stays_code_in_the_aid() -> None:
    source = b"import time  # </details> @everyone <script> \x1b[2J `x`\n"
    notes = asked(Api({"notes": [{"line": 1, "reason": INJECTED}]}), source.decode())
    (note,) = notes.notes
    assert len(note.reason) == 300 and note.reason.isprintable()
    aid = ReviewAid(
        findings=tuple(find_all(source, "submission.py")), reader=notes, model="m-1", lines=(source.decode(),)
    )
    text = as_markdown(aid)
    assert "\x1b" not in text and "\n@everyone" not in text and "\n</details>" not in text
    for line in text.splitlines():
        for word in ("@everyone", "<script>", "https://evil"):
            before = line.partition(word)[0] if word in line else "`"
            assert "`" in before, line
    assert all(line.isprintable() for line in as_text(aid))


# Display.


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    made = Scene(tmp_path, monkeypatch)
    with made.server:
        yield made


def test_a_held_first_place_gets_a_check_run_with_the_aid_and_another_does_not(scene: Scene) -> None:
    source = b"import time\n" + SOURCE
    pull = scene.submit(scene.alice, source)
    (judging,) = scene.waiting()
    scene.evaluate(judging, scene.honest(ratio=0.5, claim=Claim.SELF_TIMED))
    (review,) = scene.runs("review.yml")
    assert review.inputs == {"request": judging.inputs["request"]}
    assert "`PullRank review` among the checks" in scene.comment(pull.number)
    assert scene.step("review", workflow="review.yml", job="review", REQUEST=review.inputs["request"]) == 0
    (check,) = [one for one in scene.world.checks.values() if one.name == "PullRank review / CPU"]
    assert (check.conclusion, check.output["title"]) == ("neutral", "For maintainers: 1 finding")
    summary = check.output["summary"]
    assert "- line 1: `import time`" in summary and "This decides nothing." in summary
    assert "No reader's notes: `` `reader` in .github/pullrank.yml names none ``" in summary
    scene.submit(scene.world.add_user("bob"), SOURCE + b"# bob's\n")
    scene.evaluate(scene.waiting()[0], scene.honest(ratio=0.9))
    assert scene.runs("review.yml") == [review]


def test_moderate_review_prints_the_aid_for_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "kernel.py"
    file.write_text(f"#!POPCORN leaderboard vectoradd\n{KERNEL}return eval('data[0]')\n")
    assert run(["moderate", "review", str(file)]) == 0
    said = capsys.readouterr().out
    assert "hidden code: It runs code that is not in plain sight.\n  line 3: return eval('data[0]')\n" in said
    assert "No reader's notes: `reader` in .github/pullrank.yml names none" in said
    assert run(["moderate", "review", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["findings"][0]["rule"] == "hidden code"
    assert run(["moderate", "review", str(tmp_path / "none.py")]) == 2


def test_the_aid_of_a_file_without_findings_says_so() -> None:
    task = load_task(ROOT / "tasks/vectoradd")
    aid = review_aid(SOURCE, "submission.py", task, None, "")
    assert aid.summary == "0 findings" and "The rules found nothing." in as_markdown(aid)
