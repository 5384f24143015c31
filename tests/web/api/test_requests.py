"""Programs put calls of the bot's tools before people over HTTP, and hear how they ended."""

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
from tests.web.api.conftest import Asks
from tests.web.api.program import ACTION, SUPPORT

SECRETIVE = {
    "type": "object",
    "properties": {
        "version": {"type": "string"},
        "env": {"type": "string"},
        "token": {"type": "string", "writeOnly": True},
    },
}


def test_people_approve_and_the_waiting_program_hears_it(
    bot: Harness, fakes: FakeTools, asks: Asks
) -> None:
    """It asks, waits, and hears the result with who decided; the card says why it asks."""
    program = asks()
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


def test_edited_rejected_and_taken_back(bot: Harness, fakes: FakeTools, asks: Asks) -> None:
    """The arguments are those that ran, a rejection comes with its words, what is over is over."""
    program = asks()
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
    assert program.ask("POST", f"/v1/requests/{cancelled['id']}/cancel")[0] == 200  # it is
    assert program.ask("POST", f"/v1/requests/{rejected['id']}/cancel")[0] == 409
    assert fakes.did("note", "c by http") == fakes.did("note", "r by http") == 0


def test_a_deadline_a_quorum_and_a_refusal(bot: Harness, fakes: FakeTools, asks: Asks) -> None:
    """The program's own deadline falls; two have to agree; what policy forbids asks nobody."""
    program = asks()
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


def test_policy_knows_which_program_asks(bot: Harness, fakes: FakeTools, asks: Asks) -> None:
    """A rule's condition on `client` lets one program do what others ask for."""
    body = {"tool": "put", "arguments": {"text": "by a client"}}
    trusted, other = asks("trusted"), asks()
    _, done = trusted.ask("POST", "/v1/requests", body)
    _, asked = other.ask("POST", "/v1/requests", body)
    assert trusted.look(done, 30)["status"] == "succeeded"
    bot.settle()
    assert other.look(asked)["status"] == "pending"


def test_the_same_key_asks_once(bot: Harness, asks: Asks) -> None:
    """An Idempotency-Key makes one request of many sent at once, and one 201; the same call asked
    otherwise is found again; another call with it is a conflict, another program's its own.
    """
    program, other = asks(), asks()
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
        assert (status, "job-7" in said["detail"]) == (409, True)
    status, theirs = other.ask("POST", "/v1/requests", body, **head)
    assert (status, theirs["id"] != first) == (201, True)
    assert len(bot.all(Run, Run.client == program.name)) == 1


def test_a_key_may_stand_for_what_is_open_only(asks: Asks) -> None:
    """Until the request has ended, sending it again asks nobody; then it is asked anew, and counts
    as another request of that hour.
    """
    program = asks()
    body = {"tool": "note", "arguments": {"text": "while it is open"}, "while_open": True}
    head = {"Idempotency-Key": "again-and-again"}
    status, first = program.ask("POST", "/v1/requests", body, **head)
    status, same = program.ask("POST", "/v1/requests", body, **head)
    assert (status, same["id"]) == (200, first["id"])
    program.ask("POST", f"/v1/requests/{first['id']}/cancel", {})
    status, second = program.ask("POST", "/v1/requests", body, **head)
    assert (status, second["id"] != first["id"]) == (201, True)
    assert program.look(first)["status"] == "cancelled"
    status, same = program.ask("POST", "/v1/requests", body, **head)
    assert (status, same["id"]) == (200, second["id"])


def test_a_question_is_answered(bot: Harness, asks: Asks) -> None:
    """What a person says is the result; it approves nothing, and runs nothing."""
    program = asks()
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
    assert (status, said["status"]) == (200, "answered")
    assert "the upper one" in str(said["result"])
    bot.slack.wait(lambda: f"Asked by t{whose}" in str(bot.person("ben").home()))
    [noted] = bot.all(Audit, Audit.event == "question.asked", Audit.run_id == run.id)
    assert noted.actor == "UBEN00001"


def test_it_goes_on_over_a_restart(bot: Harness, fakes: FakeTools, asks: Asks) -> None:
    """Keys and requests outlive the process; who waits while it stops is answered, and asks again.

    A key that is revoked is none from that moment on.
    """
    program = asks()
    asked = program.note("over an http restart")
    card = program.card("over an http restart")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(program.look, asked, 60)
        for _ in range(3):  # time for it to arrive
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
def test_a_request_knows_from_its_first_row_what_it_is(
    path: str, body: dict[str, Any], bot: Harness, asks: Asks
) -> None:
    """The answer to asking, and each look before people are asked, say the same as later ones:
    what, with which arguments (no secret among them), for whom, why, and who executes it.
    """
    program = asks()
    held = bot.slack.faults.hold("chat.postMessage", match=lambda args: "first row" in str(args))
    status, asked = program.ask("POST", f"/v1/{path}", {**body, "channel": "#support"})
    assert (status, asked["status"]) == (201, "preparing"), asked
    assert asked["tool"]
    assert asked["title"]
    assert "hunter2" not in str(asked)
    early = program.look(asked)
    assert (early["status"], same(early)) == ("preparing", same(asked))
    held.release()
    bot.slack.wait(lambda: program.look(asked)["status"] == "pending")
    assert same(program.look(asked)) == same(asked)


def same(stands: dict[str, Any]) -> dict[str, Any]:
    """What of a request does not change until people do something about it."""
    names = ("id", "tool", "title", "effect", "arguments", "reason", "requester", "channel")
    return {name: stands[name] for name in (*names, "created_at", "handed_over")}


def test_a_request_that_was_taken_back_at_once_still_says_what_it_was(
    bot: Harness, asks: Asks
) -> None:
    """Nobody was asked, and so there is no call."""
    program = asks()
    held = bot.slack.faults.hold("chat.postMessage", match=lambda args: "never asked" in str(args))
    asked = program.deploy("never asked")
    status, gone = program.ask("POST", f"/v1/requests/{asked['id']}/cancel")
    assert (status, gone["status"], same(gone)) == (200, "cancelled", same(asked))
    held.release()
