"""The camera for docs/pictures: a headless Chromium on the page of a demo, light or dark."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from selenium import webdriver
from selenium.common.exceptions import (
    ElementClickInterceptedException,
    NoSuchElementException,
    StaleElementReferenceException,
)
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

T = TypeVar("T")
PASSING = (StaleElementReferenceException, NoSuchElementException, ElementClickInterceptedException)
ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "pictures"
WIDTH, HEIGHT, SHARPNESS = 880, 1000, 2  # CSS pixels, and device pixels for each
WINDOW = (1080, 740)  # CSS pixels of the picture of the whole page
PATIENCE = 30.0  # seconds anything may take to appear
FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--no-proxy-server",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--lang=en-GB",
    "--hide-scrollbars",
    f"--window-size={WIDTH},{HEIGHT}",
    f"--force-device-scale-factor={SHARPNESS}",
]
MAIN, THREAD, MODAL, HOME = (
    f"[data-testid={name}]" for name in ("messages", "thread", "modal", "home-view")
)
# Nothing blinks or fades, and toolbars and notices are hidden; the backdrop of a dialog has the
# colour of the page.
STILL = """const sheet = new CSSStyleSheet();
sheet.replaceSync(`
  *, ::before, ::after {
    animation: none !important;
    transition: none !important;
    caret-color: transparent !important;
  }
  .toolbar, [data-testid=modal-json] { display: none !important }
  .message { background: none !important }
  dialog::backdrop { background: Canvas !important }
  .toasts { display: none !important }`);
document.adoptedStyleSheets = [sheet];"""


@contextmanager
def run_demo(folder: str, **variables: str) -> Iterator[str]:
    """Run the demo in `folder` with these variables; yield the address of its page."""
    command = [sys.executable, "-m", "bot", "demo", "--port", "0"]
    environ = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    with subprocess.Popen(
        command, cwd=folder, env=environ, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().rpartition(" ")[2].strip()
        finally:
            process.terminate()


@contextmanager
def open_browser(profile: str) -> Iterator[webdriver.Chrome]:
    """Run a headless Chromium with an empty profile."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for flag in [*FLAGS, f"--user-data-dir={profile}"]:
        options.add_argument(flag)
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        yield driver
    finally:
        driver.quit()


class Camera:
    """One tab on the demo's page."""

    def __init__(self, driver: webdriver.Chrome, url: str, theme: str = "light") -> None:
        self._driver = driver
        self._url = url
        self._theme = theme

    def visit(self, url: str) -> None:
        """Load a page that is not the demo's, in the camera's theme."""
        look = {"name": "prefers-color-scheme", "value": self._theme}
        self._driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [look]})
        self._driver.get(url)

    def act_as(self, person: str, channel: str = "C0SUPPORT", team: str = "") -> None:
        """Load the page again as that person, in that channel, and in that team of several."""
        self._driver.get("about:blank")
        where = f"&team={team}" if team else ""
        self._driver.get(f"{self._url}/?as={person}&theme={self._theme}{where}#/{channel}")
        self.find(f'[data-testid=person-switch][data-me="{person}"]')
        self._driver.execute_script(STILL)

    def find(self, css: str, text: str = "") -> WebElement:
        """Wait for the last displayed element of that selector that holds `text`."""
        return self.wait_for(
            lambda: self._find(css, text), f"nothing displayed for {css} with {text!r}"
        )

    def press(self, css: str) -> None:
        """Click the last displayed element of that selector."""

        def pressed() -> bool:
            if element := self._find(css):
                self._driver.execute_script(
                    "arguments[0].scrollIntoView({block: 'center'})", element
                )
                element.click()
            return element is not None

        self.wait_for(pressed, f"nothing to click for {css}")

    def write(self, css: str, text: str) -> None:
        """Type into the last displayed field of that selector."""
        self.find(css).send_keys(text)

    @contextmanager
    def whole_page(self, height: int = WINDOW[1]) -> Iterator[None]:
        """Use a larger window at a lower resolution: a picture of the whole page stays small."""
        metrics = {
            "width": WINDOW[0],
            "height": height,
            "deviceScaleFactor": 1,
            "mobile": False,
        }
        self._driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        yield
        self._driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})

    def look(self) -> bytes:
        """Return a picture of the window as it is now, as PNG."""
        return bytes(self._driver.get_screenshot_as_png())

    def save_picture(self, css: str, name: str, text: str = "") -> None:
        """Save a picture of the last element of that selector that holds `text`."""

        def shot() -> bytes | None:
            if element := self._find(css, text):
                self._driver.execute_script("document.activeElement?.blur()")
                self._driver.execute_script(
                    "arguments[0].scrollIntoView({block: 'center'})", element
                )
            return element.screenshot_as_png if element else None

        path = PICTURES / f"{name}{'-dark' * (self._theme == 'dark')}.png"
        path.write_bytes(self.wait_for(shot, f"nothing to photograph for {css} with {text!r}"))
        sys.stdout.write(f"{path.name}: {path.stat().st_size // 1000} kB\n")

    def _find(self, css: str, text: str = "") -> WebElement | None:
        all_of_them = self._driver.find_elements(By.CSS_SELECTOR, css)
        return next(
            (each for each in reversed(all_of_them) if each.is_displayed() and text in each.text),
            None,
        )

    def wait_for(self, found: Callable[[], T | None], what: str) -> T:
        """Wait for the first truthy result of `found`.

        The page may be redrawn at any moment, so errors of a redraw only lead to another try.
        """
        waiter = WebDriverWait(
            self._driver, PATIENCE, poll_frequency=0.05, ignored_exceptions=PASSING
        )
        return waiter.until(lambda _: found(), what)  # type: ignore[return-value]  # until gives truthy values only


@contextmanager
def open_camera(theme: str, **variables: str) -> Iterator[tuple[Camera, Path]]:
    """Run a demo with these variables; yield a camera on its page, and the folder it runs in."""
    with (
        TemporaryDirectory() as folder,
        # the browser may still be writing when it ends
        TemporaryDirectory(ignore_cleanup_errors=True) as profile,
        run_demo(folder, **variables) as url,
        open_browser(profile) as driver,
    ):
        yield Camera(driver, url, theme), Path(folder)
