"""Turns clicks and submitted dialogs into decisions: who may (bot.policy.authority), then whether
it still counts (storage.decisions), then what everybody is told. Runs on the loop.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from bot.approvals.cards.card_view import effect_of
from bot.approvals.cards.placement import find_place
from bot.approvals.cards.routing import Asked, put_cards, route
from bot.approvals.permissions import Edit, Judge, pending_on, words_for
from bot.approvals.plans import Plans
from bot.approvals.replies import record_refusal, tell
from bot.approvals.requests import Requests
from bot.approvals.terms import grants
from bot.approvals.terms.fingerprint import fingerprint
from bot.approvals.terms.gating import next_moment, still_needed, weigher
from bot.approvals.terms.refusals import RefusedError
from bot.core import Core, body
from bot.messages import sentences
from bot.messages.forms.form import FieldErrors, read_submission
from bot.messages.modals import REASONS, read_feedback, read_rejection
from bot.messages.review import read_approval
from bot.policy.authority import No, Yes
from bot.policy.gates import Ask, dump_gate, load_gate
from bot.tools.arguments import as_editable, readable_arguments
from storage import calls, decisions, inbox, outbox, runs
from storage.calls import Shown
from storage.decisions import Applied, Gone, Open, Outcome
from storage.models import Call, Delivery, Run
from storage.states import CallStatus
from storage.transaction import Transaction

log = logging.getLogger("countersign.deciding")
RESOLVE = {"resolve_done": "done", "resolve_not_done": "not_done", "run_again": "again"}


@dataclass(frozen=True, slots=True)
class _Refused:
    """This person may not; the sentence is for them."""

    call: Call
    verdict: No
    sentence: str


@dataclass(frozen=True, slots=True)
class _Let:
    """This person may, in that stage of the gate."""

    gate: Ask
    stage: int


class Deciding:
    """One per process; `take` is called by the loop only."""

    def __init__(self, core: Core, judge: Judge) -> None:
        """`judge` knows who may."""
        self._core = core
        self._judge = judge
        self._requests = Requests(core, judge)
        self._plans = Plans(core, judge)

    def take(self, delivery: Delivery) -> None:
        """Deal with one click or submitted dialog, and settle it."""
        payload = body(delivery.body)
        if delivery.kind == "action":
            action = payload["actions"][0]
            self._click(delivery, str(action["action_id"]), _value(action))
        else:
            self._submitted(delivery, payload["view"])

    def _click(self, delivery: Delivery, action: str, value: str) -> None:
        target, _, number = value.partition(":")
        match action:
            case "approve":
                self._vote(delivery, [(target, _int(number))], "approve")
            case "approve_all":
                self._vote_all(delivery, value, "approve")
            case "more" if target == "withdraw":
                call_id, _, revision = number.partition(":")
                self._plans.withdraw(delivery, call_id, _int(revision))
            case "cancel_run":
                self._requests.cancel(delivery, target)
            case "retry":
                self._requests.retry(delivery, target)
            case "feedback":
                self._requests.feedback(delivery, value)
            case "resolve_done" | "resolve_not_done" | "run_again":
                self._requests.resolve(delivery, target, _int(number), RESOLVE[action])
            case _:
                log.warning("delivery %s: unknown action %r refused", delivery.seq, action[:80])
                self._settle(delivery, "unknown action refused")

    def _submitted(self, delivery: Delivery, view: dict[str, Any]) -> None:
        about = body(view["private_metadata"])
        state = view["state"]["values"]
        match view["callback_id"]:
            case "review_call":
                note, chosen = read_approval(state)
                self._vote(
                    delivery, [(about["call"], about["revision"])], "approve", note, remember=chosen
                )
            case "send_back":
                target, _, number = about["target"].partition(":")
                self._plans.send_back(delivery, target, _int(number), read_feedback(state))
            case "reject":
                reason = read_rejection(state)
                kind, _, rest = about["target"].partition(":")
                target, _, number = rest.partition(":")
                if not isinstance(reason, str):
                    self._settle(delivery, "invalid reason")
                elif kind == "plan":
                    self._vote_all(delivery, rest, "reject", reason)
                else:
                    self._vote(delivery, [(target, _int(number))], "reject", reason)
            case "edit_call":
                self._edit(delivery, about["call"], about["revision"], state)
            case _:
                self._settle(delivery, "unknown dialog refused")

    def _vote(
        self,
        delivery: Delivery,
        targets: list[tuple[str, int]],
        verb: str,
        reason: str = "",
        *,
        remember: int | None = None,
    ) -> None:
        """Vote on calls, each by itself; what does not count is told to the voter, what does to the
        thread.

        People are looked up first; the votes, what is told of them and the delivery's end are one
        transaction.
        """
        weighed = [
            self._weigh(delivery, call_id, revision, verb, reason) for call_id, revision in targets
        ]
        done: list[Call] = []
        told: list[str] = []
        with self._core.store.write() as tx:
            for (call_id, revision), may in zip(targets, weighed, strict=True):
                if isinstance(may, _Refused):
                    record_refusal(tx, delivery, may.call, verb, may.verdict)
                    told.append(may.sentence)
                    continue
                if isinstance(may, _Let):
                    may = decisions.vote(
                        tx,
                        call_id,
                        revision,
                        verb,
                        delivery.user,
                        at=delivery.received_at,
                        reason=reason,
                        stage=may.stage,
                        weigh=weigher(may.gate),
                    )
                if isinstance(may, Applied):
                    done.append(may.call)
                    continue
                told.append(self._judge.lost(may, delivery.user))
                if not isinstance(may, Gone):  # its card was not up to date when it was clicked
                    outbox.redraw(tx, may.call.plan_id)
            if done and (run := runs.get(tx, done[0].run_id)):
                effects = [effect_of(self._core, tx, call) for call in done]
                needed = max(still_needed(tx, call) for call in done)
                line = sentences.decision_line(verb, delivery.user, effects, reason, needed)
                line += self._remember(tx, run, done, delivery.user, remember)
                outbox.notice(tx, run, f"decided:{delivery.seq}", {"text": line})
            tell(tx, delivery, "\n".join(dict.fromkeys(told)))
            inbox.settle(tx, delivery, f"{verb}: {len(done)} counted, {len(told)} did not")

    def _remember(
        self, tx: Transaction, run: Run, done: list[Call], person: str, chosen: int | None
    ) -> str:
        """What the gates of these approved calls remember by themselves, or what was chosen.

        A line for the thread.
        """
        approved = [call for call in done if call.status is CallStatus.APPROVED]
        given = [grants.remember(tx, self._core, run, call, person, chosen) for call in approved]
        return "".join(
            f"\n{sentences.remembered(each.id, each.until, each.uses)}" for each in given if each
        )

    def _weigh(
        self, delivery: Delivery, call_id: str, revision: int, verb: str, reason: str
    ) -> _Let | Outcome | _Refused:
        """Whether it is open and this person may; else what stands in the way. Looks people up."""
        with self._core.store.read() as tx:
            found = decisions.look(tx, call_id, revision, at := delivery.received_at)
            run = runs.get(tx, found.call.run_id) if isinstance(found, Open) else None
        if not isinstance(found, Open):
            return found
        if run is None:
            return Gone()
        verdict, gate = (
            self._judge.judge(verb, found.call, run, delivery.user, at=at),
            load_gate(found.call.gate),
        )
        if isinstance(verdict, Yes) and isinstance(gate, Ask):
            if words_for(found.call, verb) and not _own_words(verb, reason):
                return _Refused(found.call, No("words"), sentences.words_needed())
            return _Let(gate, verdict.stage)
        assert isinstance(verdict, No)
        return _Refused(found.call, verdict, self._judge.refusal(verdict, found.call, verb))

    def _vote_all(self, delivery: Delivery, value: str, verb: str, reason: str = "") -> None:
        """Vote on every pending call that the clicked card shows, if the plan has not changed since
        it was drawn.
        """
        with self._core.store.read() as tx:
            targets = [(call.id, call.revision) for call in pending_on(tx, value)]
        if targets:
            self._vote(delivery, targets, verb, reason)
            return
        with self._core.store.write() as tx:
            outbox.redraw(tx, value.partition(":")[0])
            tell(tx, delivery, sentences.stale_card())
            inbox.settle(tx, delivery, f"{verb} all: stale")

    def _edit(self, delivery: Delivery, call_id: str, revision: int, state: dict[str, Any]) -> None:
        core, at = self._core, delivery.received_at
        with core.store.read() as tx:
            shown = calls.shown(tx, call_id)
            run = runs.get(tx, shown.call.run_id) if shown else None
            found = decisions.look(tx, call_id, revision, at)
        if (
            shown is None
            or run is None
            or not isinstance(found, Open)
            or shown.call.tool not in core.tools.tools
        ):
            self._refuse(delivery, self._judge.lost(found, delivery.user))
            return
        tool = as_editable(core.tools.tools[shown.call.tool], load_gate(shown.call.gate))
        parsed = read_submission(tool, readable_arguments(tool, shown.revision.arguments), state)
        verdict = self._judge.judge("edit", shown.call, run, delivery.user, at=at)
        if isinstance(parsed, FieldErrors) or isinstance(verdict, No):
            why = (
                self._judge.refusal(verdict, shown.call, "edit")
                if isinstance(verdict, No)
                else sentences.stale_card()
            )
            self._refuse(delivery, why)
            return
        if parsed.changed:
            edit = self._judge.edit_of(run, shown, parsed)
            if isinstance(edit, str):
                self._refuse(delivery, edit)
                return
            if not self._store_edit(delivery, run, shown, edit, last=not parsed.approve):
                self._settle(delivery, "the edit came too late, or nobody could approve it")
                return  # and never approve what somebody else made of it
            revision += 1
        if parsed.approve:
            self._vote(delivery, [(call_id, revision)], "approve")
        elif not parsed.changed:
            self._settle(delivery, "an edit that changes nothing")

    def _store_edit(
        self, delivery: Delivery, run: Run, shown: Shown, edit: Edit, *, last: bool
    ) -> bool:
        """Whether it was stored; the editor is told when it was not.

        `last`: then the delivery is dealt with.
        """
        core, call, at = self._core, shown.call, delivery.received_at
        tool, gate = core.tools.tools[call.tool], dump_gate(edit.gate)
        digest = fingerprint(
            core,
            run,
            tool,
            edit.arguments,
            gate=gate,
            revision=call.revision + 1,
            expects=edit.preview.expects,
        )
        deadline = at + timedelta(seconds=edit.gate.deadline)
        other_people = route(load_gate(call.gate)) != route(edit.gate)
        try:
            place = find_place(core, run, edit.gate) if other_people else None
        except RefusedError as refused:
            self._refuse(delivery, f"Nobody could approve that: {refused.note}.")
            return False
        with core.store.write() as tx:
            outcome = decisions.edit(
                tx,
                call.id,
                call.revision,
                delivery.user,
                at=at,
                arguments=edit.arguments,
                digest=digest,
                gate=gate,
                deadline=min(deadline, call.deadline) if call.deadline else deadline,
                preview=edit.preview.text,
                expects=edit.preview.expects,
                next_at=next_moment(edit.gate, call.asked_at or call.created_at),
            )
            if not isinstance(outcome, Applied):
                tell(tx, delivery, self._judge.lost(outcome, delivery.user))
                return False
            if place is not None:
                put_cards(tx, run, call.plan_id, [Asked(outcome.call, edit.gate, place)])
            line = sentences.decision_line(
                "edit", delivery.user, [effect_of(core, tx, outcome.call)]
            )
            outbox.notice(tx, run, f"edited:{delivery.seq}", {"text": line})
            if last:
                inbox.settle(tx, delivery, "edited")
        return True

    def _refuse(self, delivery: Delivery, text: str) -> None:
        with self._core.store.write() as tx:
            tell(tx, delivery, text)
            inbox.settle(tx, delivery, "refused")

    def _settle(self, delivery: Delivery, note: str) -> None:
        with self._core.store.write() as tx:
            inbox.settle(tx, delivery, note)


def _own_words(verb: str, reason: str) -> bool:
    """Whether somebody has said something themselves, beyond choosing one of the reasons for a
    rejection.
    """
    return bool(reason.strip()) and not (verb == "reject" and reason in REASONS.values())


def _value(action: dict[str, Any]) -> str:
    return str(action.get("value") or (action.get("selected_option") or {}).get("value") or "")


def _int(text: str) -> int:
    return int(text) if text.isdigit() and len(text) < 10 else -1
