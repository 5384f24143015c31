"""A secret within the arguments, at no top of them, is on no surface: in a model, a list, an object
that is open.
"""

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
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import words
from tests.stories.steps import all_sent, ask, menu, now_at, open_modal

KEYS = ("horse-4711-battery", "staple-0815-correct", "paper-1234-clip")


class Login(BaseModel):
    """Where, and with what."""

    user: str = Field(title="User")
    key: SecretStr = Field(title="Key")


class Backup(BaseModel):
    """A secret in a model, one in a list of models, one in an open object."""

    target: str = Field(title="Target")
    login: Login = Field(title="Login")
    others: list[Login] = Field(title="Others")
    headers: dict[str, SecretStr] = Field(title="Headers")


def opened(args: Backup) -> list[str]:
    """Its secrets."""
    all_of = [args.login.key, *(each.key for each in args.others), *args.headers.values()]
    return [each.get_secret_value() for each in all_of]


def foreseen(args: Backup, context: ToolContext) -> Preview:
    """A preview that quotes them all."""
    return Preview(f"goes to {args.target} with {opened(args)}")


@tool(
    title="Back up",
    effect="Back up {target} as {login} with {others} and {headers}",
    does=Effect.WRITE,
    preview=foreseen,
    step=lambda args: f"backing up with {json.dumps(opened(args))}",
    outcome=lambda args, _done: f"backed up with {' '.join(opened(args))}",
)
def back_up(args: Backup, context: ToolContext) -> dict[str, Any]:
    """Back something up."""
    if args.target == "nowhere":
        raise RuntimeError(f"no place for {opened(args)!r}")
    return {"with": opened(args)}


def told(harness: Harness) -> str:
    """All that Slack was sent, and all of the audit."""
    sent = [repr(each) for each in harness.slack.requests]
    return "\n".join([*sent, *(row.data for row in harness.all(Audit))])


@pytest.mark.parametrize("target", ["the shop", "nowhere"])
def test_a_secret_within_is_on_no_surface(
    own_harness: Callable[..., Harness], caplog: pytest.LogCaptureFixture, target: str
) -> None:
    """Neither on card, Edit, Review, Home and thread, nor in the terminal, the audit or the log."""
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
        life = find_request_report(
            tx, harness.app.core.tools, call.id, harness.app.core.clock.now()
        )
    everything = "\n".join([told(harness), repr(life), caplog.text])
    assert everything.count(MASK) > 50
    for key in KEYS:
        assert key not in everything, everything[everything.index(key) - 300 :][:600]
    assert KEYS[0] in harness.outputs()[-1]["output"] or target == "nowhere"
