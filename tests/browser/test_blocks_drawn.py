"""Every block and element as the page draws it, and what each one tells the app when it is used."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.block_gallery import CONTEXT_ACTIONS, ELEMENTS, ONLY_ACTIONS, SURE
from tests.block_gallery import gallery as all_samples

from . import samples
from .gallery import Gallery, findings
from .page import MAIN

pytestmark = pytest.mark.browser
Json = dict[str, Any]
EVIL = '<img src=x onerror="window.pwned=1">\u202egnp.exe \u05e9\u05dc\u05d5\u05dd\u200b &amp; ' + "w" * 80
SCROLLS = "return document.documentElement.scrollWidth > innerWidth"
DRAW_UNKNOWN = """const done = arguments[arguments.length - 1];
import("/page/blocks.js").then(({blocks}) => {
  const place = {surface: "message", key: "x", state: {}, ui: new Map()};
  const list = [{type: "hologram"}, {type: "actions", elements: [{type: "lever", action_id: "a"}]}, {type: "constructor"}];
  done(blocks(list, place).map((node) => node.textContent));
});"""


@pytest.fixture(autouse=True)
def _look(gallery: Gallery) -> None:
    if not gallery.ready():
        gallery.look()


def _of(surface: str) -> dict[str, list[Json]]:
    found = {n: copy.deepcopy(s["blocks"]) for n, s in all_samples().items() if s["surface"] == surface}
    return found


def test_every_sample_is_drawn(gallery: Gallery) -> None:
    """Each block of each sample stands on the page under its type; nothing is a placeholder, nothing is logged."""
    drawn = {name: (gallery.post(*blocks), blocks) for name, blocks in _of("message").items()}
    gallery.page.one(list(drawn.values())[-1][0])
    for name, (css, blocks) in drawn.items():
        nodes = gallery.page.driver.find_elements(By.CSS_SELECTOR, f"{css} .content > [data-block-type]")
        assert [n.get_attribute("data-block-type") for n in nodes] == [b["type"] for b in blocks], name
        assert all(n.get_attribute("innerHTML") for n in nodes) or name == "actions: button for some", name
    assert gallery.page.driver.find_elements(By.CSS_SELECTOR, "[data-testid=unknown]") == []
    assert gallery.page.complaints() == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_in_messages(gallery: Gallery, theme: str) -> None:
    """The gallery of all messages passes an accessibility checker in both themes."""
    gallery.look(theme)
    gallery.page.one(f"{MAIN} [data-ts]")
    assert findings(gallery.page, MAIN) == []


def test_a_phone_shows_all_of_it(gallery: Gallery) -> None:
    """At 360 pixels nothing makes the page scroll sideways; what is wide scrolls within itself."""
    cells = [[{"type": "raw_text", "text": f"column {n} " * 3} for n in range(9)]]
    css = gallery.post({"type": "table", "rows": cells * 2}, samples.rich(samples.run("w" * 300)))
    gallery.look(width=360)
    table = gallery.page.one(f"{css} .table-scroll")
    assert gallery.page.driver.execute_script("return arguments[0].scrollWidth > arguments[0].clientWidth", table)
    messages = gallery.page.driver.execute_script(
        f"const m = document.querySelector('{MAIN}').parentElement; return [m.scrollWidth, m.clientWidth]"
    )
    assert messages[0] == messages[1]
    assert not gallery.page.driver.execute_script(SCROLLS)
    gallery.look()


def test_unknown_types_are_named(gallery: Gallery) -> None:
    """What the page does not know is a quiet line that says its type."""
    said = gallery.page.driver.execute_async_script(DRAW_UNKNOWN)
    assert said == [
        "This sandbox does not draw “hologram” blocks.",
        "This sandbox does not draw “lever” elements.",
        "This sandbox does not draw “constructor” blocks.",
    ]


# what using an element tells the app


def _press(css: str) -> Callable[[Gallery], None]:
    return lambda g: g.page.press(f"{g.css} .content {css}")


def _choose(*values: str) -> Callable[[Gallery], None]:
    def gesture(g: Gallery) -> None:
        for value in values:
            g.page.choose(g.css, value)
        if g.page.all(f"{g.css} .combo.many"):  # several choices count when the menu is left
            g.page.one(f"{g.css} [role=combobox]").send_keys(Keys.TAB)

    return gesture


def _search(text: str, *values: str) -> Callable[[Gallery], None]:
    def gesture(g: Gallery) -> None:
        for value in values:
            g.page.one(f"{g.css} [role=combobox]").send_keys(text)
            g.page.choose(g.css, value)
        if g.page.all(f"{g.css} .combo.many"):
            g.page.one(f"{g.css} [role=combobox]").send_keys(Keys.TAB)

    return gesture


def _enter(value: str) -> Callable[[Gallery], None]:
    def gesture(g: Gallery) -> None:
        g.page.enter(f"{g.css} [data-action-id]", value)

    return gesture


def _menu(value: str) -> Callable[[Gallery], None]:
    def gesture(g: Gallery) -> None:
        g.page.press(f"{g.css} .overflow")
        g.page.press(f'[role=menu] [data-value="{value}"]')

    return gesture


def _sure(gesture: Callable[[Gallery], None]) -> Callable[[Gallery], None]:
    def both(g: Gallery) -> None:
        gesture(g)
        g.page.confirm()

    return both


def _full(text: str, value: str, **more: Any) -> Json:
    return {"text": {"type": "plain_text", "text": text, "emoji": True}, "value": value, **more}


_GREEN = _full("Green", "green", description={"type": "plain_text", "text": "like grass", "emoji": True})
_ORDER = {"text": samples.plain("Order 42"), "value": "42"}
_BUTTON = {"type": "button", "text": {"type": "plain_text", "text": "Approve", "emoji": True}, "value": "call_7"}
USED: dict[str, tuple[Callable[[Gallery], None], Json]] = {
    "button": (_press("button"), _BUTTON),
    "button primary with confirm": (_sure(_press("button")), _BUTTON | {"style": "primary"}),
    "overflow": (_menu("copy link"), {"selected_option": _full("Copy link", "copy link")}),
    "overflow with links": (_sure(_menu("mute")), {"selected_option": _full("Mute", "mute")}),
    "checkboxes": (_press("input[value=green]"), {"selected_options": [_GREEN, _full("Blue", "blue")]}),
    "radio_buttons": (_press("input[value=blue]"), {"selected_option": _full("Blue", "blue")}),
    "static_select": (_choose("green"), {"selected_option": _GREEN}),
    "static_select grouped": (_sure(_choose("orange")), {"selected_option": _full("Orange", "orange")}),
    "multi_static_select": (_choose("green"), {"selected_options": [_full("Red", "red"), _GREEN]}),
    "external_select": (_search("42", "42"), {"selected_option": _ORDER}),
    "multi_external_select": (
        _search("order", "42"),
        {"selected_options": [_full("Order 7", "7"), _full("Order 8", "8"), _ORDER]},
    ),
    "users_select": (_choose("UANA00001"), {"selected_user": "UANA00001"}),
    "multi_users_select": (_choose("UCLEO0001"), {"selected_users": ["UANA00001", "UBEN00001", "UCLEO0001"]}),
    "conversations_select": (_choose("C0RANDOM"), {"selected_conversation": "C0RANDOM"}),
    "multi_conversations_select": (_choose("C0GENERAL"), {"selected_conversations": ["C0SUPPORT", "C0GENERAL"]}),
    "channels_select": (_choose("C0RANDOM"), {"selected_channel": "C0RANDOM"}),
    "multi_channels_select": (
        _choose("C0RANDOM", "C0GENERAL"),
        {"selected_channels": ["C0RANDOM", "C0GENERAL"]},
    ),
    "datepicker": (_enter("2026-11-24"), {"selected_date": "2026-11-24"}),
    "timepicker": (_enter("08:15"), {"selected_time": "08:15"}),
    "datetimepicker": (_enter("2026-11-24T10:30"), {"selected_date_time": 1795516200}),
    "feedback_buttons": (
        _press("[data-value=bad]"),
        {"value": "bad", "text": {"type": "plain_text", "text": "Bad", "emoji": True}},
    ),
    "icon_button": (
        _sure(_press("button")),
        {"text": {"type": "plain_text", "text": "Delete", "emoji": True}},
    ),
}


@pytest.mark.parametrize("name", USED)
def test_what_an_element_sends(gallery: Gallery, name: str) -> None:
    """One use makes one delivery whose action says what Slack's would, with its ids and the message's state."""
    element = copy.deepcopy({**ELEMENTS, **ONLY_ACTIONS, **CONTEXT_ACTIONS}[name])
    kind = "context_actions" if name in CONTEXT_ACTIONS else "actions"
    gallery.css = gallery.shown({"type": kind, "block_id": "here", "elements": [element]})
    gallery.mark()
    gesture, expected = USED[name]
    gesture(gallery)
    assert gallery.action() == {"type": element["type"], **expected}
    payload = gallery.sent(1)
    (action,) = payload["actions"]
    assert (action["block_id"], action["action_id"]) == ("here", element["action_id"])
    state = payload["state"]["values"].get("here", {}).get(element["action_id"])
    kept = {k: v for k, v in expected.items() if k.startswith("selected") and not name.startswith("overflow")}
    assert state == ({"type": element["type"], **kept} if kept else None)


def test_every_element_is_used(gallery: Gallery) -> None:
    """The table above leaves out no type of element that an app may put into a message's actions."""
    used = {{**ELEMENTS, **ONLY_ACTIONS, **CONTEXT_ACTIONS}[name]["type"] for name in USED}
    every = {e["type"] for e in [*ELEMENTS.values(), *ONLY_ACTIONS.values(), *CONTEXT_ACTIONS.values()]}
    assert every - used == {"workflow_button"}


