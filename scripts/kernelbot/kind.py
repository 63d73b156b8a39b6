"""Decide from a KernelBot task's source whether the referee can judge it, or only the task's own program.

The referee makes inputs, computes answers and checks outputs, so it needs a reference.py with all three functions,
inputs and outputs that can be sent to another process, and submissions that define `custom_kernel`.  If one of them is
missing, only the task's own evaluator can judge it.

A tensor can be sent, but not an attribute that somebody set on it (`weight.is_shuffled = True`): copies lose it.  Tasks
that need such attributes have an evaluator that does not copy its inputs, by which they are recognized.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harness.task.python_file import parse_python
from scripts.kernelbot.objects import class_returned

FUNCTIONS = ("generate_input", "ref_kernel", "check_implementation")

_OWN_CLOCK = re.compile(rb"CUDAGraph|cuda\.graph\(|do_bench_cudagraph")
"""Found in evaluators that time replays of a graph instead of calls."""


def why_script(values: Mapping[str, Any], files: Mapping[str, bytes], starters: Sequence[bytes]) -> str:
    """Why the referee cannot judge a task; "" if it can.

    Args:
        values: the values of its task.yml.
        files: its files by their new names.
        starters: its Python templates and solutions.
    """
    if values.get("lang") == "cu":
        return "its submissions are compiled by the task's own program (lang: cu)"
    if values.get("evaluator") == "script":
        return "its task.yml says `evaluator: script`"
    if spans_gpus(values):
        return "it runs on several GPUs"
    missing = [name for name in FUNCTIONS if name not in names_of(files.get("reference.py", b""))]
    if missing:
        return f"its reference.py has no {', '.join(missing)}"
    modules = {name: parse(source) for name, source in files.items() if name.endswith(".py")}
    for function in ("generate_input", "ref_kernel"):
        if made := class_returned(function, modules["reference.py"], list(modules.values())):
            return f"{function} returns a {made}, which cannot be sent to another process"
    # A template with gaps to fill in is not valid Python yet; ignore it.
    made_by_starters = [names for source in starters if (names := names_of(source))]
    if made_by_starters and not any("custom_kernel" in names for names in made_by_starters):
        return "its template defines no custom_kernel"
    evaluator = _evaluator(values, files)
    if _OWN_CLOCK.search(evaluator):
        return "its evaluator times something other than one call"
    if copier := next((node.name for node in _functions(evaluator) if _copies_nothing(node)), ""):
        return f"its evaluator does not copy inputs ({copier} returns its argument)"
    return ""


def spans_gpus(values: Mapping[str, Any]) -> bool:
    """Whether a task starts several ranks; a few tasks say so only in their cases."""
    in_cases = any("world_size" in case for key in ("tests", "benchmarks") for case in values.get(key, ()))
    return values.get("multi_gpu", in_cases) is True


def names_of(source: bytes) -> set[str]:
    """The names that a module defines or imports at its top level."""
    return {name for node in parse(source).body for name in _names_made_by(node)}


def required_arguments(source: bytes, function: str) -> list[str]:
    """The arguments without defaults of a module's function."""
    found = next((node for node in _functions(source) if node.name == function), None)
    if not found:
        return []
    positional = [*found.args.posonlyargs, *found.args.args]
    required = positional[: len(positional) - len(found.args.defaults)]
    named = [arg for arg, value in zip(found.args.kwonlyargs, found.args.kw_defaults, strict=True) if value is None]
    return [arg.arg for arg in (*required, *named)]


def _evaluator(values: Mapping[str, Any], files: Mapping[str, bytes]) -> bytes:
    config = values.get("config")
    main = config.get("main") if isinstance(config, dict) else None
    return files.get(main, b"") if isinstance(main, str) else b""


def _copies_nothing(function: ast.FunctionDef) -> bool:
    """Whether a function such as `clone_data` only returns its argument."""
    match function.body[bool(ast.get_docstring(function)) :]:
        case [ast.Return(value=ast.Name(id=name))]:
            is_copier = re.search("clone|copy", function.name)
            return is_copier is not None and name in [arg.arg for arg in function.args.args]
    return False


def _functions(source: bytes) -> list[ast.FunctionDef]:
    return [node for node in parse(source).body if isinstance(node, ast.FunctionDef)]


def parse(source: bytes) -> ast.Module:
    """Parse a module; an empty one if it is not valid Python, such as a template with gaps."""
    try:
        return parse_python(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module(body=[], type_ignores=[])


def _names_made_by(node: ast.stmt) -> Iterator[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Assign(targets=targets):
            yield from (target.id for target in targets if isinstance(target, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr()):
            yield name
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            yield from (alias.asname or alias.name for alias in names)
        case ast.If(body=body, orelse=orelse) | ast.Try(body=body, orelse=orelse):
            for inner in (*body, *orelse):
                yield from _names_made_by(inner)
