"""Rows as they stand in lists: a request in its first words, a call with who decided it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from bot.agent import prompt
from bot.approvals.terms.effect import effect_of
from bot.approvals.terms.progress import approving, stand_ins
from bot.messages.overview.link import permalink
from bot.messages.overview.view import ListedCall, ListedRun
from bot.messages.sentences.agents import asked_without_words
from bot.messages.text import decided_as, unescape
from bot.tools import Registry
from bot.tools.people.question import ASK_PERSON
from storage import call_history, calls, outbox, runs
from storage.masking import masked
from storage.models import Call, Run, Vote
from storage.states import CallStatus, Verb
from storage.transaction import Transaction

BY_VOTES = frozenset(  # what has been approved, whatever came of it
    {
        CallStatus.APPROVED,
        CallStatus.RUNNING,
        CallStatus.ENTRUSTED,
        CallStatus.SUCCEEDED,
        CallStatus.FAILED,
        CallStatus.UNKNOWN,
    }
)
CALLS = 4  # calls shown of one request


@dataclass(frozen=True, slots=True)
class Lister:
    """Makes the entries of lists in one workspace."""

    tools: Registry
    workspace: str  # its address in Slack; "" where it is not known

    def call(self, tx: Transaction, call: Call, run: Run, viewer: str) -> ListedCall:
        """Return a call as an entry, for whoever sees it."""
        waits = calls.waits(call)
        return ListedCall(
            run=run.id,
            effect=effect_of(self.tools, tx, call),
            status=call.status,
            requester=run.requester,
            channel=run.channel,
            deadline=call.deadline,
            at=None if waits else call.decided_at,
            deciders=_deciders(call, calls.votes(tx, call.id, call.revision)),
            link=self.link(tx, run, call, viewer),
        )

    def run(self, tx: Transaction, run: Run, now: datetime) -> ListedRun:
        """Return a request as an entry for who asked, with calls that change something or asked."""
        told = [
            call
            for call in calls.of_request(tx, run.id)
            if call.status is not CallStatus.REFUSED and (call.asked_at or call.does != "read")
        ]
        last = told[-CALLS:]
        return ListedRun(
            run=run.id,
            words=first_words(tx, run, now),
            at=run.created_at,
            status=run.status,
            calls=tuple(
                (
                    call.status,
                    effect_of(self.tools, tx, call),
                    call.tool == ASK_PERSON.name,
                    call_history.is_declined(tx, call),
                )
                for call in last
            ),
            more=len(told) - len(last),
            link=self.link(tx, run, last[-1] if last else None, run.requester),
            how=how_asked(run),
        )

    def link(self, tx: Transaction, run: Run, call: Call | None, viewer: str) -> str:
        """Return the address of the call's card in a channel, else of the request; "" for none.

        A direct message is for who is in it: others get the card in their own.
        """
        cards = outbox.cards(tx, call.plan_id) if call else []
        stands = [row for row in cards if call and row.ts and call.id in outbox.body(row)["calls"]]
        found = [row for row in stands if row.channel[:1] in ("C", "G")]
        if not run.channel.startswith("D") or viewer == run.requester:
            here = [row for row in stands if row.channel == run.channel]
            places = [(row.channel, row.ts, row.thread_ts) for row in (*here, *found)]
            places.append((run.channel, run.thread_ts, ""))
        else:
            own = [row for row in stands if row.key.endswith(f":{viewer}")]
            places = [(row.channel, row.ts, row.thread_ts) for row in (*found, *own)]
        return permalink(self.workspace, *places[0]) if places else ""


def first_words(tx: Transaction, run: Run, now: datetime) -> str:
    """Return what was asked first, on one line; "" where nobody wrote anything or it is unread."""
    said = (prompt.asked(item) for item in runs.heard(tx, run.id, now))
    return " ".join(masked(next((text for text in said if text.strip()), "")).split())


def how_asked(run: Run) -> str:
    """Return how a request without words was asked, as plain text; "" for one with words."""
    return unescape(asked_without_words(run.source, run.client))


def _deciders(call: Call, votes: Sequence[Vote]) -> tuple[str, ...]:
    """Return whose votes have decided it, as mentions; nobody where the clock or the end did."""
    if call.status is CallStatus.REJECTED:
        counted = [vote for vote in votes if vote.verb is Verb.REJECT]
    elif call.status in BY_VOTES:
        counted = approving(votes)
    else:
        return ()
    proxies = stand_ins(votes)
    return tuple(dict.fromkeys(decided_as(vote.counts_for, proxies) for vote in counted))
