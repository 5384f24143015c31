"""The HTTP interface of the page, used as the page uses it, with a real Bolt app behind it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from slack_bolt import App
from slack_bolt.adapter.socket_mode import SocketModeHandler
from slack_sdk import WebClient

from sandbox.tests.builders import Json, buttons, modal
from sandbox.tests.socket_app import close_bolt
from slack_sandbox.server import Sandbox
from slack_sandbox.setup.manifests import full_manifest


@pytest.fixture
def bolt(sandbox: Sandbox, client: WebClient) -> Iterator[None]:
    """An app that answers mentions with a button, which opens a form."""
    app = App(client=client)

    @app.event("app_mention")
    def answer(event: Json, client: WebClient) -> None:
        client.chat_postMessage(
            channel=event["channel"],
            thread_ts=event["ts"],
            text="card",
            blocks=[buttons("open"), buttons("x", block_id="b")],
        )

    @app.event("message")
    def ignore() -> None:
        pass

    @app.action("open")
    def open_form(ack: Callable[[], None], body: Json, client: WebClient) -> None:
        client.views_open(trigger_id=body["trigger_id"], view=modal("form"))
        ack()

    @app.view("form")
    def save(ack: Callable[..., None], view: Json) -> None:
        value = view["state"]["values"]["field"]["text"]["value"]
        if value == "good":
            ack()
        else:
            ack(response_action="errors", errors={"field": f"not {value}"})

    handler = SocketModeHandler(app, sandbox.app_token)
    handler.connect()  # type: ignore[no-untyped-call]  # the library's has no annotations
    sandbox.wait_connected()
    yield
    close_bolt(sandbox, handler)


def get(sandbox: Sandbox, path: str) -> Any:
    """The answer to a GET."""
    with urlopen(f"{sandbox.url}/sandbox/{path}") as answer:
        return json.load(answer)


def do(sandbox: Sandbox, path: str, **body: Any) -> Json:
    """The answer to a POST."""
    headers = {"Content-Type": "application/json"}
    with urlopen(
        Request(f"{sandbox.url}/sandbox/{path}", json.dumps(body).encode(), headers)
    ) as answer:
        parsed: Json = json.load(answer)
        return parsed


def test_a_whole_visit_works_over_http(sandbox: Sandbox, bolt: None) -> None:
    """Post, see the card, click, fill in the form wrongly, then rightly."""
    me = "UBEN00001"
    ts = do(sandbox, "say", **{"as": me}, channel="C0SUPPORT", text="@bot hello")["ts"]
    seen = sandbox.wait(
        lambda: [
            m for m in get(sandbox, f"state?as={me}")["messages"]["C0SUPPORT"] if "bot_id" in m
        ]
    )
    card = seen[0]
    assert card["thread_ts"] == ts
    block_id = card["blocks"][0]["block_id"]
    place = {"channel": "C0SUPPORT", "ts": card["ts"], "block_id": block_id}
    assert do(sandbox, "click", **{"as": me}, **place, action_id="open", value="v") == {"ok": True}
    (view,) = get(sandbox, f"state?as={me}")["views"]
    form = {"as": me, "view_id": view["id"]}

    def typed(value: str) -> Json:
        return {"field": {"text": {"type": "plain_text_input", "value": value}}}

    assert do(sandbox, "view/submit", **form, state=typed("bad")) == {
        "ok": True,
        "outcome": "errors",
        "errors": {"field": "not bad"},
    }
    assert (
        do(sandbox, "view/submit", **form, state={"values": typed("good")})["outcome"] == "closed"
    )
    assert get(sandbox, f"state?as={me}")["views"] == []
    assert do(sandbox, "click", **{"as": me}, **place, action_id="gone")["ok"] is False


def test_an_unacknowledged_click_shows_a_warning(sandbox: Sandbox, bolt: None) -> None:
    """A click that the app does not acknowledge shows Slack's warning."""
    do(sandbox, "say", **{"as": "UBEN00001"}, channel="C0SUPPORT", text="@bot hello")
    ben = sandbox.person("ben")
    card = sandbox.wait(lambda: [m for m in ben.everything("support") if "bot_id" in m])[0]
    sandbox.world.ack_seconds = 0.2
    answer = do(
        sandbox,
        "click",
        **{"as": ben.id},
        channel="C0SUPPORT",
        ts=card["ts"],
        block_id="b",
        action_id="x",
    )
    assert answer["ok"] is False
    assert "did not answer" in answer["message"]


