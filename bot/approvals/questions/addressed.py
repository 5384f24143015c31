"""Whose a question is: looked up anew each time, as people and groups are now."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime

from bot.approvals.questions.rows import AskedQuestion, read
from bot.policy.authority import Authority
from bot.policy.directory import LookupFailedError
from bot.tools.people.question import ASK_PERSON
from storage import person_answers
from storage.store import Store

LOOKED_AT = 50  # questions of a workspace, for one person


def may_answer(authority: Authority, asked: AskedQuestion, person: str) -> bool:
    """Return whether this person is a colleague who was asked; raises LookupFailedError."""
    run = asked.run
    named = authority.named(asked.people, requester=run.requester, channel=run.channel)
    return person in named and authority.colleague(person)


def waiting_for(
    store: Store, authority: Authority, person: str, at: datetime
) -> list[AskedQuestion]:
    """Return the questions that wait for this person then, the first deadline first.

    Looks people up; where Slack does not say whose a question is, it is not theirs.
    """
    with store.read() as tx:
        waiting = person_answers.waiting(tx, ASK_PERSON.name, authority.team, at)
        found = [read(tx, call.id) for call in waiting[:LOOKED_AT]]
    mine: list[AskedQuestion] = []
    for each in found:
        with suppress(LookupFailedError):
            mine += [each] if each and may_answer(authority, each, person) else []
    return mine
