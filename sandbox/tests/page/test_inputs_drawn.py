"""Inputs of modals, messages and App Home: what is typed, checked, kept and sent."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from sandbox.tests.blockkit.gallery import gallery as all_samples
from sandbox.tests.blockkit.gallery.builders import input_block

from . import samples
from .axe import findings
from .gallery import Gallery, sample_input
from .page import MODAL

pytestmark = [pytest.mark.browser, pytest.mark.long]
Json = dict[str, Any]
DRAW_HOME = """const [me, done] = [arguments[0], arguments[arguments.length - 1]];
let box = document.getElementById("home-here");
if (!box) {
  box = Object.assign(document.createElement("div"), {id: "home-here"});
  document.querySelector("main").prepend(box);
}
const seen = fetch(`/sandbox/state?as=${me}`).then((answer) => answer.json());
Promise.all([import("/page/surfaces/home.js"), seen]).then(([{drawHome}, state]) => {
  drawHome(box, Object.values(state.home)[0]);
  done(true);
});"""


@pytest.fixture(autouse=True)
def _loaded_page(gallery: Gallery) -> None:
    if gallery.page.all(MODAL):
        gallery.page.close_modal()
    if not gallery.ready():
        gallery.look()


def _modal_samples() -> list[Json]:
    blocks = [b for s in all_samples().values() if s["surface"] == "modal" for b in s["blocks"]]
    blocks = copy.deepcopy(blocks)
    for block in blocks:
        block.get("element", {}).pop("focus_on_load", None)
    return blocks


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_modal_draws_every_input(gallery: Gallery, theme: str) -> None:
    """A modal draws every input with its name, accessible, without scrolling sideways."""
    gallery.look(theme)
    blocks = _modal_samples()
    gallery.modal(*blocks)
    drawn = gallery.page.driver.find_elements(
        By.CSS_SELECTOR, f"{MODAL} .modal-body > [data-block-type]"
    )
    assert [n.get_attribute("data-block-type") for n in drawn] == [b["type"] for b in blocks]
    assert findings(gallery.page, MODAL) == []
    gallery.page.size(360, 800)
    body = gallery.page.one(f"{MODAL} .modal-body")
    assert gallery.page.driver.execute_script(
        "return arguments[0].scrollWidth <= arguments[0].clientWidth", body
    )
    gallery.page.size(1280, 900)
    assert gallery.page.driver.find_elements(By.CSS_SELECTOR, "[data-testid=unknown]") == []
    assert gallery.page.complaints() == []


def test_lengths_are_counted_and_checked(gallery: Gallery) -> None:
    """A text that is too short or too long has an error at its field, with the count.

    Nothing typed is cut off, nothing is sent.
    """
    element = {"type": "plain_text_input", "min_length": 3, "max_length": 5}
    gallery.modal(samples.field("short", element), samples.field("long", element))
    gallery.page.fill("short", "ab")
    assert gallery.page.text(f"{MODAL} [data-block-id=short] .counter") == "2 of at least 3"
    gallery.page.fill("long", "abcdefg")
    assert gallery.page.text(f"{MODAL} [data-block-id=long] .counter.over") == "7 of 5"
    gallery.mark()
    gallery.page.submit()
    assert gallery.page.wait_errors() == {
        "short": "Please enter at least 3 characters.",
        "long": "Please enter at most 5 characters; these are 7.",
    }
    assert gallery.page.value("long") == "abcdefg"
    gallery.sent(0)


def test_a_dispatching_field_sends_what_is_typed(gallery: Gallery) -> None:
    """`on_enter_pressed` sends the text with Enter without submitting.

    `on_character_entered` sends it when typing pauses.
    """
    config = {"trigger_actions_on": ["on_enter_pressed"]}
    quiet = samples.field(
        "enter",
        {"type": "plain_text_input", "dispatch_action_config": config},
        dispatch_action=True,
    )
    config = {"trigger_actions_on": ["on_character_entered"]}
    loud = samples.field(
        "each",
        {"type": "number_input", "is_decimal_allowed": False, "dispatch_action_config": config},
    )
    gallery.modal(quiet, loud | {"dispatch_action": True})
    gallery.mark()
    gallery.page.one(f"{MODAL} [data-block-id=enter] input").send_keys("who", Keys.ENTER)
    assert gallery.action() == {"type": "plain_text_input", "value": "who"}
    gallery.mark()
    gallery.page.one(f"{MODAL} [data-block-id=each] input").send_keys("123")
    assert gallery.action() == {"type": "number_input", "value": "123"}
    assert gallery.page.all(MODAL)


def test_a_date_typed_by_keyboard_is_sent_once(gallery: Gallery) -> None:
    """Each digit of a year makes a valid date.

    Only the last one is sent, when the field loses the focus.
    """
    css = gallery.shown(
        samples.actions({"type": "datepicker", "action_id": "day", "initial_date": "2026-02-28"})
    )
    gallery.mark()
    field = gallery.page.one(f"{css} [data-action-id=day]")
    field.send_keys(Keys.ARROW_UP, Keys.ARROW_UP, Keys.TAB, Keys.ARROW_DOWN, Keys.ENTER)
    day = gallery.action()["selected_date"]
    assert (day != "2026-02-28", day[:4]) == (True, "2026")


def test_inputs_in_a_message_are_kept_and_sent(gallery: Gallery) -> None:
    """Typed text survives a change of the message, is one person's, and is sent with a click."""
    words = samples.field("words", {"type": "plain_text_input", "initial_value": "as it was"})
    blocks = [words, samples.actions(samples.button("Send", "send"))]
    css = gallery.shown(*blocks)
    gallery.page.fill("words", "half a thought", within=css)
    ts = gallery.page.one(css).get_attribute("data-ts")
    changed = [*blocks, {"type": "section", "text": samples.plain("a new line")}]
    gallery.app.client.chat_update(channel="C0SUPPORT", ts=ts, text="x", blocks=changed)
    gallery.page.wait(lambda: "a new line" in gallery.page.one(css).text)
    assert gallery.page.one(f"{css} input").get_attribute("value") == "half a thought"
    gallery.mark()
    gallery.page.click("send", within=css)
    state = gallery.sent(1)["state"]["values"]
    assert state == {"words": {"v": {"type": "plain_text_input", "value": "half a thought"}}}
    gallery.page.be("ana")
    assert gallery.page.one(f"{css} input").get_attribute("value") == "as it was"
    gallery.page.be("ben")
    assert gallery.page.one(f"{css} input").get_attribute("value") == "half a thought"


