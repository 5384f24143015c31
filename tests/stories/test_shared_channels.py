"""Requests in a channel shared with another company go on in direct messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bot.demo.model_server import Turn
from storage.states import CallStatus, RunStatus
from tests.stories.fakes import FakeTools
from tests.stories.harness import GENERAL, PARTNERS, Harness
from tests.stories.messages import action_ids, having, words
from tests.stories.steps import all_sent, arrived, ask, cards_of, now_at, told
from tests.stories.sub_agents import AGENTS, errand

C = CallStatus
POLICY = """
[defaults]
approvers = ["UANA00001"]
"""


def test_a_request_in_a_shared_channel_goes_on_in_a_dm(harness: Harness, fakes: FakeTools) -> None:
    """The shared channel is told so, but sees no request, decision or answer."""
    ben, ana = harness.person("ben"), harness.person("ana")
    harness.planner.script(
        Turn(calls=[("note", {"text": "margin of 40 %"})]), Turn(text="The margin is noted.")
    )
    asked = ben.say(PARTNERS, "@bot note our margin")
    harness.said(PARTNERS, asked, "I am continuing with Ben Okafor in a direct message")
    dm = ben.dm_channel
    root = harness.slack.wait(
        lambda: next((m for m in ben.messages(dm) if "You asked in <#C0PARTNER>" in words(m)), None)
    )
    card = harness.card(ana.dm_channel, None)
    assert "see it" not in words(card)  # no link to Ben's direct message, which Ana cannot open
    ana.click(ana.dm_channel, card["ts"], "approve")
    harness.said(dm, root["ts"], "The margin is noted.")
    harness.settle()
    assert fakes.did("note", "margin of 40 %") == 1
    worn = harness.slack.wait(
        lambda: next(m for m in ben.messages(dm) if m["ts"] == root["ts"]).get("reactions")
    )
    assert [each["name"] for each in worn] == ["white_check_mark"]
    eve = harness.person("eve")
    seen = " ".join(words(m) for m in eve.everything(PARTNERS) if m["ts"] > asked)
    assert "margin" not in seen
    assert "approve" not in seen.lower()
    turns = len(harness.planner.requests)
    ben.say(PARTNERS, "sorry, Eve, that was for us", asked)  # without a mention it is for people
    arrived(harness)
    assert len(harness.planner.requests) == turns


def ask_in_shared_channel(
    harness: Harness, text: str
) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Ben asks in the shared channel; return his message, the private root and Ana's card."""
    harness.planner.clear_script()
    harness.planner.script(Turn(calls=[("note", {"text": text})]), Turn(text=f"Done: {text}."))
    ben = harness.person("ben")
    asked: str = ben.say(PARTNERS, f"@bot note {text}")
    return asked, wait_for_private_root(harness, text), wait_for_private_card(harness, text)


def wait_for_private_root(harness: Harness, text: str) -> dict[str, Any]:
    """Wait for the message that begins Ben's private thread about this."""
    ben = harness.person("ben")
    found: dict[str, Any] = harness.slack.wait(
        lambda: next(
            (
                m
                for m in ben.messages(ben.dm_channel)
                if "You asked in <#C0PARTNER>" in words(m) and text in words(m)
            ),
            None,
        )
    )
    return found


def wait_for_private_card(harness: Harness, text: str) -> dict[str, Any]:
    """Wait for Ana's card about this."""
    found: list[dict[str, Any]] = harness.slack.wait(lambda: cards_of(harness, "ana", text))
    return found[-1]


def test_deleting_the_message_withdraws_the_request(harness: Harness, fakes: FakeTools) -> None:
    """Its card closes, nothing runs, and the private thread says why."""
    asked, root, card = ask_in_shared_channel(harness, "a slip of the tongue")
    harness.settle()
    ben, ana = harness.person("ben"), harness.person("ana")
    ben.delete(PARTNERS, asked)
    harness.said(ben.dm_channel, root["ts"], "The message was deleted, so the request is withdrawn")
    arrived(harness)
    assert harness.run_in(root["ts"]).status is RunStatus.CANCELLED
    assert "approve" not in action_ids(now_at(harness, ana.dm_channel, card["ts"]))
    assert not fakes.ran


