"""What a run posts in its thread: rows that a tool found, outcomes of calls, the footer of answers.

For a run without a model, the outcome of its call is posted here; rejections, expiries and
withdrawals are posted when they happen, and not again here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import chain
from typing import Any

from bot.agent import outputs
from bot.approvals import call_state
from bot.cards import answers, notices, sentences
from bot.cards.phrases import detect_action_claims, do_claims_contradict_record
from bot.cards.request_form import render_lookup_result
from bot.policy.gates import Ask, load_gate
from bot.tools import Effect, Registry, Table, tables
from storage import calls, outbox, runs
from storage.record import Call, Run, Transaction
from storage.states import RUN_OPEN_STATUSES, CallStatus, CallVerb, MessageKind

RAN_STATUSES = (CallStatus.SUCCEEDED, CallStatus.FAILED, CallStatus.UNKNOWN)
FOOTER_STATUSES = (*RAN_STATUSES, CallStatus.CANCELLED, CallStatus.INVALIDATED)
MAX_FOOTER_OUTCOMES = 10
MAX_TABLE_ROWS = 20
MAX_TABLE_COLUMNS = 10


def post_table(tx: Transaction, run: Run, call: Call, table: Table) -> None:
    """Post the rows that `call` found in its thread, and all of them as a file if not all fit.

    Posts nothing if there are no rows, as the call's result says that.
    """
    if not table.rows:
        return
    cells = [[tables.format_table_cell(value) for value in row] for row in table.rows]
    columns = table.columns[:MAX_TABLE_COLUMNS]
    shown_rows = [row[:MAX_TABLE_COLUMNS] for row in cells[:MAX_TABLE_ROWS]]
    shown_rows = shown_rows[: answers.count_rows_fitting_table(columns, shown_rows)]
    whole = (
        len(cells) <= len(shown_rows)
        and len(table.columns) <= MAX_TABLE_COLUMNS
        and all(map(answers.is_short_enough_for_cell, chain(columns, *shown_rows)))
    )
    # unique, so that the file can be found if Slack's answer is lost
    name = f"{call.tool}-{call.id[:8]}-{call.revision}.csv"
    body = {
        "title": table.title,
        "columns": columns,
        "rows": shown_rows,
        "total": len(cells),
    }
    body |= {"width": len(table.columns), "more": table.more, "file": "" if whole else name}
    outbox.queue_thread_message(
        tx, run, f"table:{call.id}:{call.revision}", body, kind=MessageKind.TABLE
    )
    if not whole:
        file = {"name": name, "title": table.title, "content": tables.csv_text(table)}
        outbox.queue_thread_message(
            tx, run, f"file:{call.id}:{call.revision}", file, kind=MessageKind.FILE
        )


def post_call_outcome(
    tx: Transaction,
    tools: Registry,
    run: Run,
    call_with_votes: calls.CallWithVotes,
    *,
    answered: bool,
) -> None:
    """Post how a call that people were asked about ended, unless the model's answer will say it.

    `answered`: whether an answer of the model is still to come that says it. An unknown outcome is
    posted in any case, as people have to look at once.
    """
    call = call_with_votes.call
    if call.status not in RAN_STATUSES or not isinstance(load_gate(call.gate), Ask):
        return
    unknown = call.status is CallStatus.UNKNOWN and not calls.was_left_unreported_by_program(call)
    if answered and not unknown:
        return
    approvers = [
        vote.counted_person
        for vote in call_state.list_approving_votes(call_with_votes.votes)
        if unknown
    ]
    by = notices.asked_by_sentence(run.requester, approvers)
    body = {"text": f"{_build_outcome_sentence(tx, tools, call)} {by}"}
    key = _build_outcome_message_key(call)
    outbox.queue_notice(tx, run, key, body, notified=[run.requester, *approvers])


def post_untold_outcomes(tx: Transaction, tools: Registry, run: Run) -> None:
    """Post outcomes of a request's calls that are not posted yet, as no answer will state them."""
    for call in calls.list_calls_of_request(tx, run.root_id):
        if not is_outcome_posted(tx, call) and (ended := calls.find_call_with_votes(tx, call)):
            post_call_outcome(tx, tools, run, ended, answered=False)