def test_external_select_waits_for_enough_letters(gallery: Gallery) -> None:
    """It asks for a longer query until then, and says so if nothing is found."""
    element = {"type": "external_select", "action_id": "order", "min_query_length": 2}
    gallery.modal(input_block(element, block_id="which"))
    where = f"{MODAL} [data-block-id=which]"
    box = gallery.page.one(f"{where} [role=combobox]")
    asked = len(gallery.asked)
    box.send_keys("4")
    assert "at least 2" in gallery.page.text(f"{where} .combo-note")
    assert len(gallery.asked) == asked
    box.send_keys("x")
    gallery.page.wait(lambda: gallery.page.text(f"{where} .combo-note") == "No results")
    box.send_keys(Keys.BACKSPACE, "2")
    gallery.page.press(f'{where} [role=option][data-value="42"]')
    assert [p["value"] for p in gallery.asked[asked:]] == ["4x", "42"]
    assert {p["action_id"] for p in gallery.asked[asked:]} == {"order"}
    assert gallery.submitted()["which"]["selected_option"]["value"] == "42"


def test_a_file_is_uploaded_and_named(gallery: Gallery, tmp_path: Path) -> None:
    """A file input takes files of its types up to its limit; the submission names them."""
    if not gallery.takes_files():
        pytest.skip("this sandbox takes no files from people")
    gallery.modal(sample_input("file_input", "proof"))
    picture, other = tmp_path / "a.png", tmp_path / "b.exe"
    picture.write_bytes(b"\x89PNG\r\n\x1a\n")
    other.write_bytes(b"MZ")
    control = gallery.page.driver.find_element(By.CSS_SELECTOR, f"{MODAL} input[type=file]")
    control.send_keys(str(other))
    assert "b.exe is not one of .png, .pdf" in gallery.page.text(
        f"{MODAL} .file-input [role=status]"
    )
    control.send_keys(str(picture))
    assert gallery.page.text(f"{MODAL} .file-name") == "a.png"
    (file,) = gallery.submitted()["proof"]["files"]
    assert (file["name"], file["filetype"], file["size"]) == ("a.png", "png", 8)


