"""What a run posts in its thread: rows that a tool found, outcomes of calls, the footer of answers.

For a run without a model, the outcome of its call is posted here; rejections, expiries and
withdrawals are posted when they happen, and not again here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain
from typing import Any

from bot.agent import outputs, prompt
from bot.approvals import call_state
from bot.cards import answers, notices, sentences
from bot.cards.claims import do_claims_contradict_record, extract_action_claims
from bot.cards.request_form import render_lookup_result
from bot.cards.views import is_only_thanks
from bot.policy.gates import Ask, load_gate
from bot.tools import Effect, Registry, Table, tables
from storage import calls, outbox, runs
from storage.record import Call, Run, Transaction
from storage.states import CallStatus, CallVerb, MessageKind

RAN = (CallStatus.SUCCEEDED, CallStatus.FAILED, CallStatus.UNKNOWN)
LATER = datetime.max.replace(tzinfo=UTC)  # than anything that was said
ROWS, COLUMNS = 20, 10  # how much the table shows at most


def post_table(tx: Transaction, run: Run, call: Call, found: Table) -> None:
    """Post the rows that `call` found in its thread, and all of them as a file if not all fit.

    Posts nothing if there are no rows, as the call's result says that.
    """
    if not found.rows:
        return
    cells = [[tables.format_table_cell(value) for value in row] for row in found.rows]
    columns, shown = found.columns[:COLUMNS], [row[:COLUMNS] for row in cells[:ROWS]]
    shown = shown[: answers.count_rows_fitting_table(columns, shown)]
    whole = (
        len(cells) <= len(shown)
        and len(found.columns) <= COLUMNS
        and all(map(answers.is_short_enough_for_cell, chain(columns, *shown)))
    )
    # nobody else's: it is how a lost answer is found
    name = f"{call.tool}-{call.id[:8]}-{call.revision}.csv"
    body = {
        "title": found.title,
        "columns": columns,
        "rows": shown,
        "total": len(cells),
    }
    body |= {"width": len(found.columns), "more": found.more, "file": "" if whole else name}
    outbox.queue_thread_message(
        tx, run, f"table:{call.id}:{call.revision}", body, kind=MessageKind.TABLE
    )
    if not whole:
        file = {"name": name, "title": found.title, "content": tables.csv_text(found)}
        outbox.queue_thread_message(
            tx, run, f"file:{call.id}:{call.revision}", file, kind=MessageKind.FILE
        )


def post_approved_call_outcome(
    tx: Transaction,
    tools: Registry,
    run: Run,
    ended: calls.CallWithVotes,
    plan: Sequence[Call],
) -> None:
    """Post in the thread how a call that people approved ended, and who had a part in it.

    `plan`: the current calls of its plan.
    """
    call = ended.call
    if call.status not in RAN:
        return
    if not isinstance(load_gate(call.gate), Ask):  # nobody has decided about it
        return
    tool, people = tools.find_tool_of_call(call), _build_participants(tx, run, ended)
    effect, done = (
        call_state.describe_revision_effect(tools, call, ended.revision),
        call.status is CallStatus.SUCCEEDED,
    )
    stated = call.note if done and tool is not None and tool.outcome is not None else ""
    text = notices.approved_call_outcome_line(
        call.status,
        stated or (f"Done: {effect}" if done else effect),
        None if done and _has_later_call_with_same_people(tx, run, plan, people) else people,
        why=call.note if call.status is CallStatus.FAILED else "",
        handed_on=calls.was_left_unreported_by_program(call),
        midway=_is_failed_midway(call),
    )
    outbox.queue_notice(tx, run, _build_outcome_message_key(call), {"text": text})


def post_sub_agent_call_outcome(tx: Transaction, tools: Registry, call_id: str) -> None:
    """Post the outcome of a call that a sub-agent has worked on; nothing if `call_id` is ""."""
    call = calls.find_call(tx, call_id)
    run, shown = (
        (runs.find_run(tx, call.run_id), calls.find_call_with_votes(tx, call))
        if call
        else (None, None)
    )
    if run is not None and shown is not None:
        post_approved_call_outcome(
            tx, tools, run, shown, calls.list_calls_of_plan(tx, shown.call.plan_id)
        )


def _build_participants(
    tx: Transaction, run: Run, approved: calls.CallWithVotes
) -> notices.CallParticipants:
    if giver := call_state.find_grant_giver_id(tx, approved.call):
        return notices.CallParticipants(run.requester, (), ((giver, ""),), was_saved_approval=True)
    return notices.CallParticipants(
        run.requester,
        tuple(sorted(approved.editors)),
        tuple(
            (vote.counted_person, vote.reason)
            for vote in call_state.list_approving_votes(approved.votes)
        ),
        call_state.map_delegators_to_delegates(approved.votes),
    )


def _has_later_call_with_same_people(
    tx: Transaction, run: Run, plan: Sequence[Call], people: notices.CallParticipants
) -> bool:
    """Return whether the plan's last call yet to run has the same people, so it will name them."""
    left = [each for each in plan if each.status is CallStatus.APPROVED]
    last = calls.find_call_with_votes(tx, left[-1]) if left else None
    return last is not None and _build_participants(tx, run, last) == people


def _build_outcome_message_key(call: Call) -> str:
    return f"outcome:{call.id}:{call.revision}:{call.status}"


