"""What every source can do in these stories: ask, hear how it ended, take it back.

A new source is one class of these, and a line in `table.py`.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from tests.sources.place import Place


class End(StrEnum):
    """How a request ends."""

    DONE = "done"
    REJECTED = "rejected"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


class Stage(StrEnum):
    """What has happened when the bot is ended and started anew."""

    BEFORE = "nobody was there when it was asked"
    STORED = "it is stored, and the answer is lost"
    WAITING = "people decide"
    APPROVED = "approved, and nobody has begun"
    RUNNING = "the bot itself has done it, and not written down that it has"
    CLAIMED = "handed out, and the answer is lost"
    DONE = "done, and nobody has said so"
    REPORTED = "it was said, and the answer is lost"


@dataclass(frozen=True, slots=True)
class Heard:
    """What a source was told of an end."""

    how: str  # its status, exit code, exception, or the like
    sentence: str = ""  # for people; "" where whoever asked has ended it themselves


class Asked(ABC):
    """One request of a source."""

    def __init__(self, place: Place, text: str) -> None:
        self.place = place
        self.text = text

    @abstractmethod
    def outcome(self) -> Heard:
        """What the source hears of the end, waited for."""

    def come_back(self) -> None:
        """Do what it does once the bot is there again; most go on by themselves."""
        return

    def take_back(self) -> None:
        """Take it back: by the source where it can, else Ben does it in Slack."""
        self.place.take_back(self.text)


class Source(ABC):
    """A way in; `hears` says how it is told of each end."""

    name: ClassVar[str]
    hears: ClassVar[Mapping[End, str]]
    claims: ClassVar[bool] = False  # what was approved is handed out to it
    # which request is held up, or has its answer lost, at a stage
    says: ClassVar[Mapping[Stage, str]] = {
        Stage.STORED: "POST /v1/requests",
        Stage.APPROVED: "POST /claim",
        Stage.CLAIMED: "POST /claim",
        Stage.DONE: "POST /outcome",
        Stage.REPORTED: "POST /outcome",
    }
    # how it ends where the bot is started anew at a stage, if not done
    ends: ClassVar[Mapping[Stage, End]] = {}

    def __init__(self, place: Place) -> None:
        self.place = place

    def close(self) -> None:
        """Leave nothing behind."""
        return

    def losing(self, stage: Stage, text: str) -> Callable[[], bool]:
        """Have what the bot says about this text at that stage not come back.

        Returns what tells whether it is stored, and its answer lost.
        """
        del text
        return self.place.line.losing(self.says[stage]).met.is_set

    @abstractmethod
    def ask(self, text: str) -> Asked:
        """Begin to ask whether this may be written, in Ben's name; returns at once."""


def is_plain(sentence: str) -> bool:
    """Whether a colleague would say that: words, and nothing of the machine's own."""
    odd = r"\bNone\b|Traceback|[A-Za-z]+_[a-z]+\b|[{}<>]|csk_|\bnull\b|Error\b"
    words = re.sub(r"^(\s*)> ", r"\1", sentence, flags=re.M)  # the model's stand in a quote
    return bool(words.strip()) and not re.search(odd, words)
