"""Moving about: Home, joining, notifications, the inspector, the clock, the keyboard."""

from __future__ import annotations

import json

import pytest
from selenium.webdriver.common.keys import Keys
from slack_sdk import WebClient

from slack_sandbox.server import Sandbox

from . import samples
from .page import MAIN, MODAL, THREAD, Page
from .workspace import SUPPORT, Workspace

pytestmark = [pytest.mark.browser, pytest.mark.long]
COMPOSER = "[data-testid=composer]"


# apps and places


def test_home_is_beside_the_messages(at: Page, workspace: Workspace) -> None:
    """Each app's DM has a Home tab that tells the app and works as published."""
    workspace.client.views_publish(
        user_id="UBEN00001",
        view={"type": "home", "blocks": [samples.actions(samples.button("Refresh", "refresh"))]},
    )
    at.go("Countersign")
    at.press("[data-testid=tab-home]")
    at.click("refresh", within="[data-testid=home]")
    assert workspace.app.wait("block_actions")["view"]["type"] == "home"
    opened = [
        e for d in workspace.sandbox.deliveries if (e := d.event).get("type") == "app_home_opened"
    ]
    assert [opened[-1]["tab"], opened[-1]["user"]] == ["home", "UBEN00001"]
    at.one("[data-testid=tab-home]").send_keys(Keys.ARROW_RIGHT)
    at.has_focus("[data-testid=tab-messages][aria-selected=true]")
    at.one(COMPOSER)
    at.go("Weather")
    at.press("[data-testid=tab-home]")
    assert "Refresh" not in at.text("[data-testid=home]")


def test_a_public_channel_can_be_joined(page: Page, workspace: Workspace) -> None:
    """A channel that the person is not in is listed apart, with Join in place of the composer."""
    page.open(workspace.sandbox.url, "gus", SUPPORT)
    assert not page.all('[data-channel-name="general"]')
    workspace.client.conversations_create(name="newcomers")
    page.open(workspace.sandbox.url, "dan", SUPPORT)
    page.go("newcomers")
    assert not page.all(COMPOSER)
    page.press("[data-testid=join]")
    page.say("here I am")
    page.message("here I am")


def test_notifications_as_a_phone_shows_them(page: Page, workspace: Workspace) -> None:
    """The phone lists fallback texts, newest first, counts the unseen, and leads there."""
    page.open(workspace.sandbox.url, "cleo", SUPPORT)
    root = workspace.sandbox.person("ana").say("#general", "a place")
    text = "<@UBEN00001> asks *Cleo* &amp; <!subteam^S0LEADS>: <https://example.com/|look> :eyes:"
    workspace.client.chat_postMessage(
        channel="C0GENERAL", thread_ts=root, text=f"{text} <@UCLEO0001>", blocks=samples.CARD
    )
    page.one("[data-testid=bell] .bell-count")
    page.press("[data-testid=bell]")
    note = page.all("[data-testid=note]")[0].text
    assert "Countersign in #general" in note
    assert "@Ben Okafor asks Cleo & @shop-leads: look 👀 @Cleo Martin" in note
    page.gone("[data-testid=bell] .bell-count")
    page.all("[data-testid=note]")[0].click()
    page.one(f'{THREAD}[data-thread="{root}"]')
    workspace.client.chat_postMessage(
        channel="C0GENERAL", thread_ts=root, text="again <@UCLEO0001>"
    )
    page.message("again", thread=True)
    assert not page.all("[data-testid=bell] .bell-count")


# the inspector and the clock


