"""The page's controls, with a tiny app: modals and their inputs, confirmations, busy buttons."""

from __future__ import annotations

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from slack_sandbox.server import Sandbox

from . import samples
from .page import MODAL, Page
from .recording_app import RecordingApp

pytestmark = [pytest.mark.browser, pytest.mark.long]
SUPPORT = "C0SUPPORT"
TEXTS: dict[str, str | list[str]] = {
    "line": "new",
    "lines": "many",
    "number": "39.90",
    "mail": "a@example.com",
    "site": "https://example.com/x",
}
PICKED: dict[str, str | list[str]] = {
    "ticks": ["a", "c"],
    "radio": "y",
    "menu": "n",
    "many": ["q"],
    "day": "2026-11-24",
    "moment": "2026-11-24T10:30",
    "hour": "08:15",
}


def test_every_input_reaches_the_app(sandbox: Sandbox, app: RecordingApp, page: Page) -> None:
    """A modal's inputs of every kind arrive as Slack reports them.

    An untouched optional one is null.
    """
    app.open_modal_on_click(samples.modal(*samples.EVERY_INPUT))
    app.client.chat_postMessage(channel=SUPPORT, text="card", blocks=samples.CARD)
    page.open(sandbox.url)
    page.click("approve")
    page.modal("Edit")
    for block_id, value in (TEXTS | PICKED).items():
        page.fill(block_id, value)
    page.submit()
    page.gone(MODAL)
    values = app.wait("view_submission")["view"]["state"]["values"]
    got = {
        block: next(v for k, v in states["v"].items() if k != "type")
        for block, states in values.items()
    }
    chosen = {b: [o["value"] for o in got.pop(b)] for b in ("ticks", "many")} | {
        b: got.pop(b)["value"] for b in ("radio", "menu")
    }
    assert chosen == {"ticks": ["a", "c"], "many": ["q"], "radio": "y", "menu": "n"}
    zone = page.driver.execute_script(
        "return Date.UTC(2026, 10, 24, 10, 30) / 1000 - new Date(2026, 10, 24, 10, 30) / 1000"
    )
    assert got.pop("moment") + zone == 1795516200
    assert got == {**TEXTS, "day": "2026-11-24", "hour": "08:15", "left": None}


def test_errors_appear_at_their_fields(sandbox: Sandbox, app: RecordingApp, page: Page) -> None:
    """The client's own check, then the app's errors, appear at the field. What was typed stays."""
    number = samples.field(
        "amount", {"type": "number_input", "is_decimal_allowed": True, "min_value": "1"}
    )
    app.open_modal_on_click(
        samples.modal(number, samples.field("note", {"type": "plain_text_input"}))
    )
    app.client.chat_postMessage(channel=SUPPORT, text="card", blocks=samples.CARD)
    page.open(sandbox.url)
    page.click("approve")
    page.modal()
    page.fill("amount", "many")
    page.submit()
    assert page.errors() == {
        "amount": "Please enter a number.",
        "note": "Please fill in this field.",
    }
    assert all(p["type"] != "view_submission" for p in app.seen)
    app.answer = lambda payload: {
        "response_action": "errors",
        "errors": {"amount": "At most 40.00 is left."},
    }
    page.fill("amount", "55")
    page.fill("note", "kept")
    page.submit()
    assert page.wait_errors() == {"amount": "At most 40.00 is left."}
    assert (page.value("amount"), page.value("note")) == ("55", "kept")
    assert page.driver.switch_to.active_element.get_attribute("aria-invalid") == "true"


def test_a_modal_keeps_typed_text_when_it_changes(
    sandbox: Sandbox, app: RecordingApp, page: Page
) -> None:
    """New messages and an update of the view keep typed text, focus and cursor.

    New blocks appear.
    """
    note = samples.field("note", {"type": "plain_text_input", "initial_value": "start"})
    app.open_modal_on_click(samples.modal(note))
    app.client.chat_postMessage(channel=SUPPORT, text="card", blocks=samples.CARD)
    page.open(sandbox.url)
    page.click("approve")
    page.modal()
    page.fill("note", "half a sent")
    page.type(f"{MODAL} [data-block-id=note] input", Keys.HOME)
    sandbox.person("ana").say("#support", "news")
    page.wait(
        lambda: page.driver.find_elements(By.XPATH, "//article[contains(., 'news')]"), "no news"
    )
    view = sandbox.person("ben").view()
    assert view is not None
    app.client.views_update(
        view_id=view["id"],
        hash=view["hash"],
        view=samples.modal(note, {"type": "divider"}, title="Newer"),
    )
    page.modal("Newer")
    assert page.value("note") == "half a sent"
    page.driver.switch_to.active_element.send_keys("> ")
    assert page.value("note") == "> half a sent"


