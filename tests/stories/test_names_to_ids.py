"""Names of channels and people become ids once, when a call is proposed; the id is what runs."""

from __future__ import annotations

from collections.abc import Callable
from json import loads

import pytest

from storage.states import CallStatus
from tests.stories.harness import FINANCE, GENERAL, SUPPORT, Harness
from tests.stories.messages import leaves, words
from tests.stories.steps import arrived, ask, open_modal, statuses

RULES = """
[defaults]
approvers = ["UANA00001"]

[[rule]]
name = "announcements"
tool = "post_message"
when = 'args.channel == channels.support || args.channel == channels["partners"]'
verdict = "deny"
reason = "not there"

[[rule]]
name = "not of Cleo"
tool = "invite"
when = "people.cleo in args.people"
verdict = "deny"
reason = "not her"

[[rule]]
name = "written as a name"
tool = "set_topic"
when = 'args.channel in ["#random"]'
verdict = "deny"
reason = "never"
"""
SELF_NAMED = """
[defaults]
approvers = ["UANA00001"]

[[rule]]
name = "the boss"
tool = "post_message"
when = 'requester == people["the.boss"]'
verdict = "allow"
"""


def test_a_message_goes_to_the_same_channel_after_a_renaming(harness: Harness) -> None:
    """Another channel has the approved name by the time the call runs."""
    thread = ask(harness, ("post_message", {"channel": "#general", "text": "We move."}))
    card = harness.card(SUPPORT, thread)
    assert {"type": "channel", "channel_id": GENERAL} in leaves(card["blocks"])
    assert "Post a message in #general" in words(card)
    channels = harness.slack.world.channels
    channels[GENERAL].name, channels["C0RANDOM"].name = "random", "general"
    try:
        harness.person("ana").click(SUPPORT, card["ts"], "approve")
        harness.said(SUPPORT, thread, "That is all.")
    finally:
        channels[GENERAL].name, channels["C0RANDOM"].name = "general", "random"
    assert "We move." in str(harness.person("ana").messages(GENERAL))


def test_a_call_with_an_unknown_name_is_refused(harness: Harness) -> None:
    """The model is told which name is unknown; in Edit it is an error at the field."""
    thread = ask(harness, ("post_message", {"channel": "#nowhere", "text": "x"}))
    harness.said(SUPPORT, thread, "That is all.")
    [output] = [each["output"] for each in harness.outputs()]
    assert (
        "There is no channel #nowhere that the bot and the person who asked can both see." in output
    )
    assert statuses(harness, thread) == [CallStatus.REFUSED]

    thread = ask(harness, ("post_message", {"channel": "#general", "text": "x"}))
    open_modal(harness, "ana", SUPPORT, harness.card(SUPPORT, thread), "edit")
    chosen = {"f:channel": {"v": {"selected_conversation": FINANCE}}}
    outcome = harness.person("ana").submit(chosen)
    assert outcome["errors"]["f:channel"].startswith(f"There is no channel {FINANCE} that")
    harness.person("ana").close_view()


@pytest.mark.parametrize(
    ("private", "nowhere"), [("#finance-approvals", "#nowhere"), (FINANCE, "C0NOWHERE1")]
)
def test_a_private_channel_looks_missing(harness: Harness, private: str, nowhere: str) -> None:
    """The requester is not a member of it.

    Neither what the model is told nor what the thread shows reveals that it exists.
    """
    seen: list[str] = []
    for name in (private, nowhere):
        thread = ask(harness, ("post_message", {"channel": name, "text": "x"}))
        harness.said(SUPPORT, thread, "That is all.")
        arrived(harness)
        [call] = harness.calls_in(thread)
        said = [m["text"] for m in harness.thread(SUPPORT, thread) if m.get("bot_id")]
        record = [call.status, call.output, call.note, call.names, *said]
        seen.append(str(record).replace(name, "#x").replace(call.run_id, "run"))
    assert seen[0] == seen[1]
    assert FINANCE not in seen[0]


def test_rules_apply_to_names_ids_and_mentions_alike(
    own_harness: Callable[..., Harness],
) -> None:
    """A rule that compares an id with a name cannot be evaluated, so what it denies is denied."""
    harness = own_harness([], RULES)
    for written in ("#support", SUPPORT, f"<#{SUPPORT}>"):
        thread = ask(harness, ("post_message", {"channel": written, "text": "x"}))
        harness.said(SUPPORT, thread, "That is all.")
        assert "not there" in harness.outputs()[-1]["output"]
    calls = (
        ("invite", {"channel": "#general", "people": ["Cleo Martin"]}),
        ("set_topic", {"channel": "#random", "topic": "x"}),
    )
    thread = ask(harness, *calls)
    harness.said(SUPPORT, thread, "That is all.")
    first, second = (each["output"] for each in harness.outputs()[-2:])
    assert "not her" in first
    assert "write channels.name" in second
    assert [loads(call.names) for call in harness.calls_in(thread)][1] == {"C0RANDOM": "#random"}


def test_a_handle_in_a_rule_is_no_name_that_people_give_themselves(
    own_harness: Callable[..., Harness],
) -> None:
    """Nobody has the handle that this rule allows; Ben only calls himself so."""
    harness = own_harness([], SELF_NAMED)
    ben = harness.slack.world.people["ben"]
    name, ben.real_name = ben.real_name, "the.boss"
    try:
        thread = ask(harness, ("post_message", {"channel": "#general", "text": "as I say"}))
        harness.card(SUPPORT, thread)
    finally:
        ben.real_name = name
    assert statuses(harness, thread) == [CallStatus.PENDING]