def test_a_no_to_the_question_changes_nothing(gallery: Gallery) -> None:
    """A select with a confirm question sends nothing after "Not yet", and shows what was chosen before."""
    css = gallery.shown(samples.actions(copy.deepcopy(ELEMENTS["static_select grouped"])))
    gallery.mark()
    gallery.page.choose(css, "orange")
    assert SURE["title"]["text"] in gallery.page.text("[data-testid=confirm]")
    gallery.page.confirm(False)
    assert gallery.page.one(f"{css} [role=combobox]").get_attribute("value") == "Blue"
    gallery.sent(0)


def test_links_and_buttons_for_some(gallery: Gallery) -> None:
    """A link button leads there and tells the app; a javascript: one is refused by Slack; others' buttons are not drawn."""
    css = gallery.shown(samples.actions(ELEMENTS["button link"], ELEMENTS["button for some"]))
    links = gallery.page.driver.find_elements(By.CSS_SELECTOR, f"{css} .button")
    assert [(a.tag_name, a.get_attribute("href"), a.get_attribute("rel")) for a in links] == [
        ("a", "https://shop.example/7", "noopener noreferrer")
    ]


# without a mouse


def _keys(gallery: Gallery, *keys: str) -> None:
    gallery.page.driver.switch_to.active_element.send_keys(*keys)


