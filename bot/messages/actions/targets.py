"""What a button or a dialog is about. Pure: a claim of the payload's, to be looked up."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class CallTarget:
    """One call, at the revision that was shown."""

    call: str
    revision: int


@dataclass(frozen=True, slots=True)
class CardTarget:
    """All that waits on one card, if that is still what was shown."""

    plan: str
    revision: int  # of the card: `storage.calls.card_revision`
    card: int  # the message's number in the outbox


@dataclass(frozen=True, slots=True)
class RunTarget:
    """A whole request."""

    run: str


@dataclass(frozen=True, slots=True)
class Rating:
    """Somebody's opinion of the answer to a request."""

    run: str
    good: bool


@dataclass(frozen=True, slots=True)
class Setting:
    """Where a request is made from, and what it is about."""

    channel: str = ""  # "": a direct message with who asks
    quoted: str = ""  # the text of the message that it is about
    link: str = ""  # where that message stands
    asked_in: str = ""  # the channel where it was asked for, if it is made elsewhere


class FormKind(StrEnum):
    """What a form is of."""

    TOOL = "tool"
    TEMPLATE = "template"  # of the policy: some of its fields are filled in for good


@dataclass(frozen=True, slots=True)
class FormTarget:
    """The form of a tool or of a template."""

    kind: FormKind
    name: str
    setting: Setting = Setting()
    again: str = ""  # the call with whose values it begins; "" for none


@dataclass(frozen=True, slots=True)
class DelegationTarget:
    """That somebody decides for another."""

    delegation: str


class HomePart(StrEnum):
    """What the Home tab shows."""

    ALL = "all"  # the first of everything
    WAITING = "waiting"
    MINE = "mine"


@dataclass(frozen=True, slots=True)
class HomeTarget:
    """A page of the Home tab."""

    part: HomePart = HomePart.ALL
    page: int = 0
    channel: str = ""  # only what was asked there; "": anywhere


HOME = HomeTarget()  # what is shown to who opens it


@dataclass(frozen=True, slots=True)
class Nothing:
    """Nothing that is stored: a button that shows or begins something for whoever clicks it."""


Target = (
    CallTarget
    | CardTarget
    | RunTarget
    | Rating
    | Setting
    | FormTarget
    | DelegationTarget
    | HomeTarget
    | Nothing
)
