"""Pictures of people and apps: their addresses fit into a block and lead to a picture."""

from __future__ import annotations

import struct
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from slack_sdk import WebClient

from slack_sandbox.server import Sandbox


def size_of(address: str) -> tuple[int, int]:
    """Width and height of the PNG at that address."""
    with urlopen(address) as answer:
        data = answer.read()
        assert answer.headers["Content-Type"] == "image/png"
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", data[16:24])
    return width, height


def test_a_persons_pictures_have_their_sizes(sandbox: Sandbox, client: WebClient) -> None:
    """Their names say the sizes, and their addresses fit into an image block."""
    profile = client.users_info(user="UANA00001")["user"]["profile"]
    for size in (24, 32, 48, 72, 192, 512):
        assert size_of(profile[f"image_{size}"]) == (size, size)
    image = {"type": "image", "image_url": profile["image_72"], "alt_text": "Ana"}
    assert client.chat_postMessage(channel="C0SUPPORT", text="Ana", blocks=[image])["ok"]
    with pytest.raises(HTTPError, match="404"):
        urlopen(profile["image_24"].replace("-24.png", "-25.png"))


def test_an_apps_message_has_its_pictures(sandbox: Sandbox, client: WebClient) -> None:
    """An app's message has its pictures, also where its name has spaces."""
    sandbox.world.app.manifest["features"]["bot_user"]["display_name"] = "My own app"
    posted = client.chat_postMessage(channel="C0SUPPORT", text="here")["message"]["bot_profile"]
    assert {name: size_of(address) for name, address in posted["icons"].items()} == {
        "image_36": (36, 36),
        "image_48": (48, 48),
        "image_72": (72, 72),
    }
