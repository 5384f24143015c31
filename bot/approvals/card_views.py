"""Views of cards and question messages, made from stored rows; `bot.cards` draws them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from bot.approvals.call_state import get_current_approvers, tally_votes
from bot.approvals.call_views import build_call_view, list_request_texts, list_tasks_leading_to_run
from bot.approvals.card_routing import filter_people_still_away
from bot.approvals.channel_mode import get_strictest_channel_mode
from bot.approvals.person_questions import find_question, get_asking_server_name
from bot.cards import notices
from bot.cards.card import list_directly_approvable_call_ids
from bot.cards.question_message import QuestionView, list_readable_answer_values
from bot.cards.sentences import WAITS_FOR_ANSWER_TEXT, request_mode_note
from bot.cards.views import CallView, CardView, MissingVotes
from bot.policy.gates import Ask, load_gate
from bot.tools import Registry
from bot.tools.person_question import ASK_PERSON
from storage import calls, outbox, runs, sub_agents
from storage.masking import mask_secrets
from storage.record import Call, Message, Plan, Run, Transaction
from storage.states import CallStatus, ChannelMode, RunSource


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
        view and call.id in list_directly_approvable_call_ids(view, now) for view in views
    )


def _add_missing_votes(
    tx: Transaction, run: Run, view: CallView, ids: Mapping[str, str], now: datetime
) -> CallView:
    """Return the view with the votes that each stage lacks, if stages may decide in any order."""
    if view.progress is None:
        return view
    call = calls.get_call(tx, view.id)
    gate = load_gate(call.gate)
    if not isinstance(gate, Ask) or not gate.any_order:
        return view
    approved = tally_votes(gate, calls.list_votes_on_revision(tx, call.id, call.revision)).approved
    lacking = (
        (
            stage.quorum - len(people),
            get_current_approvers(tx, run, call, gate, [at], now).shown,
        )
        for at, (stage, people) in enumerate(zip(gate.stages, approved, strict=True))
        if len(people) < stage.quorum
    )
    missing = tuple(
        MissingVotes(
            votes,
            tuple(ids[handle] for handle in who.groups if handle in ids),
            (*who.users, *([run.requester] if who.requester else ())),
            run.channel if who.channel else "",
        )
        for votes, who in lacking
    )
    return replace(view, progress=replace(view.progress, missing=missing))


def _build_approver_fields(
    tx: Transaction, now: datetime, run: Run, waiting: CallView, body: Mapping[str, Any]
) -> dict[str, Any]:
    """Return who may decide about a pending call, as fields of a card's view.

    `body` is that of the card's row.
    """
    call, ids = calls.get_call(tx, waiting.id), body["groups"]
    gate = load_gate(call.gate)
    if not isinstance(gate, Ask):
        return {}
    tally = tally_votes(gate, calls.list_votes_on_revision(tx, call.id, call.revision))
    who = get_current_approvers(tx, run, call, gate, tally.asked_stages, now).shown
    users = dict.fromkeys((*who.users, *([run.requester] if who.requester else [])))
    return {
        "approver_users": tuple(users),
        "approver_groups": tuple(ids[handle] for handle in who.groups if handle in ids),
        "approver_channel": run.channel if who.channel else "",
        "notes": list_card_notes(tx, run, call.plan_id, body.get("away", {}), now),
        "open_question_count": count_waiting_questions(tx, call.plan_id),
    }


def describe_people_in_review(
    tx: Transaction, run: Run, call: Call, now: datetime
) -> tuple[str, str]:
    """Return in mrkdwn who asked for a call, and who may decide about it if it is pending."""
    gate, asked = load_gate(call.gate), notices.requester_line(run.requester, run.client)
    if not isinstance(gate, Ask):
        return asked, ""
    seen = tally_votes(gate, calls.list_votes_on_revision(tx, call.id, call.revision))
    who = get_current_approvers(tx, run, call, gate, seen.asked_stages, now)
    told = [*who.shown.names, *[run.channel] * who.channel, *[run.requester] * who.requester]
    also = [] if who.shown is who else who.silent
    return asked, notices.review_approvers_line(told, also)


def _has_call_waiting_for_others(tx: Transaction, plan: Plan, views: Sequence[CallView]) -> bool:
    """Return whether an approved call among these waits for the decision about another one."""
    if all(view.status is not CallStatus.APPROVED for view in views):
        return False
    return any(each.status is CallStatus.PENDING for each in calls.list_calls_of_plan(tx, plan.id))


def build_card_view(
    tools: Registry, tx: Transaction, row: Message, now: datetime
) -> CardView | None:
    """Return a card as its readers see it; None if its plan, run or calls do not exist."""
    body = outbox.parse_message_body(row)
    plan = calls.find_plan(tx, row.plan_id)
    run = runs.find_run(tx, row.run_id)
    call_views = [build_call_view(tools, tx, call_id) for call_id in body["calls"]]
    views = [
        _add_missing_votes(tx, run, view, body["groups"], now)
        for view in call_views
        if view and run
    ]
    if plan is None or run is None or not views:
        return None
    waiting = next((view for view in views if view.status is CallStatus.PENDING), None)
    # only cards with a pending call say who is asked, and for what
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
    mode = get_strictest_channel_mode(tx, run)
    notes = [request_mode_note(mode)] if mode is not ChannelMode.ASK else []
    if gone := filter_people_still_away(away, now):
        notes.append(notices.away_approvers_note(gone))
    return (*notes, WAITS_FOR_ANSWER_TEXT) if count_waiting_questions(tx, plan_id) else tuple(notes)


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
        "delegated_tasks": list_tasks_leading_to_run(tools, tx, run),
    }


def _list_request_texts(tx: Transaction, request: Run, plan: Plan) -> tuple[str, ...]:
    """Return the first and the last words of the request before the plan was made."""
    written = list_request_texts(tx, request, plan.created_at)
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
    question = find_question(tx, body["calls"][0]) if body["calls"] else None
    if question is None:
        return None
    call, answer = question.call, calls.find_person_answer(tx, question.call.id)
    answer_values = json.loads(answer.given) if answer and not answer.declined else {}
    lines = list_readable_answer_values(question.asked, answer_values) if answer_values else ()
    hidden = mask_secrets(question.asked.question)
    tasks, server, server_task = list_tasks_leading_to_run(tools, tx, question.run), "", ""
    if question.run.source is RunSource.SERVER and tasks:  # the last is what the server asks for
        server = get_asking_server_name(question.run)
        server_task = tasks[-1].what
        tasks = tasks[:-1]
    return QuestionView(
        id=call.id,
        revision=call.revision,
        asked=question.asked.model_copy(update={"question": hidden}),
        status=call.status,
        run=question.run.id,
        requester=question.run.requester,
        users=question.possible_answerers.users,
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
        delegated_tasks=tasks,
        asker=notices.describe_asker(
            question.run.source,
            server or question.run.client,
            tasks[-1].agent if tasks else "",
        ),
        server=server,
        server_task=server_task,
        away_people=tuple(filter_people_still_away(body.get("away", {}), now)),
    )
