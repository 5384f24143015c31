"""Views of cards and question messages, made from stored rows; `bot.cards` draws them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from bot.agent import outputs, prompt
from bot.approvals import call_state
from bot.approvals.card_routing import list_still_away
from bot.approvals.channel_mode import get_strictest_mode
from bot.approvals.person_questions import find_question, get_asking_server
from bot.cards import sentence_words
from bot.cards.call_blocks import list_delegated_task_lines
from bot.cards.card import list_calls_with_approve_button
from bot.cards.field_values import list_argument_values
from bot.cards.notices import asking_program_line, away_note, describe_asker
from bot.cards.question_message import QuestionView, build_readable_answer
from bot.cards.request_sentences import WAITS_FOR_ANSWER, mode_note
from bot.cards.review_dialog import list_covered_pieces, mask_call_for_viewers
from bot.cards.slack_text import unescape_mrkdwn
from bot.cards.views import (
    ArgumentValue,
    CallView,
    CardView,
    DelegatedTask,
    MissingVotes,
    VoteProgress,
)
from bot.policy.gates import Ask, load_gate
from bot.tools import Registry, Tool
from bot.tools.arguments import build_readable_arguments, restrict_editable_fields
from bot.tools.effect_source import EffectSource
from bot.tools.person_question import ASK_PERSON
from storage import calls, channel_modes, outbox, runs, sub_agents
from storage.calls import CallWithRevision
from storage.masking import mask_secrets
from storage.models import Call, Message, Plan, Revision, Run, Vote
from storage.states import MODELLED, CallStatus, CallVerb, ChannelMode, RunSource
from storage.transaction import Transaction

# Views of cards and calls, made from stored rows.

DECIDED = (
    CallStatus.APPROVED,
    CallStatus.REJECTED,
    CallStatus.RUNNING,
    CallStatus.ENTRUSTED,
    CallStatus.SUCCEEDED,
    CallStatus.FAILED,
    CallStatus.UNKNOWN,
)

_ENDED_BY_TOOL = (CallStatus.SUCCEEDED, CallStatus.FAILED)


def is_approvable_on_card(tools: Registry, tx: Transaction, call: Call, now: datetime) -> bool:
    """Return whether the call can be approved on its card, as the card shows all of it.

    Otherwise the card has a Review button instead.
    """
    rows = [
        row
        for row in outbox.list_cards_of_plan(tx, call.plan_id)
        if call.id in outbox.parse_message_body(row)["calls"]
    ]
    views = [build_card_view(tools, tx, row, now) for row in rows]
    return bool(rows) and all(
        view and call.id in list_calls_with_approve_button(view, now) for view in views
    )


def build_call_view(tools: Registry, tx: Transaction, call_id: str) -> CallView | None:
    """Return a call as everybody who sees its card may read it; None if it does not exist."""
    shown = calls.find_call_with_revision(tx, call_id)
    if shown is None:
        return None
    whole = _build_unmasked_call_view(tools, tx, shown)
    seen = mask_call_for_viewers(whole, shown.call.preview_in_thread)
    return replace(seen, covered_pieces=list_covered_pieces(whole, seen))


def build_full_call_view(tools: Registry, tx: Transaction, shown: CallWithRevision) -> CallView:
    """Return a call as its approvers may read it: only fields declared secret are masked.

    `covered` names what is hidden from everybody else.
    """
    whole = _build_unmasked_call_view(tools, tx, shown)
    seen = mask_call_for_viewers(whole, shown.call.preview_in_thread)
    return replace(whole, covered_pieces=list_covered_pieces(whole, seen))


def _build_unmasked_call_view(
    tools: Registry, tx: Transaction, shown: CallWithRevision
) -> CallView:
    call, tool = shown.call, tools.find_tool_of_call(shown.call)
    before = calls.find_revision(tx, call.id, call.revision - 1) if call.revision > 1 else None
    changed = before is not None and before.arguments != shown.revision.arguments
    votes = calls.list_votes_on_revision(tx, call.id, call.revision)
    over = call.status is CallStatus.SUCCEEDED
    return CallView(
        id=call.id,
        revision=call.revision,
        title=tool.title if tool else call.tool,
        effect=call_state.describe_effect_for_approvers(tools, call, shown.revision),
        does=call.does,
        effect_source=tool.effect_source if tool else EffectSource.BY_AUTHOR,
        status=call.status,
        values=_build_argument_values(tools, call, shown.revision, before if changed else None),
        digest=call.digest,
        deadline=call.deadline,
        preview=call.preview,
        has_more_rows=bool(call.preview_rows),
        agent_reason=call.reason,
        **_build_proposer_fields(tools, tx, call),
        edited_by=shown.revision.author if shown.revision.author not in calls.WRITERS else "",
        decided_by=_list_deciders(call, votes),
        stand_ins=call_state.map_delegators_to_delegates(votes),
        decided_at=call.decided_at,
        approval_expires_at=_find_expiry_if_approved(call),
        was_handed_over=calls.was_passed_on_by_program(call),
        note="" if over else mask_secrets(call.note),
        failed_midway=call.status is CallStatus.FAILED and outputs.is_failed_midway(call.output),
        needs_quotation=call.status in _ENDED_BY_TOOL and (tool is None or tool.outcome is None),
        **_build_outcome_fields(tool, call, votes),
        editable=tool is not None and _is_editable(tool, call),
        progress=_build_vote_progress(call, votes),
        **_build_choice_fields(tool, call),
    )


def _build_proposer_fields(tools: Registry, tx: Transaction, call: Call) -> dict[str, Any]:
    """Return who proposed the call: a sub-agent with its delegated tasks, or a program by name."""
    run = runs.find_run(tx, call.run_id)
    errands = list_delegated_tasks(tools, tx, run) if run else ()
    agent: dict[str, Any] = {}
    if errands:
        agent = {
            "agent": errands[-1].agent,
            "delegation_lines": tuple(list_delegated_task_lines(errands)),
        }
    if run and run.source not in MODELLED:
        asker = describe_asker(run.source, run.client) if run.source is RunSource.PROGRAM else ""
        agent = {"by_agent": False, "agent": unescape_mrkdwn(asker[:1].upper() + asker[1:])}
    program = unescape_mrkdwn(asking_program_line(run.client)) if run and call.action else ""
    return {"program_note": program, **agent}


def _build_outcome_fields(
    tool: Tool[Any] | None, call: Call, votes: Sequence[Vote]
) -> dict[str, Any]:
    """Return the outcome of a call that ran, and what its approvers wrote."""
    said = [
        (each.person, mask_secrets(each.reason)) for each in call_state.list_approving_votes(votes)
    ]
    remarks = tuple((who, text) for who, text in said if text.strip())
    if call.status is not CallStatus.SUCCEEDED:
        return {"remarks": remarks}
    stated = tool is not None and tool.outcome is not None
    return {"remarks": remarks, "outcome" if stated else "result": mask_secrets(call.note)}


def _build_argument_values(
    tools: Registry, call: Call, now: Revision, before: Revision | None
) -> tuple[ArgumentValue, ...]:
    tool = tools.find_tool_of_call(call)
    if tool is None:  # which of them were secret went with the tool, so none of them is shown
        return tuple(ArgumentValue(name, "••••••••") for name in json.loads(now.arguments))
    names: dict[str, str] = json.loads(call.names)
    old = _get_readable_arguments(tool, before, names) if before else None
    return list_argument_values(tool, _get_readable_arguments(tool, now, names), old)


def _get_readable_arguments(
    tool: Tool[Any], revision: Revision, names: Mapping[str, str]
) -> dict[str, Any]:
    try:
        return build_readable_arguments(tool, revision.arguments, names)
    except ValidationError:  # the tool has changed since; as they were stored, then
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
    if call.status not in DECIDED:
        return ()
    if call.status is CallStatus.REJECTED:
        return tuple(vote.counted_person for vote in votes if vote.verb is CallVerb.REJECT)
    return tuple(vote.counted_person for vote in call_state.list_approving_votes(votes))


def _find_expiry_if_approved(call: Call) -> datetime | None:
    """Return until when an approved call may start without being asked again; None for others."""
    return call_state.find_approval_expiry(call) if call.status is CallStatus.APPROVED else None


def _build_choice_fields(tool: Tool[Any] | None, call: Call) -> dict[str, Any]:
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
        "needs_approval_reason": gate.reasons in ("approve", "always"),
        "needs_rejection_reason": gate.reasons in ("reject", "always"),
        "grant_offers": tuple(
            sentence_words.grant_offer_label(offer, titles) for offer in gate.remember
        ),
    }


def _build_vote_progress(call: Call, votes: Sequence[Vote]) -> VoteProgress | None:
    gate = load_gate(call.gate)
    if call.status is not CallStatus.PENDING or not isinstance(gate, Ask):
        return None
    if gate.required_approvers == 1 and gate.veto == 1:
        return None
    seen = call_state.tally_votes(gate, votes)
    approved = tuple(person for people in seen.approved for person in people)
    return VoteProgress(
        approved=approved,
        rejected=seen.rejected,
        approvals_needed=seen.needed,
        stage=seen.stage + 1,
        stages=1 if gate.any_order else len(gate.stages),
        rejections_to_end=gate.veto,
        stand_ins=call_state.map_delegators_to_delegates(votes),
    )


def _add_missing_votes(
    tx: Transaction, run: Run, view: CallView, ids: Mapping[str, str]
) -> CallView:
    """Return the view with the votes each stage still lacks, for a gate without an order."""
    call = calls.find_call(tx, view.id) if view.progress else None
    gate = load_gate(call.gate) if call else None
    if call is None or view.progress is None or not isinstance(gate, Ask) or not gate.any_order:
        return view
    approved = call_state.tally_votes(
        gate, calls.list_votes_on_revision(tx, call.id, call.revision)
    ).approved
    missing = tuple(
        MissingVotes(
            stage.quorum - len(people),
            tuple(ids[handle] for handle in stage.approvers.groups if handle in ids),
            (*stage.approvers.users, *([run.requester] if stage.approvers.requester else ())),
            run.channel if stage.approvers.channel else "",
        )
        for stage, people in zip(gate.stages, approved, strict=True)
        if len(people) < stage.quorum
    )
    return replace(view, progress=replace(view.progress, missing=missing))


def _build_approver_fields(
    tx: Transaction, now: datetime, run: Run, waiting: CallView, body: Mapping[str, Any]
) -> dict[str, Any]:
    """Return who may decide about a pending call, as fields of a card's view.

    `body` is that of the card's row.
    """
    call, ids = calls.find_call(tx, waiting.id), body["groups"]
    gate = load_gate(call.gate) if call else None
    if call is None or not isinstance(gate, Ask):
        return {}
    seen = call_state.tally_votes(gate, calls.list_votes_on_revision(tx, call.id, call.revision))
    who = gate.get_approvers_of_stages(
        seen.asked_stages, call_state.measure_waiting_time(gate, call, now)
    )
    own = gate.self_approval or who.requester
    users = dict.fromkeys((*who.users, *([run.requester] if who.requester else [])))
    return {
        "approver_users": tuple(user for user in users if user != run.requester or own),
        "approver_groups": tuple(ids[handle] for handle in who.groups if handle in ids),
        "approver_channel": run.channel if who.channel else "",
        "self_approval": own,
        "notes": list_card_notes(tx, run, call.plan_id, body.get("away", {}), now),
        "open_question_count": count_waiting_questions(tx, call.plan_id),
    }


def _has_call_waiting_for_others(tx: Transaction, plan: Plan, views: Sequence[CallView]) -> bool:
    """Return whether an approved call among these waits for the decision about another one."""
    if all(view.status is not CallStatus.APPROVED for view in views):
        return False
    return any(each.status is CallStatus.PENDING for each in calls.list_calls_of_plan(tx, plan.id))


def build_card_view(
    tools: Registry, tx: Transaction, row: Message, now: datetime
) -> CardView | None:
    """Return a card as its readers see it; None if its plan, run or calls do not exist."""
    body, plan, run = (
        outbox.parse_message_body(row),
        calls.find_plan(tx, row.plan_id),
        runs.find_run(tx, row.run_id),
    )
    found = [build_call_view(tools, tx, call_id) for call_id in body["calls"]]
    views = [_add_missing_votes(tx, run, view, body["groups"]) for view in found if view and run]
    if plan is None or run is None or not views:
        return None
    waiting = next((view for view in views if view.status is CallStatus.PENDING), None)
    # who is asked, and for what, stands only on cards that ask
    asks: dict[str, Any] = {}
    if waiting:
        asks = build_origin_fields(tools, tx, run, plan)
        asks |= _build_approver_fields(tx, now, run, waiting, body)
    return CardView(
        **asks,
        has_undecided_calls=_has_call_waiting_for_others(tx, plan, views),
        plan_id=plan.id,
        revision=calls.compute_card_revision(
            each for each in views if each.status is CallStatus.PENDING
        ),
        run_id=run.id,
        requester=run.requester,
        client=run.client,
        calls=tuple(views),
        origin=body.get("origin", ""),
        card=row.seq or 0,
        part=body["part"],
        parts=body["parts"],
    )


# The small print of a card, beside who asked and who decides. Only reads.


def list_card_notes(
    tx: Transaction, run: Run, plan_id: str, away: Mapping[str, str], now: datetime
) -> tuple[str, ...]:
    """Return the small print of a card: channel mode, absent approvers, waiting questions.

    The mode is left out if it is the usual one. `away`: the absent people noted with the card.
    """
    mode = get_strictest_mode(channel_modes.list_modes_of_run(tx, run))
    notes = [mode_note(mode)] if mode is not ChannelMode.ASK else []
    if gone := list_still_away(away, now):
        notes.append(away_note(gone))
    return (*notes, WAITS_FOR_ANSWER) if count_waiting_questions(tx, plan_id) else tuple(notes)


def count_waiting_questions(tx: Transaction, plan_id: str) -> int:
    """Return how many questions of a plan wait for answers."""
    asking = (
        each for each in calls.list_calls_of_plan(tx, plan_id) if each.tool == ASK_PERSON.name
    )
    return sum(each.status is CallStatus.PENDING for each in asking)


# Where the calls on a card come from: the requester's words, and the sub-agents on the way.


def build_origin_fields(tools: Registry, tx: Transaction, run: Run, plan: Plan) -> dict[str, Any]:
    """Return where the calls of a card come from, as fields of its view."""
    request = sub_agents.get_root_run(tx, run)
    return {
        "requester_messages": _list_request_texts(tx, request, plan),
        "edited_messages": _list_edited_texts(request),
        "delegated_tasks": list_delegated_tasks(tools, tx, run),
    }


def list_delegated_tasks(tools: Registry, tx: Transaction, run: Run) -> tuple[DelegatedTask, ...]:
    """Return the delegated tasks between the requester's agent and this run, outermost first."""
    found: list[DelegatedTask] = []
    for call in sub_agents.list_calls_leading_to_run(tx, run):
        tool = tools.find_tool_of_call(call)
        by = found[-1].agent if found else ""
        found.append(
            DelegatedTask(
                tool.title if tool else call.tool,
                by,
                call_state.describe_call_effect(tools, tx, call),
            )
        )
    return tuple(found)


