"""Is this file a copy of somebody else's, except for names, comments and layout?

The source is hostile: it is parsed at bounded cost and never run.

    Python   its syntax tree, without docstrings; C++ in its strings is read as C++
    CUDA     its tokens, without comments
      └─ names that the file itself defines become numbers, in order of appearance
          └─ SHA-256: the fingerprint

Everything that a file does not define itself (`torch.add`, `sinf`, numbers, the shapes of strings) stays as it is, so
two files with the same fingerprint do the same.  Numbering of local names restarts in each definition: it makes no
difference whether the loop variables of two kernels are `i` and `i` or `i` and `j`.

A short file is a copy only if its names are the same, too; a few lines are never a copy.  Neither is the task's own
template or example, even with other numbers.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum, auto
from pathlib import PurePath

from harness.task.python_file import parse_python

MAX_BYTES = 256 * 1024
LONGEST_CHAIN = 8
"""How far `_root` looks: at each call of `f()()()…`, it would read all those before it."""
MIN_TOKENS = 200
"""A shorter file with other names may be a copy, or written twice by chance: about fifteen plain lines of
Python."""
MIN_VERBATIM = 100
"""The same for a file with the same names: about seven lines.  `torch.add` into the output is seventy tokens."""

_QUOTED = r""" "(?:\\.|[^"\\\n])*"? | '(?:\\.|[^'\\\n])*'? """
_C_COMMENT = r""" //[^\n]* | /\*.*?(?:\*/|\Z) """
_PYTHON_ASIDE = re.compile(
    rf""" \#[^\n]* | (\"{{3}}|'{{3}})(?:\\(?:.|\Z)|[^\\])*?(?:\1|\Z) | {_QUOTED} """, re.DOTALL | re.VERBOSE
)
"""Each alternative matches whatever follows, if need be to the end: else each quote would read the rest again."""
_C_ASIDE = re.compile(rf"{_C_COMMENT} | {_QUOTED}", re.DOTALL | re.VERBOSE)
_C_TOKEN = re.compile(
    rf"""(?P<layout> \s+ | {_C_COMMENT})
    | (?P<string> R"(?P<mark>[^\s()\\"]{{0,16}})\(.*?(?:\)(?P=mark)"|\Z) | {_QUOTED})
    | (?P<number> \.?\d(?:[\w.']|(?<=[eEpP])[+-])*)
    | (?P<word> [A-Za-z_]\w*)
    | (?P<other> .)""",
    re.DOTALL | re.VERBOSE,
)
"""Not Pygments: its lexers take quadratic time on blank lines, unterminated comments and raw strings, which is minutes
for 256 KiB, and they leave the code of macros in one piece."""
_STATEMENTS = re.compile(
    "return|else|new|delete|case|goto|throw|co_return|typename|typedef|using|namespace|operator|sizeof|do|"
    "define|include|ifdef|ifndef|undef|pragma|if|elif|endif"
)
"""C++ keywords after which a name is used, not declared."""

_SCALARS = re.compile("void|bool|char|short|int|long|unsigned|signed|float|double|half|auto|const")


_NUMBER = re.compile(r"is (?:int -?[0-9a-f]+|\.?[0-9].*)", re.DOTALL)
"""A number as `_Tokens.texts` writes it."""


class _CopyKind(StrEnum):
    """The kind of a token: what it may name."""

    TEXT = auto()
    NAME = auto()
    ATTRIBUTE = auto()
    STRING = auto()


@dataclass(frozen=True, kw_only=True)
class Original:
    """A merged file that another may be a copy of."""

    login: str
    name: str
    source: bytes


@dataclass
class _Tokens:
    """A file as a row of tokens, and the names that it defines; None in the row begins a definition.

    `shared` names are visible in all definitions, `exported` ones (C++ functions) in Python, too.
    """

    row: list[tuple[str, _CopyKind] | None] = field(default_factory=list)
    shared: set[str] = field(default_factory=set)
    local: set[str] = field(default_factory=set)
    attributes: set[str] = field(default_factory=set)
    exported: set[str] = field(default_factory=set)

    def add(self, text: str, kind: _CopyKind = _CopyKind.TEXT) -> None:
        self.row.append((text, kind))

    def texts(self) -> Iterator[str]:
        numbers: dict[str, dict[str, int]] = {"shared": {}, "local": {}, "attribute": {}}
        for token in self.row:
            if token is None:
                numbers["local"].clear()
            elif space := self._space(*token):
                yield f"{space} {numbers[space].setdefault(token[0], len(numbers[space]))}"
            else:
                yield f"is {token[0]}"

    def verbatim(self) -> Iterator[str]:
        return (token[0] for token in self.row if token)

    def _space(self, text: str, kind: _CopyKind) -> str:
        """The numbering to which one of the file's own names belongs; empty for any other token."""
        match kind:
            case _CopyKind.NAME if text in self.shared:
                return "shared"
            case _CopyKind.NAME if text in self.local:
                return "local"
            case _CopyKind.ATTRIBUTE if text in self.attributes:
                return "attribute"
            case _CopyKind.ATTRIBUTE | _CopyKind.STRING if text in self.exported:
                return "shared"
        return ""