def test_an_edit_of_the_message_is_reported_in_private(harness: Harness) -> None:
    """The card and the private thread give the new text; the shared channel sees nothing."""
    asked, root, card = ask_in_shared_channel(harness, "forty crates")
    harness.settle()
    ben, ana = harness.person("ben"), harness.person("ana")
    ben.edit(PARTNERS, asked, "@bot note fifty crates")
    harness.said(ben.dm_channel, root["ts"], "It now reads: “note fifty crates”")
    harness.said(ana.dm_channel, card["ts"], "It now reads: “note fifty crates”", "ana")
    all_sent(harness)
    assert "fifty crates" in words(now_at(harness, ana.dm_channel, card["ts"]))
    assert len(harness.calls_in(root["ts"])) == 1
    bot_replies = [m for m in harness.person("eve").messages(PARTNERS, asked) if m["ts"] != asked]
    assert not any("crates" in words(m) for m in bot_replies)


def test_the_requester_can_cancel_in_the_shared_thread(harness: Harness, fakes: FakeTools) -> None:
    """With or without a mention; others cannot."""
    for cancel in ("cancel", "@bot never mind"):
        text = f"taken back by {cancel[-6:]}"
        asked, root, card = ask_in_shared_channel(harness, text)
        harness.settle()
        harness.person("ana").say(PARTNERS, "@bot cancel", asked)
        arrived(harness)
        assert harness.run_in(root["ts"]).status is RunStatus.WAITING
        harness.person("ben").say(PARTNERS, cancel, asked)
        harness.said(harness.person("ben").dm_channel, root["ts"], "cancelled the request")
        arrived(harness)
        assert harness.run_in(root["ts"]).status is RunStatus.CANCELLED
        ana = harness.person("ana").dm_channel
        assert "approve" not in action_ids(now_at(harness, ana, card["ts"]))
    assert not fakes.ran


def test_messages_in_the_shared_thread_reach_the_private_request(harness: Harness) -> None:
    """The agent is given the thread's earlier messages and the requester's later ones.

    It answers all of them in one private thread.
    """
    ben, dm = harness.person("ben"), harness.person("ben").dm_channel
    began = harness.person("eve").say(PARTNERS, "the pallets are mouldy")
    harness.planner.script(Turn(text="I am sorry to hear that."), Turn(text="Seven of them."))
    ben.say(PARTNERS, "@bot what shall we do about these?", began)
    root = wait_for_private_root(harness, "what shall we do")
    harness.said(dm, root["ts"], "I am sorry to hear that.")
    assert "the pallets are mouldy" in str(harness.planner.requests[-1]["input"])
    harness.settle()
    ben.say(PARTNERS, "@bot and how many were there?", began)
    harness.said(dm, root["ts"], "Seven of them.")
    again = harness.said(dm, root["ts"], "and how many were there?")
    assert "read along" not in words(again)  # the first message of the thread said so
    arrived(harness)
    assert "I am sorry to hear that." in str(harness.planner.requests[-1]["input"])
    seen = [m for m in harness.person("eve").messages(PARTNERS, began) if m.get("bot_id")]
    assert not any("sorry" in words(m) or "Seven" in words(m) for m in seen)


