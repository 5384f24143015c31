"""The pictures of people who ask in Slack: the README's story, and Home."""

from __future__ import annotations

from selenium.webdriver.common.keys import Keys

from bench.pictures.camera import HOME, MAIN, MODAL, THREAD, at_a_demo

REQUEST = "@countersign refund 40 EUR of order 1042, it arrived broken"
HOME_HEIGHT = 860  # CSS pixels of a window in which all of Home is seen
BACKSPACE = Keys.BACKSPACE * 8


def take(theme: str) -> None:
    """The README's story: Ben asks; Ana looks at the card and edits it; Cleo approves what came of
    it.
    """
    with at_a_demo(theme) as (camera, _):
        camera.be("ben")
        camera.write("[data-testid=composer]", REQUEST + Keys.ENTER)
        camera.one(f"{MAIN} [data-testid=open-thread]")
        card = f"{THREAD} [data-testid=message]:has([data-action-id=approve])"
        camera.be("ana")
        camera.press(f"{MAIN} [data-testid=open-thread]")
        camera.shoot(card, "card")
        with camera.whole_page():
            camera.shoot("body", "page", "Approve")
        camera.press(f"{card} [data-action-id=edit]")
        camera.write(f"{MODAL} [data-block-id$=amount] input", BACKSPACE + "30")
        camera.shoot(MODAL, "edit")
        camera.press("[data-testid=modal-submit]")
        camera.one(card, "30.00")
        camera.be("cleo")
        camera.press(f"{MAIN} [data-testid=open-thread]")
        camera.press(f"{card} [data-action-id=approve]")
        camera.one(THREAD, "Refunded 30.00 EUR")
        camera.be("ana")
        camera.press(f"{MAIN} [data-testid=open-thread]")
        camera.shoot(f"{THREAD} [data-testid=message]", "decided", "Approved by")


def take_home(theme: str) -> None:
    """The Home tab of somebody who decides, and how she has somebody else decide for her."""
    with at_a_demo(theme) as (camera, _):
        camera.be("ben")
        camera.write("[data-testid=composer]", REQUEST + Keys.ENTER)
        camera.one(f"{MAIN} [data-testid=open-thread]")
        camera.be("ana", "DANA00001/home")
        camera.one(HOME, "order 1042")
        with camera.whole_page(HOME_HEIGHT):
            camera.shoot(HOME, "home")
        camera.press(f"{HOME} [data-action-id=delegate]")
        camera.shoot(MODAL, "delegate")
