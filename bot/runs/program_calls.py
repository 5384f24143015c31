"""A program's call: its status and, if the program executes it itself, its claim and outcome.

Such a call is claimed once after approval, and reported by the claimant alone. A worker checks and
starts it like every call; then it is held for the claimant. If the program sends no sign of life in
time, the call is UNKNOWN.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from bot.agent.outputs import extract_tool_result
from bot.approvals import call_state
from bot.approvals.call_gates import PolicyFactSources
from bot.cards.request_list import format_permalink
from bot.runs.endings import CallOutcomeStore
from bot.runs.results import post_outcome_unless_posted
from bot.signals import Signals
from bot.tools import Registry, Tool
from bot.tools.arguments import dump_arguments, load_arguments
from bot.tools.runner import ToolFailure, ToolSuccess
from storage import calls, programs, runs
from storage.masking import mask_secrets
from storage.record import Call, Run, Transaction, Vote
from storage.states import CallStatus, CallVerb, RunStatus

# Errors for programs, each with a sentence that says why.


class ProgramRequestError(ValueError):
    """Raised if a request is not put before people; the text says why."""


class RequesterNotPermittedError(ProgramRequestError):
    """Raised if the requester that a program names may not ask."""


class RequestKeyReusedError(ProgramRequestError):
    """Raised if the request's key was used for a different request before."""


class RequestRateLimitError(ProgramRequestError):
    """Raised if an API key has used up its requests; `since`: the time of the first of them."""

    def __init__(self, since: datetime) -> None:
        super().__init__("this key has reached its limit of requests")
        self.since = since


class ClaimRefusedError(ValueError):
    """Raised if this program may not run or report the call; the text says why."""


C = CallStatus
RESULT_MAX_CHARS = 20_000  # of a reported result; the rest is cut off
SUMMARY_MAX_CHARS = 200
PROGRAM_SILENT_NOTE = "the program that runs it has not reported"
_STATUS_BY_SUCCESS = {True: C.SUCCEEDED, False: C.FAILED, None: C.UNKNOWN}


@dataclass(frozen=True, slots=True)
class ProgramClaim:
    """What a program is given when it claims an approved call: it may run it now, once."""

    arguments: dict[str, Any]  # final: people may have edited them
    revision: int
    digest: str
    lease: timedelta  # the program has to renew its claim or report the outcome within this time


@dataclass(frozen=True, slots=True)
class ProgramCallClaimManager:
    """Claims and reports of calls that programs execute; one per process, for any thread."""

    sources: PolicyFactSources
    tools: Registry
    signals: Signals
    outcomes: CallOutcomeStore  # stores what programs report

    def claim_call(
        self, run_id: str, claimant: str, lease: timedelta = programs.CLAIM_LEASE_DURATION
    ) -> ProgramClaim | None:
        """Claim the run's call for the program that gives the secret text `claimant`.

        Returns None while the call is still being checked: claim again. The same claimant may claim
        again: it gets the same call, and its claim is prolonged by `lease` from now. Raises
        ClaimRefusedError; also if the approval is too old, in which case people are asked again.
        """
        who, now = _hash_claimant(claimant), self.sources.clock.now()
        with self.sources.store.write() as tx:
            run, call = _load_run_and_call(tx, run_id)
            is_free = call.status is C.APPROVED and not call.claimant
            if is_free and not programs.claim_call(
                tx, call, who, at=now, actor=_describe_actor(run)
            ):
                raise ClaimRefusedError("it has just changed: look at it again")
            if not is_free and call.claimant != who:
                raise ClaimRefusedError(_claim_refusal_text(call))
            is_held = programs.renew_claim(tx, call, lease, at=now)
            current = calls.find_revision(tx, call.id, call.revision)
        if is_held and current is not None:
            arguments = json.loads(current.arguments)
            return ProgramClaim(arguments, call.revision, call.digest, lease)
        if call.status is not C.APPROVED:
            raise ClaimRefusedError(_claim_refusal_text(call))
        self.signals.work.notify()  # a worker starts the call, or asks again if it is too old
        if call_state.is_approval_expired(call, now):
            raise ClaimRefusedError("its approval is too old: people are asked again")
        return None

    def report_outcome(
        self, run_id: str, claimant: str, succeeded: bool | None, result: Any
    ) -> None:
        """Store how a claimed call ended, as its claimant reports it.

        A late report counts as well, as long as the outcome is unknown. `succeeded`: None if the
        program handed the work on and cannot say (yet) how it ends. `result`: text or JSON. Raises
        ClaimRefusedError.
        """
        text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
        target = _STATUS_BY_SUCCESS[succeeded]
        with self.sources.store.write() as tx:
            run, call = _load_run_and_call(tx, run_id)
            if call.claimant != _hash_claimant(claimant):
                raise ClaimRefusedError(_claim_refusal_text(call))
            if call.status is target:
                return
            call_with_votes = calls.find_call_with_votes(tx, call)
            if call.status not in (C.RUNNING, C.UNKNOWN) or call_with_votes is None:
                raise ClaimRefusedError(_claim_refusal_text(call))
            line = " ".join(text.split())[:SUMMARY_MAX_CHARS]
            if succeeded is None:
                self.outcomes.mark_call_unknown_after_handover(tx, run, call_with_votes, line)
            else:
                done = ToolSuccess(_quote_json_in_text(result, text)[:RESULT_MAX_CHARS], line)
                failed = ToolFailure(line, certain=False)
                self.outcomes.store_program_reported_outcome(
                    tx, run, call_with_votes, done if succeeded else failed
                )
                post_outcome_unless_posted(tx, self.tools, run, calls.get_call(tx, call.id))
        self.signals.work.notify()
        self.signals.outbox.notify()

    def expire_lapsed_claims(self) -> bool:
        """Mark claimed calls UNKNOWN whose lease has lapsed; return whether there were any."""
        now = self.sources.clock.now()
        with self.sources.store.read() as tx:
            if not programs.list_calls_with_lapsed_claim(tx, now):
                return False
        with self.sources.store.write() as tx:
            for call in programs.list_calls_with_lapsed_claim(tx, now):
                run = runs.get_run(tx, call.run_id)
                self.outcomes.mark_call_unknown(tx, run, call, PROGRAM_SILENT_NOTE)
        return True


