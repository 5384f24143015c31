"""What surrounds the messages: commands, shortcuts, reactions, Home, notifications, the inspector, the keyboard."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from selenium.webdriver.common.keys import Keys

from . import samples
from .office import SUPPORT, Office
from .page import MAIN, MODAL, THREAD, Page

pytestmark = pytest.mark.browser
COMPOSER = "[data-testid=composer]"
LIVE = "[data-testid=live]"


@pytest.fixture(scope="module")
def office() -> Iterator[Office]:
    """One workspace for all tests of this file; each says things of its own."""
    office = Office()
    yield office
    office.close()


@pytest.fixture
def at(page: Page, office: Office) -> Page:
    """Ben, in #support."""
    return page.open(office.sandbox.url)


def _payloads(office: Office, kind: str) -> list[samples.Json]:
    return [d.payload for d in office.sandbox.deliveries if d.kind == kind]


# writing


def test_slash_offers_commands(at: Page, office: Office) -> None:
    """Typing "/" offers the apps' commands with their hints; one is chosen by keyboard, and what follows is sent."""
    at.type(COMPOSER, "/")
    rows = at.text("[data-testid=suggest]")
    assert "/deploy\n[place]\nShip a release · Countersign" in rows
    at.type(COMPOSER, "r")
    assert "/deploy" not in at.text("[data-testid=suggest]")
    at.keys(Keys.ENTER)
    at.say("1042 please")
    office.sandbox.wait(lambda: _payloads(office, "slash_commands"))
    assert [_payloads(office, "slash_commands")[-1][key] for key in ("command", "text")] == ["/refund", "1042 please"]


def test_unknown_commands_are_kept(at: Page) -> None:
    """A command that no app has is refused by Slackbot, only visible to who typed it, and stays in the composer."""
    at.type(COMPOSER, "/dance now")
    at.keys(Keys.ENTER)
    notice = at.message("/dance")
    assert "Slackbot" in notice.text
    assert "Only visible to you" in notice.text
    assert at.one(COMPOSER).get_attribute("value") == "/dance now"
    at.one(COMPOSER).clear()


def test_names_are_completed(at: Page, office: Office) -> None:
    """ "@cl" offers Cleo, Tab takes her, Escape would have closed the list; the message mentions her."""
    at.type(COMPOSER, "ask @cl")
    assert at.text("[data-testid=suggest]").startswith("CM\nCleo Martin")
    at.keys(Keys.ESCAPE)
    at.gone("[data-testid=suggest]")
    at.type(COMPOSER, "e")
    at.one("[data-testid=suggest]")
    at.keys(Keys.TAB)
    at.say("soon")
    at.message("soon")
    assert office.sandbox.person("ben").messages("#support")[-1]["text"] == "ask <@UCLEO0001> soon"


def test_own_messages_are_edited_and_deleted(at: Page, office: Office) -> None:
    """Edit shows what was typed, Escape leaves it, Enter saves; deleting asks first; others' messages offer neither."""
    mine = office.sandbox.person("ben").say("#support", "see @ana <now>")
    theirs = office.sandbox.person("ana").say("#support", "not yours")
    at.message("not yours")
    at.menu(mine, "edit")
    assert at.one("[data-testid=edit-text]").get_attribute("value") == "see @ana <now>"
    at.keys(" or never", Keys.ESCAPE)
    at.gone("[data-testid=edit-text]")
    at.has_focus(f'article[data-ts="{mine}"]')
    at.menu(mine, "edit")
    at.keys(" & then", Keys.ENTER)
    at.message("& then")
    assert office.sandbox.person("ana").messages("#support")[-2]["text"] == "see <@UANA00001> &lt;now&gt; &amp; then"
    at.menu(theirs, "inspect")
    at.press("[data-testid=panel-close]")
    at.press(f'{MAIN} [data-ts="{theirs}"] [data-testid=message-menu]')
    assert "Delete" not in at.text("[data-testid=menu]")
    at.keys(Keys.ESCAPE)
    at.menu(mine, "delete")
    at.confirm()
    at.gone(f'{MAIN} [data-ts="{mine}"]')


