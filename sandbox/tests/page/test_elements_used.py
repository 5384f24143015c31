"""What each element tells the app when it is used, by mouse and by keyboard."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from sandbox.tests.blockkit.gallery.elements import CONTEXT_ACTIONS, ELEMENTS, ONLY_ACTIONS, SURE

from . import samples
from .gallery import Gallery

pytestmark = [pytest.mark.browser, pytest.mark.long]
Json = dict[str, Any]


@pytest.fixture(autouse=True)
def _loaded_page(gallery: Gallery) -> None:
    if not gallery.ready():
        gallery.look()


def _press(css: str) -> Callable[[Gallery], None]:
    return lambda g: g.page.press(f"{g.css} .content {css}")


def _choose(*values: str) -> Callable[[Gallery], None]:
    def gesture(g: Gallery) -> None:
        for value in values:
            g.page.choose(g.css, value)
        if g.page.all(f"{g.css} .combo.many"):  # it sends when it loses the focus
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


def _confirm_after(gesture: Callable[[Gallery], None]) -> Callable[[Gallery], None]:
    def both(g: Gallery) -> None:
        gesture(g)
        g.page.confirm()

    return both


def _full_option(text: str, value: str, **more: Any) -> Json:
    return {"text": {"type": "plain_text", "text": text, "emoji": True}, "value": value, **more}


_GREEN = _full_option(
    "Green", "green", description={"type": "plain_text", "text": "like grass", "emoji": True}
)
_ORDER = {"text": samples.plain("Order 42"), "value": "42"}
_BUTTON = {
    "type": "button",
    "text": {"type": "plain_text", "text": "Approve", "emoji": True},
    "value": "call_7",
}
USED: dict[str, tuple[Callable[[Gallery], None], Json]] = {
    "button": (_press("button"), _BUTTON),
    "button primary with confirm": (
        _confirm_after(_press("button")),
        _BUTTON | {"style": "primary"},
    ),
    "overflow": (_menu("copy link"), {"selected_option": _full_option("Copy link", "copy link")}),
    "overflow with links": (
        _confirm_after(_menu("mute")),
        {"selected_option": _full_option("Mute", "mute")},
    ),
    "checkboxes": (
        _press("input[value=green]"),
        {"selected_options": [_GREEN, _full_option("Blue", "blue")]},
    ),
    "radio_buttons": (
        _press("input[value=blue]"),
        {"selected_option": _full_option("Blue", "blue")},
    ),
    "static_select": (_choose("green"), {"selected_option": _GREEN}),
    "static_select grouped": (
        _confirm_after(_choose("orange")),
        {"selected_option": _full_option("Orange", "orange")},
    ),
    "multi_static_select": (
        _choose("green"),
        {"selected_options": [_full_option("Red", "red"), _GREEN]},
    ),
    "external_select": (_search("42", "42"), {"selected_option": _ORDER}),
    "multi_external_select": (
        _search("order", "42"),
        {"selected_options": [_full_option("Order 7", "7"), _full_option("Order 8", "8"), _ORDER]},
    ),
    "users_select": (_choose("UANA00001"), {"selected_user": "UANA00001"}),
    "multi_users_select": (
        _choose("UCLEO0001"),
        {"selected_users": ["UANA00001", "UBEN00001", "UCLEO0001"]},
    ),
    "conversations_select": (_choose("C0RANDOM"), {"selected_conversation": "C0RANDOM"}),
    "multi_conversations_select": (
        _choose("C0GENERAL"),
        {"selected_conversations": ["C0SUPPORT", "C0GENERAL"]},
    ),
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
        _confirm_after(_press("button")),
        {"text": {"type": "plain_text", "text": "Delete", "emoji": True}},
    ),
}


@pytest.mark.parametrize("name", USED)
def test_one_use_of_an_element_sends_one_delivery(gallery: Gallery, name: str) -> None:
    """The delivery has what Slack's has, with ids and state."""
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
    kept = {
        k: v
        for k, v in expected.items()
        if k.startswith("selected") and not name.startswith("overflow")
    }
    assert state == ({"type": element["type"], **kept} if kept else None)


def test_every_element_type_is_tested(gallery: Gallery) -> None:
    """The table above has every type of element that a message's actions may have."""
    used = {{**ELEMENTS, **ONLY_ACTIONS, **CONTEXT_ACTIONS}[name]["type"] for name in USED}
    every = {
        e["type"] for e in [*ELEMENTS.values(), *ONLY_ACTIONS.values(), *CONTEXT_ACTIONS.values()]
    }
    assert every - used == {"workflow_button"}


def test_a_refused_confirmation_changes_nothing(gallery: Gallery) -> None:
    """A select with a confirmation sends nothing after "Not yet", and shows the old choice."""
    css = gallery.shown(samples.actions(copy.deepcopy(ELEMENTS["static_select grouped"])))
    gallery.mark()
    gallery.page.choose(css, "orange")
    assert SURE["title"]["text"] in gallery.page.text("[data-testid=confirm]")
    gallery.page.confirm(False)
    assert gallery.page.one(f"{css} [role=combobox]").get_attribute("value") == "Blue"
    gallery.sent(0)


def test_link_buttons_and_visibility_are_respected(gallery: Gallery) -> None:
    """A link button is a link that gives nothing away to where it leads.

    A button for others is not drawn.
    """
    css = gallery.shown(samples.actions(ELEMENTS["button link"], ELEMENTS["button for some"]))
    links = gallery.page.driver.find_elements(By.CSS_SELECTOR, f"{css} .button")
    assert [(a.tag_name, a.get_attribute("href"), a.get_attribute("rel")) for a in links] == [
        ("a", "https://shop.example/7", "noopener noreferrer")
    ]


# without a mouse


def test_a_select_menu_works_by_keyboard(gallery: Gallery) -> None:
    """Arrows and Enter open a select and choose; typing narrows it; Escape leaves it as it was."""
    css = gallery.shown(samples.actions(copy.deepcopy(ELEMENTS["static_select"])))
    gallery.mark()
    gallery.focus(f"{css} [role=combobox]")
    gallery.keys(Keys.ARROW_DOWN)
    box = gallery.page.one(f'{css} [role=combobox][aria-expanded="true"]')
    gallery.keys(Keys.ARROW_DOWN)
    active = box.get_attribute("aria-activedescendant")
    assert gallery.page.one(f"#{active}").get_attribute("data-value") == "green"
    gallery.keys(Keys.ESCAPE)
    assert (box.get_attribute("aria-expanded"), box.get_attribute("value")) == ("false", "")
    gallery.keys("blu", Keys.ENTER)
    assert gallery.action()["selected_option"]["value"] == "blue"
    assert box.get_attribute("value") == "Blue"


def test_a_multi_select_works_by_keyboard(gallery: Gallery) -> None:
    """Options are ticked, limited in number, unticked, and sent once."""
    css = gallery.shown(samples.actions(copy.deepcopy(ELEMENTS["multi_static_select"])))
    gallery.mark()
    gallery.focus(f"{css} [role=combobox]")
    gallery.keys(Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ENTER, Keys.ARROW_DOWN, Keys.ENTER)
    assert "At most 2" in gallery.page.text(f"{css} .combo-note")
    gallery.keys(Keys.TAB)
    assert [o["value"] for o in gallery.action()["selected_options"]] == ["red", "green"]
    gallery.focus(f"{css} [role=combobox]")
    gallery.mark()
    gallery.keys(Keys.BACKSPACE)
    assert [o["value"] for o in gallery.action()["selected_options"]] == ["red"]
