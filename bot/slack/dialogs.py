"""Opens dialogs from rows and checks what was submitted.

Decides nothing: a good submission is stored for the loop.
"""

from __future__ import annotations

import json
import logging
from typing import Any

from slack_sdk import WebClient

from bot.approvals.cards.card_view import call_view, effect_of
from bot.approvals.permissions import Judge, pending_on, words_for
from bot.core import Core
from bot.messages import sentences
from bot.messages.forms.form import FieldErrors, edit_modal, read_submission
from bot.messages.modals import read_rejection, reject_modal, review_modal, send_back_modal
from bot.policy.authority import No, Yes
from bot.policy.gates import Ask, load_gate
from bot.slack.directory import with_names
from bot.tools.arguments import as_editable, readable_arguments
from storage import calls, decisions, outbox, runs
from storage.calls import Shown
from storage.decisions import Open
from storage.models import Call, Run
from storage.states import CallStatus

log = logging.getLogger("countersign.dialogs")


class Dialogs:
    """Called on listener threads."""

    def __init__(self, core: Core, judge: Judge) -> None:
        """`judge` knows who may."""
        self._core = core
        self._judge = judge

    def open(self, client: WebClient, body: dict[str, Any]) -> None:
        """Open the dialog a button asks for, or say privately why not."""
        action, person = body["actions"][0], body["user"]["id"]
        try:
            name, value = action["action_id"], str(action.get("value") or "")
            if name == "more":
                name, _, value = str(action["selected_option"]["value"]).partition(":")
            view, why = self._view(name, value, body)
            if view is not None:
                client.views_open(trigger_id=body["trigger_id"], view=view)
                return
        except Exception as error:  # noqa: BLE001 - the person is told, and may click again
            log.warning("dialog %s for %s: %s", action["action_id"], person, error)
            why = sentences.trigger_expired()
        channel = (body.get("channel") or {}).get("id") or person
        message = body.get("message") or {}
        with self._core.store.write() as tx:
            key = f"dialog:{person}:{action.get('action_ts', '')}:{action['action_id']}"
            thread = message.get("thread_ts") or message.get("ts") or ""
            outbox.private(tx, key, channel=channel, thread_ts=thread, person=person, text=why)
        self._core.post()

    def _view(
        self, name: str, value: str, body: dict[str, Any]
    ) -> tuple[dict[str, Any] | None, str]:
        target, _, number = value.partition(":")
        if name == "reject_all":
            return self._reject_all(value)
        now = self._core.clock.now()
        with self._core.store.read() as tx:
            found = decisions.look(tx, target, int(number) if number.isdigit() else -1, now)
            shown = calls.shown(tx, target) if isinstance(found, Open) else None
            run = runs.get(tx, shown.call.run_id) if shown else None
            if shown is None or run is None:
                return None, self._judge.lost(found, body["user"]["id"])
            if name == "review":
                drawn = call_view(self._core, tx, target)
                assert drawn is not None
                view = review_modal(drawn)
            elif name == "reject":
                title = effect_of(self._core, tx, shown.call)
                view = reject_modal(
                    f"call:{value}",
                    count=1,
                    title=title,
                    needs_words=words_for(shown.call, "reject"),
                )
            elif name == "send_back":
                pending = [
                    c
                    for c in calls.of_plan(tx, shown.call.plan_id)
                    if c.status is CallStatus.PENDING
                ]
                view = send_back_modal(
                    value, title="\n".join(effect_of(self._core, tx, call) for call in pending)
                )
            else:
                gate = load_gate(shown.call.gate)
                tool = self._core.tools.get(shown.call.tool)
                if tool is None:
                    return None, sentences.stale_card()
                both = isinstance(gate, Ask) and gate.editor_counts
                arguments = readable_arguments(tool, shown.revision.arguments)
                tool = as_editable(tool, gate)
                view = edit_modal(
                    tool,
                    arguments,
                    call_id=target,
                    revision=shown.call.revision,
                    save_and_approve=both,
                )
        return _with(view, thread=f"{run.channel}:{run.thread_ts}"), ""

    def _reject_all(self, value: str) -> tuple[dict[str, Any] | None, str]:
        with self._core.store.read() as tx:
            pending = pending_on(tx, value)
            run = runs.get(tx, pending[0].run_id) if pending else None
            if run is None:
                return None, sentences.stale_card()
            title = "\n".join(effect_of(self._core, tx, call) for call in pending)
        needs = any(words_for(call, "reject") for call in pending)
        view = reject_modal(f"plan:{value}", count=len(pending), title=title, needs_words=needs)
        return _with(view, thread=f"{run.channel}:{run.thread_ts}"), ""

    def check(self, body: dict[str, Any]) -> dict[str, str]:
        """The errors of a submission by block id; empty when it may be stored. Looks people up."""
        view, person = body["view"], body["user"]["id"]
        about, state = json.loads(view["private_metadata"]), view["state"]["values"]
        if view["callback_id"] == "reject":
            reason = read_rejection(state)
            if isinstance(reason, dict):
                return reason
            kind, _, rest = about["target"].partition(":")
            target, _, number = rest.partition(":")
            return (
                {}
                if kind == "plan"
                else self._open_for("reject", target, int(number), person, "reason")
            )
        if view["callback_id"] == "send_back":
            target, _, number = about["target"].partition(":")
            return self._open_for("send_back", target, int(number), person, "words")
        if view["callback_id"] == "review_call":
            return self._open_for("approve", about["call"], about["revision"], person, "note")
        if view["callback_id"] != "edit_call":
            return {}  # nothing to enter, so nothing to say it at: the loop decides and tells
        return self._check_edit(view, about, state, person)

    def _check_edit(
        self, view: dict[str, Any], about: dict[str, Any], state: dict[str, Any], person: str
    ) -> dict[str, str]:
        first = next(
            (block["block_id"] for block in view["blocks"] if block["type"] == "input"), ""
        )
        if errors := self._open_for("edit", about["call"], about["revision"], person, first):
            return errors
        with self._core.store.read() as tx:
            shown = calls.shown(tx, about["call"])
            run = runs.get(tx, shown.call.run_id) if shown else None
        if shown is None or run is None or not first:
            return {}
        tool = as_editable(self._core.tools.tools[shown.call.tool], load_gate(shown.call.gate))
        parsed = read_submission(tool, readable_arguments(tool, shown.revision.arguments), state)
        if isinstance(parsed, FieldErrors):
            return parsed.errors
        if parsed.changed and isinstance(edit := self._judge.edit_of(run, shown, parsed), str):
            return {first: edit[:150]}
        return self._may_also_approve(shown, run, person, parsed.approve, parsed.changed)

    def _may_also_approve(
        self, shown: Shown, run: Run, person: str, approve: bool, changed: bool
    ) -> dict[str, str]:
        if not approve:
            return {}
        now = self._core.clock.now()
        verdict = self._judge.judge(
            "approve", shown.call, run, person, at=now, fresh_editor=changed
        )
        if isinstance(verdict, Yes):
            return {}
        return {"then": self._plainly(self._judge.refusal(verdict, shown.call, "approve"))}

    def _plainly(self, text: str) -> str:
        """An error at a field is plain text: mentions and dates would show as codes."""
        return sentences.plainly(with_names(self._core.directory, text))[:150]

    def _open_for(
        self, verb: str, call_id: str, revision: int, person: str, block: str
    ) -> dict[str, str]:
        """Why this person cannot do this to the call now, at `block`; empty when they can."""
        now = self._core.clock.now()
        with self._core.store.read() as tx:
            found = decisions.look(tx, call_id, revision, now)
            run = runs.get(tx, found.call.run_id) if isinstance(found, Open) else None
        if not isinstance(found, Open) or run is None:
            return {block: self._plainly(self._judge.lost(found, person))}
        call: Call = found.call
        verdict = self._judge.judge(verb, call, run, person, at=now)
        return (
            {block: self._plainly(self._judge.refusal(verdict, call, verb))}
            if isinstance(verdict, No)
            else {}
        )


def _with(view: dict[str, Any], **more: str) -> dict[str, Any]:
    """Add to a view's private metadata where its request stands."""
    return {
        **view,
        "private_metadata": json.dumps({**json.loads(view["private_metadata"]), **more}),
    }
