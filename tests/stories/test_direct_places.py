"""Where a request without the agent begins, and what is said in its thread."""

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
    """No story here ever reaches the model's server."""
    before = len(harness.planner.requests)
    yield
    assert len(harness.planner.requests) == before


def test_where_the_bot_is_not_it_begins_in_a_direct_message(harness: Harness) -> None:
    """Asked from a channel without the bot, it begins in the requester's own direct message."""
    ben = harness.person("ben")
    form(harness, "note", channel=ben.dm_channel)
    assert ben.submit(typed(text="a secret garden"))["outcome"] == "closed"
    thread = root(harness, "a secret garden", channel=ben.dm_channel)
    harness.settle()
    assert harness.run_in(thread).channel == ben.dm_channel


def test_where_it_cannot_begin_it_begins_with_who_asked(harness: Harness) -> None:
    """Slack takes no post in the channel any more: the request begins in a direct message."""
    form(harness, "note")
    harness.slack.faults.fail("chat.postMessage", "is_archived", match=having(SUPPORT))
    ben = harness.person("ben")
    assert ben.submit(typed(text="nowhere to go"))["outcome"] == "closed"
    thread = root(harness, "nowhere to go", channel=ben.dm_channel)
    harness.settle()
    run = harness.run_in(thread)
    assert (run.channel, run.status) == (ben.dm_channel, RunStatus.WAITING)


def test_a_forged_form_is_judged_like_any_other(harness: Harness) -> None:
    """A submission for another channel than the person is in begins with who asked, not there."""
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


def test_words_in_its_thread(harness: Harness, fakes: FakeTools) -> None:
    """Words of the requester decide nothing and are answered once; “cancel” takes it back."""
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


def test_a_plan_of_a_form_is_not_sent_back(harness: Harness) -> None:
    """A dialog of old that sends back changes nothing here, and says what can be done."""
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


def test_nobody_is_asked_before_it_has_its_place(harness: Harness) -> None:
    """While its first message is on its way, no worker takes the request: it has no thread yet."""
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


def test_where_another_company_reads_it_begins_in_private(
    own_harness: Callable[..., Harness],
) -> None:
    """In a channel shared with another company nothing of the request is posted."""
    harness = own_harness(FakeTools().tools, '[defaults]\napprovers = ["@shop-leads"]\n')
    ben = harness.person("ben")
    view = form(harness, "note", channel=PARTNERS)
    assert "in a direct message with you" in words({"blocks": view["blocks"]})
    assert ben.submit(typed(text="our margins"))["outcome"] == "closed"
    root(harness, "our margins", channel=ben.dm_channel)
    harness.settle()
    assert not [m for m in harness.person("eve").everything(PARTNERS) if "margins" in words(m)]


def test_where_the_policy_lets_another_company_read(harness: Harness) -> None:
    """In a shared channel that the policy names, the request begins where it was asked."""
    assert harness.app.core.policy.policy.shared_channels
    form(harness, "note", channel=PARTNERS)
    assert harness.person("ben").submit(typed(text="our hours"))["outcome"] == "closed"
    root(harness, "our hours", channel=PARTNERS)
