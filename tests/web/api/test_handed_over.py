"""Handed-over calls: approved by people, claimed once, executed and reported by the program."""

from __future__ import annotations

import copy
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from storage.programs import CLAIM_LEASE_DURATION
from storage.states import RunStatus
from tests.stories.harness import Harness
from tests.stories.messages import action_ids, words
from tests.stories.steps import open_modal, typed, vote
from tests.web.api.conftest import NewProgram
from tests.web.api.program import ACTION, ME, SUPPORT


def test_a_claim_returns_the_arguments_as_edited_and_approved(
    bot: Harness, new_program: NewProgram
) -> None:
    """The reported outcome is on the card."""
    program = new_program()
    asked = program.deploy("1.4.2-edited")
    assert program.claim(asked)[0] == 409
    open_modal(bot, "ana", SUPPORT, program.card("1.4.2-edited"), "edit")
    bot.person("ana").submit(typed(version="1.4.3-edited"))
    vote(bot, "cleo", card := program.card("1.4.3-edited", "cleo"))
    stands = program.look(asked, 30)
    assert (stands["status"], stands["handed_over"], stands["tool"]) == ("approved", True, "deploy")
    status, claimed = program.claim(asked)
    assert status == 200, claimed
    assert claimed["arguments"] == {"version": "1.4.3-edited", "env": "prod"}
    assert (claimed["revision"], claimed["digest"]) == (2, stands["digest"])
    assert claimed["lease_seconds"] == CLAIM_LEASE_DURATION.total_seconds()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(program.look, asked, 30)
        status, said = program.report(asked, {"took": "40 s"})
        assert (status, said["status"]) == (200, "succeeded")
        assert waiting.result(30)["result"] == {"took": "40 s"}
    assert program.report(asked, {"took": "40 s"})[0] == 200
    bot.settle()
    assert "40 s" in words(
        next(m for m in bot.person("ana").everything(SUPPORT) if m["ts"] == card["ts"])
    )


def test_a_default_of_the_schema_is_shown_and_handed_out(
    bot: Harness, new_program: NewProgram
) -> None:
    """A program would run it, so people see it."""
    program = new_program()
    schema = copy.deepcopy(ACTION["schema"])
    schema["properties"]["copies"] = {"type": "integer", "default": 7}
    asked = program.deploy("1.5-default", action={**ACTION, "schema": schema})
    card = program.card("1.5-default")
    shown = words(card)
    assert "Copies" in shown
    assert '"7"' in shown
    vote(bot, "ana", card)
    assert program.look(asked, 30)["status"] == "approved"
    assert program.claim(asked)[1]["arguments"] == {
        "version": "1.5-default",
        "env": "prod",
        "copies": 7,
    }


def test_only_one_of_many_claimants_gets_the_call(bot: Harness, new_program: NewProgram) -> None:
    """It may claim the call again; the others never get it."""
    program = new_program()
    asked = program.deploy("2.0-raced")
    vote(bot, "ana", program.card("2.0-raced"))
    assert program.look(asked, 30)["status"] == "approved"
    names = [f"claimant-number-{each:04}" for each in range(4)]
    with ThreadPoolExecutor(4) as pool:
        claimed = list(pool.map(lambda each: program.claim(asked, each), names))
    found = dict(zip(names, claimed, strict=True))
    [mine] = [name for name, (status, _) in found.items() if status == 200]
    assert sorted(status for status, _ in found.values()) == [200, 409, 409, 409]
    assert program.claim(asked, mine)[1]["arguments"] == {"version": "2.0-raced", "env": "prod"}
    other = next(each for each in names if each != mine)
    assert program.report(asked, "mine!", other)[0] == 409
    assert program.ask("POST", f"/v1/requests/{asked['id']}/cancel")[0] == 409
    status, said = program.report(asked, "the disk is full", mine, succeeded=False)
    assert (status, said["status"], said["result"]) == (200, "failed", None)
    assert program.report(asked, "it worked!", mine)[0] == 409


