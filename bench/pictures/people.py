"""Takes the pictures of requests by people: the README's story, and Home."""

from __future__ import annotations

from selenium.webdriver.common.keys import Keys

from bench.pictures.camera import HOME, MAIN, MODAL, THREAD, open_camera

REQUEST = "@countersign refund 40 EUR of order 1042, it arrived broken"
HOME_HEIGHT = 860  # CSS pixels of a window that shows all of Home
BACKSPACE = Keys.BACKSPACE * 8


def take_story(theme: str) -> None:
    """Take the README's story: Ben asks; Ana edits the card; Cleo approves the edited one."""
    with open_camera(theme) as (camera, _):
        camera.act_as("ben")
        camera.write("[data-testid=composer]", REQUEST + Keys.ENTER)
        camera.find(f"{MAIN} [data-testid=open-thread]")
        card = f"{THREAD} [data-testid=message]:has([data-action-id=approve])"
        camera.act_as("ana")
        camera.press(f"{MAIN} [data-testid=open-thread]")
        camera.save_picture(card, "card")
        with camera.whole_page():
            camera.save_picture("body", "page", "Approve")
        camera.press(f"{card} [data-action-id=edit]")
        camera.write(f"{MODAL} [data-block-id$=amount] input", BACKSPACE + "30")
        camera.save_picture(MODAL, "edit")
        camera.press("[data-testid=modal-submit]")
        camera.find(card, "30.00")
        camera.act_as("cleo")
        camera.press(f"{MAIN} [data-testid=open-thread]")
        camera.press(f"{card} [data-action-id=approve]")
        camera.find(THREAD, "Refunded 30.00 EUR")
        camera.act_as("ana")
        camera.press(f"{MAIN} [data-testid=open-thread]")
        camera.save_picture(f"{THREAD} [data-testid=message]", "decided", "Approved by")


def take_home(theme: str) -> None:
    """Take the Home tab of an approver, and the dialog in which she delegates her approvals."""
    with open_camera(theme) as (camera, _):
        camera.act_as("ben")
        camera.write("[data-testid=composer]", REQUEST + Keys.ENTER)
        camera.find(f"{MAIN} [data-testid=open-thread]")
        camera.act_as("ana", "DANA00001/home")
        camera.find(HOME, "order 1042")
        with camera.whole_page(HOME_HEIGHT):
            camera.save_picture(HOME, "home")
        camera.press(f"{HOME} [data-action-id=delegate]")
        camera.save_picture(MODAL, "delegate")
