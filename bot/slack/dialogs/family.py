"""The port behind which each kind of dialog is opened and checked."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Protocol

from slack_sdk.errors import SlackApiError

from bot.approvals.dialog_access import TurnedAway
from bot.messages.actions.codec import Click, Subject
from bot.messages.actions.names import Action, Dialog
from bot.messages.parts import Json
from bot.messages.sentences import refusals
from bot.slack.errors import code_said, meaning
from storage.models import Call


@dataclass(frozen=True, slots=True)
class Opening:
    """A dialog for who may use it."""

    view: Json
    call: Call | None = None  # the one that it shows all of
    reveals: bool = False  # it shows more of that call than the card does


def view_of(found: Opening | TurnedAway) -> Json | str:
    """Return the dialog to open, or the sentence that says why there is none."""
    return found.view if isinstance(found, Opening) else found.sentence


def why_not_opened(error: Exception) -> str:
    """Return the sentence for who clicked, by what Slack answered; mrkdwn."""
    if not isinstance(error, SlackApiError):
        return refusals.not_opened("")
    return refusals.not_opened(code_said(error), meaning(error))


class DialogFamily(Protocol):
    """Dialogs of one kind. Called on listener threads; decides nothing."""

    @property
    def actions(self) -> Collection[Action]:
        """The buttons that open one of them; they stand in `codec.OPENS_DIALOG` as well."""
        ...

    @property
    def dialogs(self) -> Collection[Dialog]:
        """The dialogs that are checked here; what they come to is decided by `Clicks`."""
        ...

    def opening(self, click: Click, body: dict[str, Any]) -> Opening | TurnedAway:
        """Return the dialog that a button asks for, or why this person does not get it.

        `body` is the block_actions payload. May look people up, for two seconds.
        """
        ...

    def check(self, subject: Subject, body: dict[str, Any]) -> dict[str, str]:
        """Return the errors of a submission by block id; none when it may be stored.

        `body` is the view_submission payload. May look people up, for a second and a half.
        """
        ...
