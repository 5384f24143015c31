"""What a command says to the running bot, and what it answers: a line of JSON each way.

They meet at a socket beside the database, which only its owner may open.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from storage.states import Verb

MOST = 65_536  # bytes of one line
LONGEST_PATH = 100  # bytes of a socket's path, below what systems allow


class GarbledError(ValueError):
    """The other side said something that is no line of this kind."""


@dataclass(frozen=True, slots=True)
class Asking:
    """What the operator wants: approve or reject one call at the revision that they saw."""

    verb: Verb
    target: str  # as `pending` shows it: "PCG7SqfUal4mukN38Utqcw:1"
    words: str = ""  # a note, or why not


@dataclass(frozen=True, slots=True)
class Answering:
    """What came of it, in a sentence."""

    counted: bool
    sentence: str


def socket_path(database: Path) -> Path:
    """Where the bot on this database listens."""
    return database.with_name(database.name + ".socket")


def write_line(said: Asking | Answering) -> bytes:
    """One line, to be sent."""
    return json.dumps(asdict(said), ensure_ascii=False).encode() + b"\n"


def read_asking(line: bytes) -> Asking:
    """Read what a command said; raises GarbledError."""
    given = _read(line)
    verb, target, words = (given.get(name) for name in ("verb", "target", "words"))
    if verb not in (Verb.APPROVE, Verb.REJECT) or not isinstance(target, str):
        raise GarbledError("neither an approval nor a rejection")
    if not isinstance(words, str):
        raise GarbledError("the words are no text")
    return Asking(Verb(verb), target, words)


def read_answering(line: bytes) -> Answering:
    """Read what the bot answered; raises GarbledError."""
    given = _read(line)
    counted, sentence = given.get("counted"), given.get("sentence")
    if not isinstance(counted, bool) or not isinstance(sentence, str):
        raise GarbledError("no answer")
    return Answering(counted, sentence)


def _read(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        raise GarbledError("no JSON") from None
    if not isinstance(found, dict):
        raise GarbledError("no object")
    return found
