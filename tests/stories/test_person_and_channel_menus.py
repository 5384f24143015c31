"""People and channels are chosen in Slack's own menus: in Edit, forms and questions."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel, Field

from bot.tools import Effect, Tool, ToolContext, ToolError, tool
from bot.tools.described import build_argument_model
from bot.tools.names import ChannelId, PersonId
from storage.record import Revision
from tests.stories.asked_people import outcome, question
from tests.stories.forms import form, root
from tests.stories.harness import FINANCE, GENERAL, SUPPORT, Harness
from tests.stories.messages import leaves, words
from tests.stories.steps import arrived, ask, now_at, on_top, open_modal, typed

ANA, BEN, CLEO, DAN = "UANA00001", "UBEN00001", "UCLEO0001", "UDAN00001"
LONG = "Nobody can be moved there at this time of the year. " * 4


class Move(BaseModel):
    """One field of each kind that names a person or a channel."""

    who: PersonId = Field(title="Who")
    stand_in: PersonId | None = Field(None, title="Stand-in")
    watchers: list[PersonId] = Field(default_factory=list, title="Watchers", max_length=2)
    where: ChannelId = Field(title="Where")
    stops: list[ChannelId] = Field(default_factory=list, title="Stops")
    why: str = Field("", title="Reason")


def refuse(args: Any, context: ToolContext) -> str:
    """Refuse two reasons: one at the field `where`, one for the whole form."""
    if args.why == "field":
        raise ToolError(LONG, field="where")
    if args.why == "whole":
        raise ToolError(LONG)
    return ""


@tool(title="Move", effect="Move {who} to {where}", does=Effect.WRITE, preview=refuse)
def move(args: Move, context: ToolContext) -> str:
    """Move somebody."""
    return "moved"


def build_described_tool() -> Tool[Any]:
    """Build the same tool from a JSON Schema, as a server or a program would send it."""
    person, channel = ({"type": "string", "x-id-of": of} for of in ("person", "channel"))
    schema = {
        "type": "object",
        "properties": {
            "who": person,
            "stand_in": person,
            "watchers": {"type": "array", "items": person, "maxItems": 2},
            "where": channel,
            "stops": {"type": "array", "items": channel},
            "why": {"type": "string"},
        },
        "required": ["who", "where"],
    }
    model = build_argument_model(schema, "shift")

    def shift(args: Any, context: ToolContext) -> str:
        return "shifted"

    return Tool("shift", "Shift", "Shift {who} to {where}", Effect.WRITE, model, shift)


class Share(BaseModel):
    """Who gets what."""

    people: list[PersonId] = Field(title="People & bots")
    where: ChannelId = Field(title="Where")
    text: str = Field(title="Text")


@tool(title="Share", effect="Share {text}", does=Effect.WRITE, editable={"text"})
def share(args: Share, context: ToolContext) -> str:
    """Share a text."""
    return "shared"


@pytest.fixture
def tools_harness(own_harness: Callable[..., Harness]) -> Harness:
    """A bot with these tools."""
    return own_harness([move, build_described_tool(), share])


def get_input_elements(view: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the input elements of a dialog by field name."""
    return {
        each["block_id"].removeprefix("f:"): each["element"]
        for each in view["blocks"]
        if each["type"] == "input"
    }


def build_state(**fields: Any) -> dict[str, Any]:
    """Build what Slack sends for these choices."""
    keys = {
        "who": "selected_user",
        "stand_in": "selected_user",
        "watchers": "selected_users",
        "where": "selected_conversation",
        "stops": "selected_conversations",
    }
    return {f"f:{name}": {"v": {keys[name]: value}} for name, value in fields.items()}


def test_edit_shows_fixed_people_and_channels_by_name(tools_harness: Harness) -> None:
    """They are mentions, which Slack writes as names, and not ids."""
    given = {"people": ["@dan", "@ana"], "where": "#general", "text": "a plan"}
    card = tools_harness.card(SUPPORT, ask(tools_harness, ("share", given)))
    view = open_modal(tools_harness, "ana", SUPPORT, card, "edit")
    texts = [each["text"] for each in view["blocks"] if each["type"] == "section"]
    assert [each["text"] for each in texts if each["type"] == "mrkdwn"] == [
        f"People &amp; bots (fixed)\n<@{DAN}>, <@{ANA}>",
        f"Where (fixed)\n<#{GENERAL}>",
    ]


