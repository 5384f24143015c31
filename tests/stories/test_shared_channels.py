"""Requests in a channel shared with another company: what its people read along, and what not."""

from __future__ import annotations

from bot.sandbox.openai.server import Turn
from storage.states import CallStatus
from tests.stories.fakes import FakeTools
from tests.stories.harness import PARTNERS, Harness
from tests.stories.messages import words
from tests.stories.steps import told

C = CallStatus
POLICY = """
[defaults]
approvers = ["UANA00001"]
"""


def test_the_request_goes_on_in_private(harness: Harness, fakes: FakeTools) -> None:
    """The shared channel hears that it does, and nothing of what is asked, decided and answered."""
    ben, ana = harness.person("ben"), harness.person("ana")
    harness.planner.script(
        Turn(calls=[("note", {"text": "margin of 40 %"})]), Turn(text="The margin is noted.")
    )
    asked = ben.say(PARTNERS, "@bot note our margin")
    harness.said(PARTNERS, asked, "I go on with <@UBEN00001> in a direct message")
    dm = ben.dm_channel
    root = harness.slack.wait(
        lambda: next((m for m in ben.messages(dm) if "You asked in <#C0PARTNER>" in words(m)), None)
    )
    card = harness.card(ana.dm_channel, None)
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


def test_help_is_private_there(harness: Harness) -> None:
    """What the bot can do is nobody's business in another company."""
    asked = harness.person("ben").say(PARTNERS, "@bot help")
    told(harness, "ben", PARTNERS, asked, "Write a note")
    assert not any("Write a note" in words(m) for m in harness.person("eve").everything(PARTNERS))


def test_where_the_policy_allows_it(harness: Harness, fakes: FakeTools) -> None:
    """In a channel that the policy names it is all in the thread, which says who reads along."""
    harness.policy = f'shared_channels = ["#partners"]\n{POLICY}'
    harness.restart()
    harness.planner.script(Turn(text="We ship on Monday."))
    asked = harness.person("ben").say(PARTNERS, "@bot when do we ship?")
    harness.said(PARTNERS, asked, "shared with another company: its people read along here")
    harness.said(PARTNERS, asked, "We ship on Monday.", "eve")
    harness.policy = POLICY
    harness.restart()
