"""Decide from the source whether a function returns an object that cannot be sent to another process.

    kv: KV = KV()          kv, count = KV(), 1          d["kv"] = KV()          names that hold one
    return kv, x           return [KV(i) for i in n]    return make_kv()        returned values

It recognizes objects that the source visibly creates, from a class of the task's own or of torch.nn.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Sequence

_PLAIN_BASES = {"TypedDict", "IntEnum", "StrEnum"}
"""Classes whose instances are dicts, numbers or text."""
_MOVES = {"to", "cuda", "cpu", "eval", "train", "half", "bfloat16", "float", "double", "requires_grad_"}
"""Methods that return the same object, possibly moved or converted."""
_PUTS = {"append", "extend", "insert", "update", "setdefault"}
"""Methods that add their arguments to the object."""
_MOST_READS = 10
"""How often functions are read, on average, before the rest of a web of calls is given up: its time grows with the cube
of the functions."""
_TORCH_NN = {"nn", "torch.nn"}
_CONTAINERS = {"tuple", "list", "dict"}


def class_returned(function: str, home: ast.Module, modules: Sequence[ast.Module]) -> str:
    """A class whose instance a function of the module `home` returns; "" if there is none.

    Args:
        modules: all modules of the task, which define its classes and helpers.
    """
    found = next((node for node in home.body if isinstance(node, ast.FunctionDef) and node.name == function), None)
    return _ObjectReader(modules).returned(found) if found else ""


class _ObjectReader:
    def __init__(self, modules: Sequence[ast.Module]) -> None:
        nodes = [node for module in modules for node in module.body]
        self.classes = {name for node in nodes for name in _classes_of(node)}
        self.made: dict[str, str] = {}
        """Function → the class whose instance it returns."""
        functions = {node.name: node for node in nodes if isinstance(node, ast.FunctionDef)}
        users: defaultdict[str, list[ast.FunctionDef]] = defaultdict(list)
        for function in functions.values():
            for name in {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}:
                users[name].append(function)
        # Functions may call each other in circles: read one again when a function that it uses returns an object.
        queue = [*functions.values()]
        for _ in range(_MOST_READS * len(functions)):
            if not queue:
                break
            function = queue.pop()
            if function.name not in self.made and (made := self.returned(function)):
                self.made[function.name] = made
                queue += users[function.name]

    def returned(self, function: ast.FunctionDef) -> str:
        values = [node.value for node in ast.walk(function) if isinstance(node, ast.Return) and node.value]
        try:
            return self._first(values, self._names_in(function))
        except RecursionError:
            return ""  # nested far deeper than real code

    def _names_in(self, function: ast.FunctionDef) -> dict[str, str]:
        """Name → class, for names that hold an object directly or in a container."""
        bindings = [binding for node in ast.walk(function) for binding in _bindings(node)]
        names: dict[str, str] = {}
        # A name may hold the value of another name: repeat until nothing new is found.
        while new := {
            name: made for name, value in bindings if name not in names and (made := self._made_by(value, names))
        }:
            names |= new
        return names

    def _first(self, values: Sequence[ast.expr], names: dict[str, str]) -> str:
        return next((made for value in values if (made := self._made_by(value, names))), "")

    def _made_by(self, value: ast.expr, names: dict[str, str]) -> str:
        """`KVCache` for `KVCache(shape).to("cuda")`, and for anything that contains it."""
        match value:
            case ast.Name(id=name):
                return names.get(name, "")
            case ast.Call(func=ast.Attribute(value=inner, attr=attr)) if attr in _MOVES:
                return self._made_by(inner, names)
            case ast.Call(func=ast.Attribute(value=module, attr=attr) as made) if ast.unparse(module) in _TORCH_NN:
                return ast.unparse(made) if attr[:1].isupper() and attr != "Parameter" else ""
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(value=ast.Name(), attr=name)) if name in self.classes:
                return name
            case ast.Call(func=ast.Name(id=name)) if name in self.made:
                return self.made[name]
        return self._first(_parts(value), names)


def _classes_of(node: ast.stmt) -> Iterator[str]:
    """The classes that a statement defines or imports from torch.nn."""
    match node:
        case ast.ClassDef(name=name, bases=bases):
            if not _PLAIN_BASES & {getattr(base, "id", getattr(base, "attr", "")) for base in bases}:
                yield name
        case ast.ImportFrom(module="torch.nn", names=names):
            yield from (alias.asname or alias.name for alias in names if alias.name[:1].isupper())


def _bindings(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Names and the values assigned or added to them."""
    match node:
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                yield from _paired(target, value)
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            yield from _paired(target, value)
        case ast.AugAssign(target=target, value=value) | ast.NamedExpr(target=target, value=value):
            yield from _paired(target, value)
        case ast.For(target=target, iter=value) | ast.comprehension(target=target, iter=value):
            yield from _paired(target, value)
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attr), args=values) if attr in _PUTS:
            yield from ((name, value) for value in values)


def _paired(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    match target, value:
        case ast.Name(id=name) | ast.Subscript(value=ast.Name(id=name)), _:
            yield name, value
        case ast.Tuple(elts=targets) | ast.List(elts=targets), ast.Tuple(elts=values) if len(targets) == len(values):
            for one, other in zip(targets, values, strict=True):
                yield from _paired(one, other)
        case ast.Tuple(elts=targets) | ast.List(elts=targets), _:
            for one in targets:
                yield from _paired(one, value)
        case ast.Starred(value=inner), _:
            yield from _paired(inner, value)


def _parts(value: ast.expr) -> list[ast.expr]:
    """The parts that a value is made of."""
    match value:
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return parts
        case ast.Dict(values=parts):
            return parts
        case ast.ListComp(elt=part) | ast.GeneratorExp(elt=part) | ast.DictComp(value=part):
            return [part]
        case ast.Starred(value=part) | ast.NamedExpr(value=part):
            return [part]
        case ast.IfExp(body=one, orelse=other) | ast.BinOp(left=one, right=other):
            return [one, other]
        case ast.Call(func=ast.Name(id=name), args=parts, keywords=more) if name in _CONTAINERS:
            return [*parts, *(keyword.value for keyword in more)]
    return []
