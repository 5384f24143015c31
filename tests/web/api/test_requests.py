"""Programs ask people over HTTP to approve calls of the bot's tools, and get the outcome."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from storage.models import Audit, Run
from tests.client_keys import revoke_key
from tests.stories.fakes import FakeTools
from tests.stories.harness import Harness
from tests.stories.messages import words
from tests.stories.steps import arrived, open_modal, reject, typed, vote
from tests.web.api.conftest import NewProgram
from tests.web.api.program import ACTION, SUPPORT

SECRETIVE = {
    "type": "object",
    "properties": {
        "version": {"type": "string"},
        "env": {"type": "string"},
        "token": {"type": "string", "writeOnly": True},
    },
}


def test_a_waiting_program_gets_the_result_of_an_approved_call(
    bot: Harness, fakes: FakeTools, new_program: NewProgram
) -> None:
    """The answer also says who decided. The card has the program's reason."""
    program = new_program()
    asked = program.note("over http", reason="The nightly job found it.")
    assert (asked["requester"], asked["handed_over"], asked["result"]) == ("UBEN00001", False, None)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(program.look, asked, 30)
        card = program.card("over http")
        says = f"The program “{program.name}” says:", "The nightly job found it."
        assert all(each in words(card) for each in says)
        vote(bot, "ana", card)
        ended = waiting.result(30)
    assert (ended["status"], ended["result"]) == ("succeeded", "noted over http")
    assert (ended["decided_by"], ended["revision"]) == (["UANA00001"], 1)
    assert ended["arguments"] == {"text": "over http"}
    assert ended["link"].startswith("http")
    assert fakes.did("note", "over http") == 1


def test_a_program_learns_of_edits_rejections_and_cancellations(
    bot: Harness, fakes: FakeTools, new_program: NewProgram
) -> None:
    """It gets the arguments that ran and the reason of a rejection."""
    program = new_program()
    edited, rejected, cancelled = (program.note(f"{each} by http") for each in ("e", "r", "c"))
    card = program.card("e by http")
    open_modal(bot, "ana", SUPPORT, card, "edit")
    bot.person("ana").submit(typed(text="as Ana wants it by http"))
    vote(bot, "cleo", program.card("as Ana wants it by http", "cleo"))
    ended = program.look(edited, 30)
    assert (ended["status"], ended["revision"]) == ("succeeded", 2)
    assert (ended["arguments"]["text"], ended["edited_by"]) == (
        "as Ana wants it by http",
        ["UANA00001"],
    )
    reject(bot, "ana", SUPPORT, program.card("r by http"), "not today")
    ended = program.look(rejected, 30)
    assert (ended["status"], ended["decided_by"]) == ("rejected", ["UANA00001"])
    assert "not today" in ended["note"]
    program.card("c by http")
    status, said = program.ask("POST", f"/v1/requests/{cancelled['id']}/cancel")
    assert (status, said["status"]) == (200, "cancelled")
    assert (
        program.ask("POST", f"/v1/requests/{cancelled['id']}/cancel")[0] == 200
    )  # it is cancelled already
    assert program.ask("POST", f"/v1/requests/{rejected['id']}/cancel")[0] == 409
    assert fakes.did("note", "c by http") == fakes.did("note", "r by http") == 0


def test_a_program_learns_of_deadlines_quorums_and_refusals(
    bot: Harness, fakes: FakeTools, new_program: NewProgram
) -> None:
    """The deadline is the program's own; a call that policy forbids asks nobody."""
    program = new_program()
    short = program.note("too late by http", deadline_seconds=120)
    program.card("too late by http")
    wiping = {"tool": "wipe", "arguments": {"text": "disk by http"}, "channel": "C0SUPPORT"}
    status, wipe = program.ask("POST", "/v1/requests", wiping)
    assert status == 201
    vote(bot, "ana", program.card("disk by http"))
    assert program.look(wipe)["status"] == "pending"
    bot.clock.advance(121)
    assert program.look(short, 30)["status"] == "expired"
    vote(bot, "cleo", program.card("disk by http", "cleo"))
    ended = program.look(wipe, 30)
    assert (ended["status"], set(ended["decided_by"])) == ("succeeded", {"UANA00001", "UCLEO0001"})
    forbidden = {"tool": "explode", "arguments": {"text": "by http"}}
    status, refused = program.ask("POST", "/v1/requests", forbidden)
    assert status == 201
    ended = program.look(refused, 30)
    assert (ended["status"], "nothing explodes here" in ended["note"]) == ("refused", True)


