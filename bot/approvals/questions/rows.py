"""A question as it stands in the rows: what is asked, of whom, in which messages. Only reads."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import ValidationError

from bot.messages.sentences.questions import people_named
from bot.policy.gates import Approvers
from bot.tools.arguments import load_arguments
from bot.tools.people.question import ASK_PERSON, AskPerson, people_asked
from storage import calls, outbox, runs
from storage.models import Call, Message, Run
from storage.transaction import Transaction

_SERVER = "mcp:"


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """A stored question."""

    call: Call
    run: Run
    asked: AskPerson

    @property
    def people(self) -> Approvers:
        """Who may answer."""
        return people_asked(self.asked.to, self.run.requester)


def is_question(call: Call) -> bool:
    """Return whether the call asks a person; its answer is all that can come of it."""
    return call.tool == ASK_PERSON.name


def read(tx: Transaction, call_id: str) -> AskedQuestion | None:
    """Return the question; None for any other call, and where it cannot be read any more."""
    shown = calls.shown(tx, call_id)
    run = runs.get(tx, shown.call.run_id) if shown else None
    if shown is None or run is None or not is_question(shown.call):
        return None
    try:
        asked = load_arguments(ASK_PERSON, shown.revision.arguments)
    except ValidationError:
        return None
    assert isinstance(asked, AskPerson)
    return AskedQuestion(shown.call, run, asked)


def client_of(server: str) -> str:
    """Return what a server is known by that asks a person; no key can be called so."""
    return f"{_SERVER}{server}"


def server_of(run: Run) -> str:
    """Return the server that asks with this run; "" for any other."""
    return run.client.removeprefix(_SERVER) if run.client.startswith(_SERVER) else ""


def messages_of(tx: Transaction, call: Call) -> list[Message]:
    """Return the question's message, all copies."""
    return [row for row in outbox.cards(tx, call.plan_id) if call.id in outbox.body(row)["calls"]]


def names_of(found: AskedQuestion, row: Message | None) -> str:
    """Return who is asked as mrkdwn; a group's id stands with the message."""
    groups = (outbox.body(row)["groups"] if row else {}).values()
    return people_named(found.people.users, groups)