def post_run_failure(tx: Transaction, tools: Registry, run: Run, why: str) -> None:
    """Post that a run failed, with a Retry button, and the outcomes that are not posted yet."""
    post_untold_outcomes(tx, tools, run)
    text = notices.run_failed_notice(why)
    body = {"text": text, "blocks": answers.render_retry_message(text, run.id)}
    outbox.queue_notice(tx, run, f"failed:{run.id}:{run.fence}", body)


def post_sub_agent_call_outcome(tx: Transaction, tools: Registry, call_id: str) -> None:
    """Post the outcome of a call that a sub-agent has worked on; nothing if `call_id` is ""."""
    call = calls.find_call(tx, call_id)
    ended = calls.find_call_with_votes(tx, call) if call else None
    if ended is not None:
        run = runs.get_run(tx, ended.call.run_id)
        post_call_outcome(tx, tools, run, ended, answered=is_answer_to_come(run))


def is_answer_to_come(run: Run) -> bool:
    """Return whether the model will still answer this run, and say in it how the calls ended."""
    return not runs.is_run_without_model(run) and run.status in RUN_OPEN_STATUSES


def _build_outcome_sentence(tx: Transaction, tools: Registry, call: Call) -> str:
    tool, has_succeeded = tools.find_tool_of_call(call), call.status is CallStatus.SUCCEEDED
    stated = call.note if has_succeeded and tool is not None and tool.outcome is not None else ""
    if not stated:
        effect = _effect_text(tx, tools, call)
        stated = f"Done: {effect}" if has_succeeded else effect
    gate, alone = load_gate(call.gate), None
    if isinstance(gate, Ask) and gate.break_glass:
        votes = calls.list_votes_on_revision(tx, call.id, call.revision)
        alone = call_state.find_break_glass_vote(votes)
    line = notices.call_outcome_line(
        call.status,
        stated,
        why=call.note if call.status is CallStatus.FAILED else "",
        handed_on=calls.was_left_unreported_by_program(call),
        midway=_is_failed_midway(call),
        saved_by=call_state.find_grant_author_id(tx, call),
        unapproved=notices.run_without_approval_sentence(alone.person, alone.reason)
        if alone
        else "",
    )
    return _add_reporter(tx, call, line)


def _add_reporter(tx: Transaction, call: Call, text: str) -> str:
    reporter = call_state.find_outcome_reporter(tx, call)
    said_so = sentences.outcome_reporter_sentence(reporter)
    return f"{text.removesuffix('.')}. {said_so}" if reporter else text


def _build_outcome_message_key(call: Call) -> str:
    return f"outcome:{call.id}:{call.revision}:{call.status}"


NOBODY_APPROVED_TEXT = " Nobody has approved anything."


def build_answer_footer(
    tx: Transaction, tools: Registry, run: Run, text: str, *, last: bool, note: str = ""
) -> answers.ModelAnswerFooter:
    """Return the footer of a model's answer: how calls ended whose outcome is not posted yet.

    It covers the calls that change something or asked people. If the answer's `text` contradicts
    the record, the footer instead states, prominently, the record of all these calls. An answer
    that is not the run's `last` gets a footer only in that case. `note`: why the text is
    incomplete.
    """
    claims = detect_action_claims(text)
    if not last and not (claims.says_something_done or claims.says_approved):
        return answers.ModelAnswerFooter(note=note)
    all_calls = calls.list_calls_of_request(tx, run.id)  # including its sub-agents'
    counting = [
        call
        for place, call in enumerate(all_calls)
        if _is_covered_by_footer(call, all_calls[place + 1 :])
    ]
    posted_ids = {call.id for call in counting if is_outcome_posted(tx, call)}
    unposted_calls = [
        call for call in counting if call.status in FOOTER_STATUSES and call.id not in posted_ids
    ]
    asked_people = any(isinstance(load_gate(call.gate), Ask) for call in unposted_calls)
    requester = run.requester if last and asked_people else ""
    call_outcomes = [
        answers.CallOutcome(
            call.status, "", call.id in posted_ids, failed_midway=_is_failed_midway(call)
        )
        for call in counting
    ]
    unapproved = claims.says_approved and not any(_was_approved(tx, call) for call in counting)
    if unapproved or do_claims_contradict_record(claims, call_outcomes, whole=last):
        outcomes_with_effects = [
            each if each.was_reported else replace(each, effect=_effect_text(tx, tools, call))
            for call, each in zip(counting, call_outcomes, strict=True)
        ]
        record = answers.build_call_outcomes_line(outcomes_with_effects) + (
            NOBODY_APPROVED_TEXT if unapproved else ""
        )
        return answers.ModelAnswerFooter(requester=requester, record=record, note=note)
    outcomes = [_build_outcome_sentence(tx, tools, call) for call in unposted_calls] if last else []
    if len(outcomes) > MAX_FOOTER_OUTCOMES:
        more_count = len(outcomes) - MAX_FOOTER_OUTCOMES + 1
        outcomes[MAX_FOOTER_OUTCOMES - 1 :] = [f"And {more_count} more: the cards show them."]
    return answers.ModelAnswerFooter(outcomes, requester, note=note)


