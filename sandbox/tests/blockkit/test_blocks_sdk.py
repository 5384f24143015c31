"""The checker against slack_sdk's models: what they build, what they refuse, and what differs."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from typing import Any

import pytest
from slack_sdk.errors import SlackObjectFormationError
from slack_sdk.models.attachments import BlockAttachment
from slack_sdk.models.blocks import Block, SectionBlock
from slack_sdk.models.views import View

from sandbox.tests.blockkit.differences import UNSEEN, input_block
from sandbox.tests.blockkit.gallery import gallery
from sandbox.tests.blockkit.samples import BLOCKS, ELEMENTS, SURFACE_OF, Json, plain
from sandbox.tests.blockkit.test_blocks_schema import COUNTS, LENGTHS, _places, _replaced
from slack_sandbox.blockkit.attachments import check_attachments
from slack_sandbox.blockkit.blocks import check_blocks, check_view

# Block.parse of 3.47 drops them with a warning
NOT_IN_THE_SDK = {"data_table", "data_visualization"}
SAMPLES = {name: sample for name, sample in BLOCKS.items() if name not in NOT_IN_THE_SDK}
SAMPLES |= {
    f"input {name}": input_block(element)
    for name, element in ELEMENTS.items()
    if name.endswith(("_input", "_select", "picker")) or name in ("checkboxes", "radio_buttons")
}


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """The models warn of each thing that they leave out."""
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


def built(block: Json) -> Json | None:
    """What the models make of a block; None where they refuse it."""
    parsed = Block.parse(block)
    try:
        return None if parsed is None else dict(parsed.to_dict())
    except (SlackObjectFormationError, TypeError, AttributeError, KeyError, ValueError):
        return None


@pytest.mark.parametrize("name", gallery())
def test_blocks_built_by_slack_sdk_are_accepted(name: str) -> None:
    """Every sample of the gallery goes through the models and is as sound as it was."""
    sample = gallery()[name]
    if any(block["type"] in NOT_IN_THE_SDK for block in sample["blocks"]):
        pytest.skip("slack_sdk has no model of it")
    blocks = [built(block) for block in sample["blocks"]]
    assert check_blocks(blocks, sample["surface"]) == []


def _limits(sample: Json, seen: set[str]) -> Iterator[tuple[str, str, Any]]:
    """The sample, each of its texts and lists at and beyond every limit: pointer, how, result."""
    for at, value in _places(sample, seen):
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


@pytest.mark.long
def test_the_limits_of_slack_sdks_models_hold() -> None:
    """Whatever limit the models have holds.

    Each limit that they lack is listed, with nothing listed in vain.
    """
    refused, used, seen = 0, set[str](), set[str]()
    for name, sample in SAMPLES.items():
        surface: Any = SURFACE_OF.get(name, "modal" if "file_input" in name else "message")
        for at, how, block in _limits(sample, seen):
            ours, theirs = check_blocks([block], surface), built(block)
            assert ours or theirs is not None, f"the models refuse {name} {at} {how}"
            refused += theirs is None
            if ours and theirs is not None:
                why = {reason for reason in UNSEEN if re.search(reason, ours[0])}
                assert why, f"{name} {at} {how}: {ours}"
                used |= why
    assert refused > 200
    assert used == set(UNSEEN), "a listed difference no longer exists"


def test_views_built_by_slack_sdk_are_accepted() -> None:
    """What View builds is taken as it is."""
    ask = input_block({"type": "plain_text_input", "action_id": "a"})
    made = View(
        type="modal", title=plain("Edit"), submit=plain("Save"), blocks=[ask], callback_id="c"
    ).to_dict()
    assert check_view(made) == []
    assert check_view(View(type="home", blocks=[{"type": "divider"}]).to_dict()) == []


def test_attachments_built_by_slack_sdk_are_accepted() -> None:
    """An attachment of blocks is taken as the models build it."""
    made = BlockAttachment(
        blocks=[SectionBlock(text="hello")], color="#1f2937", fallback="hello"
    ).to_dict()
    assert check_attachments([made], []) == ("", [])
