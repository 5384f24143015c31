"""One browser tab: reading it, pressing and typing in it, its size and pictures.

It waits for what should appear and fails with a TimeoutException that names it; it never sleeps.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from selenium.common.exceptions import (
    ElementClickInterceptedException,
    ElementNotInteractableException,
    NoSuchElementException,
    StaleElementReferenceException,
)
from selenium.webdriver import Chrome
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

T = TypeVar("T")
SECONDS = 10.0  # how long anything may take to appear
_PASSING = (
    StaleElementReferenceException,
    NoSuchElementException,
    ElementClickInterceptedException,
    ElementNotInteractableException,
)
_SHOWN = """const [css, text] = arguments;
const how = {opacityProperty: true, visibilityProperty: true};
const seen = (node) => node.checkVisibility(how) && node.getClientRects().length;
const fits = (node) => seen(node) && (node.innerText ?? "").includes(text);
return [...document.querySelectorAll(css)].filter(fits);"""
_SET = """const [field, value] = arguments; field.value = value;
for (const kind of ["input", "change"]) field.dispatchEvent(new Event(kind, {bubbles: true}));"""


def last(found: list[T]) -> T | None:
    """The last element, or None if there is none."""
    return found[-1] if found else None


class Tab:
    """One browser tab, addressed by CSS selectors."""

    def __init__(self, driver: Chrome) -> None:
        self.driver = driver

    # waiting and finding

    def wait(self, found: Callable[[], T | None], what: str = "", seconds: float = SECONDS) -> T:
        """The first truthy answer of `found`; TimeoutException naming `what` after `seconds`."""
        waiter = WebDriverWait(
            self.driver, seconds, poll_frequency=0.05, ignored_exceptions=_PASSING
        )
        return waiter.until(lambda _: found(), what)  # type: ignore[return-value]  # until gives truthy values only

    def all(self, css: str, text: str = "") -> list[WebElement]:
        """Every element for that selector that is displayed now and holds `text`."""
        found: list[WebElement] = self.driver.execute_script(_SHOWN, css, text)
        return found

    def one(self, css: str) -> WebElement:
        """The last displayed element for that selector, waited for."""
        return self.wait(lambda: last(self.all(css)), f"nothing displayed for {css}")

    def gone(self, css: str) -> None:
        """Wait until nothing is displayed for that selector."""
        self.wait(lambda: not self.all(css), f"still displayed: {css}")

    def press(self, css: str) -> None:
        """Scroll the last displayed element for that selector into view and click it."""

        def clicked() -> bool:
            element = last(self.all(css))
            if element is not None:
                self.driver.execute_script(
                    "arguments[0].scrollIntoView({block: 'center'})", element
                )
                element.click()
            return element is not None

        self.wait(clicked, f"could not click {css}")

    def text(self, css: str) -> str:
        """The text of the last displayed element for that selector."""
        return self.wait(lambda: [e.text for e in self.all(css)], f"nothing displayed for {css}")[
            -1
        ]

    def type(self, css: str, text: str) -> None:
        """Type into a field without emptying it; "\\n" is typed as Shift+Enter."""
        for i, line in enumerate(text.split("\n")):
            if i:
                self.one(css).send_keys(Keys.SHIFT, Keys.ENTER)
            self.one(css).send_keys(line)

    def enter(self, css: str, value: str) -> None:
        """Set a date or time field at once, as its picker does."""
        self.driver.execute_script(_SET, self.one(css), value)

    # the keyboard

    def focused(self) -> WebElement:
        """The element that has the focus."""
        return self.driver.switch_to.active_element

    def keys(self, *keys: str) -> None:
        """Press keys where the focus is."""
        self.focused().send_keys(*keys)

    def has_focus(self, css: str) -> None:
        """Wait until the element that has the focus fits that selector."""
        self.wait(
            lambda: self.driver.execute_script(
                "return document.activeElement.matches(arguments[0])", css
            ),
            css,
        )

    def tab_to(self, css: str, back: bool = False) -> None:
        """Press Tab (Shift+Tab for `back`) until the focus fits that selector."""
        for _ in range(60):
            self.keys(*([Keys.SHIFT] if back else []), Keys.TAB)
            if self.driver.execute_script(
                "return document.activeElement.matches(arguments[0])", css
            ):
                return
        raise AssertionError(f"Tab does not lead to {css}")

    # size, pictures and the console

    def size(self, width: int, height: int) -> None:
        """Give the page that many CSS pixels; below 500 wide it is a phone."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def shot(self, path: Path) -> Path:
        """Write a picture of what is displayed (PNG)."""
        self.driver.save_screenshot(str(path))
        return path

    def complaints(self) -> list[str]:
        """What the browser's console reported as severe since it was last asked."""
        log = self.driver.get_log("browser")  # type: ignore[no-untyped-call]  # selenium leaves it untyped
        return [entry["message"] for entry in log if entry["level"] == "SEVERE"]