def test_the_home_tab_is_drawn_and_usable(gallery: Gallery) -> None:
    """A Home view is drawn, its clicks carry its state, and what was typed stays."""
    blocks = [
        samples.field("note", {"type": "plain_text_input"}),
        samples.actions(samples.button("Go", "go")),
    ]
    view = {"type": "home", "blocks": blocks}
    gallery.app.client.views_publish(user_id="UBEN00001", view=view)
    draw = gallery.page.driver.execute_async_script
    draw(DRAW_HOME, "UBEN00001")
    gallery.page.fill("note", "kept", within="#home-here")
    view["blocks"] = [{"type": "header", "text": samples.plain("Welcome")}, *blocks]
    gallery.app.client.views_publish(user_id="UBEN00001", view=view)
    draw(DRAW_HOME, "UBEN00001")
    assert gallery.page.text("#home-here h2") == "Welcome"
    assert gallery.page.one("#home-here input").get_attribute("value") == "kept"
    gallery.mark()
    gallery.page.click("go", within="#home-here")
    payload = gallery.sent(1)
    assert payload["view"]["type"] == "home"
    assert payload["view"]["state"]["values"]["note"]["v"]["value"] == "kept"
    assert findings(gallery.page, "#home-here") == []
    gallery.look()


def test_a_modal_works_by_keyboard(gallery: Gallery) -> None:
    """Tab goes through the fields in order, Escape closes a menu only, Enter submits."""
    blocks = [samples.field("name", {"type": "plain_text_input"})]
    blocks += [
        samples.field("size", {"type": "static_select", "options": samples.options("s", "m")})
    ]
    blocks += [
        samples.field(
            "ticks", {"type": "checkboxes", "options": samples.options("a", "b")}, optional=True
        )
    ]
    gallery.modal(*blocks)
    keys = gallery.page.driver.switch_to.active_element.send_keys
    keys("a lamp", Keys.TAB)
    gallery.page.driver.switch_to.active_element.send_keys(Keys.ARROW_DOWN)
    gallery.page.one(f"{MODAL} [role=listbox]")
    gallery.page.driver.switch_to.active_element.send_keys(Keys.ESCAPE)
    gallery.page.gone(f"{MODAL} [role=listbox]")
    assert gallery.page.all(MODAL)
    gallery.page.driver.switch_to.active_element.send_keys("m", Keys.ENTER, Keys.TAB)
    gallery.page.driver.switch_to.active_element.send_keys(Keys.SPACE)
    gallery.mark()
    gallery.page.one(f"{MODAL} [data-block-id=name] input").send_keys(Keys.ENTER)
    values = gallery.sent(1)["view"]["state"]["values"]
    assert values["name"]["v"]["value"] == "a lamp"
    assert values["size"]["v"]["selected_option"]["value"] == "m"
    assert [o["value"] for o in values["ticks"]["v"]["selected_options"]] == ["a"]
    gallery.page.gone(MODAL)
