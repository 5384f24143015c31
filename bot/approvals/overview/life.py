"""A request's whole life, for those who may read it: who asked, its approvers, who voted, and the
policy's readers.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from bot.approvals.cards.origin import errands_of
from bot.approvals.overview.rows import Lister, first_words, how_asked
from bot.approvals.permissions import Permissions
from bot.approvals.questions.rows import server_of
from bot.approvals.terms.effect import effect_of
from bot.clock import Clock
from bot.messages.overview.link import place_of
from bot.messages.overview.view import Life, PastCall, PastRevision, PastVote
from bot.messages.text import plain, visible
from bot.policy.authority import Authority, No, Yes
from bot.policy.current import CurrentPolicy
from bot.policy.directory import LookupFailedError
from bot.policy.gates import Ask, load_gate
from bot.tools.arguments import readable_arguments
from storage import call_history, calls, request_lists, runs, trail
from storage.masking import masked
from storage.models import Call, Revision, Run
from storage.states import CallStatus, Verb
from storage.store import Store
from storage.transaction import Transaction

VALUE = 200  # characters of one argument
HIDDEN = "••••••••"


@dataclass(frozen=True, slots=True)
class Lives:
    """Tells requests' lives in one workspace; holds no state of its own."""

    store: Store
    clock: Clock
    authority: Authority
    permissions: Permissions
    policy: CurrentPolicy
    lister: Lister

    def of(self, person: str, reference: str) -> Life | None:
        """Return the life of the request at this link or with this id, of itself or of a call.

        None where there is none that this person may read. That they read it is written down.
        Raises LookupFailedError.
        """
        place, team = place_of(reference), self.authority.team
        with self.store.read() as tx:
            run = (
                request_lists.at(tx, team, *place)
                if place
                else request_lists.by_id(tx, team, reference)
            )
            found = calls.of_request(tx, run.id) if run else []
            votes = [vote for call in found for vote in call_history.every_vote(tx, call.id)]
            voted = {who for vote in votes for who in (vote.person, vote.counts_for)}
        if run is None or not self._may_read(person, run, found, voted):
            return None
        now = self.clock.now()
        with self.store.write() as tx:
            data = {"calls": [call.id for call in found]}
            trail.record(tx, "request.read", at=now, actor=person, run_id=run.id, data=data)
        with self.store.read() as tx:
            return self._told(tx, run, found, now, person)

    def _may_read(self, person: str, run: Run, found: Sequence[Call], voted: set[str]) -> bool:
        if person in {run.requester, *voted}:
            return True
        verdicts = [
            self.permissions.verdict(Verb.REJECT, call, run, person, at=self.clock.now())
            for call in found
            if call.status is not CallStatus.REFUSED and isinstance(load_gate(call.gate), Ask)
        ]
        if any(isinstance(each, Yes) for each in verdicts):
            return True
        if self.is_reader(person):
            return True
        if No("lookup") in verdicts:
            raise LookupFailedError("whether somebody may read a request could not be looked up")
        return False

    def is_reader(self, person: str) -> bool:
        """Return whether the policy lets this person read all; raises LookupFailedError."""
        readers = self.policy.policy.readers
        return person in self.authority.named(readers, requester="", channel="")

    def _told(
        self, tx: Transaction, run: Run, found: Sequence[Call], now: datetime, person: str
    ) -> Life:
        return Life(
            run=run.id,
            words=first_words(tx, run, now),
            requester=run.requester,
            channel=run.channel,
            at=run.created_at,
            status=run.status,
            calls=tuple(self._past(tx, run, call) for call in found),
            link=self.lister.link(tx, run, found[-1] if found else None, person),
            how=how_asked(run),
        )

    def _past(self, tx: Transaction, run: Run, call: Call) -> PastCall:
        return PastCall(
            effect=effect_of(self.lister.tools, tx, call),
            tool=call.tool,
            status=call.status,
            digest=call.digest,
            reason=masked(call.reason),
            revisions=tuple(
                PastRevision(
                    number=each.number,
                    by=written_by(run, each.author),
                    at=each.created_at,
                    values=self._values(call, each),
                )
                for each in call_history.revisions(tx, call.id)
            ),
            votes=tuple(
                PastVote(
                    revision=each.revision,
                    person=each.person,
                    giver=each.for_person,
                    verb=each.verb,
                    at=each.created_at,
                    words=each.reason,
                )
                for each in call_history.every_vote(tx, call.id)
            ),
            deadline=call.deadline,
            decided_at=call.decided_at,
            finished_at=call.finished_at,
            note=masked(call.note),
            agent=self._agent(tx, call),
            declined=call_history.is_declined(tx, call),
        )

    def _agent(self, tx: Transaction, call: Call) -> str:
        """Return which agent proposed a call: a sub-agent by its title; or the server that asks."""
        run = runs.get(tx, call.run_id)
        if run and server_of(run):
            return f"the server {server_of(run)}"
        errands = errands_of(self.lister.tools, tx, run) if run else ()
        return errands[-1].agent if errands else "the agent"

    def _values(self, call: Call, revision: Revision) -> dict[str, str]:
        """Return the arguments that are set, by what people call them; secrets are masked."""
        stored: dict[str, Any] = json.loads(revision.arguments)
        tool = self.lister.tools.of(call)
        if tool is None:  # which of them were secret went with the tool
            return dict.fromkeys(stored, HIDDEN)
        try:
            names: dict[str, str] = json.loads(call.names)
            stored = readable_arguments(tool, revision.arguments, names)
        except ValidationError:  # the tool has changed since; as they were stored, then
            pass
        fields = tool.arguments.model_fields
        labels = {name: field.title or name.replace("_", " ") for name, field in fields.items()}
        return {
            visible(labels.get(name, name)): _shown(value)
            for name, value in tool.masked(stored).items()
            if value not in (None, "", [])
        }


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return plain(visible(" ".join(masked(text).split())), VALUE)


def written_by(run: Run, author: str) -> str:
    """Return who wrote a revision: an editor, who asked with a form, or "" for the agent."""
    return {calls.AGENT: "", calls.FORM: run.requester}.get(author, author)