def test_a_button_asks_for_confirmation(sandbox: Sandbox, app: RecordingApp, page: Page) -> None:
    """The answer "No" sends nothing, "Do it" sends one click."""
    app.client.chat_postMessage(channel=SUPPORT, text="card", blocks=samples.CARD)
    page.open(sandbox.url)
    page.click("reject")
    assert "It cannot be taken back." in page.one("[data-testid=confirm]").text
    page.confirm(False)
    page.click("reject")
    page.confirm()
    assert app.wait("block_actions")["actions"][0]["action_id"] == "reject"
    assert len(app.seen) == 1


def test_a_pressed_button_is_busy_until_acknowledged(
    sandbox: Sandbox, app: RecordingApp, page: Page
) -> None:
    """A pressed button is busy until the delivery is acknowledged.

    Pressing it meanwhile sends nothing.
    """
    app.may_ack.clear()
    app.client.chat_postMessage(channel=SUPPORT, text="card", blocks=samples.CARD)
    page.open(sandbox.url)
    page.click("approve")
    busy = page.one("[data-action-id=approve][aria-busy=true]")
    page.driver.execute_script("arguments[0].click()", busy)
    app.wait("block_actions")
    sandbox.person("ana").say("#support", "meanwhile")
    page.message("meanwhile")
    app.may_ack.set()
    page.gone("[data-action-id=approve][aria-busy=true]")
    assert len([d for d in sandbox.deliveries if d.kind == "interactive"]) == 1


def test_an_unreachable_app_is_reported(sandbox: Sandbox, page: Page, app: RecordingApp) -> None:
    """A click that reaches no app shows a warning and marks the button."""
    app.client.chat_postMessage(channel=SUPPORT, text="card", blocks=samples.CARD)
    app.stop()
    sandbox.wait(lambda: not sandbox.connections)
    page.open(sandbox.url)
    page.click("approve")
    assert "not reachable" in page.toast()
    page.one("[data-action-id=approve].failed")


def test_pushed_views_cover_each_other(sandbox: Sandbox, app: RecordingApp, page: Page) -> None:
    """A pushed view covers the first.

    Its Cancel leads back to what was typed there, the × closes both.
    """
    app.open_modal_on_click(
        samples.modal(samples.field("first", {"type": "plain_text_input"}), title="Below")
    )
    app.client.chat_postMessage(channel=SUPPORT, text="card", blocks=samples.CARD)
    page.open(sandbox.url)
    page.click("approve")
    page.modal("Below")
    page.fill("first", "still here")
    above = samples.modal(samples.field("second", {"type": "plain_text_input"}), title="Above")
    app.answer = lambda payload: (
        {"response_action": "push", "view": above} if payload["type"] == "view_submission" else None
    )
    page.submit()
    page.modal("Above")
    page.press("[data-testid=modal-cancel]")
    page.modal("Below")
    assert page.value("first") == "still here"
    page.submit()
    page.modal("Above")
    page.close_modal()
    sandbox.wait(lambda: sandbox.person("ben").view() is None)


def test_a_failed_click_in_a_modal_shows_a_warning(
    sandbox: Sandbox, app: RecordingApp, page: Page
) -> None:
    """The warning about a click in a modal stands above it, to be read and dismissed."""
    app.open_modal_on_click(samples.modal(samples.actions(samples.button("Look up", "inside"))))
    app.client.chat_postMessage(channel=SUPPORT, text="card", blocks=samples.CARD)
    page.open(sandbox.url)
    page.click("approve")
    page.modal()
    app.stop()
    sandbox.wait(lambda: not sandbox.connections)
    page.click("inside")
    assert "not reachable" in page.toast()
    page.press("[data-testid=toast] [aria-label=Dismiss]")
    page.gone("[data-testid=toast]")
