"""The waiting calls, and the history of a request, as data for the terminal; secrets are masked.

Only database rows are read. Names of fields must not change: commands write them as JSON, too.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime

from pydantic import ValidationError

from bot.agent import prompt
from bot.approvals import call_state
from bot.approvals.call_views import build_call_view
from bot.approvals.person_questions import find_question, is_question_to_person
from bot.approvals.request_overview import list_past_votes
from bot.cards.action_names import Action
from bot.cards.button_codec import CallTarget, Click, decode_click, encode_button_value
from bot.cards.question_message import list_readable_answer_values
from bot.cards.request_list import PastVote
from bot.policy.gates import Approvers, Ask, Gate, load_gate
from bot.tools import Registry
from storage import calls, request_lists, runs, sub_agents
from storage.masking import mask_secrets
from storage.record import Call, Run, Transaction
from storage.states import CallStatus, RunStatus

MAX_LISTED_CALLS = 500


@dataclass(frozen=True, slots=True)
class WaitingCallReport:
    """One call that waits for a decision, an answer, or a person's report on how it ended."""

    id: str  # with its revision, as `approve` takes it
    status: CallStatus
    tool: str
    effect: str
    requester: str
    client: str  # the program that asks for them; "" for none
    channel: str
    asked_at: datetime | None
    deadline: datetime | None
    starts_at: datetime | None  # when an approved call is to start; None if it is not scheduled
    deciders: Approvers | None  # of the open step; None if the gate cannot be read
    approved_by: tuple[str, ...]
    needed: int  # how many more people have to approve in that step
    question: bool  # the call is a question to a person, to be answered rather than approved
    plan: str  # with its revision, as `approve --plan` takes it; "" if no other call waits


@dataclass(frozen=True, slots=True)
class RevisionReport:
    """One revision of a call."""

    number: int
    author: str  # one of `storage.calls.NON_PERSON_AUTHORS`, or a person's Slack user id
    at: datetime
    digest: str
    effect: str


@dataclass(frozen=True, slots=True)
class AnswerReport:
    """One person's answer to a question, or that they could not answer it."""

    person: str
    at: datetime
    values: dict[str, str]  # by field title; empty if declined or purged
    declined: bool  # the person could not answer it


@dataclass(frozen=True, slots=True)
class CallReport:
    """One call, from its proposal to its outcome."""

    id: str
    status: CallStatus
    tool: str
    effect: str
    arguments: dict[str, str]  # the arguments that are set, by field title, as on the card
    digest: str
    rule: str
    deciders: Approvers | None
    asked_at: datetime | None
    deadline: datetime | None
    is_scheduled: bool  # approved, and to start at `deadline`
    agent_reason: str
    chain: tuple[str, ...]  # the sub-agents between the requester's agent and this call
    preview: str
    revisions: tuple[RevisionReport, ...]
    votes: tuple[PastVote, ...]
    answer: AnswerReport | None
    decided_at: datetime | None
    finished_at: datetime | None
    note: str


@dataclass(frozen=True, slots=True)
class RequestReport:
    """One request and its calls, in order."""

    id: str
    status: RunStatus
    requester: str
    client: str  # the program that asked for them; "" for none
    channel: str
    thread_ts: str
    asked: tuple[str, ...]  # the messages in which it was asked and continued
    created_at: datetime
    calls: tuple[CallReport, ...]


def list_waiting_call_reports(
    tx: Transaction, tools: Registry, team: str, now: datetime
) -> list[WaitingCallReport]:
    """Return a workspace's pending calls, the first deadline first, then the UNKNOWN ones."""
    found = list_waiting_and_unknown_calls(tx, team, now, MAX_LISTED_CALLS)
    return [
        _build_waiting_call_report(tx, tools, call, runs.get_run(tx, call.run_id), now)
        for call in found
    ]


def list_waiting_and_unknown_calls(
    tx: Transaction, team: str, now: datetime, limit: int
) -> list[Call]:
    """Return a workspace's pending calls, then the UNKNOWN ones; at most `limit` of each kind."""
    found = request_lists.list_waiting_calls(tx, team, now, limit)
    return found + request_lists.list_waiting_calls(tx, team, now, limit, CallStatus.UNKNOWN)


def _build_waiting_call_report(
    tx: Transaction, tools: Registry, call: Call, run: Run, now: datetime
) -> WaitingCallReport:
    gate, votes = parse_stored_gate(call), calls.list_votes_on_revision(tx, call.id, call.revision)
    return WaitingCallReport(
        id=encode_button_value(CallTarget(call.id, call.revision)),
        status=call.status,
        tool=call.tool,
        effect=call_state.describe_call_effect(tools, tx, call),
        requester=run.requester,
        client=run.client,
        channel=run.channel,
        asked_at=call.asked_at,
        deadline=call.deadline,
        starts_at=call.starts_at if calls.is_scheduled(call) else None,
        deciders=find_deciders(tx, call, now),
        approved_by=tuple(vote.person for vote in call_state.list_approving_votes(votes)),
        needed=call_state.tally_votes(gate, votes).needed if isinstance(gate, Ask) else 0,
        question=is_question_to_person(call),
        plan=find_waiting_plan_id(tx, call),
    )


