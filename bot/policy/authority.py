"""Who may decide a call, by people and groups that are looked up live when a click is decided.

They are never taken from the payload; a failed look-up refuses.
Guests, bots, deactivated people and people of other workspaces never count, whatever a list says.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, timezone
from enum import StrEnum
from itertools import combinations
from typing import Any, Protocol

from bot.policy.gates import Approvers, Ask

# emoji (without colons) of a status that says somebody is away, not just busy
AWAY_STATUS_EMOJI = frozenset(
    {
        "palm_tree",  # Slack's own for "Vacationing"
        "face_with_thermometer",  # Slack's own for "Out sick"
        "beach_with_umbrella",
        "umbrella_on_ground",
        "desert_island",
        "face_with_head_bandage",
        "mask",
        "hospital",
    }
)
QuietHours = tuple[datetime, datetime]  # somebody's time without notifications: start, end
DAY_START_HOUR = 8  # in a person's time zone
DAY_END_HOUR = 20  # in a person's time zone


class LookupFailedError(Exception):
    """Raised when Slack could not be asked; the answer is unknown, so nobody is let through."""


class TokenRefusedError(LookupFailedError):
    """Raised when Slack refuses the bot's token; Slack may accept the token again before long."""


class LookupPendingError(Exception):
    """Raised in a thread that may not wait while Slack is asked; retry once `answers` are done.

    Without `answers` the bot is stopping, and the work is left for its next start. This is no
    LookupFailedError, since nobody is refused.
    """

    def __init__(self, *answers: Future[Any]) -> None:
        super().__init__("Slack is being asked")
        self.answers = answers


@dataclass(frozen=True, slots=True)
class Person:
    """A Slack user: workspaces, name, kind of account and status."""

    id: str
    team: str
    name: str
    is_bot: bool = False
    is_guest: bool = False
    deleted: bool = False
    # the person's workspaces on Enterprise Grid, where `team` may be empty or another one
    teams: frozenset[str] = frozenset()
    status: str = ""  # the emoji of the person's status, without colons
    status_until: datetime | None = None  # when the status ends; None: unknown
    utc_offset: timedelta | None = None  # of the person's time zone; None: unknown

    def find_end_of_night(self, now: datetime) -> datetime | None:
        """Return when this person's night ends; None by day, or if their time zone is not known."""
        if self.utc_offset is None:
            return None
        local = now.astimezone(timezone(self.utc_offset))
        if DAY_START_HOUR <= local.hour < DAY_END_HOUR:
            return None
        morning = local.replace(hour=DAY_START_HOUR, minute=0, second=0, microsecond=0)
        morning += timedelta(days=local.hour >= DAY_END_HOUR)
        return morning.astimezone(UTC)


@dataclass(frozen=True, slots=True)
class Group:
    """A Slack user group and its members."""

    id: str
    members: frozenset[str]


class Directory(Protocol):
    """Live look-ups of people, groups and channels in Slack, cached for at most a minute.

    Every method raises LookupFailedError if Slack cannot be asked, and LookupPendingError if it is
    being asked and the calling thread may not wait.
    """

    def find_person(self, user: str) -> Person | None:
        """Return the person with this id; None if there is none."""

    def find_people(self, users: Collection[str]) -> Mapping[str, Person]:
        """Return those of these people who exist, by id, as they were at most ten minutes ago.

        For showing who could decide. To check whether somebody may, use `find_person`.
        """

    def find_people_by_name(self, name: str) -> Mapping[str, str]:
        """Return the active people with this handle or name: the handle of each by id."""

    def find_quiet_hours(self, users: Collection[str]) -> Mapping[str, QuietHours]:
        """Return the times, now or next, when these people do not want to be disturbed, by id.

        Empty for more than a few people at once, and if Slack cannot or may not be asked.
        """

    def find_group(self, handle: str) -> Group | None:
        """Return the user group with this handle; None if there is none."""

    def list_channel_members(self, channel: str) -> frozenset[str]:
        """Return the ids of the channel's members; empty if the channel does not exist."""

    def find_channel_id(self, name: str) -> str | None:
        """Return the id of a channel given as #name or id; None if the bot cannot see it."""

    def can_see_channel(self, user: str, channel: str) -> bool:
        """Return whether a channel, given as #name or id, is public or the person is in it."""

    def find_owners(self, field: str, function: str, value: str | int) -> tuple[str, ...]:
        """Return the owners of this value of a field, as found by the policy's `function`."""

    def find_public_channel_name(self, channel: str) -> str:
        """Return the #name of a public channel given by its id; "" for any other."""

    def is_externally_shared_channel(self, channel: str) -> bool:
        """Return whether a channel, given as #name or id, is shared with another company."""


