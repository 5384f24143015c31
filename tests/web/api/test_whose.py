"""Whose a request is: the key's that asked it, and of one that goes on for that key."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from bot.cli.bot_connection import BotRefusedError
from storage.models import Run
from tests.client_keys import revoke_key
from tests.stories.harness import Harness
from tests.stories.steps import ask_for, vote
from tests.web.api.conftest import Asks, key_of
from tests.web.api.program import ME, Program
from tests.web.api.test_hooks import PATH, use

OTHERS: dict[str, dict[str, Any]] = {
    "another person": {"person": "@cleo"},
    "fewer tools": {"tools": ("deploy",)},
    "other tools": {"tools": ("note", "deploy", "put")},
    "any colleague's name": {"service": True},
    "another person and a webhook": {"person": "@cleo", "webhook": "http://127.0.0.1:1/told"},
}
FIRST: dict[str, Any] = {"person": "@ben", "tools": ("note", "deploy", "claude_*")}


def made(bot: Harness, name: str, **more: Any) -> Program:
    """A key of that name, once the one before is revoked."""
    with suppress(BotRefusedError):  # there was none
        revoke_key(bot.app.core.store.path, name)
    told = key_of(bot, name, **{**FIRST, **more})
    return Program(bot, told.key, name)


@pytest.mark.parametrize("name", OTHERS)
def test_a_key_of_the_same_name_is_another_program(name: str, bot: Harness) -> None:
    """It reads nothing of what the earlier one asked, claims and reports nothing, takes nothing
    back, and finds nothing by what that one asked it with.
    """
    client = f"renamed-{list(OTHERS).index(name)}"
    first = made(bot, client)
    asked, held = first.deploy("w.1"), first.deploy("w.2")
    status, mine = first.ask(
        "POST",
        "/v1/requests",
        {"tool": "note", "arguments": {"text": "mine"}, "requester": "UBEN00001"},
        **{"Idempotency-Key": "job-1"},
    )
    assert status == 201
    assert first.ask("POST", PATH, use("make mine"), Prefer="respond-async, wait=0")[0] == 202
    vote(bot, "ana", first.card("Deploy w.2"))
    assert first.look(held, 30)["status"] == "approved"
    assert first.claim(held)[0] == 200
    other = made(bot, client, **OTHERS[name])
    for each in (asked, held, mine):
        assert other.ask("GET", f"/v1/requests/{each['id']}")[0] == 404
        assert other.ask("GET", f"/v1/questions/{each['id']}")[0] == 404
        assert other.claim(each)[0] == 404
        assert other.report(each, "done", ME)[0] == 404
        assert other.ask("POST", f"/v1/requests/{each['id']}/cancel")[0] == 404
    again = {"tool": "note", "arguments": {"text": "mine"}, "requester": "UBEN00001"}
    status, said = other.ask("POST", "/v1/requests", again, **{"Idempotency-Key": "job-1"})
    assert status in (403, 409), said
    assert mine["id"] not in str(said)
    before = len(bot.all(Run))
    assert other.ask("POST", PATH, use("make mine", "PostToolUse")) == (200, {})
    assert len(bot.all(Run)) == before
    listed = other.ask("GET", "/v1/requests")[1]["requests"]
    assert {each["id"] for each in listed}.isdisjoint({asked["id"], held["id"], mine["id"]})


def test_a_key_that_goes_on_for_another(bot: Harness) -> None:
    """The same person answers for both, for the same tools: a key was lost, and is replaced."""
    first = made(bot, "rotated")
    held = first.deploy("w.3")
    vote(bot, "ana", first.card("Deploy w.3"))
    first.look(held, 30)
    assert first.claim(held)[0] == 200
    second = made(bot, "rotated", tools=("claude_*", "deploy", "note"))
    assert second.look(held)["status"] == "running"
    assert second.report(held, "done", ME)[0] == 200
    back = made(bot, "rotated", person="@cleo")
    assert back.ask("GET", f"/v1/requests/{held['id']}")[0] == 404
    assert made(bot, "rotated").look(held)["status"] == "succeeded"


def test_a_key_has_a_limit_of_its_own(bot: Harness, asks: Asks) -> None:
    """What it asks is held by that alone, at once, with the time to come back at; its person's
    limits for Slack neither hold it nor are used up by it.
    """
    bot.limits = {"max_asked_per_hour": 2, "max_pending": 2}
    try:
        bot.restart()
        program = asks(per_hour=6)
        asked = [program.note(f"by a key {number}") for number in range(6)]
        for each in asked:
            bot.slack.wait(lambda each=each: program.look(each)["status"] != "preparing")  # type: ignore[misc]  # a default binds it
            assert program.look(each)["status"] == "pending"
        body = {"tool": "note", "arguments": {"text": "one too many"}, "channel": "#support"}
        status, headers, _ = program.raw("POST", "/v1/requests", body, {})
        assert status == 429
        assert 0 < int(headers["Retry-After"]) <= 3_601
        assert len(bot.all(Run, Run.client == program.name)) == 6
        _, card = ask_for(bot, "by Ben himself")
        assert card
    finally:
        bot.limits = {}
        bot.restart()
