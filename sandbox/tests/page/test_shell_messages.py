"""Messages and what people do with them: commands, edits, files, reactions, pins, streams."""

from __future__ import annotations

import pytest
from selenium.webdriver.common.keys import Keys

from . import samples
from .page import MAIN, Page
from .workspace import SUPPORT, Workspace

pytestmark = [pytest.mark.browser, pytest.mark.long]
COMPOSER = "[data-testid=composer]"
LIVE = "[data-testid=live]"


def _list_payloads(workspace: Workspace, kind: str) -> list[samples.Json]:
    return [d.payload for d in workspace.sandbox.deliveries if d.kind == kind]


def _read_live_region(page: Page) -> str:
    return str(page.driver.execute_script(f"return document.querySelector('{LIVE}').textContent"))


# writing


def test_typing_a_slash_offers_commands(at: Page, workspace: Workspace) -> None:
    """Typing "/" offers the apps' commands with their hints.

    One is chosen by keyboard, and what follows is sent.
    """
    at.type(COMPOSER, "/")
    rows = at.text("[data-testid=suggest]")
    assert "/deploy\n[place]\nShip a release · Countersign" in rows
    at.type(COMPOSER, "r")
    assert "/deploy" not in at.text("[data-testid=suggest]")
    at.keys(Keys.ENTER)
    at.say("1042 please")
    workspace.sandbox.wait(lambda: _list_payloads(workspace, "slash_commands"))
    assert [
        _list_payloads(workspace, "slash_commands")[-1][key] for key in ("command", "text")
    ] == [
        "/refund",
        "1042 please",
    ]


def test_unknown_commands_are_kept(at: Page) -> None:
    """An unknown command is refused in private by Slackbot, and stays in the composer."""
    at.type(COMPOSER, "/dance now")
    at.keys(Keys.ENTER)
    notice = at.message("/dance")
    assert "Slackbot" in notice.text
    assert "Only visible to you" in notice.text
    assert at.one(COMPOSER).get_attribute("value") == "/dance now"
    at.one(COMPOSER).clear()


def test_typing_an_at_sign_completes_names(at: Page, workspace: Workspace) -> None:
    """ "@cl" offers Cleo, Tab chooses her, Escape closes the list.

    The message mentions her.
    """
    at.type(COMPOSER, "ask @cl")
    assert at.text("[data-testid=suggest]").startswith("CM\nCleo Martin")
    at.keys(Keys.ESCAPE)
    at.gone("[data-testid=suggest]")
    at.type(COMPOSER, "e")
    at.one("[data-testid=suggest]")
    at.keys(Keys.TAB)
    at.say("soon")
    at.message("soon")
    assert (
        workspace.sandbox.person("ben").messages("#support")[-1]["text"] == "ask <@UCLEO0001> soon"
    )


def test_own_messages_are_edited_and_deleted(at: Page, workspace: Workspace) -> None:
    """Edit shows what was typed, Escape leaves it, Enter saves; deleting asks first.

    Others' messages offer neither.
    """
    mine = workspace.sandbox.person("ben").say("#support", "see @ana <now>")
    theirs = workspace.sandbox.person("ana").say("#support", "not yours")
    at.message("not yours")
    at.menu(mine, "edit")
    assert at.one("[data-testid=edit-text]").get_attribute("value") == "see @ana <now>"
    at.keys(" or never", Keys.ESCAPE)
    at.gone("[data-testid=edit-text]")
    at.has_focus(f'article[data-ts="{mine}"]')
    at.menu(mine, "edit")
    at.keys(" & then", Keys.ENTER)
    at.message("& then")
    assert (
        workspace.sandbox.person("ana").messages("#support")[-2]["text"]
        == "see <@UANA00001> &lt;now&gt; &amp; then"
    )
    at.menu(theirs, "inspect")
    at.press("[data-testid=panel-close]")
    at.press(f'{MAIN} [data-ts="{theirs}"] [data-testid=message-menu]')
    assert "Delete" not in at.text("[data-testid=menu]")
    at.keys(Keys.ESCAPE)
    at.menu(mine, "delete")
    at.one("[data-testid=confirm]")
    at.keys(Keys.TAB, Keys.ENTER)
    at.gone(f'{MAIN} [data-ts="{mine}"]')
    at.has_focus(f'article[data-ts="{theirs}"]')


def test_files_are_shown_with_name_type_and_size(at: Page, workspace: Workspace) -> None:
    """A file has its name, type and size, a small CSV is a table, each can be downloaded."""
    text = 'order,customer,"of ""x"""\n1042,"Lindqvist, Mara",1\n'
    workspace.client.files_upload_v2(
        channel=SUPPORT, filename="orders.csv", content=text, title="Orders"
    )
    box = at.one(f"{MAIN} [data-testid=file]")
    assert "Orders\nCSV · 51 bytes" in box.text
    cells = at.wait(lambda: [c.text for c in at.all(f"{MAIN} [data-testid=file] :is(th, td)")])
    assert cells == ["order", "customer", 'of "x"', "1042", "Lindqvist, Mara", "1"]
    link = str(at.one("[data-testid=download]").get_attribute("href"))
    assert link.startswith(f"{workspace.sandbox.url}/files-pri/")
    assert "as=UBEN00001" in link


# reactions, pins, shortcuts, streams


