"""What the Home tab shows one person, as plain data: made from rows, drawn by `draw`. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from bot.messages.actions.targets import CallTarget
from storage.states import CallStatus, RunStatus


@dataclass(frozen=True, slots=True)
class WaitingCall:
    """A call that this person may approve now, or of which they may say what became of it."""

    target: CallTarget
    effect: str  # "Refund 40.00 EUR of order 1042"; secrets masked
    does: str  # read | write | destructive
    requester: str  # Slack user id
    channel: str  # where it was asked
    deadline: datetime | None
    unknown: bool = False  # it started, and nobody knows whether it finished


@dataclass(frozen=True, slots=True)
class OwnRequest:
    """A request of this person, and how it stands."""

    run: str
    words: str  # what they wrote first; "" where it has not been read yet
    at: datetime
    status: RunStatus
    calls: tuple[tuple[CallStatus, str], ...] = ()  # what was proposed: how it stands, its effect
    more: int = 0  # calls that are not among these


@dataclass(frozen=True, slots=True)
class Remembered:
    """A remembered approval that this person gave, or that is for them."""

    call: str  # the one with whose approval it was given
    text: str  # mrkdwn


@dataclass(frozen=True, slots=True)
class HomeView:
    """The tab of one person."""

    bot: str  # the bot's user id
    waiting: tuple[WaitingCall, ...] = ()  # the first deadline first
    more_waiting: int = 0  # calls they may approve that are not among these
    unread: bool = False  # more calls wait in the workspace than were looked at
    unsure: int = 0  # calls of which Slack did not say whether they may
    requests: tuple[OwnRequest, ...] = ()  # the newest first
    more_requests: bool = False
    remembered: tuple[Remembered, ...] = ()  # the first to end first
    more_remembered: int = 0
