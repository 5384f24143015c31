"""Edits of calls: reading what was submitted, checking it and storing it.

A submitted dialog is checked at once, for errors at its fields (`Edits.read`), and once more when
the loop stores it: data, people and policy may have changed in between.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from json import dumps, loads
from typing import Any

from pydantic import BaseModel

from bot.approvals.call_checks import RefusedError, lacking
from bot.approvals.call_gates import for_thread, gate_of
from bot.approvals.call_state import context_of, effect_of, fingerprint, kept, next_moment
from bot.approvals.card_routing import Place, RoutedCall, find_place, put_cards, route, withdraw
from bot.approvals.facts import Sources
from bot.approvals.permissions import Permissions
from bot.approvals.replies import tell
from bot.cards import notices, refusals, sentence_words
from bot.cards.edit_form import FieldErrors, failure_at_input, read_submission
from bot.policy.authority import Authority, LookupFailedError, No
from bot.policy.gates import Allow, Ask, Deny, dump_gate, load_gate, stricter_gate
from bot.tools import Preview, Registry, Tool, ToolError
from bot.tools.arguments import as_editable, dump_arguments, load_arguments, readable_arguments
from bot.tools.names import NameResolver
from bot.tools.preview import Previews
from storage import calls, decisions, inbox, outbox, runs
from storage.calls import ShownRevision
from storage.chain import key_with_id
from storage.columns import values
from storage.decisions import AppliedDecision, OpenRevision
from storage.models import Call, Delivery, Run
from storage.states import Verb
from storage.transaction import Transaction


@dataclass(frozen=True, slots=True)
class Edit:
    """A submitted edit, checked and ready to be stored."""

    run: Run
    shown: ShownRevision  # the call as it was when it was checked
    arguments: str  # canonical JSON
    gate: Ask
    preview: Preview
    approve: bool  # its editor wants to approve it as well
    names: str  # of the ids in it, as JSON

    @property
    def approve_too(self) -> bool:
        """Return whether the editor also approves, and has seen the preview of the new card."""
        call, new = self.shown.call, self.preview
        same = (new.text, new.expects) == (call.preview, call.expects)
        return self.approve and (same or not new.text.strip())

    def edited(self) -> Call:
        """Return the call as it will be after the edit, as far as it matters for permissions."""
        return Call(**(values(self.shown.call) | {"gate": dump_gate(self.gate)}))


@dataclass(frozen=True, slots=True)
class UnchangedEdit:
    """A submission that changes nothing."""

    run: Run
    shown: ShownRevision
    approve: bool


@dataclass(frozen=True, slots=True)
class ForbiddenEdit:
    """An edit that is not allowed; the sentence is for its editor."""

    sentence: str


LOOK_FIRST = "Saved, but not approved yet: check the new preview on the card first."
Submission = Edit | UnchangedEdit | FieldErrors | ForbiddenEdit
Approve = Callable[[Transaction, Call, Callable[[], None]], None]


class Edits:
    """Reads and stores edits. One per process; `read` on any thread, `store` on the loop only."""

    def __init__(
        self,
        sources: Sources,
        authority: Authority,
        tools: Registry,
        permissions: Permissions,
        key: bytes,
        *,
        previews: Previews,
        wake: Callable[[], None],
    ) -> None:
        """Store the dependencies; `permissions` says who may edit, `key` signs what would run.

        `wake` is called when a preview that was missing has arrived.
        """
        self._authority = authority
        self._sources = sources
        self._tools = tools
        self._permissions = permissions
        self._key = key
        self._previews = previews
        self._wake = wake

    def read(
        self,
        call_id: str,
        revision: int,
        state: dict[str, Any],
        person: str,
        *,
        at: datetime,
        patience: float = 0,
    ) -> Submission:
        """Return the submitted edit, checked, or why it may not be stored. Looks people up.

        Checked are the call, the person, the fields, the policy and the tool's own preview.
        `state`: of the dialog's elements. `patience`: seconds to wait for the preview.
        """
        with self._sources.store.read() as tx:
            found = decisions.check_decidable(tx, call_id, revision, at)
            shown = calls.shown(tx, call_id) if isinstance(found, OpenRevision) else None
            run = runs.get(tx, shown.call.run_id) if shown else None
        tool = self._tools.of(shown.call) if shown else None
        if shown is None or run is None or tool is None:
            return ForbiddenEdit(self._permissions.lost(found, person))
        verdict = self._permissions.verdict(Verb.EDIT, shown.call, run, person, at=at)
        if isinstance(verdict, No):
            return ForbiddenEdit(self._permissions.refusal(verdict, shown.call, Verb.EDIT))
        editable, before = as_editable(tool, load_gate(shown.call.gate)), _readable(tool, shown)
        names = NameResolver(self._sources.directory, run.requester)
        try:
            parsed = read_submission(editable, before, state, names)
        except LookupFailedError:
            return ForbiddenEdit(refusals.lookup_failed())
        if isinstance(parsed, FieldErrors):
            return parsed
        if not parsed.changed:
            return UnchangedEdit(run, shown, parsed.approve)
        args = load_arguments(tool, dumps(parsed.arguments))
        now = self._gate(run, shown, tool, args)
        if isinstance(now, ForbiddenEdit):
            return now
        if short := self._lacking(run, shown.call, now, person):
            return short
        try:
            seen = self._preview(run, shown, tool, args, patience)
        except ToolError as error:
            return failure_at_input(editable, before, parsed.arguments, str(error))
        known, arguments = loads(shown.call.names) | names.found, dump_arguments(args)
        if why := _hidden(tool, shown, arguments, known, seen):
            return failure_at_input(editable, before, parsed.arguments, why)
        return Edit(run, shown, arguments, now, seen, parsed.approve, dumps(known))

    def _lacking(self, run: Run, call: Call, gate: Ask, person: str) -> ForbiddenEdit | None:
        """Return a refusal if too few people could approve the call after this person's edit.

        None if there are enough. Looks people up.
        """
        with self._sources.store.read() as tx:
            editors = calls.editors(tx, call.id) | {person}
        try:
            short = self._authority.shortage(
                gate, requester=run.requester, channel=run.channel, editors=editors
            )
        except LookupFailedError:
            return ForbiddenEdit(refusals.lookup_failed())
        return ForbiddenEdit(refusals.too_few_after_edit(gate.people)) if short > 0 else None

    def _preview(
        self, run: Run, shown: ShownRevision, tool: Tool[Any], args: BaseModel, patience: float
    ) -> Preview:
        """Return the tool's preview of the edited call.

        Raises ToolError where it would fail, NotYetKnownError while the tool is being asked.
        """
        call, now = shown.call, self._sources.clock.now()
        seen = self._previews.preview_of_edit(
            tool,
            args,
            context_of(run, call, now),
            (call.id, call.revision, dump_arguments(args)),
            patience=patience,
            then=self._wake,
        )
        return for_thread(self._sources, run, seen)

    def _gate(
        self, run: Run, shown: ShownRevision, tool: Tool[Any], args: BaseModel
    ) -> Ask | ForbiddenEdit:
        """Return the gate of the edited call, or a refusal if policy denies it.

        If policy gives another gate to the new arguments than to the old, both gates have to be
        met.
        """
        call = shown.call
        before, now = load_gate(call.gate), gate_of(self._sources, run, tool, args, call=call)
        match now:
            case Deny(reason=reason):
                return ForbiddenEdit(f"Policy forbids this: {sentence_words.cite(reason)}")
            case Allow() if isinstance(before, Ask):
                now = before  # what people were asked about is not taken from them by an edit
            case Ask() if isinstance(before, Ask):
                now = stricter_gate(before, now)
            case _:
                pass
        assert isinstance(now, Ask)
        return now

    def store(self, delivery: Delivery, edit: Edit, approve: Approve | None = None) -> None:
        """Store an edit and settle the delivery; tell the editor if it was not stored.

        `approve` has the editor approve the edited call, and settles, in the same transaction; it
        gets a function that announces the edit in the thread.
        """
        call = edit.shown.call
        self._previews.forget((call.id, call.revision, edit.arguments))
        try:
            place = self._other_place(edit)
        except RefusedError as refused:
            with self._sources.store.write() as tx:
                tell(tx, delivery, f"Nobody could approve that: {refused.note}.")
                inbox.settle_delivery(tx, delivery, "refused")
            return
        with self._sources.store.write() as tx:
            outcome = decisions.edit(
                tx,
                call.id,
                call.revision,
                delivery.user,
                at=delivery.received_at,
                **self._revision(edit, delivery.received_at),
            )
            if not isinstance(outcome, AppliedDecision):
                tell(tx, delivery, self._permissions.lost(outcome, delivery.user))
                inbox.settle_delivery(tx, delivery, "the edit came too late")
                return
            if place is not None:
                withdraw(tx, call.plan_id, {call.id})
                asked = RoutedCall(outcome.call, edit.gate, place)
                put_cards(tx, edit.run, call.plan_id, [asked])
            effect = effect_of(self._tools, tx, outcome.call)
            line = notices.decision_line(Verb.EDIT, delivery.user, [effect])
            key, body = f"edited:{delivery.seq}", {"text": line}
            if approve is not None:
                approve(tx, outcome.call, lambda: outbox.notice(tx, edit.run, key, body))
            else:
                outbox.notice(tx, edit.run, key, body)
                tell(tx, delivery, LOOK_FIRST if edit.approve else "")
                inbox.settle_delivery(tx, delivery, "edited")

    def _other_place(self, edit: Edit) -> Place | None:
        """Return where other people are asked now; None if the same people are. Looks them up."""
        if route(load_gate(edit.shown.call.gate)) == route(edit.gate):
            return None
        return find_place(self._authority, edit.run, edit.gate)

    def _revision(self, edit: Edit, at: datetime) -> dict[str, Any]:
        """Return the columns of the new revision."""
        call, gate = edit.shown.call, dump_gate(edit.gate)
        if load_gate(call.gate) == edit.gate:  # an earlier build wrote it in more words
            gate = call.gate
        tool, seen = self._tools.known(call), edit.preview
        deadline = edit.gate.after(at, edit.gate.deadline)
        return {
            "arguments": edit.arguments,
            "secret": tool.secret_paths(loads(edit.arguments)),
            "digest": fingerprint(
                key_with_id(self._key, call.key_id),
                edit.run,
                tool,
                edit.arguments,
                gate=gate,
                revision=call.revision + 1,
                expects=seen.expects,
            ),
            "gate": gate,
            "deadline": min(deadline, call.deadline) if call.deadline else deadline,
            **kept(seen),
            "names": edit.names,
            "next_at": next_moment(edit.gate, call.asked_at or call.created_at),
        }


def _hidden(
    tool: Tool[Any], shown: ShownRevision, arguments: str, names: dict[str, str], seen: Preview
) -> str:
    """Return why approvers could not be shown all of an edit; "" if they can."""
    before, reason = shown.revision.arguments, shown.call.reason
    return lacking(tool, arguments, names, preview=seen.text, reason=reason, before=before)


def _readable(tool: Tool[Any], shown: ShownRevision) -> dict[str, Any]:
    """Return the arguments as the dialog showed them."""
    return readable_arguments(tool, shown.revision.arguments)
