"""What the Home tab shows one person, as plain data: made from rows, drawn by `draw`. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from bot.messages.actions.targets import HOME, CallTarget, HomeTarget
from bot.messages.delegation.listing import Delegated
from bot.messages.overview.view import ListedCall, ListedRun
from bot.tools.effect_source import EffectSource


@dataclass(frozen=True, slots=True)
class WaitingCall:
    """A call that this person may approve now, or of which they may say what became of it."""

    target: CallTarget
    effect: str  # "Refund 40.00 EUR of order 1042"; secrets masked
    does: str  # read | write | destructive
    requester: str  # Slack user id
    channel: str  # where it was asked
    deadline: datetime | None
    link: str = ""  # to its card, else to its request
    unknown: bool = False  # outcome unknown: started, never confirmed
    warned: bool = False  # its card warns of something
    client: str = ""  # the program by which it was asked
    stated: EffectSource = EffectSource.BY_AUTHOR  # who says what it does


@dataclass(frozen=True, slots=True)
class WaitingQuestion:
    """A question that this person may answer now."""

    target: CallTarget
    question: str  # the agent's words
    requester: str  # Slack user id
    deadline: datetime | None
    link: str = ""  # to its message, else to its request
    asker: str = "the agent"  # who asks, in mrkdwn


@dataclass(frozen=True, slots=True)
class Remembered:
    """A remembered approval that this person gave, or that is for them."""

    call: str  # the one with whose approval it was given
    text: str  # mrkdwn


@dataclass(frozen=True, slots=True)
class HomeView:
    """The tab of one person."""

    bot: str  # the bot's user id
    shows: HomeTarget = HOME
    pages: int = 1  # that there are of what it shows
    questions: tuple[WaitingQuestion, ...] = ()  # for them, the first deadline first
    waiting: tuple[WaitingCall, ...] = ()  # the first deadline first
    more_waiting: int = 0  # calls they may approve that are not among these
    unread: bool = False  # more calls wait in the workspace than were looked at
    unsure: int = 0  # calls of which Slack did not say whether they may
    requests: tuple[ListedRun, ...] = ()  # the newest first
    away: tuple[tuple[str, datetime | None], ...] = ()  # of those who decide about them
    more_requests: bool = False
    decided: tuple[ListedCall, ...] = ()  # by them or on their requests, the newest first
    more_decided: bool = False
    delegations: tuple[Delegated, ...] = ()  # who decides for whom, the first to end first
    remembered: tuple[Remembered, ...] = ()  # the first to end first
    more_remembered: int = 0
