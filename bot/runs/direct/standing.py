"""How a request of a program stands, as data: what was asked, who decided, what came of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from bot.agent import outputs
from bot.approvals.terms.effect import effect_at
from bot.approvals.terms.progress import approving
from bot.messages.overview.link import permalink
from bot.messages.sentences.notices import POLICY
from bot.tools.arguments import dump_arguments, load_arguments
from storage import calls, programs, questions, runs
from storage.masking import masked
from storage.states import CallStatus, RunStatus, Verb

if TYPE_CHECKING:
    from bot.tools import Registry, Tool
    from storage.models import Call, Run, Vote
    from storage.transaction import Transaction

PREPARING = "preparing"  # nobody has been asked yet


@dataclass(frozen=True, slots=True)
class HowItStands:
    """One request of a program, as it stands."""

    id: str
    status: str  # PREPARING, then the call's
    requester: str
    channel: str  # where it is asked; a person's id while that conversation is being opened
    created_at: datetime
    link: str = ""  # to its message in Slack; "" before it stands
    tool: str = ""
    title: str = ""
    effect: str = ""
    arguments: dict[str, Any] | None = None  # as they stand; secret ones masked
    revision: int = 0
    digest: str = ""
    reason: str = ""
    deadline: datetime | None = None
    handed_over: bool = False  # the program executes it itself
    decided_by: tuple[str, ...] = ()  # Slack user ids
    edited_by: tuple[str, ...] = ()
    result: Any = None  # what came of it, in JSON where it was
    note: str = ""  # why it was refused, rejected, or went wrong

    @property
    def is_decided(self) -> bool:
        """Whether people, the policy or the clock have said what is to become of it."""
        return self.status not in (PREPARING, CallStatus.PENDING)


def standing(tx: Transaction, tools: Registry, workspace: str, run_id: str) -> HowItStands:
    """Return how the request stands; `workspace`: its address in Slack. KeyError for none."""
    run, found = runs.get(tx, run_id), calls.of_run(tx, run_id)
    if run is None:
        raise KeyError(run_id)
    link = permalink(workspace, run.channel, run.thread_ts)
    return _of(tx, tools, run, found[0], link) if found else _as_asked(tx, tools, run, link)


def _as_asked(tx: Transaction, tools: Registry, run: Run, link: str) -> HowItStands:
    """How a request stands before its call is proposed: what it is, it knows from its first row."""
    delivery = programs.began_with(tx, run.id)
    asked = json.loads(delivery.body) if delivery else {}  # {} also where it was purged
    name, action = asked.get("tool", ""), asked.get("action", "")
    tool = tools.described(action) if action else tools.get(name)
    effect, arguments = _in_words(tool, asked["arguments"]) if tool and asked else ("", None)
    return HowItStands(
        run.id,
        CallStatus.CANCELLED if run.status is RunStatus.CANCELLED else PREPARING,
        run.requester,
        run.channel,
        run.created_at,
        link,
        tool=name,
        title=tool.title if tool else name,
        effect=effect,
        arguments=arguments,
        reason=asked.get("why", ""),
        handed_over=bool(action),
    )


def _in_words(tool: Tool[Any], given: Mapping[str, Any]) -> tuple[str, dict[str, Any] | None]:
    """What a call with these arguments would do, and the arguments as they will be proposed.

    The title, and none, where they no longer fit the tool.
    """
    try:
        args = load_arguments(tool, json.dumps(given))
        return masked(tool.effect_sentence(args)), tool.masked(json.loads(dump_arguments(args)))
    except ValueError:
        return tool.title, None


def _of(tx: Transaction, tools: Registry, run: Run, call: Call, link: str) -> HowItStands:
    current = calls.revision(tx, call.id, call.revision)
    tool, votes = tools.of(call), calls.votes(tx, call.id, call.revision)
    given = json.loads(current.arguments) if current else None
    against = [vote for vote in votes if vote.verb is Verb.REJECT]
    rejected = call.status is CallStatus.REJECTED
    words = "; ".join(vote.reason for vote in against if vote.reason) if rejected else ""
    return HowItStands(
        run.id,
        call.status,
        run.requester,
        run.channel,
        run.created_at,
        link,
        tool=call.tool,
        title=tool.title if tool else call.tool,
        effect=effect_at(tools, call, current) if current else "",
        arguments=tool.masked(given) if tool and given is not None else None,
        revision=call.revision,
        digest=call.digest,
        reason=call.reason,
        deadline=call.deadline if calls.waits(call) else None,
        handed_over=bool(call.action),
        decided_by=_deciders(tx, call, against if rejected else approving(votes)),
        edited_by=tuple(sorted(calls.editors(tx, call.id))),
        result=_result(tx, call),
        note=masked(words or call.note),
    )


def words_of(what: str, note: str = "") -> str:
    """Return a sentence of what became of a request, with what was noted of it."""
    why = note.removeprefix(POLICY)
    return f"{what}: {why.rstrip('.')}." if why else f"{what}."


def _deciders(tx: Transaction, call: Call, votes: Sequence[Vote]) -> tuple[str, ...]:
    if call.status is CallStatus.ANSWERED:
        answer = questions.given(tx, call.id)
        return (answer.person,) if answer else ()
    return tuple(vote.person for vote in votes)


def _result(tx: Transaction, call: Call) -> Any:
    if call.status is CallStatus.ANSWERED:
        answer = questions.given(tx, call.id)
        return None if answer is None or answer.declined else json.loads(answer.given)
    if call.status is not CallStatus.SUCCEEDED:
        return None
    text = outputs.result_of(call.output)
    try:
        return json.loads(text)
    except ValueError:
        return text
