"""The dialog in which somebody has another decide for them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from bot.approvals.delegation import NO_COLLEAGUE, Delegations
from bot.approvals.dialog_access import TurnedAway
from bot.messages.actions.codec import Click, Subject
from bot.messages.actions.names import Action, Dialog, Field
from bot.messages.delegation.modal import delegate_modal
from bot.messages.incoming import team_of
from bot.messages.sentences import refusals
from bot.policy.directory import LookupFailedError
from bot.slack.dialogs.family import Opening

ACTIONS, DIALOGS = frozenset({Action.DELEGATE}), frozenset({Dialog.DELEGATE})


@dataclass(frozen=True, slots=True)
class DelegationDialogs:
    """Opens and checks it; for full members of the workspace."""

    delegations: Delegations

    @property
    def actions(self) -> Collection[Action]:
        """The button that opens it."""
        return ACTIONS

    @property
    def dialogs(self) -> Collection[Dialog]:
        """The dialog itself."""
        return DIALOGS

    def opening(self, click: Click, body: dict[str, Any]) -> Opening | TurnedAway:
        """Return the dialog; it says what it would take the place of."""
        person, authority = body["user"]["id"], self.delegations.authority
        try:
            is_ours = team_of(body) == authority.team and authority.colleague(person)
        except LookupFailedError:
            return TurnedAway(refusals.lookup_failed())
        if not is_ours:
            return TurnedAway(NO_COLLEAGUE)
        given = [each for each in self.delegations.about(person) if each.own]
        now = self.delegations.clock.now()
        if not given:
            return Opening(delegate_modal(now))
        return Opening(delegate_modal(now, until=given[0].until, delegate=given[0].delegate))

    def check(self, subject: Subject, body: dict[str, Any]) -> dict[str, str]:
        """Return the errors of what was entered, by block id."""
        try:
            found = self.delegations.wished(body["view"]["state"]["values"], body["user"]["id"])
        except LookupFailedError:
            return {Field.DELEGATE: refusals.lookup_failed()}
        return found if isinstance(found, dict) else {}