def _was_approved(tx: Transaction, call: Call) -> bool:
    """Return whether anybody has approved this revision of the call, or a grant covers it."""
    votes = calls.list_votes_on_revision(tx, call.id, call.revision)
    return bool(call.grant_id) or any(vote.verb is CallVerb.APPROVE for vote in votes)


def _is_failed_midway(call: Call) -> bool:
    return call.status is CallStatus.FAILED and outputs.is_failed_midway(call.output)


def is_outcome_posted(tx: Transaction, call: Call) -> bool:
    """Return whether a separate message in the thread says how the call ended."""
    if call.status in (CallStatus.REJECTED, CallStatus.EXPIRED):
        return True
    return outbox.find_message_by_key(tx, _build_outcome_message_key(call)) is not None


def _is_covered_by_footer(call: Call, later: list[Call]) -> bool:
    """Return whether an answer's footer states how the call ended.

    It leaves out reads that nobody was asked about, superseded calls, and calls refused for invalid
    arguments that the model tried again.
    """
    if call.status is CallStatus.SUPERSEDED:
        return False
    if call.status is CallStatus.REFUSED:
        slip = call.output.startswith(outputs.INVALID_ARGUMENTS_PREFIX)
        return not (slip and any(each.tool == call.tool for each in later))
    return call.does != Effect.READ or isinstance(load_gate(call.gate), Ask)


def _effect_text(tx: Transaction, tools: Registry, call: Call) -> str:
    if revision := calls.find_revision(tx, call.id, call.revision):
        return call_state.describe_revision_effect(tools, call, revision)
    tool = tools.find_tool_of_call(call)
    return tool.title if tool else call.tool


def post_outcome_unless_posted(tx: Transaction, tools: Registry, run: Run, call: Call) -> None:
    """Post how the call ended in the thread, unless another message says it."""
    if body := _build_outcome_message(tx, tools, call):
        outbox.queue_notice(tx, run, f"ended:{call.id}:{call.revision}:{call.status}", body)


def _build_outcome_message(
    tx: Transaction, tools: Registry, call: Call
) -> Mapping[str, Any] | None:
    effect = call_state.describe_call_effect(tools, tx, call)
    match call.status:
        case CallStatus.SUCCEEDED if call.does == Effect.READ:
            if outbox.find_message_by_key(tx, f"table:{call.id}:{call.revision}"):
                return None  # the table's own message shows the rows
            text, blocks = render_lookup_result(effect, outputs.extract_tool_result(call.output))
            return {"text": text, "blocks": blocks}
        case CallStatus.SUCCEEDED | CallStatus.FAILED if is_outcome_posted(tx, call):
            return None
        case CallStatus.SUCCEEDED:
            text = sentences.call_done_notice(effect, call.note)
            return {"text": _add_reporter(tx, call, text)}
        case CallStatus.FAILED:
            midway = outputs.is_failed_midway(call.output)
            text = sentences.call_failed_notice(effect, call.note, midway=midway)
            return {"text": _add_reporter(tx, call, text)}
        case CallStatus.UNKNOWN if calls.was_left_unreported_by_program(call):
            return (
                None
                if is_outcome_posted(tx, call)
                else {"text": sentences.outcome_not_reported_notice(effect)}
            )
        case CallStatus.UNKNOWN:
            return {"text": sentences.call_outcome_unknown_notice(effect)}
        case CallStatus.INVALIDATED:
            return {"text": sentences.call_not_done_notice(effect, call.note)}
        case CallStatus.REFUSED:
            return {"text": sentences.no_approver_asked_notice(call.note)}
        case _:
            return None