@dataclass(frozen=True, slots=True)
class Permission:
    """Permission for a person to act; for an approval, with the stage where it counts."""

    stage: int = 0
    why: str = ""  # for the record: named, requester, member of @group or of the channel
    also: tuple[int, ...] = ()  # further stages where it may count, if the stages have no order
    delegator: str = ""  # whose right it is, if not the person's own
    is_silent: bool = False  # whether they may decide, but are not notified


class Denial(StrEnum):
    """A reason why a person may not act, as the audit has it."""

    STRANGER = "stranger"  # no full member of this workspace
    NOT_APPROVER = "not_approver"
    NOT_REQUESTER = "not_requester"
    NOT_YET = "not_yet"  # an earlier stage is still open
    ENOUGH = "enough"  # their stage has its approvals
    NOT_ASKED = "not_asked"  # the question was asked of others
    OWN_REQUEST = "own_request"
    OWN_EDIT = "own_edit"
    OWN_RUN = "own_run"  # they ran it without approval themselves
    NO_BREAK_GLASS = "no_break_glass"  # the policy does not let them run it without approval
    LOOKUP = "lookup"  # Slack could not be asked about them
    WORDS = "words"  # a reason is needed, and they gave none
    REQUESTER_GONE = "requester_gone"
    ID_GONE = "id_gone"  # the requester's account was replaced by another
    TOOL_CHANGED = "tool_changed"  # since people were asked; the call is called off


Verdict = Permission | Denial
# returns who decides for any of these people now, by the delegations they have made
DelegateLookup = Callable[[Collection[str]], frozenset[str]]
EXTRA_LOOKUPS = 5  # looked up beyond those wanted, in case some are not colleagues


def is_colleague(person: Person | None, team: str) -> bool:
    """Return whether this is an active, full member of the installing workspace, and not a bot."""
    return (
        person is not None
        and (person.team == team or team in person.teams)
        and not (person.is_bot or person.is_guest or person.deleted)
    )


def _count_largest_shortage(gate: Ask, able: Sequence[frozenset[str]]) -> int:
    """Return the largest shortage of people over all combinations of stages; 0 or less for none.

    By Hall's theorem; `able` has the people who can decide in each stage.
    """
    sets = (
        each for size in range(1, len(able) + 1) for each in combinations(range(len(able)), size)
    )
    return max(
        sum(gate.stages[index].quorum for index in some)
        - len(frozenset().union(*(able[index] for index in some)))
        for some in sets
    )


def _describe_naming_reasons(named: Mapping[str, frozenset[str]], person: str) -> str:
    return ", ".join(why for why, people in named.items() if person in people)


