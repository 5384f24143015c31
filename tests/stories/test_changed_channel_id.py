"""Slack gives a channel another id, as when it is shared: its requests go on there."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bot.demo.model_server import Turn
from storage.grants import Grant
from storage.models import Audit
from storage.states import CallStatus
from tests.stories.fakes import FakeTools
from tests.stories.harness import FINANCE, SUPPORT, Harness
from tests.stories.messages import action_ids
from tests.stories.steps import all_sent, ask, chat, now_at, statuses
from tests.stories.test_remember import approve

POLICY = f"""
[defaults]
approvers = ["UANA00001"]
remember = [{{ fields = ["text"], where = "thread" }}]

[[rule]]
name = "elsewhere"
tool = "put"
verdict = "ask"
approvers = ["UANA00001"]
post_to = "{FINANCE}"
"""


def change_channel_id(harness: Harness, channel: str) -> str:
    """Give the channel another id, wait until the bot knows, and return the id."""
    new: str = harness.slack.change_id(channel)
    harness.slack.wait(
        lambda: [a for a in harness.all(Audit, Audit.event == "channel.moved") if new in a.data]
    )
    return new


def test_requests_go_on_when_the_channels_id_changes(
    own_harness: Callable[..., Harness], caplog: pytest.LogCaptureFixture
) -> None:
    """Cards, threads, transcripts, remembered approvals and late model answers use the new id.

    The policy file still has the old id; the log says where.
    """
    fakes = FakeTools()
    harness = own_harness(fakes.tools, POLICY)
    first = ask(harness, ("note", {"text": "stays"}))
    approve(harness, first, offer=0)
    harness.said(SUPPORT, first, "That is all.")
    waiting = ask(harness, ("note", {"text": "waits"}))
    card = harness.card(SUPPORT, waiting)
    hold = harness.planner.hold_next_request()
    asking = chat(harness, "Said meanwhile.")
    assert hold.arrived.wait(20)
    new = change_channel_id(harness, "support")
    hold.release()
    harness.said(new, asking, "Said meanwhile.")
    harness.person("ana").click(new, card["ts"], "approve")
    harness.said(new, waiting, "Done: Write “waits”.")
    all_sent(harness)
    assert statuses(harness, waiting) == [CallStatus.SUCCEEDED]
    assert "approve" not in action_ids(now_at(harness, new, card["ts"]))
    harness.planner.clear_script()
    harness.planner.script(Turn(calls=[("note", {"text": "stays"})]), Turn(text="Again."))
    harness.person("ben").say(new, "once more", first)  # no mention needed: Ben began the thread
    harness.said(new, first, "Again.")
    assert fakes.did("note", "stays") == 2
    assert "noted stays" in str(harness.planner.requests[-2]["input"])
    assert [row.channel for row in harness.all(Grant)] == [new]
    change_channel_id(harness, "finance-approvals")
    harness.settle()
    assert "the policy names channel C0FINANCE" in caplog.text
    assert "correct rule 'elsewhere'" in caplog.text