def test_files_are_shown(at: Page, office: Office) -> None:
    """A file has its name, type and size, a small CSV is a table, and the download is for who looks."""
    text = 'order,customer,"of ""x"""\n1042,"Lindqvist, Mara",1\n'
    office.client.files_upload_v2(channel=SUPPORT, filename="orders.csv", content=text, title="Orders")
    box = at.one(f"{MAIN} [data-testid=file]")
    assert "Orders\nCSV · 51 bytes" in box.text
    cells = at.wait(lambda: [c.text for c in at.all(f"{MAIN} [data-testid=file] :is(th, td)")])
    assert cells == ["order", "customer", 'of "x"', "1042", "Lindqvist, Mara", "1"]
    link = str(at.one("[data-testid=download]").get_attribute("href"))
    assert link.startswith(f"{office.sandbox.url}/files-pri/")
    assert "as=UBEN00001" in link


# what hangs on messages


def test_reactions(at: Page, office: Office) -> None:
    """One is added from the picker by keyboard, is counted with others' and named, and goes when pressed again."""
    ts = office.sandbox.person("ana").say("#support", "react to this")
    office.sandbox.person("ana").react("#support", ts, "eyes")
    mine = f'{MAIN} [data-ts="{ts}"]'
    assert at.one(f"{mine} [data-value=eyes]").get_attribute("aria-label") == "eyes, 1: Ana Ruiz"
    at.press(f"{mine} [data-value=eyes]")
    at.one(f"{mine} [data-value=eyes][aria-pressed=true]")
    at.press(f"{mine} .reaction.add")
    at.keys(Keys.ARROW_RIGHT, Keys.ENTER)
    at.one(f'{mine} [data-value="+1"][aria-pressed=true]')
    at.press(f"{mine} [data-value=eyes]")
    at.one(f"{mine} [data-value=eyes][aria-pressed=false]")
    reactions = office.sandbox.person("ana").messages("#support")[-1]["reactions"]
    assert {r["name"]: r["users"] for r in reactions} == {"eyes": ["UANA00001"], "+1": ["UBEN00001"]}


def test_pins_and_bookmarks(at: Page, office: Office) -> None:
    """A pinned message says who pinned it and is found from the head; bookmarks are links below it."""
    ts = office.sandbox.person("ana").say("#support", "keep this")
    office.client.pins_add(channel=SUPPORT, timestamp=ts)
    office.client.bookmarks_add(channel_id=SUPPORT, title="Runbook", type="link", link="https://example.com/r")
    assert "Pinned by Countersign" in at.wait(lambda: m.text if "Pinned" in (m := at.message("keep this")).text else "")
    at.press("[data-testid=pins]")
    at.keys(Keys.ENTER)
    at.has_focus(f'article[data-ts="{ts}"]')
    assert at.one("[data-testid=bookmarks] a").get_attribute("href") == "https://example.com/r"


def test_shortcuts(at: Page, office: Office) -> None:
    """A message's menu and the channel's offer the apps' shortcuts; both reach the app, which may open a modal."""
    ts = office.sandbox.person("ana").say("#support", "make something of this")
    at.message("make something of this")
    at.menu(ts, "from_message")
    at.modal("A request")
    at.close_modal()
    payload = office.desk.wait("message_action")
    assert [payload["callback_id"], payload["message"]["ts"]] == ["from_message", ts]
    at.press("[data-testid=shortcuts]")
    assert "New request\nCountersign · Ask for anything" in at.text("[data-testid=menu]")
    at.press("[data-shortcut=new_request]")
    at.modal("A request")
    at.close_modal()
    assert office.desk.wait("shortcut")["user"]["id"] == "UBEN00001"


def test_streams_grow_and_are_read_out_once(at: Page, office: Office) -> None:
    """Streamed text appears as it comes; the live region says it when it is complete, and not what one says oneself."""
    ben = office.sandbox.person("ben")
    root = ben.say("#support", "tell me a story")
    at.message("tell me a story")
    office.client.chat_startStream(
        channel=SUPPORT, thread_ts=root, recipient_user_id=ben.id, recipient_team_id="T0SANDBOX"
    )
    ts = ben.messages("#support", root)[-1]["ts"]
    at.open_thread(root)
    for text in ("Once upon ", "a time"):
        office.client.chat_appendStream(channel=SUPPORT, ts=ts, markdown_text=text)
    assert at.message("Once upon a time", thread=True).find_elements("css selector", ".streaming")
    assert at.driver.execute_script(f"return document.querySelector('{LIVE}').textContent") == ""
    office.client.chat_stopStream(channel=SUPPORT, ts=ts)
    said = at.wait(lambda: at.driver.execute_script(f"return document.querySelector('{LIVE}').textContent"))
    assert said == "Countersign: Once upon a time"


