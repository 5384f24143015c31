"""Views of calls, made from stored rows: what a call would do, its votes, and what came of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from bot.agent import outputs, prompt
from bot.approvals import call_state
from bot.cards import sentences, views
from bot.cards.call_blocks import list_delegated_task_lines
from bot.cards.field_values import list_argument_values, mark_displayed_values
from bot.cards.notices import asking_program_line, call_edited_line, describe_asker
from bot.cards.request_form import can_ask_with_form
from bot.cards.review_dialog import list_masked_piece_names, mask_call_for_viewers
from bot.cards.slack_text import unescape_mrkdwn
from bot.policy.gates import Ask, load_gate
from bot.tools import EffectSource, Registry, Tool
from bot.tools.arguments import build_readable_arguments, load_arguments, restrict_editable_fields
from storage import calls, runs, sub_agents
from storage.masking import mask_secrets
from storage.record import Call, Revision, Run, Transaction, Vote
from storage.states import (
    CALL_APPROVED_STATUSES,
    LOOK_VERBS,
    MODEL_DRIVEN_SOURCES,
    CallStatus,
    CallVerb,
    RunSource,
)

_ENDED_BY_TOOL_STATUSES = (CallStatus.SUCCEEDED, CallStatus.FAILED)


def build_call_view(tools: Registry, tx: Transaction, call_id: str) -> views.CallView | None:
    """Return a call as everybody who sees its card may read it; None if it does not exist."""
    shown = calls.find_call_with_revision(tx, call_id)
    if shown is None:
        return None
    whole = _build_unmasked_call_view(tools, tx, shown)
    seen = mask_call_for_viewers(whole, shown.call.preview_in_thread)
    return replace(seen, masked_pieces=list_masked_piece_names(whole, seen))


def build_edit_notice(
    tools: Registry, tx: Transaction, call_id: str, editor: str, requester: str
) -> str:
    """Return the notice, as mrkdwn, that a call was edited: by whom, and what changed."""
    view = build_call_view(tools, tx, call_id)
    assert view is not None
    return call_edited_line(editor, view, requester)


def build_call_view_for_approvers(
    tools: Registry, tx: Transaction, shown: calls.CallWithRevision
) -> views.CallView:
    """Return a call as its approvers may read it: only fields declared secret are masked.

    `masked_pieces` names what is hidden from everybody else.
    """
    whole = _build_unmasked_call_view(tools, tx, shown)
    seen = mask_call_for_viewers(whole, shown.call.preview_in_thread)
    return replace(whole, masked_pieces=list_masked_piece_names(whole, seen))


def _build_unmasked_call_view(
    tools: Registry, tx: Transaction, shown: calls.CallWithRevision
) -> views.CallView:
    call, tool = shown.call, tools.find_tool_of_call(shown.call)
    revisions = calls.list_revisions(tx, call.id) if call.revision > 1 else [shown.revision]
    if call.status is CallStatus.PENDING:  # shows its latest edit only, a decided call shows all
        revisions = revisions[-2:]
    votes = calls.list_votes_on_revision(tx, call.id, call.revision)
    values = build_argument_values(tools, call, shown.revision, revisions[0])
    return views.CallView(
        id=call.id,
        revision=call.revision,
        title=tool.title if tool else call.tool,
        effect=call_state.describe_effect_for_approvers(tools, call, shown.revision),
        does=call.does,
        effect_source=tool.effect_source if tool else EffectSource.BY_AUTHOR,
        status=call.status,
        values=values,
        deadline=call.deadline,
        starts_at=call.starts_at if calls.is_scheduled(call) else None,
        preview=call.preview,
        has_more_rows=bool(call.preview_rows),
        agent_reason=call.reason,
        **_build_proposer_fields(tools, tx, call),
        assignee=call.assignee,
        assigned_by=call.assigned_by,
        edits=tuple(
            (each.author, each.created_at)
            for each in revisions[1:]
            if each.author not in calls.NON_PERSON_AUTHORS
        ),
        decided_by=_list_deciders(call, votes),
        stand_ins=call_state.map_delegators_to_delegates(votes),
        signers=call_state.list_signers(votes),
        decided_at=call.decided_at,
        finished_at=call.finished_at,
        approval_expires_at=_find_expiry_if_approved(call),
        was_handed_over=calls.was_left_unreported_by_program(call),
        reported_by=call_state.find_outcome_reporter(tx, call),
        has_form=call.status is not CallStatus.PENDING and _has_form(tools, call),
        failed_midway=call.status is CallStatus.FAILED and outputs.is_failed_midway(call.output),
        needs_quotation=call.status in _ENDED_BY_TOOL_STATUSES
        and (tool is None or tool.outcome is None),
        **_build_outcome_fields(tool, call, votes),
        without_approval=_build_run_without_approval(call, votes),
        is_to_be_looked_at=calls.is_to_be_looked_at(call),
        editable=bool(values) and tool is not None and _is_editable(tool, call),
        progress=_build_vote_progress(call, votes),
        **_build_choice_fields(tool, call, votes),
    )


def _has_form(tools: Registry, call: Call) -> bool:
    tool = None if call.action else tools.get(call.tool)
    return tool is not None and can_ask_with_form(tool)


def _build_proposer_fields(tools: Registry, tx: Transaction, call: Call) -> dict[str, Any]:
    """Return who proposed the call: a sub-agent with its delegated tasks, or a program by name."""
    run = runs.get_run(tx, call.run_id)
    tasks = list_tasks_leading_to_run(tools, tx, run)
    agent: dict[str, Any] = {}
    if tasks:
        agent = {
            "agent": tasks[-1].agent,
            "delegation_lines": tuple(list_delegated_task_lines(tasks)),
        }
    if run.source not in MODEL_DRIVEN_SOURCES:
        asker = describe_asker(run.source, run.client) if run.source is RunSource.PROGRAM else ""
        agent = {"by_agent": False, "agent": unescape_mrkdwn(asker[:1].upper() + asker[1:])}
    program = unescape_mrkdwn(asking_program_line(run.client)) if call.action else ""
    return {"program_note": program, **agent}


def _build_outcome_fields(
    tool: Tool[Any] | None, call: Call, votes: Sequence[Vote]
) -> dict[str, Any]:
    """Return the outcome of a call or why it has its status, and what its approvers wrote.

    The note of a call that has not ended may be the last approver's remark; it is then left out.
    """
    said = [(each.person, each.reason) for each in call_state.list_approving_votes(votes)]
    remarks = tuple((who, mask_secrets(text)) for who, text in said if text.strip())
    if call.status is not CallStatus.SUCCEEDED:
        repeats = call.status is not CallStatus.REJECTED and call.note in dict(said).values()
        return {"remarks": remarks, "note": "" if repeats else mask_secrets(call.note)}
    stated = tool is not None and tool.outcome is not None
    return {"remarks": remarks, "outcome" if stated else "result": mask_secrets(call.note)}


def _build_run_without_approval(
    call: Call, votes: Sequence[Vote]
) -> views.RunWithoutApproval | None:
    alone = call_state.find_break_glass_vote(votes)
    if alone is None or call.status in calls.NOT_RUN_STATUSES:
        return None
    looked = next((each for each in votes if each.verb in LOOK_VERBS), None)
    return views.RunWithoutApproval(
        alone.person,
        mask_secrets(alone.reason),
        looked.person if looked else "",
        mask_secrets(looked.reason) if looked else "",
    )


def build_argument_values(
    tools: Registry, call: Call, now: Revision, before: Revision
) -> tuple[views.ArgumentValue, ...]:
    """Return a revision's arguments as people read them, with the values before that differ."""
    tool = tools.find_tool_of_call(call)
    if tool is None:  # without the tool nobody knows which arguments are secret, so all are masked
        return tuple(views.ArgumentValue(name, "••••••••") for name in json.loads(now.arguments))
    names: dict[str, str] = json.loads(call.names)
    changed = before.arguments != now.arguments
    old = get_readable_revision_arguments(tool, before, names) if changed else None
    values = list_argument_values(tool, get_readable_revision_arguments(tool, now, names), old)
    try:
        return mark_displayed_values(tool, load_arguments(tool, now.arguments), values)
    except ValidationError:  # the tool has changed since: shown as they were stored
        return values


