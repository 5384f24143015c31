"""Tools of an MCP server in Slack: approving, editing, running, and the server's questions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bot.demo.model_server import Turn
from bot.mcp.server_connection import fetch_tool_definitions
from bot.mcp.server_file import write_accepted_tools
from storage.models import Audit
from storage.states import CallStatus
from tests.servers.support import over_http
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import words
from tests.stories.steps import arrived, ask, now_at, open_modal, typed, waiting

C = CallStatus


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """A bot with the tools of an MCP server called depot."""
    folder = tmp_path_factory.mktemp("depot")
    with over_http(folder) as server:
        (folder / "servers.toml").write_text(f'[[server]]\nname = "depot"\nurl = "{server.url}"\n')
        write_accepted_tools(
            folder / "servers.lock.json", {"depot": fetch_tool_definitions(server)}
        )
        made = Harness(
            folder, COUNTERSIGN_SERVERS=str(folder / "servers.toml"), COUNTERSIGN_LEASE="3600"
        )
        yield made
        made.close()


def read_sent_parcels(harness: Harness) -> list[str]:
    """Return the parcels that the depot has sent."""
    path: Path = harness.folder / "parcels"
    return path.read_text().splitlines() if path.exists() else []


def test_a_servers_tool_is_edited_approved_and_run_once(harness: Harness) -> None:
    """It has a card and a typed Edit dialog, and the server is given the approved arguments."""
    given = {"parcel": {"to": "Ana", "grams": 100}}
    thread = ask(harness, ("depot_send", given), answer="It is on its way.")
    card = harness.card(SUPPORT, thread)
    assert "Send a parcel" in words(card)
    view = open_modal(harness, "ana", SUPPORT, card, "edit")
    assert '"number_input"' in str(view).replace("'", '"')
    assert harness.person("ana").submit(typed(**{"parcel.grams": "250"}))["outcome"] == "closed"
    arrived(harness)
    card = harness.card(SUPPORT, thread, having="approve")
    harness.person("cleo").click(SUPPORT, card["ts"], "approve")
    harness.said(SUPPORT, thread, "It is on its way.")
    harness.settle()
    assert read_sent_parcels(harness)[-1:] == ["Ana 250 False"]
    assert [each.status for each in harness.calls_in(thread)] == [CallStatus.SUCCEEDED]


def test_arguments_against_the_servers_schema_are_refused(harness: Harness) -> None:
    """They are checked before anybody is asked."""
    wrong = {"parcel": {"grams": 1}}
    thread = ask(harness, ("depot_send", wrong), answer="I cannot send that.")
    harness.said(SUPPORT, thread, "I cannot send that.")
    harness.settle()
    assert [each.status for each in harness.calls_in(thread)] == [CallStatus.REFUSED]
    assert "parcel.to: Field required" in str(harness.outputs())


def put_with_question(harness: Harness, item: str, *answer: str) -> tuple[str, dict[str, Any]]:
    """Ben asks, Ana approves and the server asks Ben; return the thread and the question's card."""
    turns = [Turn(calls=[("depot_put", {"item": item})]), *(Turn(text=each) for each in answer)]
    harness.planner.script(*turns)
    thread: str = harness.person("ben").say(SUPPORT, "@bot please")
    card = harness.card(SUPPORT, thread)
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    return thread, harness.card(SUPPORT, thread, "ben", "answer")


def place(shelf: str, number: str) -> dict[str, Any]:
    """Build the state of the filled-in answer dialog."""
    option = {"text": {"type": "plain_text", "text": shelf}, "value": shelf}
    return {"f:a0": {"v": {"selected_option": option}}, "f:a1": {"v": {"value": number}}}


def test_a_servers_question_during_a_call_is_asked_of_the_requester(harness: Harness) -> None:
    """The card names the server and the call; an answer that the server refuses is asked again."""
    progress: list[str] = []
    live = harness.app.core.signals.live
    end = live.listen(
        lambda event: progress.append(getattr(getattr(event, "step", None), "so_far", ""))
    )
    thread, asked = put_with_question(harness, "a lamp", "It is there.")
    assert "the server depot asks" in words(asked)
    assert "Put at depot: item a lamp" in words(asked)
    assert "Place: counted from the door." in words(asked)
    harness.person("ben").open_home()
    harness.slack.wait(lambda: "The server depot asks you" in str(harness.person("ben").home()))
    open_modal(harness, "ben", SUPPORT, asked, "answer")
    harness.person("ben").submit(place("upper", "41"))
    again = harness.said(SUPPORT, thread, "“Place” has to be 40 at most.")
    open_modal(harness, "ben", SUPPORT, again, "answer")
    harness.person("ben").submit(place("upper", "7"))
    harness.said(SUPPORT, thread, "It is there.")
    harness.settle()
    assert (harness.folder / "put").read_text().splitlines() == ["a lamp upper 7 "]
    call = harness.calls_in(thread)[0]
    assert (call.status, "a lamp is on the upper shelf" in call.output) == (C.SUCCEEDED, True)
    assert "1 of 3 · carrying a lamp" in progress
    asking = harness.all(Audit, Audit.event == "question.asked")
    assert {each.actor for each in asking} == {"mcp:depot"}
    end()


