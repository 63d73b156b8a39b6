"""Show PullRank's own modules another operating system: the names that Python lacks there, and its paths.

    python -c "from tests.other_system import show; show('win32'); from scripts.cli import main; main()" tasks

mypy's stubs say which names each system has.  Other libraries, and Python itself, keep seeing this system.
"""

import ast
import builtins
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import mypy

_STUBS = Path(mypy.__file__).parent / "typeshed/stdlib"
_MODULES = (
    "faulthandler",
    "mmap",
    "multiprocessing.connection",
    "os",
    "select",
    "shutil",
    "signal",
    "socket",
    "sys",
    "time",
)
_UNIX_ONLY = ("crypt", "curses", "fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty")
_OURS = ("harness", "scripts")
_TOO_LARGE = ("torch", "numpy")
"""A laptop may lack them, too."""


def show(system: str) -> None:
    """Show `darwin` or `win32` to all of our modules from now on; torch and numpy are missing."""
    for name in _MODULES:
        found = {"platform": system} if name == "sys" else {}
        _hide(importlib.import_module(name), _names(name, sys.platform) - _names(name, system), found)
    _hide_modules({*_TOO_LARGE, *(_UNIX_ONLY if system == "win32" else ())})
    if system == "win32":
        _write_as_windows()


def _names(module: str, system: str) -> set[str]:
    """The names that a module of Python has on a system."""
    place = _STUBS / module.replace(".", "/")
    stub = place.with_suffix(".pyi") if place.with_suffix(".pyi").is_file() else place / "__init__.pyi"
    return set(
        _defined(
            ast.parse(stub.read_text("utf-8")).body, SimpleNamespace(platform=system, version_info=sys.version_info)
        )
    )


def _defined(body: list[ast.stmt], system: SimpleNamespace) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.If):
            holds = eval(
                compile(ast.Expression(node.test), str(_STUBS), "eval"), {"sys": system}
            )  # its own tests of `sys`
            yield from _defined(node.body if holds else node.orelse, system)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.AnnAssign | ast.Assign):
            targets = [node.target] if isinstance(node, ast.AnnAssign) else node.targets
            yield from (target.id for target in targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from (alias.asname or alias.name for alias in node.names)


def _is_ours(depth: int) -> bool:
    """Whether the code that many calls up is PullRank's."""
    return str(sys._getframe(depth + 1).f_globals.get("__name__")).partition(".")[0] in _OURS


def _hide(module: ModuleType, lacks: set[str], instead: dict[str, str]) -> None:
    """Hide names of a module from our modules, and show other values of some."""

    class Shown(ModuleType):
        def __getattribute__(self, name: str) -> Any:
            if (name in lacks or name in instead) and _is_ours(1):
                if name in lacks:
                    raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
                return instead[name]
            return super().__getattribute__(name)

    module.__class__ = Shown


def _hide_modules(lacks: set[str]) -> None:
    really = builtins.__import__

    def import_(name: str, *how: Any, **named: Any) -> ModuleType:
        if name.partition(".")[0] in lacks and _is_ours(1):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return really(name, *how, **named)

    builtins.__import__ = import_


def _write_as_windows() -> None:
    """Relative paths have backslashes, and text files lines that end in CRLF; paths are still read with slashes."""
    to_str, open_ = Path.__str__, Path.open

    def with_backslashes(self: Path) -> str:
        text = to_str(self)
        return text if self.is_absolute() or not _is_ours(1) else text.replace("/", "\\")

    def open_with_crlf(self: Path, mode: str = "r", *how: Any, **named: Any) -> Any:
        if "b" not in mode and set(mode) & set("wxa") and named.get("newline") is None:
            named["newline"] = "\r\n"
        return open_(self, mode, *how, **named)

    type(Path()).__str__ = with_backslashes
    Path.open = open_with_crlf