def get_readable_revision_arguments(
    tool: Tool[Any], revision: Revision, names: Mapping[str, str]
) -> dict[str, Any]:
    """Return a revision's arguments as people read them, with the `names` of the ids in them."""
    try:
        return build_readable_arguments(tool, revision.arguments, names)
    except ValidationError:  # the tool has changed since: shown as they were stored
        stored: dict[str, Any] = json.loads(revision.arguments)
        return stored


def _is_editable(tool: Tool[Any], call: Call) -> bool:
    gate = load_gate(call.gate)
    fields = restrict_editable_fields(tool, gate).editable
    return (fields is None or bool(fields)) and not (
        isinstance(gate, Ask) and gate.editors == "nobody"
    )


def _list_deciders(call: Call, votes: Sequence[Vote]) -> tuple[str, ...]:
    """Return the people whose votes decided the call; empty if it is not decided by votes."""
    if call.status not in (*CALL_APPROVED_STATUSES, CallStatus.REJECTED) and not calls.is_scheduled(
        call
    ):
        return ()
    if call.status is CallStatus.REJECTED:
        return tuple(vote.counted_person for vote in votes if vote.verb is CallVerb.REJECT)
    return tuple(vote.counted_person for vote in call_state.list_deciding_votes(votes))


def _find_expiry_if_approved(call: Call) -> datetime | None:
    """Return until when an approved call may start without a new approval; None for other calls."""
    return call_state.find_approval_expiry(call) if call.status is CallStatus.APPROVED else None


