"""What is in a file, by its bytes alone: a picture, a PDF, a text, or nothing that is read. Pure.

Nothing is unpacked or drawn: a picture and a PDF are only known by how they begin.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass

PDF, TEXT = "application/pdf", "text/plain"
_BEGINS = (
    ("image/png", re.compile(rb"\x89PNG\r\n\x1a\n")),
    ("image/jpeg", re.compile(rb"\xff\xd8\xff")),
    ("image/gif", re.compile(rb"GIF8[79]a")),
    ("image/webp", re.compile(rb"RIFF....WEBP", re.DOTALL)),
    (PDF, re.compile(rb"%PDF-\d")),
)
_MARKED = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_USUAL = "cp1252"  # what spreadsheets write that say nothing
_NO_TEXT = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class Content:
    """What a file holds."""

    media: str  # one of the pictures', PDF or TEXT
    text: str = ""  # of a text, all of it
    guessed: bool = False  # in which encoding it is was not to be seen

    @property
    def is_text(self) -> bool:
        """Whether it is a text."""
        return self.media == TEXT

    @property
    def is_picture(self) -> bool:
        """Whether it is a picture."""
        return self.media.startswith("image/")


def content_of(data: bytes, *, said_to_be_text: bool) -> Content | None:
    """Return what the bytes are, None where it is nothing that the model reads.

    `said_to_be_text`: whoever keeps the file says so; then a text of no known encoding is guessed.
    """
    for media, begins in _BEGINS:
        if begins.match(data):
            return Content(media)
    text, guessed = _decoded(data, guess=said_to_be_text)
    if not text or _NO_TEXT.search(text):
        return None
    return Content(TEXT, text.replace("\r\n", "\n"), guessed)


def _decoded(data: bytes, *, guess: bool) -> tuple[str, bool]:
    """The bytes as a text and whether that was guessed; "" where they are none."""
    encoding = next((name for mark, name in _MARKED if data.startswith(mark)), "utf-8")
    try:
        return data.decode(encoding), False
    except UnicodeDecodeError:
        return (data.decode(_USUAL, "replace"), True) if guess else ("", False)