def _load_run_and_call(tx: Transaction, run_id: str) -> tuple[Run, Call]:
    """Return the run and its call; ClaimRefusedError if no program is to execute the call."""
    run, found = runs.find_run(tx, run_id), calls.list_calls_of_run(tx, run_id)
    if run is None or not found:
        raise ClaimRefusedError("nothing has been asked yet")
    if not found[0].action:
        raise ClaimRefusedError("Countersign runs it itself")
    return run, found[0]


def _claim_refusal_text(call: Call) -> str:
    match call.status:
        case C.PENDING:
            return "it starts later" if calls.is_scheduled(call) else "it waits for people"
        case C.APPROVED if not call.claimant:
            return "nobody has claimed it"
        case C.APPROVED | C.RUNNING:
            return "somebody else has claimed it"
        case C.SUCCEEDED | C.FAILED:
            return f"it has ended: {call.status}"
        case C.UNKNOWN:
            return "its time is over; it must not be run, but who had it may still report it"
        case _:
            return f"it must not be run: {call.status}"


def _hash_claimant(claimant: str) -> str:
    return hashlib.sha256(claimant.encode()).hexdigest()


def _describe_actor(run: Run) -> str:
    return f"client {run.client}" if run.client else "program"


# The status of a program's request, as data: what was asked, who decided, what came of it.

PREPARING_STATUS = "preparing"  # nobody has been asked yet


@dataclass(frozen=True, slots=True)
class ProgramRequestStatus:
    """The current status of one request of a program."""

    id: str
    status: str  # PREPARING_STATUS, then the call's status
    requester: str
    channel: str  # the request's channel; a person's id until the direct message is open
    created_at: datetime
    link: str = ""  # to its message in Slack; "" until that is posted
    tool: str = ""
    title: str = ""
    effect: str = ""
    arguments: dict[str, Any] | None = None  # current ones; secrets are masked
    revision: int = 0
    digest: str = ""
    reason: str = ""
    deadline: datetime | None = None
    starts_at: datetime | None = None  # when it starts, if it is approved for a later time
    handed_over: bool = False  # the program executes it itself
    decided_by: tuple[str, ...] = ()  # Slack user ids
    break_glass: str = ""  # the reason given for running it without approval
    edited_by: tuple[str, ...] = ()
    result: Any = None  # the call's result, parsed if it is JSON
    note: str = ""  # why it was refused, rejected, or went wrong

    @property
    def is_decided(self) -> bool:
        """Return whether people, the policy or the clock have decided the call."""
        return self.status not in (PREPARING_STATUS, CallStatus.PENDING)