def find_waiting_plan_id(tx: Transaction, call: Call) -> str:
    """Return the plan's id with revision if this call and others of it are pending; else ""."""
    plan, found = calls.find_plan(tx, call.plan_id), calls.list_calls_of_plan(tx, call.plan_id)
    waiting = {each.id for each in found if each.status is CallStatus.PENDING}
    waiting -= {each.id for each in found if is_question_to_person(each)}
    several = call.id in waiting and len(waiting) > 1
    return encode_button_value(CallTarget(plan.id, plan.revision)) if plan and several else ""


def parse_stored_gate(call: Call) -> Gate | None:
    """Return the gate of a call; None for a call that was refused before policy was asked."""
    try:
        return load_gate(call.gate)
    except ValidationError:
        return None


def find_deciders(tx: Transaction, call: Call, now: datetime) -> Approvers | None:
    """Return who may decide in the step that is open, as the policy names them.

    For a question, return who is asked. None if nobody is asked to decide.
    """
    if is_question_to_person(call):
        question = find_question(tx, call.id)
        return question.possible_answerers if question else None
    gate = parse_stored_gate(call)
    if not isinstance(gate, Ask):
        return None
    votes = calls.list_votes_on_revision(tx, call.id, call.revision)
    run, stages = runs.get_run(tx, call.run_id), call_state.tally_votes(gate, votes).asked_stages
    return call_state.get_current_approvers(tx, run, call, gate, stages, now)


def find_request_report(
    tx: Transaction, tools: Registry, typed_id: str, now: datetime
) -> RequestReport | None:
    """Return the report on a request, by its own id or by that of one of its calls.

    A call's id may have its revision behind it; the report then holds that call alone. The id of a
    sub-agent's run gives the request that it works for. None for an unknown id.
    """
    call = calls.find_call(tx, strip_revision_from_id(typed_id))
    run = runs.find_run(tx, call.run_id if call else typed_id)
    if run is None:
        return None
    run = sub_agents.get_root_run(tx, run)
    reported_calls = [call] if call else calls.list_calls_of_request(tx, run.id)
    request_texts = (
        prompt.extract_request_text(item) for item in runs.list_user_messages_until(tx, run.id, now)
    )
    return RequestReport(
        id=run.id,
        status=run.status,
        requester=run.requester,
        client=run.client,
        channel=run.channel,
        thread_ts=run.thread_ts,
        asked=tuple(mask_secrets(" ".join(text.split())) for text in request_texts if text.strip()),
        created_at=run.created_at,
        calls=tuple(_build_call_report(tx, tools, each, now) for each in reported_calls),
    )


def strip_revision_from_id(typed_id: str) -> str:
    """Return a call's id without its revision; any other id as it is."""
    target = parse_call_target(typed_id)
    return target.call if target else typed_id


def parse_call_target(typed_id: str) -> CallTarget | None:
    """Return the call that an id with its revision names; None for any other text."""
    match decode_click(Action.APPROVE, typed_id):
        case Click(target=CallTarget() as target):
            return target
    return None


def _build_call_report(tx: Transaction, tools: Registry, call: Call, now: datetime) -> CallReport:
    gate = parse_stored_gate(call)
    view = build_call_view(tools, tx, call.id) if gate else None
    return CallReport(
        id=encode_button_value(CallTarget(call.id, call.revision)),
        status=call.status,
        tool=call.tool,
        effect=call_state.describe_call_effect(tools, tx, call),
        arguments={each.label: each.text for each in view.values if each.is_or_was_set}
        if view
        else {},
        digest=call.digest,
        rule=gate.rule if gate else "",
        deciders=find_deciders(tx, call, now),
        asked_at=call.asked_at,
        deadline=call.deadline,
        is_scheduled=calls.is_scheduled(call),
        agent_reason=mask_secrets(call.reason),
        chain=view.delegation_lines if view else (),
        preview=view.preview if view else "",
        revisions=tuple(
            RevisionReport(
                each.number,
                each.author,
                each.created_at,
                each.digest,
                call_state.describe_revision_effect(tools, call, each),
            )
            for each in calls.list_revisions(tx, call.id)
        ),
        votes=list_past_votes(tx, call),
        answer=_find_answer_report(tx, call),
        decided_at=call.decided_at,
        finished_at=call.finished_at,
        note=mask_secrets(call.note),
    )


def _find_answer_report(tx: Transaction, call: Call) -> AnswerReport | None:
    """Return the answer to a question; None if nobody answered, or the call is no question."""
    found, answer = find_question(tx, call.id), calls.find_person_answer(tx, call.id)
    if answer is None:
        return None
    given = json.loads(answer.given)
    lines = list_readable_answer_values(found.asked, given) if found and given else ()
    values = {label: mask_secrets(text) for label, text, _ in lines}
    return AnswerReport(answer.person, answer.created_at, values, answer.declined)
