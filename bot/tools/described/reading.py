"""What a schema says of one value: references followed, parts that all hold merged. Pure.

For types and forms only: what it simplifies, the check against the whole schema holds to.
"""

from __future__ import annotations

from typing import Any

from bot.tools.described.schemas import Schema, UnfitSchemaError, at

_MOST_FOLLOWED = 200  # references and parts on the way to one value
_DEEPEST = 20  # alternatives within one another
_NULL = {"type": "null"}


def followed(node: Any, root: Schema) -> Schema:
    """Return the schema with what it refers to, and what holds besides, merged into it.

    Raises UnfitSchemaError for a reference that leads to itself.
    """
    return _followed(node, root, [_MOST_FOLLOWED])


def _followed(node: Any, root: Schema, left: list[int]) -> Schema:
    left[0] -= 1
    if left[0] < 0:
        raise UnfitSchemaError("A reference in the schema leads to itself, or to too many others.")
    if not isinstance(node, dict):
        return {}
    found = {key: each for key, each in node.items() if key not in ("$ref", "allOf")}
    parts = [at(root, node["$ref"])] if "$ref" in node else []
    parts += node["allOf"] if isinstance(node.get("allOf"), list) else []
    for each in parts:
        found = _merged(found, _followed(each, root, left))
    return found


def _merged(one: Schema, other: Schema) -> Schema:
    """Both, the first before the second."""
    made = {**other, **one}
    if "properties" in one and "properties" in other:
        made["properties"] = {**other["properties"], **one["properties"]}
    if "required" in one and "required" in other:
        made["required"] = list(dict.fromkeys([*other["required"], *one["required"]]))
    return made


def without_null(node: Any, root: Schema, depth: int = 0) -> tuple[Schema, bool]:
    """Return what a value has to be where it is not null, and whether it may be null.

    Raises UnfitSchemaError for a reference that leads to itself.
    """
    if depth > _DEEPEST:
        raise UnfitSchemaError("A reference in the schema leads to itself.")
    found, nullable = followed(node, root), False
    if isinstance(found.get("type"), list):
        types = [each for each in found["type"] if each != "null"]
        nullable = len(types) < len(found["type"])
        found["type"] = types[0] if len(types) == 1 else types
    for key in ("anyOf", "oneOf"):
        options = [followed(each, root) for each in found.get(key, ())]
        kept = [each for each in options if each.get("type") != "null"]
        nullable |= len(kept) < len(options)
        if len(kept) == 1:
            rest = {name: each for name, each in found.items() if name != key}
            inner, also = without_null(_merged(rest, kept[0]), root, depth + 1)
            return inner, nullable or also
        if options:
            found[key] = kept
    if isinstance(found.get("enum"), list) and None in found["enum"]:
        found["enum"], nullable = [each for each in found["enum"] if each is not None], True
    return found, nullable


def is_object(found: Schema) -> bool:
    """Whether it is an object of named values."""
    return found.get("type", "object") == "object" and isinstance(found.get("properties"), dict)


def takes_more(found: Schema) -> bool:
    """Whether an object takes keys that are not named: where it says so, or names none."""
    if "additionalProperties" in found:
        return found["additionalProperties"] is not False
    return "patternProperties" in found or "properties" not in found


def as_form(node: Any, root: Schema, *, optional: bool) -> Schema:
    """Return what a form has to know of a value, null as one of its options where it may be left
    out.
    """
    found, nullable = without_null(node, root)
    if isinstance(found.get("items"), dict):
        found = {**found, "items": followed(found["items"], root)}
    return {"anyOf": [found, _NULL]} if nullable or optional else found
