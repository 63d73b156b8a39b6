"""Checks requests and answers against GitHub's published description of its API.

A request or an answer that the description does not allow is a fault.  So is an unknown field: code that uses it would
rely on something that GitHub never sends.

`complete` adds the required fields that our code does not use: avatars, URLs, node ids.  It never adds a field that
`scripts/` reads anywhere: the server must set these itself.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from jsonschema.validators import extend  # type: ignore[import-untyped]
from pydantic import AliasPath
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from scripts.github import checks, contribute  # noqa: F401  # so that their models count, too
from scripts.github.pulls import FromGitHub

Json = dict[str, Any]

FILE = Path(__file__).with_name("openapi.json")
SCRIPTS = Path(__file__).parents[2] / "scripts"
MAX_JUDGED = 5
EVERYWHERE = frozenset({"401", "403", "404", "409", "422", "429", "500", "502", "503"})
"""Statuses that GitHub may send for any request, even if the description lacks them."""

_ANY = {"string": "", "integer": 0, "number": 0, "boolean": False}
_ANYTHING: Json = {}
_FORMATS = {"date-time": "2026-01-01T00:00:00Z", "uri": "https://github.com/"}


_READERS = {"find": 2, "require": 2, "require_sha": 1, "items": 1}
"""The functions that read GitHub's JSON, and the argument where the path begins."""
_READS = re.compile(rf"(?m)^from scripts\.github\.pulls import|\bdef ({'|'.join(_READERS)})\(")


class Unsaid(AssertionError):
    """Our code reads a field that the server did not set."""


@cache
def fields_that_are_read() -> frozenset[str]:
    """The names of all of GitHub's fields that `scripts/` reads."""
    texts = (file.read_text("utf-8") for file in SCRIPTS.rglob("*.py"))
    # Parsing all of them takes a second.
    calls = (node for text in texts if _READS.search(text) for node in ast.walk(ast.parse(text)))
    called = {
        word.value
        for call in calls
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
        for word in call.args[_READERS.get(call.func.id, len(call.args)) :]
        if isinstance(word, ast.Constant) and isinstance(word.value, str)
    }
    return frozenset(called).union(*map(_fields_of, _below(FromGitHub)))


def _below(model: type[FromGitHub]) -> Iterator[type[FromGitHub]]:
    for kind in model.__subclasses__():
        yield kind
        yield from _below(kind)


def _fields_of(model: type[FromGitHub]) -> Iterator[str]:
    """The names in GitHub's JSON that a model reads."""
    for name, field in model.model_fields.items():
        match field.validation_alias:
            case AliasPath(path=path):
                yield from map(str, path)
            case str(alias):
                yield alias
            case _:
                yield name


def _judge_of_refs() -> Any:
    """A validator that checks no value twice against the same named schema: nearly every answer holds an account."""
    judge_by_ref = Draft202012Validator.VALIDATORS["$ref"]
    blameless: set[tuple[str, str]] = set()

    def judge(validator: Any, ref: str, value: Any, schema: Json) -> Iterator[Any]:
        seen = ref, json.dumps(value)
        if seen not in blameless:
            errors = list(judge_by_ref(validator, ref, value, schema))
            yield from errors
            if not errors:
                blameless.add(seen)

    return extend(Draft202012Validator, {"$ref": judge})


