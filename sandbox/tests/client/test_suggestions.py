"""External selects: what apps suggest as a person types, what can be chosen, what apps get."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from slack_bolt import App
from slack_sdk import WebClient

from sandbox.tests.builders import Json, modal
from sandbox.tests.harness import BoltHarness, bolt_harness, run_over_http
from sandbox.tests.recordings import differences, fixture
from slack_sandbox.client.actor import Where

FRUIT = ["apple", "apricot", "banana"]
Ack = Callable[..., None]


def option(name: str) -> Json:
    """An option."""
    return {"text": {"type": "plain_text", "text": name.capitalize()}, "value": name}


def external(action_id: str, kind: str = "external_select", **extra: object) -> Json:
    """An external select that queries the app from the first character."""
    return {"type": kind, "action_id": action_id, "min_query_length": 1, **extra}


def actions(*elements: Json) -> Json:
    """An actions block."""
    return {"type": "actions", "block_id": "menus", "elements": list(elements)}


def field(element: Json, block_id: str = "menu", **extra: object) -> Json:
    """An optional input block."""
    label = {"type": "plain_text", "text": "Menu"}
    return {
        "type": "input",
        "block_id": block_id,
        "label": label,
        "element": element,
        "optional": True,
        **extra,
    }


def listen(bolt: App) -> None:
    """Suggest fruit that fits the query, and for some queries answers that Slack refuses."""

    @bolt.options("fruit")
    def fruit(ack: Ack, payload: Json) -> None:
        ack(options=[option(name) for name in FRUIT if name.startswith(payload["value"])])

    bolt.options("groups")(
        lambda ack: ack(
            option_groups=[
                {"label": {"type": "plain_text", "text": "All"}, "options": [option("fig")]}
            ]
        )
    )
    bolt.options("many")(lambda ack: ack(options=[option(f"n{n}") for n in range(101)]))
    bolt.options("long")(lambda ack: ack(options=[option("x" * 151)]))
    bolt.options("wordless")(lambda ack: ack())
    bolt.action("fruit")(lambda ack: ack())
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


def values(options: list[Json]) -> list[str]:
    """The values of options."""
    return [each["value"] for each in options]


def test_suggestions_work_in_a_message(harness: BoltHarness) -> None:
    """The payload has the recorded shape; only offered options can be chosen."""
    where: Where = ("support", harness.post(actions(external("fruit"))))
    with pytest.raises(ValueError, match="no option 'apple'"):
        harness.ana.choose("fruit", "apple", where=where)
    assert values(harness.ana.suggest("fruit", "ap", where=where)) == ["apple", "apricot"]
    body, recorded = (
        harness.wait_for_body("block_suggestion"),
        fixture("bolt_payloads.json")["block_suggestion.body"],
    )
    missing = {d for d in differences(recorded, body) if "/enterprise" not in d}
    assert missing == {"/container/view_id: unknown", "/view: unknown"}
    assert (body["value"], body["message"]["ts"], body["channel"]["id"]) == (
        "ap",
        where[1],
        "C0SUPPORT",
    )
    with pytest.raises(ValueError, match="no option 'banana'"):
        harness.ana.choose("fruit", "banana", where=where)
    sent = harness.ana.choose("fruit", "apple", where=where)
    assert sent is not None
    chosen = harness.wait_for_body("block_actions")
    apple = option("apple")
    apple["text"]["emoji"] = True
    assert chosen["actions"][0]["selected_option"] == apple
    assert chosen["state"]["values"]["menus"]["fruit"]["selected_option"] == apple


def test_an_option_offered_to_another_person_is_refused(harness: BoltHarness) -> None:
    """Only the person who was offered an option can choose it."""
    where: Where = ("support", harness.post(actions(external("fruit"))))
    harness.sandbox.person("ben").suggest("fruit", "b", where=where)
    with pytest.raises(ValueError, match="no option 'banana'"):
        harness.ana.choose("fruit", "banana", where=where)


def test_suggestions_work_in_a_modal(harness: BoltHarness) -> None:
    """In a modal the payload carries the view.

    Several can be chosen; the submission has them.
    """
    menu = external("fruit", "multi_external_select", max_selected_items=2)
    harness.form(modal("form", blocks=[field(menu)]))
    harness.ana.suggest("fruit", "a")
    harness.ana.suggest("fruit", "b")
    body = harness.wait_for_body("block_suggestion")
    missing = differences(fixture("bolt_payloads.json")["block_suggestion.body"], body)
    assert [d for d in missing if "/enterprise" not in d and "/view/blocks" not in d] == []
    assert "channel" not in body
    with pytest.raises(ValueError, match="at most 2"):
        harness.ana.choose("fruit", FRUIT)
    assert harness.ana.choose("fruit", ["apricot", "banana"]) is None
    assert harness.ana.submit() == {"outcome": "closed"}
    state = harness.wait_for_body("view_submission")["view"]["state"]["values"]["menu"]["fruit"]
    assert values(state["selected_options"]) == ["apricot", "banana"]


def test_a_submission_with_an_option_never_offered_is_refused(harness: BoltHarness) -> None:
    """It is refused before it reaches the app."""
    harness.form(modal("form", blocks=[field(external("fruit", initial_option=option("kiwi")))]))
    made_up = {"menu": {"fruit": {"selected_option": option("durian")}}}
    with pytest.raises(ValueError, match="no option 'durian'"):
        harness.ana.submit(made_up)
    initial = {"menu": {"fruit": {"selected_option": option("kiwi")}}}
    assert harness.ana.submit(initial)["outcome"] == "closed"


def test_grouped_options_are_offered_as_groups(harness: BoltHarness) -> None:
    """Groups of options are offered as groups; the person API opens them."""
    where: Where = ("support", harness.post(actions(external("groups"))))
    assert values(harness.ana.suggest("groups", "f", where=where)) == ["fig"]
    assert harness.ana.choose("groups", "fig", where=where) is not None


@pytest.mark.parametrize(
    ("action_id", "says"),
    [
        ("many", "no more than 100"),
        ("long", "/options/0/value"),
        ("wordless", "either options or option_groups"),
    ],
)
def test_wrong_suggestions_are_shown_as_an_error(
    harness: BoltHarness, action_id: str, says: str
) -> None:
    """Too many, too long or no options: the person sees that they could not be loaded."""
    where: Where = ("support", harness.post(actions(external(action_id))))
    with pytest.raises(ValueError, match="could not be loaded") as refused:
        harness.ana.suggest(action_id, "x", where=where)
    assert says in str(refused.value)


def test_late_suggestions_are_shown_as_an_error(harness: BoltHarness) -> None:
    """The person sees the same error as for a wrong answer."""
    where: Where = ("support", harness.post(actions(external("deaf"))))
    harness.sandbox.world.ack_seconds = 0.2
    try:
        with pytest.raises(ValueError, match=r"^The options could not be loaded\.$"):
            harness.ana.suggest("deaf", "x", where=where)
    finally:
        harness.sandbox.world.ack_seconds = 3.0


def test_a_query_that_is_too_short_is_not_sent_to_the_app(harness: BoltHarness) -> None:
    """Three characters are needed if the select gives no number."""
    element = {"type": "external_select", "action_id": "fruit"}
    where: Where = ("support", harness.post(actions(element)))
    before = len(harness.sandbox.deliveries)
    with pytest.raises(ValueError, match="at least 3"):
        harness.ana.suggest("fruit", "ap", where=where)
    assert len(harness.sandbox.deliveries) == before
    assert values(harness.ana.suggest("fruit", "app", where=where)) == ["apple"]


@pytest.mark.parametrize(
    ("kind", "extra", "query", "offered"),
    [
        ("users_select", {}, "b", ["UBEN00001", "UDAN00001"]),
        ("channels_select", {}, "a", ["C0GENERAL", "C0PARTNER", "C0RANDOM"]),
        ("conversations_select", {"filter": {"include": ["private"]}}, "", ["C0FINANCE"]),
        (
            "conversations_select",
            {"filter": {"include": ["im"], "exclude_bot_users": True}},
            "",
            [],
        ),
        (
            "conversations_select",
            {"filter": {"exclude_external_shared_channels": True}},
            "p",
            ["C0SUPPORT", "C0FINANCE"],
        ),
        ("multi_conversations_select", {"filter": {"include": ["im"]}}, "", ["DANA00001"]),
    ],
)
def test_slack_offers_people_and_conversations_itself(
    harness: BoltHarness, kind: str, extra: Json, query: str, offered: list[str]
) -> None:
    """People and conversations are offered by Slack itself, filtered.

    What is not offered cannot be chosen.
    """
    assert harness.ana.dm_channel == "DANA00001"
    where: Where = ("support", harness.post(actions({"type": kind, "action_id": "who", **extra})))
    before = len([d for d in harness.sandbox.deliveries if d.payload["type"] == "block_suggestion"])
    found = harness.ana.suggest("who", query, where=where)
    assert values(found) == offered
    assert (
        len([d for d in harness.sandbox.deliveries if d.payload["type"] == "block_suggestion"])
        == before
    )
    stranger: Any = ["UZOE00001"] if kind.startswith("multi") else "UZOE00001"
    with pytest.raises(ValueError, match="does not offer"):
        harness.ana.choose("who", stranger, where=where)


def test_a_guest_is_offered_only_their_own_channels(harness: BoltHarness) -> None:
    """A guest can choose only among the channels they are in."""
    where: Where = (
        "support",
        harness.post(actions({"type": "channels_select", "action_id": "where"})),
    )
    assert values(harness.sandbox.person("gus").suggest("where", where=where)) == ["C0SUPPORT"]


def test_suggestions_over_http_use_the_options_url(manifest: Json) -> None:
    """The body of the answer has the options."""
    with run_over_http(listen, manifest) as (sandbox, app_server):
        client = WebClient(token=sandbox.bot_token, base_url=sandbox.api_url)
        answer = client.chat_postMessage(
            channel="C0SUPPORT", text="x", blocks=[actions(external("fruit"))]
        )
        where: Where = ("support", str(answer["ts"]))
        assert values(sandbox.person("ana").suggest("fruit", "ban", where=where)) == ["banana"]
        assert "/slack/options" in [got.path for got in app_server.requests]
