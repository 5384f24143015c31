"""App Home: what an app publishes to each person, and what they do there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from slack_bolt import App
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError

from sandbox.tests.builders import Json, buttons, modal, section
from sandbox.tests.harness import BoltHarness, bolt_harness
from sandbox.tests.recordings import differences, fixture
from sandbox.tests.refusals import code
from slack_sandbox.server import Sandbox


def home(*blocks: Json, **extra: object) -> Json:
    """A Home view."""
    return {"type": "home", "blocks": list(blocks) or [section("Welcome")], **extra}


def note(**extra: object) -> Json:
    """An input block that sends an action on Enter."""
    element = {"type": "plain_text_input", "action_id": "text", **extra}
    label = {"type": "plain_text", "text": "Note"}
    return {
        "type": "input",
        "block_id": "note",
        "label": label,
        "element": element,
        "dispatch_action": True,
    }


def listen(bolt: App) -> None:
    """Clicks are acknowledged."""
    for action_id in ("go", "text"):
        bolt.action(action_id)(lambda ack: ack())


@pytest.fixture(scope="module")
def running() -> Iterator[BoltHarness]:
    """A harness that all tests of this module share; its app has a Home tab."""
    with bolt_harness(listen) as made:
        yield made


@pytest.fixture
def harness(running: BoltHarness) -> BoltHarness:
    """The shared harness, without the bodies of earlier tests."""
    return running.forget_bodies()


def publish(harness: BoltHarness, view: Json, **extra: object) -> Json:
    """The answer of views.publish for ana."""
    answer: Json = harness.client.views_publish(user_id="UANA00001", view=view, **extra)["view"]
    return answer


def shown(harness: BoltHarness) -> Json:
    """The view in ana's Home tab."""
    view = harness.ana.home()
    assert view is not None
    return view


def bare(view: Json) -> Json:
    """The view without the fields that other tests compare."""
    return {key: value for key, value in view.items() if key not in ("blocks", "state")}


def test_a_published_view_is_for_one_person(harness: BoltHarness) -> None:
    """A published view is shaped as Slack's, for one person; its id stays, its hash changes."""
    first = publish(harness, home(callback_id="start"))
    inventory = fixture("slack/views.publish.json")["view"]
    assert differences(bare(first), bare(inventory)) == []
    assert (first["type"], first["submit"], first["close"]) == ("home", None, None)
    assert harness.sandbox.person("ben").home() is None
    second = publish(harness, home(section("Again")))
    assert second["id"] == first["id"]
    assert second["hash"] != first["hash"]
    assert shown(harness)["blocks"][0]["text"]["text"] == "Again"


def test_one_of_two_publishers_on_a_hash_wins(harness: BoltHarness) -> None:
    """Of two who publish on the same hash, one wins; and a hash of nothing is stale."""
    old = publish(harness, home())
    publish(harness, home(section("first")), hash=old["hash"])
    with pytest.raises(SlackApiError) as refused:
        publish(harness, home(section("second")), hash=old["hash"])
    assert code(refused) == "hash_conflict"
    assert shown(harness)["blocks"][0]["text"]["text"] == "first"
    with pytest.raises(SlackApiError) as refused:
        harness.client.views_publish(user_id="UDAN00001", view=home(), hash="1.x")
    assert code(refused) == "hash_conflict"


@pytest.mark.parametrize(
    ("view", "user", "at"),
    [
        (home(submit={"type": "plain_text", "text": "Save"}), "UANA00001", "/view"),
        (home(close={"type": "plain_text", "text": "Close"}), "UANA00001", "/view"),
        (home(*[section(str(n)) for n in range(101)]), "UANA00001", "/view/blocks"),
        (modal(), "UANA00001", "/view/type"),
        (
            home({"type": "task_card", "task_id": "1", "title": "x", "status": "complete"}),
            "UANA00001",
            "/view/blocks/0",
        ),
        (home(), "UNOBODY01", "/user_id"),
    ],
)
def test_unsound_home_views_are_refused(
    harness: BoltHarness, view: Json, user: str, at: str
) -> None:
    """Too many blocks, submit, close, modals and unknown people are refused with the place."""
    with pytest.raises(SlackApiError) as refused:
        harness.client.views_publish(user_id=user, view=view)
    assert code(refused) == "invalid_arguments"
    assert at in refused.value.response["response_metadata"]["messages"][0]


def test_a_home_view_may_have_a_hundred_blocks(harness: BoltHarness) -> None:
    """A view of a hundred blocks is accepted."""
    assert len(publish(harness, home(*[section(str(n)) for n in range(100)]))["blocks"]) == 100


