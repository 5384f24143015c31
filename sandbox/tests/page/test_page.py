"""The page and the sandbox alone: what it draws, keeps and sends, and what it never runs."""

from __future__ import annotations

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from slack_sandbox.server import Sandbox

from . import samples
from .page import MAIN, MODAL, THREAD, Page
from .recording_app import RecordingApp

pytestmark = [pytest.mark.browser, pytest.mark.long]
SUPPORT = "C0SUPPORT"
EVIL = (
    '<img src=x onerror="window.pwned=1"><script>window.pwned=1</script>'
    "'\"&amp;&lt;b&gt; javascript:alert(1)"
)


def test_a_card_is_drawn_as_people_read_it(sandbox: Sandbox, app: RecordingApp, page: Page) -> None:
    """A card's header, fields, mentions and coloured buttons appear as a person reads them."""
    ts = app.client.chat_postMessage(channel=SUPPORT, text="card", blocks=samples.CARD)["ts"]
    page.open(sandbox.url)
    card = page.one(f'{MAIN} [data-ts="{ts}"]')
    for text in (
        "Countersign",
        "APP",
        "Refund an order",
        "40.00 EUR",
        "one field",
        "@Ben Okafor",
        "@shop-leads",
    ):
        assert text in card.text
    assert card.find_element(By.CSS_SELECTOR, "strong").text == "40.00 EUR"
    assert card.find_element(By.CSS_SELECTOR, "code").text == "1042"
    assert card.find_element(By.CSS_SELECTOR, "em").text == "two"
    colours = [
        page.one(f"[data-action-id={a}]").value_of_css_property("background-color")
        for a in ("approve", "reject")
    ]
    assert colours == ["rgba(20, 112, 90, 1)", "rgba(199, 24, 75, 1)"]


def test_rich_text_markdown_and_tables_are_drawn(
    sandbox: Sandbox, app: RecordingApp, page: Page
) -> None:
    """Rich text, the markdown block and tables become lists, quotes, code and cells."""
    items = [
        {"type": "rich_text_section", "elements": [samples.run(t)]} for t in ("first", "second")
    ]
    rich = {
        "type": "rich_text",
        "elements": [
            {
                "type": "rich_text_section",
                "elements": [
                    samples.run("bold", bold=True),
                    {"type": "user", "user_id": "UANA00001"},
                ],
            },
            {"type": "rich_text_list", "style": "ordered", "elements": items},
            {"type": "rich_text_quote", "elements": [samples.run("quoted")]},
            {"type": "rich_text_preformatted", "elements": [samples.run("x = *1*")]},
        ],
    }
    cells = [
        [{"type": "raw_text", "text": t} for t in row]
        for row in (("Order", "Total"), ("1042", "40.00"))
    ]
    app.client.chat_postMessage(
        channel=SUPPORT, text="rich", blocks=[rich, {"type": "table", "rows": cells}]
    )
    words = "# Title\n\n- *one*\n- ~~two~~\n\n|a|b|\n|-|-|\n|1|2|\n\n```\n<b>x</b>\n```\n[go](https://example.com/)"
    app.client.chat_postMessage(
        channel=SUPPORT, text="words", blocks=[{"type": "markdown", "text": words}]
    )
    page.open(sandbox.url)
    found = {
        tag: [e.text for e in page.all(f"{MAIN} .content {tag}")]
        for tag in ("li", "blockquote", "pre", "td", "em", "s")
    }
    assert found == {
        "li": ["first", "second", "one", "two"],
        "blockquote": ["quoted"],
        "pre": ["x = *1*", "<b>x</b>"],
        "td": ["1042", "40.00", "1", "2"],
        "em": ["one"],
        "s": ["two"],
    }
    assert "@Ana Ruiz" in page.messages()[0]
    assert [a.get_attribute("href") for a in page.all(f"{MAIN} .content a")] == [
        "https://example.com/"
    ]


