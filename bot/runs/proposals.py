"""From what the model proposed to calls with a verdict: parsed, validated, gated, and given a place
to be shown.

Looks people up (live), so it runs outside any transaction; the worker stores what comes of it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from pydantic import BaseModel, ValidationError

from bot.agent.planner import Proposed
from bot.approvals import duplicates, grants, limits
from bot.approvals.gating import gate_of, next_moment
from bot.core import Core, dump_arguments, dump_gate, fingerprint, load_arguments
from bot.policy.authority import LookupFailedError
from bot.policy.gates import Allow, Ask, Deny
from bot.tools import REASON_FIELD, Preview, Tool
from storage import calls
from storage.digest import OddValueError, key_id, parse_object
from storage.models import Call, Revision, Run
from storage.states import CallStatus

log = logging.getLogger("countersign.proposals")
# direct messages one card is copied to at most; more approvers than that need a channel
MOST_MESSAGES = 50


@dataclass(frozen=True, slots=True)
class Place:
    """Where a card goes: the request's thread, a channel, or the approvers' direct messages."""

    kind: str  # thread | channel | people
    targets: tuple[str, ...]  # channel id, or user ids
    # handle and id of the user groups among the approvers, to name them
    groups: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True)
class Prepared:
    """One call, ready to be stored."""

    call: Call
    revision: Revision | None = None
    gate: Allow | Ask | Deny | None = None
    place: Place | None = None
    birth: dict[str, Any] = field(default_factory=dict)  # for the audit
    tell_requester: str = ""  # why it was refused, where a person should know


class RefusedError(Exception):
    """The call is refused before anyone is asked; `output` is for the model, `note` for people."""

    def __init__(self, output: str, note: str = "", *, tell: bool = False) -> None:
        super().__init__(output)
        self.output, self.note, self.tell = output, note or output, tell


def prepare(
    core: Core, run: Run, plan_id: str, proposed: Sequence[Proposed], taken: frozenset[str]
) -> list[Prepared]:
    """Give every proposed call a verdict.

    `taken`: provider call ids already in the thread's transcript.
    """
    result: list[Prepared] = []
    seen = set(taken)
    for position, each in enumerate(proposed):
        provider_id = each.provider_id if each.provider_id and each.provider_id not in seen else ""
        call = Call(
            run_id=run.id,
            plan_id=plan_id,
            position=position,
            provider_id=provider_id,
            tool=each.name[:200],
            status=CallStatus.REFUSED,
            created_at=core.clock.now(),
        )
        # an empty or repeated id would confuse the transcript
        call.provider_id = provider_id or f"call_{call.id}"
        seen.add(call.provider_id)
        prepared = Prepared(call)
        try:
            if run.calls + position >= core.settings.max_calls:
                raise RefusedError(
                    f"REFUSED: this request may propose {core.settings.max_calls} calls at most."
                )
            _judge(core, run, each, prepared, result)
        except RefusedError as refusal:
            call.status, call.output, call.note = CallStatus.REFUSED, refusal.output, refusal.note
            prepared.birth["refused"] = refusal.note
            prepared.tell_requester = refusal.note if refusal.tell else ""
        result.append(prepared)
    return result


def _judge(
    core: Core, run: Run, proposed: Proposed, prepared: Prepared, earlier: Sequence[Prepared]
) -> None:
    call = prepared.call
    tool = core.tools.get(proposed.name)
    if tool is None:
        known = ", ".join(sorted(each.name for each in core.tools))
        raise RefusedError(
            f"REFUSED: there is no tool named {proposed.name[:100]!r}. The tools are: {known}."
        )
    args, call.reason = parse(tool, proposed.arguments)
    call.does, call.schema_digest = tool.does, tool.schema_digest()
    arguments = dump_arguments(args)
    with core.store.read() as tx:
        if calls.rejected_before(tx, run.id, tool.name, arguments):
            raise RefusedError(
                "REFUSED: a person rejected this very call in this request. Change it, or ask the requester.",
                "the same call was rejected before",
            )
    beside = [(each.call, each.revision.arguments) for each in earlier if each.revision]
    repeat = duplicates.find(core, run, tool, arguments, beside)
    if repeat and repeat.stands:
        prepared.birth["same_as"] = repeat.stands.id
        raise RefusedError(duplicates.output_of(repeat.stands), duplicates.SAME)
    siblings = [(each.tool, given) for each, given in beside]
    gate = gate_of(core, run, tool, args, siblings=siblings)
    prepared.gate = gate
    match gate:
        case Deny(reason=reason):
            raise RefusedError(f"REFUSED by policy: {reason}", f"policy: {reason}", tell=True)
        case Allow(rule=rule):
            call.status = CallStatus.APPROVED
            prepared.birth["approved_by"] = f"policy: {rule}"
        case Ask():
            if remembered := grants.find(core, run, tool, gate, arguments):
                call.status, call.grant_id = CallStatus.APPROVED, remembered.id
                prepared.birth["approved_by"] = f"grant {remembered.id} of {remembered.given_by}"
            else:
                _ask(core, run, prepared, tool, args, gate, earlier)
                call.note = repeat.note if repeat else ""
    call.gate = dump_gate(gate)
    call.digest = fingerprint(
        core, run, tool, arguments, gate=call.gate, revision=1, expects=call.expects
    )
    call.key_id = key_id(core.key)
    prepared.revision = Revision(
        call_id=call.id,
        number=1,
        arguments=arguments,
        digest=call.digest,
        author="agent",
        created_at=call.created_at,
    )


def _ask(
    core: Core,
    run: Run,
    prepared: Prepared,
    tool: Tool[Any],
    args: BaseModel,
    gate: Ask,
    earlier: Sequence[Prepared],
) -> None:
    """People are to decide: within the limits, where they see it, until the deadline.

    Raises RefusedError.
    """
    call = prepared.call
    _limits(core, run, sum(each.call.status is CallStatus.PENDING for each in earlier))
    prepared.place = find_place(core, run, gate)
    call.status, call.asked_at = CallStatus.PENDING, call.created_at
    call.next_at = next_moment(gate, call.created_at)
    call.deadline = call.created_at + timedelta(seconds=gate.deadline)
    seen = preview(tool, args)
    call.preview, call.expects = seen.text, seen.expects


def parse(tool: Tool[Any], text: str) -> tuple[BaseModel, str]:
    """The model's argument text as validated arguments and the reason it gives.

    Raises RefusedError.
    """
    try:
        found = parse_object(text)
        reason = str(found.pop(REASON_FIELD, "") or "")[:500] if tool.takes_reason else ""
        args = load_arguments(tool, json.dumps(found))
        dump_arguments(args)
    except OddValueError as error:
        raise RefusedError(
            f"INVALID ARGUMENTS: {error}.", "its arguments were not valid"
        ) from error
    except ValidationError as error:
        lines = [
            f"- {'.'.join(map(str, e['loc'])) or 'arguments'}: {e['msg']}"
            for e in error.errors()[:20]
        ]
        message = "INVALID ARGUMENTS, nobody was asked:\n" + "\n".join(lines)
        raise RefusedError(message, "its arguments were not valid") from error
    return args, reason


def _limits(core: Core, run: Run, pending: int) -> None:
    if reached := limits.on_asking(core, run, pending):
        raise RefusedError(reached.output, reached.note, tell=True)


def find_place(core: Core, run: Run, gate: Ask) -> Place:
    """Where the first approvers will see the card; raises RefusedError when it cannot be approved.

    That is when too few people could, or when Slack cannot be asked.
    """
    asker, channel = run.requester, run.channel
    try:
        eligible = core.authority.eligible(gate, requester=asker, channel=channel)
        enough = bool(eligible) and gate.people == 1
        missing = 0 if enough else core.authority.shortage(gate, requester=asker, channel=channel)
        if missing > 0:
            note = "none of its approvers can be reached"
            if gate.people > 1:
                note = f"it needs {gate.people} people to approve it, and {missing} too few can be reached"
            raise RefusedError(f"REFUSED: this needs an approval, and {note}.", note, tell=True)
        return replace(place_for(core, run, gate, eligible), groups=group_ids(core, gate))
    except LookupFailedError as error:
        log.warning("run %s: look-up of approvers failed: %s", run.id, error)
        raise RefusedError(
            "REFUSED: Slack could not be asked who may approve this. Trying again later may work.",
            "Slack could not be asked who may approve this",
            tell=True,
        ) from error


def group_ids(core: Core, gate: Ask) -> tuple[tuple[str, str], ...]:
    """Handle and id of every user group the gate names; raises LookupFailedError."""
    everybody = gate.approvers_of(0, timedelta(seconds=gate.deadline)) | gate.approvers
    found = [(handle, core.directory.group(handle)) for handle in everybody.groups]
    return tuple((handle, group.id) for handle, group in found if group)


def place_for(core: Core, run: Run, gate: Ask, eligible: list[str]) -> Place:
    """Where these people will see the card; raises LookupFailedError."""
    people = Place("people", tuple(eligible[:MOST_MESSAGES]))
    if gate.post_to == "approvers":
        return people
    if gate.post_to == "thread":
        if core.directory.members(run.channel) & set(eligible):
            return Place("thread", (run.channel,))
        return people
    channel = core.directory.channel(gate.post_to)
    if channel and core.directory.members(channel) & set(eligible):
        return Place("channel", (channel,))
    return people


def preview(tool: Tool[Any], args: BaseModel) -> Preview:
    """The tool's own preview, or a line that says why there is none."""
    make: Callable[[Any], str | Preview] | None = tool.preview
    if make is None:
        return Preview("")
    try:
        made = make(args)
        seen = made if isinstance(made, Preview) else Preview(str(made))
        return Preview(str(seen.text)[:2000], str(seen.expects)[:2000])
    except Exception as error:
        log.warning("preview of %s failed: %s", tool.name, error)
        return Preview(f"(no preview: {str(error)[:200] or type(error).__name__})")
