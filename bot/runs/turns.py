"""Model turns: what was said and done goes to the model, its answer or plan is stored.

A turn does not wait for the disk: after a power failure it is simply taken again, and the outbox
tells nobody of it before it is there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from bot.agent import outputs
from bot.agent.turn import PlannerError, Proposal, Reply
from bot.approvals.terms.effect import effect_of
from bot.approvals.terms.limits import Allowance
from bot.clock import Clock
from bot.live import Live
from bot.messages.answers import Below, says_something, shortcoming
from bot.messages.sentences import notices
from bot.runs import transcript
from bot.runs.children.returning import give_up, hand_in
from bot.runs.children.unheard import Unheard
from bot.runs.compaction.threads import LongThreads, Prompt
from bot.runs.ports import Answer, AnswerAloud, Presence, Thread, announce_wait
from bot.runs.proposals.prepared import asks_people, born, only_reads, only_waits, show
from bot.runs.proposals.proposals import Proposals
from bot.runs.results import below, say_end
from bot.signals import Signals
from bot.tools import Registry
from bot.watch.passages import Work
from storage import calls, children, endings, inbox, moves, outbox, runs
from storage.models import Call, Plan, Run
from storage.patience import until_stored
from storage.states import CallStatus, RunStatus, Verb
from storage.store import Store
from storage.transaction import Transaction

log = logging.getLogger("countersign.turns")
C, R = CallStatus, RunStatus


class Heard:
    """What the model said in one turn, and to what."""

    def __init__(self, result: Reply | Proposal, taken: frozenset[str], *, beside: bool) -> None:
        """`taken`: ids of calls in the transcript; `beside`: while calls of the run wait.

        `replaced`: what answers the model's wish to take them back; empty where it has none.
        """
        self.result = result
        self.taken = taken
        self.beside = beside
        self.replaced: list[dict[str, Any]] = []
        if beside and isinstance(result, Proposal):
            self.replaced = transcript.take_back(result, taken)


class Turns:
    """One per worker; a turn holds no truth of its own."""

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
        """`answer` opens the way for one turn's words; `thread` reads what was said before;
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
        """Take in what was said, ask the model, and store what it answers or proposes.

        Returns whether there is more to do now. `waiting`: all calls of the run's plan, where some
        of them wait for people: then it is a side turn, in which the model may answer, look things
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
        items = partial(transcript.complete, meanwhile=transcript.standing(waiting))
        asked = Prompt(items, tools, role.instructions)
        answer = self._aloud(run)
        try:
            with self._signals.watch.over(Work.TURN):
                result = self._threads.ask(run, before, asked, answer)
            said = Heard(result, before.proposed, beside=bool(waiting))
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

    def _aloud(self, run: Run) -> AnswerAloud:
        if run.parent_call:  # a sub-agent's words are heard by nobody but who asked it
            return AnswerAloud(Unheard(), Live(), run)
        return AnswerAloud(self._answer(run), self._signals.live, run)

    def _stored(self, run: Run, said: Heard, answer: AnswerAloud) -> bool:
        if isinstance(said.result, Reply):
            return self._store_reply(run, said.result, answer, beside=said.beside)
        return self._store_plan(run, said, said.result, answer)

    def _end(self, run: Run, text: str, *, beside: bool) -> bool:
        item = {"role": "assistant", "content": [{"type": "output_text", "text": text}]}
        reply = Reply(text, [item], 0)
        return self._store_reply(run, reply, self._aloud(run), beside=beside, stopped=True)

    def _store_reply(
        self, run: Run, reply: Reply, answer: AnswerAloud, *, beside: bool, stopped: bool = False
    ) -> bool:
        """Store an answer: the request is done, or waits for people as before (`beside`).

        `stopped`: it is ours, for a limit was reached.
        """
        now = self._clock.now()
        with self._store.write(durable=False) as tx:
            held = self._count(tx, run, reply)
            # said while the model was answering, or decided: go on with that
            more = bool(inbox.held(tx, run.id)) or (beside and not calls.run_waits(tx, run.id))
            last = not more and not beside
            text, under = self._said(tx, run, reply, last=last, stopped=stopped)
            if more and under.ours:  # nothing was said, and the next turn may say something
                text = ""
            answer.finish(tx, text, last=last, record=under)
            target = R.WAITING if beside else R.COMPLETED
            if not more and not moves.run(tx, held, target, at=now, fence=run.fence):
                raise moves.FencedError(run.id)
            if last and run.parent_call:
                back = give_up if stopped else hand_in
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
    ) -> tuple[str, Below]:
        """Return an answer's words, or ours in their place, and what stands below."""
        lacks = "" if stopped else shortcoming(reply.text, reply.cut)
        ours = stopped or not says_something(reply.text)
        text = lacks if ours and lacks else reply.text.strip()
        under = below(
            tx, self._tools, run.id, "" if ours else text, last=last, note="" if ours else lacks
        )
        return text, replace(under, ours=ours)

    def _store_plan(self, run: Run, said: Heard, proposal: Proposal, answer: AnswerAloud) -> bool:
        """Store what is proposed: as the run's plan, or beside it, or in its place."""
        now = self._clock.now()
        row = Plan(run_id=run.id, turn=run.turns + 1, created_at=now)
        prepared = self._proposals.prepare(run, row.id, proposal.calls, said.taken)
        if said.beside and not said.replaced:
            only_reads(prepared, self._tools)
        transcript.rename(proposal, proposal.calls, prepared)
        asked = asks_people(prepared)
        with self._store.write(durable=False) as tx:
            # somebody has written meanwhile: that is answered beside
            waits = only_waits(prepared) and not inbox.held(tx, run.id)
            if said.replaced:
                self._take_back(tx, run)
            held = self._count(tx, run, proposal, calls=len(prepared), cards=asked)
            for told in said.replaced:
                runs.append(tx, held, told, at=now)
            if prepared:
                born(tx, self._tools, row, prepared, actor="agent")
            text = proposal.text.strip() if says_something(proposal.text) else ""
            answer.finish(
                tx, text, last=False, record=below(tx, self._tools, run.id, text, last=False)
            )
            show(tx, held, row.id, prepared)
            for each in prepared:
                if each.tell_requester:
                    tool = self._tools.of(each.call)
                    transcript.tell(tx, run, each, tool.title if tool else each.call.tool)
            if waits and not moves.run(tx, held, R.WAITING, at=now, fence=run.fence):
                raise moves.FencedError(run.id)
        answer.stored()
        if waits:
            announce_wait(run, self._signals, self._presence)
        else:
            self._signals.post.give()
        return not waits

    def _take_back(self, tx: Transaction, run: Run) -> None:
        """End what waits in favour of something else, and tell those who had approved of it."""
        agents = children.open_in(tx, run.root_id)
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
                outbox.everywhere(tx, run, [plan.id], f"void:{plan.id}", text)
        endings.remake(tx, run, at=self._clock.now(), words=outputs)

    def _count(
        self,
        tx: Transaction,
        run: Run,
        result: Reply | Proposal,
        *,
        calls: int = 0,
        cards: bool = False,
    ) -> Run:
        """Store the turn's items and count it; moves.FencedError where the run is not ours."""
        held = runs.count_turn(tx, run, tokens=result.tokens, calls=calls, cards=int(cards))
        if held is None:
            raise moves.FencedError(run.id)
        for item in result.items:
            runs.append(tx, held, item, at=self._clock.now())
        return held
