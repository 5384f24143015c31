"""What the stand-in looks at of pictures and files: that they are whole and what they say they are.

It reads nothing of what is in them.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any

_BEGINS = {
    "image/png": rb"\x89PNG\r\n\x1a\n",
    "image/jpeg": rb"\xff\xd8\xff",
    "image/gif": rb"GIF8[79]a",
    "image/webp": rb"RIFF....WEBP",
    "application/pdf": rb"%PDF-",
}
_PDF = "application/pdf"
_DATA = re.compile(r"data:([a-z]+/[a-z]+);base64,([A-Za-z0-9+/]+={0,2})")


def is_whole(url: str, *, pictures: bool) -> bool:
    """Whether a data address holds the picture, or else the PDF, that it says."""
    found = _DATA.fullmatch(url)
    if found is None or found[1] not in _BEGINS or (found[1] == _PDF) is pictures:
        return False
    try:
        data = base64.b64decode(found[2], validate=True)
    except binascii.Error:
        return False
    return re.match(_BEGINS[found[1]], data, re.DOTALL) is not None


def kinds(items: Any) -> set[str]:
    """Return which kinds of parts an input that was let through has in its content lists."""
    contents = [each.get("content") for each in items] if isinstance(items, list) else []
    return {part["type"] for content in contents if isinstance(content, list) for part in content}


def without_data(value: Any) -> Any:
    """Return a request's JSON with each picture and file as long as what a model reads of it."""
    if isinstance(value, str):
        return "x" * 4000 if value.startswith("data:") else value
    if isinstance(value, list):
        return [without_data(each) for each in value]
    if isinstance(value, dict):
        return {key: without_data(each) for key, each in value.items()}
    return value
