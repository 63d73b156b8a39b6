"""Static rules: what honest kernels rarely need, found in a submission's source.

A finding proves nothing, and a file without findings may still cheat.  A maintainer decides.

Each rule of `RULES` looks for dotted names of Python, for native text (CUDA and C++, also in Python's strings), or for
nodes of Python's syntax tree.  In `names`, `os.fork` is that name and all below it, `?.f_back` any attribute of that
name, `class:torch.Tensor` a class that is derived from it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from harness.task.submission import MAX_BYTES
from scripts.common.text import plain, shorten
from scripts.review.reviewed_file import ReviewedFile, VisitedNode, root_of

MOST_LINES = 8
"""Lines that a rule lists."""
LONGEST_LINE = 160
LONG_LINE = 500
"""People do not write longer lines."""
SMALLEST_SIZE = 64
"""Smaller numbers are everywhere, also in honest files."""

LineNumbers = Iterable[int]


@dataclass(frozen=True, kw_only=True)
class SourceRule:
    """A rule.  `sentence` says what it looks for and why; `names` are separated by spaces, `native` is a regex."""

    name: str
    sentence: str
    names: str = ""
    native: str = ""
    finds: Callable[[ReviewedFile], LineNumbers] = field(default=lambda _: ())

    def lines(self, file: ReviewedFile) -> list[int]:
        found = set(self.finds(file))
        if self.names:
            names = _pattern_of(self.names)
            found.update(line for name, line in file.names if names.match(name))
        if self.native:
            native = re.compile(self.native)
            found.update(line for line, text in file.native if native.search(text))
        return sorted(found)


@dataclass(frozen=True, kw_only=True)
class SourceFinding:
    """The lines of a file that a rule has found; each is escaped and cut.  `more` is the number of lines left out."""

    rule: str
    sentence: str
    lines: tuple[tuple[int, str], ...]
    more: int = 0


def find_all(source: bytes, name: str, sizes: Iterable[int] = ()) -> list[SourceFinding]:
    """What the rules find in a file, in the order of the rules.

    Args:
        name: it ends in .py or .cu.
        sizes: the numbers in the task's benchmarks.
    """
    file = ReviewedFile(read_text(source), name, frozenset(size for size in sizes if size >= SMALLEST_SIZE))
    return [_finding(rule, lines, file) for rule in RULES if (lines := rule.lines(file))]


def read_text(source: bytes) -> str:
    """A file's text with lines as Python counts them."""
    return source[:MAX_BYTES].decode("utf-8-sig", "replace").replace("\r\n", "\n").replace("\r", "\n")


def _finding(rule: SourceRule, lines: list[int], file: ReviewedFile) -> SourceFinding:
    shown = tuple((line, quote_line(file.lines, line)) for line in lines[:MOST_LINES])
    return SourceFinding(rule=rule.name, sentence=rule.sentence, lines=shown, more=max(0, len(lines) - MOST_LINES))


def quote_line(lines: Sequence[str], number: int) -> str:
    """A line of hostile text, escaped and cut; empty if there is no such line."""
    line = lines[number - 1][: 10 * LONGEST_LINE] if 1 <= number <= len(lines) else ""
    return shorten(" ".join(plain(line).split()), LONGEST_LINE)


# Rules about Python's syntax.

_CHANGES = re.compile(
    "append(?:left)?|extend|insert|add|update|setdefault|pop(?:left|item)?|clear|remove|discard|send|[a-z]+_"
)
"""Methods that change a container, a generator, or a tensor in place."""
_MAKERS = re.compile(
    r"(?:dict|list|set|bytearray|collections\.\w+|torch\.(?:empty|zeros|ones|full|tensor|arange)\w*)(?:\.|$)"
)
_MUTABLE = (ast.Dict, ast.List, ast.Set, ast.DictComp, ast.ListComp, ast.SetComp)
_KEYED = frozenset({"get", "setdefault", "pop"})
_ADDRESSES = frozenset({"data_ptr", "untyped_storage", "_cdata", "_version"})
_SHAPES = frozenset({"shape", "size", "numel", "stride"})
_WRAPPERS = frozenset({"tuple", "str", "hash", "repr", "frozenset"})