def test_the_inspector_shows_deliveries(at: Page, workspace: Workspace) -> None:
    """The inspector shows a message's JSON, deliveries with times, and calls without tokens."""
    data = {"event_type": "card", "event_payload": {"key": "value"}}
    ts = str(
        workspace.client.chat_postMessage(channel=SUPPORT, text="look inside", metadata=data)["ts"]
    )
    at.message("look inside")
    at.menu(ts, "inspect")
    shown = json.loads(at.wait(lambda: at.text("[data-testid=json]")))
    assert [shown["text"], shown["metadata"]] == ["look inside", data]
    at.press("[data-testid=inspector-deliveries]")
    workspace.sandbox.person("ben").say("#support", "an event for the log")
    row = at.wait(
        lambda: [
            r.text for r in at.all("[data-testid=log-row]") if "an event for the log" in r.text
        ]
    )[0]
    assert row.startswith("message")
    at.wait(
        lambda: [r for r in at.all("[data-testid=log-row].good") if " ms" in r.text.split("\n")[-1]]
    )
    at.press("[data-testid=inspector-calls]")
    at.type("[data-testid=inspector-filter]", "connections.open")
    assert [r.text.split("\n")[0] for r in at.all("[data-testid=log-row]")] == [
        "apps.connections.open"
    ]
    at.press("[data-testid=log-row] summary")
    at.wait(lambda: "ticket=…" in at.text("[data-testid=panel]"))
    assert "xapp-" not in at.text("[data-testid=panel]")
    at.keys(Keys.ESCAPE)
    at.gone("[data-testid=panel]")


def post_card(workspace: Workspace, seconds: int) -> tuple[str, int]:
    """Post a card with a button and a deadline in so many seconds; return its ts and deadline."""
    due = int(workspace.sandbox.clock.now().timestamp()) + seconds
    until = samples.mrkdwn(f"Decide by <!date^{due}^{{time}}|soon>, {seconds} s")
    blocks = [
        {"type": "context", "elements": [until]},
        samples.actions(samples.button("Go", "go")),
    ]
    sent = workspace.client.chat_postMessage(channel=SUPPORT, text="due", blocks=blocks)
    return str(sent["ts"]), due


def test_the_clock_can_be_moved_to_a_cards_deadline(at: Page, workspace: Workspace) -> None:
    """The clock moves to the newest card's deadline, or to that of the card in the open thread.

    Cards whose deadline is later still wait then; the menu says how many others pass.
    """
    clock = workspace.sandbox.clock
    passed, _ = post_card(workspace, 4000)
    _, due = post_card(workspace, 5000)
    at.message("5000 s")
    at.press("[data-testid=clock-menu]")
    offered = at.text("[data-advance=deadline]")
    assert "To the newest card’s deadline" in offered
    assert "1 other deadline passes first" in offered
    at.driver.execute_script(f"location.hash = '#/{SUPPORT}/{passed}'")
    at.one(f'{THREAD}[data-thread="{passed}"]')
    at.keys(Keys.ESCAPE)
    at.press("[data-testid=clock-menu]")
    assert "To this card’s deadline" in at.text("[data-advance=deadline]")
    at.press("[data-advance=deadline]")
    workspace.sandbox.wait(lambda: due - 1000 <= clock.now().timestamp() < due - 900)
    at.press("[data-testid=thread-close]")
    at.press("[data-testid=clock-menu]")
    assert "other" not in at.text("[data-advance=deadline]")
    at.press("[data-advance=deadline]")
    workspace.sandbox.wait(lambda: 0 <= clock.now().timestamp() - due < 30)


# the keyboard


