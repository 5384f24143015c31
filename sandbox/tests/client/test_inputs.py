"""Inputs in messages and modals: what is typed, chosen and refused, and what the app gets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.request import Request, urlopen

import pytest
from slack_bolt import App

from sandbox.tests.builders import Json, buttons, modal
from sandbox.tests.harness import BoltHarness, bolt_harness
from sandbox.tests.recordings import differences, fixture
from slack_sandbox.client.actor import Where


def field(element: Json, block_id: str = "field", **extra: object) -> Json:
    """An optional input block."""
    label = {"type": "plain_text", "text": "Field"}
    return {
        "type": "input",
        "block_id": block_id,
        "label": label,
        "element": element,
        "optional": True,
        **extra,
    }


def text(*on: str, action_id: str = "text") -> Json:
    """A text input that dispatches on these triggers."""
    config = {"dispatch_action_config": {"trigger_actions_on": list(on)}} if on else {}
    return {"type": "plain_text_input", "action_id": action_id, **config}


def listen(bolt: App) -> None:
    """Everything is acknowledged."""
    for action_id in ("go", "text", "pick", "rate"):
        bolt.action(action_id)(lambda ack: ack())
    bolt.view("form")(lambda ack: ack())


@pytest.fixture(scope="module")
def running() -> Iterator[BoltHarness]:
    """A harness that all tests of this module share."""
    with bolt_harness(listen) as made:
        yield made


@pytest.fixture
def harness(running: BoltHarness) -> BoltHarness:
    """The shared harness, without the bodies of earlier tests."""
    return running.forget_bodies()


# inputs in messages


def test_the_state_of_inputs_comes_with_a_click(harness: BoltHarness) -> None:
    """Typed and chosen values are sent with a click on a button of the message."""
    menu = {"type": "static_select", "action_id": "pick", "options": [option("a"), option("b")]}
    place = (
        "support",
        harness.post(
            field(text()), {"type": "actions", "block_id": "m", "elements": [menu]}, buttons("go")
        ),
    )
    typed = {"field": {"text": {"type": "plain_text_input", "value": "hello"}}}
    harness.ana.click_in(place, "pick", selected="b")
    harness.wait_for_body("block_actions")
    harness.ana.click_in(place, "go", state=typed)
    state = harness.wait_for_body("block_actions")["state"]["values"]
    assert state["field"]["text"] == {"type": "plain_text_input", "value": "hello"}
    assert state["m"]["pick"]["selected_option"]["value"] == "b"
    harness.sandbox.person("ben").click_in(place, "go")
    state = harness.wait_for_body("block_actions")["state"]["values"]
    assert (state["field"]["text"]["value"], state["m"]["pick"]["selected_option"]) == (None, None)


def option(value: str) -> Json:
    """An option."""
    return {"text": {"type": "plain_text", "text": value}, "value": value}


@pytest.mark.parametrize(
    ("on", "enter", "sent"),
    [
        ((), False, 0),
        ((), True, 1),
        (("on_enter_pressed",), True, 1),
        (("on_character_entered",), True, 1),
        (("on_character_entered",), False, 1),
        (("on_enter_pressed", "on_character_entered"), True, 2),
    ],
)
def test_typing_is_dispatched_as_the_element_says(
    harness: BoltHarness, on: tuple[str, ...], enter: bool, sent: int
) -> None:
    """If the element names no trigger, Enter alone dispatches."""
    where: Where = ("support", harness.post(field(text(*on), dispatch_action=True)))
    deliveries = harness.ana.type("text", "hi", where=where, enter=enter)
    assert [d.wait() for d in deliveries] == ["acked"] * sent
    assert [d.payload["actions"][0]["value"] for d in deliveries] == ["hi"] * sent


def test_an_input_without_dispatch_action_sends_nothing(harness: BoltHarness) -> None:
    """The input keeps what was typed."""
    where: Where = ("support", harness.post(field(text()), buttons("go")))
    assert harness.ana.type("text", "quiet", where=where, enter=True) == []
    with pytest.raises(ValueError, match="no dispatch_action"):
        harness.ana.click_in(where, "text", value="quiet")
    harness.ana.click_in(where, "go")
    assert (
        harness.wait_for_body("block_actions")["state"]["values"]["field"]["text"]["value"]
        == "quiet"
    )


def test_elements_in_containers_and_cards_can_be_used(harness: BoltHarness) -> None:
    """Elements in containers and on cards are used with the ids of the block they stand in."""
    inner = {
        "type": "container",
        "title": {"type": "plain_text", "text": "Box"},
        "child_blocks": [buttons("go", block_id="in")],
    }
    where: Where = ("support", harness.post(inner))
    harness.ana.click_in(where, "go")
    assert harness.wait_for_body("block_actions")["actions"][0]["block_id"] == "in"


def test_feedback_buttons_send_the_pressed_half(harness: BoltHarness) -> None:
    """Feedback buttons send the value of the half that was pressed."""
    half = {"text": {"type": "plain_text", "text": "Good"}, "value": "good"}
    other = {"text": {"type": "plain_text", "text": "Bad"}, "value": "bad"}
    element = {
        "type": "feedback_buttons",
        "action_id": "rate",
        "positive_button": half,
        "negative_button": other,
    }
    where: Where = (
        "support",
        harness.post({"type": "context_actions", "block_id": "f", "elements": [element]}),
    )
    harness.ana.click_in(where, "rate", value="bad")
    assert harness.wait_for_body("block_actions")["actions"][0]["value"] == "bad"
    with pytest.raises(ValueError, match="no value"):
        harness.ana.click_in(where, "rate", value="ugly")


@pytest.mark.parametrize(
    ("element", "good", "bad"),
    [
        ({"type": "datepicker"}, "2026-02-28", "2026-02-30"),
        ({"type": "timepicker"}, "23:59", "24:00"),
        ({"type": "datetimepicker"}, 1_800_000_000, "tomorrow"),
        ({"type": "checkboxes", "options": [option("a"), option("b")]}, ["a", "b"], ["c"]),
        ({"type": "radio_buttons", "options": [option("a")]}, "a", "b"),
        (
            {
                "type": "multi_static_select",
                "options": [option("a"), option("b")],
                "max_selected_items": 1,
            },
            ["b"],
            ["a", "b"],
        ),
        ({"type": "overflow", "options": [option("a")]}, "a", "z"),
    ],
)
def test_only_values_of_a_picker_can_be_chosen(
    harness: BoltHarness, element: Json, good: object, bad: object
) -> None:
    """Pickers refuse every value that Slack's own picker cannot give."""
    where: Where = (
        "support",
        harness.post(
            {"type": "actions", "block_id": "m", "elements": [{"action_id": "pick", **element}]}
        ),
    )
    with pytest.raises(ValueError, match="pick"):
        harness.ana.choose("pick", bad, where=where)
    assert harness.ana.choose("pick", good, where=where) is not None
    (action,) = harness.wait_for_body("block_actions")["actions"]
    (chosen,) = (value for key, value in action.items() if key.startswith("selected_"))
    plain = [each["value"] for each in chosen] if isinstance(chosen, list) else chosen
    assert (plain["value"] if isinstance(plain, dict) else plain) == good


