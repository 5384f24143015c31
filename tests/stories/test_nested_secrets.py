"""Nested secret arguments are never shown: in a model, in a list, in an open object."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel, Field, SecretStr

from bot.terminal.request_reports import find_request_report
from bot.tools import Effect, Preview, ToolContext, tool
from storage.masking import MASK
from storage.models import Audit
from storage.states import CallStatus
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import words
from tests.stories.steps import all_sent, ask, menu, now_at, open_modal
from tests.stories.test_programs import get_program_requests, wait_for_end

KEYS = ("horse-4711-battery", "staple-0815-correct", "paper-1234-clip")


class Login(BaseModel):
    """A user name and a secret key."""

    user: str = Field(title="User")
    key: SecretStr = Field(title="Key")


class Backup(BaseModel):
    """One secret in a model, one in a list of models, one in an open object."""

    target: str = Field(title="Target")
    login: Login = Field(title="Login")
    others: list[Login] = Field(title="Others")
    headers: dict[str, SecretStr] = Field(title="Headers")


def list_secrets(args: Backup) -> list[str]:
    """Return all secrets of these arguments."""
    all_of = [args.login.key, *(each.key for each in args.others), *args.headers.values()]
    return [each.get_secret_value() for each in all_of]


def preview_with_secrets(args: Backup, context: ToolContext) -> Preview:
    """A preview that quotes all secrets."""
    return Preview(f"goes to {args.target} with {list_secrets(args)}")


@tool(
    title="Back up",
    effect="Back up {target} as {login} with {others} and {headers}",
    does=Effect.WRITE,
    preview=preview_with_secrets,
    step=lambda args: f"backing up with {json.dumps(list_secrets(args))}",
    outcome=lambda args, _done: f"backed up with {' '.join(list_secrets(args))}",
)
def back_up(args: Backup, context: ToolContext) -> dict[str, Any]:
    """Back something up."""
    if args.target == "nowhere":
        raise RuntimeError(f"no place for {list_secrets(args)!r}")
    return {"with": list_secrets(args)}


def collect_requests_and_audit(harness: Harness) -> str:
    """Return all requests to Slack and the whole audit."""
    sent = [repr(each) for each in harness.slack.requests]
    return "\n".join([*sent, *(row.data + row.payload for row in harness.all(Audit))])


@pytest.mark.parametrize("target", ["the shop", "nowhere"])
def test_nested_secrets_are_masked_everywhere(
    own_harness: Callable[..., Harness], caplog: pytest.LogCaptureFixture, target: str
) -> None:
    """On the card, in Edit, Review, Home, thread, terminal, audit and log."""
    caplog.set_level(logging.INFO)
    harness = own_harness([back_up])
    given = {
        "target": "somewhere",
        "login": {"user": "root", "key": KEYS[0]},
        "others": [{"user": "guest", "key": KEYS[1]}],
        "headers": {"x-key": KEYS[2]},
    }
    thread = ask(harness, ("back_up", given))
    card = harness.card(SUPPORT, thread)
    assert words(card).count(MASK) >= 3
    harness.person("ana").open_home()
    open_modal(harness, "ana", SUPPORT, card, "edit")
    harness.person("ana").submit({"f:target": {"v": {"value": target}}})
    harness.said(SUPPORT, thread, "✏️")
    harness.settle()
    edited = now_at(harness, SUPPORT, card["ts"])
    menu(harness, "cleo", edited, "review")
    assert MASK in words(harness.slack.wait(harness.person("cleo").view))
    assert harness.person("cleo").submit()["outcome"] == "closed"
    harness.said(SUPPORT, thread, "That is all.")
    all_sent(harness)
    harness.person("ana").open_home()
    harness.settle()
    [call] = harness.calls_in(thread)
    with harness.app.core.store.read() as tx:
        report = find_request_report(
            tx, harness.app.core.tools, call.id, harness.app.core.clock.now()
        )
    everything = "\n".join([collect_requests_and_audit(harness), repr(report), caplog.text])
    assert everything.count(MASK) > 50
    for key in KEYS:
        assert key not in everything, everything[everything.index(key) - 300 :][:600]
    assert KEYS[0] in harness.outputs()[-1]["output"] or target == "nowhere"


def test_a_program_requests_tool_gets_its_secrets(own_harness: Callable[..., Harness]) -> None:
    """What a program gives as a secret is masked for people, and reaches the tool as it is."""
    received: list[list[str]] = []

    @tool(title="Keep the keys", effect="Keep the keys of {target}", does=Effect.WRITE)
    def keep_keys(args: Backup, context: ToolContext) -> str:
        """Keep keys."""
        received.append(list_secrets(args))
        return "kept"

    harness = own_harness([keep_keys])
    given = {
        "target": "the shop",
        "login": {"user": "root", "key": KEYS[0]},
        "others": [{"user": "guest", "key": KEYS[1]}],
        "headers": {"x-key": KEYS[2]},
    }
    found = get_program_requests(harness).ask(
        "keep_keys", given, requester="UBEN00001", channel=SUPPORT, key="keys of the shop"
    )
    card = harness.slack.wait(
        lambda: next(
            (each for each in harness.person("ana").everything(SUPPORT) if MASK in words(each)),
            None,
        )
    )
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    assert wait_for_end(harness, found).status is CallStatus.SUCCEEDED
    assert received == [list(KEYS)]
    everything = collect_requests_and_audit(harness)
    assert not [each for each in KEYS if each in everything]