def test_the_whole_page_works_by_keyboard(at: Page, workspace: Workspace) -> None:
    """The whole page is used by keyboard, and Escape leads back.

    Skip link, arrow keys in channels and messages, a message's own buttons.
    """
    at.keys(Keys.TAB)
    at.has_focus(".skip")
    at.keys(Keys.ENTER)
    at.has_focus("#messages")
    card, _ = post_card(workspace, 60)
    at.message("60 s")
    button = f'article[data-ts="{card}"] [data-action-id=go]'
    at.driver.refresh()
    at.message("60 s")
    at.keys(Keys.TAB, Keys.TAB)
    at.has_focus("[data-testid=skip-card]")
    at.keys(Keys.ENTER)
    at.has_focus(button)
    at.one(COMPOSER).click()
    at.keys(Keys.ALT, "c")
    at.has_focus(button)
    ts = workspace.sandbox.person("ana").say("#support", "the newest one")
    at.message("the newest one")
    at.one('[data-channel-name="support"]').send_keys(Keys.ARROW_UP)
    at.has_focus('[data-channel-name="random"]')
    at.keys(Keys.ENTER)
    at.one(f'{MAIN}[data-of="C0RANDOM"]')
    at.go("support")
    at.driver.execute_script("document.querySelector('main article[tabindex=\"0\"]').focus()")
    at.has_focus(f'article[data-ts="{ts}"]')
    at.keys(Keys.ARROW_UP)
    assert at.focused().get_attribute("data-ts") < ts
    at.keys(Keys.END)
    at.keys(Keys.TAB)
    at.has_focus("[data-testid=react]")
    at.keys(Keys.TAB, Keys.TAB)
    at.has_focus("[data-testid=message-menu]")
    at.keys(Keys.ENTER)
    at.keys("s")
    assert at.focused().text == "Show its JSON"
    at.keys(Keys.ENTER)
    at.has_focus("[data-testid=panel-close]")
    at.keys(Keys.ESCAPE)
    at.has_focus("[data-testid=message-menu]")


def test_the_acting_person_can_be_changed_by_keyboard(at: Page) -> None:
    """Alt+P lists people, a letter finds one, Enter acts as them, Escape as before."""
    at.keys(Keys.ALT, "p")
    at.has_focus("[data-person=ben]")
    at.keys("c", Keys.ENTER)
    at.one("[data-testid=person-switch][data-me=cleo]")
    at.keys(Keys.ALT, "p")
    at.keys(Keys.HOME, Keys.ESCAPE)
    at.has_focus("[data-testid=person-switch][data-me=cleo]")
    at.keys(Keys.ALT, "n")
    assert "Cleo Martin’s phone" in at.text("[data-testid=panel]")
    at.keys(Keys.ALT, "i")
    assert "Deliveries" in at.text("[data-testid=panel]")
    at.keys(Keys.ESCAPE)
    at.has_focus("[data-testid=inspect]")


def test_without_a_guide_nothing_is_suggested(at: Page) -> None:
    """There are no first steps, no examples, and no hint whom to act as."""
    assert not at.all("[data-testid=hint], [data-testid=ideas], [data-testid=next-hint]")


def test_a_modal_closes_with_escape(at: Page, workspace: Workspace) -> None:
    """Escape closes what a modal shows of its JSON, then the modal.

    The focus returns to what opened each.
    """
    workspace.client.chat_postMessage(
        channel=SUPPORT, text="card", blocks=[samples.actions(samples.button("Open it", "open-it"))]
    )
    at.click("open-it")
    at.modal("A request")
    at.press("[data-testid=modal-json]")
    assert (
        json.loads(at.text("[data-testid=json-dialog] [data-testid=json]"))["title"]["text"]
        == "A request"
    )
    at.keys(Keys.ESCAPE)
    at.gone("[data-testid=json-dialog]")
    at.has_focus("[data-testid=modal-json]")
    at.keys(Keys.ESCAPE)
    at.gone(MODAL)
    at.has_focus("[data-action-id=open-it]")


def test_examples_are_offered_after_apps_have_posted(page: Page, sandbox: Sandbox) -> None:
    """A button then lists the examples, and a press on one writes it."""
    prompt = {"title": "Look it up", "message": "@Countersign what is there?"}
    sandbox.world.guide = lambda _: {"title": "", "text": "", "prompts": [prompt], "waiting": []}
    WebClient(token=sandbox.bot_token, base_url=sandbox.api_url).chat_postMessage(
        channel=SUPPORT, text="Hello"
    )
    page.open(sandbox.url)
    assert page.text("[data-testid=ideas]") == "Things to ask for"
    page.press("[data-testid=ideas]")
    page.press("[role=menuitem]")
    page.wait(
        lambda: page.one("[data-testid=composer]").get_attribute("value") == prompt["message"]
    )
