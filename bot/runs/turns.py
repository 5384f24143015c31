"""Model turns: the thread's transcript goes to the model, and its answer or plan is stored.

Storing a turn does not wait for the disk: after a power failure the turn is taken again, and the
outbox posts nothing of it before it is on disk.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from bot.agent import outputs, prompt
from bot.agent.turn import FunctionCall, PlannerError, Proposal, Reply
from bot.approvals.call_checks import Allowance
from bot.approvals.call_state import effect_of
from bot.cards import notices
from bot.cards.answers import AnswerFooter, says_something, shortcoming
from bot.clock import Clock
from bot.monitoring.live_events import Live
from bot.monitoring.spans import Work
from bot.runs.compaction import LongThreads, ModelPrompt
from bot.runs.ports import Answer, BroadcastAnswer, Presence, Thread, announce_wait
from bot.runs.proposals import (
    Proposals,
    asks_people,
    is_only_waiting,
    refuse_all_but_reads,
    show_plan,
    store_plan,
)
from bot.runs.results import answer_footer, say_end
from bot.runs.sub_agent_runs import SilentAnswer, hand_in_answer, report_failure
from bot.signals import Signals
from bot.tools import Registry
from storage import calls, endings, inbox, moves, outbox, runs
from storage import sub_agents as children
from storage.availability import until_stored
from storage.models import Call, Plan, Run, new_id
from storage.states import CallStatus, RunStatus, Verb
from storage.store import Store
from storage.transaction import Transaction
from storage.transcripts import Transcript

if TYPE_CHECKING:
    from bot.runs.proposals import PreparedCall


log = logging.getLogger("countersign.turns")
C, R = CallStatus, RunStatus


class ModelAnswer:
    """The result of one model turn, with the situation in which it was asked."""

    def __init__(self, result: Reply | Proposal, taken: frozenset[str], *, beside: bool) -> None:
        """`taken` are call ids in the transcript; `beside`: calls of the run wait for people.

        `replaced`: outputs for the model's calls that take back what waits; empty if it made none.
        """
        self.result = result
        self.taken = taken
        self.beside = beside
        self.replaced: list[dict[str, Any]] = []
        if beside and isinstance(result, Proposal):
            self.replaced = take_out_replacements(result, taken)


class Turns:
    """Model turns of runs; one instance per worker, without state of its own."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        tools: Registry,
        signals: Signals,
        *,
        threads: LongThreads,
        proposals: Proposals,
        limits: Allowance,
        thread: Thread,
        answer: Callable[[Run], Answer],
        presence: Presence,
    ) -> None:
        """`answer` makes the port for one turn's words; `thread` takes in messages.

        `threads` asks the model.
        """
        self._store = store
        self._clock = clock
        self._tools = tools
        self._signals = signals
        self._threads = threads
        self._roles = proposals.roles
        self._proposals = proposals
        self._limits = limits
        self._thread = thread
        self._answer = answer
        self._presence = presence

    def take(self, run: Run, waiting: Sequence[Call] = ()) -> bool:
        """Take in new messages, ask the model, and store its reply or plan.

        Returns whether there is more to do now. `waiting`: all calls of the run's plan if some of
        them wait for people; this is then a side turn, in which the model may answer, look things
        up, or take the plan back and propose something else.
        """
        self._signals.give_way()
        self._presence.working(run)
        self._thread.take_in(run)
        role = self._roles.of(run)
        with self._store.read() as tx:
            over = self._limits.on_going_on(tx, run)
            before = self._threads.read(tx, run)
        if over:
            return self._end(run, over, beside=bool(waiting))
        tools = [*role.offered(), *([outputs.REPLACE] if waiting else [])]
        items = partial(completed_items, meanwhile=interim_outputs(waiting))
        asked = ModelPrompt(items, tools, role.instructions)
        answer = self._aloud(run)
        try:
            with self._signals.tracer.start_span(Work.TURN):
                result = self._threads.ask(run, before, asked, answer)
            said = ModelAnswer(result, before.proposed, beside=bool(waiting))
            return until_stored(
                lambda: self._stored(run, said, answer),
                self._signals.stopping,
                f"run {run.id}: what the model said",
            )
        except PlannerError as error:
            answer.abandon()
            # a connection that we cut ourselves is no failure: the next start asks again
            if not waiting or self._signals.stopping.is_set():
                raise
            log.warning("run %s: no model turn beside what waits: %s", run.id, error)
            return self._end(run, notices.unanswered_beside(str(error)), beside=True)
        except BaseException:
            answer.abandon()
            raise

    def _aloud(self, run: Run) -> BroadcastAnswer:
        if run.parent_call:  # a sub-agent's words are heard by nobody but who asked it
            return BroadcastAnswer(SilentAnswer(), Live(), run)
        return BroadcastAnswer(self._answer(run), self._signals.live, run)

    def _stored(self, run: Run, said: ModelAnswer, answer: BroadcastAnswer) -> bool:
        if isinstance(said.result, Reply):
            return self._store_reply(run, said.result, answer, beside=said.beside)
        return self._store_plan(run, said, said.result, answer)

    def _end(self, run: Run, text: str, *, beside: bool) -> bool:
        item = {"role": "assistant", "content": [{"type": "output_text", "text": text}]}
        reply = Reply(text, [item], 0)
        return self._store_reply(run, reply, self._aloud(run), beside=beside, stopped=True)

    def _store_reply(
        self,
        run: Run,
        reply: Reply,
        answer: BroadcastAnswer,
        *,
        beside: bool,
        stopped: bool = False,
    ) -> bool:
        """Store a reply; the run is then COMPLETED, or WAITING as before if `beside`.

        `stopped`: the text is the bot's own, because a limit was reached.
        """
        now = self._clock.now()
        with self._store.write(durable=False) as tx:
            held = self._count(tx, run, reply)
            # said while the model was answering, or decided: go on with that
            more = bool(inbox.held_messages(tx, run.id)) or (
                beside and not calls.run_waits(tx, run.id)
            )
            last = not more and not beside
            text, under = self._said(tx, run, reply, last=last, stopped=stopped)
            if more and under.ours:  # nothing was said, and the next turn may say something
                text = ""
            answer.finish(tx, text, last=last, record=under)
            target = R.WAITING if beside else R.COMPLETED
            if not more and not moves.run(tx, held, target, at=now, fence=run.fence):
                raise moves.FencedError(run.id)
            if last and run.parent_call:
                back = report_failure if stopped else hand_in_answer
                told = f"{text}\n\n{under.note}" if under.note else text
                say_end(tx, self._tools, back(tx, self._tools, held, told, at=now))
        answer.stored()
        if last:
            self._presence.done(run)
        if last and run.parent_call:
            self._signals.work.give()  # whoever asked it goes on
        if beside and not more:
            announce_wait(run, self._signals, self._presence)
        self._signals.post.give()
        return more

    def _said(
        self, tx: Transaction, run: Run, reply: Reply, *, last: bool, stopped: bool
    ) -> tuple[str, AnswerFooter]:
        """Return the reply's text, or the bot's own if that is empty, and the footer below it."""
        lacks = "" if stopped else shortcoming(reply.text, reply.cut)
        ours = stopped or not says_something(reply.text)
        text = lacks if ours and lacks else reply.text.strip()
        under = answer_footer(
            tx, self._tools, run.id, "" if ours else text, last=last, note="" if ours else lacks
        )
        return text, replace(under, ours=ours)

    def _store_plan(
        self, run: Run, said: ModelAnswer, proposal: Proposal, answer: BroadcastAnswer
    ) -> bool:
        """Store the proposed calls: as the run's plan, beside a waiting plan, or in its place."""
        now = self._clock.now()
        row = Plan(run_id=run.id, turn=run.turns + 1, created_at=now)
        prepared = self._proposals.prepare(run, row.id, proposal.calls, said.taken)
        if said.beside and not said.replaced:
            refuse_all_but_reads(prepared, self._tools)
        use_own_call_ids(proposal, proposal.calls, prepared)
        asked = asks_people(prepared)
        with self._store.write(durable=False) as tx:
            # somebody has written meanwhile: that is answered beside
            waits = is_only_waiting(prepared) and not inbox.held_messages(tx, run.id)
            if said.replaced:
                self._take_back(tx, run)
            held = self._count(tx, run, proposal, calls=len(prepared), cards=asked)
            for told in said.replaced:
                runs.append(tx, held, told, at=now)
            if prepared:
                store_plan(tx, self._tools, row, prepared, actor="agent")
            text = proposal.text.strip() if says_something(proposal.text) else ""
            answer.finish(
                tx,
                text,
                last=False,
                record=answer_footer(tx, self._tools, run.id, text, last=False),
            )
            show_plan(tx, held, row.id, prepared)
            for each in prepared:
                if each.tell_requester:
                    tool = self._tools.of(each.call)
                    explain_refusal(tx, run, each, tool.title if tool else each.call.tool)
            if waits and not moves.run(tx, held, R.WAITING, at=now, fence=run.fence):
                raise moves.FencedError(run.id)
        answer.stored()
        if waits:
            announce_wait(run, self._signals, self._presence)
        else:
            self._signals.post.give()
        return not waits

    def _take_back(self, tx: Transaction, run: Run) -> None:
        """Supersede the plans that wait, and tell those who had approved their calls."""
        agents = children.open_runs_of_request(tx, run.root_id)
        for plan in (plan for each in agents for plan in calls.open_plans(tx, each.id)):
            waiting = [
                call
                for call in calls.of_plan(tx, plan.id)
                if call.status in (C.PENDING, C.APPROVED)
            ]
            voters = {
                vote.person
                for call in waiting
                for vote in calls.votes(tx, call.id, call.revision)
                if vote.verb is Verb.APPROVE
            }
            if voters:
                effects = [effect_of(self._tools, tx, call) for call in waiting]
                text = notices.votes_void(sorted(voters), run.requester, effects)
                outbox.put_everywhere(tx, run, [plan.id], f"void:{plan.id}", text)
        endings.supersede_run(tx, run, at=self._clock.now(), words=outputs)

    def _count(
        self,
        tx: Transaction,
        run: Run,
        result: Reply | Proposal,
        *,
        calls: int = 0,
        cards: bool = False,
    ) -> Run:
        """Store the turn's items and count the turn; FencedError if the run was taken away."""
        held = runs.count_turn(tx, run, tokens=result.tokens, calls=calls, cards=int(cards))
        if held is None:
            raise moves.FencedError(run.id)
        for item in result.items:
            runs.append(tx, held, item, at=self._clock.now())
        return held


