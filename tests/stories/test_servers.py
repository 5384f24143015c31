"""A server's tool in Slack: asked, edited, approved, run; and what changes while it waits."""

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
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """A bot with the tools of a depot."""
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


def parcels(harness: Harness) -> list[str]:
    """What the depot sent."""
    path: Path = harness.folder / "parcels"
    return path.read_text().splitlines() if path.exists() else []


def test_a_servers_tool_is_asked_edited_and_run(product: Harness) -> None:
    """It has a card and a typed dialog as any other, and the server is called once, with what was
    approved.
    """
    given = {"parcel": {"to": "Ana", "grams": 100}}
    thread = ask(product, ("depot_send", given), answer="It is on its way.")
    card = product.card(SUPPORT, thread)
    assert "Send a parcel" in words(card)
    view = open_modal(product, "ana", SUPPORT, card, "edit")
    assert '"number_input"' in str(view).replace("'", '"')
    assert product.person("ana").submit(typed(**{"parcel.grams": "250"}))["outcome"] == "closed"
    arrived(product)
    card = product.card(SUPPORT, thread, having="approve")
    product.person("cleo").click(SUPPORT, card["ts"], "approve")
    product.said(SUPPORT, thread, "It is on its way.")
    product.settle()
    assert parcels(product)[-1:] == ["Ana 250 False"]
    assert [each.status for each in product.calls_in(thread)] == [CallStatus.SUCCEEDED]


def test_what_does_not_fit_reaches_nobody(product: Harness) -> None:
    """Arguments are held to the server's schema before anybody is asked."""
    wrong = {"parcel": {"grams": 1}}
    thread = ask(product, ("depot_send", wrong), answer="I cannot send that.")
    product.said(SUPPORT, thread, "I cannot send that.")
    product.settle()
    assert [each.status for each in product.calls_in(thread)] == [CallStatus.REFUSED]
    assert "parcel.to: Field required" in str(product.outputs())


def put(product: Harness, item: str, *answer: str) -> tuple[str, dict[str, Any]]:
    """Ben asks for it, Ana approves, and the server asks him; returns the thread and that."""
    turns = [Turn(calls=[("depot_put", {"item": item})]), *(Turn(text=each) for each in answer)]
    product.planner.script(*turns)
    thread: str = product.person("ben").say(SUPPORT, "@bot please")
    card = product.card(SUPPORT, thread)
    product.person("ana").click(SUPPORT, card["ts"], "approve")
    return thread, product.card(SUPPORT, thread, "ben", "answer")


def place(shelf: str, number: str) -> dict[str, Any]:
    """What is filled in."""
    option = {"text": {"type": "plain_text", "text": shelf}, "value": shelf}
    return {"f:a0": {"v": {"selected_option": option}}, "f:a1": {"v": {"value": number}}}


def test_what_a_server_asks_amid_a_call_is_asked_of_who_asked_for_it(product: Harness) -> None:
    """It says which server asks and for what; what the server does not take is asked again, and
    what Ben answers is what it is given. Nobody has approved anything by that.
    """
    heard: list[str] = []
    live = product.app.core.signals.live
    end = live.listen(
        lambda event: heard.append(getattr(getattr(event, "step", None), "so_far", ""))
    )
    thread, asked = put(product, "a lamp", "It is there.")
    assert "the server depot asks" in words(asked)
    assert "Put at depot: item a lamp" in words(asked)
    assert "Place: counted from the door." in words(asked)
    product.person("ben").open_home()
    product.slack.wait(lambda: "The server depot asks you" in str(product.person("ben").home()))
    open_modal(product, "ben", SUPPORT, asked, "answer")
    product.person("ben").submit(place("upper", "41"))
    again = product.said(SUPPORT, thread, "“Place” has to be 40 at most.")
    open_modal(product, "ben", SUPPORT, again, "answer")
    product.person("ben").submit(place("upper", "7"))
    product.said(SUPPORT, thread, "It is there.")
    product.settle()
    assert (product.folder / "put").read_text().splitlines() == ["a lamp upper 7 "]
    call = product.calls_in(thread)[0]
    assert (call.status, "a lamp is on the upper shelf" in call.output) == (C.SUCCEEDED, True)
    assert "1 of 3 · carrying a lamp" in heard
    asking = product.all(Audit, Audit.event == "question.asked")
    assert {each.actor for each in asking} == {"mcp:depot"}
    end()