def find_original(source: bytes, name: str, others: Iterable[Original], known: Iterable[bytes] = ()) -> Original | None:
    """The first of the others' files of which `source` is a copy; None if there is none.

    Args:
        known: files that anybody may submit, such as a task's templates and examples, with any names.
    """
    outline = _outline(source, name)
    alike = [one for one in others if _outline(one.source, one.name) == outline]
    mine = fingerprint(source, name) if alike else None
    original = next((one for one in alike if mine and fingerprint(one.source, one.name) == mine), None)
    return None if original and _is_known(source, name, known) else original


def own_fingerprint(source: bytes, name: str, known: Iterable[bytes]) -> str | None:
    """The fingerprint of a file; None if it has none, or if it is one that anybody may submit."""
    mine = fingerprint(source, name)
    return None if mine and _is_known(source, name, known) else mine


def _is_known(source: bytes, name: str, known: Iterable[bytes]) -> bool:
    """Whether a file is one that anybody may submit, except for names and numbers."""
    mine = _read(source, name)
    rows = (_read(text, name) for text in known) if mine else ()
    return any(row and mine and _without_numbers(row) == _without_numbers(mine) for row in rows)


def _without_numbers(tokens: _Tokens) -> list[str]:
    return [_NUMBER.sub("is a number", text) for text in tokens.texts()]


def _outline(source: bytes, name: str) -> tuple[str, ...]:
    """Character counts that copies share: a cheap filter, so that hundreds of files need not be parsed.

    Colons do not count: Python reads `elif` as `else: if`, and `x[::]` as `x[:]`.
    """
    suffix = PurePath(name).suffix
    code = (_C_ASIDE if suffix == ".cu" else _PYTHON_ASIDE).sub("", source[:MAX_BYTES].decode("latin-1"))
    return suffix, *(str(code.count(sign)) for sign in "=*[<>%")


def fingerprint(source: bytes, name: str) -> str | None:
    """64 hex digits; None if a file is too large, too short, or cannot be parsed."""
    tokens = _read(source, name)
    if not tokens or len(tokens.row) < MIN_VERBATIM:
        return None
    texts = tokens.texts() if len(tokens.row) >= MIN_TOKENS else tokens.verbatim()
    return hashlib.sha256("\0".join(texts).encode("utf-8", "surrogatepass")).hexdigest()


def _read(source: bytes, name: str) -> _Tokens | None:
    if len(source) > MAX_BYTES:
        return None
    tokens = _Tokens()
    text = source.decode("utf-8-sig", "replace")
    try:
        if PurePath(name).suffix == ".cu":
            _read_c(text, tokens)
        else:
            _read_python(text, tokens)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return tokens


# Python.


def _read_python(text: str, tokens: _Tokens) -> None:
    tree = parse_python(text)
    functions = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    for statement in tree.body:
        if not _is_docstring(statement):
            tokens.row.append(None)
            tokens.shared.update(_made_by(statement))
            _flatten(statement, tokens, functions)


def _is_docstring(node: object) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _made_by(statement: ast.stmt) -> Iterator[str]:
    """Names that a statement defines for the whole module, without those local to a function."""
    stack: list[ast.AST] = [statement]
    while stack:
        node = stack.pop()
        yield from _bound_by(node)
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            stack.extend(ast.iter_child_nodes(node))


