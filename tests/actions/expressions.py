"""`${{ … }}` and `if:`, evaluated by GitHub's own library, in one Node process for all tests."""

from __future__ import annotations

import json
import re
import subprocess
import threading
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Any, Self

from tests.actions.node import HERE, require_node

Json = dict[str, Any]

# Up to the first }} outside of a string.
_EXPRESSION = re.compile(r"\$\{\{((?:[^'}]|'[^']*'|\}(?!\}))*)\}\}")


class ExpressionError(Exception):
    """GitHub could not evaluate this."""


@dataclass(frozen=True, kw_only=True)
class Status:
    """The results of `success()`, `failure()` and `cancelled()`."""

    success: bool = True
    failure: bool = False
    cancelled: bool = False


class Expressions:
    """The evaluator.  `with Expressions() as expressions: …`"""

    def __enter__(self) -> Self:
        self._lock = threading.Lock()
        command = [require_node(), str(HERE / "expressions.mjs")]
        self._node = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._node.communicate()

    def evaluate(self, expression: str, contexts: Json, status: Status | None = None) -> Any:
        return self._ask(expression, contexts, status)["value"]

    def holds(self, condition: str, contexts: Json, status: Status) -> bool:
        """Whether an `if:` holds; without a status function, it also needs success."""
        whole = _EXPRESSION.fullmatch(condition.strip())
        return bool(self._ask(whole[1] if whole else condition, contexts, status, is_condition=True)["value"])

    def fill(self, value: Any, contexts: Json) -> Any:
        """A value of a workflow file with its expressions filled in.  If the whole text is one expression, its type is
        kept."""
        match value:
            case dict():
                return {key: self.fill(member, contexts) for key, member in value.items()}
            case list():
                return [self.fill(member, contexts) for member in value]
            case str() if whole := _EXPRESSION.fullmatch(value.strip()):
                return self.evaluate(whole[1], contexts)
            case str():
                return _EXPRESSION.sub(lambda found: str(self._ask(found[1], contexts)["text"]), value)
        return value

    def _ask(
        self, expression: str, contexts: Json, status: Status | None = None, *, is_condition: bool = False
    ) -> Json:
        question = {
            "expression": expression,
            "contexts": contexts,
            "status": asdict(status or Status()),
            "is_condition": is_condition,
        }
        assert self._node.stdin and self._node.stdout
        with self._lock:
            self._node.stdin.write(json.dumps(question) + "\n")
            self._node.stdin.flush()
            answer: Json = json.loads(self._node.stdout.readline())
        if "error" in answer:
            raise ExpressionError(f"{expression}: {answer['error']}")
        return answer


def as_text(value: Any) -> str:
    """A value as text, as an environment variable or an action's input gets it."""
    if value is None:
        return ""
    return json.dumps(value) if isinstance(value, bool | int | float) else str(value)
