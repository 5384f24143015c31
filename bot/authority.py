"""Who may decide. Looked up live when a click is decided, never taken from the payload; a failed look-up refuses.

Guests, bots, deactivated people and people of other workspaces never count, whatever a list says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from bot.policy import Approvers, Ask


class LookupFailedError(Exception):
    """Slack could not be asked; the answer is not known, so nobody is let through."""


@dataclass(frozen=True, slots=True)
class Person:
    """What matters of a Slack user."""

    id: str
    team: str
    name: str
    is_bot: bool = False
    is_guest: bool = False
    deleted: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """A user group and who is in it."""

    id: str
    members: frozenset[str]


class Directory(Protocol):
    """Live look-ups, cached for at most a minute. Every method raises LookupFailedError when Slack cannot be asked."""

    def person(self, user: str) -> Person | None:
        """The person, or None when there is none of that id."""
        ...

    def group(self, handle: str) -> Group | None:
        """The user group of that handle, or None."""
        ...

    def members(self, channel: str) -> frozenset[str]:
        """Who is in the channel; empty when it does not exist."""
        ...

    def channel(self, name: str) -> str | None:
        """The id of a channel given as #name or as an id; None when there is none the bot can see."""
        ...


@dataclass(frozen=True, slots=True)
class Yes:
    """They may."""


@dataclass(frozen=True, slots=True)
class No:
    """They may not; `why` is one of: stranger, not_approver, own_request, own_edit, lookup."""

    why: str


Verdict = Yes | No


def is_colleague(person: Person | None, team: str) -> bool:
    """Whether this is an active, full member of the installing workspace, and not a bot."""
    return person is not None and person.team == team and not (person.is_bot or person.is_guest or person.deleted)


class Authority:
    """Answers who may decide a call, from its gate and live look-ups."""

    def __init__(self, directory: Directory, team: str) -> None:
        """`team` is the installing workspace's id."""
        self.directory = directory
        self.team = team

    def colleague(self, user: str) -> bool:
        """Whether this person may ask for things and decide at all; raises LookupFailedError."""
        return is_colleague(self.directory.person(user), self.team)

    def named(self, approvers: Approvers, channel: str) -> frozenset[str]:
        """Everybody the approvers' list names now; raises LookupFailedError."""
        found = set(approvers.users)
        for handle in approvers.groups:
            group = self.directory.group(handle)
            found |= group.members if group else frozenset()
        if approvers.channel:
            found |= self.directory.members(channel)
        return frozenset(found)

    def eligible(self, gate: Ask, *, requester: str, channel: str) -> list[str]:
        """Who could approve this request now, sorted; raises LookupFailedError."""
        named = self.named(gate.approvers, channel)
        if not gate.self_approval:
            named -= {requester}
        return sorted(user for user in named if self.colleague(user))

    def may_approve(self, gate: Ask, person: str, *, requester: str, editors: frozenset[str], channel: str) -> Verdict:
        """Whether `person` may approve; who edited counts as a requester too."""
        verdict = self.may_reject(gate, person, channel=channel)
        if isinstance(verdict, No):
            return verdict
        if person == requester and not gate.self_approval:
            return No("own_request")
        if person in editors and not gate.editor_counts:
            return No("own_edit")
        return Yes()

    def may_reject(self, gate: Ask, person: str, *, channel: str) -> Verdict:
        """Whether `person` is an approver at all: a no needs no distance from the request."""
        try:
            if not self.colleague(person):
                return No("stranger")
            return Yes() if person in self.named(gate.approvers, channel) else No("not_approver")
        except LookupFailedError:
            return No("lookup")

    def may_edit(self, gate: Ask, person: str, *, requester: str, channel: str) -> Verdict:
        """Whether `person` may change the arguments."""
        if gate.editors == "nobody":
            return No("not_approver")
        verdict = self.may_reject(gate, person, channel=channel)
        if verdict == No("not_approver") and gate.editors == "approvers_and_requester" and person == requester:
            return Yes()
        return verdict