def test_policy_can_depend_on_the_program(
    bot: Harness, fakes: FakeTools, new_program: NewProgram
) -> None:
    """A rule with a condition on `client` allows one program to act without asking."""
    body = {"tool": "put", "arguments": {"text": "by a client"}}
    trusted, other = new_program("trusted"), new_program()
    _, done = trusted.ask("POST", "/v1/requests", body)
    _, asked = other.ask("POST", "/v1/requests", body)
    assert trusted.look(done, 30)["status"] == "succeeded"
    bot.settle()
    assert other.look(asked)["status"] == "pending"


def test_an_idempotency_key_makes_one_request_of_many(
    bot: Harness, new_program: NewProgram
) -> None:
    """Of many sent at once, one gets 201. The same call with another reason finds the request;
    another call with the key is a conflict. Other programs' keys are separate.
    """
    program, other = new_program(), new_program()
    body = {"tool": "note", "arguments": {"text": "once by http"}, "reason": "It is Monday."}
    head = {"Idempotency-Key": "job-7"}

    def ask(_: object) -> tuple[int, dict[str, Any]]:
        return program.ask("POST", "/v1/requests", body, **head)

    with ThreadPoolExecutor(5) as pool:
        answers = list(pool.map(ask, range(5)))
    assert sorted(status for status, _ in answers) == [200, 200, 200, 200, 201]
    [first] = {said["id"] for _, said in answers}
    bot.settle()
    later = {**body, "reason": "It is Tuesday.", "deadline_seconds": 60}
    status, said = program.ask("POST", "/v1/requests", later, **head)
    assert (status, said["id"], said["reason"]) == (200, first, "It is Monday.")
    for changed in (
        {"arguments": {"text": "something else"}},
        {"channel": "#support"},
        {"tool": "put"},
    ):
        status, said = program.ask("POST", "/v1/requests", body | changed, **head)
        assert (status, "Idempotency-Key job-7 was used" in said["detail"]) == (409, True)
    status, theirs = other.ask("POST", "/v1/requests", body, **head)
    assert (status, theirs["id"] != first) == (201, True)
    assert len(bot.all(Run, Run.client == program.name)) == 1


def test_an_idempotency_key_may_hold_only_while_its_request_is_open(
    new_program: NewProgram,
) -> None:
    """Until the request has ended, sending it again asks nobody; after that it is a new request."""
    program = new_program()
    body = {"tool": "note", "arguments": {"text": "while it is open"}, "while_open": True}
    head = {"Idempotency-Key": "again-and-again"}
    status, first = program.ask("POST", "/v1/requests", body, **head)
    status, repeated = program.ask("POST", "/v1/requests", body, **head)
    assert (status, repeated["id"]) == (200, first["id"])
    program.ask("POST", f"/v1/requests/{first['id']}/cancel", {})
    status, second = program.ask("POST", "/v1/requests", body, **head)
    assert (status, second["id"] != first["id"]) == (201, True)
    assert program.look(first)["status"] == "cancelled"
    status, repeated = program.ask("POST", "/v1/requests", body, **head)
    assert (status, repeated["id"]) == (200, second["id"])


def test_a_programs_question_is_answered_by_a_person(bot: Harness, new_program: NewProgram) -> None:
    """The answer is the result; it approves and runs nothing."""
    program = new_program()
    body = {"question": {"question": "Which shelf by http?"}, "channel": "#support"}
    status, asked = program.ask("POST", "/v1/questions", body)
    assert status == 201
    run = bot.slack.wait(
        lambda: next((each for each in bot.all(Run, Run.id == asked["id"]) if each.thread_ts), None)
    )
    message = bot.card(SUPPORT, run.thread_ts, "ben", "decline")
    assert "Which shelf by http?" in words(message)
    whose = f"he program “{program.name}”"
    assert f"t{whose} asks:" in words(message)
    bot.settle()
    bot.person("ben").open_home()
    bot.slack.wait(lambda: f"T{whose} asks you" in str(bot.person("ben").home()))
    view = open_modal(bot, "ben", SUPPORT, message, "answer")
    assert f"T{whose} gets your answer" in str(view)
    bot.person("ben").close_view()
    bot.person("ben").say(SUPPORT, "the upper one", run.thread_ts)
    status, said = program.ask("GET", f"/v1/questions/{asked['id']}?wait=30")
    assert (status, said["status"], said["decided_by"]) == (200, "answered", ["UBEN00001"])
    assert "the upper one" in str(said["result"])
    bot.slack.wait(lambda: f"Asked by t{whose}" in str(bot.person("ben").home()))
    [noted] = bot.all(Audit, Audit.event == "question.asked", Audit.run_id == run.id)
    assert noted.actor == "UBEN00001"