def _evil_blocks() -> list[samples.Json]:
    link = {"type": "link", "url": 'https://example.com/"onmouseover="window.pwned=1', "text": EVIL}
    return [
        {"type": "header", "text": samples.plain(EVIL)},
        {
            "type": "section",
            "text": samples.mrkdwn(f"{EVIL} <javascript:alert(1)|go> *{EVIL}* `{EVIL}`"),
            "fields": [samples.plain(EVIL)],
        },
        samples.rich(samples.run(EVIL, bold=True), link),
        {
            "type": "markdown",
            "text": f"{EVIL} [x](javascript:window.pwned=1) ![{EVIL}](x) **{EVIL}**\n\n"
            f"|{EVIL}|b|\n|-|-|\n|{EVIL}|2|",
        },
        {"type": "image", "image_url": "https://example.com/x.png", "alt_text": EVIL},
        {"type": "table", "rows": [[{"type": "raw_text", "text": EVIL}]]},
        samples.actions(
            samples.button(
                "<svg onload=window.pwned=1>",
                "evil",
                confirm=samples.CONFIRM | {"text": samples.mrkdwn(EVIL)},
            )
        ),
    ]


def test_text_never_becomes_markup(sandbox: Sandbox, app: RecordingApp, page: Page) -> None:
    """Markup and script addresses in any text are shown as text.

    Nothing runs, is fetched or links there.
    """
    sandbox.person("ana").say("#support", EVIL)
    app.client.chat_postMessage(channel=SUPPORT, text=EVIL)
    app.client.chat_postMessage(channel=SUPPORT, text=EVIL, blocks=_evil_blocks())
    app.client.chat_postEphemeral(channel=SUPPORT, user="UBEN00001", text=EVIL)
    app.open_modal_on_click(
        samples.modal(
            samples.field("evil", {"type": "plain_text_input"}, hint=samples.plain(EVIL)),
            title="<i>x",
        )
    )
    page.open(sandbox.url)
    assert page.message(EVIL.split("javascript")[0][:40])
    page.click("evil")
    page.confirm()
    page.modal("<i>x")
    assert "onerror" in page.one(f"{MODAL} [data-block-id=evil] .field-hint").text
    assert page.driver.execute_script("return window.pwned ?? null") is None
    forbidden = (
        "main img, main script, main iframe, dialog img, "
        "[onerror], [onload], [onmouseover], a[href^='javascript' i]"
    )
    assert page.driver.find_elements(By.CSS_SELECTOR, forbidden) == []


def test_a_typed_message_is_sent_and_shown(sandbox: Sandbox, page: Page) -> None:
    """Enter sends, Shift+Enter makes a line, the button addresses the bot.

    What is sent is escaped once.
    """
    page.open(sandbox.url)
    page.press("[data-testid=mention-bot]")
    page.say("1 < 2 & 3\nsecond line")
    message = page.message("second line")
    sent = sandbox.person("ben").messages("#support")[-1]["text"]
    assert sent == "<@UBOT00001> 1 &lt; 2 &amp; 3\nsecond line"
    assert "@Countersign 1 < 2 & 3" in message.text


def test_a_thread_opens_and_closes(sandbox: Sandbox, app: RecordingApp, page: Page) -> None:
    """Replies are counted below their root and read and written in the pane beside it."""
    root = sandbox.person("ben").say("#support", "the root")
    app.client.chat_postMessage(channel=SUPPORT, thread_ts=root, text="*a reply*")
    page.open(sandbox.url)
    assert page.message_text("the root").count("1 reply") == 1
    page.open_thread(root)
    page.say("an answer", thread=True)
    page.message("an answer", thread=True)
    assert sandbox.person("ana").messages("#support", root)[-1]["text"] == "an answer"
    assert "an answer" not in "".join(page.messages())
    page.press("[data-testid=thread-close]")
    page.gone(THREAD)


