"""A server's tool in Slack: asked, edited, approved, run; and what changes while it waits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bot.sandbox.openai.server import Turn
from bot.servers.definitions import write_lock
from bot.servers.looking import look
from storage.states import CallStatus
from tests.servers.support import over_http
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import words
from tests.stories.steps import arrived, ask, open_modal, typed, waiting


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """A bot with the tools of a depot."""
    folder = tmp_path_factory.mktemp("depot")
    with over_http(folder) as server:
        (folder / "servers.toml").write_text(f'[[server]]\nname = "depot"\nurl = "{server.url}"\n')
        write_lock(folder / "servers.lock.json", {"depot": look(server)})
        made = Harness(folder, COUNTERSIGN_SERVERS=str(folder / "servers.toml"))
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