def _focus(gallery: Gallery, css: str) -> None:
    gallery.page.driver.execute_script("arguments[0].focus()", gallery.page.one(css))


def test_a_menu_by_keyboard(gallery: Gallery) -> None:
    """Arrows and Enter open a select and choose; typing narrows it; Escape leaves it as it was."""
    css = gallery.shown(samples.actions(copy.deepcopy(ELEMENTS["static_select"])))
    gallery.mark()
    _focus(gallery, f"{css} [role=combobox]")
    _keys(gallery, Keys.ARROW_DOWN)
    box = gallery.page.one(f'{css} [role=combobox][aria-expanded="true"]')
    _keys(gallery, Keys.ARROW_DOWN)
    active = box.get_attribute("aria-activedescendant")
    assert gallery.page.one(f"#{active}").get_attribute("data-value") == "green"
    _keys(gallery, Keys.ESCAPE)
    assert (box.get_attribute("aria-expanded"), box.get_attribute("value")) == ("false", "")
    _keys(gallery, "blu", Keys.ENTER)
    assert gallery.action()["selected_option"]["value"] == "blue"
    assert box.get_attribute("value") == "Blue"


def test_several_by_keyboard(gallery: Gallery) -> None:
    """In a menu of several, Enter ticks, its limit is said, Backspace takes the last one away, Tab sends it once."""
    css = gallery.shown(samples.actions(copy.deepcopy(ELEMENTS["multi_static_select"])))
    gallery.mark()
    _focus(gallery, f"{css} [role=combobox]")
    _keys(gallery, Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ENTER, Keys.ARROW_DOWN, Keys.ENTER)
    assert "At most 2" in gallery.page.text(f"{css} .combo-note")
    _keys(gallery, Keys.TAB)
    assert [o["value"] for o in gallery.action()["selected_options"]] == ["red", "green"]
    _focus(gallery, f"{css} [role=combobox]")
    gallery.mark()
    _keys(gallery, Keys.BACKSPACE)
    assert [o["value"] for o in gallery.action()["selected_options"]] == ["red"]


