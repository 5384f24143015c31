"""Where a card goes, so that its approvers see it. Looks people and channels up."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum

from bot.agent import outputs
from bot.approvals.cards.absence import Away, away_of
from bot.approvals.terms.refusals import RefusedError
from bot.policy.authority import Authority
from bot.policy.directory import LookupFailedError, NotYetKnownError
from bot.policy.gates import Ask
from storage.models import Run

log = logging.getLogger("countersign.placement")
# direct messages one card is copied to at most; more approvers than that need a channel
MOST_MESSAGES = 50


class PlaceKind(StrEnum):
    """What kind of place a card goes to."""

    THREAD = "thread"  # of the request
    CHANNEL = "channel"
    PEOPLE = "people"  # direct messages with the approvers


@dataclass(frozen=True, slots=True)
class Place:
    """Where a card goes: the request's thread, a channel, or the approvers' direct messages."""

    kind: PlaceKind
    targets: tuple[str, ...]  # channel id, or user ids
    # handle and id of the user groups among the approvers, to name them
    groups: tuple[tuple[str, str], ...] = ()
    away: Away = ()  # who of the approvers is away, for the card to say


def find_place(
    authority: Authority, run: Run, gate: Ask, editors: frozenset[str] = frozenset()
) -> Place:
    """Return where the first approvers will see the card; `editors` have edited it.

    Raises RefusedError when too few people could approve it, or Slack cannot be asked.
    """
    asker, channel = run.requester, run.channel
    try:
        named = authority.candidates(
            gate, gate.approvers_in(gate.first, timedelta()), requester=asker, channel=channel
        )
        enough = gate.people == 1 and authority.first(named - editors, 1)
        missing = (
            0
            if enough
            else authority.shortage(gate, requester=asker, channel=channel, editors=editors)
        )
        if missing > 0:
            note = "none of its approvers can be reached"
            if gate.people > 1:
                able = gate.people - missing
                short = f"{f'only {able}' if able > 0 else 'nobody'} can be reached"
                note = f"it needs {gate.people} people to approve it, and {short}"
            raise RefusedError(outputs.no_approvers(note), note, tell=True)
        place = place_for(authority, run, gate, named)
        place = replace(place, groups=group_ids(authority, gate))
        try:
            return replace(place, away=away_of(authority, named - editors))
        except NotYetKnownError:  # nobody waits for that; the next reminder knows
            return place
    except LookupFailedError as error:
        log.warning("run %s: look-up of approvers failed: %s", run.id, error)
        raise RefusedError(
            outputs.SLACK_SILENT,
            "Slack could not be asked who may approve this",
            tell=True,
        ) from error


def group_ids(authority: Authority, gate: Ask) -> tuple[tuple[str, str], ...]:
    """Return handle and id of every user group the gate names; raises LookupFailedError."""
    everybody = gate.approvers_of(0, timedelta(seconds=gate.deadline)) | gate.approvers
    found = [(handle, authority.directory.group(handle)) for handle in everybody.groups]
    return tuple((handle, group.id) for handle, group in found if group)


def place_for(authority: Authority, run: Run, gate: Ask, named: Iterable[str]) -> Place:
    """Return where the colleagues among these people will see the card, and in direct messages
    whoever decides for one of them.

    Of a crowd only those are looked up whom it takes to know. Raises LookupFailedError.
    """
    kind, channel = PlaceKind.PEOPLE, None
    if gate.post_to == "thread":
        kind, channel = PlaceKind.THREAD, run.channel
    elif gate.post_to != "approvers":
        kind, channel = PlaceKind.CHANNEL, authority.directory.channel(gate.post_to)
    if channel and authority.first(authority.directory.members(channel) & set(named), 1):
        return Place(kind, (channel,))
    asked = authority.first(named, MOST_MESSAGES)
    besides = authority.stand_ins(asked) - {run.requester, *asked}
    return Place(PlaceKind.PEOPLE, (*asked, *authority.first(besides, MOST_MESSAGES)))
