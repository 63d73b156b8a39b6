"""Parse Python source without running it, and check the syntax of a task's files."""

from __future__ import annotations

import ast
import sys
import warnings
from pathlib import Path

from harness.task.faults import Faults


def parse_python(source: bytes | str, name: str = "<unknown>") -> ast.Module:
    """The syntax tree; raises what `ast.parse` does.  Invalid escapes and the like are not our concern: no warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(source, name)


def require_python(path: Path, content: bytes, faults: Faults) -> None:
    """Add a fault if this Python version cannot parse the file."""
    try:
        content.decode()
        parse_python(content)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        faults.add_elsewhere(path, f"not UTF-8: byte 0x{content[error.start]:02x}; save it as UTF-8", line=line)
    except SyntaxError as error:
        # Syntax of a newer Python is not a mistake, so the message names the version.
        message = f"not valid Python {sys.version_info.major}.{sys.version_info.minor}: {error.msg}"
        faults.add_elsewhere(path, message, line=error.lineno or 1)
    except (ValueError, RecursionError, MemoryError) as error:  # ValueError: null bytes, before Python 3.12
        faults.add_elsewhere(path, f"cannot be read as Python: {str(error) or 'nested too deeply'}")
