"""Reduce GitHub's published GraphQL schema to what the queries of `scripts/github/queries.py` use.

    npm pack @octokit/graphql-schema && tar xf octokit-graphql-schema-*.tgz
    python -m tests.github_server.reduce_graphql package

writes `schema.graphql` next to this file, without descriptions.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from graphql import (
    DocumentNode,
    FieldNode,
    GraphQLSchema,
    InlineFragmentNode,
    ListTypeNode,
    NonNullTypeNode,
    TypeDefinitionNode,
    TypeInfo,
    TypeInfoVisitor,
    TypeNode,
    Visitor,
    build_ast_schema,
    get_named_type,
    parse,
    print_ast,
    validate,
    visit,
)

from scripts.github import queries

TARGET = Path(__file__).with_name("schema.graphql")
QUERIES = (queries.PULL, queries.COMMENTS)


class _Use(Visitor):
    """Collects the fields that a query asks for, by type, and their arguments."""

    def __init__(self, info: TypeInfo) -> None:
        super().__init__()
        self._info = info
        self.fields: dict[str, set[str]] = {}
        self.arguments: set[str] = set()

    def enter_field(self, node: FieldNode, *_: object) -> None:
        parent = self._info.get_parent_type()
        assert parent
        self.fields.setdefault(parent.name, set()).add(node.name.value)
        self.arguments |= {f"{parent.name}.{node.name.value}.{one.name.value}" for one in node.arguments or ()}

    def enter_inline_fragment(self, node: InlineFragmentNode, *_: object) -> None:
        kind = get_named_type(self._info.get_type())
        assert kind
        self.fields.setdefault(kind.name, set())


def used_by(text: str, schema: GraphQLSchema) -> _Use:
    query = parse(text)
    assert not (errors := validate(schema, query)), errors
    info = TypeInfo(schema)
    use = _Use(info)
    visit(query, TypeInfoVisitor(info, use))
    return use


def reduce(document: DocumentNode) -> str:
    schema = build_ast_schema(document, assume_valid=True, assume_valid_sdl=True)
    fields: dict[str, set[str]] = {}
    arguments: set[str] = set()
    for text in QUERIES:
        use = used_by(text, schema)
        arguments |= use.arguments
        for kind, names in use.fields.items():
            fields.setdefault(kind, set()).update(names)
    for kind in ("User", "Bot"):  # the kinds of Actor
        fields.setdefault(kind, set()).update(fields["Actor"])
    kept: list[str] = []
    named: set[str] = set()
    definitions = {one.name.value: one for one in document.definitions if isinstance(one, TypeDefinitionNode)}
    for name in sorted(fields):
        kept.append(_reduced(definitions[name], fields[name], arguments, fields.keys(), named))
    kept += [_plain(definitions[name]) for name in sorted(named - fields.keys()) if name in definitions]
    return "\n\n".join(kept) + "\n"


def _reduced(node, wanted, arguments, kinds, named):  # type: ignore[no-untyped-def]
    word = {"ObjectTypeDefinitionNode": "type", "InterfaceTypeDefinitionNode": "interface"}[type(node).__name__]
    above = [one.name.value for one in node.interfaces or () if one.name.value in kinds]
    lines = [f"{word} {node.name.value}{' implements ' + ' & '.join(above) if above else ''} {{"]
    for field in node.fields:
        if field.name.value not in wanted:
            continue
        place = f"{node.name.value}.{field.name.value}"
        taken = [one for one in field.arguments or () if f"{place}.{one.name.value}" in arguments]
        taken += [one for one in field.arguments or () if isinstance(one.type, NonNullTypeNode) and one not in taken]
        named |= {_name(one.type) for one in (field, *taken)}
        words = ", ".join(f"{one.name.value}: {print_ast(one.type)}" for one in taken)
        lines.append(f"  {field.name.value}{f'({words})' if words else ''}: {print_ast(field.type)}")
    return "\n".join([*lines, "}"])


def _plain(node: TypeDefinitionNode) -> str:
    if values := getattr(node, "values", None):
        return "\n".join([f"enum {node.name.value} {{", *(f"  {one.name.value}" for one in values), "}"])
    return f"scalar {node.name.value}"


def _name(node: TypeNode) -> str:
    while isinstance(node, NonNullTypeNode | ListTypeNode):
        node = node.type
    return node.name.value  # type: ignore[attr-defined, no-any-return]


def main(package: Path) -> None:
    about = json.loads((package / "package.json").read_text())
    document = parse((package / "schema.graphql").read_text(), no_location=True)
    head = f"# {about['name']} {about['version']}, {about['license']}: reduced by reduce_graphql.py\n\n"
    TARGET.write_text(head + reduce(document))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
