"""Whether a call can be undone: people are told what its author said, and no more."""

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

TEXTS = {
    EffectSource.BY_AUTHOR: IRREVERSIBLE_TEXT,
    EffectSource.BY_NOBODY: REVERSIBILITY_UNSTATED_TEXT,
    EffectSource.BY_STRANGER: REVERSIBILITY_UNTRUSTED_TEXT,
}


def make_server_tool(*, trusted: bool = False, **hints: bool) -> Tool[Any]:
    """Make a tool of a server with these hints."""
    server = Server.model_validate({"name": "s", "command": "s", "trusted": trusted})
    return build_server_tool(
        server,
        ToolDefinition("t", "T", "", {"type": "object"}, **hints),
        _LazyConnection(server, {}),
    )


def make_program_tool(does: Effect | None) -> Tool[Any]:
    """Make the tool of an action that a program describes."""
    action = asdict(HandedOverAction("deploy", "Deploy", "Deploy", does)) | {"client": ""}
    tool = load_action_tool(json.dumps(action))
    assert tool is not None
    return tool


@pytest.mark.parametrize(
    ("tool", "does", "stated"),
    [
        (make_program_tool(None), Effect.DESTRUCTIVE, EffectSource.BY_NOBODY),
        (make_program_tool(Effect.DESTRUCTIVE), Effect.DESTRUCTIVE, EffectSource.BY_AUTHOR),
        (make_program_tool(Effect.WRITE), Effect.WRITE, EffectSource.BY_AUTHOR),
        (make_server_tool(), Effect.DESTRUCTIVE, EffectSource.BY_NOBODY),
        (make_server_tool(trusted=True), Effect.DESTRUCTIVE, EffectSource.BY_NOBODY),
        (make_server_tool(destructive=True), Effect.DESTRUCTIVE, EffectSource.BY_AUTHOR),
        (make_server_tool(destructive=False), Effect.DESTRUCTIVE, EffectSource.BY_STRANGER),
        (make_server_tool(read_only=True), Effect.DESTRUCTIVE, EffectSource.BY_STRANGER),
        (make_server_tool(read_only=False), Effect.DESTRUCTIVE, EffectSource.BY_NOBODY),
        (make_server_tool(trusted=True, destructive=False), Effect.WRITE, EffectSource.BY_AUTHOR),
        (
            make_server_tool(trusted=True, destructive=True),
            Effect.DESTRUCTIVE,
            EffectSource.BY_AUTHOR,
        ),
        (make_server_tool(trusted=True, read_only=True), Effect.READ, EffectSource.BY_AUTHOR),
    ],
)
def test_a_tool_with_no_trusted_word_on_its_effect_is_destructive(
    tool: Tool[Any], does: Effect, stated: EffectSource
) -> None:
    """The tool also knows who said what it does, if anybody."""
    assert (tool.does, tool.effect_source) == (does, stated)
    assert tool.declared_effect == (does if stated is EffectSource.BY_AUTHOR else "")


@pytest.mark.parametrize("stated", EffectSource)
def test_card_and_review_say_who_says_it_cannot_be_undone(stated: EffectSource) -> None:
    """Each has exactly one of the sentences."""
    call = replace(CANCEL, effect_source=stated)
    places = [
        json.dumps(render_card(view(call), NOW).blocks),
        json.dumps(render_review_dialog(call)),
    ]
    for drawn in places:
        assert TEXTS[stated] in drawn
        assert not any(each in drawn for each in TEXTS.values() if each != TEXTS[stated])


def test_a_call_that_has_to_be_signed_needs_no_confirmation() -> None:
    """The page to sign on warns and asks; so the button that leads there does not."""
    for needs_signature in (False, True):
        call = replace(CANCEL, needs_signature=needs_signature)
        drawn = json.dumps(render_card(view(call), NOW).blocks)
        assert ("Approve this?" in drawn) is not needs_signature
        assert IRREVERSIBLE_TEXT in drawn


def test_confirming_a_plan_lists_unknown_effects_separately() -> None:
    """Calls that cannot be undone, and calls of which that is not known."""
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


def test_help_lists_tools_with_unknown_effects_separately() -> None:
    """Such a tool may just look something up."""
    said = help_text([("Cancel", "destructive"), ("Ship", "")])
    assert said.index("cannot be undone") < said.index("Cancel") < said.index("not known")
    assert said.index("not known") < said.index("Ship")
    assert "change something" not in said
