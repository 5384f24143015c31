"""What a running tool can tell people: its progress, and a question to the requester (elicitation).

The default port leads to nobody. A person's answer is data and approves nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what is asked is a tool of its own
    from bot.tools.person_question import AskPerson


class ElicitationOutcome(StrEnum):
    """How a question from a running tool ended."""

    ANSWERED = "answered"
    DECLINED = "declined"  # whoever was asked cannot say, or does not want to
    NOBODY = "nobody"  # nobody answered in time, or it is no longer needed
    REFUSED = "refused"  # it may not be asked


@dataclass(frozen=True, slots=True)
class ElicitationAnswer:
    """The outcome of a question that a tool asked while it ran, with the values that were given."""

    outcome: ElicitationOutcome
    values: dict[str, Any] = field(default_factory=dict)  # in JSON, by field: a0, a1, …
    why: str = ""  # it was refused


@dataclass(frozen=True, slots=True)
class ElicitationRequest:
    """A question that an MCP server asks in the middle of a call."""

    question: AskPerson
    server: str  # which asks, by its name
    seconds: float  # within which somebody has to answer


class ElicitationPort:
    """What one call may tell and ask people; usable from any thread.

    This base class reaches nobody.
    """

    def tell(self, words: str) -> None:
        """Report the call's progress in words for people; only the latest text counts."""

    def ask(self, question: ElicitationRequest, is_over: Callable[[], bool]) -> ElicitationAnswer:
        """Ask the requester a question and wait for the answer, or until `is_over` returns true.

        This base class refuses every question.
        """
        return ElicitationAnswer(ElicitationOutcome.REFUSED, why="there is nobody to ask")


NOBODY = ElicitationPort()