NOT_APPROVED = " Nobody has approved anything."


def build_answer_footer(
    tx: Transaction, tools: Registry, run_id: str, text: str, *, last: bool, note: str = ""
) -> answers.ModelAnswerFooter:
    """Return the footer for a model's words: what really became of the run's calls.

    It covers the calls that change something or asked people, and is loud if the words contradict
    it. Words that are not the `last` of the run get it only then; so does an answer to plain
    thanks. `note`: why the words are incomplete.
    """
    claims = extract_action_claims(text)
    if not last and not (claims.says_something_done or claims.says_approved):
        return answers.ModelAnswerFooter(note=note)
    found = calls.list_calls_of_request(tx, run_id)  # also of its sub-agents
    counting = [
        call for place, call in enumerate(found) if _is_covered_by_footer(call, found[place + 1 :])
    ]
    ended = [_build_call_outcome(tx, tools, call) for call in counting]
    unapproved = claims.says_approved and not any(_was_approved(tx, call) for call in counting)
    loud = unapproved or do_claims_contradict_record(claims, ended, whole=last)
    if not loud and (not last or (not found and _is_only_thanks(tx, run_id))):
        return answers.ModelAnswerFooter(note=note)
    record = answers.build_call_outcomes_line(ended) + (NOT_APPROVED if unapproved else "")
    return answers.ModelAnswerFooter(record, loud, note)


def _was_approved(tx: Transaction, call: Call) -> bool:
    """Return whether anybody has approved this revision of the call, or a grant covers it."""
    votes = calls.list_votes_on_revision(tx, call.id, call.revision)
    return bool(call.grant_id) or any(vote.verb is CallVerb.APPROVE for vote in votes)


def _is_only_thanks(tx: Transaction, run_id: str) -> bool:
    written = [
        prompt.extract_request_text(item)
        for item in runs.list_user_messages_until(tx, run_id, LATER)
    ]
    written = [text for text in written if text.strip()]
    return bool(written) and all(map(is_only_thanks, written))


def _build_call_outcome(tx: Transaction, tools: Registry, call: Call) -> answers.CallOutcome:
    told = is_outcome_posted(tx, call)
    effect = "" if told else _effect_text(tx, tools, call)
    return answers.CallOutcome(call.status, effect, told, failed_midway=_is_failed_midway(call))


def _is_failed_midway(call: Call) -> bool:
    return call.status is CallStatus.FAILED and outputs.is_failed_midway(call.output)


def is_outcome_posted(tx: Transaction, call: Call) -> bool:
    """Return whether a message of its own in the thread says how the call ended."""
    if call.status in (CallStatus.REJECTED, CallStatus.EXPIRED):
        return True
    return outbox.find_message_by_key(tx, _build_outcome_message_key(call)) is not None


def _is_covered_by_footer(call: Call, later: list[Call]) -> bool:
    """Return whether the footer covers the call: not if it only read, nor a corrected mistake."""
    if call.status is CallStatus.SUPERSEDED:
        return False
    if call.status is CallStatus.REFUSED:
        slip = call.output.startswith(outputs.INVALID)
        return not (slip and any(each.tool == call.tool for each in later))
    return call.does != Effect.READ or isinstance(load_gate(call.gate), Ask)


def _effect_text(tx: Transaction, tools: Registry, call: Call) -> str:
    if revision := calls.find_revision(tx, call.id, call.revision):
        return call_state.describe_revision_effect(tools, call, revision)
    tool = tools.find_tool_of_call(call)
    return tool.title if tool else call.tool


def post_outcome_unless_posted(tx: Transaction, tools: Registry, run: Run, call: Call) -> None:
    """Post what became of the call in the thread, unless another message says it."""
    if body := _build_outcome_message(tx, tools, call):
        outbox.queue_notice(tx, run, f"ended:{call.id}:{call.revision}:{call.status}", body)


def _build_outcome_message(
    tx: Transaction, tools: Registry, call: Call
) -> Mapping[str, Any] | None:
    effect = call_state.describe_call_effect(tools, tx, call)
    match call.status:
        case CallStatus.SUCCEEDED if call.does == Effect.READ:
            if outbox.find_message_by_key(tx, f"table:{call.id}:{call.revision}"):
                return None  # the rows stand there
            text, blocks = render_lookup_result(effect, outputs.extract_tool_result(call.output))
            return {"text": text, "blocks": blocks}
        case CallStatus.SUCCEEDED | CallStatus.FAILED if is_outcome_posted(tx, call):
            return None
        case CallStatus.SUCCEEDED:
            return {"text": sentences.call_done_notice(effect, call.note)}
        case CallStatus.FAILED:
            midway = outputs.is_failed_midway(call.output)
            return {"text": sentences.call_failed_notice(effect, call.note, midway=midway)}
        case CallStatus.UNKNOWN if calls.was_left_unreported_by_program(call):
            return (
                None
                if is_outcome_posted(tx, call)
                else {"text": sentences.call_handed_over_notice(effect)}
            )
        case CallStatus.UNKNOWN:
            return {"text": sentences.call_outcome_unknown_notice(effect)}
        case CallStatus.INVALIDATED:
            return {"text": sentences.call_not_done_notice(effect, call.note)}
        case CallStatus.REFUSED:
            return {"text": sentences.no_approver_asked_notice(call.note)}
        case _:
            return None
