"""The moving picture at the top of the README: a refund is requested, edited and approved."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator

from PIL import Image
from selenium.webdriver.common.keys import Keys

from bench.pictures.camera import MAIN, MODAL, PICTURES, THREAD, Camera, open_camera
from bench.pictures.people import BACKSPACE

PATH = PICTURES / "demo.webp"
HEIGHT = 640  # CSS pixels of the page
TEXT = "@countersign refund 40 EUR of order 1042, it arrived broken"
TYPED = 6  # characters in each frame of typing
COMPOSER, CARD = "[data-testid=composer]", f"{THREAD} [data-testid=message]:has(.block-actions)"


def film_story() -> None:
    """Film the story and write it into docs/pictures."""
    with open_camera("light") as (camera, _), camera.whole_page(HEIGHT):
        frames = [(camera.look(), stays) for stays in act_story(camera)]
    first, *rest = [Image.open(io.BytesIO(png)).convert("RGB") for png, _ in frames]
    first.save(
        PATH,
        save_all=True,
        append_images=rest,
        duration=[stays for _, stays in frames],
        loop=0,
        quality=70,
        method=4,
    )
    seconds = sum(stays for _, stays in frames) / 1000
    sys.stdout.write(f"{PATH.name}: {PATH.stat().st_size // 1000} kB, {seconds:.1f} s\n")


def act_story(camera: Camera) -> Iterator[int]:
    """Act as Ben, Ana and Cleo; at each frame yield how long it is shown, in milliseconds."""
    camera.act_as("ben")
    camera.find("[data-testid=example]")
    yield 1500
    for start in range(0, len(TEXT), TYPED):
        camera.write(COMPOSER, TEXT[start : start + TYPED])
        yield 100
    camera.write(COMPOSER, Keys.ENTER)
    camera.find(CARD, "40.00")
    yield 1600
    camera.act_as("ana")
    camera.press(f"{MAIN} [data-testid=open-thread]")
    camera.find(CARD, "40.00")
    yield 1000
    camera.press(f"{CARD} [data-action-id=edit]")
    camera.find(f"{MODAL} [data-block-id$=amount] input")
    yield 900
    camera.write(f"{MODAL} [data-block-id$=amount] input", BACKSPACE + "30")
    yield 900
    camera.press("[data-testid=modal-submit]")
    camera.find(CARD, "30.00")
    yield 1500
    camera.act_as("cleo")
    camera.press(f"{MAIN} [data-testid=open-thread]")
    camera.find(CARD, "30.00")
    yield 1000
    camera.press(f"{CARD} [data-action-id=approve]")
    camera.find(THREAD, "That is done")
    yield 2600