def test_a_programs_question_that_is_declined_has_no_result(
    bot: Harness, new_program: NewProgram
) -> None:
    """The program is told who declined."""
    program = new_program()
    body = {"question": {"question": "Which shelf, if any?"}, "channel": "#support"}
    _, asked = program.ask("POST", "/v1/questions", body)
    thread = bot.slack.wait(lambda: bot.run_of(asked["id"]).thread_ts)
    card = bot.card(SUPPORT, thread, "ben", "decline")
    bot.person("ben").click(SUPPORT, card["ts"], "decline")
    _, said = program.ask("GET", f"/v1/questions/{asked['id']}?wait=30")
    assert (said["status"], said["result"], said["decided_by"]) == ("answered", None, ["UBEN00001"])


def test_keys_and_requests_outlive_a_restart(
    bot: Harness, fakes: FakeTools, new_program: NewProgram
) -> None:
    """A waiting program is answered when the bot stops, and asks again.

    A revoked key stops working at once.
    """
    program = new_program()
    asked = program.note("over an http restart")
    card = program.card("over an http restart")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(program.look, asked, 60)
        for _ in range(3):  # so that the waiting request has time to arrive
            program.look(asked)
        bot.restart()
        assert waiting.result(30)["status"] == "pending"
    vote(bot, "ana", card)
    assert program.look(asked, 30)["status"] == "succeeded"
    arrived(bot)
    revoke_key(bot.app.core.store.path, program.name)
    status, said = program.ask("GET", f"/v1/requests/{asked['id']}")
    assert (status, said["title"]) == (401, "Unauthorized")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("requests", {"tool": "note", "arguments": {"text": "first row"}, "reason": "Because."}),
        (
            "requests",
            {"tool": "login", "arguments": {"account": "first row", "password": "hunter2"}},
        ),
        (
            "requests",
            {"action": ACTION, "arguments": {"version": "first row", "env": "prod"}},
        ),
        (
            "requests",
            {
                "action": {**ACTION, "schema": SECRETIVE},
                "arguments": {"version": "first row", "env": "prod", "token": "hunter2"},
            },
        ),
        ("questions", {"question": {"question": "What is the first row?", "why": "To know."}}),
    ],
)
def test_a_request_is_described_before_people_are_asked(
    path: str, body: dict[str, Any], bot: Harness, new_program: NewProgram
) -> None:
    """The first answers say the same as later ones: tool, arguments without secrets, requester,
    reason, and who executes it.
    """
    program = new_program()
    held = bot.slack.faults.hold("chat.postMessage", match=lambda args: "first row" in str(args))
    status, asked = program.ask("POST", f"/v1/{path}", {**body, "channel": "#support"})
    assert (status, asked["status"]) == (201, "preparing"), asked
    assert asked["tool"]
    assert asked["title"]
    assert "hunter2" not in str(asked)
    early = program.look(asked)
    assert (early["status"], pick_fixed_fields(early)) == ("preparing", pick_fixed_fields(asked))
    held.release()
    bot.slack.wait(lambda: program.look(asked)["status"] == "pending")
    assert pick_fixed_fields(program.look(asked)) == pick_fixed_fields(asked)


def pick_fixed_fields(stands: dict[str, Any]) -> dict[str, Any]:
    """Pick the fields of a request that do not change until people act."""
    names = ("id", "tool", "title", "effect", "arguments", "reason", "requester", "channel")
    return {name: stands[name] for name in (*names, "created_at", "handed_over")}


def test_a_request_cancelled_before_asking_is_still_described(
    bot: Harness, new_program: NewProgram
) -> None:
    """Nobody was asked, so there is no call."""
    program = new_program()
    held = bot.slack.faults.hold("chat.postMessage", match=lambda args: "never asked" in str(args))
    asked = program.deploy("never asked")
    status, gone = program.ask("POST", f"/v1/requests/{asked['id']}/cancel")
    assert (status, gone["status"], pick_fixed_fields(gone)) == (
        200,
        "cancelled",
        pick_fixed_fields(asked),
    )
    held.release()
