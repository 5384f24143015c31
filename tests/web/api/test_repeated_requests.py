"""A program repeats a request: people are told what became of the first one."""

from __future__ import annotations

from datetime import timedelta

from tests.stories.harness import Harness
from tests.stories.messages import words
from tests.stories.steps import open_modal, typed, vote
from tests.web.api.conftest import NewProgram
from tests.web.api.program import ME, Program

DONE = "the same was done already for this program"
UNDER_WAY = "the same is being done already for this program"
UNKNOWN = "the same was started already for this program, with unknown outcome"


def ask_again(program: Program, version: str) -> str:
    """Ask for the same deployment once more, and cancel it; returns the text of its card."""
    request = program.deploy(version)
    said = words(program.card(f"Deploy {version}"))
    program.ask("POST", f"/v1/requests/{request['id']}/cancel")
    program.harness.settle()
    return said


def test_a_card_says_that_the_same_was_done_already(bot: Harness, new_program: NewProgram) -> None:
    """Also if people edited it. Not for another program, nor a long time afterwards."""
    program = new_program()
    request = program.deploy("1.4.2")
    open_modal(bot, "ana", "C0SUPPORT", program.card("Deploy 1.4.2"), "edit")
    bot.person("ana").submit(typed(version="1.4.3"))
    vote(bot, "cleo", program.card("Deploy 1.4.3", "cleo"))
    assert "already for this program" not in ask_again(
        program, "1.4.2"
    )  # it is not certain that it begins
    claim = f"/v1/requests/{request['id']}/claim"
    assert program.ask("POST", claim, {"claimant": ME})[0] == 200
    assert UNDER_WAY in ask_again(program, "1.4.2")
    outcome = {"claimant": ME, "succeeded": None, "result": "handed on"}
    program.ask("POST", f"/v1/requests/{request['id']}/outcome", outcome)
    assert UNKNOWN in ask_again(program, "1.4.3")
    outcome = {"claimant": ME, "succeeded": True, "result": "done in 40 s"}
    program.ask("POST", f"/v1/requests/{request['id']}/outcome", outcome)
    assert DONE in ask_again(program, "1.4.2")
    assert DONE in ask_again(program, "1.4.3")
    assert "already for this program" not in ask_again(program, "1.4.4")
    assert "already for this program" not in ask_again(new_program(), "1.4.2")
    late = program.deploy("1.4.2")
    assert DONE in words(program.card("Deploy 1.4.2"))
    bot.clock.advance(timedelta(hours=4).total_seconds())
    ended = program.look(late, 30)
    assert (ended["status"], ended["note"]) == ("expired", "")
    assert "already for this program" not in ask_again(program, "1.4.2")