def test_without_a_home_tab_nothing_is_published(manifest: Json) -> None:
    """Without a Home tab in the manifest nothing can be published or opened."""
    manifest["features"]["app_home"]["home_tab_enabled"] = False
    with Sandbox(manifest) as sandbox:
        client = WebClient(token=sandbox.bot_token, base_url=sandbox.api_url)
        with pytest.raises(SlackApiError) as refused:
            client.views_publish(user_id="UANA00001", view=home())
        assert code(refused) == "not_enabled"
        with pytest.raises(ValueError, match="no Home tab"):
            sandbox.person("ana").open_home()


def test_app_home_opened_carries_the_view(harness: BoltHarness) -> None:
    """app_home_opened names the tab; for Home it carries the view that is there."""
    publish(harness, home(section("Here")))
    harness.ana.open_home()
    event = harness.wait_for_body("app_home_opened")
    inventory = fixture("slack/AppHomeOpenedPayload.json")
    view, recorded = event["event"].pop("view"), inventory["event"].pop("view")
    assert differences(bare(view), bare(recorded)) == []
    assert [d for d in differences(event, inventory) if not d.startswith("/context_")] == []
    assert (event["event"]["tab"], view["id"], view["state"]) == (
        "home",
        shown(harness)["id"],
        {"values": {}},
    )
    assert event["event"]["channel"] == harness.ana.dm_channel
    harness.ana.open_dm()
    event = harness.wait_for_body("app_home_opened")
    assert (event["event"]["tab"], "view" in event["event"]) == ("messages", False)
    assert harness.sandbox.person("cleo").open_home() is None
    assert "view" not in harness.wait_for_body("app_home_opened")["event"]


def test_a_click_in_home_opens_a_modal(harness: BoltHarness) -> None:
    """A click in Home has the view, and no channel, message or response_url; it opens a modal."""
    view = publish(harness, home(buttons("go")))
    assert harness.ana.click_home("go").wait() == "acked"
    body = harness.wait_for_body("block_actions")
    assert body["container"] == {"type": "view", "view_id": view["id"]}
    assert body["view"]["type"] == "home"
    assert not {"channel", "message", "response_url", "state"} & set(body)
    harness.client.views_open(trigger_id=body["trigger_id"], view=modal("from home"))
    harness.ana.close_view()
    with pytest.raises(ValueError, match="no element"):
        harness.ana.click_home("gone")
    with pytest.raises(ValueError, match="published no Home"):
        harness.sandbox.person("cleo").click_home("go")


def test_inputs_in_home_keep_their_values(harness: BoltHarness) -> None:
    """Typed text is sent with each click, and stays as long as the input keeps its ids."""
    app = harness.sandbox.world.app
    publish(harness, home(note(), buttons("go")))
    (sent,) = harness.ana.type("text", "milk", where=app, enter=True)
    assert sent.wait() == "acked"
    assert harness.wait_for_body("block_actions")["actions"][0]["value"] == "milk"
    publish(harness, home(section("new"), note(), buttons("go")))
    harness.ana.click_home("go")
    state = harness.wait_for_body("block_actions")["view"]["state"]["values"]
    assert state == {"note": {"text": {"type": "plain_text_input", "value": "milk"}}}
    publish(harness, home(note() | {"block_id": "other"}))
    assert shown(harness)["state"]["values"]["other"]["text"]["value"] is None


def test_views_update_changes_a_home_view(harness: BoltHarness) -> None:
    """views.update changes a Home view by id or external id, as a Home view only."""
    view = publish(harness, home(external_id="home-of-ana"))
    harness.client.views_update(
        view_id=view["id"], view=home(section("updated"), external_id="home-of-ana")
    )
    assert shown(harness)["blocks"][0]["text"]["text"] == "updated"
    harness.client.views_update(external_id="home-of-ana", view=home(section("once more")))
    assert shown(harness)["blocks"][0]["text"]["text"] == "once more"
    with pytest.raises(SlackApiError) as refused:
        harness.client.views_update(view_id=view["id"], view=modal())
    assert "must be a home" in refused.value.response["response_metadata"]["messages"][0]
    assert shown(harness)["type"] == "home"


def test_each_app_has_its_own_home(harness: BoltHarness) -> None:
    """An app cannot change the view of another."""
    view = publish(harness, home(section("first app"), external_id="same"))
    manifest = {
        "features": {"app_home": {"home_tab_enabled": True}, "bot_user": {"display_name": "second"}}
    }
    second = harness.sandbox.install(manifest)
    client = WebClient(token=second.bot_token, base_url=harness.sandbox.api_url)
    client.views_publish(user_id="UANA00001", view=home(section("second app"), external_id="same"))
    theirs = harness.ana.home(second)
    assert theirs is not None
    assert (theirs["app_id"], shown(harness)["app_id"]) == (second.id, harness.sandbox.world.app.id)
    with pytest.raises(SlackApiError) as refused:
        client.views_update(view_id=view["id"], view=home())
    assert code(refused) == "not_found"
    assert shown(harness)["blocks"][0]["text"]["text"] == "first app"
