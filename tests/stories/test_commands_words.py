"""Questions about approvals in a message to the bot: answered privately; all else is a request."""

from __future__ import annotations

import json

import pytest

from bot.app import build_command_handler
from bot.demo.model_server import Turn
from tests.stories.harness import GENERAL, SUPPORT, Harness
from tests.stories.messages import words
from tests.stories.steps import arrived, ask, chat
from tests.stories.test_commands_lists import newest

POLICY = """
[defaults]
approvers = ["@shop-leads"]
"""


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("list", "Nothing is waiting for you"),
        ("history 3 days", "last 3 days"),
        ("Requests", "You have not asked"),
    ],
)
def test_asked_by_mention(harness: Harness, text: str, part: str) -> None:
    """The same words in a mention are answered privately, and no model hears them."""
    turns = len(harness.planner.requests)
    harness.person("dan").say(GENERAL, f"@bot {text}")
    harness.slack.wait(lambda: part in words(newest(harness, "dan", GENERAL)))
    assert part not in json.dumps(harness.person("ana").everything(GENERAL))
    assert len(harness.planner.requests) == turns


def test_asked_in_a_direct_message(harness: Harness) -> None:
    """In a direct message the answer stands there, buttons and all."""
    ask(harness, ("note", {"text": "wild garlic"}))
    arrived(harness)
    ana = harness.person("ana")
    root = ana.say(ana.dm_channel, "list")
    answer = harness.said(ana.dm_channel, root, "wild garlic", "ana")
    ana.click(ana.dm_channel, answer["ts"], "look_requests", seen=answer)
    harness.said(ana.dm_channel, root, "You have not asked for anything yet.", "ana")


def test_words_in_a_request_are_the_agents(harness: Harness) -> None:
    """In the thread of a request, the same word without a mention is the agent's, as a reply."""
    thread = chat(harness, "a list, or a table?")
    harness.said(SUPPORT, thread, "a list, or a table?")
    harness.planner.script(Turn(text="here is the list"))
    harness.person("ben").say(SUPPORT, "list", thread_ts=thread)
    harness.said(SUPPORT, thread, "here is the list")


def test_a_reading_request_is_the_agents(harness: Harness) -> None:
    """What only begins like a question is for the agent: "show me …" names no request."""
    harness.planner.script(Turn(text="the beds are dry"))
    thread = harness.person("ben").say(SUPPORT, "@bot show me the beds")
    harness.said(SUPPORT, thread, "the beds are dry")


# a request each: only the beginning is that of a question
REQUESTS = """
list the orders of last week|list orders|list all|please list|lists|listing|a list|list!
list, please
requests from Cleo|request|request a refund|request 1042|requested|requests, please|open requests
show|show me|show 1042|show #1042|show order 1042|show #10471047|show refund-policy-template
show internationalization_a|show #deadbeef|show #cafe1234|show 1234567890123456789012|show them all
history of order 1042|history 1042|history 91|history 0|history -1
history last week|history 7 orders
history 7 days please|historic|the history|history ٣|report on sales|report 1042|report 365|report 0
report the bug to the team|report this|report a broken parcel|reports|the report
explain|explain this|explain note taking|explain note to Cleo|explain put it back|explain 1042
explain peek and note|explain why|explain the refund|explain note text=a and then refund it
grants for Cleo|grant|grants!|the grants|revoke|revoke it|revoke 1042|revoke internationalization_a
revoke access-of-the-contract|delegate this to Cleo|delegate to Cleo|delegate it|delegates
mode dark|mode ask me first|mode strict please|modes|observe|strict|ask|mode a b
help me with order 1042|help Cleo|approve|approve it|yes|approve all|deny|reject it
cancel order 1042
what waits for me?|what is waiting?|who approves this?|who can approve a refund?|is it approved yet?
approve order 1042|was my request approved?|when will my request be approved?|may I see the list?
show me what waits|list what waits|which requests are open?|my requests|our history|show history
"unclosed|list "all|show `|'|"|/|\\|list;|list\\ all|list && show|list​|​list it|ｌｉｓｔ
"""


@pytest.mark.parametrize("line", REQUESTS.strip().splitlines())
def test_what_begins_like_a_question_is_the_agents(harness: Harness, line: str) -> None:
    """Only what is wholly a question about approvals is answered; the rest is a request."""
    core = harness.app.core
    commands = build_command_handler(core, harness.app.slack_clients[0], core.directory)
    try:
        for text in line.split("|"):
            assert not commands.answer_if_text_is_subcommand("UBEN00001", GENERAL, "1.0", text), (
                text
            )
    finally:
        commands.close()


def test_a_request_is_shown_by_what_the_record_knows(harness: Harness) -> None:
    """An id, a fingerprint and an address of the record in a mention are answered, not heard."""
    thread = ask(harness, ("note", {"text": "dry stone"}))
    harness.card(SUPPORT, thread)
    [call] = harness.calls_in(thread)
    turns = len(harness.planner.requests)
    link = f"https://sandbox.slack.com/archives/{SUPPORT}/p{thread.replace('.', '')}"
    for reference in (call.id, call.run_id, f"#{call.digest[:8]}", f"`{call.id}`", link):
        before = newest(harness, "ben", GENERAL).get("ts")
        harness.person("ben").say(GENERAL, f"@bot show {reference}")
        harness.slack.wait(
            lambda before=before: (
                newest(harness, "ben", GENERAL).get("ts") != before
                and "dry stone" in words(newest(harness, "ben", GENERAL))
            )
        )
    assert len(harness.planner.requests) == turns
