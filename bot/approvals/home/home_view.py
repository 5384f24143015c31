"""Rows become what the Home tab shows one person: what they may decide now, what they asked for.

Looks people up, so it belongs on a thread that may wait; no transaction is open meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from bot.agent import prompt
from bot.approvals.permissions import Permissions
from bot.approvals.terms.effect import effect_of
from bot.approvals.terms.grants import GrantList
from bot.messages.actions.targets import CallTarget
from bot.messages.home.draw import REMEMBERED, REQUESTS, WAITING
from bot.messages.home.view import HomeView, OwnRequest, Remembered, WaitingCall
from bot.policy.authority import Authority, No, Yes
from storage import calls, home, runs
from storage.masking import masked
from storage.models import Call, Run
from storage.states import CallStatus, Verb
from storage.transaction import Transaction

LOOKED_AT = 50  # calls of which it is judged whether the person may decide
CALLS = 4  # calls shown of one request
_VERBS = {CallStatus.PENDING: Verb.APPROVE, CallStatus.UNKNOWN: Verb.RESOLVE}


@dataclass(frozen=True, slots=True)
class HomeViews:
    """Makes the views of one workspace; holds no state of its own."""

    bot: str  # its user id
    authority: Authority
    permissions: Permissions
    grants: GrantList

    def of(self, person: str) -> HomeView | None:
        """Return what this person's Home shows; None where they are no full member.

        Raises LookupFailedError.
        """
        if not self.authority.colleague(person):
            return None
        store, tools, now = self.grants.store, self.grants.tools, self.grants.clock.now()
        mine, unsure, unread = self._decidable(person, now)
        team = self.authority.team
        with store.read() as tx:
            waiting = tuple(
                WaitingCall(
                    target=CallTarget(call.id, call.revision),
                    effect=effect_of(tools, tx, call),
                    does=call.does,
                    requester=run.requester,
                    channel=run.channel,
                    deadline=call.deadline,
                    unknown=call.status is CallStatus.UNKNOWN,
                )
                for call, run in mine[:WAITING]
            )
            late = home.of_late(tx, team, person, REQUESTS + 1)
            requests = tuple(self._asked(tx, run, now) for run in late[:REQUESTS])
        remembered = self.grants.each(person)
        return HomeView(
            bot=self.bot,
            waiting=waiting,
            more_waiting=max(0, len(mine) - WAITING),
            unread=unread,
            unsure=unsure,
            requests=requests,
            more_requests=len(late) > REQUESTS,
            remembered=tuple(
                Remembered(grant.call_id, text) for grant, text in remembered[:REMEMBERED]
            ),
            more_remembered=max(0, len(remembered) - REMEMBERED),
        )

    def _decidable(self, person: str, now: datetime) -> tuple[list[tuple[Call, Run]], int, bool]:
        """Return the calls on which this person has a say now: theirs to approve and not voted on,
        after those of which they may say what became of them.

        Beside them: of how many Slack did not say, and whether there are more to look at.
        """
        with self.grants.store.read() as tx:
            team, most = self.authority.team, LOOKED_AT + 1
            unknown = home.waiting(tx, team, now, most, CallStatus.UNKNOWN)
            found = [*unknown, *home.waiting(tx, team, now, most)]
            judged: list[tuple[Call, Run]] = []
            for call in found[:LOOKED_AT]:
                run = runs.get(tx, call.run_id)
                if run is not None and not self._voted(tx, call, person):
                    judged.append((call, run))
        verdicts = [
            self.permissions.verdict(_VERBS[call.status], call, run, person, at=now)
            for call, run in judged
        ]
        mine = [
            each for each, verdict in zip(judged, verdicts, strict=True) if isinstance(verdict, Yes)
        ]
        return mine, verdicts.count(No("lookup")), len(found) > LOOKED_AT

    def _voted(self, tx: Transaction, call: Call, person: str) -> bool:
        """Return whether they have said already what they can say of a call that is pending."""
        votes = calls.votes(tx, call.id, call.revision)
        return call.status is CallStatus.PENDING and person in {vote.person for vote in votes}

    def _asked(self, tx: Transaction, run: Run, now: datetime) -> OwnRequest:
        """Return a request in its first words, with the calls that change something or asked."""
        said = (prompt.asked(item) for item in runs.heard(tx, run.id, now))
        first = next((text for text in said if text.strip()), "")
        told = [
            call
            for call in calls.of_run(tx, run.id)
            if call.status is not CallStatus.REFUSED and (call.asked_at or call.does != "read")
        ]
        last = told[-CALLS:]
        return OwnRequest(
            run=run.id,
            words=" ".join(masked(first).split()),
            at=run.created_at,
            status=run.status,
            calls=tuple((call.status, effect_of(self.grants.tools, tx, call)) for call in last),
            more=len(told) - len(last),
        )