# Small steps of a model turn, such as making a transcript valid for the model.


def explain_refusal(tx: Transaction, run: Run, prepared: PreparedCall, title: str) -> None:
    """Post in the thread why nobody was asked about a call; each reason once per run."""
    why = prepared.tell_requester
    reason = hashlib.sha256(re.sub(r"\d+", "", why).encode()).hexdigest()[:16]
    key = f"refused:{run.id}:{reason}"
    if outbox.by_key(tx, key) is None:
        text = notices.not_asked(title, why)
        outbox.notice(tx, run, key, {"text": text})


def use_own_call_ids(
    proposal: Proposal, proposed: list[FunctionCall], prepared: list[PreparedCall]
) -> None:
    """Replace the call ids in the proposal's items by the stored ones, which are all usable."""
    for each, ours in zip(proposed, prepared, strict=True):
        proposal.items[each.index]["call_id"] = ours.call.provider_id


def interim_outputs(waiting: Iterable[Call]) -> dict[str, str]:
    """Return outputs for the calls of a plan that waits, by the model's call id."""
    told = {
        CallStatus.PENDING: outputs.WAITS,
        CallStatus.APPROVED: outputs.APPROVED_AND_WAITS,
        CallStatus.ENTRUSTED: prompt.WORKING,
    }
    return {call.provider_id: told.get(call.status, call.output) for call in waiting}


