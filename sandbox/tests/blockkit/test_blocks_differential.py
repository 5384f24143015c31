"""The checker against the JSON schema on blocks that are generated from it, then damaged at random.

Whatever the two judge differently must have one of the reasons in `differences`, where each has
its example.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from sandbox.tests.blockkit.differences import LAXER, STRICTER, VIEWS
from sandbox.tests.blockkit.samples import ELEMENTS, SURFACE_OF, plain
from sandbox.tests.blockkit.strategies import SCHEMA, damaged_values, defs, schema_values
from slack_sandbox.blockkit.blocks import check_blocks, check_view
from tests.json_schema import Schema

pytestmark = pytest.mark.skipif(
    not SCHEMA.exists(), reason="the schema to compare with is not on this machine"
)


@cache
def _validator(name: str) -> Schema:
    return Schema({"$ref": f"#/$defs/{name}", "$defs": defs()})


def _unexplained(ours: list[str], schema: Schema, value: Any) -> list[str]:
    """What is judged differently, without a reason for it."""
    theirs = schema.errors(value)
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


_NAMES = defs() if SCHEMA.exists() else {}
KINDS = sorted(name.removesuffix("_block") for name in _NAMES if name.endswith("_block"))
_SETTINGS = settings(
    suppress_health_check=list(HealthCheck),
    derandomize=True,
    database=None,
    phases=(Phase.generate,),  # making a failure smaller takes longer than reading it
)


@pytest.mark.long
@pytest.mark.parametrize(
    "kind", [name for name in KINDS if name not in ("container_child", "file")]
)
@_SETTINGS
@given(data=st.data())
def test_blocks_are_judged_as_by_the_schema(kind: str, data: st.DataObject) -> None:
    """A generated block, sound or damaged, has the same verdict from both, or a reason."""
    name = f"{kind}_block"
    block = data.draw(schema_values({"$ref": f"#/$defs/{name}"}))
    for _ in range(data.draw(st.integers(0, 2))):
        block = data.draw(damaged_values(block))
    surface: Any = SURFACE_OF.get(kind, "message")
    assert _unexplained(check_blocks([block], surface), _validator(name), block) == []


@pytest.mark.parametrize("kind", ["modal", "home"])
@_SETTINGS
@given(data=st.data())
def test_views_are_judged_as_by_the_schema(kind: str, data: st.DataObject) -> None:
    """A generated view, sound or damaged, has the same verdict from both, or a reason."""
    blocks = st.lists(
        schema_values({"$ref": "#/$defs/input_block"})
        | schema_values({"$ref": "#/$defs/section_block"}),
        max_size=2,
    )
    view = {
        **data.draw(schema_values({"$ref": f"#/$defs/{kind}_view"})),
        "blocks": data.draw(blocks),
    }
    for _ in range(data.draw(st.integers(0, 2))):
        view = data.draw(damaged_values(view))
    assert _unexplained(check_view(view), _validator(f"{kind}_view"), view) == []


@pytest.mark.parametrize("reason", STRICTER)
def test_each_example_of_a_stricter_check_is_refused(reason: str) -> None:
    """The schema takes the example, and the checker refuses it for this reason."""
    surface, block = STRICTER[reason][1:]
    found = check_blocks([block], surface)
    assert [what for what in found if re.search(reason, what)]
    assert all(re.search(reason, what) for what in found)
    assert _validator("block").is_valid(block)


@pytest.mark.parametrize("reason", LAXER)
def test_each_example_of_a_laxer_check_is_accepted(reason: str) -> None:
    """The checker takes the example, and the schema refuses it for this reason."""
    surface, block = LAXER[reason][1:]
    assert check_blocks([block], surface) == []
    said = [text for error in _validator("block").errors(block) for text in _deepest(error)]
    assert any(re.search(reason, text) for text in said)


@pytest.mark.parametrize("reason", VIEWS)
def test_each_example_of_a_stricter_view_check_is_refused(reason: str) -> None:
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
def test_a_block_accepts_the_elements_of_the_schema(holder: str) -> None:
    """A block takes the elements that the schema has for it, and no others."""
    surface: Any = "modal" if holder == "input" else "message"
    blocks = {name: HOLDERS[holder](element) for name, element in ELEMENTS.items()}
    ours = {name for name, block in blocks.items() if not check_blocks([block], surface)}
    theirs = {
        name for name, block in blocks.items() if _validator(f"{holder}_block").is_valid(block)
    }
    assert ours == theirs != set()
