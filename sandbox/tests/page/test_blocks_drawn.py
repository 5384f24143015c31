"""Every block and element as the page draws it: whole, accessible, and fit for a phone."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from sandbox.tests.blockkit.gallery import gallery as all_samples
from sandbox.tests.blockkit.gallery.elements import ELEMENTS

from . import samples
from .axe import findings
from .gallery import Gallery
from .page import MAIN

pytestmark = [pytest.mark.browser, pytest.mark.long]
Json = dict[str, Any]
Drawn = dict[str, tuple[str, list[Json]]]
EVIL = (
    '<img src=x onerror="window.pwned=1">\u202egnp.exe \u05e9\u05dc\u05d5\u05dd\u200b &amp; '
    + "w" * 80
)
SCROLLS = "return document.documentElement.scrollWidth > innerWidth"
DRAW_UNKNOWN = """const done = arguments[arguments.length - 1];
import("/page/blocks/blocks.js").then(({blocks}) => {
  const place = {surface: "message", key: "x", state: {}, ui: new Map()};
  const lever = {type: "actions", elements: [{type: "lever", action_id: "a"}]};
  const list = [{type: "hologram"}, lever, {type: "constructor"}];
  done(blocks(list, place).map((node) => node.textContent));
});"""


@pytest.fixture(autouse=True)
def _loaded_page(gallery: Gallery) -> None:
    if not gallery.ready():
        gallery.look()


def _get_samples_for(surface: str) -> dict[str, list[Json]]:
    return {
        n: copy.deepcopy(s["blocks"]) for n, s in all_samples().items() if s["surface"] == surface
    }


@pytest.fixture(scope="module")
def drawn(gallery: Gallery) -> Drawn:
    """Every sample of a message, posted once: its selector and its blocks, by name."""
    return {
        name: (gallery.post(*blocks), blocks)
        for name, blocks in _get_samples_for("message").items()
    }


def test_every_sample_is_drawn_on_the_page(gallery: Gallery, drawn: Drawn) -> None:
    """There is no placeholder, and the console logs no error."""
    gallery.page.one(list(drawn.values())[-1][0])
    for name, (css, blocks) in drawn.items():
        nodes = gallery.page.driver.find_elements(
            By.CSS_SELECTOR, f"{css} .content > [data-block-type]"
        )
        assert [n.get_attribute("data-block-type") for n in nodes] == [b["type"] for b in blocks], (
            name
        )
        assert all(n.get_attribute("innerHTML") for n in nodes) or name.endswith("for some"), name
    assert gallery.page.driver.find_elements(By.CSS_SELECTOR, "[data-testid=unknown]") == []
    assert gallery.page.complaints() == []


RELATIVE = """const done = arguments[arguments.length - 1];
import("/page/text/dates.js").then(({relative}) => done(arguments[0].map(relative)));"""


def test_times_from_now_are_rounded(gallery: Gallery) -> None:
    """A minute later, four hours are still four hours; two days ago is not "yesterday"."""
    hour = 3600
    given = [4 * hour - 60, -44 * hour, -25 * hour, -90, 20, -20]
    said = gallery.page.driver.execute_async_script(RELATIVE, given)
    assert said[:3] == ["in 4 hours", "2 days ago", "1 day ago"]
    assert said[3:] == ["1 minute ago", "in less than a minute", "just now"]


@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 390)])
def test_all_messages_are_accessible(
    gallery: Gallery, drawn: Drawn, theme: str, width: int
) -> None:
    """All messages pass an accessibility checker in both themes, wide and on a phone."""
    gallery.look(theme, width)
    gallery.page.one(list(drawn.values())[-1][0])
    assert findings(gallery.page, MAIN) == []


def test_a_phone_shows_everything_without_sideways_scrolling(gallery: Gallery) -> None:
    """At 360 pixels wide blocks scroll within themselves."""
    cells = [[{"type": "raw_text", "text": f"column {n} " * 3} for n in range(9)]]
    css = gallery.post({"type": "table", "rows": cells * 2}, samples.rich(samples.run("w" * 300)))
    gallery.look(width=360)
    table = gallery.page.one(f"{css} .table-scroll")
    assert gallery.page.driver.execute_script(
        "return arguments[0].scrollWidth > arguments[0].clientWidth", table
    )
    messages = gallery.page.driver.execute_script(
        f"const m = document.querySelector('{MAIN}').parentElement;"
        "return [m.scrollWidth, m.clientWidth]"
    )
    assert messages[0] == messages[1]
    assert not gallery.page.driver.execute_script(SCROLLS)
    gallery.look()


def test_unknown_block_types_are_named(gallery: Gallery) -> None:
    """The page draws a block that it does not know as a line with its type."""
    said = gallery.page.driver.execute_async_script(DRAW_UNKNOWN)
    assert said == [
        "This sandbox does not draw “hologram” blocks.",
        "This sandbox does not draw “lever” elements.",
        "This sandbox does not draw “constructor” blocks.",
    ]


# folding, paging, reading


def test_menus_containers_and_tables_work_by_keyboard(gallery: Gallery) -> None:
    """The dots' menu, a folded container and a table's pages and order work with Enter alone."""
    blocks = all_samples()
    overflow = gallery.shown(samples.actions(copy.deepcopy(ELEMENTS["overflow"])))
    gallery.mark()
    gallery.focus(f"{overflow} .overflow")
    gallery.keys(Keys.ENTER)
    gallery.keys(Keys.ARROW_DOWN, Keys.ENTER)
    assert gallery.action()["selected_option"]["value"] == "copy link"
    folded = gallery.shown(*blocks["container collapsed"]["blocks"])
    assert not gallery.page.all(f"{folded} .container-body")
    gallery.focus(f"{folded} [data-testid=fold]")
    gallery.keys(Keys.ENTER)
    gallery.page.one(f"{folded} .container-body")
    table = gallery.shown(*blocks["data_table"]["blocks"])
    rows = gallery.page.all(f"{table} tbody tr")
    gallery.focus(f"{table} .table-pages [aria-label='Next page']")
    gallery.keys(Keys.ENTER)
    assert len(gallery.page.all(f"{table} tbody tr")) == 1 < len(rows)
    gallery.focus(f"{table} th:nth-child(3) .sorter")
    gallery.keys(Keys.ENTER)
    gallery.keys(Keys.ENTER)
    assert gallery.page.one(f"{table} th:nth-child(3)").get_attribute("aria-sort") == "descending"
    prices = [
        r.find_elements(By.CSS_SELECTOR, "td, th")[2].text
        for r in gallery.page.all(f"{table} tbody tr")
    ]
    assert [float(p) for p in prices] == sorted((float(p) for p in prices), reverse=True)
    assert len(prices) == 2


def test_an_opened_container_stays_open(gallery: Gallery) -> None:
    """A container that a reader opened stays open when the message is changed."""
    block = copy.deepcopy(all_samples()["container collapsed"]["blocks"][0]) | {"block_id": "c"}
    css = gallery.shown(block)
    gallery.page.press(f"{css} [data-testid=fold]")
    ts = gallery.page.one(css).get_attribute("data-ts")
    changed = [block, {"type": "section", "text": samples.plain("news")}]
    gallery.app.client.chat_update(channel="C0SUPPORT", ts=ts, text="new", blocks=changed)
    gallery.page.wait(lambda: "news" in gallery.page.one(css).text)
    gallery.page.one(f"{css} .container-body")


def test_charts_have_a_text_alternative_and_a_table(gallery: Gallery) -> None:
    """A chart has a text alternative and a table with every number, and its bars begin at zero."""
    chart = {
        "type": "bar",
        "series": [
            {"name": "EUR", "data": [{"label": "May", "value": 10}, {"label": "June", "value": -5}]}
        ],
        "axis_config": {"categories": ["May", "June"]},
    }
    css = gallery.shown({"type": "data_visualization", "title": "Refunds", "chart": chart})
    svg = gallery.page.one(f"{css} svg[role=img]")
    assert svg.get_attribute("aria-label") == "Bar chart. EUR: May 10, June -5."
    up, down = (r.rect["height"] for r in svg.find_elements(By.TAG_NAME, "rect"))
    assert up == pytest.approx(2 * down, abs=1)
    gallery.page.press(f"{css} summary")
    assert [td.text for td in gallery.page.all(f"{css} .figures td")][-2:] == ["10", "-5"]


# text that must never become markup


def _build_hostile_blocks() -> list[list[Json]]:
    words = {"type": "plain_text", "text": EVIL[:150], "emoji": False}
    short = {"type": "plain_text", "text": EVIL[:58], "emoji": False}
    raw = {"type": "raw_text", "text": EVIL}
    rich = {
        "type": "rich_text",
        "elements": [{"type": "rich_text_section", "elements": [samples.run(EVIL)]}],
    }
    task = {"type": "task_card", "task_id": "t", "title": EVIL, "details": rich, "output": rich}
    task["sources"] = [{"type": "url", "url": "https://shop.example/", "text": EVIL}]
    points = [{"label": EVIL[:20], "value": 1}]
    axes = {"categories": [EVIL[:20]], "x_label": EVIL[:50], "y_label": EVIL[:50]}
    chart = {"type": "line", "series": [{"name": EVIL[:20], "data": points}], "axis_config": axes}
    card = {
        "type": "card",
        "title": words,
        "subtitle": samples.mrkdwn(EVIL[:150]),
        "body": samples.mrkdwn(EVIL[:200]),
    }
    return [
        [{"type": "table", "rows": [[raw], [{"type": "rich_text", "elements": rich["elements"]}]]}],
        [{"type": "data_table", "caption": EVIL, "rows": [[raw], [raw]]}],
        [{"type": "data_visualization", "title": EVIL[:50], "chart": chart}],
        [{"type": "plan", "title": EVIL, "tasks": [task]}, card],
        [{"type": "carousel", "elements": [card]}],
        [{"type": "container", "title": words, "child_blocks": [_section(words)]}],
        [_build_hostile_menus(short)],
    ]


def _section(text: Json) -> Json:
    return {"type": "section", "text": text}


def _build_hostile_menus(text: Json) -> Json:
    options = [{"text": text, "value": "a", "description": text}]
    several = {"options": options, "initial_options": options}
    return samples.actions(
        {"type": "static_select", "action_id": "s", "placeholder": text, "options": options},
        {"type": "multi_static_select", "action_id": "m", **several},
        {"type": "checkboxes", "action_id": "c", "options": options},
        {"type": "overflow", "action_id": "o", "options": options},
    )


def test_hostile_text_stays_text(gallery: Gallery) -> None:
    """Markup, direction overrides and endless words in every field are shown as plain text."""
    for blocks in _build_hostile_blocks():
        css = gallery.shown(*blocks)
        assert "onerror" in gallery.page.one(css).text or "actions" in str(blocks)
    gallery.page.press(f"{css} [data-action-id=s]")
    assert "onerror" in gallery.page.text(f"{css} [role=option]")
    assert gallery.page.driver.execute_script("return window.pwned ?? null") is None
    assert (
        gallery.page.driver.find_elements(By.CSS_SELECTOR, f"{MAIN} img, {MAIN} script, [onerror]")
        == []
    )
    wide = gallery.page.driver.execute_script(
        f"return [...document.querySelectorAll('{MAIN} .content')]"
        ".filter(c => c.scrollWidth > c.clientWidth + 1)"
    )
    assert ([c.text for c in wide], gallery.page.driver.execute_script(SCROLLS)) == ([], False)
    assert gallery.page.complaints() == []
