"""Model turns: the thread's transcript goes to the model, and its answer or plan is stored.

Storing a turn does not wait for the disk: after a power failure the turn is taken again, and the
outbox posts nothing of it before it is on disk.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from bot.agent import outputs, prompt
from bot.agent.turn import FunctionCall, PlannerError, Proposal, Reply
from bot.cards.answers import ModelAnswerFooter, has_visible_text, incomplete_answer_sentence
from bot.cards.notices import message_unanswered_notice
from bot.monitoring.live_events import LiveEventBroadcaster
from bot.monitoring.spans import WorkKind
from bot.runs import plans
from bot.runs.compaction import CompactingPlanner, ModelPrompt
from bot.runs.ports import Answer, BroadcastAnswer, Presence, RunThread, announce_run_waits
from bot.runs.proposals import ProposalPreparer
from bot.runs.results import build_answer_footer, post_untold_outcomes
from bot.runs.sub_agent_runs import SilentAnswer, store_sub_agent_answer, store_sub_agent_failure
from bot.signals import Signals
from storage import calls, inbox, moves, runs
from storage.record import Call, Plan, Run, Transaction, new_id, retry_until_stored
from storage.states import CallStatus, RunStatus
from storage.transcripts import Transcript

log = logging.getLogger("countersign.turns")
C, R = CallStatus, RunStatus


class ModelTurnResult:
    """The result of one model turn, and whether calls were waiting for people when it began."""

    def __init__(
        self, result: Reply | Proposal, taken: frozenset[str], *, has_waiting_calls: bool
    ) -> None:
        """`taken`: call ids in the transcript; `has_waiting_calls`: whether calls wait for people.

        Sets `replaced` to the outputs of the model's calls of the tool that replaces the waiting
        plan; empty if there are none.
        """
        self.result = result
        self.taken = taken
        self.beside = has_waiting_calls
        self.replaced: list[dict[str, Any]] = []
        if has_waiting_calls and isinstance(result, Proposal):
            self.replaced = remove_plan_replacement_calls(result, taken)


class ModelTurnTaker:
    """Asks the model for the next turn of runs; one instance per worker, without own state."""

    def __init__(
        self,
        signals: Signals,
        *,
        threads: CompactingPlanner,
        proposals: ProposalPreparer,
        thread: RunThread,
        answer: Callable[[Run], Answer],
        presence: Presence,
    ) -> None:
        """`answer` makes the port for one turn's words; `thread` takes in messages.

        `threads` asks the model.
        """
        self._store = proposals.sources.store
        self._clock = proposals.sources.clock
        self._tools = proposals.tools
        self._signals = signals
        self._threads = threads
        self._roles = proposals.roles
        self._proposals = proposals
        self._limits = proposals.limits
        self._thread = thread
        self._answer = answer
        self._presence = presence

    def take_turn(self, run: Run, waiting: Sequence[Call] = ()) -> bool:
        """Take in new messages, ask the model, and store its reply or plan.

        Returns whether there is more to do now. `waiting`: all calls of the run's plan if some of
        them wait for people; this is then a side turn, in which the model may answer, look things
        up, or take the plan back and propose something else.
        """
        self._signals.wait_until_urgent_work_done()
        self._presence.show_working(run)
        self._thread.add_messages_to_transcript(run)
        role = self._roles.load_role(run)
        with self._store.read() as tx:
            over = self._limits.describe_reached_turn_limit(tx, run)
            before = self._threads.read_transcript(tx, run)
        if over:
            told = message_unanswered_notice(over) if waiting else f"I stopped: {over}"
            return self._store_own_reply(run, told, waits=bool(waiting))
        tools = [
            *role.build_function_schemas(),
            *([outputs.REPLACE_PLAN_TOOL_SCHEMA] if waiting else []),
        ]
        items = partial(pair_calls_with_outputs, meanwhile=build_outputs_of_waiting_calls(waiting))
        model_prompt = ModelPrompt(items, tools, role.instructions)
        answer = self._open_answer(run)
        try:
            with self._signals.tracer.start_span(WorkKind.TURN):
                result = self._threads.take_turn(run, before, model_prompt, answer)
            turn_result = ModelTurnResult(
                result, before.proposed_call_ids, has_waiting_calls=bool(waiting)
            )
            return retry_until_stored(
                lambda: self._store_model_answer(run, turn_result, answer),
                self._signals.stopping,
                f"run {run.id}: what the model said",
            )
        except PlannerError as error:
            answer.close_failed_answer()
            # while stopping, we cut connections ourselves; the model is asked at the next start
            if not waiting or self._signals.stopping.is_set():
                raise
            log.warning("run %s: no model turn while calls wait: %s", run.id, error)
            return self._store_own_reply(run, message_unanswered_notice(str(error)), waits=True)
        except BaseException:
            answer.close_failed_answer()
            raise

    def _open_answer(self, run: Run) -> BroadcastAnswer:
        if run.parent_call:  # only the agent that called it reads what it writes
            return BroadcastAnswer(SilentAnswer(), LiveEventBroadcaster(), run)
        return BroadcastAnswer(self._answer(run), self._signals.live, run)

    def _store_model_answer(self, run: Run, said: ModelTurnResult, answer: BroadcastAnswer) -> bool:
        if isinstance(said.result, Reply):
            return self._store_reply(run, said.result, answer, waits=said.beside)
        return self._store_plan(run, said, said.result, answer)

    def _store_own_reply(self, run: Run, text: str, *, waits: bool) -> bool:
        item = {"role": "assistant", "content": [{"type": "output_text", "text": text}]}
        reply = Reply(text, [item], 0)
        return self._store_reply(run, reply, self._open_answer(run), waits=waits, stopped=True)

    def _store_reply(
        self,
        run: Run,
        reply: Reply,
        answer: BroadcastAnswer,
        *,
        waits: bool,
        stopped: bool = False,
    ) -> bool:
        """Store a reply; the run is then COMPLETED, or WAITING as before if `waits`.

        `stopped`: the text is the bot's own, because a limit was reached.
        """
        now = self._clock.now()
        with self._store.write(durable=False) as tx:
            current_run = self._store_and_count_turn(tx, run, reply)
            # messages or decisions came in while the model was answering
            has_more_to_do = bool(inbox.list_messages_held_for_run(tx, run.id)) or (
                waits and not calls.is_run_blocked(tx, run.id)
            )
            is_last = not has_more_to_do and not waits
            text, under = self._build_text_and_footer(tx, run, reply, last=is_last, stopped=stopped)
            # the model wrote nothing, and its next turn may still write something
            if has_more_to_do and under.ours:
                text = ""
            answer.store_whole_text(tx, text, last=is_last, record=under)
            target = R.WAITING if waits else R.COMPLETED
            if not has_more_to_do and not moves.change_run_status(
                tx, current_run, target, at=now, fence=run.fence
            ):
                raise moves.StaleFenceError(run.id)
            if is_last and run.parent_call:
                back = store_sub_agent_failure if stopped else store_sub_agent_answer
                answer_text = f"{text}\n\n{under.note}" if under.note else text
                back(tx, self._tools, current_run, answer_text, at=now)
        answer.broadcast_whole_text()
        if is_last:
            self._presence.show_done(run)
        if is_last and run.parent_call:
            self._signals.work.notify()  # the agent that called it can go on
        if waits and not has_more_to_do:
            announce_run_waits(run, self._signals, self._presence)
        self._signals.outbox.notify()
        return has_more_to_do

    def _build_text_and_footer(
        self, tx: Transaction, run: Run, reply: Reply, *, last: bool, stopped: bool
    ) -> tuple[str, ModelAnswerFooter]:
        """Return the reply's text, or the bot's own if that is empty, and the footer below it."""
        lacks = "" if stopped else incomplete_answer_sentence(reply.text, reply.cut_reason)
        ours = stopped or not has_visible_text(reply.text)
        text = lacks if ours and lacks else reply.text.strip()
        under = build_answer_footer(
            tx, self._tools, run, "" if ours else text, last=last, note="" if ours else lacks
        )
        return text, replace(under, ours=ours)

    def _store_plan(
        self, run: Run, turn_result: ModelTurnResult, proposal: Proposal, answer: BroadcastAnswer
    ) -> bool:
        """Store the proposed calls: as the run's plan, beside a waiting plan, or in its place."""
        now = self._clock.now()
        row = Plan(run_id=run.id, turn=run.turns + 1, created_at=now)
        prepared = self._proposals.prepare_calls(run, row.id, proposal.calls, turn_result.taken)
        if turn_result.beside and not turn_result.replaced:
            plans.refuse_all_but_reads(prepared, self._tools)
        replace_call_ids(proposal, proposal.calls, prepared)
        asks_people = plans.needs_approval_or_answer(prepared)
        with self._store.write(durable=False) as tx:
            # a message that came in meanwhile is answered first, in a side turn
            waits = plans.should_wait_for_people(prepared) and not inbox.list_messages_held_for_run(
                tx, run.id
            )
            if turn_result.replaced:
                plans.supersede_waiting_plans(tx, self._tools, run, now)
            current_run = self._store_and_count_turn(
                tx, run, proposal, calls=len(prepared), cards=asks_people
            )
            for replaced_item in turn_result.replaced:
                runs.append_transcript_item(tx, current_run, replaced_item, at=now)
            if prepared:
                plans.store_plan(tx, self._tools, row, prepared, actor="agent")
            text = proposal.text.strip() if has_visible_text(proposal.text) else ""
            answer.store_whole_text(
                tx,
                text,
                last=False,
                record=build_answer_footer(tx, self._tools, run, text, last=False),
            )
            # not the request's first plan, so there may be outcomes that were not posted
            if asks_people and (run.parent_call or current_run.calls > len(prepared)):
                post_untold_outcomes(tx, self._tools, run)
            plans.post_plan_cards(tx, current_run, row.id, prepared)
            for each in prepared:
                if each.reason_for_requester:
                    tool = self._tools.find_tool_of_call(each.call)
                    plans.post_refusal_reason(tx, run, each, tool.title if tool else each.call.tool)
            if waits and not moves.change_run_status(
                tx, current_run, R.WAITING, at=now, fence=run.fence
            ):
                raise moves.StaleFenceError(run.id)
        answer.broadcast_whole_text()
        if waits:
            announce_run_waits(run, self._signals, self._presence)
        else:
            self._signals.outbox.notify()
        return not waits

    def _store_and_count_turn(
        self,
        tx: Transaction,
        run: Run,
        result: Reply | Proposal,
        *,
        calls: int = 0,
        cards: bool = False,
    ) -> Run:
        """Store the turn's items and count the turn; StaleFenceError if the run was taken away."""
        held = runs.add_turn_to_counters(tx, run, tokens=result.tokens, calls=calls, cards=cards)
        for item in result.items:
            runs.append_transcript_item(tx, held, item, at=self._clock.now())
        return held