def load_program_request_status(
    tx: Transaction, tools: Registry, workspace: str, run_id: str
) -> ProgramRequestStatus:
    """Return the status of the request; KeyError if there is no such run.

    `workspace`: the workspace's address in Slack.
    """
    run, found = runs.find_run(tx, run_id), calls.list_calls_of_run(tx, run_id)
    if run is None:
        raise KeyError(run_id)
    status = CallStatus.CANCELLED if run.status is RunStatus.CANCELLED else PREPARING_STATUS
    link = format_permalink(workspace, run.channel, run.thread_ts)
    begun = ProgramRequestStatus(run.id, status, run.requester, run.channel, run.created_at, link)
    return (
        _add_call(begun, tx, tools, found[0]) if found else _add_unproposed_call(begun, tx, tools)
    )


def _add_unproposed_call(
    begun: ProgramRequestStatus, tx: Transaction, tools: Registry
) -> ProgramRequestStatus:
    """Return the status with the call that the program asked for, while it is not yet proposed."""
    delivery = programs.find_first_program_delivery(tx, begun.id)
    request_body = json.loads(delivery.body) if delivery else {}  # {} if it has been purged
    name, action = request_body.get("tool", ""), request_body.get("action", "")
    tool = tools.find_action_tool(action) if action else tools.get(name)
    effect, arguments = (
        _describe_effect_and_arguments(tool, request_body["arguments"])
        if tool and request_body
        else ("", None)
    )
    return replace(
        begun,
        tool=name,
        title=tool.title if tool else name,
        effect=effect,
        arguments=arguments,
        reason=request_body.get("why", ""),
        handed_over=bool(action),
    )


def _describe_effect_and_arguments(
    tool: Tool[Any], given: Mapping[str, Any]
) -> tuple[str, dict[str, Any] | None]:
    """Return the sentence of what the call would do, and its arguments with secrets masked.

    Returns the tool's title and None if the arguments no longer fit the tool.
    """
    try:
        args = load_arguments(tool, json.dumps(given))
        return mask_secrets(tool.effect_sentence(args)), tool.mask_arguments(
            json.loads(dump_arguments(args))
        )
    except ValueError:
        return tool.title, None


def _add_call(
    begun: ProgramRequestStatus, tx: Transaction, tools: Registry, call: Call
) -> ProgramRequestStatus:
    """Return the status with the proposed call: how it stands, and who decided it."""
    current = calls.find_revision(tx, call.id, call.revision)
    tool = tools.find_tool_of_call(call)
    votes = calls.list_votes_on_revision(tx, call.id, call.revision)
    argument_values = json.loads(current.arguments) if current else None
    against = [vote for vote in votes if vote.verb is CallVerb.REJECT]
    rejected, alone = call.status is CallStatus.REJECTED, call_state.find_break_glass_vote(votes)
    words = "; ".join(vote.reason for vote in against if vote.reason) if rejected else ""
    return replace(
        begun,
        status=call.status,
        tool=call.tool,
        title=tool.title if tool else call.tool,
        effect=call_state.describe_revision_effect(tools, call, current) if current else "",
        arguments=tool.mask_arguments(argument_values)
        if tool and argument_values is not None
        else None,
        revision=call.revision,
        digest=call.digest,
        reason=call.reason,
        deadline=call.deadline if calls.is_waiting_for_people(call) else None,
        starts_at=call.starts_at if calls.is_scheduled(call) else None,
        handed_over=bool(call.action),
        decided_by=_list_deciders(
            tx, call, against if rejected else call_state.list_deciding_votes(votes)
        ),
        break_glass=mask_secrets(alone.reason) if alone else "",
        edited_by=tuple(sorted(calls.list_editors(tx, call.id))),
        result=_load_result(tx, call),
        note=mask_secrets(words or call.note),
    )


def _list_deciders(tx: Transaction, call: Call, votes: Sequence[Vote]) -> tuple[str, ...]:
    if call.status is CallStatus.ANSWERED:
        answer = calls.find_person_answer(tx, call.id)
        return (answer.person,) if answer else ()
    return tuple(vote.person for vote in votes)


def _quote_json_in_text(result: Any, text: str) -> str:
    """Return what to store of a reported result: a text that is JSON itself in quotes.

    It is then read as that text again, such as "4e1" for a commit. One that is too long for that
    is cut, which makes it a text.
    """
    quoted = json.dumps(result, ensure_ascii=False)
    if text == quoted or len(quoted) > RESULT_MAX_CHARS:
        return text
    return text if _parse_result(text) == text else quoted


def _parse_result(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _load_result(tx: Transaction, call: Call) -> Any:
    if call.status is CallStatus.ANSWERED:
        answer = calls.find_person_answer(tx, call.id)
        return None if answer is None or answer.declined else json.loads(answer.given)
    if call.status is not CallStatus.SUCCEEDED:
        return None
    return _parse_result(extract_tool_result(call.output))
