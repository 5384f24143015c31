"""The editor of rich text: what it writes, what it keeps, and its links."""

from __future__ import annotations

from typing import Any

import pytest
from selenium.webdriver.common.keys import Keys

from sandbox.tests.blockkit.gallery.elements import INPUTS

from .gallery import Gallery, sample_input
from .page import MODAL

pytestmark = [pytest.mark.browser, pytest.mark.long]
Json = dict[str, Any]


@pytest.fixture(autouse=True)
def _loaded_page(gallery: Gallery) -> None:
    if gallery.page.all(MODAL):
        gallery.page.close_modal()
    if not gallery.ready():
        gallery.look()


def _tool(gallery: Gallery, name: str) -> None:
    gallery.page.press(f"{MODAL} [data-tool={name}]")


def _list_item_texts(part: Json) -> list[str]:
    return ["".join(leaf.get("text", "") for leaf in item["elements"]) for item in part["elements"]]


def test_the_editor_writes_rich_text(gallery: Gallery) -> None:
    """Styles, code, nested lists and links become the rich_text JSON that Slack would send."""
    gallery.modal(sample_input("rich_text_input empty", "story"))
    editor = gallery.page.one(f"{MODAL} [data-action-id=story]")
    editor.send_keys("plain ", Keys.CONTROL, "b")
    editor.send_keys(Keys.NULL, "bold")
    _tool(gallery, "bold")
    editor.send_keys(" ")
    _tool(gallery, "code")
    editor.send_keys("x = 1", Keys.ARROW_RIGHT)
    editor.send_keys(Keys.ENTER)
    _tool(gallery, "bullet")
    editor.send_keys("one", Keys.ENTER, "two", Keys.CONTROL, "]")
    editor.send_keys(Keys.NULL)
    state = gallery.submitted()["story"]
    section = {
        "type": "rich_text_section",
        "elements": state["rich_text_value"]["elements"][0]["elements"],
    }
    assert state["type"] == "rich_text_input"
    assert section["elements"] == [
        {"type": "text", "text": "plain "},
        {"type": "text", "text": "bold", "style": {"bold": True}},
        {"type": "text", "text": " "},
        {"type": "text", "text": "x = 1", "style": {"code": True}},
    ]
    lists = state["rich_text_value"]["elements"][1:]
    assert [(part["style"], part["indent"], _list_item_texts(part)) for part in lists] == [
        ("bullet", 0, ["one"]),
        ("bullet", 1, ["two"]),
    ]


def test_the_editor_keeps_what_it_was_given(gallery: Gallery) -> None:
    """Untouched rich text comes back as it was, and pasted markup comes in as text."""
    gallery.modal(sample_input("rich_text_input", "story"))
    given = INPUTS["rich_text_input"]["initial_value"]["elements"]
    editor = gallery.page.one(f"{MODAL} [data-action-id=story]")
    assert editor.text == "very good"
    paste = """const data = new DataTransfer();
    data.setData("text/plain", "<b>raw</b>");
    data.setData("text/html", "<img src=x onerror=pwned=1>");
    getSelection().selectAllChildren(arguments[0]); getSelection().collapseToEnd();
    const how = {clipboardData: data, bubbles: true, cancelable: true};
    arguments[0].dispatchEvent(new ClipboardEvent("paste", how));"""
    editor.click()
    gallery.page.driver.execute_script(paste, editor)
    state = gallery.submitted()["story"]["rich_text_value"]["elements"]
    assert state[0]["elements"][0] == given[0]["elements"][0]
    assert "<b>raw</b>" in "".join(leaf["text"] for leaf in state[0]["elements"])
    assert gallery.page.driver.execute_script("return window.pwned ?? null") is None


def test_the_editor_makes_links_of_web_addresses_only(gallery: Gallery) -> None:
    """The link tool asks for text and address; what is no web address becomes no link."""
    gallery.modal(sample_input("rich_text_input empty", "story"))
    gallery.page.one(f"{MODAL} [data-action-id=story]").click()
    _tool(gallery, "link")
    for name, value in (("text", "the order"), ("url", "https://shop.example/7")):
        gallery.page.one(f"[data-testid=form-dialog] [name={name}]").send_keys(value)
    gallery.page.press("[data-testid=form-ok]")
    gallery.page.gone("[data-testid=form-dialog]")
    (part,) = gallery.submitted()["story"]["rich_text_value"]["elements"]
    assert part["elements"] == [
        {"type": "link", "url": "https://shop.example/7", "text": "the order"}
    ]