class Authority:
    """Answers who may decide a call, from its gate and live look-ups."""

    def __init__(
        self,
        directory: Directory,
        team: str,
        stand_ins: DelegateLookup = lambda _people: frozenset(),
    ) -> None:
        """`team`: the installing workspace's id; `stand_ins` looks up people's delegates."""
        self.directory = directory
        self.team = team
        self.find_delegates = stand_ins

    def is_active_colleague(self, user: str) -> bool:
        """Return whether this person may ask and decide at all; raises LookupFailedError."""
        return is_colleague(self.directory.find_person(user), self.team)

    def may_act_from_workspace(self, user: str, team: str) -> bool:
        """Return whether to accept a user's actions from this workspace; raises LookupFailedError.

        Accepted are our workspace, and another one of the same organisation if Slack says that the
        user is in both. What they may do is checked after that, from the directory alone.
        """
        if team == self.team:
            return True
        person = self.directory.find_person(user)
        return person is not None and is_colleague(person, self.team) and team in person.teams

    def list_named_people(
        self, approvers: Approvers, *, requester: str, channel: str
    ) -> frozenset[str]:
        """Return the ids of everybody whom `approvers` means now; raises LookupFailedError."""
        found = self._list_named_by_reason(approvers, requester=requester, channel=channel)
        return frozenset().union(*found.values())

    def _list_named_by_reason(
        self, approvers: Approvers, *, requester: str, channel: str
    ) -> dict[str, frozenset[str]]:
        """Return the ids of everybody whom `approvers` means now, by reason ("member of @ops")."""
        people_by_reason = {"named": frozenset(approvers.users)}
        for handle in approvers.groups:
            group = self.directory.find_group(handle)
            people_by_reason[f"member of @{handle}"] = group.members if group else frozenset()
        if approvers.channel:
            people_by_reason[f"member of {channel}"] = self.directory.list_channel_members(channel)
        if approvers.requester:
            people_by_reason["requester"] = frozenset({requester})
        return people_by_reason

    def list_approver_candidates(
        self, gate: Ask, approvers: Approvers, *, requester: str, channel: str
    ) -> frozenset[str]:
        """Return who is listed as an approver, accounts unchecked; raises LookupFailedError.

        The requester is left out unless the gate or the list lets them approve.
        """
        named = self.list_named_people(approvers, requester=requester, channel=channel)
        return named if gate.self_approval or approvers.requester else named - {requester}

    def list_first_colleagues(self, candidates: Iterable[str], count: int) -> list[str]:
        """Return the first `count` colleagues by id, looking up few more people than that takes."""
        waiting, found = sorted(candidates), list[str]()
        for size in (count + EXTRA_LOOKUPS, 4 * EXTRA_LOOKUPS, len(waiting)):
            if len(found) >= count or not waiting:
                break
            some, waiting = waiting[:size], waiting[size:]
            people = self.directory.find_people(some)
            found += [user for user in some if is_colleague(people.get(user), self.team)]
        return found[:count]

    def list_delegates(self, people: Collection[str]) -> frozenset[str]:
        """Return the colleagues who decide for any of these people; raises LookupFailedError."""
        found = self.find_delegates(people)
        return frozenset(self.list_first_colleagues(found, len(found)))

    def list_able_approvers(
        self, gate: Ask, approvers: Approvers, *, requester: str, channel: str
    ) -> frozenset[str]:
        """Return who of `approvers` could approve this request now; raises LookupFailedError."""
        named = self.list_approver_candidates(gate, approvers, requester=requester, channel=channel)
        return frozenset(self.list_first_colleagues(named, len(named)))

    def count_missing_approvers(
        self, gate: Ask, *, requester: str, channel: str, editors: frozenset[str] = frozenset()
    ) -> int:
        """Return how many people are missing to fill all stages; 0 or less if there are enough.

        Each stage needs different people, none of whom has edited the call unless the gate lets
        editors approve. Raises LookupFailedError.
        """
        ever = timedelta(seconds=gate.deadline)
        out = frozenset() if gate.editor_counts else editors
        named = [
            self.list_approver_candidates(
                gate, gate.get_stage_approvers(index, ever), requester=requester, channel=channel
            )
            for index in range(len(gate.stages))
        ]
        # a stage with that many people can lack none, so no more are looked up
        return _count_largest_shortage(
            gate,
            [
                frozenset(self.list_first_colleagues(each - out, gate.required_approvers))
                for each in named
            ],
        )

    def is_gate_met(
        self,
        gate: Ask,
        approvals: Sequence[tuple[str, timedelta]],
        *,
        requester: str,
        editors: frozenset[str],
        channel: str,
        signers: Collection[str] = (),
    ) -> bool:
        """Return whether these approvals are enough for the gate; raises LookupFailedError.

        Each approval is a person, and how long the call had waited when they approved. `signers`:
        those who signed; only they count in a stage that asks for signatures.
        """
        able: list[frozenset[str]] = []
        for stage in range(len(gate.stages)):
            verdicts = {
                person: self.may_approve(
                    gate,
                    person,
                    requester=requester,
                    editors=editors,
                    channel=channel,
                    stage=stage,
                    waited=waited,
                )
                for person, waited in approvals
                if person in signers or not gate.stages[stage].signature
            }
            if Denial.LOOKUP in verdicts.values():
                raise LookupFailedError("who has approved could not be looked up")
            able.append(
                frozenset(who for who, each in verdicts.items() if isinstance(each, Permission))
            )
        return _count_largest_shortage(gate, able) <= 0

    def may_approve(
        self,
        gate: Ask,
        person: str,
        *,
        requester: str,
        editors: frozenset[str],
        channel: str,
        stage: int = 0,
        waited: timedelta = timedelta(),
    ) -> Verdict:
        """Return whether `person` may approve in that stage.

        They may approve their own request or edit only if the gate allows it.
        """
        try:
            if not self.is_active_colleague(person):
                return Denial.STRANGER
            approvers = gate.get_stage_approvers(stage, waited)
            people_by_reason = self._list_named_by_reason(
                approvers, requester=requester, channel=channel
            )
            if not (why := _describe_naming_reasons(people_by_reason, person)):
                verdict = self.may_reject(
                    gate, person, requester=requester, channel=channel, waited=waited
                )
                return Denial.NOT_YET if isinstance(verdict, Permission) else verdict
            notified = approvers.notified
            is_silent = notified is not approvers and person not in self.list_named_people(
                notified, requester=requester, channel=channel
            )
        except LookupFailedError:
            return Denial.LOOKUP
        if person == requester and not approvers.requester:
            if not gate.self_approval:
                return Denial.OWN_REQUEST
            why += ", own request allowed"
        if person in editors:
            if not gate.editor_counts:
                return Denial.OWN_EDIT
            why += ", own edit allowed"
        return Permission(why=why, is_silent=is_silent)

    def may_approve_any_stage(
        self, gate: Ask, person: str, open_stages: Collection[int], **known: Any
    ) -> Verdict:
        """Return whether `person` may approve in one of the open stages of a gate without an order.

        The Permission's `also` has the other stages where the vote may count. `known`: further
        arguments of `may_approve`.
        """
        stages = range(len(gate.stages))
        verdicts = [self.may_approve(gate, person, stage=each, **known) for each in stages]
        if Denial.LOOKUP in verdicts:
            return Denial.LOOKUP
        permissions = {at: each for at, each in enumerate(verdicts) if isinstance(each, Permission)}
        open_permitted = [at for at in permissions if at in open_stages]
        if open_permitted:
            also = tuple(at for at in permissions if at != open_permitted[0])
            return replace(permissions[open_permitted[0]], stage=open_permitted[0], also=also)
        if permissions:
            return Denial.ENOUGH
        return next((each for each in verdicts if each is not Denial.NOT_YET), verdicts[0])

    def may_reject(
        self,
        gate: Ask,
        person: str,
        *,
        requester: str,
        channel: str,
        waited: timedelta = timedelta(),
    ) -> Verdict:
        """Return whether `person` is an approver of any stage, even if it is their own request."""
        everybody = gate.approvers | gate.get_stage_approvers(0, waited)
        verdict = self._check_named(everybody, person, requester=requester, channel=channel)
        return verdict or Denial.NOT_APPROVER

    def may_break_glass(self, gate: Ask, person: str, *, requester: str, channel: str) -> Verdict:
        """Return whether `person` may run the call, even their own, alone and without approval."""
        who = gate.break_glass or Approvers()
        found = self._check_named(who, person, requester=requester, channel=channel)
        if isinstance(found, Permission):
            return replace(found, why=f"break-glass, {found.why}")
        return found or Denial.NO_BREAK_GLASS

    def _check_named(
        self, approvers: Approvers, person: str, *, requester: str, channel: str
    ) -> Verdict | None:
        """Return the permission of a colleague who is named; None for one who is not.

        Returns a Denial for a stranger, or if a look-up fails.
        """
        try:
            if not self.is_active_colleague(person):
                return Denial.STRANGER
            people_by_reason = self._list_named_by_reason(
                approvers, requester=requester, channel=channel
            )
        except LookupFailedError:
            return Denial.LOOKUP
        why = _describe_naming_reasons(people_by_reason, person)
        return Permission(why=why) if why else None

    def may_edit(
        self,
        gate: Ask,
        person: str,
        *,
        requester: str,
        channel: str,
        waited: timedelta = timedelta(),
    ) -> Verdict:
        """Return whether `person` may change the arguments."""
        if gate.editors == "nobody":
            return Denial.NOT_APPROVER
        verdict = self.may_reject(gate, person, requester=requester, channel=channel, waited=waited)
        if (
            verdict is Denial.NOT_APPROVER
            and gate.editors == "approvers_and_requester"
            and person == requester
        ):
            return Permission(why="requester")
        return verdict