def _is_mutable(value: ast.expr | None, file: ReviewedFile) -> bool:
    return isinstance(value, _MUTABLE) or (isinstance(value, ast.Call) and bool(_MAKERS.match(file.dotted(value.func))))


def _state(file: ReviewedFile) -> LineNumbers:
    """Changes to a module's containers, tensors, variables and functions from inside a function."""
    kept, functions = set[str](), set[str]()
    for place in file.places:
        match place.node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if not place.in_function:
                kept |= {name} if _is_mutable(value, file) else set()
            case ast.AnnAssign(target=ast.Name(id=name), value=value) if not place.in_function:
                kept |= {name} if _is_mutable(value, file) else set()
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) if not place.in_function:
                functions.add(name)
    for place in file.places:
        if _changes_state(place, kept, functions, file):
            yield place.line


def _changes_state(place: VisitedNode, kept: set[str], functions: set[str], file: ReviewedFile) -> bool:
    match place.node:
        case ast.Global() | ast.Nonlocal():
            return True
        case ast.FunctionDef(args=given) | ast.Lambda(args=given):
            return any(_is_mutable(value, file) for value in (*given.defaults, *given.kw_defaults))
        case ast.Call(func=ast.Name(id="setattr" | "delattr"), args=[target, *_]):
            return place.in_function and root_of(target) in functions
        case ast.Subscript(ctx=ast.Store() | ast.Del()):
            return place.in_function and root_of(place.node) in kept
        case ast.Attribute(ctx=ast.Store()):
            return place.in_function and root_of(place.node) in functions
        case ast.Call(func=ast.Attribute(value=value, attr=attr)) if _CHANGES.fullmatch(attr):
            return place.in_function and root_of(value) in kept
    return False


def _patches(file: ReviewedFile) -> LineNumbers:
    """Assignments to attributes of what was imported."""
    for place in file.places:
        match place.node:
            case ast.Attribute(ctx=ast.Store() | ast.Del()) if root_of(place.node) in file.imported:
                if not file.dotted(place.node).startswith("torch.backends."):
                    yield place.line
            case ast.Call(func=ast.Name(id="setattr" | "delattr"), args=[target, *_]):
                if root_of(target) in file.imported:
                    yield place.line


def _identities(file: ReviewedFile) -> LineNumbers:
    """Lookups by address or shape: as keys, or compared."""
    for place in file.places:
        match place.node:
            case ast.Subscript(slice=key):
                found = _has_part(key, _ADDRESSES | _SHAPES)
            case ast.Call(func=ast.Attribute(attr=attr), args=[key, *_]) if attr in _KEYED:
                found = _has_part(key, _ADDRESSES | _SHAPES)
            case ast.Compare(left=left, ops=[op, *_], comparators=others):
                wanted = _ADDRESSES | _SHAPES if isinstance(op, ast.In | ast.NotIn) else _ADDRESSES
                found = any(_has_part(one, wanted) for one in (left, *others))
            case ast.Assign(value=ast.Tuple() as key):
                found = _has_part(key, _ADDRESSES)
            case _:
                continue
        if found:
            yield place.line


def _has_part(key: ast.expr, wanted: frozenset[str]) -> bool:
    """Whether a key, or a part of it, is an address or a whole shape; not `x.shape[0]` and not arithmetic."""
    parts = key.elts if isinstance(key, ast.Tuple) else [key]
    return any(_is_part(part, wanted) for part in parts)


def _is_part(part: ast.expr, wanted: frozenset[str]) -> bool:
    match part:
        case ast.Call(func=ast.Name(id="id"), args=[_]):
            return "data_ptr" in wanted
        case ast.Call(func=ast.Name(id=name), args=[inner]) if name in _WRAPPERS:
            return isinstance(inner, ast.Attribute | ast.Call) and _is_attribute(inner, wanted)
        case ast.Attribute() | ast.Call(args=[], keywords=[]):
            return _is_attribute(part, wanted)
    return False


def _is_attribute(part: ast.expr, wanted: frozenset[str]) -> bool:
    func = part.func if isinstance(part, ast.Call) else part
    return isinstance(func, ast.Attribute) and func.attr in wanted


