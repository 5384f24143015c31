"""Puts a call before people for a program in the same process: no agent, and no form either.

The request is the requester's: policy, approvers and the record treat it as if they had filled in
the tool's form. The program hears how it ended.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bot.agent import outputs
from bot.approvals.forms.parts import FormParts
from bot.approvals.modes.narrowing import strictest
from bot.messages.requests.root import root_message
from bot.signals import Signals
from storage import calls, inbox, modes, moves, outbox, runs
from storage.masking import masked
from storage.models import Delivery, Run, new_id
from storage.states import CALL_FINAL, CallStatus, DeliveryKind, RunSource, RunStatus
from storage.store import Store

GLANCE = 0.25  # seconds between two looks at the rows while somebody waits


class StrangerError(ValueError):
    """Nobody asks in the name of somebody who may not ask."""


@dataclass(frozen=True, slots=True)
class HowItEnded:
    """How a call ended that a program had asked for."""

    status: CallStatus
    result: str  # what the tool returned, as text, or what became of the call instead
    arguments: dict[str, Any]  # as they ran, or were last proposed: people may have edited them


class AskedFor:
    """A call that a program has put before people."""

    def __init__(self, store: Store, run_id: str) -> None:
        """`run_id`: the request; it can be looked at in any later life of the process."""
        self.run_id = run_id
        self._store = store

    def ended(self) -> HowItEnded | None:
        """Return how it ended; None while it waits or runs, or nobody knows what became of it."""
        with self._store.read() as tx:
            run, found = runs.get(tx, self.run_id), calls.of_run(tx, self.run_id)
            call = found[0] if found else None
            current = calls.revision(tx, call.id, call.revision) if call else None
        if call is None or call.status not in CALL_FINAL:
            if run is not None and run.status is RunStatus.CANCELLED:
                return HowItEnded(CallStatus.CANCELLED, outputs.cancelled(), {})
            return None
        arguments = json.loads(current.arguments) if current else {}
        gave = outputs.result_of(call.output)
        is_done = call.status is CallStatus.SUCCEEDED
        return HowItEnded(call.status, gave if is_done else call.output, arguments)

    def wait(self, seconds: float) -> HowItEnded:
        """Return how it ended, waiting so long at most; raises TimeoutError, and it goes on."""
        until, pause = time.monotonic() + seconds, threading.Event()
        while (found := self.ended()) is None:
            if time.monotonic() >= until:
                raise TimeoutError("nobody has decided yet")
            pause.wait(GLANCE)
        return found


class Programs:
    """One per process; any thread may ask."""

    def __init__(self, parts: FormParts, signals: Signals) -> None:
        """`parts`: what forms are made with, for a request begins as theirs do."""
        self._store = parts.sources.store
        self._clock = parts.sources.clock
        self._tools = parts.tools
        self._authority = parts.authority
        self._places = parts.places()
        self._signals = signals

    def ask(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        requester: str,
        channel: str = "",
        why: str = "",
    ) -> AskedFor:
        """Put a call before people, and return at once; nothing has been decided by then.

        `requester`: the Slack user id of whoever answers for it, and does not approve it.
        `channel`: the id of the channel where it is asked, "" for the requester's direct messages;
        there it begins as well where a form would: where the two of you are not both in the
        channel, or another company reads along. `why` is for the approver. Looks people up.

        Raises KeyError for a tool that is not there, pydantic.ValidationError for arguments that
        it does not take, StrangerError for a requester who is no colleague, and LookupFailedError
        where Slack cannot be asked.
        """
        known = self._tools.get(tool)
        if known is None:
            raise KeyError(tool)
        args = known.arguments.model_validate(dict(arguments))
        asked = {"tool": tool, "arguments": args.model_dump(mode="json"), "why": why}
        effect = masked(known.effect_sentence(args))
        if not requester or not self._authority.colleague(requester):
            raise StrangerError(f"{requester!r} is not a full member of this workspace")
        place = self._places.of(channel, requester)
        run = self._begin(json.dumps(asked), effect, requester, channel, place)
        self._signals.post.give()
        self._signals.work.give()
        return AskedFor(self._store, run.id)

    def _begin(self, asked: str, effect: str, requester: str, channel: str, place: str) -> Run:
        """Store the request, with the message it begins with and what is asked.

        It was to be asked in `channel`, whose mode it keeps to, and is in `place`.
        """
        now = self._clock.now()
        run = Run(
            team=self._authority.team,
            channel=place or requester,
            thread_ts="",
            requester=requester,
            source=RunSource.PROGRAM,
            created_at=now,
            updated_at=now,
        )
        delivery = Delivery(
            key=f"program:{new_id()}",
            kind=DeliveryKind.PROGRAM,
            team=self._authority.team,
            user=requester,
            channel=channel,
            body=asked,
            received_at=now,
        )
        with self._store.write() as tx:
            inbox.store(tx, delivery)
            moves.started(tx, run, at=now)
            stored = inbox.find(tx, delivery.key)
            assert stored is not None
            inbox.hold(tx, stored, run.id)
            mode = strictest(modes.of_run(tx, run))
            text, blocks = root_message(requester, effect, "", mode)
            outbox.root(tx, run, text, blocks)
        return run
