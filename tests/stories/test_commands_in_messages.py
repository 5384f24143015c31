"""Questions about approvals in a message to the bot are answered privately, the rest are
requests.
"""

from __future__ import annotations

import json

import pytest

from bot.app import build_command_handler
from bot.demo.model_server import Turn
from tests.stories.harness import GENERAL, SUPPORT, Harness
from tests.stories.messages import words
from tests.stories.steps import arrived, ask, chat
from tests.stories.test_commands_lists import find_newest_answer

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
def test_a_question_in_a_mention_is_answered_privately(
    harness: Harness, text: str, part: str
) -> None:
    """The model is not asked."""
    turns = len(harness.planner.requests)
    harness.person("dan").say(GENERAL, f"@bot {text}")
    harness.slack.wait(lambda: part in words(find_newest_answer(harness, "dan", GENERAL)))
    assert part not in json.dumps(harness.person("ana").everything(GENERAL))
    assert len(harness.planner.requests) == turns


def test_a_question_in_a_direct_message_is_answered_there(harness: Harness) -> None:
    """The answer has the same buttons as elsewhere."""
    ask(harness, ("note", {"text": "wild garlic"}))
    arrived(harness)
    ana = harness.person("ana")
    root = ana.say(ana.dm_channel, "list")
    answer = harness.said(ana.dm_channel, root, "wild garlic", "ana")
    ana.click(ana.dm_channel, answer["ts"], "look_requests", seen=answer)
    harness.said(ana.dm_channel, root, "You have not asked for anything yet.", "ana")


def test_the_same_word_in_a_thread_goes_to_the_agent(harness: Harness) -> None:
    """Without a mention it is a reply to the agent."""
    thread = chat(harness, "a list, or a table?")
    harness.said(SUPPORT, thread, "a list, or a table?")
    harness.planner.script(Turn(text="here is the list"))
    harness.person("ben").say(SUPPORT, "list", thread_ts=thread)
    harness.said(SUPPORT, thread, "here is the list")


def test_show_me_something_goes_to_the_agent(harness: Harness) -> None:
    """The word "show" is a question only if it is followed by a request's id or link."""
    harness.planner.script(Turn(text="the beds are dry"))
    thread = harness.person("ben").say(SUPPORT, "@bot show me the beds")
    harness.said(SUPPORT, thread, "the beds are dry")


# requests, separated by | : only their beginnings are those of questions
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
def test_text_that_begins_like_a_question_goes_to_the_agent(harness: Harness, line: str) -> None:
    """Only what is wholly a question about approvals is answered."""
    core = harness.app.core
    commands = build_command_handler(core, harness.app.slack_clients[0], core.directory)
    try:
        for text in line.split("|"):
            assert not commands.answer_if_text_is_subcommand("UBEN00001", GENERAL, "1.0", text), (
                text
            )
    finally:
        commands.close()


def test_show_takes_an_id_a_fingerprint_or_a_link(harness: Harness) -> None:
    """The model is not asked."""
    thread = ask(harness, ("note", {"text": "dry stone"}))
    harness.card(SUPPORT, thread)
    [call] = harness.calls_in(thread)
    turns = len(harness.planner.requests)
    link = f"https://sandbox.slack.com/archives/{SUPPORT}/p{thread.replace('.', '')}"
    for reference in (call.id, call.run_id, f"#{call.digest[:8]}", f"`{call.id}`", link):
        before = find_newest_answer(harness, "ben", GENERAL).get("ts")
        harness.person("ben").say(GENERAL, f"@bot show {reference}")
        harness.slack.wait(
            lambda before=before: (
                find_newest_answer(harness, "ben", GENERAL).get("ts") != before
                and "dry stone" in words(find_newest_answer(harness, "ben", GENERAL))
            )
        )
    assert len(harness.planner.requests) == turns