def _returned_inputs(file: ReviewedFile) -> LineNumbers:
    """Inputs that are returned, where no call before can have changed them."""
    functions = [one.node for one in file.places if isinstance(one.node, ast.FunctionDef)]
    for function in [one for one in functions if one.name == "custom_kernel"][-1:]:  # the one that counts
        arguments = [*function.args.posonlyargs, *function.args.args]
        if len(arguments) != 1:
            continue
        inputs = {arguments[0].arg}
        for node in ast.walk(function):
            match node:
                case (
                    ast.Assign(targets=[target], value=ast.expr() as value)
                    | ast.AnnAssign(target=target, value=ast.expr() as value)
                    | ast.NamedExpr(target=target, value=value)
                ) if root_of(value) in inputs:
                    inputs |= {part.id for part in _parts(target) if isinstance(part, ast.Name)}
        changes = file.first_changes(function)
        for node in ast.walk(function):
            if isinstance(node, ast.Return) and node.value:
                names = {root_of(one) for one in _parts(node.value)} & inputs
                if any(changes.get(name, node.lineno) >= node.lineno for name in names):
                    yield node.lineno


def _parts(node: ast.expr) -> list[ast.expr]:
    """The values of which a tuple, a list, a dict or a choice consists; else the value itself."""
    match node:
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Dict(values=parts):
            return parts
        case ast.IfExp(body=body, orelse=orelse):
            return [body, orelse]
        case ast.NamedExpr(value=value):
            return [value]
    return [node]


def _broad(file: ReviewedFile) -> LineNumbers:
    for place in file.places:
        match place.node:
            case ast.ExceptHandler(type=None):
                yield place.line
            case ast.ExceptHandler(type=ast.expr() as caught):
                kinds = caught.elts if isinstance(caught, ast.Tuple) else [caught]
                if any(isinstance(kind, ast.Name) and kind.id in ("Exception", "BaseException") for kind in kinds):
                    yield place.line


def _sizes(file: ReviewedFile) -> LineNumbers:
    """Numbers of the benchmarks, compared for equality or as keys."""
    for place in file.places:
        match place.node:
            case ast.Compare(left=left, ops=ops, comparators=others):
                is_equality = any(isinstance(op, ast.Eq | ast.NotEq | ast.In | ast.NotIn) for op in ops)
                if is_equality and any(_is_size(one, file) for one in (left, *others)):
                    yield place.line
            case ast.MatchValue(value=value):
                if _is_size(value, file):
                    yield place.line
            case ast.Dict(keys=keys):
                yield from (key.lineno for key in keys if key and _is_size(key, file))
    if file.sizes:
        numbers = f"(?:{'|'.join(map(str, sorted(file.sizes)))})[uUlL]{{0,3}}"
        native = re.compile(rf"(?:[=!]=|\bcase)\s*{numbers}\b|\b{numbers}\s*[=!]=")
        yield from (line for line, text in file.native if native.search(text))


def _is_size(node: ast.expr, file: ReviewedFile) -> bool:
    parts = node.elts if isinstance(node, ast.Tuple | ast.List | ast.Set) else [node]
    return any(isinstance(one, ast.Constant) and type(one.value) is int and one.value in file.sizes for one in parts)


def _unreadable(file: ReviewedFile) -> LineNumbers:
    """Lines that nobody can read; the first line, if this Python cannot parse the file."""
    yield from (number for number, line in enumerate(file.lines, 1) if len(line) > LONG_LINE)
    if file.tree is None:
        yield 1


# The table.


def _pattern_of(words: str) -> re.Pattern[str]:
    """A pattern for dotted names: `?.x` is an attribute of anything, `class:x` a base class."""
    parts = (rf".*\.{word[2:]}" if word.startswith("?.") else re.escape(word) for word in words.split())
    return re.compile(f"(?:{'|'.join(parts)})(?:\\.|$)")


