"""Measures the sandbox's page as people see it in the demo.

It measures how soon the page is drawn and how soon a clicked card has changed, in headless Chromium
by its own clock. Gives nothing if Chromium or its driver is not installed.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from tempfile import TemporaryDirectory

from selenium import webdriver
from selenium.webdriver.common.keys import Keys

from bench.figures import Figure, Setup, build_figure
from bench.pictures.camera import MAIN, THREAD, Camera, open_browser, run_demo

CARD = f"{THREAD} [data-action-id=approve]"
# Runs before the page's own scripts: notes when the page says that it is drawn.
READY = """new MutationObserver((_, self) => {
  if (!document.documentElement?.dataset.ready) return
  window.benchReady = performance.now()
  self.disconnect()
}).observe(document, {attributes: true, subtree: true, childList: true})"""
# From the click on Approve to the first moment at which the thread has no such button any more.
WATCH = f"""window.benchChanged = null
const clicked = () => {{ window.benchClicked = performance.now() }}
document.addEventListener('click', clicked, {{capture: true, once: true}})
const observer = new MutationObserver(() => {{
  if (document.querySelector('{CARD}')) return
  window.benchChanged = performance.now() - window.benchClicked
  observer.disconnect()
}})
observer.observe(document.body, {{childList: true, subtree: true}})"""


def measure_load(driver: webdriver.Chrome, url: str) -> float:
    """Return the milliseconds from the start of a navigation until the page is drawn."""
    driver.get("about:blank")
    driver.get(f"{url}/?as=ana&theme=light#/C0SUPPORT")
    camera = Camera(driver, url)
    return float(
        camera.wait_for(
            lambda: driver.execute_script("return window.benchReady"), "the page was not drawn"
        )
    )


def measure_decision(driver: webdriver.Chrome, url: str, amount: int) -> float:
    """Return the milliseconds from Ana's click on Approve until her card has changed."""
    camera = Camera(driver, url)
    camera.act_as("ben")
    composer = camera.find("[data-testid=composer]")
    composer.send_keys(f"@countersign refund {amount} EUR of order 1042, it arrived broken")
    composer.send_keys(Keys.ENTER)
    camera.find(f"{MAIN} [data-testid=message] [data-testid=open-thread]")
    camera.act_as("ana")
    camera.press(f"{MAIN} [data-testid=open-thread]")
    camera.find(CARD)
    driver.execute_script(WATCH)
    camera.press(CARD)
    changed = camera.wait_for(
        lambda: driver.execute_script("return window.benchChanged"), "the card did not change"
    )
    camera.find(f"{THREAD} [data-testid=message]", "Approved by")
    return float(changed)


def measure(setup: Setup) -> Iterator[Figure]:
    """Measure one demo in one browser."""
    if not (shutil.which("chromium") and shutil.which("chromedriver")):
        return
    rounds = 2 if setup.quick else 7
    folder = setup.make_folder("page")
    with (
        TemporaryDirectory(ignore_cleanup_errors=True) as profile,
        run_demo(str(folder)) as url,
        open_browser(profile) as driver,
    ):
        driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": READY})
        loads = [measure_load(driver, url) for _ in range(rounds)]
        changes = [measure_decision(driver, url, number + 1) for number in range(rounds)]
    yield build_figure("page.load", "page load, until it is drawn", loads, "ms")
    yield build_figure("page.click", "click on Approve until the card has changed", changes, "ms")