class Contract:
    """The description, parsed."""

    def __init__(self, description: Json) -> None:
        self.operations: Json = description["operations"]
        self.webhooks: Json = description["webhooks"]
        self._schemas: Json = description["schemas"]
        resource = Resource.from_contents(description, default_specification=DRAFT202012)
        self._judge = _judge_of_refs()
        self._registry: Registry[Any] = Registry().with_resource("urn:github", resource)
        # By identity: the description lives as long as this object, and hashing it would cost more than it saves.
        self._validators: dict[int, Any] = {}
        self._all_variants: dict[int, list[Json]] = {}
        self._all_fitting: dict[tuple[int, str], list[Json]] = {}

    def faults_of_request(self, name: str, query: dict[str, str], body: Any) -> list[str]:
        operation = self.operations[name]
        faults = []
        for key, value in query.items():
            schema = operation["query"].get(key)
            if schema is None:
                faults.append(f"?{key}: unknown")
                continue
            is_number = value.isdigit() and "integer" in str(schema.get("type"))
            faults += self._faults(schema, int(value) if is_number else value, f"?{key}")
        if body is None:
            return [*faults, "needs a body"] if operation.get("body_required") else faults
        if operation.get("body") is None:
            return [*faults, "takes no body"]
        return faults + self._faults(operation["body"], body, "body")

    def faults_of_answer(self, name: str, status: int, body: Any) -> list[str]:
        answers = self.operations[name]["answers"]
        schema = answers.get(str(status))
        if str(status) not in answers and str(status) not in EVERYWHERE:
            return [f"GitHub never answers {status} here, only {', '.join(sorted(answers))}"]
        # Only some members of a long list: they are made alike, and checking a hundred takes seconds.
        judged = body[:MAX_JUDGED] if isinstance(body, list) else body
        return self._faults(schema, judged, "answer") if schema and status < 400 else []

    def faults_of_event(self, name: str, payload: Any) -> list[str]:
        return self._faults(self.webhooks[name], payload, name)

    def _faults(self, schema: Json, value: Any, place: str) -> list[str]:
        wrong = [f"{place}{error.json_path[1:]}: {error.message[:200]}" for error in self._errors(schema, value)]
        return wrong + list(self._strays([schema], value, place))

    def _errors(self, schema: Json, value: Any) -> Iterator[Any]:
        validator = self._validators.get(id(schema))
        if validator is None:
            located = json.loads(json.dumps(schema).replace('"#/schemas/', '"urn:github#/schemas/'))
            validator = self._judge(located, registry=self._registry)
            self._validators[id(schema)] = validator
        yield from validator.iter_errors(value)

    def _strays(self, schemas: list[Json], value: Any, place: str) -> Iterator[str]:
        """Fields that are in none of the schemas."""
        variants = [variant for schema in schemas for variant in self._variants(schema)]
        if isinstance(value, list):
            inner = [variant["items"] for variant in variants if "items" in variant]
            for index, member in enumerate(value if inner else ()):
                yield from self._strays(inner, member, f"{place}[{index}]")
        if not isinstance(value, dict) or any(_is_open(variant) for variant in variants):
            return
        for key, member in value.items():
            known = [variant["properties"][key] for variant in variants if key in variant.get("properties", ())]
            if known:
                yield from self._strays(known, member, f"{place}.{key}")
            else:
                yield f"{place}.{key}: unknown"

    def _variants(self, schema: Json) -> list[Json]:
        """The plain schemas that a schema combines, in whatever way."""
        if id(schema) not in self._all_variants:
            whole = self._followed(schema)
            parts = [part for key in ("allOf", "anyOf", "oneOf") for part in whole.get(key, ())]
            own = [] if parts and "properties" not in whole and "items" not in whole else [whole]
            self._all_variants[id(schema)] = own + [variant for part in parts for variant in self._variants(part)]
        return self._all_variants[id(schema)]

    def _followed(self, schema: Json) -> Json:
        while "$ref" in schema:
            schema = self._schemas[schema["$ref"].rpartition("/")[2]]
        return schema

    def complete_answer(self, name: str, status: int, body: Any) -> Any:
        schema = self.operations[name]["answers"].get(str(status))
        return self.complete(schema, body) if schema else body

    def complete_event(self, name: str, payload: Any) -> Any:
        return self.complete(self.webhooks[name], payload)

    def complete(self, schema: Json, value: Any, *, is_said: bool = True) -> Any:
        """The value with the other fields that the schema requires, each with the simplest allowed value.

        Args:
            is_said: whether the server set the value, and not `complete`.

        Raises:
            Unsaid: a field is missing that our code reads.
        """
        if value is None:
            return None
        for variant in self._fitting(schema, value):
            properties = variant.get("properties", {})
            if isinstance(value, dict):
                value = {key: self.complete(properties.get(key, _ANYTHING), member) for key, member in value.items()}
                missing = [key for key in variant.get("required", ()) if key not in value]
                if is_said and (unsaid := fields_that_are_read().intersection(missing)):
                    raise Unsaid(f"{', '.join(sorted(unsaid))}: read by our code, and not given with {sorted(value)}")
                value |= {key: self._dullest(properties.get(key, _ANYTHING)) for key in missing}
            elif isinstance(value, list) and "items" in variant:
                value = [self.complete(variant["items"], member) for member in value]
        return value

    def _fitting(self, schema: Json, value: Any) -> list[Json]:
        """The plain schemas that a value must match: all of `allOf`, the first of `anyOf`."""
        kind = "object" if isinstance(value, dict) else "array" if isinstance(value, list) else ""
        key = id(schema), kind
        if key not in self._all_fitting:
            self._all_fitting[key] = self._find_fitting(self._followed(schema), kind, value)
        return self._all_fitting[key]

    def _find_fitting(self, schema: Json, kind: str, value: Any) -> list[Json]:
        fitting = [schema]
        for part in schema.get("allOf", ()):
            fitting += self._fitting(part, value)
        for part in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
            if kind and kind in str(self._followed(part).get("type", kind)):
                return fitting + self._fitting(part, value)
        return fitting

    def _dullest(self, schema: Json) -> Any:
        schema = self._followed(schema)
        kinds = schema.get("type", "")
        choices = [*schema.get("anyOf", ()), *schema.get("oneOf", ())]
        if "null" in kinds or {"type": "null"} in choices:
            return None
        if "enum" in schema:
            return schema["enum"][0]
        if "allOf" in schema:
            return self.complete(schema, {}, is_said=False)
        if choices:
            return self._dullest(choices[0])
        kind = kinds if isinstance(kinds, str) else kinds[0]
        if kind in _ANY:
            return _FORMATS.get(schema.get("format", ""), _ANY[kind])
        return [] if kind == "array" else self.complete(schema, {}, is_said=False)


def _is_open(schema: Json) -> bool:
    """Whether an object may have fields beyond the named ones."""
    return bool(schema.get("additionalProperties")) or ("properties" not in schema and schema.get("type") != "null")


@cache
def contract() -> Contract:
    return Contract(json.loads(FILE.read_text()))
