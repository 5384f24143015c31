"""People and channels are chosen in Slack's own menus: in Edit, in forms, of every kind of tool."""

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
    """One field of each kind that names somebody or a place."""

    who: PersonId = Field(title="Who")
    stand_in: PersonId | None = Field(None, title="Stand-in")
    watchers: list[PersonId] = Field(default_factory=list, title="Watchers", max_length=2)
    where: ChannelId = Field(title="Where")
    stops: list[ChannelId] = Field(default_factory=list, title="Stops")
    why: str = Field("", title="Reason")


def refuse(args: Any, context: ToolContext) -> str:
    """Refuse some reasons, and say of which field."""
    if args.why == "field":
        raise ToolError(LONG, field="where")
    if args.why == "whole":
        raise ToolError(LONG)
    return ""


@tool(title="Move", effect="Move {who} to {where}", does=Effect.WRITE, preview=refuse)
def move(args: Move, context: ToolContext) -> str:
    """Move somebody."""
    return "moved"


def described() -> Tool[Any]:
    """The same of a JSON Schema, as a server or a program would send it."""
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


@pytest.fixture
def world(own_harness: Callable[..., Harness]) -> Harness:
    """A bot with both tools."""
    return own_harness([move, described()])


def inputs(view: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The elements of a dialog by their fields."""
    return {
        each["block_id"].removeprefix("f:"): each["element"]
        for each in view["blocks"]
        if each["type"] == "input"
    }


def chosen(**fields: Any) -> dict[str, Any]:
    """What Slack sends for these choices."""
    keys = {
        "who": "selected_user",
        "stand_in": "selected_user",
        "watchers": "selected_users",
        "where": "selected_conversation",
        "stops": "selected_conversations",
    }
    return {f"f:{name}": {"v": {keys[name]: value}} for name, value in fields.items()}


@pytest.mark.parametrize("name", ["move", "shift"])
def test_edit_has_a_menu_for_each(world: Harness, name: str) -> None:
    """Names become what is chosen at first; what is chosen runs, and is a mention on the card."""
    given = {"who": "@dan", "stand_in": "@cleo", "watchers": ["@ana"], "where": "#general"}
    thread = ask(world, (name, given))
    card = world.card(SUPPORT, thread)
    drawn = leaves(card["blocks"])
    assert {"type": "channel", "channel_id": GENERAL} in drawn
    assert f"({GENERAL})" not in words(card)
    assert f"({DAN})" not in words(card)
    view = open_modal(world, "ana", SUPPORT, card, "edit")
    found = inputs(view)
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
    entered = chosen(who=BEN, stand_in=None, watchers=[CLEO, ANA], stops=["C0RANDOM", GENERAL])
    assert world.person("ana").submit(entered)["outcome"] == "closed"
    world.said(SUPPORT, thread, "✏️")
    world.settle()
    now = now_at(world, SUPPORT, card["ts"])
    assert {"type": "user", "user_id": BEN} in leaves(now["blocks"])
    assert f"({BEN})" not in words(now)
    [call] = world.calls_in(thread)
    rows = world.all(Revision, Revision.call_id == call.id)
    runs = json.loads(max(rows, key=lambda row: row.number).arguments)
    assert runs.get("stand_in") is None
    assert (runs["who"], runs["where"]) == (BEN, GENERAL)
    assert (runs["watchers"], runs["stops"]) == ([CLEO, ANA], ["C0RANDOM", GENERAL])


def test_who_cannot_be_chosen_is_said_at_the_field(world: Harness) -> None:
    """Somebody deactivated, a private channel of others, too many, none where one is needed."""
    thread = ask(world, ("move", {"who": "@dan", "where": "#general"}))
    open_modal(world, "ana", SUPPORT, world.card(SUPPORT, thread), "edit")
    ana = world.person("ana")
    refused = ana.submit(chosen(where=FINANCE))["errors"]
    assert list(refused) == ["f:where"]
    assert refused["f:where"].startswith("There is no channel")
    world.slack.deactivate("dan")  # who is chosen there already
    try:
        arrived(world)
        refused = ana.submit(chosen(where="C0RANDOM"))["errors"]
    finally:
        world.slack.people["dan"].deleted = False
    assert refused == {"f:who": "Dan Weber is deactivated, so please choose somebody else."}
    ana.close_view()


def test_an_error_stands_where_it_belongs(world: Harness) -> None:
    """A tool's refusal stands at the field that it names, else on top; no word is cut."""
    thread = ask(world, ("move", {"who": "@dan", "where": "#general"}))
    open_modal(world, "ana", SUPPORT, world.card(SUPPORT, thread), "edit")
    form(world, "move")
    for who, more in (("ana", {}), ("ben", chosen(who=DAN, where=GENERAL))):
        person = world.person(who)
        [(at, said)] = person.submit(more | typed(why="field"))["errors"].items()
        assert at == "f:where"
        assert said.endswith("year. …")
        assert len(said) <= 150
        assert person.submit(more | typed(why="whole"))["outcome"] == "updated"
        assert on_top(world, who) == f"⚠️ {LONG.strip()}"
        assert person.submit(more | typed(why="whole"))["outcome"] == "updated"
        tops = [each for each in person.view()["blocks"] if each["block_id"] == "problem"]
        assert len(tops) == 1
        assert person.submit(typed(why="fine"))["outcome"] == "closed"  # what was entered stayed


def test_a_form_has_the_same_menus(world: Harness) -> None:
    """What a person chooses in a form is what is asked for, called by its name."""
    found = inputs(form(world, "move"))
    assert [found[at]["type"] for at in ("who", "stops")] == [
        "users_select",
        "multi_conversations_select",
    ]
    assert world.person("ben").submit(chosen(who=DAN, where=GENERAL))["outcome"] == "closed"
    thread = root(world, "ove Dan Weber to #general")
    card = world.card(SUPPORT, thread)
    assert "Stops: none" in words(card)
    assert f"({DAN})" not in words(card)


def test_a_question_has_the_same_menus(world: Harness) -> None:
    """What is suggested by name is chosen at first; the answer is a mention, to the agent too."""
    fields = [
        {"label": "Driver", "kind": "person", "suggestion": "@dan"},
        {"label": "Depot", "kind": "channel", "suggestion": "#general"},
        {"label": "Helper", "kind": "person", "optional": True},
    ]
    thread = ask(world, question(question="Who drives?", to="@ana", kind="form", fields=fields))
    asked = world.card(SUPPORT, thread, "ana", "answer")
    found = inputs(open_modal(world, "ana", SUPPORT, asked, "answer"))
    assert [each["type"] for each in found.values()] == [
        "users_select",
        "conversations_select",
        "users_select",
    ]
    assert (found["a0"]["initial_user"], found["a1"]["initial_conversation"]) == (DAN, GENERAL)
    ana = world.person("ana")
    theirs = {"f:a1": {"v": {"selected_conversation": FINANCE}}}
    # who asked cannot see it
    assert ana.submit(theirs)["errors"]["f:a1"].startswith("There is no channel")
    chosen = {
        "f:a0": {"v": {"selected_user": CLEO}},
        "f:a1": {"v": {"selected_conversation": GENERAL}},
    }
    assert ana.submit(chosen)["outcome"] == "closed"
    said = outcome(world, "ANSWERED")
    assert f'Driver: "<@{CLEO}>" (corrected; you had suggested "<@{DAN}>")' in said
    assert f'Depot: "<#{GENERAL}>"' in said
    world.said(SUPPORT, thread, "That is all.")
    drawn = leaves(now_at(world, SUPPORT, asked["ts"])["blocks"])
    assert {"type": "channel", "channel_id": GENERAL} in drawn
    assert [each["user_id"] for each in drawn if each["type"] == "user"][1:] == [CLEO, DAN]


def test_one_name_is_asked_for(world: Harness) -> None:
    """A question of one field, whose suggestion nobody has: the model hears it, and asks again."""
    wrong = question(question="Who has the key?", kind="person", suggestion="@nobody-here")
    thread = ask(world, wrong, answer="I ask again.")
    assert "There is nobody called @nobody-here" in outcome(world, "nobody-here")
    world.said(SUPPORT, thread, "I ask again.")
    thread = ask(world, question(question="Which room is free?", kind="channel"))
    asked = world.card(SUPPORT, thread, "ben", "answer")
    [element] = inputs(open_modal(world, "ben", SUPPORT, asked, "answer")).values()
    assert element["type"] == "conversations_select"
    ben = world.person("ben")
    world.slack.faults.fail("conversations.info", "fatal_error", times=20)
    assert (
        ben.submit({"f:a0": {"v": {"selected_conversation": "C0RANDOM"}}})["outcome"] == "updated"
    )
    world.slack.faults.clear()
    assert "could not check with Slack" in on_top(world, "ben")
    assert ben.submit({"f:a0": {"v": {"selected_conversation": "C0RANDOM"}}})["outcome"] == "closed"
    assert '"<#C0RANDOM>"' in outcome(world, "ANSWERED")