def test_an_ephemeral_message_is_shown_to_one_person(
    sandbox: Sandbox, app: RecordingApp, page: Page
) -> None:
    """Ana's page says that only she sees it; Ben's page does not contain it."""
    app.client.chat_postEphemeral(channel=SUPPORT, user="UANA00001", text="a secret")
    sandbox.person("ben").say("#support", "hello")
    page.open(sandbox.url, "ana")
    assert "Only visible to you" in page.message_text("a secret")
    page.be("ben")
    page.message("hello")
    assert "a secret" not in page.driver.page_source


def test_a_status_and_its_stop_button_work(sandbox: Sandbox, app: RecordingApp, page: Page) -> None:
    """A status is shown in the channel and the thread, and Stop tells the app."""
    root = sandbox.person("ben").say("#support", "@bot hello")
    app.client.assistant_threads_setStatus(
        channel_id=SUPPORT, thread_ts=root, status="is thinking…"
    )
    page.open(sandbox.url)
    assert "Countersign is thinking…" in page.message_text("hello")
    page.open_thread(root)
    page.press(f"{THREAD} [data-testid=stop]")
    sandbox.wait(
        lambda: [d for d in sandbox.deliveries if d.event.get("type") == "agent_session_stopped"]
    )


def test_drafts_survive_and_the_clock_can_be_moved(sandbox: Sandbox, page: Page) -> None:
    """A draft survives new messages and a change of person.

    The clock's buttons move the sandbox's time.
    """
    page.open(sandbox.url)
    page.type("[data-testid=composer]", "half a thought")
    sandbox.person("ana").say("#support", "news")
    page.message("news")
    page.be("ana")
    assert page.one("[data-testid=composer]").get_attribute("value") == ""
    page.be("ben")
    assert page.one("[data-testid=composer]").get_attribute("value") == "half a thought"
    before = sandbox.clock.now()
    page.advance(3600)
    sandbox.wait(lambda: (sandbox.clock.now() - before).total_seconds() >= 3600)


def test_unread_channels_are_marked_and_a_phone_fits(sandbox: Sandbox, page: Page) -> None:
    """A channel with unread messages is marked.

    On a phone the channel list opens over the page and a thread fills it.
    """
    root = sandbox.person("ana").say("#general", "hi @ben")
    sandbox.person("dan").say("#general", "a reply", root)
    page.size(390, 844)
    page.open(sandbox.url)
    page.one("[data-testid=menu-button][aria-label$=unread]")
    page.press("[data-testid=menu-button]")
    page.one('[data-channel-name="general"].unread .count-badge')
    page.go("general")
    page.open_thread(root)
    assert not page.all(MAIN)
    page.press("[data-testid=thread-back]")
    page.message("hi @Ben Okafor")
    assert page.driver.execute_script("return document.documentElement.scrollWidth <= innerWidth")
    assert page.complaints() == []


def test_the_page_works_without_a_mouse(sandbox: Sandbox, app: RecordingApp, page: Page) -> None:
    """By keyboard: act as another person, open a thread, write in it, leave it with Escape."""
    root = sandbox.person("ben").say("#support", "the root")
    app.client.chat_postMessage(channel=SUPPORT, thread_ts=root, text="a reply")
    page.open(sandbox.url)
    page.one("[data-testid=person-switch]").send_keys(Keys.ENTER)
    page.driver.switch_to.active_element.send_keys(Keys.ARROW_UP, Keys.ENTER)
    page.wait(
        lambda: page.driver.find_elements(By.CSS_SELECTOR, 'html[data-ready="UANA00001"]'),
        "not Ana yet",
    )
    page.one(f'[data-testid=open-thread][data-thread="{root}"]').send_keys(Keys.ENTER)
    page.one(THREAD)
    page.driver.switch_to.active_element.send_keys("from the keyboard", Keys.ENTER)
    assert (
        sandbox.wait(lambda: sandbox.person("ben").messages("#support", root)[2:])[0]["user"]
        == "UANA00001"
    )
    page.driver.switch_to.active_element.send_keys(Keys.ESCAPE)
    page.gone(THREAD)
    assert page.driver.switch_to.active_element.get_attribute("data-thread") == root
