"""The checker against an independent JSON schema: every sample broken in every place."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from sandbox.tests.blockkit.samples import BLOCKS, ELEMENTS, LEAF_BLOCKS, PIE, SURFACE_OF, Json
from slack_sandbox.blockkit.blocks import check_blocks
from slack_sandbox.blockkit.elements import element
from tests.json_schema import Schema

SCHEMA = Path(__file__).parents[4] / "shared" / "fixtures" / "block-kit.schema.json"
pytestmark = pytest.mark.skipif(
    not SCHEMA.exists(), reason="the schema to compare with is not on this machine"
)

# Where the two disagree on purpose, by what was broken (sample, pointer, how), and why.
# The checker is the stricter one in all of them.
DIFFERENCES = {
    r"/\w*url (string|[01] characters)$": "Slack refuses what is no URL; the schema only names "
    "the format",
    r"^element (checkboxes|radio_buttons|(multi_)?static_select) ": "an initial option must be "
    "one of those offered",
    r"^element datetimepicker /initial_date_time ": "Slack documents ten digits; the schema "
    "starts at 0",
    r"^element plain_text_input /initial_value \d+ characters$": "no input holds more than 3,000 "
    "characters",
    r"/alt_text \d+ characters$": "2,000 characters, as in the image block; the schema has it "
    "for the block only",
    r"/text 0 characters$": "Slack refuses an empty text in rich text",
    r"^block (table|data_table) .*/text 1200[01] characters$": "10,000 characters in all cells "
    "together",
    r"^block data_table /row_header_column_index ": "the column must exist",
    r"^block data_table /rows/[01] \d+ items$": "all rows must have the same number of cells",
    r"^block data_visualization /chart/(series|axis_config)": "names are unique, and each "
    "category has a point",
    r"^element timepicker /timezone ": "Slack documents an IANA name; the schema takes any string",
}


@cache
def _validator(name: str) -> Schema:
    defs = json.loads(SCHEMA.read_text())["$defs"]
    return Schema({"$ref": f"#/$defs/{name}", "$defs": defs})


def _schema_name(name: str) -> str:
    names = {
        "email_text_input": "email_input_element",
        "url_text_input": "url_input_element",
        "url": "url_source_element",
    }
    return names.get(name, f"{name}_element")


def _places(value: Any, seen: set[str], at: str = "") -> Iterator[tuple[str, Any]]:
    """Each value inside with its pointer.

    Objects already met under the same name are not entered again.
    """
    yield at, value
    if isinstance(value, dict) and at:
        key = f"{at.rsplit('/', 1)[1]} {json.dumps(value)}"
        if key in seen:
            return
        seen.add(key)
    inner = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for name, each in inner:
        yield from _places(each, seen, f"{at}/{name}")


def _replaced(sample: Json, at: str, new: Any) -> Any:
    if not at:
        return new
    result = copy.deepcopy(sample)
    *way, last = at.split("/")[1:]
    target: Any = result
    for key in way:
        target = target[int(key) if isinstance(target, list) else key]
    target[int(last) if isinstance(target, list) else last] = new
    return result


def _around(*limits: int) -> list[int]:
    return sorted({n for limit in limits for n in (limit, limit + 1)})


LENGTHS = _around(0, 20, 30, 49, 50, 75, 100, 150, 199, 255, 300, 2000, 3000, 12_000)
COUNTS = _around(0, 2, 4, 5, 6, 10, 20, 25, 50, 100, 101)
WRONG: dict[str, Any] = {
    "null": None,
    "number": 7,
    "string": "zz",
    "list": [],
    "object": {},
    "true": True,
    "float": 1.5,
}


def _broken(sample: Json, places: list[tuple[str, Any]]) -> Iterator[tuple[str, str, Any]]:
    """Every way of breaking the sample in one place: pointer, how, and what comes of it.

    Some are still sound.
    """
    for at, value in places:
        for how, wrong in WRONG.items():
            yield at, how, _replaced(sample, at, wrong)
        if isinstance(value, dict):
            yield at, "unknown field", _replaced(sample, at, {**value, "surprise": 1})
            for name in value:
                without = {key: each for key, each in value.items() if key != name}
                yield f"{at}/{name}", "removed", _replaced(sample, at, without)
        if isinstance(value, list) and value:
            for count in COUNTS:
                yield at, f"{count} items", _replaced(sample, at, (value * count)[:count])
        if isinstance(value, str) and not at.endswith("/type"):
            for length in LENGTHS:
                yield (
                    at,
                    f"{length} characters",
                    _replaced(sample, at, (value + "x" * length)[:length]),
                )
        if type(value) is int:
            for other in (-1, 0, 1, 3000, 3001, 10**10 - 1, 10**10):
                yield at, f"is {other}", _replaced(sample, at, other)


def _verdicts(kind: str, name: str, value: Any) -> tuple[bool, bool]:
    if kind == "element":
        return not list(element(name)(value, "")), _validator(_schema_name(name)).is_valid(value)
    surface: Any = SURFACE_OF.get(name, "message")
    return not check_blocks([value], surface), _validator(f"{name}_block").is_valid(value)


SAMPLES = {
    **{f"element {name}": sample for name, sample in ELEMENTS.items()},
    **{f"block {name}": sample for name, sample in BLOCKS.items() if name != "auth_provider"},
    **{
        f"block rich_text {leaf['elements'][0]['elements'][0]['type']}": leaf
        for leaf in LEAF_BLOCKS
    },
    "block data_visualization pie": {**BLOCKS["data_visualization"], "chart": PIE},
}
_SEEN: set[str] = set()
PLACES = {label: list(_places(sample, _SEEN)) for label, sample in SAMPLES.items()}
for _label in SAMPLES.keys() - {f"block {name}" for name in BLOCKS}:
    # what is around the leaf is broken once, in the sample before
    if _label.startswith("block rich_text"):
        PLACES[_label] = [
            place for place in PLACES[_label] if place[0].startswith("/elements/0/elements/0")
        ]


@pytest.mark.parametrize("label", SAMPLES)
def test_sound_samples_pass_both(label: str) -> None:
    """What is sound passes both, so that each refusal below comes from what was broken."""
    kind, name, *_ = label.split()
    assert _verdicts(kind, name, SAMPLES[label]) == (True, True)


def _disagreements(label: str) -> Iterator[str]:
    kind, name, *_ = label.split()
    for at, how, value in _broken(SAMPLES[label], PLACES[label]):
        ours, theirs = _verdicts(kind, name, value)
        if ours != theirs:
            yield f"{label} {at} {how}{' passes' if ours else ''}"


def test_a_broken_sample_is_judged_as_by_the_schema() -> None:
    """What is broken in one place is judged as by the schema, or the difference is listed.

    Limits, required and unknown fields, types and counts.
    """
    found = [each for label in SAMPLES for each in _disagreements(label)]
    used = {reason for each in found for reason in DIFFERENCES if re.search(reason, each)}
    assert [
        each for each in found if not any(re.search(reason, each) for reason in DIFFERENCES)
    ] == []
    assert used == set(DIFFERENCES), "a listed difference no longer exists"


def test_every_kind_in_the_schema_is_known_or_refused_for_a_reason() -> None:
    """No block or element of the schema was forgotten."""
    defs = json.loads(SCHEMA.read_text())["$defs"]
    blocks = {
        name.removesuffix("_block")
        for name in defs
        if name.endswith("_block") and name != "container_child_block"
    }
    assert blocks - set(BLOCKS) == {"file"}  # a file block is only ever read
    assert set(BLOCKS) - blocks == {"auth_provider"}  # newer than the schema; slack_sdk has it
    elements = {
        name for name in defs if name.endswith("_element") and not name.startswith("rich_text_")
    }
    unions = {
        "section_accessory",
        "actions_block",
        "input_block",
        "context_block",
        "context_actions_block",
    }
    assert elements - {_schema_name(name) for name in ELEMENTS} == {
        f"{name}_element" for name in unions
    }
