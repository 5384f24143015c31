"""Pictures of people and apps: each a square in a colour of its own.

They are there so that the addresses in profiles lead somewhere. The page draws its own; these are
for apps, which put them into blocks and messages.
"""

from __future__ import annotations

import colorsys
import struct
import zlib

from aiohttp import web

from slack_sandbox.workspace.api_objects import PICTURE_SIZES


def add_routes(router: web.UrlDispatcher) -> None:
    """Put the pictures into the server."""
    router.add_get(r"/avatars/{name}-{size:\d{1,3}}.png", _give)


async def _give(request: web.Request) -> web.Response:
    size = int(request.match_info["size"])
    if size not in (*PICTURE_SIZES, 36):
        raise web.HTTPNotFound
    return web.Response(body=square(request.match_info["name"], size), content_type="image/png")


def square(name: str, size: int) -> bytes:
    """A PNG of size × size pixels in the colour of that name."""
    hue = zlib.crc32(name.encode()) % 360 / 360
    color = bytes(round(part * 255) for part in colorsys.hls_to_rgb(hue, 0.42, 0.45))
    rows = (b"\0" + color * size) * size  # each row begins with its filter type, 0 for none
    header = struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)  # 8 bits a channel, RGB
    return (
        b"\x89PNG\r\n\x1a\n"
        + _chunk(b"IHDR", header)
        + _chunk(b"IDAT", zlib.compress(rows))
        + _chunk(b"IEND", b"")
    )


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
