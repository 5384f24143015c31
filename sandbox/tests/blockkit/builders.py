"""Short ways to write the blocks and views that the checker's tests are about."""

from __future__ import annotations

from typing import Any

from sandbox.tests.blockkit.samples import Json, plain

DIVIDER = {"type": "divider"}


def section(text: Json) -> Json:
    """A section with that text."""
    return {"type": "section", "text": text}


def modal(*blocks: Json, **more: Any) -> Json:
    """A modal with these blocks."""
    return {"type": "modal", "title": plain("Edit"), "blocks": list(blocks), **more}


def input_block(element: Json) -> Json:
    """An input block with that element."""
    return {"type": "input", "label": plain("Value"), "element": element}


def actions(*elements: Json) -> Json:
    """An actions block with these elements."""
    return {"type": "actions", "elements": list(elements)}
