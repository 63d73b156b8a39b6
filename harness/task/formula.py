"""The formulas of `work:` in task.yml: arithmetic over a case's parameters.

A formula such as `3 * size * size * 2` is untrusted text, so its syntax tree is interpreted, never executed.  It may
use numbers, names, + - * / // % ** and the functions below.  Floating point makes `9 ** 9 ** 9` overflow at once.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping

from harness.records.errors import did_you_mean

MAX_LENGTH = 500

_OPERATORS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: math.pow,
}
_FUNCTIONS: dict[str, Callable[..., float]] = {"min": min, "max": max, "log2": math.log2, "ceil": math.ceil}


class NotAFormula(ValueError):
    """The text is not a formula, or has no value for this case."""


def evaluate(formula: str, params: Mapping[str, object]) -> float:
    """The value of `formula` for one case; finite and not negative.

    Raises:
        NotAFormula: not arithmetic, an unknown name, or no finite value; the message says which.
    """
    if len(formula) > MAX_LENGTH:
        raise NotAFormula(f"longer than {MAX_LENGTH} characters")
    try:
        value = float(_value(ast.parse(formula.strip(), mode="eval").body, params))
    except (SyntaxError, RecursionError, MemoryError):
        raise NotAFormula(f"'{formula}' is not a formula; write it like '3 * size * size * 2'") from None
    except NotAFormula:
        raise
    except (ArithmeticError, TypeError, ValueError) as error:
        raise NotAFormula(f"'{formula}' cannot be computed: {error}") from None
    if not math.isfinite(value) or value < 0:
        raise NotAFormula(f"'{formula}' is {value}; it must be finite and not negative")
    return value


def _value(node: ast.expr, params: Mapping[str, object]) -> float:
    match node:
        case ast.Constant(value=bool()):
            pass
        case ast.Constant(value=int() | float() as number):
            return float(number)
        case ast.Name(id=name):
            return _param(name, params)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, params)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_value(left, params), _value(right, params))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]):
            return _function(name)(*(_value(arg, params) for arg in args))
    words = f"use numbers, names, + - * / // % ** {', '.join(_FUNCTIONS)}"
    raise NotAFormula(f"'{ast.unparse(node)}' is not arithmetic; {words}")


def _param(name: str, params: Mapping[str, object]) -> float:
    if name not in params:
        raise NotAFormula(f"no case has the parameter '{name}'{did_you_mean(name, params)}")
    value = params[name]
    if not isinstance(value, int | float):
        raise NotAFormula(f"the parameter '{name}' is {value!r}, not a number")
    return float(value)


def _function(name: str) -> Callable[..., float]:
    if name not in _FUNCTIONS:
        raise NotAFormula(f"there is no function '{name}'{did_you_mean(name, _FUNCTIONS)}")
    return _FUNCTIONS[name]