# inputs in modals


def test_a_chosen_conversation_gives_a_response_url(harness: BoltHarness) -> None:
    """A conversation chosen with response_url_enabled gives an address that posts there."""
    select = {"type": "conversations_select", "action_id": "where", "response_url_enabled": True}
    harness.form(modal("form", blocks=[field(select)]))
    harness.ana.choose("where", "C0FINANCE")
    assert harness.ana.submit()["outcome"] == "closed"
    body = harness.wait_for_body("view_submission")
    recorded = fixture("bolt_payloads.json")["view_submission.response_url_payload_body"]
    assert differences(recorded["response_urls"], body["response_urls"]) == []
    (link,) = body["response_urls"]
    assert (link["block_id"], link["action_id"], link["channel_id"]) == (
        "field",
        "where",
        "C0FINANCE",
    )
    said = json.dumps({"text": "from the form", "response_type": "in_channel"}).encode()
    urlopen(Request(link["response_url"], said, {"Content-Type": "application/json"})).close()
    assert harness.ana.everything("finance-approvals")[-1]["text"] == "from the form"


def test_a_response_url_comes_only_if_requested(harness: BoltHarness) -> None:
    """There is none if the select does not ask for one, or nothing was chosen."""
    for extra in ({}, {"response_url_enabled": True}):
        harness.form(
            modal(
                "form", blocks=[field({"type": "channels_select", "action_id": "where", **extra})]
            )
        )
        if not extra:
            harness.ana.choose("where", "C0SUPPORT")
        harness.ana.submit()
        assert harness.wait_for_body("view_submission")["response_urls"] == []


@pytest.mark.parametrize(
    ("kind", "extra", "starts_with"),
    [
        ("conversations_select", {}, "C0SUPPORT"),
        ("multi_conversations_select", {}, ["C0SUPPORT"]),
        ("conversations_select", {"initial_conversation": "C0GENERAL"}, "C0SUPPORT"),
        ("conversations_select", {"filter": {"include": ["private"]}}, None),
    ],
)
def test_a_select_may_start_with_the_current_conversation(
    harness: BoltHarness, kind: str, extra: Json, starts_with: object
) -> None:
    """Such a select starts with the channel the person looked at, if its filter allows."""
    element = {"type": kind, "action_id": "where", "default_to_current_conversation": True, **extra}
    harness.form(modal("form", blocks=[field(element)]), channel="support")
    view = harness.ana.view()
    assert view is not None
    state = view["state"]["values"]["field"]["where"]
    assert next(value for key, value in state.items() if key.startswith("selected_")) == starts_with
    assert harness.ana.submit() == {"outcome": "closed"}
