"""Where a request without the agent begins, and what happens in its thread."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from storage.models import Run
from storage.states import RunStatus
from tests.stories.fakes import FakeTools
from tests.stories.forms import form, request, root
from tests.stories.harness import FINANCE, PARTNERS, SUPPORT, Harness
from tests.stories.messages import having, words
from tests.stories.steps import arrived, menu, told, typed


@pytest.fixture(autouse=True)
def _no_model(harness: Harness) -> Any:
    """No story here asks the model."""
    before = len(harness.planner.requests)
    yield
    assert len(harness.planner.requests) == before


def test_a_request_from_a_direct_message_begins_there(harness: Harness) -> None:
    """Ben opens the form in his direct messages with the bot."""
    ben = harness.person("ben")
    form(harness, "note", channel=ben.dm_channel)
    assert ben.submit(typed(text="a secret garden"))["outcome"] == "closed"
    thread = root(harness, "a secret garden", channel=ben.dm_channel)
    harness.settle()
    assert harness.run_in(thread).channel == ben.dm_channel


def test_a_request_from_an_archived_channel_begins_in_a_dm(harness: Harness) -> None:
    """Slack accepts no post in the channel."""
    form(harness, "note")
    harness.slack.faults.fail("chat.postMessage", "is_archived", match=having(SUPPORT))
    ben = harness.person("ben")
    assert ben.submit(typed(text="nowhere to go"))["outcome"] == "closed"
    thread = root(harness, "nowhere to go", channel=ben.dm_channel)
    harness.settle()
    run = harness.run_in(thread)
    assert (run.channel, run.status) == (ben.dm_channel, RunStatus.WAITING)


def test_a_form_forged_for_another_channel_begins_in_a_dm(harness: Harness) -> None:
    """Ben is not in the channel that the submission names."""
    ben = harness.person("ben")
    view = form(harness, "note")
    with harness.slack.world.lock:
        [stored] = harness.slack.world.stacks[ben.id]
        body = json.loads(view["private_metadata"])
        stored.body["private_metadata"] = json.dumps(
            {**body, "channel": FINANCE, "thread": f"{FINANCE}:"}
        )
    assert ben.submit(typed(text="from outside"))["outcome"] == "closed"
    root(harness, "from outside", channel=ben.dm_channel)
    seen = harness.person("cleo").messages(FINANCE)
    assert not [m for m in seen if "from outside" in words(m)]


def test_words_in_the_thread_can_cancel_but_not_decide(harness: Harness, fakes: FakeTools) -> None:
    """The requester's words are answered once. Only their “cancel” cancels it, nobody else's."""
    thread = request(harness, "a slide")
    harness.card(SUPPORT, thread)
    ben = harness.person("ben")
    ben.say(SUPPORT, "is anybody there?", thread)
    hint = harness.slack.wait(
        lambda: [m for m in ben.everything(SUPPORT) if m.get("is_ephemeral") and m["ts"] > thread]
    )
    assert len(hint) == 1
    harness.person("dan").say(SUPPORT, "@bot cancel", thread)
    arrived(harness)
    assert harness.run_in(thread).status is RunStatus.WAITING
    ben.say(SUPPORT, "cancel", thread)
    harness.said(SUPPORT, thread, "cancelled the request")
    harness.settle()
    assert harness.run_in(thread).status is RunStatus.CANCELLED


def test_a_form_request_cannot_be_sent_back(harness: Harness) -> None:
    """The dialog comes from an old card; it says that no agent planned this."""
    thread = request(harness, "a swing")
    card = harness.card(SUPPORT, thread)
    [call] = harness.calls_in(thread)
    seen = json.loads(json.dumps(card))
    option = {
        "text": {"type": "plain_text", "text": "Send the plan back…", "emoji": False},
        "value": f"send_back:{call.id}:{call.revision}",
    }
    for block in seen["blocks"]:
        for element in block.get("elements", []):
            if element.get("action_id") == "more":
                element["options"][0] = option
    menu(harness, "ana", seen, "send_back:")
    harness.slack.wait(harness.person("ana").view)
    harness.person("ana").submit({"words": {"text": {"value": "do it better"}}})
    told(harness, "ana", SUPPORT, thread, "No agent planned this")
    assert harness.run_in(thread).status is RunStatus.WAITING


def test_a_request_waits_until_it_has_its_thread(harness: Harness) -> None:
    """The first message is still on its way."""
    hold = harness.slack.faults.hold("chat.postMessage", match=having("a slow door"))
    form(harness, "note")
    assert harness.person("ben").submit(typed(text="a slow door"))["outcome"] == "closed"
    harness.slack.wait(hold.arrived.is_set)
    harness.slack.wait(harness.app.loop.is_idle)
    [run] = harness.all(Run, Run.thread_ts == "")
    assert (run.status, run.turns, run.fence) == (RunStatus.READY, 0, 0)
    hold.release()
    thread = root(harness, "a slow door")
    harness.card(SUPPORT, thread)


def test_a_request_from_a_shared_channel_begins_in_a_dm(
    own_harness: Callable[..., Harness],
) -> None:
    """Nothing of it is posted where another company reads."""
    harness = own_harness(FakeTools().tools, '[defaults]\napprovers = ["@shop-leads"]\n')
    ben = harness.person("ben")
    view = form(harness, "note", channel=PARTNERS)
    assert "in a direct message with you" in words({"blocks": view["blocks"]})
    assert ben.submit(typed(text="our margins"))["outcome"] == "closed"
    root(harness, "our margins", channel=ben.dm_channel)
    harness.settle()
    assert not [m for m in harness.person("eve").everything(PARTNERS) if "margins" in words(m)]


def test_a_request_begins_in_a_shared_channel_the_policy_names(harness: Harness) -> None:
    """The policy lets the other company read there."""
    assert harness.app.core.policy.policy.shared_channels
    form(harness, "note", channel=PARTNERS)
    assert harness.person("ben").submit(typed(text="our hours"))["outcome"] == "closed"
    root(harness, "our hours", channel=PARTNERS)
