"""Files in a transcript: items carry references to them, and their bytes take their place when the
model is asked. Pure.

So a transcript stays as short as its words, and a file that was deleted is sent no more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bot.agent.files.content import TEXT, Content
from bot.agent.files.words import DELETED, quoted

_REFERENCE = "attached:"
_PLACES = {"input_image": "image_url", "input_file": "file_data"}  # where a part has its bytes


@dataclass(frozen=True, slots=True)
class Given:
    """A file as it is kept: its bytes in base64, or a text as it is.

    `instead`: what is said where it is given no more.
    """

    media: str
    data: str
    instead: str = ""


def item(head: str, parts: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return the files of one message as an input item; `head` says whose they are."""
    return {"role": "user", "content": [words(head), *parts]}


def words(text: str) -> dict[str, Any]:
    """Return a part in words."""
    return {"type": "input_text", "text": text}


def reference(file_id: str, name: str, content: Content) -> dict[str, Any]:
    """Return the part that stands for a file, by the id under which it is kept."""
    if content.is_picture:
        return {"type": "input_image", "image_url": f"{_REFERENCE}{file_id}", "detail": "auto"}
    return {"type": "input_file", "filename": name, "file_data": f"{_REFERENCE}{file_id}"}


def references(transcript: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the ids of the files in a transcript, in order."""
    found = (_id(part) for item in transcript for part in _parts(item))
    return [each for each in found if each]


def filled(
    transcript: Iterable[dict[str, Any]], files: Mapping[str, Given]
) -> list[dict[str, Any]]:
    """Return the transcript with each file in the place of its reference."""
    return [_filled(each, files) if any(map(_id, _parts(each))) else each for each in transcript]


def _filled(item: dict[str, Any], files: Mapping[str, Given]) -> dict[str, Any]:
    found = ((part, _id(part)) for part in _parts(item))
    parts = [_shown(part, files.get(each)) if each else part for part, each in found]
    return {**item, "content": parts}


def _shown(part: Mapping[str, Any], file: Given | None) -> dict[str, Any]:
    if file is None:  # nobody knows it any more
        return words(DELETED)
    if file.instead:
        return words(file.instead)
    if file.media == TEXT:
        return words(quoted(file.data))
    return {**part, _PLACES[part["type"]]: f"data:{file.media};base64,{file.data}"}


def _parts(item: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    content = item.get("content") if item.get("role") == "user" else None
    if isinstance(content, list):
        yield from content


def _id(part: Mapping[str, Any]) -> str:
    """The id of the file that a part stands for; "" where it stands for none."""
    place = _PLACES.get(part.get("type", ""))
    found = str(part.get(place) or "") if place else ""
    return found.removeprefix(_REFERENCE) if found.startswith(_REFERENCE) else ""