def _bound_by(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            yield name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.arg(arg=name) | ast.ExceptHandler(name=str(name)):
            yield name
        case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
            yield name
        case ast.alias(name=name, asname=asname):
            yield asname or name.split(".")[0]


def _flatten(statement: ast.stmt, tokens: _Tokens, functions: set[str]) -> None:
    """Flatten the tree into the row, with an explicit stack: a hostile tree may be too deep for recursion."""
    stack: list[object] = [statement]
    while stack:
        match stack.pop():
            case (str(text), _CopyKind() as kind):
                tokens.add(text, kind)
            case ast.Constant(value=value):
                _add_constant(value, tokens)
            case ast.AST() as node:
                tokens.local.update(_bound_by(node))
                stack.extend(reversed(list(_parts(node, tokens, functions))))


def _parts(node: ast.AST, tokens: _Tokens, functions: set[str]) -> Iterator[object]:
    """A node's parts in order: tokens, and nodes to read later."""
    match node:
        case ast.Import(names=[_, _, *_] as names):  # `import a, b` is two imports
            yield from (ast.Import(names=[name]) for name in names)
            return
        case ast.alias(name=name):
            yield from (("alias", _CopyKind.TEXT), (name, _CopyKind.TEXT), (next(_bound_by(node)), _CopyKind.NAME))
            return
        case ast.Attribute(value=value, attr=name, ctx=use):
            if isinstance(use, ast.Store):
                tokens.attributes.add(name)
            yield from (("attribute", _CopyKind.TEXT), value, (name, _CopyKind.ATTRIBUTE))
            return
        case ast.ClassDef(body=body):
            tokens.attributes.update(made for part in body for made in _bound_by(part))
        case ast.Call(keywords=keywords) if _root(node) not in functions:
            for keyword in keywords:  # parameters of a library keep their names
                yield (f"{keyword.arg}=", _CopyKind.TEXT)
                keyword.arg = None
    yield (type(node).__name__, _CopyKind.TEXT)
    for name, value in ast.iter_fields(node):
        if name == "type_params" and not value:  # Python 3.11 has no such field
            continue
        yield from _field(value, _CopyKind.TEXT if isinstance(node, ast.ImportFrom) else _CopyKind.NAME)


def _field(value: object, kind: _CopyKind) -> Iterator[object]:
    match value:
        case str():
            yield (value, kind)
        case list():
            yield ("[", _CopyKind.TEXT)
            for item in value:
                if not _is_docstring(item):
                    yield from _field(item, kind)
            yield ("]", _CopyKind.TEXT)
        case ast.expr_context():
            pass
        case ast.AST():
            yield value
        case _:
            yield (str(value), _CopyKind.TEXT)


def _root(node: ast.AST) -> str:
    """`kernel` of `kernel[grid](…)`, `tl` of `tl.load(…)`."""
    for _ in range(LONGEST_CHAIN):
        match node:
            case ast.Name(id=name):
                return name
            case ast.Call(func=inner) | ast.Attribute(value=inner) | ast.Subscript(value=inner):
                node = inner
            case _:
                return ""
    return ""


def _add_constant(value: object, tokens: _Tokens) -> None:
    match value:
        case str() if "{" in value or ";" in value:
            _read_c(value, tokens)
        case str():
            tokens.add(value, _CopyKind.STRING)  # It may name a kernel: `functions=["add"]`.
        case int():
            tokens.add(f"{type(value).__name__} {value:x}")  # Python refuses to print the largest in decimal.
        case _:
            tokens.add(repr(value))


# C++ and CUDA.


def _read_c(text: str, tokens: _Tokens) -> None:
    previous, last, is_after_word, braces, brackets = "", "", False, 0, 0
    for match in _C_TOKEN.finditer(text):
        if match.lastgroup == "layout":
            continue
        code, is_word = match[0], match.lastgroup == "word"
        if is_word and _is_declared(code, last, previous, is_after_word=is_after_word):
            if braces <= 0 and brackets <= 0:
                tokens.shared.add(code)
                tokens.exported.add(code)
            else:
                tokens.local.add(code)
        tokens.add(code, _CopyKind.NAME if is_word else _CopyKind.TEXT)
        previous, last, is_after_word = last, code, is_word
        braces += (code == "{") - (code == "}")
        brackets += (code in ("(", "[")) - (code in (")", "]"))
        if code == "}" and braces <= 0 and brackets <= 0:
            tokens.row.append(None)


def _is_declared(word: str, last: str, previous: str, *, is_after_word: bool) -> bool:
    """Whether a word after these two tokens is declared there: `float x`, `int *x`, `Tensor& x`, `vector<int> x`."""
    if _SCALARS.fullmatch(word):
        return False
    if is_after_word:
        return not _STATEMENTS.fullmatch(last)
    return last == ">" or (last in ("*", "&") and bool(_SCALARS.fullmatch(previous)))
