"""Modals: triggers, hashes, the stack, and what the acknowledgement of a submission does."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError

from sandbox.tests.builders import Json, buttons, modal
from sandbox.tests.refusals import code
from sandbox.tests.socket_app import HandApp
from slack_sandbox.client.actor import Actor
from slack_sandbox.server import Sandbox

TYPED: Json = {"field": {"text": {"value": "v"}}}


@pytest.fixture
def ana(sandbox: Sandbox) -> Actor:
    """The person who uses the modals."""
    return sandbox.person("ana")


@pytest.fixture
def trigger(sandbox: Sandbox, client: WebClient, app: HandApp, ana: Actor) -> str:
    """A fresh trigger of a click on a message."""
    ts = str(client.chat_postMessage(channel="C0SUPPORT", text="x", blocks=[buttons("go")])["ts"])
    app.take()
    ana.click("support", ts, "go")
    return str(app.take()["payload"]["trigger_id"])


def from_view(app: HandApp, ana: Actor) -> str:
    """A trigger of a click in the top modal."""
    ana.click_view("more")
    return str(app.take()["payload"]["trigger_id"])


def with_button(callback_id: str = "form", **extra: Any) -> Json:
    """The test modal with a button in it."""
    view = modal(callback_id, **extra)
    view["blocks"] = [*view["blocks"], buttons("more")]
    return view


def submit(app: HandApp, ana: Actor, answer: Json | None, values: Json | None = None) -> Json:
    """Submit the top modal while the app answers so; the outcome."""
    result: Json = {}
    typed = TYPED if values is None else values
    worker = threading.Thread(target=lambda: result.update(ana.submit(typed)))
    worker.start()
    app.take(answer)
    worker.join(30)
    return result


def test_a_trigger_opens_one_modal(client: WebClient, trigger: str) -> None:
    """An unknown trigger opens none."""
    client.views_open(trigger_id=trigger, view=modal())
    for trigger_id, error in ((trigger, "exchanged_trigger_id"), ("1.2.x", "invalid_trigger_id")):
        with pytest.raises(SlackApiError) as refused:
            client.views_open(trigger_id=trigger_id, view=modal())
        assert code(refused) == error


def test_an_expired_trigger_opens_nothing(
    sandbox: Sandbox, client: WebClient, trigger: str
) -> None:
    """A trigger is valid for a few seconds."""
    sandbox.world.ack_seconds = 0.0
    with pytest.raises(SlackApiError) as refused:
        client.views_open(trigger_id=trigger, view=modal())
    assert code(refused) == "expired_trigger_id"


def test_a_refused_view_keeps_the_trigger_valid(
    client: WebClient, trigger: str, ana: Actor
) -> None:
    """The error names the place in the view."""
    too_long = modal(title={"type": "plain_text", "text": "t" * 25})
    with pytest.raises(SlackApiError) as refused:
        client.views_open(trigger_id=trigger, view=too_long)
    assert code(refused) == "invalid_arguments"
    assert "/view/title" in refused.value.response["response_metadata"]["messages"][0]
    client.views_open(trigger_id=trigger, view=modal())
    assert ana.view() is not None


def test_three_views_fit_on_the_stack(
    client: WebClient, app: HandApp, ana: Actor, trigger: str
) -> None:
    """Three views fit on the stack; closing shows the one below."""
    root = client.views_open(trigger_id=trigger, view=with_button("1"))["view"]
    second = client.views_push(trigger_id=from_view(app, ana), view=with_button("2"))["view"]
    assert (second["root_view_id"], second["previous_view_id"]) == (root["id"], root["id"])
    client.views_push(trigger_id=from_view(app, ana), view=with_button("3"))
    with pytest.raises(SlackApiError) as refused:
        client.views_push(trigger_id=from_view(app, ana), view=with_button("4"))
    assert code(refused) == "push_limit_reached"
    ana.close_view()
    view = ana.view()
    assert view is not None
    assert view["callback_id"] == "2"


def test_a_message_trigger_pushes_nothing(client: WebClient, trigger: str) -> None:
    """Only triggers from a modal can push a view."""
    with pytest.raises(SlackApiError) as refused:
        client.views_push(trigger_id=trigger, view=modal())
    assert code(refused) == "not_found"


def test_each_update_makes_a_new_hash(client: WebClient, trigger: str) -> None:
    """The old hash is refused, and a closed view is not found."""
    old = client.views_open(trigger_id=trigger, view=modal(external_id="mine"))["view"]
    new = client.views_update(
        view_id=old["id"], hash=old["hash"], view=modal("next", external_id="mine")
    )["view"]
    assert new["hash"] != old["hash"]
    with pytest.raises(SlackApiError) as refused:
        client.views_update(view_id=old["id"], hash=old["hash"], view=modal())
    assert code(refused) == "hash_conflict"
    assert client.views_update(external_id="mine", view=modal("last"))["view"]["id"] == old["id"]
    with pytest.raises(SlackApiError) as refused:
        client.views_update(view_id="VNONE", view=modal())
    assert code(refused) == "not_found"


def test_an_update_keeps_what_is_typed(
    client: WebClient, app: HandApp, ana: Actor, trigger: str
) -> None:
    """Typed values stay if block and action keep their ids."""
    view = client.views_open(trigger_id=trigger, view=modal())["view"]
    errors = {"response_action": "errors", "errors": {"field": "no"}}
    submit(app, ana, errors)
    client.views_update(view_id=view["id"], view=modal("other"))
    shown = ana.view()
    assert shown is not None
    assert shown["state"]["values"]["field"]["text"]["value"] == "v"
    renamed = modal("third")
    renamed["blocks"][0]["block_id"] = "new"
    client.views_update(view_id=view["id"], view=renamed)
    shown = ana.view()
    assert shown is not None
    assert shown["state"]["values"] == {
        "new": {"text": {"type": "plain_text_input", "value": None}}
    }


def test_another_kind_of_input_starts_afresh(
    client: WebClient, app: HandApp, ana: Actor, trigger: str
) -> None:
    """A typed value is dropped when the input becomes one of another type."""
    view = client.views_open(trigger_id=trigger, view=modal())["view"]
    submit(app, ana, {"response_action": "errors", "errors": {"field": "no"}})
    changed = modal()
    changed["blocks"][0]["element"]["type"] = "url_text_input"
    client.views_update(view_id=view["id"], view=changed)
    shown = ana.view()
    assert shown is not None
    assert shown["state"]["values"]["field"]["text"] == {"type": "url_text_input", "value": None}


def test_an_empty_acknowledgement_closes_the_top_view(
    client: WebClient, app: HandApp, ana: Actor, trigger: str
) -> None:
    """An empty acknowledgement closes the top view only."""
    client.views_open(trigger_id=trigger, view=with_button("1"))
    client.views_push(trigger_id=from_view(app, ana), view=modal("2"))
    assert submit(app, ana, None) == {"outcome": "closed"}
    shown = ana.view()
    assert shown is not None
    assert shown["callback_id"] == "1"


def test_each_response_action_does_its_work(
    client: WebClient, app: HandApp, ana: Actor, trigger: str
) -> None:
    """errors keep the modal, update changes it, push puts one on top, clear takes all away."""
    view_id = client.views_open(trigger_id=trigger, view=modal())["view"]["id"]
    refused = submit(app, ana, {"response_action": "errors", "errors": {"field": "too odd"}})
    assert refused == {"outcome": "errors", "errors": {"field": "too odd"}}
    assert submit(app, ana, {"response_action": "update", "view": modal("2")}) == {
        "outcome": "updated"
    }
    shown = ana.view()
    assert shown is not None
    assert (shown["id"], shown["callback_id"]) == (view_id, "2")
    assert submit(app, ana, {"response_action": "push", "view": modal("3")}) == {
        "outcome": "pushed"
    }
    assert submit(app, ana, {"response_action": "clear"}) == {"outcome": "closed"}
    assert ana.view() is None


@pytest.mark.parametrize(
    "answer",
    [
        {"response_action": "errors", "errors": {"nowhere": "x"}},
        {"response_action": "errors", "errors": {}},
        {"response_action": "update", "view": {"type": "modal"}},
        {"response_action": "dance"},
        {"text": "saved"},
    ],
)
def test_a_wrong_response_action_leaves_the_modal(
    client: WebClient, app: HandApp, ana: Actor, trigger: str, answer: Json
) -> None:
    """The modal shows a warning."""
    client.views_open(trigger_id=trigger, view=modal())
    assert submit(app, ana, answer)["outcome"] == "invalid"
    assert ana.view() is not None


def test_an_unanswered_submission_leaves_the_modal_open(
    sandbox: Sandbox, client: WebClient, ana: Actor, trigger: str
) -> None:
    """The modal shows a warning."""
    client.views_open(trigger_id=trigger, view=modal())
    sandbox.world.ack_seconds = 0.2
    outcome = ana.submit(TYPED)
    assert outcome["outcome"] == "timeout"
    assert "try again" in outcome["message"]
    assert ana.view() is not None


def test_slacks_own_client_checks_come_first(
    sandbox: Sandbox, client: WebClient, ana: Actor, trigger: str
) -> None:
    """A submission that Slack's client refuses never reaches the app."""
    element = {
        "type": "number_input",
        "action_id": "n",
        "is_decimal_allowed": False,
        "min_value": "1",
        "max_value": "9",
    }
    label = {"type": "plain_text", "text": "N"}
    view = modal()
    view["blocks"].append(
        {
            "type": "input",
            "block_id": "number",
            "label": label,
            "element": element,
            "optional": True,
        }
    )
    client.views_open(trigger_id=trigger, view=view)
    before = len(sandbox.deliveries)
    assert ana.submit()["errors"] == {"field": "Please complete this required field."}
    for value, word in (
        ("1.5", "whole"),
        ("10", "at most"),
        ("0", "at least"),
        ("x", "a number"),
        ("NaN", "a number"),
    ):
        outcome = ana.submit(TYPED | {"number": {"n": {"value": value}}})
        assert word in outcome["errors"]["number"]
    assert len(sandbox.deliveries) == before
    with pytest.raises(ValueError, match="no input"):
        ana.submit({"field": {"elsewhere": {"value": "x"}}})


