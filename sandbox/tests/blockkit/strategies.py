"""Strategies for blocks and views as the JSON schema has them, and for damaging them."""

from __future__ import annotations

import copy
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from sandbox.tests.blockkit.samples import ELEMENTS, Json

SCHEMA = Path(__file__).parents[4] / "shared" / "fixtures" / "block-kit.schema.json"


@cache
def defs() -> Json:
    """The schema's definitions, by name."""
    defs: Json = json.loads(SCHEMA.read_text())["$defs"]
    return defs


_STRINGS = {  # texts for the patterns of the schema, some matching and some nearly
    "UW": st.sampled_from(["U0ANA", "W1"]),
    "CG": st.sampled_from(["C0SUPPORT", "G1"]),
    "S": st.just("S0LEADS"),
    "T": st.just("T0SANDBOX"),
}
_WORDS = st.sampled_from(["a", "b", "hello", "A basket", "&<>", "grün 🐈"])


def _string(schema: Json) -> st.SearchStrategy[str]:
    pattern = schema.get("pattern", "")
    if found := re.match(r"\^\[?([A-Z]+)\]?\[A-Z0-9\]\+\$", pattern):
        return _STRINGS[found[1]]
    if pattern or schema.get("format") == "uri":
        address = "http" in pattern or not pattern
        return (
            st.just("https://shop.example/a") if address else st.from_regex(pattern, fullmatch=True)
        )
    low, high = schema.get("minLength", 0), schema.get("maxLength", 4000)
    edges = st.sampled_from([low, high]).map("x".__mul__)
    return st.one_of(_WORDS.filter(lambda words: low <= len(words) <= high), edges)


def _merge_references(schema: Json) -> Json:
    """The schema with references followed and allOf laid together, as far as strings need it."""
    if "$ref" in schema:
        return _merge_references(defs()[schema["$ref"].rsplit("/", 1)[1]])
    merged = {key: value for key, value in schema.items() if key != "allOf"}
    for part in schema.get("allOf", ()):
        for key, value in _merge_references(part).items():
            if key == "properties":
                known = merged.setdefault("properties", {})
                merged["properties"] = known | {
                    k: {**_merge_references(known.get(k, {})), **v} for k, v in value.items()
                }
            elif key not in ("if", "then"):
                merged.setdefault(key, value)
    return merged


def _number(schema: Json) -> st.SearchStrategy[Any]:
    low, high = (
        schema.get("minimum", schema.get("exclusiveMinimum", -9)),
        schema.get("maximum", 200),
    )
    return st.integers(low + ("exclusiveMinimum" in schema), high)


@st.composite
def schema_values(draw: st.DrawFn, schema: Json, deep: int = 0) -> Any:
    """A value that the schema takes, or nearly: rules between fields are not followed."""
    schema = _merge_references(schema)
    if "const" in schema or "enum" in schema:
        return draw(st.sampled_from(schema.get("enum", [schema.get("const")])))
    kinds = [
        each for each in schema.get("oneOf", ()) if "required" not in each or "properties" in each
    ]
    if kinds and "properties" not in schema:
        return draw(schema_values({**draw(st.sampled_from(kinds)), **_limits(schema)}, deep))
    kind = schema.get("type")
    if kind == "object":
        return draw(_object(schema, deep))
    if kind == "array":
        most = min(schema.get("maxItems", 3), schema.get("minItems", 0) + (2 if deep < 4 else 1))
        return draw(
            st.lists(
                schema_values(schema["items"], deep + 1),
                min_size=schema.get("minItems", 0),
                max_size=most,
            )
        )
    simple = {"boolean": st.booleans(), "null": st.none(), "string": _string(schema)}
    return draw(simple[kind] if kind in simple else _number(schema) if kind else _WORDS)


def _limits(schema: Json) -> Json:
    return {"allOf": [{"properties": schema["properties"]}]} if "properties" in schema else {}


@st.composite
def _object(draw: st.DrawFn, schema: Json, deep: int) -> Json:
    need = set(schema.get("required", ()))
    for alternatives in (schema.get("anyOf", ()), schema.get("oneOf", ())):
        if choices := [each["required"] for each in alternatives if "required" in each]:
            need |= set(draw(st.sampled_from(choices)))
    either = (
        {"options", "option_groups", "image_url", "slack_file", "id", "url"}
        if schema.get("oneOf")
        else set()
    )
    may = [name for name in schema["properties"] if name not in need and name not in either]
    most = 4 if deep < 3 else 1
    chosen = draw(st.lists(st.sampled_from(may), unique=True, max_size=most)) if may else []
    fields = {name: each for name, each in schema["properties"].items() if name in {*need, *chosen}}
    return {name: draw(schema_values(each, deep + 1)) for name, each in fields.items()}


def _list_places(value: Any, at: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    inner = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    return [at, *(spot for key, each in inner for spot in _list_places(each, (*at, key)))]


@st.composite
def damaged_values(draw: st.DrawFn, value: Any) -> Any:
    """The value with one thing in it removed, replaced, doubled or added.

    It may still be sound.
    """
    spots = [spot for spot in _list_places(value) if spot and spot[-1] != "type"]
    if not spots:
        return value
    *way, last = draw(st.sampled_from(spots))
    value = copy.deepcopy(value)
    target = value
    for key in way:
        target = target[key]
    how = draw(
        st.sampled_from(
            ["remove", "null", "word", "long", "number", "list", "twice", "field", "element"]
        )
    )
    if how == "remove":
        del target[last]
    elif how == "twice" and isinstance(target[last], list):
        target[last] = target[last] * draw(st.sampled_from([2, 11, 26, 51, 101]))
    elif how == "field" and isinstance(target[last], dict):
        name = draw(st.sampled_from(["surprise", "style", "value", "agent_prompt", "min_lines"]))
        target[last][name] = draw(st.sampled_from(["x", 2]))
    elif how == "element" and isinstance(target[last], dict) and "type" in target[last]:
        target[last] = copy.deepcopy(draw(st.sampled_from(list(ELEMENTS.values()))))
    else:
        other = {
            "null": None,
            "word": "zz",
            "long": "x" * draw(st.sampled_from([21, 76, 151, 3001, 12_001])),
        }
        target[last] = {
            **other,
            "number": draw(st.sampled_from([-1, 0, 1.5, 10**10])),
            "list": [],
        }.get(how, {})
    return value
