"""The checker against the JSON schema on generated blocks: made by the schema itself, then damaged
at random.

Whatever the two judge differently must have one of the reasons in block_differences, where each has
its example.
"""

from __future__ import annotations

import copy
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from bot.sandbox.blockkit.blocks import check_blocks, check_view
from tests.sandbox.blockkit.differences import LAXER, STRICTER, VIEWS
from tests.sandbox.blockkit.samples import ELEMENTS, SURFACE_OF, Json, plain

SCHEMA = Path(__file__).parents[4] / "shared" / "fixtures" / "block-kit.schema.json"
pytestmark = pytest.mark.skipif(
    not SCHEMA.exists(), reason="the schema to compare with is not on this machine"
)


@cache
def _defs() -> Json:
    defs: Json = json.loads(SCHEMA.read_text())["$defs"]
    return defs


@cache
def _validator(name: str) -> Draft202012Validator:
    return Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": _defs()})


_STRINGS = {  # for the patterns of the schema, some right and some nearly so
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


def _merged(schema: Json) -> Json:
    """The schema with its references followed and its allOf laid together, as far as strings need
    it.
    """
    if "$ref" in schema:
        return _merged(_defs()[schema["$ref"].rsplit("/", 1)[1]])
    merged = {key: value for key, value in schema.items() if key != "allOf"}
    for part in schema.get("allOf", ()):
        for key, value in _merged(part).items():
            if key == "properties":
                known = merged.setdefault("properties", {})
                merged["properties"] = known | {
                    k: {**_merged(known.get(k, {})), **v} for k, v in value.items()
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
def _made(draw: st.DrawFn, schema: Json, deep: int = 0) -> Any:
    """A value that the schema takes, or nearly: rules between fields are left to luck."""
    schema = _merged(schema)
    if "const" in schema or "enum" in schema:
        return draw(st.sampled_from(schema.get("enum", [schema.get("const")])))
    kinds = [
        each for each in schema.get("oneOf", ()) if "required" not in each or "properties" in each
    ]
    if kinds and "properties" not in schema:
        return draw(_made({**draw(st.sampled_from(kinds)), **_limits(schema)}, deep))
    kind = schema.get("type")
    if kind == "object":
        return draw(_object(schema, deep))
    if kind == "array":
        most = min(schema.get("maxItems", 3), schema.get("minItems", 0) + (2 if deep < 4 else 1))
        return draw(
            st.lists(
                _made(schema["items"], deep + 1), min_size=schema.get("minItems", 0), max_size=most
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
    return {name: draw(_made(each, deep + 1)) for name, each in fields.items()}


def _spots(value: Any, at: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    inner = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    return [at, *(spot for key, each in inner for spot in _spots(each, (*at, key)))]


@st.composite
def _damaged(draw: st.DrawFn, value: Any) -> Any:
    """The value with one thing in it removed, replaced, doubled or added.

    Now and then it stays sound.
    """
    spots = [spot for spot in _spots(value) if spot and spot[-1] != "type"]
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


def _unexplained(ours: list[str], schema: Draft202012Validator, value: Any) -> list[str]:
    """What is judged differently, without a reason for it."""
    theirs = list(schema.iter_errors(value))
    if bool(ours) == bool(theirs):
        return []
    if ours:
        return [
            what
            for what in ours
            if not any(re.search(reason, what) for reason in {**STRICTER, **VIEWS})
        ]
    said = " ".join(text for error in theirs for text in _deepest(error))
    return [] if any(re.search(reason, said) for reason in LAXER) else [said[:2000]]


def _deepest(error: Any) -> list[str]:
    return [error.message, *(text for inner in error.context for text in _deepest(inner))]


_NAMES = _defs() if SCHEMA.exists() else {}
KINDS = sorted(name.removesuffix("_block") for name in _NAMES if name.endswith("_block"))
_SETTINGS = settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=True,
    database=None,
    phases=(Phase.generate,),  # making a failure smaller takes longer than reading it
)


@pytest.mark.parametrize(
    "kind", [name for name in KINDS if name not in ("container_child", "file")]
)
@_SETTINGS
@given(data=st.data())
def test_blocks_are_judged_as_by_the_schema(kind: str, data: st.DataObject) -> None:
    """A generated block, sound or damaged in one or two places, has the same verdict from both, or
    a reason.
    """
    name = f"{kind}_block"
    block = data.draw(_made({"$ref": f"#/$defs/{name}"}))
    for _ in range(data.draw(st.integers(0, 2))):
        block = data.draw(_damaged(block))
    surface: Any = SURFACE_OF.get(kind, "message")
    assert _unexplained(check_blocks([block], surface), _validator(name), block) == []


@pytest.mark.parametrize("kind", ["modal", "home"])
@_SETTINGS
@given(data=st.data())
def test_views_are_judged_as_by_the_schema(kind: str, data: st.DataObject) -> None:
    """A generated view, sound or damaged in one or two places, has the same verdict from both, or a
    reason.
    """
    blocks = st.lists(
        _made({"$ref": "#/$defs/input_block"}) | _made({"$ref": "#/$defs/section_block"}),
        max_size=2,
    )
    view = {**data.draw(_made({"$ref": f"#/$defs/{kind}_view"})), "blocks": data.draw(blocks)}
    for _ in range(data.draw(st.integers(0, 2))):
        view = data.draw(_damaged(view))
    assert _unexplained(check_view(view), _validator(f"{kind}_view"), view) == []


@pytest.mark.parametrize("reason", STRICTER)
def test_each_reason_to_be_stricter(reason: str) -> None:
    """The schema takes the example, and the checker refuses it for this reason."""
    surface, block = STRICTER[reason][1:]
    found = check_blocks([block], surface)
    assert [what for what in found if re.search(reason, what)]
    assert all(re.search(reason, what) for what in found)
    assert _validator("block").is_valid(block)


@pytest.mark.parametrize("reason", LAXER)
def test_each_reason_to_be_laxer(reason: str) -> None:
    """The checker takes the example, and the schema refuses it for this reason."""
    surface, block = LAXER[reason][1:]
    assert check_blocks([block], surface) == []
    said = [text for error in _validator("block").iter_errors(block) for text in _deepest(error)]
    assert any(re.search(reason, text) for text in said)


@pytest.mark.parametrize("reason", VIEWS)
def test_each_reason_about_views(reason: str) -> None:
    """The schema takes the view, and the checker refuses it for this reason."""
    view = {
        "title": plain("Edit"),
        "type": "modal",
        "blocks": [{"type": "divider"}],
        **VIEWS[reason][1],
    }
    assert [re.search(reason, what) is not None for what in check_view(view)] == [True]
    assert _validator("modal_view").is_valid(view)


HOLDERS: dict[str, Any] = {
    "section": lambda element: {"type": "section", "text": plain(), "accessory": element},
    "actions": lambda element: {"type": "actions", "elements": [element]},
    "context": lambda element: {"type": "context", "elements": [element]},
    "context_actions": lambda element: {"type": "context_actions", "elements": [element]},
    "input": lambda element: {"type": "input", "label": plain(), "element": element},
    "card": lambda element: {"type": "card", "title": plain(), "actions": [element]},
    "task_card": lambda element: {
        "type": "task_card",
        "task_id": "1",
        "title": "x",
        "sources": [element],
    },
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_every_element_in_every_block(holder: str) -> None:
    """A block takes the elements that the schema has for it, and no others."""
    surface: Any = "modal" if holder == "input" else "message"
    blocks = {name: HOLDERS[holder](element) for name, element in ELEMENTS.items()}
    ours = {name for name, block in blocks.items() if not check_blocks([block], surface)}
    theirs = {
        name for name, block in blocks.items() if _validator(f"{holder}_block").is_valid(block)
    }
    assert ours == theirs != set()