RULES: tuple[SourceRule, ...] = (
    SourceRule(
        name="judge",
        sentence="It uses the judge's or the task's own code.",
        names="harness reference",
    ),
    SourceRule(
        name="patch",
        sentence="It replaces parts of other modules, or changes PyTorch's settings: other code may then be wrong.",
        names="torch.library.Library torch.overrides torch.utils._python_dispatch torch.set_num_threads "
        "torch.set_default_dtype torch.set_default_device torch.set_flush_denormal builtins "
        "torch.use_deterministic_algorithms unittest",
        finds=_patches,
    ),
    SourceRule(
        name="introspection",
        sentence="It looks into the interpreter: frames, loaded modules, live objects.",
        names="gc inspect traceback sys.modules sys._getframe sys._current_frames sys.settrace sys.setprofile "
        "sys.addaudithook sys.meta_path sys.excepthook sys.setrecursionlimit sys.setswitchinterval globals locals "
        "vars ?.f_back ?.f_locals ?.f_globals ?.tb_frame ?.gi_frame ?.__globals__ ?.__closure__ ?.__code__ "
        "?.__subclasses__ ?.__builtins__ ?.__dict__ ?.__traceback__",
    ),
    SourceRule(
        name="clock",
        sentence="It reads a clock: a file that knows when it is timed can work at other times.",
        names="time timeit datetime os.times resource torch.cuda.Event torch.Event torch.profiler "
        "torch.utils.benchmark",
        native=r"\b(?:clock_gettime|gettimeofday|timespec_get|__rdtscp?|__builtin_ia32_rdtscp?)\b|\bclock(?:64)?\s*\(|"
        r"\b(?:cuda|hip|cu)Event(?:ElapsedTime|Create)|std::chrono|%(?:globaltimer|clock)",
    ),
    SourceRule(
        name="late work",
        sentence="It starts threads or processes, or leaves work for later: work outside the timed call is not timed.",
        names="threading _thread multiprocessing concurrent asyncio subprocess torch.multiprocessing os.fork "
        "os.forkpty os.system os.popen os.posix_spawn os.posix_spawnp os.execv os.execve os.execl os.waitpid atexit "
        "sched weakref ?.__del__",
        native=r"\b(?:pthread_create|vfork|posix_spawnp?|exec[lv]p?e?)\s*\(|(?<![\w.>])(?:fork|clone3?|popen|system)\s*\("
        r"|std::(?:j?thread|async)\b|\b(?:atexit|on_exit)\s*\(",
    ),
    SourceRule(
        name="signal",
        sentence="It handles or sends signals.",
        names="signal os.kill os.killpg os.abort os.setpgid os.setsid os.sched_setscheduler os.nice",
        native=r"\b(?:sigaction|sigprocmask|setitimer|timer_create|sched_setattr)\b|(?<![\w.>])(?:signal|kill|raise)\s*\(",
    ),
    SourceRule(
        name="foreign memory",
        sentence="It calls the C library or reaches memory that it was not given.",
        names="ctypes cffi mmap ?.frombuffer ?._cdata sys._debugmallocstats torch._C",
        native=r"\b(?:dlopen|dlsym|dl_iterate_phdr|mprotect|munmap|mremap|process_vm_\w+|ptrace|LD_PRELOAD)\b|\bsyscall\s*\(",
    ),
    SourceRule(
        name="file",
        sentence="It reads or writes files or streams: a file can carry an answer from one call to the next.",
        names="open os.open os.read os.write os.pwrite os.dup2 os.pipe os.listdir os.mkdir os.makedirs os.memfd_create "
        "os.chmod os.path.exists os.symlink os.sync io pathlib shutil tempfile fcntl torch.load torch.save "
        "torch.from_file numpy.load numpy.save numpy.memmap sys.stdout sys.__stdout__ sys.stdin",
        native=r"/(?:proc|sys|dev|etc|cache|var|tmp)/|\b(?:fopen|[io]fstream|mmap|shm_open|memfd_create|opendir)\b|"
        r"#\s*include\s*[\"<](?:/|\.\.)",
    ),
    SourceRule(
        name="network",
        sentence="It uses sockets or the network.",
        names="socket ssl urllib http requests ftplib xmlrpc torch.distributed",
        native=r"(?<![\w.>])(?:socket|sendto|sendmsg|getaddrinfo)\s*\(",
    ),
    SourceRule(
        name="environment",
        sentence="It looks at how it was started: a file may compute only while it is tested.",
        names="sys.argv sys.path sys.flags os.environ os.getenv os.getpid os.getppid os.uname platform",
        native=r"\b(?:getenv|getpid|getppid)\s*\(",
    ),
    SourceRule(
        name="random",
        sentence="It reads or sets generators of random numbers: inputs are made with them.",
        names="random numpy.random torch.manual_seed torch.seed torch.initial_seed torch.get_rng_state torch.random "
        "torch.set_rng_state torch.Generator torch.default_generator torch.cuda.manual_seed",
    ),
    SourceRule(
        name="hidden code",
        sentence="It runs code that is not in plain sight.",
        names="exec eval compile __import__ importlib runpy base64 binascii codecs zlib bz2 lzma marshal pickle code",
    ),
    SourceRule(
        name="lookup by identity",
        sentence="It looks something up by an address or a shape, or keeps results of calls: they may be stale.",
        names="functools.cache functools.lru_cache",
        native=r"std::(?:unordered_)?map\s*<",
        finds=_identities,
    ),
    SourceRule(
        name="state",
        sentence="Something changes from call to call: state can carry an answer, or count the calls.",
        native=r"\b(?:static|thread_local)\s+(?!\s|const\s+[\w:]+\s+[^*]|constexpr|__(?:global|shared|constant)__)[^(\n]{0,200}[=;{\[]|"
        r"^\s*__device__\s+(?!__|inline|void)[^(\n]{0,200}[=;{]|"
        r"^(?:namespace\s*\{\s*)?(?:unsigned\s+)?(?:unsigned|bool|char|int|long|float|double|size_t|u?int\d+_t|(?:at|torch)::Tensor"
        r"|std::\w+(?:<[^;(\n]{0,100}>)?)(?:\s+|\s*\*\s*)\w+\s*[=;{\[]",
        finds=_state,
    ),
    SourceRule(
        name="returned input",
        sentence="It returns an input, and nothing before has changed it.",
        finds=_returned_inputs,
    ),
    SourceRule(
        name="late output",
        sentence="It defines a class of tensors or overloads what a comparison means.",
        names="class:torch.Tensor class:torch.nn.Parameter ?.__torch_function__ ?.__torch_dispatch__ ?.__eq__ "
        "?.__getattribute__ ?.__reduce__ ?._make_subclass ?._make_wrapper_subclass",
    ),
    SourceRule(
        name="broad except",
        sentence="It catches every error, and may fall back to something else silently.",
        names="contextlib.suppress",
        native=r"\bcatch\s*\(\s*\.\.\.",
        finds=_broad,
    ),
    SourceRule(
        name="benchmark size",
        sentence="It compares with a number of the task's benchmarks: a special case for what is timed.",
        finds=_sizes,
    ),
    SourceRule(
        name="stream",
        sentence="It uses a stream other than the current one: the judge's clock may not see that work.",
        names="torch.cuda.Stream torch.cuda.stream torch.cuda.ExternalStream torch.cuda.set_stream torch.Stream "
        "cupy.cuda.Stream cupy.cuda.ExternalStream",
        native=r"\b(?:(?:cuda|hip|cu)StreamCreate\w*|getStreamFromPool|(?:cuda|hip)Stream(?:NonBlocking|PerThread)|"
        r"(?:cuda|hip)(?:LaunchHostFunc|StreamAddCallback))",
    ),
    SourceRule(
        name="graph",
        sentence="It replays a recorded graph: check that it computes from this call's inputs.",
        names="torch.cuda.CUDAGraph torch.cuda.graph torch.cuda.graphs torch.cuda.make_graphed_callables",
        native=r"\b(?:(?:cuda|hip)Graph|cuGraph|(?:cuda|hip)StreamBeginCapture)",
    ),
    SourceRule(
        name="unreadable",
        sentence="A line is too long to read, or the file cannot be parsed here, so the other rules see less of it.",
        finds=_unreadable,
    ),
)