def test_each_person_sees_their_own_state(sandbox: Sandbox, client: WebClient) -> None:
    """People see their channels, their DM with its prompts, nobody else's ephemeral messages."""
    client.chat_postEphemeral(channel="C0SUPPORT", user="UBEN00001", text="psst")
    client.chat_postMessage(channel="UBEN00001", text="in private")
    ben, gus = get(sandbox, "state?as=UBEN00001"), get(sandbox, "state?as=UGUS00001")
    assert [m["is_ephemeral"] for m in ben["messages"]["C0SUPPORT"]] == [True]
    assert gus["messages"]["C0SUPPORT"] == []
    assert {c["name"] for c in gus["channels"]} == {"support", "countersign"}
    (dm,) = [c for c in ben["channels"] if c["is_im"]]
    assert (dm["unread"], list(ben["prompts"])) == (1, [dm["id"]])
    assert [n["text"] for n in ben["notifications"]] == ["in private"]
    do(sandbox, "open", **{"as": "UBEN00001"}, channel=dm["id"])
    assert sandbox.deliveries[-1].event["type"] == "app_home_opened"
    (dm,) = [c for c in get(sandbox, "state?as=UBEN00001")["channels"] if c["is_im"]]
    assert dm["unread"] == 0


def test_the_event_stream_reports_visible_changes(sandbox: Sandbox, client: WebClient) -> None:
    """The event stream speaks when something changes that the person can see."""
    with urlopen(f"{sandbox.url}/sandbox/events?as=UBEN00001", timeout=5) as stream:
        first = json.loads(stream.readline().removeprefix(b"data: "))["seq"]
        stream.readline()
        client.chat_postMessage(channel="C0FINANCE", text="not for ben")
        not_for_ben = get(sandbox, "state?as=UANA00001")["seq"]
        client.chat_postMessage(channel="C0SUPPORT", text="for all")
        second = json.loads(stream.readline().removeprefix(b"data: "))["seq"]
        assert second > not_for_ben > first


def test_the_clock_moves_only_forward(sandbox: Sandbox) -> None:
    """A step back is refused."""
    before = get(sandbox, "state?as=UANA00001")["now"]
    assert do(sandbox, "clock", advance=3600)["now"] >= before + 3600
    assert do(sandbox, "clock", advance=-1)["ok"] is False


def test_people_are_listed_and_only_page_files_served(sandbox: Sandbox) -> None:
    """Unknown people are not found."""
    people = {p["name"]: p for p in get(sandbox, "people")}
    assert (people["zoe"]["deleted"], people["countersign"]["is_bot"]) == (True, True)
    with urlopen(f"{sandbox.url}/") as answer:
        assert answer.status == 200
    for path in ("sandbox/state?as=UNOBODY", "page/%2e%2e/server.py", "page/none.js"):
        with pytest.raises(HTTPError) as refused:
            urlopen(f"{sandbox.url}/{path}")
        assert refused.value.code == 404


def test_stop_tells_the_app_without_waiting(sandbox: Sandbox) -> None:
    """The page does not wait for the app."""
    ts = sandbox.person("ben").say("support", "hello")
    assert do(sandbox, "stop", **{"as": "UBEN00001"}, channel="C0SUPPORT", thread_ts=ts) == {
        "ok": True
    }
    assert sandbox.deliveries[-1].event["type"] == "agent_session_stopped"


def test_the_page_is_named_after_the_app() -> None:
    """Its title and heading are the name in the manifest, written as text."""
    manifest = full_manifest() | {"display_information": {"name": "Tea & <b>"}}
    with Sandbox(manifest) as sandbox, urlopen(sandbox.url) as answer:
        page = answer.read().decode()
    assert "<title>Tea &amp; &lt;b&gt;</title>" in page
    assert 'data-testid="title">Tea &amp; &lt;b&gt;</h1>' in page
