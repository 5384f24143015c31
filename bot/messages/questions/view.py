"""What the message of a question shows, as plain data made from rows. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from bot.messages.actions.targets import CallTarget
from bot.messages.views import Errand
from bot.tools.people.question import AskPerson
from storage.states import CallStatus

if TYPE_CHECKING:  # it only names what it holds
    from bot.messages.questions.said import Said


@dataclass(frozen=True, slots=True)
class QuestionView:
    """One question, as everybody who sees its message may read it."""

    id: str
    revision: int
    asked: AskPerson
    status: CallStatus
    run: str  # id of the request
    requester: str  # Slack user id of whom it is asked for
    users: tuple[str, ...]  # who may answer
    group: str = ""  # a user group (S…) whose members may
    deadline: datetime | None = None
    origin: str = ""  # permalink of the request when the question is asked elsewhere
    answered_by: str = ""
    answered_at: datetime | None = None
    lines: tuple[Said, ...] = ()  # the answer
    declined: bool = False
    errands: tuple[Errand, ...] = ()  # the sub-agents between the requester's agent and it
    asker: str = "the agent"  # who asks, in mrkdwn
    server: str = ""  # the MCP server that asks, where one does
    amid: str = ""  # what that server is to do, in a sentence
    away: tuple[tuple[str, datetime | None], ...] = ()  # who of those asked, and until when

    @property
    def target(self) -> CallTarget:
        """What its buttons are about."""
        return CallTarget(self.id, self.revision)