def test_a_servers_question_can_be_declined(harness: Harness) -> None:
    """The server is told, and goes on by itself."""
    thread, asked = put_with_question(harness, "a chair", "It stays outside.")
    harness.person("ben").click(SUPPORT, asked["ts"], "decline")
    harness.said(SUPPORT, thread, "It stays outside.")
    harness.settle()
    assert "a chair stays outside: decline" in str(harness.outputs())


def test_a_servers_question_expires_after_ten_minutes(harness: Harness) -> None:
    """The server is told that the question was cancelled."""
    thread, asked = put_with_question(harness, "a bench", "Nobody said where.")
    harness.clock.advance(601)
    harness.said(SUPPORT, thread, "Nobody said where.")
    harness.settle()
    assert "a bench stays outside: cancel" in str(harness.outputs())
    assert "Nobody answered in time" in words(now_at(harness, SUPPORT, asked["ts"]))


def test_a_server_cannot_ask_for_a_secret(harness: Harness) -> None:
    """Its question is declined, and nobody sees it."""
    thread = ask(harness, ("depot_unlock", {}), answer="It stays shut.")
    card = harness.card(SUPPORT, thread)
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    harness.said(SUPPORT, thread, "It stays shut.")
    harness.settle()
    assert "the door: decline" in str(harness.outputs())
    assert [each.tool for each in harness.calls_in(thread)] == ["depot_unlock"]


def test_cancelling_a_request_withdraws_the_servers_question(harness: Harness) -> None:
    """The question's message says that it is no longer needed, and the call ends."""
    thread, asked = put_with_question(harness, "a stool")
    harness.person("ben").say(SUPPORT, "cancel", thread)
    harness.slack.wait(lambda: "No longer needed" in words(now_at(harness, SUPPORT, asked["ts"])))
    harness.settle()
    harness.slack.wait(lambda: harness.calls_in(thread)[0].status is C.SUCCEEDED)
    assert (
        not (harness.folder / "put").exists() or "stool" not in (harness.folder / "put").read_text()
    )


def test_stopping_the_bot_withdraws_the_servers_question(harness: Harness) -> None:
    """The server is told, and its call ends before the bot does."""
    thread, asked = put_with_question(harness, "a vase")
    harness.restart()
    harness.slack.wait(lambda: "No longer needed" in words(now_at(harness, SUPPORT, asked["ts"])))
    harness.said(SUPPORT, thread, "That is done.")
    harness.settle()
    [call] = [each for each in harness.calls_in(thread) if each.tool == "depot_put"]
    assert (call.status, "a vase stays outside: cancel" in call.output) == (C.SUCCEEDED, True)


def test_a_waiting_call_ends_when_the_server_changes_its_tool(harness: Harness) -> None:
    """Nobody has accepted the new description: the waiting call does not run when approved.

    Later calls of the tool are refused.
    """
    thread = waiting(harness, ("depot_stock", {"item": "tea"}))
    card = harness.card(SUPPORT, thread)
    (harness.folder / "description").write_text("Something else.")
    rewriting = ask(harness, ("depot_rewrite", {"text": "Something else."}), answer="Rewritten.")
    other = harness.card(SUPPORT, rewriting)
    harness.person("ana").click(SUPPORT, other["ts"], "approve")
    harness.said(SUPPORT, rewriting, "Rewritten.")
    harness.settle()
    harness.slack.wait(lambda: "depot_stock" not in {each.name for each in harness.app.core.tools})
    harness.planner.script(Turn(text="It cannot be done any more."))
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    harness.said(SUPPORT, thread, "It cannot be done any more.")
    harness.settle()
    assert [each.status for each in harness.calls_in(thread)] == [CallStatus.INVALIDATED]
    later = ask(harness, ("depot_stock", {"item": "tea"}), answer="It is off.")
    harness.said(SUPPORT, later, "It is off.")
    harness.settle()
    assert [each.status for each in harness.calls_in(later)] == [CallStatus.REFUSED]