def test_unread_messages_have_a_line(page: Page, office: Office) -> None:
    """What came since one was here last stands below a line; the line goes at the next visit."""
    page.open(office.sandbox.url, "dan", SUPPORT)
    page.go("general")
    ts = office.sandbox.person("ana").say("#support", "while Dan was away")
    page.one('[data-channel-name="support"].unread')
    page.go("support")
    after = "return document.querySelector('[data-testid=fresh]').nextElementSibling.dataset.ts"
    assert page.driver.execute_script(after) == ts
    page.go("general")
    page.go("support")
    assert page.all("[data-testid=fresh]") == []


# apps and places


def test_home_is_beside_the_messages(at: Page, office: Office) -> None:
    """Each app's DM has a Home tab: opened it tells the app, shows what it published, and its buttons work."""
    office.client.views_publish(
        user_id="UBEN00001", view={"type": "home", "blocks": [samples.actions(samples.button("Refresh", "refresh"))]}
    )
    at.go("Countersign")
    at.press("[data-testid=tab-home]")
    at.click("refresh", within="[data-testid=home]")
    assert office.desk.wait("block_actions")["view"]["type"] == "home"
    opened = [e for d in office.sandbox.deliveries if (e := d.event).get("type") == "app_home_opened"]
    assert [opened[-1]["tab"], opened[-1]["user"]] == ["home", "UBEN00001"]
    at.one("[data-testid=tab-home]").send_keys(Keys.ARROW_RIGHT)
    at.has_focus("[data-testid=tab-messages][aria-selected=true]")
    at.one(COMPOSER)
    at.go("Weather")
    at.press("[data-testid=tab-home]")
    assert "Refresh" not in at.text("[data-testid=home]")


def test_joining(page: Page, office: Office) -> None:
    """A public channel one is not in is listed apart and offers to join instead of a composer."""
    page.open(office.sandbox.url, "gus", SUPPORT)
    assert not page.all('[data-channel-name="general"]')
    office.client.conversations_create(name="newcomers")
    page.open(office.sandbox.url, "dan", SUPPORT)
    page.go("newcomers")
    assert not page.all(COMPOSER)
    page.press("[data-testid=join]")
    page.say("here I am")
    page.message("here I am")


def test_notifications_as_a_phone_shows_them(page: Page, office: Office) -> None:
    """The phone lists the fallback text with names, newest first, counts what was not on screen, and leads there."""
    page.open(office.sandbox.url, "cleo", SUPPORT)
    root = office.sandbox.person("ana").say("#general", "a place")
    text = "<@UBEN00001> asks *Cleo* &amp; <!subteam^S0LEADS>: <https://example.com/|look> :eyes:"
    office.client.chat_postMessage(
        channel="C0GENERAL", thread_ts=root, text=f"{text} <@UCLEO0001>", blocks=samples.CARD
    )
    page.one("[data-testid=bell] .bell-count")
    page.press("[data-testid=bell]")
    note = page.text("[data-testid=note]")
    assert "Countersign in #general" in note
    assert "@Ben Okafor asks Cleo & @shop-leads: look 👀 @Cleo Martin" in note
    page.gone("[data-testid=bell] .bell-count")
    page.press("[data-testid=note]")
    page.one(f'{THREAD}[data-thread="{root}"]')
    office.client.chat_postMessage(channel="C0GENERAL", thread_ts=root, text="again <@UCLEO0001>")
    page.message("again", thread=True)
    assert not page.all("[data-testid=bell] .bell-count")


# looking behind it