# Small steps of a model turn, such as making a transcript valid for the model.


def replace_call_ids(
    proposal: Proposal, proposed: list[FunctionCall], prepared: list[plans.PreparedCall]
) -> None:
    """Replace the call ids in the model's items by the stored ones, which are unique."""
    for each, ours in zip(proposed, prepared, strict=True):
        proposal.items[each.index]["call_id"] = ours.call.provider_id


def build_outputs_of_waiting_calls(waiting: Iterable[Call]) -> dict[str, str]:
    """Return for each call of a waiting plan the output that the model is given meanwhile.

    The keys are the model's own call ids.
    """
    told = {
        CallStatus.PENDING: outputs.WAITING_FOR_DECISION,
        CallStatus.APPROVED: outputs.APPROVED_AND_WAITS,
        CallStatus.ENTRUSTED: prompt.SUB_AGENT_WORKING_OUTPUT,
    }
    return {
        call.provider_id: outputs.APPROVED_FOR_LATER
        if calls.is_scheduled(call)
        else told.get(call.status, call.output)
        for call in waiting
    }


def pair_calls_with_outputs(
    transcript: Transcript, seal: str = "", *, meanwhile: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return the items with exactly one output for each call, as the model's API requires.

    In a long thread, a compaction that a server with this `seal` can read replaces older items.

    If a message came between a call and its output, the output is moved before the message. A call
    without an output gets the one in `meanwhile`, by call id, else STILL_RUNNING: its run was
    cancelled while its tool was running.
    """
    if (
        not transcript.has_late_message
        and transcript.proposed_call_ids == transcript.answered_call_ids
    ):
        return transcript.list_items_for_model(seal)
    items = transcript.list_items_for_model(seal)
    output_by_call_id = {
        each["call_id"]: each for each in items if each.get("type") == "function_call_output"
    }
    result: list[dict[str, Any]] = []
    lacking: list[str] = []
    for item in items:
        match item.get("type"):
            case "function_call":
                lacking.append(item["call_id"])
            case "function_call_output" if item["call_id"] not in lacking:
                continue  # already moved up to its call
            case "function_call_output":
                lacking.remove(item["call_id"])
            case _ if item.get("role") == "user":
                result += _iterate_outputs(lacking, output_by_call_id, meanwhile)
                lacking = []
        result.append(item)
    result += _iterate_outputs(lacking, output_by_call_id, meanwhile)
    newest = transcript.items[-1]
    if newest.get("type") == "function_call_output" and result[-1] is not newest:
        result.append(prompt.build_countersign_note_item(outputs.PLAN_DECIDED_NOTE))
    return result


def _iterate_outputs(
    ids: list[str], given: Mapping[str, dict[str, Any]], meanwhile: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    for each in ids:
        said = meanwhile.get(each, outputs.STILL_RUNNING)
        yield given.get(each) or build_output_item(each, said)


def build_output_item(call_id: str, output: str) -> dict[str, Any]:
    """Return the item that gives the model the output of a call, by the model's call id."""
    return {"type": "function_call_output", "call_id": call_id, "output": output}


def remove_plan_replacement_calls(
    proposal: Proposal, used_ids: frozenset[str]
) -> list[dict[str, Any]]:
    """Remove calls of the tool replace_waiting_plan from a proposal; return an output for each.

    `used_ids`: call ids in the transcript; an id that is empty or already used is replaced by a new
    one.
    """
    wishes = [
        each for each in proposal.calls if each.name == outputs.REPLACE_PLAN_TOOL_SCHEMA["name"]
    ]
    proposal.calls[:] = [each for each in proposal.calls if each not in wishes]
    used = used_ids | {each.provider_id for each in proposal.calls}
    output_items = []
    for each in wishes:
        call_id = each.provider_id
        if not call_id or call_id in used:
            call_id = proposal.items[each.index]["call_id"] = f"call_{new_id()}"
        used |= {call_id}
        output_items.append(build_output_item(call_id, outputs.WAITING_PLAN_WITHDRAWN))
    return output_items