@pytest.mark.parametrize("name", ["move", "shift"])
def test_edit_has_a_menu_for_each_person_and_channel_field(
    tools_harness: Harness, name: str
) -> None:
    """Proposed names are selected at first; what is selected runs and is a mention on the card."""
    given = {"who": "@dan", "stand_in": "@cleo", "watchers": ["@ana"], "where": "#general"}
    thread = ask(tools_harness, (name, given))
    card = tools_harness.card(SUPPORT, thread)
    drawn = leaves(card["blocks"])
    assert {"type": "channel", "channel_id": GENERAL} in drawn
    assert f"({GENERAL})" not in words(card)
    assert f"({DAN})" not in words(card)
    view = open_modal(tools_harness, "ana", SUPPORT, card, "edit")
    found = get_input_elements(view)
    assert {at: (each["type"]) for at, each in found.items()} == {
        "who": "users_select",
        "stand_in": "users_select",
        "watchers": "multi_users_select",
        "where": "conversations_select",
        "stops": "multi_conversations_select",
        "why": "plain_text_input",
    }
    assert found["who"]["initial_user"] == DAN
    assert (found["watchers"]["initial_users"], found["watchers"]["max_selected_items"]) == (
        [ANA],
        2,
    )
    assert found["where"]["initial_conversation"] == GENERAL
    assert not any("initial" in key for key in found["stops"])
    assert not any("@handle" in str(each.get("hint")) for each in view["blocks"])
    entered = build_state(who=BEN, stand_in=None, watchers=[CLEO, ANA], stops=["C0RANDOM", GENERAL])
    assert tools_harness.person("ana").submit(entered)["outcome"] == "closed"
    tools_harness.said(SUPPORT, thread, "✏️")
    tools_harness.settle()
    now = now_at(tools_harness, SUPPORT, card["ts"])
    assert {"type": "user", "user_id": BEN} in leaves(now["blocks"])
    assert f"({BEN})" not in words(now)
    [call] = tools_harness.calls_in(thread)
    rows = tools_harness.all(Revision, Revision.call_id == call.id)
    runs = json.loads(max(rows, key=lambda row: row.number).arguments)
    assert runs.get("stand_in") is None
    assert (runs["who"], runs["where"]) == (BEN, GENERAL)
    assert (runs["watchers"], runs["stops"]) == ([CLEO, ANA], ["C0RANDOM", GENERAL])


def test_the_field_says_why_a_choice_is_not_allowed(tools_harness: Harness) -> None:
    """A private channel that the requester cannot see, and a person who was deactivated."""
    thread = ask(tools_harness, ("move", {"who": "@dan", "where": "#general"}))
    open_modal(tools_harness, "ana", SUPPORT, tools_harness.card(SUPPORT, thread), "edit")
    ana = tools_harness.person("ana")
    refused = ana.submit(build_state(where=FINANCE))["errors"]
    assert list(refused) == ["f:where"]
    assert refused["f:where"].startswith("There is no channel")
    tools_harness.slack.deactivate("dan")  # selected in the dialog already
    try:
        arrived(tools_harness)
        refused = ana.submit(build_state(where="C0RANDOM"))["errors"]
    finally:
        tools_harness.slack.people["dan"].deleted = False
    assert refused == {"f:who": "Dan Weber is deactivated, so please choose somebody else."}
    ana.close_view()


def test_a_tools_error_is_shown_at_its_field_or_on_top(tools_harness: Harness) -> None:
    """Texts at a field end with “…” after 150 characters; on top the whole text is shown."""
    thread = ask(tools_harness, ("move", {"who": "@dan", "where": "#general"}))
    open_modal(tools_harness, "ana", SUPPORT, tools_harness.card(SUPPORT, thread), "edit")
    form(tools_harness, "move")
    for who, more in (("ana", {}), ("ben", build_state(who=DAN, where=GENERAL))):
        person = tools_harness.person(who)
        [(at, said)] = person.submit(more | typed(why="field"))["errors"].items()
        assert at == "f:where"
        assert said.endswith("year. …")
        assert len(said) <= 150
        assert person.submit(more | typed(why="whole"))["outcome"] == "updated"
        assert on_top(tools_harness, who) == f"⚠️ {LONG.strip()}"
        assert person.submit(more | typed(why="whole"))["outcome"] == "updated"
        tops = [each for each in person.view()["blocks"] if each["block_id"] == "problem"]
        assert len(tops) == 1
        assert person.submit(typed(why="fine"))["outcome"] == "closed"  # the rest is kept


