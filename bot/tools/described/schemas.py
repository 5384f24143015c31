"""A JSON Schema that others wrote, brought into one form (2020-12) and within bounds. Pure.

Nothing outside of it is ever fetched, and what could take endless time to check is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from bot.policy.condition_values import UnknownValueError, pattern

Schema = dict[str, Any]
Path = tuple[str, ...]
MOST_CHARACTERS = 100_000
DEEPEST = 20  # schemas within one another
_MAPS = ("properties", "$defs", "patternProperties", "dependentSchemas")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLE = (
    *("items", "additionalProperties", "propertyNames", "contains"),
    *("not", "if", "then", "else"),
)
# of drafts, of programs, and of this bot's own forms: nothing that a value could break
_LEFT_OUT = ("$schema", "$comment", "$anchor", "$vocabulary", "x-id-of")
_REFUSED = {
    "$dynamicRef": "a reference that depends on the way to it",
    "$recursiveRef": "a reference that depends on the way to it",
    "unevaluatedProperties": "what can take endless time to check",
    "unevaluatedItems": "what can take endless time to check",
}
_ESCAPED = re.compile(r"(?<!\\)((?:\\\\)*)\\u([0-9a-fA-F]{4})")


class UnfitSchemaError(ValueError):
    """A schema that cannot be used for arguments; a sentence that says why."""


def text_of(schema: Mapping[str, Any]) -> str:
    """Return the schema as JSON text, the order of its keys kept.

    Raises UnfitSchemaError where it is no JSON object, or too large.
    """
    try:
        text = json.dumps(schema, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise UnfitSchemaError("The schema is not JSON.") from error
    if not isinstance(schema, Mapping):
        raise UnfitSchemaError("The schema is not an object.")
    if len(text) > MOST_CHARACTERS:
        most = f"at most {MOST_CHARACTERS:,} are taken"
        raise UnfitSchemaError(f"The schema has {len(text):,} characters; {most}.")
    return text


def normal(text: str) -> Schema:
    """Return the schema in the words of 2020-12, its references checked.

    Raises UnfitSchemaError.
    """
    found = json.loads(text)
    found.pop("$id", None)
    if older := found.pop("definitions", None):
        found["$defs"] = {**older, **found.get("$defs", {})}
    reader = _Reader()
    made: Schema = reader.read(found, ())
    for each in reader.references:
        if pointed(each) not in reader.places:
            raise UnfitSchemaError(f"The schema refers to {each[:100]}, which is not in it.")
    return made


def pointed(reference: str) -> Path:
    """Return the steps from the top that a reference within the schema names."""
    steps = reference[1:].split("/")[1:]
    return tuple(unquote(each).replace("~1", "/").replace("~0", "~") for each in steps)


def at(root: Schema, reference: str) -> Any:
    """Return the schema that a checked reference leads to."""
    found: Any = root
    for step in pointed(reference):
        found = found[int(step)] if isinstance(found, list) else found[step]
    return found


def re2_pattern(text: str) -> Any:
    """Return an expression of a schema, compiled, to search with in bounded time.

    Raises UnfitSchemaError.
    """
    try:
        return pattern(_ESCAPED.sub(r"\1\\x{\2}", text))
    except UnknownValueError:
        why = "is none that can be checked in bounded time"
        raise UnfitSchemaError(f"The pattern {text[:100]} {why}.") from None


class _Reader:
    """Reads one schema and notes what stands where."""

    def __init__(self) -> None:
        self.places: set[Path] = set()
        self.references: list[str] = []

    def read(self, node: Any, path: Path, depth: int = 0) -> Any:
        if isinstance(node, bool):
            self.places.add(path)
            return ({} if node else {"not": {}}) if depth else node
        if not isinstance(node, dict):
            raise UnfitSchemaError("A part of the schema is no schema.")
        if depth > DEEPEST:
            raise UnfitSchemaError(f"The schema is nested more than {DEEPEST} levels deep.")
        self.places.add(path)
        kept = _renamed({key: each for key, each in node.items() if key not in _LEFT_OUT})
        self._refuse(kept, depth)
        for key in _MAPS:
            if isinstance(kept.get(key), dict):
                kept[key] = {
                    name: self.read(each, (*path, key, name), depth + 1)
                    for name, each in kept[key].items()
                }
        for key in _LISTS:
            if isinstance(kept.get(key), list):
                kept[key] = [
                    self.read(each, (*path, key, str(index)), depth + 1)
                    for index, each in enumerate(kept[key])
                ]
        for key in _SINGLE:
            if isinstance(kept.get(key), dict):
                kept[key] = self.read(kept[key], (*path, key), depth + 1)
        return kept

    def _refuse(self, node: Schema, depth: int) -> None:
        for key, what in _REFUSED.items():
            if key in node:
                raise UnfitSchemaError(f"The schema has {key}, {what}.")
        if depth and "$id" in node and isinstance(node["$id"], str):
            raise UnfitSchemaError("A part of the schema has a name of its own ($id).")
        for expression in _expressions(node):
            re2_pattern(expression)
        reference = node.get("$ref")
        if reference is None:
            return
        if reference == "#" or (isinstance(reference, str) and reference.startswith("#/")):
            node["$ref"] = reference = re.sub(r"^#/definitions/", "#/$defs/", reference)
            self.references.append(reference)
            return
        what = "another document, and none is fetched"
        raise UnfitSchemaError(f"The schema refers to {str(reference)[:100]}: {what}.")


def _expressions(node: Schema) -> Iterator[str]:
    if isinstance(node.get("pattern"), str):
        yield node["pattern"]
    if isinstance(node.get("patternProperties"), dict):
        yield from node["patternProperties"]


def _renamed(node: Schema) -> Schema:
    """The schema with what earlier drafts wrote differently."""
    if isinstance(node.get("items"), list):
        node["prefixItems"] = node.pop("items")
        if "additionalItems" in node:
            node["items"] = node.pop("additionalItems")
    if isinstance(node.get("dependencies"), dict):
        for key, each in node.pop("dependencies").items():
            name = "dependentRequired" if isinstance(each, list) else "dependentSchemas"
            node.setdefault(name, {})[key] = each
    for exclusive, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        is_old = isinstance(node.get(exclusive), bool)
        if is_old and node.pop(exclusive) and bound in node:
            node[exclusive] = node.pop(bound)
    return node
