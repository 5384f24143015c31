"""The gallery of samples: sound where it says, refused elsewhere, and complete."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from sandbox.tests.blockkit.gallery import gallery
from sandbox.tests.blockkit.samples import BLOCKS as KINDS
from sandbox.tests.blockkit.samples import ELEMENTS, LEAVES
from slack_sandbox.blockkit.blocks import check_blocks
from slack_sandbox.blockkit.layouts import BLOCKS, Surface

GALLERY = gallery()


@pytest.mark.parametrize("name", GALLERY)
def test_each_sample_is_sound_on_its_surface(name: str) -> None:
    """The checker accepts each sample on its own surface."""
    sample = GALLERY[name]
    assert check_blocks(sample["blocks"], sample["surface"]) == []


def types(value: Any) -> set[str]:
    """Every `type` inside."""
    if isinstance(value, list):
        return set().union(*map(types, value))
    if not isinstance(value, dict):
        return set()
    return {str(value.get("type"))}.union(*map(types, value.values()))


def test_the_gallery_has_every_block_and_element() -> None:
    """The gallery has every block, element and leaf of rich text that the checker knows."""
    wanted = {*KINDS, *ELEMENTS, *(str(leaf["type"]) for leaf in LEAVES)}
    assert wanted - types([sample["blocks"] for sample in GALLERY.values()]) == set()


@pytest.mark.parametrize("surface", get_args(Surface))
def test_a_block_on_the_wrong_surface_is_refused_by_its_type(surface: Surface) -> None:
    """A block on a surface that does not take it is refused by its type, whatever it contains."""
    elsewhere = [s["blocks"] for s in GALLERY.values() if s["surface"] != surface]
    verdicts = [list(BLOCKS[surface](blocks, "/blocks")) for blocks in elsewhere]
    assert any(verdicts)
    assert all(
        "unsupported type" in found[0] or "more than" in found[0] for found in verdicts if found
    )