def _build_choice_fields(
    tool: Tool[Any] | None, call: Call, votes: Sequence[Vote]
) -> dict[str, Any]:
    """Return what an approver of a pending call has to write, and what they may choose."""
    gate = load_gate(call.gate)
    if call.status is not CallStatus.PENDING or not isinstance(gate, Ask):
        return {}
    titles = (
        {name: field.title or name for name, field in tool.arguments.model_fields.items()}
        if tool
        else {}
    )
    return {
        "run_at": gate.run_at.describe_for_people() if gate.run_at else "",
        "may_break_glass": gate.break_glass is not None,
        "needs_signature": gate.wants_signature
        and all(
            gate.stages[at].signature for at in call_state.tally_votes(gate, votes).asked_stages
        ),
        "needs_approval_reason": gate.reasons in ("approve", "always"),
        "needs_rejection_reason": gate.reasons in ("reject", "always"),
        "grant_offers": tuple(
            sentences.grant_offer_label(offer, titles) for offer in gate.remember
        ),
    }


def _build_vote_progress(call: Call, votes: Sequence[Vote]) -> views.VoteProgress | None:
    gate = load_gate(call.gate)
    pending = call.status is CallStatus.PENDING and not calls.is_scheduled(call)
    if not pending or not isinstance(gate, Ask):
        return None
    if gate.required_approvers == 1 and gate.veto == 1:
        return None
    tally = call_state.tally_votes(gate, votes)
    approved = tuple(person for people in tally.approved for person in people)
    return views.VoteProgress(
        approved=approved,
        rejected=tally.rejected,
        approvals_needed=tally.needed,
        stage=tally.stage + 1,
        stages=1 if gate.any_order else len(gate.stages),
        rejections_to_end=gate.veto,
        stand_ins=call_state.map_delegators_to_delegates(votes),
        signers=call_state.list_signers(votes),
    )


def list_tasks_leading_to_run(
    tools: Registry, tx: Transaction, run: Run
) -> tuple[views.DelegatedTask, ...]:
    """Return the delegated tasks between the requester's agent and this run, outermost first."""
    found: list[views.DelegatedTask] = []
    for call in sub_agents.list_calls_leading_to_run(tx, run):
        tool = tools.find_tool_of_call(call)
        by = found[-1].agent if found else ""
        found.append(
            views.DelegatedTask(
                tool.title if tool else call.tool,
                by,
                call_state.describe_call_effect(tools, tx, call),
            )
        )
    return tuple(found)


def list_request_texts(tx: Transaction, run: Run, until: datetime) -> list[str]:
    """Return what a request's messages said until `until`, each on one line; secrets are masked."""
    said = map(prompt.extract_request_text, runs.list_user_messages_until(tx, run.id, until))
    return [" ".join(mask_secrets(text).split()) for text in said if text.strip()]