def test_inspector(at: Page, office: Office) -> None:
    """It shows a message's JSON with metadata, deliveries with acknowledgement times, and calls without tokens."""
    data = {"event_type": "card", "event_payload": {"key": "value"}}
    ts = str(office.client.chat_postMessage(channel=SUPPORT, text="look inside", metadata=data)["ts"])
    at.message("look inside")
    at.menu(ts, "inspect")
    shown = json.loads(at.wait(lambda: at.text("[data-testid=json]")))
    assert [shown["text"], shown["metadata"]] == ["look inside", data]
    at.press("[data-testid=inspector-deliveries]")
    office.sandbox.person("ben").say("#support", "an event for the log")
    row = at.wait(lambda: [r.text for r in at.all("[data-testid=log-row]") if "an event for the log" in r.text])[0]
    assert row.startswith("message")
    at.wait(lambda: [r for r in at.all("[data-testid=log-row].good") if " ms" in r.text.split("\n")[-1]])
    at.press("[data-testid=inspector-calls]")
    at.type("[data-testid=inspector-filter]", "connections.open")
    assert [r.text.split("\n")[0] for r in at.all("[data-testid=log-row]")] == ["apps.connections.open"]
    at.press("[data-testid=log-row] summary")
    assert "xapp-" not in at.text("[data-testid=panel]")
    assert "ticket=…" in at.text("[data-testid=panel]")
    at.keys(Keys.ESCAPE)
    at.gone("[data-testid=panel]")


def test_clock_to_the_next_deadline(at: Page, office: Office) -> None:
    """The clock's menu offers the next time that a card with buttons names, and moves there."""
    due = int(office.sandbox.clock.now().timestamp()) + 5000
    until = samples.mrkdwn(f"Decide by <!date^{due}^{{time}}|soon>")
    office.client.chat_postMessage(
        channel=SUPPORT,
        text="due",
        blocks=[{"type": "context", "elements": [until]}, samples.actions(samples.button("Go", "go"))],
    )
    at.message("Decide by")
    at.press("[data-testid=clock-menu]")
    at.press("[data-advance=deadline]")
    office.sandbox.wait(lambda: 0 <= office.sandbox.clock.now().timestamp() - due < 30)


# the keyboard


def test_keyboard_from_end_to_end(at: Page, office: Office) -> None:
    """Skip link, arrow keys in the channels and messages, a message's own buttons, and where Escape leads back to."""
    ts = office.sandbox.person("ana").say("#support", "the newest one")
    at.message("the newest one")
    at.keys(Keys.TAB)
    at.has_focus(".skip")
    at.keys(Keys.ENTER)
    at.has_focus("#messages")
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


def test_whom_one_acts_as_by_keyboard(at: Page) -> None:
    """Alt+P opens the list of people, a letter finds one, Enter acts as them; Escape leaves things as they are."""
    at.keys(Keys.chord(Keys.ALT, "p"))
    at.has_focus("[data-person=ben]")
    at.keys("c", Keys.ENTER)
    at.one("[data-testid=person-switch][data-me=cleo]")
    at.keys(Keys.chord(Keys.ALT, "p"))
    at.keys(Keys.HOME, Keys.ESCAPE)
    at.has_focus("[data-testid=person-switch][data-me=cleo]")
    at.keys(Keys.chord(Keys.ALT, "n"))
    assert "Cleo Martin’s phone" in at.text("[data-testid=panel]")
    at.keys(Keys.chord(Keys.ALT, "i"))
    assert "Deliveries" in at.text("[data-testid=panel]")
    at.keys(Keys.ESCAPE)
    at.has_focus("[data-testid=inspect]")


def test_nothing_is_claimed_about_an_unknown_app(at: Page) -> None:
    """A sandbox without a guide suggests nothing: no first steps, no ideas, no hint whom to act as."""
    assert not at.all("[data-testid=hint], [data-testid=ideas], [data-testid=next-hint]")


def test_modal_closes_with_escape(at: Page, office: Office) -> None:
    """Escape closes a modal and the focus returns to the button that opened it."""
    office.client.chat_postMessage(
        channel=SUPPORT, text="card", blocks=[samples.actions(samples.button("Open it", "open-it"))]
    )
    at.click("open-it")
    at.modal("A request")
    at.keys(Keys.ESCAPE)
    at.gone(MODAL)
    at.has_focus("[data-action-id=open-it]")
