"""The line that a tool has to people while it runs: how far it is, and a question to who asked.

By default nobody is at its other end. What somebody answers is data, and approves nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what is asked is a tool of its own
    from bot.tools.person_question import AskPerson


class AnswerEnd(StrEnum):
    """What came of a question."""

    ANSWERED = "answered"
    DECLINED = "declined"  # whoever was asked cannot say, or does not want to
    NOBODY = "nobody"  # nobody answered in time, or it is no longer needed
    REFUSED = "refused"  # it may not be asked


@dataclass(frozen=True, slots=True)
class ElicitationAnswer:
    """What came of a question that a tool asked while it ran."""

    end: AnswerEnd
    values: dict[str, Any] = field(default_factory=dict)  # in JSON, by field: a0, a1, …
    why: str = ""  # it was refused


@dataclass(frozen=True, slots=True)
class ElicitationRequest:
    """A question amid a call."""

    asked: AskPerson
    server: str  # which asks, by its name
    seconds: float  # within which somebody has to answer


class ElicitationPort:
    """The line of one call; any thread. This one leads to nobody."""

    def tell(self, words: str) -> None:
        """Say how far it is, in words for people; only the last counts."""

    def ask(self, question: ElicitationRequest, is_over: Callable[[], bool]) -> ElicitationAnswer:
        """Ask whoever asked for the call, and wait for the answer, unless `is_over` meanwhile."""
        return ElicitationAnswer(AnswerEnd.REFUSED, why="there is nobody to ask")


NOBODY = ElicitationPort()