def test_a_thread_shared_later_goes_on_in_private(
    own_harness: Callable[..., Harness],
) -> None:
    """“cancel” in the old thread still ends the waiting request."""
    harness = own_harness(FakeTools().tools, POLICY)
    thread = ask(harness, ("note", {"text": "from before"}), channel=GENERAL)
    harness.card(GENERAL, thread)
    harness.settle()
    with harness.slack.world.lock:
        harness.slack.world.channel(GENERAL).is_ext_shared = True
    harness.planner.clear_script()
    harness.planner.script(Turn(text="Our secret price is 5."))
    ben = harness.person("ben")
    ben.say(GENERAL, "@bot and the price?", thread)
    harness.slack.wait(
        lambda: next((m for m in ben.everything(ben.dm_channel) if "secret" in words(m)), None)
    )
    assert not any("secret" in words(m) for m in harness.thread(GENERAL, thread))
    ben.say(GENERAL, "cancel", thread)
    harness.said(GENERAL, thread, "cancelled the request")
    arrived(harness)
    assert harness.run_in(thread).status is RunStatus.CANCELLED


@pytest.mark.parametrize("agent", ["the agent", "a sub-agent"])
def test_a_pending_request_moves_to_a_dm_when_its_channel_is_shared(
    own_harness: Callable[..., Harness], agent: str
) -> None:
    """The old card hides the request, and a new one is sent to the approver."""
    fakes = FakeTools()
    harness = own_harness([*fakes.tools, *AGENTS], POLICY)
    asks = [] if agent == "the agent" else [Turn(calls=[errand("it")])]
    harness.planner.script(*asks, Turn(calls=[("note", {"text": "our last price"})]))
    ben, ana = harness.person("ben"), harness.person("ana")
    thread = ben.say(GENERAL, "@bot note our last price")
    card = harness.card(GENERAL, thread)
    harness.settle()
    harness.slack.share("general")
    harness.said(GENERAL, thread, "I am continuing with Ben Okafor in a direct message")
    root = harness.slack.wait(
        lambda: next((m for m in ben.messages(ben.dm_channel) if "You asked in" in words(m)), None)
    )
    mine = harness.card(ana.dm_channel, None)
    arrived(harness)
    assert "our last price" not in words(now_at(harness, GENERAL, card["ts"]))
    harness.planner.script(Turn(text="It is noted."), Turn(text="It is noted, too."))
    ana.click(ana.dm_channel, mine["ts"], "approve")
    harness.said(ben.dm_channel, root["ts"], "It is noted")
    all_sent(harness)
    assert fakes.did("note", "our last price") == 1
    seen = [m for m in harness.thread(GENERAL, thread) if m["ts"] != thread]
    assert not any("price" in words(m) or "noted" in words(m) for m in seen)


def test_a_requester_without_a_dm_is_told_in_the_shared_thread(harness: Harness) -> None:
    """Slack refuses the direct message, so the requester is told privately where they asked."""
    harness.slack.faults.fail("chat.postMessage", "restricted_action", match=having("our stock"))
    asked = harness.person("ben").say(PARTNERS, "@bot count our stock")
    told(harness, "ben", PARTNERS, asked, "I could not send you a direct message")
    harness.settle()
    assert not any("could not" in words(m) for m in harness.person("eve").everything(PARTNERS))


def test_help_in_a_shared_channel_is_shown_only_to_the_person(harness: Harness) -> None:
    """People of the other company do not see what the bot can do."""
    asked = harness.person("ben").say(PARTNERS, "@bot help")
    told(harness, "ben", PARTNERS, asked, "Write a note")
    assert not any("Write a note" in words(m) for m in harness.person("eve").everything(PARTNERS))


def test_the_policy_can_allow_a_shared_channel(harness: Harness, fakes: FakeTools) -> None:
    """All is in the thread, which says that the other company can read it."""
    harness.policy = f'shared_channels = ["#partners"]\n{POLICY}'
    harness.restart()
    harness.planner.script(Turn(text="We ship on Monday."))
    asked = harness.person("ben").say(PARTNERS, "@bot when do we ship?")
    harness.said(PARTNERS, asked, "shared with another company: its people can read this")
    harness.said(PARTNERS, asked, "We ship on Monday.", "eve")
    harness.policy = POLICY
    harness.restart()