def test_overflow_containers_and_tables_by_keyboard(gallery: Gallery) -> None:
    """The dots' menu, a folded container and a table's pages and order work with Enter alone."""
    blocks = all_samples()
    overflow = gallery.shown(samples.actions(copy.deepcopy(ELEMENTS["overflow"])))
    gallery.mark()
    _focus(gallery, f"{overflow} .overflow")
    _keys(gallery, Keys.ENTER)
    _keys(gallery, Keys.ARROW_DOWN, Keys.ENTER)
    assert gallery.action()["selected_option"]["value"] == "copy link"
    folded = gallery.shown(*blocks["container collapsed"]["blocks"])
    assert not gallery.page.all(f"{folded} .container-body")
    _focus(gallery, f"{folded} [data-testid=fold]")
    _keys(gallery, Keys.ENTER)
    gallery.page.one(f"{folded} .container-body")
    table = gallery.shown(*blocks["data_table"]["blocks"])
    rows = gallery.page.all(f"{table} tbody tr")
    _focus(gallery, f"{table} .table-pages [aria-label='Next page']")
    _keys(gallery, Keys.ENTER)
    assert len(gallery.page.all(f"{table} tbody tr")) == 1 < len(rows)
    _focus(gallery, f"{table} th:nth-child(3) .sorter")
    _keys(gallery, Keys.ENTER)
    _keys(gallery, Keys.ENTER)
    assert gallery.page.one(f"{table} th:nth-child(3)").get_attribute("aria-sort") == "descending"
    prices = [r.find_elements(By.CSS_SELECTOR, "td, th")[2].text for r in gallery.page.all(f"{table} tbody tr")]
    assert [float(p) for p in prices] == sorted((float(p) for p in prices), reverse=True)
    assert len(prices) == 2


def test_an_opened_container_stays_open(gallery: Gallery) -> None:
    """A message that is changed keeps open what its reader opened."""
    block = copy.deepcopy(all_samples()["container collapsed"]["blocks"][0]) | {"block_id": "c"}
    css = gallery.shown(block)
    gallery.page.press(f"{css} [data-testid=fold]")
    ts = gallery.page.one(css).get_attribute("data-ts")
    changed = [block, {"type": "section", "text": samples.plain("news")}]
    gallery.desk.client.chat_update(channel="C0SUPPORT", ts=ts, text="new", blocks=changed)
    gallery.page.wait(lambda: "news" in gallery.page.one(css).text)
    gallery.page.one(f"{css} .container-body")


