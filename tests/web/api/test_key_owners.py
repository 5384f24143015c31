"""A request belongs to the key that made it, and to a key that replaces that one."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from bot.cli.bot_connection import BotRefusedError
from storage.models import Run
from tests.client_keys import revoke_key
from tests.stories.harness import Harness
from tests.stories.steps import ask_for, vote
from tests.web.api.conftest import NewProgram, make_program_key
from tests.web.api.program import ME, Program
from tests.web.api.test_hooks import PATH, build_use

OTHERS: dict[str, dict[str, Any]] = {
    "another person": {"person": "@cleo"},
    "fewer tools": {"tools": ("deploy",)},
    "other tools": {"tools": ("note", "deploy", "put")},
    "any colleague's name": {"service": True},
    "another person and a webhook": {"person": "@cleo", "webhook": "http://127.0.0.1:1/told"},
}
FIRST: dict[str, Any] = {"person": "@ben", "tools": ("note", "deploy", "claude_*")}


def replace_key(bot: Harness, name: str, **more: Any) -> Program:
    """Make a key of that name, after revoking the one before."""
    with suppress(BotRefusedError):  # there was none before
        revoke_key(bot.app.core.store.path, name)
    told = make_program_key(bot, name, **{**FIRST, **more})
    return Program(bot, told.key, name)


@pytest.mark.parametrize("name", OTHERS)
def test_a_new_key_of_the_same_name_is_another_program(name: str, bot: Harness) -> None:
    """It cannot read, claim, report or cancel requests of the earlier one, nor find them by their
    Idempotency-Key.
    """
    client = f"renamed-{list(OTHERS).index(name)}"
    first = replace_key(bot, client)
    asked, held = first.deploy("w.1"), first.deploy("w.2")
    status, mine = first.ask(
        "POST",
        "/v1/requests",
        {"tool": "note", "arguments": {"text": "mine"}, "requester": "UBEN00001"},
        **{"Idempotency-Key": "job-1"},
    )
    assert status == 201
    assert first.ask("POST", PATH, build_use("make mine"), Prefer="respond-async, wait=0")[0] == 202
    vote(bot, "ana", first.card("Deploy w.2"))
    assert first.look(held, 30)["status"] == "approved"
    assert first.claim(held)[0] == 200
    other = replace_key(bot, client, **OTHERS[name])
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
    assert other.ask("POST", PATH, build_use("make mine", "PostToolUse")) == (200, {})
    assert len(bot.all(Run)) == before
    listed = other.ask("GET", "/v1/requests")[1]["requests"]
    assert {each["id"] for each in listed}.isdisjoint({asked["id"], held["id"], mine["id"]})


def test_a_key_with_the_same_owner_and_tools_replaces_another(bot: Harness) -> None:
    """A key was lost; the new one can go on with its requests."""
    first = replace_key(bot, "rotated")
    held = first.deploy("w.3")
    vote(bot, "ana", first.card("Deploy w.3"))
    first.look(held, 30)
    assert first.claim(held)[0] == 200
    second = replace_key(bot, "rotated", tools=("claude_*", "deploy", "note"))
    assert second.look(held)["status"] == "running"
    assert second.report(held, "done", ME)[0] == 200
    back = replace_key(bot, "rotated", person="@cleo")
    assert back.ask("GET", f"/v1/requests/{held['id']}")[0] == 404
    assert replace_key(bot, "rotated").look(held)["status"] == "succeeded"


def test_a_key_has_its_own_limit_beside_its_owners(bot: Harness, new_program: NewProgram) -> None:
    """Its owner's limits in Slack do not apply to its requests, and are not used up by them. Beyond
    the key's limit, the refusal says when to come back.
    """
    bot.limits = {"max_asked_per_hour": 2, "max_pending": 2}
    try:
        bot.restart()
        program = new_program(per_hour=6)
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
