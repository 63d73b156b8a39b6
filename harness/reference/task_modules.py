"""Import a task's own Python files, and find their lines in tracebacks."""

from __future__ import annotations

import importlib.abc
import importlib.util
import os
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

from harness.task.faults import display


class TaskFiles(importlib.abc.MetaPathFinder, importlib.abc.ExecutionLoader):
    """Makes a task's files importable by name, for its own code only, and finds their lines in tracebacks.

    The files are loaded from memory: `files` may map a name to a file elsewhere, and the folder may no longer exist.

    Args:
        shown: how messages name the folder.  Default: its path.
    """

    def __init__(self, folder: Path, files: Mapping[str, bytes], shown: str = "") -> None:
        self._folder = folder
        self._shown = shown or display(folder)
        self._files = {name.removesuffix(".py"): content for name, content in files.items() if name.endswith(".py")}
        self._modules: dict[str, ModuleType] = {}

    @contextmanager
    def importable(self) -> Iterator[None]:
        """Replace modules of the same names by the task's for the block, then restore them."""
        others = {name: sys.modules.pop(name) for name in self._files if name in sys.modules}
        sys.modules.update(self._modules)
        sys.meta_path.insert(0, self)
        try:
            yield
        finally:
            sys.meta_path.remove(self)
            self._modules = {name: sys.modules.pop(name) for name in self._files if name in sys.modules}
            sys.modules.update(others)

    def label(self, name: str) -> str:
        """A file's path for messages: `tasks/vectoradd/reference.py`."""
        return os.path.join(self._shown, name)

    def line_of(self, error: BaseException) -> str | None:
        """`tasks/vectoradd/reference.py:12`: the innermost of the task's own lines that led to `error`."""
        places = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
        if isinstance(error, SyntaxError):
            places.append((error.filename or "", error.lineno or 1))
        ours = {self.get_filename(name): self.label(f"{name}.py") for name in self._files}
        return next((f"{ours[path]}:{line}" for path, line in reversed(places) if path in ours), None)

    def is_innermost(self, error: BaseException) -> bool:
        """Whether the exception was raised by the task's own code."""
        *_, (frame, _) = traceback.walk_tb(error.__traceback__)
        return frame.f_code.co_filename in {self.get_filename(name) for name in self._files}

    def find_spec(self, fullname: str, *_: object) -> ModuleSpec | None:
        if fullname not in self._files:
            return None
        return importlib.util.spec_from_loader(fullname, self, origin=self.get_filename(fullname))

    def get_filename(self, fullname: str) -> str:
        return str(self._folder / f"{fullname}.py")

    def get_source(self, fullname: str) -> str:
        return importlib.util.decode_source(self._files[fullname])