def test_charts_say_their_figures(gallery: Gallery) -> None:
    """A chart has a text alternative and a table with every number, and its bars begin at zero."""
    chart = {
        "type": "bar",
        "series": [{"name": "EUR", "data": [{"label": "May", "value": 10}, {"label": "June", "value": -5}]}],
        "axis_config": {"categories": ["May", "June"]},
    }
    css = gallery.shown({"type": "data_visualization", "title": "Refunds", "chart": chart})
    svg = gallery.page.one(f"{css} svg[role=img]")
    assert svg.get_attribute("aria-label") == "Bar chart. EUR: May 10, June -5."
    up, down = (r.rect["height"] for r in svg.find_elements(By.TAG_NAME, "rect"))
    assert up == pytest.approx(2 * down, abs=1)
    gallery.page.press(f"{css} summary")
    assert [td.text for td in gallery.page.all(f"{css} .figures td")][-2:] == ["10", "-5"]


# what must never become markup


def _hostile() -> list[list[Json]]:
    words = {"type": "plain_text", "text": EVIL[:150], "emoji": False}
    short = {"type": "plain_text", "text": EVIL[:58], "emoji": False}
    raw = {"type": "raw_text", "text": EVIL}
    rich = {"type": "rich_text", "elements": [{"type": "rich_text_section", "elements": [samples.run(EVIL)]}]}
    task = {"type": "task_card", "task_id": "t", "title": EVIL, "details": rich, "output": rich}
    task["sources"] = [{"type": "url", "url": "https://shop.example/", "text": EVIL}]
    points = [{"label": EVIL[:20], "value": 1}]
    axes = {"categories": [EVIL[:20]], "x_label": EVIL[:50], "y_label": EVIL[:50]}
    chart = {"type": "line", "series": [{"name": EVIL[:20], "data": points}], "axis_config": axes}
    options = [{"text": short, "value": "a", "description": short}]
    card = {"type": "card", "title": words, "subtitle": samples.mrkdwn(EVIL[:150]), "body": samples.mrkdwn(EVIL[:200])}
    return [
        [{"type": "table", "rows": [[raw], [{"type": "rich_text", "elements": rich["elements"]}]]}],
        [{"type": "data_table", "caption": EVIL, "rows": [[raw], [raw]]}],
        [{"type": "data_visualization", "title": EVIL[:50], "chart": chart}],
        [{"type": "plan", "title": EVIL, "tasks": [task]}, card],
        [{"type": "carousel", "elements": [card]}],
        [{"type": "container", "title": words, "child_blocks": [{"type": "section", "text": words}]}],
        [
            samples.actions(
                {"type": "static_select", "action_id": "s", "placeholder": short, "options": options},
                {"type": "multi_static_select", "action_id": "m", "options": options, "initial_options": options},
                {"type": "checkboxes", "action_id": "c", "options": options},
                {"type": "overflow", "action_id": "o", "options": options},
            )
        ],
    ]


def test_hostile_text_stays_text(gallery: Gallery) -> None:
    """S04: markup, direction overrides and endless words in every field are shown as text and break nothing."""
    for blocks in _hostile():
        css = gallery.shown(*blocks)
        assert "onerror" in gallery.page.one(css).text or "actions" in str(blocks)
    gallery.page.press(f"{css} [data-action-id=s]")
    assert "onerror" in gallery.page.text(f"{css} [role=option]")
    assert gallery.page.driver.execute_script("return window.pwned ?? null") is None
    assert gallery.page.driver.find_elements(By.CSS_SELECTOR, f"{MAIN} img, {MAIN} script, [onerror]") == []
    wide = gallery.page.driver.execute_script(
        f"return [...document.querySelectorAll('{MAIN} .content')].filter(c => c.scrollWidth > c.clientWidth + 1).length"
    )
    assert (wide, gallery.page.driver.execute_script(SCROLLS)) == (0, False)
    assert gallery.page.complaints() == []