def test_a_form_has_menus_for_people_and_channels(tools_harness: Harness) -> None:
    """The card names what the person chose, without ids."""
    found = get_input_elements(form(tools_harness, "move"))
    assert [found[at]["type"] for at in ("who", "stops")] == [
        "users_select",
        "multi_conversations_select",
    ]
    assert (
        tools_harness.person("ben").submit(build_state(who=DAN, where=GENERAL))["outcome"]
        == "closed"
    )
    thread = root(tools_harness, "ove Dan Weber to #general")
    card = tools_harness.card(SUPPORT, thread)
    assert "Stops: none" in words(card)
    assert f"({DAN})" not in words(card)


def test_a_question_has_menus_for_people_and_channels(tools_harness: Harness) -> None:
    """Suggested names are selected at first; the answer is a mention, also for the model."""
    fields = [
        {"label": "Driver", "kind": "person", "suggestion": "@dan"},
        {"label": "Depot", "kind": "channel", "suggestion": "#general"},
        {"label": "Helper", "kind": "person", "optional": True},
    ]
    thread = ask(
        tools_harness, question(question="Who drives?", to="@ana", kind="form", fields=fields)
    )
    asked = tools_harness.card(SUPPORT, thread, "ana", "answer")
    found = get_input_elements(open_modal(tools_harness, "ana", SUPPORT, asked, "answer"))
    assert [each["type"] for each in found.values()] == [
        "users_select",
        "conversations_select",
        "users_select",
    ]
    assert (found["a0"]["initial_user"], found["a1"]["initial_conversation"]) == (DAN, GENERAL)
    ana = tools_harness.person("ana")
    theirs = {"f:a1": {"v": {"selected_conversation": FINANCE}}}
    # the requester cannot see this channel
    assert ana.submit(theirs)["errors"]["f:a1"].startswith("There is no channel")
    answer = {
        "f:a0": {"v": {"selected_user": CLEO}},
        "f:a1": {"v": {"selected_conversation": GENERAL}},
    }
    assert ana.submit(answer)["outcome"] == "closed"
    said = outcome(tools_harness, "ANSWERED")
    assert f'Driver: "<@{CLEO}>" (corrected; you had suggested "<@{DAN}>")' in said
    assert f'Depot: "<#{GENERAL}>"' in said
    tools_harness.said(SUPPORT, thread, "That is all.")
    drawn = leaves(now_at(tools_harness, SUPPORT, asked["ts"])["blocks"])
    assert {"type": "channel", "channel_id": GENERAL} in drawn
    assert [each["user_id"] for each in drawn if each["type"] == "user"][1:] == [CLEO, DAN]


def test_a_question_can_ask_for_one_person_or_channel(tools_harness: Harness) -> None:
    """The model is told of a suggested name that does not exist, and can ask again."""
    wrong = question(question="Who has the key?", kind="person", suggestion="@nobody-here")
    thread = ask(tools_harness, wrong, answer="I ask again.")
    assert "There is nobody called @nobody-here" in outcome(tools_harness, "nobody-here")
    tools_harness.said(SUPPORT, thread, "I ask again.")
    thread = ask(tools_harness, question(question="Which room is free?", kind="channel"))
    asked = tools_harness.card(SUPPORT, thread, "ben", "answer")
    [element] = get_input_elements(
        open_modal(tools_harness, "ben", SUPPORT, asked, "answer")
    ).values()
    assert element["type"] == "conversations_select"
    ben = tools_harness.person("ben")
    tools_harness.slack.faults.fail("conversations.info", "fatal_error", times=20)
    assert (
        ben.submit({"f:a0": {"v": {"selected_conversation": "C0RANDOM"}}})["outcome"] == "updated"
    )
    tools_harness.slack.faults.clear()
    assert "could not check with Slack" in on_top(tools_harness, "ben")
    assert ben.submit({"f:a0": {"v": {"selected_conversation": "C0RANDOM"}}})["outcome"] == "closed"
    assert '"<#C0RANDOM>"' in outcome(tools_harness, "ANSWERED")