def test_who_cannot_say_declines(product: Harness) -> None:
    """The server hears it, and goes on as it likes."""
    thread, asked = put(product, "a chair", "It stays outside.")
    product.person("ben").click(SUPPORT, asked["ts"], "decline")
    product.said(SUPPORT, thread, "It stays outside.")
    product.settle()
    assert "a chair stays outside: decline" in str(product.outputs())


def test_silence_is_no_answer(product: Harness) -> None:
    """After ten minutes the server hears that nobody answers."""
    thread, asked = put(product, "a bench", "Nobody said where.")
    product.clock.advance(601)
    product.said(SUPPORT, thread, "Nobody said where.")
    product.settle()
    assert "a bench stays outside: cancel" in str(product.outputs())
    assert "Nobody answered in time" in words(now_at(product, SUPPORT, asked["ts"]))


def test_no_server_asks_for_a_secret(product: Harness) -> None:
    """It is declined, and nobody is asked."""
    thread = ask(product, ("depot_unlock", {}), answer="It stays shut.")
    card = product.card(SUPPORT, thread)
    product.person("ana").click(SUPPORT, card["ts"], "approve")
    product.said(SUPPORT, thread, "It stays shut.")
    product.settle()
    assert "the door: decline" in str(product.outputs())
    assert [each.tool for each in product.calls_in(thread)] == ["depot_unlock"]


def test_a_cancelled_request_takes_its_question_back(product: Harness) -> None:
    """The message says so, and the server hears that nobody answers."""
    thread, asked = put(product, "a stool")
    product.person("ben").say(SUPPORT, "cancel", thread)
    product.slack.wait(lambda: "No longer needed" in words(now_at(product, SUPPORT, asked["ts"])))
    product.settle()
    product.slack.wait(lambda: product.calls_in(thread)[0].status is C.SUCCEEDED)
    assert (
        not (product.folder / "put").exists() or "stool" not in (product.folder / "put").read_text()
    )


def test_a_stop_takes_its_question_back(product: Harness) -> None:
    """The server hears that nobody answers, and comes to its end before the bot does."""
    thread, asked = put(product, "a vase")
    product.restart()
    product.slack.wait(lambda: "No longer needed" in words(now_at(product, SUPPORT, asked["ts"])))
    product.said(SUPPORT, thread, "That is done.")
    product.settle()
    [call] = [each for each in product.calls_in(thread) if each.tool == "depot_put"]
    assert (call.status, "a vase stays outside: cancel" in call.output) == (C.SUCCEEDED, True)


def test_a_call_that_waits_ends_when_its_tool_is_changed(product: Harness) -> None:
    """What a server says anew of its tool, nobody has accepted: what was approved is not run, and
    what comes later is refused.
    """
    thread = waiting(product, ("depot_stock", {"item": "tea"}))
    card = product.card(SUPPORT, thread)
    (product.folder / "description").write_text("Something else.")
    rewriting = ask(product, ("depot_rewrite", {"text": "Something else."}), answer="Rewritten.")
    other = product.card(SUPPORT, rewriting)
    product.person("ana").click(SUPPORT, other["ts"], "approve")
    product.said(SUPPORT, rewriting, "Rewritten.")
    product.settle()
    product.slack.wait(lambda: "depot_stock" not in {each.name for each in product.app.core.tools})
    product.planner.script(Turn(text="It cannot be done any more."))
    product.person("ana").click(SUPPORT, card["ts"], "approve")
    product.said(SUPPORT, thread, "It cannot be done any more.")
    product.settle()
    assert [each.status for each in product.calls_in(thread)] == [CallStatus.INVALIDATED]
    later = ask(product, ("depot_stock", {"item": "tea"}), answer="It is off.")
    product.said(SUPPORT, later, "It is off.")
    product.settle()
    assert [each.status for each in product.calls_in(later)] == [CallStatus.REFUSED]
