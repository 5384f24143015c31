"""The sandbox's page, as a person uses it: what tests call instead of Selenium.

It knows nothing of the server's state.
"""

from __future__ import annotations

from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

from .tab import Tab, last

MAIN, THREAD, MODAL = (f"[data-testid={name}]" for name in ("messages", "thread", "modal"))


class Page(Tab):
    """One browser tab on the sandbox's page."""

    # moving about

    def open(
        self,
        url: str,
        person: str = "ben",
        channel: str = "C0SUPPORT",
        theme: str = "light",
        thread: str = "",
    ) -> Page:
        """Load the page as that person (short name), in that channel (id) and thread."""
        self.driver.get("about:blank")  # so that opening the same address twice loads it twice
        self.driver.get(f"{url}/?as={person}&theme={theme}#/{channel}/{thread}")
        self.one(f'[data-testid=person-switch][data-me="{person}"]')
        self.wait(
            lambda: self.driver.find_elements(By.CSS_SELECTOR, f'{MAIN}[data-of="{channel}"]'),
            f"not in {channel}",
        )
        return self

    def be(self, person: str) -> None:
        """Act as another person (short name)."""
        self.press("[data-testid=person-switch]")
        self.press(f'[data-person="{person}"]')
        self.one(f'[data-testid=person-switch][data-me="{person}"]')
        user = self.driver.execute_script("return sessionStorage.getItem('countersign-me')")
        self.wait(
            lambda: self.driver.find_elements(By.CSS_SELECTOR, f'html[data-ready="{user}"]'),
            f"not {person} yet",
        )

    def go(self, channel: str) -> None:
        """Go to a channel by id or name; the bot's DM is "Countersign"."""
        css = f'[data-channel="{channel}"], [data-channel-name="{channel}"]'
        if not self.all("[data-testid=sidebar]"):
            self.press("[data-testid=menu-button]")
        target = self.one(css).get_attribute("data-channel")
        self.press(css)
        self.wait(
            lambda: self.driver.find_elements(By.CSS_SELECTOR, f'{MAIN}[data-of="{target}"]'),
            f"not in {channel}",
        )

    def open_thread(self, root: str) -> None:
        """Open the thread under the message with that ts, unless it is open already."""
        if self.all(f'{THREAD}[data-thread="{root}"]'):
            return
        self.press(f'{MAIN} [data-testid=open-thread][data-thread="{root}"]')
        self.one(f'{THREAD}[data-thread="{root}"]')

    def advance(self, seconds: int) -> None:
        """Move the clock forward by a step of the page's: 60, 900, 3600 or 86400 seconds."""
        self.press("[data-testid=clock-menu]")
        self.press(f'[data-advance="{seconds}"]')

    # talking and reading

    def say(self, text: str, thread: bool = False) -> None:
        """Type a message, in the channel or the open thread, and send it with Enter."""
        css = "[data-testid=thread-composer]" if thread else "[data-testid=composer]"
        self.type(css, text)
        self.one(css).send_keys(Keys.ENTER)
        self.wait(lambda: self.one(css).get_attribute("value") == "", "the message was not sent")

    def messages(self, thread: bool = False) -> list[str]:
        """The displayed messages' text, with author and time, oldest first."""
        return [m.text for m in self.all(f"{THREAD if thread else MAIN} [data-testid=message]")]

    def message(self, text: str, thread: bool = False) -> WebElement:
        """The newest message that holds `text`, waited for."""
        css = f"{THREAD if thread else MAIN} [data-testid=message]"
        return self.wait(lambda: last(self.all(css, text)), f"no message with {text!r}")

    def message_text(self, text: str, thread: bool = False) -> str:
        """The whole text of the newest message that holds `text`, waited for."""
        return self.wait(lambda: self.message(text, thread).text)

    def ts(self, text: str, thread: bool = False) -> str:
        """The ts of the newest message that holds `text`, waited for."""
        return str(self.wait(lambda: self.message(text, thread).get_attribute("data-ts")))

    # cards and modals

    def _within(self) -> str:
        return MODAL if self.all(MODAL) else THREAD if self.all(THREAD) else MAIN

    def click(self, action_id: str, block_id: str = "", value: str = "", within: str = "") -> None:
        """Press the newest control of that action: in the open modal, thread or else channel."""
        block = f'[data-block-id="{block_id}"] ' if block_id else ""
        chosen = f'[data-value="{value}"]' if value else ""
        self.press(f'{within or self._within()} {block}[data-action-id="{action_id}"]{chosen}')

    def confirm(self, yes: bool = True) -> None:
        """Answer the confirmation dialog of a button."""
        self.press(f"[data-testid={'confirm-ok' if yes else 'confirm-cancel'}]")
        self.gone("[data-testid=confirm]")

    def modal(self, title: str = "") -> WebElement:
        """The open modal, waited for; with `title`, the one whose title holds it."""
        self.wait(
            lambda: title in self.text("[data-testid=modal-title]"), f"no modal titled {title!r}"
        )
        return self.one(MODAL)

    def fill(self, block_id: str, value: str | bool | list[str], within: str = "") -> None:
        """Enter into the input of that block a text, a date, an option's value, or several."""
        where = f'{within or self._within()} [data-block-id="{block_id}"]'
        control = self.one(f"{where} [data-action-id]")
        if "choices" in (control.get_attribute("class") or ""):
            self._tick(where, [value] if isinstance(value, str) else value)
        elif control.get_attribute("role") == "combobox":
            for one in (
                [value] if isinstance(value, str) else value if isinstance(value, list) else []
            ):
                self.choose(where, one)
            if control.get_attribute("aria-expanded") == "true":  # a menu of several stays open
                control.send_keys(Keys.ESCAPE)
        elif control.get_attribute("type") in ("date", "time", "datetime-local"):
            self.enter(f"{where} [data-action-id]", str(value))
        else:
            control.send_keys(Keys.CONTROL, "a")
            control.send_keys(Keys.DELETE)
            control.send_keys(str(value))

    def _tick(self, where: str, wanted: bool | list[str]) -> None:
        for box in self.all(f"{where} input"):
            name = box.get_attribute("value") or ""
            on = wanted if isinstance(wanted, bool) else name in wanted
            if box.is_selected() != on and (on or box.get_attribute("type") == "checkbox"):
                box.click()

    def choose(self, where: str, value: str) -> None:
        """Open the select menu within that selector, unless it is open, and pick that value."""
        box = self.one(f"{where} [role=combobox]")
        if box.get_attribute("aria-expanded") != "true":
            box.click()
        self.press(f'{where} [role=option][data-value="{value}"]')

    def value(self, block_id: str) -> str:
        """What the text field, date or menu of that block holds."""
        return str(
            self.one(
                f'{self._within()} [data-block-id="{block_id}"] [data-action-id]'
            ).get_attribute("value")
        )

    def submit(self) -> None:
        """Press the modal's submit button and wait until it closes, changes or shows errors."""
        self.press("[data-testid=modal-submit]")
        self.gone("[data-testid=modal-submit][aria-busy]")

    def close_modal(self) -> None:
        """Close every modal with the ×."""
        self.press("[data-testid=modal-close]")
        self.gone(MODAL)

    def errors(self) -> dict[str, str]:
        """The errors at the modal's fields: block id -> text; "" holds the one above all fields."""
        found: dict[str, str] = {}
        for note in self.all(f"{MODAL} [data-testid=field-error]"):
            block = note.find_element(By.XPATH, "./ancestor::*[@data-block-id][1]")
            found[str(block.get_attribute("data-block-id"))] = note.text
        for alert in self.all("[data-testid=modal-alert]"):
            found[""] = alert.text
        return found

    def wait_errors(self) -> dict[str, str]:
        """The errors at the modal's fields, once there are some."""
        return self.wait(self.errors, "no errors shown")

    def menu(self, ts: str, item: str, thread: bool = False) -> None:
        """Choose link, inspect, edit, delete or a shortcut (callback_id) from a message's menu."""
        message = f'{THREAD if thread else MAIN} [data-ts="{ts}"]'
        self.driver.execute_script("arguments[0].focus()", self.one(message))
        self.press(f"{message} [data-testid=message-menu]")
        self.press(f'[data-do="{item}"], [data-shortcut="{item}"]')

    def toast(self, text: str = "") -> str:
        """The newest notice that holds `text`, waited for."""
        css = "[data-testid=toast]"
        return self.wait(lambda: last(self.all(css, text)), f"no notice {text!r}").text
