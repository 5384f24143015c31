"""Faults limited to one person, and calls that hang."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError

from sandbox.tests.builders import Json, buttons, modal
from sandbox.tests.refusals import code
from sandbox.tests.socket_app import HandApp
from slack_sandbox.server import Sandbox

ANA, BEN = "UANA00001", "UBEN00001"


def opened(sandbox: Sandbox, client: WebClient, who: str, **extra: Any) -> Json:
    """A modal that is open for that person."""
    ts = str(client.chat_postMessage(channel="C0SUPPORT", text="x", blocks=[buttons("go")])["ts"])
    trigger = sandbox.person(who).click("support", ts, "go").payload["trigger_id"]
    view: Json = client.views_open(trigger_id=trigger, view=modal(**extra))["view"]
    return view


def trigger_of(sandbox: Sandbox, client: WebClient, who: str) -> str:
    """A trigger from that person's click."""
    ts = str(client.chat_postMessage(channel="C0SUPPORT", text="x", blocks=[buttons("go")])["ts"])
    return str(sandbox.person(who).click("support", ts, "go").payload["trigger_id"])


Call = Callable[[Sandbox, WebClient, str], Any]
CALLS: list[tuple[str, Call]] = [
    ("users.info", lambda s, c, who: c.users_info(user=s.people[who].id)),
    (
        "chat.postEphemeral",
        lambda s, c, who: c.chat_postEphemeral(
            channel="C0SUPPORT", user=s.people[who].id, text="x"
        ),
    ),
    ("conversations.open", lambda s, c, who: c.conversations_open(users=[s.people[who].id])),
    (
        "chat.postMessage",
        lambda s, c, who: c.chat_postMessage(channel=s.person(who).dm_channel, text="x"),
    ),
    ("chat.postMessage", lambda s, c, who: c.chat_postMessage(channel=s.people[who].id, text="x")),
    (
        "assistant.threads.setSuggestedPrompts",
        lambda s, c, who: c.assistant_threads_setSuggestedPrompts(
            channel_id=s.person(who).dm_channel,
            thread_ts="",
            prompts=[{"title": "a", "message": "b"}],
        ),
    ),
    ("views.open", lambda s, c, who: c.views_open(trigger_id=trigger_of(s, c, who), view=modal())),
    (
        "views.update",
        lambda s, c, who: c.views_update(view_id=opened(s, c, who)["id"], view=modal()),
    ),
    (
        "views.update",
        lambda s, c, who: c.views_update(
            external_id=opened(s, c, who, external_id=str(len(s.requests)))["external_id"],
            view=modal(),
        ),
    ),
]


@pytest.mark.parametrize(("method", "call"), CALLS)
def test_a_fault_hits_its_person_alone(
    sandbox: Sandbox, client: WebClient, method: str, call: Call
) -> None:
    """A fault for Ana leaves Ben's call alone, hits hers, and is used up."""
    sandbox.faults.fail(method, "fatal_error", person="ana")
    call(sandbox, client, "ben")
    with pytest.raises(SlackApiError) as refused:
        call(sandbox, client, "ana")
    assert code(refused) == "fatal_error"
    call(sandbox, client, "ana")


def test_a_fault_for_an_unknown_person_is_refused(sandbox: Sandbox) -> None:
    """It raises an error, and no fault is set."""
    with pytest.raises(KeyError):
        sandbox.faults.drop("*", person="nobody")
    with pytest.raises(KeyError):
        sandbox.faults.lose_ack("interactive", person="nobody")
    assert sandbox.faults.waiting == []


def test_acknowledgements_of_one_person_can_be_lost(
    sandbox: Sandbox, client: WebClient, app: HandApp
) -> None:
    """Acknowledgements of Ana's click and message are lost; Ben's arrive."""
    ts = str(client.chat_postMessage(channel="C0SUPPORT", text="x", blocks=[buttons("go")])["ts"])
    app.take()
    sandbox.faults.lose_ack("interactive", person="ana")
    sandbox.faults.lose_ack("events_api", person="ana")
    outcomes = []
    for who in ("ben", "ana"):
        click = sandbox.person(who).click("support", ts, "go")
        app.take()
        outcomes.append(click.wait())
    assert outcomes == ["acked", "timeout"]
    sandbox.person("ben").say("support", "ben's")
    assert app.take()["retry_attempt"] == 0
    sandbox.person("ana").say("support", "ana's")
    assert [app.take()["retry_attempt"] for _ in range(2)] == [0, 1]
    assert sandbox.faults.waiting == []


@pytest.mark.parametrize(("when", "there"), [("before", []), ("after", ["x"])])
def test_a_hanging_call_is_not_answered(sandbox: Sandbox, when: Any, there: list[str]) -> None:
    """A call that hangs is not answered, with or without its effect.

    Clearing the faults ends it.
    """
    hasty = WebClient(sandbox.bot_token, base_url=sandbox.api_url, timeout=1, retry_handlers=[])
    sandbox.faults.hang("chat.postMessage", when=when)
    with pytest.raises(TimeoutError):
        hasty.chat_postMessage(channel="C0SUPPORT", text="x")
    assert [m["text"] for m in sandbox.person("ana").messages("support")] == there
    assert [r.status for r in sandbox.requests] == [0]
    sandbox.faults.clear()
    hasty.chat_postMessage(channel="C0SUPPORT", text="y")


def test_what_hangs_is_cut_when_faults_are_cleared(sandbox: Sandbox, client: WebClient) -> None:
    """The caller loses its connection."""
    sandbox.faults.hang("auth.test", times=2)
    with ThreadPoolExecutor() as pool:
        waiting = [pool.submit(client.auth_test) for _ in range(2)]
        sandbox.wait(lambda: len(sandbox.requests) == 2)
        assert not any(call.done() for call in waiting)
        sandbox.faults.clear()
        assert all(isinstance(call.exception(timeout=5), ConnectionError) for call in waiting)


def test_a_server_error_may_come_after_the_effect(sandbox: Sandbox, client: WebClient) -> None:
    """The answer is a 5xx although the message was posted."""
    sandbox.faults.status("chat.postMessage", 502, when="after")
    with pytest.raises(SlackApiError) as refused:
        client.chat_postMessage(channel="C0SUPPORT", text="posted all the same")
    assert refused.value.response.status_code == 502
    assert [m["text"] for m in sandbox.person("ana").messages("support")] == ["posted all the same"]
