"""What every source can do in these tests: ask, be told the end, take the request back.

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
    """What has happened when the bot is restarted."""

    BEFORE = "nobody was there when it was asked"
    STORED = "it is stored, and the answer is lost"
    WAITING = "people decide"
    APPROVED = "approved, and nobody has begun"
    RUNNING = "the bot itself has done it, and not written down that it has"
    CLAIMED = "handed out, and the answer is lost"
    DONE = "done, and nobody has said so"
    REPORTED = "it was said, and the answer is lost"


@dataclass(frozen=True, slots=True)
class ReportedEnd:
    """What a source was told of the end of a request."""

    how: str  # a status, exit code, exception, or the like
    sentence: str = ""  # for people; "" if the source itself ended the request


class Asked(ABC):
    """One request of a source."""

    def __init__(self, place: Place, text: str) -> None:
        self.place = place
        self.text = text

    @abstractmethod
    def outcome(self) -> ReportedEnd:
        """Wait for the end, and return what the source is told of it."""

    def come_back(self) -> None:
        """Do what the source does once the bot runs again; most need nothing."""
        return

    def take_back(self) -> None:
        """Take it back: the source does if it can, else Ben does in Slack."""
        self.place.take_back(self.text)


class Source(ABC):
    """A way to ask the bot; `hears` has what it is told of each end."""

    name: ClassVar[str]
    hears: ClassVar[Mapping[End, str]]
    claims: ClassVar[bool] = False  # it claims approved calls and does them itself
    # the request that is held up, or whose answer is lost, at each stage
    says: ClassVar[Mapping[Stage, str]] = {
        Stage.STORED: "POST /v1/requests",
        Stage.APPROVED: "POST /claim",
        Stage.CLAIMED: "POST /claim",
        Stage.DONE: "POST /outcome",
        Stage.REPORTED: "POST /outcome",
    }
    # the end after a restart at a stage, if it is not DONE
    ends: ClassVar[Mapping[Stage, End]] = {}

    def __init__(self, place: Place) -> None:
        self.place = place

    def close(self) -> None:
        """Stop what the source started."""
        return

    def losing(self, stage: Stage, text: str) -> Callable[[], bool]:
        """Lose the bot's answer about this text at that stage.

        Returns a function that says whether the request is stored and its answer lost.
        """
        del text
        return self.place.line.losing(self.says[stage]).met.is_set

    @abstractmethod
    def ask(self, text: str) -> Asked:
        """Start asking in Ben's name whether this text may be written; return at once."""


def is_plain(sentence: str) -> bool:
    """Whether the sentence is in plain words, without names or values of the code."""
    odd = r"\bNone\b|Traceback|[A-Za-z]+_[a-z]+\b|[{}<>]|csk_|\bnull\b|Error\b"
    words = re.sub(r"^(\s*)> ", r"\1", sentence, flags=re.M)  # words of the model are quoted
    return bool(words.strip()) and not re.search(odd, words)