def test_reactions_come_and_go(at: Page, workspace: Workspace) -> None:
    """A reaction is picked by keyboard, counted and named, and goes when pressed again."""
    ts = workspace.sandbox.person("ana").say("#support", "react to this")
    workspace.sandbox.person("ana").react("#support", ts, "eyes")
    mine = f'{MAIN} [data-ts="{ts}"]'
    assert at.one(f"{mine} [data-value=eyes]").get_attribute("aria-label") == "eyes, 1: Ana Ruiz"
    at.press(f"{mine} [data-value=eyes]")
    at.one(f"{mine} [data-value=eyes][aria-pressed=true]")
    at.press(f"{mine} .reaction.add")
    at.keys(Keys.ARROW_RIGHT, Keys.ENTER)
    at.one(f'{mine} [data-value="+1"][aria-pressed=true]')
    at.press(f"{mine} [data-value=eyes]")
    at.one(f"{mine} [data-value=eyes][aria-pressed=false]")
    reactions = workspace.sandbox.person("ana").messages("#support")[-1]["reactions"]
    assert {r["name"]: r["users"] for r in reactions} == {
        "eyes": ["UANA00001"],
        "+1": ["UBEN00001"],
    }


def test_pins_and_bookmarks_are_shown(at: Page, workspace: Workspace) -> None:
    """A pinned message says who pinned it and is found from the head.

    Bookmarks are links below it.
    """
    ts = workspace.sandbox.person("ana").say("#support", "keep this")
    workspace.client.pins_add(channel=SUPPORT, timestamp=ts)
    workspace.client.bookmarks_add(
        channel_id=SUPPORT, title="Runbook", type="link", link="https://example.com/r"
    )
    assert "Pinned by Countersign" in at.wait(
        lambda: m.text if "Pinned" in (m := at.message("keep this")).text else ""
    )
    at.press("[data-testid=pins]")
    at.keys(Keys.ENTER)
    at.has_focus(f'article[data-ts="{ts}"]')
    assert at.one("[data-testid=bookmarks] a").get_attribute("href") == "https://example.com/r"


def test_shortcuts_reach_the_app(at: Page, workspace: Workspace) -> None:
    """A message's menu and the channel's offer the apps' shortcuts.

    Both reach the app, which may open a modal.
    """
    ts = workspace.sandbox.person("ana").say("#support", "make something of this")
    at.message("make something of this")
    at.menu(ts, "from_message")
    at.modal("A request")
    at.close_modal()
    payload = workspace.app.wait("message_action")
    assert [payload["callback_id"], payload["message"]["ts"]] == ["from_message", ts]
    at.press("[data-testid=shortcuts]")
    assert "New request\nCountersign · Ask for anything" in at.text("[data-testid=menu]")
    at.press("[data-shortcut=new_request]")
    at.modal("A request")
    at.close_modal()
    assert workspace.app.wait("shortcut")["user"]["id"] == "UBEN00001"


def test_streams_grow_and_are_read_out_once(at: Page, workspace: Workspace) -> None:
    """Streamed text appears as it comes.

    The live region says it when it is complete, but not one's own messages.
    """
    ben = workspace.sandbox.person("ben")
    root = ben.say("#support", "tell me a story")
    at.message("tell me a story")
    workspace.client.chat_startStream(
        channel=SUPPORT, thread_ts=root, recipient_user_id=ben.id, recipient_team_id="T0SANDBOX"
    )
    ts = ben.messages("#support", root)[-1]["ts"]
    at.open_thread(root)
    for text in ("Once upon ", "a time"):
        workspace.client.chat_appendStream(channel=SUPPORT, ts=ts, markdown_text=text)
    assert at.message("Once upon a time", thread=True).find_elements("css selector", ".streaming")
    assert _read_live_region(at) == ""
    workspace.client.chat_stopStream(channel=SUPPORT, ts=ts)
    said = at.wait(lambda: _read_live_region(at))
    assert said == "Countersign: Once upon a time"
    at.be("ana")
    assert _read_live_region(at) == "", (
        "what was read out to one person stands on another one's page"
    )


def test_unread_messages_have_a_line(page: Page, workspace: Workspace) -> None:
    """Messages since the last visit are below a line, which is gone at the next visit."""
    page.open(workspace.sandbox.url, "dan", SUPPORT)
    page.go("general")
    ts = workspace.sandbox.person("ana").say("#support", "while Dan was away")
    page.one('[data-channel-name="support"].unread')
    page.go("support")
    after = "return document.querySelector('[data-testid=fresh]').nextElementSibling.dataset.ts"
    assert page.driver.execute_script(after) == ts
    page.go("general")
    page.go("support")
    assert page.all("[data-testid=fresh]") == []


def test_a_channel_stays_at_its_end_until_one_scrolls_up(at: Page, workspace: Workspace) -> None:
    """The newest message stays in view when a file's preview loads late or the window gets lower.

    A reader who has scrolled up is not moved.
    """
    for n in range(8):
        workspace.sandbox.person("ana").say("#support", f"line {n}\n" * 6)
    rows = "".join(f"{n},Lindqvist\n" for n in range(12))
    workspace.client.files_upload_v2(
        channel=SUPPORT, filename="rows.csv", content=f"order,name\n{rows}", title="Rows"
    )
    at.open(workspace.sandbox.url)
    at.one(f"{MAIN} [data-testid=file] td")
    left = (
        "const s = document.getElementById('messages');"
        "return s.scrollHeight - s.scrollTop - s.clientHeight"
    )
    at.wait(lambda: at.driver.execute_script(left) < 2, "not at the end")
    at.size(1280, 500)
    at.wait(lambda: at.driver.execute_script(left) < 2, "not at the end of a lower window")
    at.driver.execute_script("document.getElementById('messages').scrollTop -= 300")
    workspace.sandbox.person("ana").say("#support", "news below")
    at.message("news below")
    assert at.driver.execute_script(left) > 250
