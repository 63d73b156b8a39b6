"""Who can judge a task of KernelBot's: our referee, or only the program that it brings?  Told from its text.

The referee makes inputs, knows answers and checks outputs, so it needs a reference.py with all three functions, inputs
and outputs that can cross to another process, and a submission that is a `custom_kernel`.  Where one of them is
missing, the task's own evaluator is the only one that knows what to do.

A tensor can cross, and not what somebody hung on it (`weight.is_shuffled = True`): no copy keeps that.  Tasks that need
it are told by an evaluator that refuses to copy its inputs.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from scripts.kernelbot.objects import class_returned

FUNCTIONS = ("generate_input", "ref_kernel", "check_implementation")

_OWN_CLOCK = re.compile(rb"CUDAGraph|cuda\.graph\(|do_bench_cudagraph")
"""An evaluator that times replays of a graph, and not a call."""


def why_script(values: Mapping[str, Any], files: Mapping[str, bytes], starters: Sequence[bytes]) -> str:
    """Why the referee cannot judge a task; "" if it can.

    Args:
        values: of its task.yml.
        files: by the name that they are imported as.
        starters: its templates and solutions, as far as they are Python.
    """
    if values.get("lang") == "cu":
        return "its submissions are compiled by the task's own program (lang: cu)"
    if values.get("evaluator") == "script":
        return "its task.yml says so"
    if spans_gpus(values):
        return "it runs on several GPUs"
    missing = [name for name in FUNCTIONS if name not in names_of(files.get("reference.py", b""))]
    if missing:
        return f"its reference.py has no {', '.join(missing)}"
    for function in ("generate_input", "ref_kernel"):
        if made := _class_returned(function, files):
            return f"{function} makes a {made}, which cannot cross to another process"
    # A template with gaps to be filled in is no Python yet, and says nothing.
    made_by_starters = [names for source in starters if (names := names_of(source))]
    if made_by_starters and not any("custom_kernel" in names for names in made_by_starters):
        return "its template defines no custom_kernel"
    evaluator = _evaluator(values, files)
    if _OWN_CLOCK.search(evaluator):
        return "its evaluator times something else than one call"
    if copier := next((node.name for node in _functions(evaluator) if _copies_nothing(node)), ""):
        return f"its evaluator hands over inputs that must not be copied ({copier} gives back what it is given)"
    return ""


def spans_gpus(values: Mapping[str, Any]) -> bool:
    """Whether a task starts several ranks; a few say so in their cases alone."""
    in_cases = any("world_size" in case for case in _cases(values))
    return values.get("multi_gpu", in_cases) is True


def names_of(source: bytes) -> set[str]:
    """What a module defines or imports at its top."""
    return {name for node in _parse(source).body for name in _names_made_by(node)}


def required_arguments(source: bytes, function: str) -> list[str]:
    """The arguments without defaults of one of a module's functions."""
    found = next((node for node in _functions(source) if node.name == function), None)
    if not found:
        return []
    positional = [*found.args.posonlyargs, *found.args.args]
    required = positional[: len(positional) - len(found.args.defaults)]
    named = [arg for arg, value in zip(found.args.kwonlyargs, found.args.kw_defaults, strict=True) if value is None]
    return [arg.arg for arg in (*required, *named)]


def _cases(values: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [*values.get("tests", ()), *values.get("benchmarks", ())]


def _class_returned(function: str, files: Mapping[str, bytes]) -> str:
    modules = {name: _parse(source) for name, source in files.items() if name.endswith(".py")}
    return class_returned(function, modules["reference.py"], list(modules.values()))


def _evaluator(values: Mapping[str, Any], files: Mapping[str, bytes]) -> bytes:
    config = values.get("config")
    main = config.get("main") if isinstance(config, dict) else None
    return files.get(main, b"") if isinstance(main, str) else b""


def _copies_nothing(function: ast.FunctionDef) -> bool:
    """Whether a `clone_data` does nothing but `return data`."""
    match function.body[bool(ast.get_docstring(function)) :]:
        case [ast.Return(value=ast.Name(id=name))]:
            is_copier = re.search("clone|copy", function.name)
            return is_copier is not None and name in [arg.arg for arg in function.args.args]
    return False


def _functions(source: bytes) -> list[ast.FunctionDef]:
    return [node for node in _parse(source).body if isinstance(node, ast.FunctionDef)]


def _parse(source: bytes) -> ast.Module:
    """Empty for a template with gaps; a task's own files have been found to be Python before they come here."""
    try:
        return ast.parse(source)
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