def test_view_closed_is_sent_for_views_that_ask_for_it(
    client: WebClient, app: HandApp, ana: Actor, sandbox: Sandbox, trigger: str
) -> None:
    """It is sent for views with notify_on_close; the × sends is_cleared with the root's id."""
    root = client.views_open(trigger_id=trigger, view=with_button("1", notify_on_close=True))[
        "view"
    ]
    client.views_push(trigger_id=from_view(app, ana), view=modal("2"))
    ana.close_view()
    client.views_push(trigger_id=from_view(app, ana), view=modal("3"))
    ana.close_view(everything=True)
    closed = app.take()["payload"]
    assert (closed["type"], closed["view"]["id"], closed["is_cleared"]) == (
        "view_closed",
        root["id"],
        True,
    )
    assert ana.view() is None


def test_an_action_in_a_modal_has_the_view(
    client: WebClient, app: HandApp, ana: Actor, trigger: str
) -> None:
    """An action in a modal has the view with its state, and no channel, message or response_url."""
    view = client.views_open(trigger_id=trigger, view=with_button())["view"]
    ana.click_view("more")
    payload = app.take()["payload"]
    assert payload["container"] == {"type": "view", "view_id": view["id"]}
    assert payload["view"]["state"]["values"]["field"]["text"]["value"] is None
    assert not {"channel", "message", "response_url"} & set(payload)


def test_two_open_views_cannot_share_an_external_id(
    client: WebClient, app: HandApp, ana: Actor, trigger: str
) -> None:
    """Two open views cannot have one external id."""
    client.views_open(trigger_id=trigger, view=with_button(external_id="same"))
    with pytest.raises(SlackApiError) as refused:
        client.views_push(trigger_id=from_view(app, ana), view=modal(external_id="same"))
    assert code(refused) == "duplicate_external_id"