def completed_items(
    transcript: Transcript, seal: str = "", *, meanwhile: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return the items with exactly one output for each call, as the model's API requires.

    In a long thread, a compaction that a server with this `seal` can read replaces older items.

    An output that came after a message moves before that. A call without an output gets the one in
    `meanwhile`, by call id; if there is none, its run was cancelled while its tool was running.
    """
    if not transcript.late and transcript.proposed == transcript.answered:
        return transcript.seen(seal)
    items = transcript.seen(seal)
    given = {each["call_id"]: each for each in items if each.get("type") == "function_call_output"}
    result: list[dict[str, Any]] = []
    lacking: list[str] = []
    for item in items:
        match item.get("type"):
            case "function_call":
                lacking.append(item["call_id"])
            case "function_call_output" if item["call_id"] not in lacking:
                continue  # it stands further up by now
            case "function_call_output":
                lacking.remove(item["call_id"])
            case _ if item.get("role") == "user":
                result += _outputs(lacking, given, meanwhile)
                lacking = []
        result.append(item)
    result += _outputs(lacking, given, meanwhile)
    newest = transcript.items[-1]
    if newest.get("type") == "function_call_output" and result[-1] is not newest:
        result.append(prompt.note_item(outputs.DECIDED))
    return result


def _outputs(
    ids: list[str], given: Mapping[str, dict[str, Any]], meanwhile: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    for each in ids:
        said = meanwhile.get(each, outputs.STILL_RUNNING)
        yield given.get(each) or output_item(each, said)


def output_item(call_id: str, said: str) -> dict[str, Any]:
    """Return the item that gives the model the output of a call, by the model's call id."""
    return {"type": "function_call_output", "call_id": call_id, "output": said}


def take_out_replacements(proposal: Proposal, taken: frozenset[str]) -> list[dict[str, Any]]:
    """Remove calls of replace_waiting_plan from the proposal; return an output for each.

    `taken`: call ids in the transcript; an id that is empty or already used is replaced by a new
    one.
    """
    wishes = [each for each in proposal.calls if each.name == outputs.REPLACE["name"]]
    proposal.calls[:] = [each for each in proposal.calls if each not in wishes]
    used = taken | {each.provider_id for each in proposal.calls}
    told = []
    for each in wishes:
        call_id = each.provider_id
        if not call_id or call_id in used:
            call_id = proposal.items[each.index]["call_id"] = f"call_{new_id()}"
        used |= {call_id}
        told.append(output_item(call_id, outputs.REPLACED))
    return told
