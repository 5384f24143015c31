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
from typing import TYPE_CHECKING, Any

from bot.agent import outputs
from bot.approvals.modes.narrowing import strictest
from bot.messages.requests.root import root_message
from bot.signals import Signals
from storage import calls, inbox, modes, moves, outbox, runs
from storage.masking import masked
from storage.models import Delivery, Run, new_id
from storage.states import CALL_FINAL, CallStatus, DeliveryKind, RunSource, RunStatus
from storage.store import Store

if TYPE_CHECKING:  # it names them, and is imported by what makes them
    from bot.approvals.forms.parts import FormParts

GLANCE = 0.25  # seconds between two looks at the rows while somebody waits


class NotAskedError(ValueError):
    """Nobody was asked; says why in a sentence."""


class StrangerError(NotAskedError):
    """Nobody asks in the name of somebody who may not ask."""


class KeyUsedError(NotAskedError):
    """Something else was asked with this key before."""


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

    def is_known(self) -> bool:
        """Return whether there is such a request."""
        with self._store.read() as tx:
            return runs.get(tx, self.run_id) is not None

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
        key: str = "",
    ) -> AskedFor:
        """Put a call before people, and return at once; nothing has been decided by then.

        `requester`: the Slack user id of whoever answers for it, and does not approve it.
        `channel`: the id of the channel where it is asked, "" for the requester's direct messages;
        there it begins as well where a form would: where the two of you are not both in the
        channel, or another company reads along. `why` is for the approver. `key`: what was asked
        with it before is returned and not asked again, as long as the record has it. Looks people
        up.

        Raises KeyError for a tool that is not there, pydantic.ValidationError for arguments that
        it does not take, StrangerError for a requester who is no colleague, KeyUsedError where
        something else was asked with the key, and LookupFailedError where Slack cannot be asked.
        """
        known = self._tools.get(tool)
        if known is None:
            raise KeyError(tool)
        args = known.arguments.model_validate(dict(arguments))
        asked = {"tool": tool, "arguments": args.model_dump(mode="json"), "why": why}
        effect = masked(known.effect_sentence(args))
        if not requester or not self._authority.colleague(requester):
            raise StrangerError(f"{requester!r} is not a full member of this workspace")
        delivery = Delivery(
            key=f"program:{key or new_id()}",
            kind=DeliveryKind.PROGRAM,
            team=self._authority.team,
            user=requester,
            channel=channel,
            body=json.dumps(asked),
            received_at=self._clock.now(),
        )
        run_id = self._begin(delivery, effect, self._places.of(channel, requester))
        self._signals.post.give()
        self._signals.work.give()
        return AskedFor(self._store, run_id)

    def _begin(self, asked: Delivery, effect: str, place: str) -> str:
        """Store what is asked, its request, and the message that this begins with.

        It keeps to the mode of the channel where it was to be asked, and is in `place`. Returns the
        request's id, which is that of an earlier one where this was asked before.
        """
        now = asked.received_at
        run = Run(
            team=self._authority.team,
            channel=place or asked.user,
            thread_ts="",
            requester=asked.user,
            source=RunSource.PROGRAM,
            created_at=now,
            updated_at=now,
        )
        with self._store.write() as tx:
            is_new = inbox.store(tx, asked)
            stored = inbox.find(tx, asked.key)
            assert stored is not None
            if not is_new:
                return _same(stored, asked)
            moves.started(tx, run, at=now)
            inbox.hold(tx, stored, run.id)
            mode = strictest(modes.of_run(tx, run))
            text, blocks = root_message(run.requester, effect, "", mode)
            outbox.root(tx, run, text, blocks)
        return run.id


def _same(stored: Delivery, asked: Delivery) -> str:
    """Return the request of what was asked before; raises KeyUsedError where it was another."""
    once, now = ((each.user, each.channel, each.body) for each in (stored, asked))
    if once != now or not stored.run_id:
        key = asked.key.removeprefix("program:")
        raise KeyUsedError(f"the key {key!r} was used for something else")
    return stored.run_id
