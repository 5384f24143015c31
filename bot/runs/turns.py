"""Model turns: what was said and done goes to the model, its answer or plan is stored.

A turn does not wait for the disk: after a power failure it is simply taken again, and the outbox
tells nobody of it before it is there.
"""

from __future__ import annotations

from collections.abc import Callable

from bot.agent import prompt
from bot.agent.turn import ModelTurns, Proposal, Reply
from bot.approvals.terms.limits import Allowance
from bot.clock import Clock
from bot.messages.answers import whole_answer
from bot.runs import transcript
from bot.runs.ports import Answer, Presence, Thread
from bot.runs.proposals import Proposals, asked_of, born, only_waits, show
from bot.runs.results import record_of
from bot.signals import Signals
from bot.tools import Registry
from storage import inbox, moves, runs
from storage.models import Plan, Run
from storage.patience import until_stored
from storage.states import RunStatus
from storage.store import Store
from storage.transaction import Transaction
from storage.transcripts import Transcripts

R = RunStatus


class Turns:
    """One per worker; a turn holds no truth of its own."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        tools: Registry,
        signals: Signals,
        *,
        planner: ModelTurns,
        proposals: Proposals,
        limits: Allowance,
        transcripts: Transcripts,
        thread: Thread,
        answer: Callable[[Run], Answer],
        presence: Presence,
    ) -> None:
        """`answer` opens the way for one turn's words; `thread` reads what was said before."""
        self._store = store
        self._clock = clock
        self._tools = tools
        self._signals = signals
        self._planner = planner
        self._proposals = proposals
        self._limits = limits
        self._transcripts = transcripts
        self._thread = thread
        self._answer = answer
        self._presence = presence

    def take(self, run: Run) -> bool:
        """Take in what was said, ask the model, and store what it answers or proposes.

        Returns whether there is more to do now.
        """
        self._signals.give_way()
        self._presence.working(run)
        self._thread.take_in(run)
        with self._store.read() as tx:
            over = self._limits.on_going_on(tx, run)
            before = self._transcripts.read(tx, run)
        if over:
            return self._end(run, over)
        items = transcript.complete(before)
        tools = [transcript.function(tool) for tool in self._tools]
        answer = self._answer(run)
        try:
            result = self._planner.turn(items, tools, prompt.INSTRUCTIONS, answer)
            return until_stored(
                lambda: self._stored(run, result, answer, before.proposed),
                self._signals.stopping,
                f"run {run.id}: what the model said",
            )
        except BaseException:
            answer.abandon()
            raise

    def _stored(
        self, run: Run, result: Reply | Proposal, answer: Answer, taken: frozenset[str]
    ) -> bool:
        if isinstance(result, Reply):
            return self._store_reply(run, result, answer)
        return self._store_plan(run, result, answer, taken)

    def _end(self, run: Run, text: str) -> bool:
        item = {"role": "assistant", "content": [{"type": "output_text", "text": text}]}
        return self._store_reply(run, Reply(text, [item], 0), self._answer(run))

    def _store_reply(self, run: Run, reply: Reply, answer: Answer) -> bool:
        now = self._clock.now()
        with self._store.write(durable=False) as tx:
            held = self._count(tx, run, reply)
            # said while the model was answering: go on with that
            more = bool(inbox.held(tx, run.id))
            text = "" if more and not reply.text.strip() else whole_answer(reply.text, reply.cut)
            record = "" if more else record_of(tx, self._tools, run.id)
            answer.finish(tx, text, last=not more, record=record)
            if not more and not moves.run(tx, held, R.COMPLETED, at=now, fence=run.fence):
                raise moves.FencedError(run.id)
        if not more:
            self._presence.done(run)
        self._signals.post.give()
        return more

    def _store_plan(
        self, run: Run, proposal: Proposal, answer: Answer, taken: frozenset[str]
    ) -> bool:
        now = self._clock.now()
        row = Plan(run_id=run.id, turn=run.turns + 1, created_at=now)
        prepared = self._proposals.prepare(run, row.id, proposal.calls, taken)
        transcript.rename(proposal, proposal.calls, prepared)
        asked = asked_of(prepared)
        waits = only_waits(prepared)  # then it is suspended in the same transaction
        with self._store.write(durable=False) as tx:
            held = self._count(tx, run, proposal, calls=len(prepared), cards=bool(asked))
            born(tx, self._tools, row, prepared, actor="agent")
            answer.finish(tx, proposal.text.strip(), last=False)
            show(tx, held, row.id, prepared)
            for each in prepared:
                if each.tell_requester:
                    tool = self._tools.get(each.call.tool)
                    transcript.tell(tx, run, each, tool.title if tool else each.call.tool)
            if waits and not moves.run(tx, held, R.WAITING, at=now, fence=run.fence):
                raise moves.FencedError(run.id)
        if waits:
            announce_wait(run, self._signals, self._presence)
        else:
            self._signals.post.give()
        return not waits

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


def announce_wait(run: Run, signals: Signals, presence: Presence) -> None:
    """Say that a run waits for people, once that is stored."""
    signals.post.give()
    signals.work.give()  # a nearer deadline may have come into being
    presence.waiting(run)
