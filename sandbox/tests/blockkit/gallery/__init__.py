"""A gallery: every block and element of Block Kit as an app would send it.

For those who draw blocks (the page) and those who check them. `python -m
sandbox.tests.blockkit.gallery` prints it as JSON: {name: {"surface": message|modal|home, "blocks":
[…]}}. The samples that tests break on purpose are in `blockkit.samples`.
"""

from __future__ import annotations

from sandbox.tests.blockkit.gallery.blocks import BLOCKS
from sandbox.tests.blockkit.gallery.builders import Json, input_block, mrkdwn, plain
from sandbox.tests.blockkit.gallery.elements import CONTEXT_ACTIONS, ELEMENTS, INPUTS, ONLY_ACTIONS


def gallery() -> dict[str, Json]:
    """All samples: name -> {"surface", "blocks"}, blocks first."""
    found = {
        name: {"surface": surface, "blocks": blocks} for name, (surface, blocks) in BLOCKS.items()
    }
    for name, element in ELEMENTS.items():
        text = mrkdwn(f"*{name}* beside a text")
        found[f"section: {name}"] = _in(
            "message", {"type": "section", "text": text, "accessory": element}
        )
    for name, element in (ELEMENTS | ONLY_ACTIONS).items():
        found[f"actions: {name}"] = _in("message", {"type": "actions", "elements": [element]})
    no_input = ("button", "workflow", "overflow")
    asked = {
        name: each
        for name, each in (ELEMENTS | ONLY_ACTIONS).items()
        if not name.startswith(no_input)
    }
    for name, element in (asked | INPUTS).items():
        found[f"input: {name}"] = _in(
            "modal", input_block(element, hint=plain("what it is for"), optional=True)
        )
    for name, element in CONTEXT_ACTIONS.items():
        found[f"context_actions: {name}"] = _in(
            "message", {"type": "context_actions", "elements": [element]}
        )
    return found


def _in(surface: str, *blocks: Json) -> Json:
    return {"surface": surface, "blocks": list(blocks)}
