"""How a call stands, as the operator is shown it: rows as everybody reads them, and what they may.

Looks people up, on the terminal's own threads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pydantic import ValidationError

from bot.approvals.call_state import approving, effect_of
from bot.approvals.card_views import call_view
from bot.approvals.person_questions import AskedQuestion, is_question, may_answer, read, server_of
from bot.cards.button_codec import CallTarget, encode
from bot.cards.call_pieces import finality
from bot.cards.slack_text import in_utc, mention, strip_mrkdwn, visible
from bot.cards.views import CallView
from bot.policy.authority import LookupFailedError, Yes
from bot.policy.gates import Approvers, Ask
from bot.surfaces.port import Host
from bot.terminal.operator_input import inputs_of_edit, inputs_of_question, shown
from bot.terminal.request_reports import deciders_of, plan_of, stored_gate
from bot.terminal.terminal_messages import CallShown, FieldShown, May
from bot.tools.arguments import as_editable, readable_arguments
from storage import call_history, calls, request_lists, runs
from storage.masking import mask_secrets
from storage.models import Call, Run, Vote
from storage.states import CallStatus, Verb
from storage.transaction import Transaction

MOST = 50  # calls of which it is judged whether the operator may decide
C = CallStatus


class Seen:
    """One for the terminal."""

    def __init__(self, host: Host, operator: str) -> None:
        """`operator`: the Slack user id of whoever sits there."""
        self._host = host
        self._operator = operator

    def pending(self) -> tuple[CallShown, ...]:
        """Return what waits for the operator: to decide, to answer, to say what became of it."""
        host, now = self._host, self._host.clock.now()
        with host.store.read() as tx:
            team = host.identity.team
            found = request_lists.waiting_calls(tx, team, now, MOST)
            found += request_lists.waiting_calls(tx, team, now, MOST, C.UNKNOWN)
        looked = [self.call(each.id) for each in found]
        return tuple(each for each in looked if each and each.may)

    def call(self, call_id: str) -> CallShown | None:
        """Return how a call stands and what the operator may do to it; None where there is none."""
        host, now = self._host, self._host.clock.now()
        with host.store.read() as tx:
            call = calls.get(tx, call_id)
            run = runs.get(tx, call.run_id) if call else None
            if call is None or run is None:
                return None
            # what was refused before policy was asked has no more to show
            view = call_view(host.tools, tx, call_id) if stored_gate(call) else None
            question = read(tx, call_id) if is_question(call) else None
            votes = calls.votes(tx, call.id, call.revision)
            who, plan = deciders_of(tx, call, now), plan_of(tx, call)
            effect = visible(" ".join(effect_of(host.tools, tx, call).split()))
            fields = self._fields(tx, call, question)
            declined = call_history.is_declined(tx, call)
        wanted, asker = encode(CallTarget(call.id, call.revision)), self.person(run.requester)
        if view is None:
            note = visible(mask_secrets(call.note))
            return CallShown(wanted, "", run.id, call.status, effect, asker, (), note=note)
        return CallShown(
            id=wanted,
            plan=plan,
            run=run.id,
            status=call.status,
            effect=effect,
            requester=asker,
            values=tuple(_asked(question, fields) if question else _values(view)),
            is_final=view.does == "destructive",
            final=finality(view.does, view.stated),
            chain=view.chain,
            preview=view.preview,
            reason=visible(mask_secrets(view.agent_reason)),
            deciders=self._in_words(who, run),
            deadline=in_utc(call.deadline) if call.deadline else "",
            approved_by=", ".join(self.person(vote.person) for vote in approving(votes)),
            note=visible(view.outcome or view.result or view.note),
            question=is_question(call),
            declined=declined,
            covered=view.covered,
            may=tuple(self._may(call, run, view, question, votes)),
            fields=fields,
        )

    def person(self, person: str) -> str:
        """Return the name of somebody."""
        return strip_mrkdwn(self._host.named(mention(person)))

    def _fields(
        self, tx: Transaction, call: Call, question: AskedQuestion | None
    ) -> tuple[FieldShown, ...]:
        found = calls.shown(tx, call.id)
        tool = self._host.tools.of(call)
        if call.status is not C.PENDING or found is None:
            return ()
        if question is not None:
            return shown(inputs_of_question(question.asked))
        gate = stored_gate(call)
        if tool is None or not isinstance(gate, Ask):
            return ()
        try:
            arguments = readable_arguments(tool, found.revision.arguments)
        except ValidationError:  # the tool has changed since
            return ()
        return shown(inputs_of_edit(as_editable(tool, gate), arguments))

    def _may(
        self,
        call: Call,
        run: Run,
        view: CallView,
        question: AskedQuestion | None,
        votes: list[Vote],
    ) -> Iterator[May]:
        if question is not None:
            if call.status is C.PENDING and self._may_answer(question):
                yield May.ANSWER
            return
        if call.status is C.UNKNOWN and self._may_resolve(call, run):
            yield May.RESOLVE
        if call.status is not C.PENDING:
            return
        voted = any(self._operator in (vote.person, vote.for_person) for vote in votes)
        if not voted and not view.covered and self._verdict(Verb.APPROVE, call, run):
            yield May.APPROVE
        if view.editable and self._verdict(Verb.EDIT, call, run):
            yield May.EDIT
        if self._verdict(Verb.REJECT, call, run):
            yield May.REJECT

    def _may_answer(self, question: AskedQuestion) -> bool:
        try:
            return may_answer(self._host.authority, question, self._operator)
        except LookupFailedError:
            return False

    def _may_resolve(self, call: Call, run: Run) -> bool:
        if isinstance(stored_gate(call), Ask):
            return self._verdict(Verb.RESOLVE, call, run)
        return run.requester == self._operator

    def _verdict(self, verb: Verb, call: Call, run: Run) -> bool:
        now = self._host.clock.now()
        found = self._host.permissions.verdict(verb, call, run, self._operator, at=now)
        return isinstance(found, Yes)

    def _in_words(self, who: Approvers | None, run: Run) -> str:
        """Return who may decide, as the policy names them, people by name."""
        if who is None:
            return ""
        named = [*(f"@{each}" for each in who.groups), *map(self.person, who.users)]
        named += ["the members of the channel where it was asked"] if who.channel else []
        named += [self.person(run.requester)] if who.requester else []
        return ", ".join(named)


def _values(view: CallView) -> Iterator[tuple[str, str, str]]:
    for each in view.values:
        if each.says_something:
            yield visible(each.label), each.text, each.before or ""


def _asked(question: AskedQuestion, fields: Sequence[FieldShown]) -> Iterator[tuple[str, str, str]]:
    if server := server_of(question.run):
        yield "Asked by", visible(f"the server {server}"), ""
    yield "Question", visible(mask_secrets(question.asked.question)), ""
    if len(fields) > 1:
        yield "Asks for", ", ".join(each.label for each in fields), ""
    elif fields and fields[0].options:
        yield "One of", ", ".join(fields[0].options), ""
