"""Shortcuts: a request without the agent from anywhere in Slack, or about a message."""

from __future__ import annotations

from typing import Any

from bot.demo.model_server import Turn
from storage.models import Run
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import words
from tests.stories.steps import cards_of, typed, vote


def choose_tool(harness: Harness, tool: str, who: str = "ben") -> dict[str, Any]:
    """Choose a tool in the picker that is open; returns its form."""
    person = harness.person(who)
    harness.slack.wait(person.view)
    person.click_view("pick", selected=f"tool:{tool}")
    harness.slack.wait(lambda: person.view()["callback_id"] == "new_request")
    view: dict[str, Any] = person.view()
    return view


def wait_for_first_message(harness: Harness, channel: str, text: str) -> dict[str, Any]:
    """The first message of Ben's request with this text, waited for."""

    def look() -> dict[str, Any] | None:
        seen = harness.person("ben").messages(channel)
        return next((m for m in seen if "asks: " in words(m) and text in words(m)), None)

    found: dict[str, Any] = harness.slack.wait(look)
    return found


def test_the_global_shortcut_begins_a_request_in_a_dm(harness: Harness, fakes: FakeTools) -> None:
    """The shortcut knows no channel."""
    ben = harness.person("ben")
    assert ben.shortcut("ask_with_a_form").wait() == "acked"
    choose_tool(harness, "note")
    assert ben.submit(typed(text="from anywhere"))["outcome"] == "closed"
    root = wait_for_first_message(harness, ben.dm_channel, "from anywhere")
    harness.settle()
    assert harness.run_in(root["ts"]).channel == ben.dm_channel


def test_a_shortcut_on_a_message_fills_in_its_text(harness: Harness, fakes: FakeTools) -> None:
    """The text is the field's first value, and the request links to the message."""
    ben, said = harness.person("ben"), "the kettle in the kitchen is broken"
    ts = harness.person("dan").say(SUPPORT, said)
    ben.message_shortcut(SUPPORT, ts, "ask_about_a_message")
    view = choose_tool(harness, "note")
    [field] = [b for b in view["blocks"] if b.get("block_id") == "f:text"]
    assert field["element"]["initial_value"] == said
    assert "About this message" in words({"blocks": view["blocks"]})
    assert ben.submit()["outcome"] == "closed"
    root = wait_for_first_message(harness, SUPPORT, said)
    assert f"p{ts.replace('.', '')}" in words(root)
    card = harness.card(SUPPORT, root["ts"])
    assert "About this message" in words(card)
    vote(harness, "ana", card)
    harness.said(SUPPORT, root["ts"], f"noted {said}")
    assert fakes.did("note", said) == 1


def test_a_message_is_filled_in_as_people_read_it(harness: Harness) -> None:
    """Slack's own notation for links and channels becomes what people read."""
    ben = harness.person("ben")
    ts = ben.say(SUPPORT, "see https://shop.example/a?b=1&c=2 in #general & tell <all>")
    ben.message_shortcut(SUPPORT, ts, "ask_about_a_message")
    [field] = [b for b in choose_tool(harness, "note")["blocks"] if b.get("block_id") == "f:text"]
    assert field["element"]["initial_value"] == (
        "see https://shop.example/a?b=1&c=2 in #general & tell <all>"
    )


def test_a_message_in_a_forms_thread_starts_the_agent(harness: Harness, fakes: FakeTools) -> None:
    """The agent is told of the request, which goes on by itself."""
    ben = harness.person("ben")
    ben.shortcut("ask_with_a_form")
    choose_tool(harness, "note")
    assert ben.submit(typed(text="something to talk about"))["outcome"] == "closed"
    root = wait_for_first_message(harness, ben.dm_channel, "something to talk about")
    harness.settle()
    thread, before = root["ts"], len(harness.planner.requests)
    harness.planner.script(Turn(text="It waits for Ana."))
    ben.say(ben.dm_channel, "how is it going?", thread)
    harness.said(ben.dm_channel, thread, "It waits for Ana.")
    [told] = harness.planner.requests[before:]
    assert "asked for this with a form, without you" in words({"text": str(told["input"])})
    form_run = min(harness.all(Run, Run.thread_ts == thread), key=lambda run: run.created_at)
    assert (form_run.source, form_run.status) == ("form", "waiting")
    [call] = harness.calls_in(thread)
    ana = harness.person("ana")
    card = cards_of(harness, "ana", "something to talk about")[0]
    ana.click(ana.dm_channel, card["ts"], "approve")
    harness.said(ben.dm_channel, thread, "noted something to talk about")
    harness.planner.script(Turn(text="It is done."))
    ben.say(ben.dm_channel, "and now?", thread)
    harness.said(ben.dm_channel, thread, "It is done.")
    kinds = [each.get("type") for each in harness.planner.requests[-1]["input"]]
    assert kinds.count("function_call") == kinds.count("function_call_output") == 1
    assert call.provider_id