def test_a_renewed_claim_outlives_its_lease_and_a_restart(
    bot: Harness, new_program: NewProgram
) -> None:
    """If it is not renewed, the call is unknown, until a late report."""
    program = new_program()
    asked = program.deploy("3.0-late")
    vote(bot, "ana", program.card("3.0-late"))
    program.look(asked, 30)
    assert program.claim(asked)[0] == 200
    half = CLAIM_LEASE_DURATION.total_seconds() * 0.6
    bot.clock.advance(half)
    assert program.claim(asked)[0] == 200
    bot.restart()
    bot.clock.advance(half)
    bot.settle()
    assert program.look(asked)["status"] == "running"
    bot.clock.advance(half)
    assert program.look(asked, 30)["status"] == "unknown"
    assert program.claim(asked, ME[::-1])[0] == 409
    status, said = program.report(asked, "it took long")
    assert (status, said["status"], said["result"]) == (200, "succeeded", "it took long")


def test_a_call_handed_on_to_another_system_is_not_reported_as_done(
    bot: Harness, new_program: NewProgram
) -> None:
    """The program cannot say how it went: nobody is asked, and a later report counts."""
    program = new_program()
    asked = program.deploy("5.0-handed-on")
    vote(bot, "ana", card := program.card("5.0-handed-on"))
    program.look(asked, 30)
    assert program.report(asked, "too early")[1]["detail"] == "Nobody has claimed it."
    assert program.claim(asked)[0] == 200
    for _ in range(2):
        status, said = program.report(asked, "It was given to the runner.", succeeded=None)
        assert (status, said["status"], said["result"]) == (200, "unknown", None)
    bot.settle()
    assert bot.run_of(asked["id"]).status is RunStatus.COMPLETED
    shown = find_card(bot, card)
    assert shown["text"].startswith("Handed over: Deploy 5.0-handed-on to prod.")
    assert ": the program that asked has not said how it went" in words(shown)
    assert "It was given to the runner." in words(shown)
    assert "resolve_done" not in action_ids(shown)
    told = [each["text"] for each in bot.thread(SUPPORT, bot.run_of(asked["id"]).thread_ts)]
    assert sum("📤 Handed over: Deploy 5.0-handed-on to prod" in each for each in told) == 1
    assert not any("nobody knows" in each.lower() for each in told)
    assert program.report(asked, "mine", ME[::-1])[0] == 409
    status, said = program.report(asked, "exit code 3", succeeded=False)
    assert (status, said["status"], said["note"]) == (200, "failed", "exit code 3")
    bot.settle()
    assert "Handed over" not in words(find_card(bot, card))
    assert "exit code 3" in words(find_card(bot, card))


def test_a_claim_may_ask_for_a_longer_lease(bot: Harness, new_program: NewProgram) -> None:
    """The default is five minutes; the maximum is an hour."""
    program = new_program()
    asked = program.deploy("6.0-quiet")
    vote(bot, "ana", program.card("6.0-quiet"))
    program.look(asked, 30)
    assert program.claim(asked, lease_seconds=3_601)[0] == 422
    status, said = program.claim(asked, lease_seconds=900)
    assert (status, said["lease_seconds"]) == (200, 900)
    bot.clock.advance(800)
    bot.settle()
    assert program.look(asked)["status"] == "running"
    bot.clock.advance(101)
    assert program.look(asked, 30)["status"] == "unknown"


def find_card(bot: Harness, card: dict[str, Any]) -> dict[str, Any]:
    """Find the card as it is now."""
    seen = bot.person("ana").everything(SUPPORT)
    return next(m for m in seen if m["ts"] == card["ts"])


def test_an_invalid_action_is_refused_with_its_field(new_program: NewProgram) -> None:
    """Nobody can be asked about such a description."""
    program = new_program()
    for action, at, part in (
        ({"name": "deploy", "title": "D", "effect": "Deploy {what}"}, "action", "what"),
        ({"name": "note", "title": "D", "effect": "Deploy"}, "action", "note"),
        ({"name": "no name", "title": "D", "effect": "Deploy"}, "action.name", "letters"),
        ({"name": "deploy", "title": "D", "effect": "E", "does": "x"}, "action.does", "read"),
    ):
        status, said = program.ask("POST", "/v1/requests", {"action": action})
        assert status == 422, said
        [error] = said["errors"]
        assert (error["field"], part in error["message"]) == (at, True), error