def _list_request_texts(tx: Transaction, request: Run, plan: Plan) -> tuple[str, ...]:
    """Return the first and the last words of the request before the plan was made."""
    written = [
        prompt.extract_request_text(item)
        for item in runs.list_user_messages_until(tx, request.id, plan.created_at)
    ]
    written = [" ".join(mask_secrets(text).split()) for text in written if text.strip()]
    return tuple(dict.fromkeys((*written[:1], *written[-1:])))


def _list_edited_texts(request: Run) -> tuple[str, ...]:
    """Return the new texts of the last two edited messages of the request, the latest last."""
    texts: list[str] = list(json.loads(request.reworded).values())
    return tuple(" ".join(mask_secrets(text).split()) for text in texts[-2:])


def build_question_view(
    tools: Registry, tx: Transaction, row: Message, now: datetime
) -> QuestionView | None:
    """Return what the message of a question shows now; None if the question cannot be read."""
    body = outbox.parse_message_body(row)
    found = find_question(tx, body["calls"][0]) if body["calls"] else None
    if found is None:
        return None
    call, answer = found.call, calls.find_person_answer(tx, found.call.id)
    given = json.loads(answer.given) if answer and not answer.declined else {}
    lines = build_readable_answer(found.asked, given) if given else ()
    hidden = mask_secrets(found.asked.question)
    errands, server, amid = list_delegated_tasks(tools, tx, found.run), "", ""
    if found.run.source is RunSource.SERVER and errands:  # what it asks amid is no errand
        server, amid, errands = get_asking_server(found.run), errands[-1].what, errands[:-1]
    return QuestionView(
        id=call.id,
        revision=call.revision,
        asked=found.asked.model_copy(update={"question": hidden}),
        status=call.status,
        run=found.run.id,
        requester=found.run.requester,
        users=found.possible_answerers.users,
        group=next(iter(body["groups"].values()), ""),
        deadline=call.deadline,
        origin=body.get("origin", ""),
        answered_by=answer.person if answer else "",
        answered_at=answer.created_at if answer else None,
        lines=tuple(
            (label, mask_secrets(text), mask_secrets(before) if before else None)
            for label, text, before in lines
        ),
        declined=answer is not None and answer.declined,
        delegated_tasks=errands,
        asker=describe_asker(
            found.run.source, server or found.run.client, errands[-1].agent if errands else ""
        ),
        server=server,
        server_task=amid,
        away_people=tuple(list_still_away(body.get("away", {}), now)),
    )
