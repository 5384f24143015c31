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
from bot.approvals import grants
from bot.approvals.call_state import approving, effect_at, effect_of, stand_ins
from bot.cards import notices, request_sentences
from bot.cards.answers import AnswerFooter, CallOutcome, fits_cell, record_line, table_room
from bot.cards.claims import claims_of, contradict
from bot.cards.request_form import result_blocks
from bot.cards.views import gives_thanks
from bot.policy.gates import Ask, load_gate
from bot.tools import Effect, Registry, Table, tables
from storage import calls, outbox, runs
from storage.models import Call, Run
from storage.states import CallStatus, MessageKind, Verb
from storage.transaction import Transaction

RAN = (CallStatus.SUCCEEDED, CallStatus.FAILED, CallStatus.UNKNOWN)
LATER = datetime.max.replace(tzinfo=UTC)  # than anything that was said
ROWS, COLUMNS = 20, 10  # how much the table shows at most


def put_table(tx: Transaction, run: Run, call: Call, found: Table) -> None:
    """Post the rows that `call` found in its thread, and all of them as a file if not all fit.

    Posts nothing if there are no rows, as the call's result says that.
    """
    if not found.rows:
        return
    cells = [[tables.table_cell(value) for value in row] for row in found.rows]
    columns, shown = found.columns[:COLUMNS], [row[:COLUMNS] for row in cells[:ROWS]]
    shown = shown[: table_room(columns, shown)]
    whole = (
        len(cells) <= len(shown)
        and len(found.columns) <= COLUMNS
        and all(map(fits_cell, chain(columns, *shown)))
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
    outbox.put_in_thread(tx, run, f"table:{call.id}:{call.revision}", body, kind=MessageKind.TABLE)
    if not whole:
        file = {"name": name, "title": found.title, "content": tables.csv_text(found)}
        outbox.put_in_thread(
            tx, run, f"file:{call.id}:{call.revision}", file, kind=MessageKind.FILE
        )


def say_outcome(
    tx: Transaction, tools: Registry, run: Run, ended: calls.ApprovedCall, plan: Sequence[Call]
) -> None:
    """Post in the thread how a call that people approved ended, and who had a part in it.

    `plan`: the current calls of its plan.
    """
    call = ended.call
    if call.status not in RAN:
        return
    if not isinstance(load_gate(call.gate), Ask):  # nobody has decided about it
        return
    tool, people = tools.of(call), _people(tx, run, ended)
    effect, done = effect_at(tools, call, ended.revision), call.status is CallStatus.SUCCEEDED
    stated = call.note if done and tool is not None and tool.outcome is not None else ""
    text = notices.outcome_line(
        call.status,
        stated or (f"Done: {effect}" if done else effect),
        None if done and _is_told_later(tx, run, plan, people) else people,
        why=call.note if call.status is CallStatus.FAILED else "",
        handed_on=calls.is_handed_on_by_program(call),
        midway=_is_midway(call),
    )
    outbox.notice(tx, run, _outcome_key(call), {"text": text})


def say_end(tx: Transaction, tools: Registry, call_id: str) -> None:
    """Post the outcome of a call that a sub-agent has worked on; nothing if `call_id` is ""."""
    call = calls.get(tx, call_id)
    run, shown = (runs.get(tx, call.run_id), calls.approved(tx, call)) if call else (None, None)
    if run is not None and shown is not None:
        say_outcome(tx, tools, run, shown, calls.of_plan(tx, shown.call.plan_id))


def _people(tx: Transaction, run: Run, approved: calls.ApprovedCall) -> notices.CallParticipants:
    if giver := grants.grantor(tx, approved.call):
        return notices.CallParticipants(run.requester, (), ((giver, ""),), remembered=True)
    return notices.CallParticipants(
        run.requester,
        tuple(sorted(approved.editors)),
        tuple((vote.counts_for, vote.reason) for vote in approving(approved.votes)),
        stand_ins(approved.votes),
    )


def _is_told_later(
    tx: Transaction, run: Run, plan: Sequence[Call], people: notices.CallParticipants
) -> bool:
    """Return whether the plan's last call yet to run has the same people, so it will name them."""
    left = [each for each in plan if each.status is CallStatus.APPROVED]
    last = calls.approved(tx, left[-1]) if left else None
    return last is not None and _people(tx, run, last) == people


def _outcome_key(call: Call) -> str:
    return f"outcome:{call.id}:{call.revision}:{call.status}"


NOT_APPROVED = " Nobody has approved anything."


def answer_footer(
    tx: Transaction, tools: Registry, run_id: str, text: str, *, last: bool, note: str = ""
) -> AnswerFooter:
    """Return the footer for a model's words: what really became of the run's calls.

    It covers the calls that change something or asked people, and is loud if the words contradict
    it. Words that are not the `last` of the run get it only then; so does an answer to plain
    thanks. `note`: why the words are incomplete.
    """
    claims = claims_of(text)
    if not last and not (claims.told_done or claims.approved):
        return AnswerFooter(note=note)
    found = calls.of_request(tx, run_id)  # also of its sub-agents
    counting = [call for place, call in enumerate(found) if _counts(call, found[place + 1 :])]
    ended = [_ended(tx, tools, call) for call in counting]
    unapproved = claims.approved and not any(_was_approved(tx, call) for call in counting)
    loud = unapproved or contradict(claims, ended, whole=last)
    if not loud and (not last or (not found and _was_thanked(tx, run_id))):
        return AnswerFooter(note=note)
    record = record_line(ended) + (NOT_APPROVED if unapproved else "")
    return AnswerFooter(record, loud, note)


def _was_approved(tx: Transaction, call: Call) -> bool:
    """Return whether anybody has approved this revision of the call, or a grant covers it."""
    votes = calls.votes(tx, call.id, call.revision)
    return bool(call.grant_id) or any(vote.verb is Verb.APPROVE for vote in votes)


def _was_thanked(tx: Transaction, run_id: str) -> bool:
    written = [prompt.words_of_request(item) for item in runs.read_messages(tx, run_id, LATER)]
    written = [text for text in written if text.strip()]
    return bool(written) and all(map(gives_thanks, written))


def _ended(tx: Transaction, tools: Registry, call: Call) -> CallOutcome:
    told = is_reported(tx, call)
    effect = "" if told else _effect(tx, tools, call)
    return CallOutcome(call.status, effect, told, midway=_is_midway(call))


def _is_midway(call: Call) -> bool:
    return call.status is CallStatus.FAILED and outputs.midway(call.output)


def is_reported(tx: Transaction, call: Call) -> bool:
    """Return whether a message of its own in the thread says how the call ended."""
    if call.status in (CallStatus.REJECTED, CallStatus.EXPIRED):
        return True
    return outbox.by_key(tx, _outcome_key(call)) is not None


def _counts(call: Call, later: list[Call]) -> bool:
    """Return whether the footer covers the call: not if it only read, nor a corrected mistake."""
    if call.status is CallStatus.SUPERSEDED:
        return False
    if call.status is CallStatus.REFUSED:
        slip = call.output.startswith(outputs.INVALID)
        return not (slip and any(each.tool == call.tool for each in later))
    return call.does != Effect.READ or isinstance(load_gate(call.gate), Ask)


def _effect(tx: Transaction, tools: Registry, call: Call) -> str:
    if revision := calls.revision(tx, call.id, call.revision):
        return effect_at(tools, call, revision)
    tool = tools.of(call)
    return tool.title if tool else call.tool


def put_outcome(tx: Transaction, tools: Registry, run: Run, call: Call) -> None:
    """Post what became of the call in the thread, unless another message says it."""
    if body := _told(tx, tools, call):
        outbox.notice(tx, run, f"ended:{call.id}:{call.revision}:{call.status}", body)


def _told(tx: Transaction, tools: Registry, call: Call) -> Mapping[str, Any] | None:
    effect = effect_of(tools, tx, call)
    match call.status:
        case CallStatus.SUCCEEDED if call.does == Effect.READ:
            if outbox.by_key(tx, f"table:{call.id}:{call.revision}"):
                return None  # the rows stand there
            text, blocks = result_blocks(effect, outputs.result_of(call.output))
            return {"text": text, "blocks": blocks}
        case CallStatus.SUCCEEDED | CallStatus.FAILED if is_reported(tx, call):
            return None
        case CallStatus.SUCCEEDED:
            return {"text": request_sentences.was_done(effect, call.note)}
        case CallStatus.FAILED:
            midway = outputs.midway(call.output)
            return {"text": request_sentences.did_not_work(effect, call.note, midway=midway)}
        case CallStatus.UNKNOWN if calls.is_handed_on_by_program(call):
            return None if is_reported(tx, call) else {"text": request_sentences.handed_on(effect)}
        case CallStatus.UNKNOWN:
            return {"text": request_sentences.not_known(effect)}
        case CallStatus.INVALIDATED:
            return {"text": request_sentences.no_longer(effect, call.note)}
        case CallStatus.REFUSED:
            return {"text": request_sentences.nobody_asked(call.note)}
        case _:
            return None
