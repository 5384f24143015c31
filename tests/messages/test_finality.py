"""What is said of whether a call can be undone: what its author said, and no more."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

import pytest

from bot.cards.answers import help_text
from bot.cards.call_pieces import (
    IRREVERSIBLE_TEXT,
    REVERSIBILITY_UNSTATED_TEXT,
    REVERSIBILITY_UNTRUSTED_TEXT,
    build_joint_approval_confirmation,
)
from bot.cards.card import render_card
from bot.cards.review_dialog import render_review_dialog
from bot.mcp.server_file import Server, ToolDefinition
from bot.mcp.server_tools import _LazyConnection, build_server_tool
from bot.tools import Effect, EffectSource, Tool
from bot.tools.handed_over import HandedOverAction, load_action_tool
from tests.messages.cards_support import CANCEL, NOW, view

SAID = {
    EffectSource.BY_AUTHOR: IRREVERSIBLE_TEXT,
    EffectSource.BY_NOBODY: REVERSIBILITY_UNSTATED_TEXT,
    EffectSource.BY_STRANGER: REVERSIBILITY_UNTRUSTED_TEXT,
}


def of_server(*, trusted: bool = False, **hints: bool) -> Tool[Any]:
    """A tool of a server with these hints."""
    server = Server.model_validate({"name": "s", "command": "s", "trusted": trusted})
    return build_server_tool(
        server,
        ToolDefinition("t", "T", "", {"type": "object"}, **hints),
        _LazyConnection(server, {}),
    )


def of_program(does: Effect | None) -> Tool[Any]:
    """What a program describes."""
    action = asdict(HandedOverAction("deploy", "Deploy", "Deploy", does)) | {"client": ""}
    tool = load_action_tool(json.dumps(action))
    assert tool is not None
    return tool


@pytest.mark.parametrize(
    ("tool", "does", "stated"),
    [
        (of_program(None), Effect.DESTRUCTIVE, EffectSource.BY_NOBODY),
        (of_program(Effect.DESTRUCTIVE), Effect.DESTRUCTIVE, EffectSource.BY_AUTHOR),
        (of_program(Effect.WRITE), Effect.WRITE, EffectSource.BY_AUTHOR),
        (of_server(), Effect.DESTRUCTIVE, EffectSource.BY_NOBODY),
        (of_server(trusted=True), Effect.DESTRUCTIVE, EffectSource.BY_NOBODY),
        (of_server(destructive=True), Effect.DESTRUCTIVE, EffectSource.BY_AUTHOR),
        (of_server(destructive=False), Effect.DESTRUCTIVE, EffectSource.BY_STRANGER),
        (of_server(read_only=True), Effect.DESTRUCTIVE, EffectSource.BY_STRANGER),
        (of_server(read_only=False), Effect.DESTRUCTIVE, EffectSource.BY_NOBODY),
        (of_server(trusted=True, destructive=False), Effect.WRITE, EffectSource.BY_AUTHOR),
        (of_server(trusted=True, destructive=True), Effect.DESTRUCTIVE, EffectSource.BY_AUTHOR),
        (of_server(trusted=True, read_only=True), Effect.READ, EffectSource.BY_AUTHOR),
    ],
)
def test_what_is_not_said_counts_as_destructive(
    tool: Tool[Any], does: Effect, stated: EffectSource
) -> None:
    """And it is known that it was not said, or by whom."""
    assert (tool.does, tool.effect_source) == (does, stated)
    assert tool.declared_effect == (does if stated is EffectSource.BY_AUTHOR else "")


@pytest.mark.parametrize("stated", EffectSource)
def test_every_place_says_what_is_known(stated: EffectSource) -> None:
    """The card, the question before Approve counts, and Review: one sentence, and no other."""
    call = replace(CANCEL, effect_source=stated)
    places = [
        json.dumps(render_card(view(call), NOW).blocks),
        json.dumps(render_review_dialog(call)),
    ]
    for drawn in places:
        assert SAID[stated] in drawn
        assert not any(each in drawn for each in SAID.values() if each != SAID[stated])


def test_what_has_to_be_signed_is_asked_about_once() -> None:
    """The page to sign on warns and asks; the button that leads to it needs no question before."""
    for needs_signature in (False, True):
        call = replace(CANCEL, needs_signature=needs_signature)
        drawn = json.dumps(render_card(view(call), NOW).blocks)
        assert ("Approve this?" in drawn) is not needs_signature
        assert IRREVERSIBLE_TEXT in drawn


def test_a_plan_of_both_kinds_tells_them_apart() -> None:
    """Approving all of them asks about each kind in its own words."""
    other = replace(
        CANCEL, id="call-3", effect="Ship order 7", effect_source=EffectSource.BY_NOBODY
    )
    drawn = json.dumps(render_card(view(CANCEL, other), NOW).blocks, ensure_ascii=False)
    sure = build_joint_approval_confirmation([CANCEL.effect], 2, unsure=[other.effect])
    assert json.dumps(sure.text, ensure_ascii=False) in drawn
    assert sure.text == (
        "This cannot be undone:\n• Cancel order 1043 for good\n"
        "It is not known whether these can be undone:\n• Ship order 7"
    )
    long = build_joint_approval_confirmation(["x" * 400], 9, unsure=["y" * 400])
    assert len(long.text) <= 300


def test_help_lists_what_is_not_known_apart() -> None:
    """What nobody has said stands under a heading of its own: it may just look something up."""
    said = help_text([("Cancel", "destructive"), ("Ship", "")])
    assert said.index("cannot be undone") < said.index("Cancel") < said.index("not known")
    assert said.index("not known") < said.index("Ship")
    assert "change something" not in said
