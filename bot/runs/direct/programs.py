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
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from bot.agent import outputs
from bot.approvals.modes.narrowing import strictest
from bot.messages.requests.root import root_message
from bot.messages.sentences import notices
from bot.messages.sentences.programs import not_done
from bot.runs.direct.handovers import Claimed, Handovers
from bot.runs.direct.refusals import KeyUsedError as KeyUsedError
from bot.runs.direct.refusals import NotAskedError as NotAskedError
from bot.runs.direct.refusals import StrangerError as StrangerError
from bot.runs.direct.refusals import TooOftenError as TooOftenError
from bot.runs.direct.standing import HowItStands, standing, words_of
from bot.signals import Signals
from bot.tools.handed_over import HandedOver, described, insist_on_length, stored
from storage import calls, endings, inbox, modes, moves, outbox, programs, runs
from storage.handovers import LEASE
from storage.masking import masked
from storage.models import Delivery, Run, new_id
from storage.states import CALL_FINAL, CallStatus, DeliveryKind, RunSource, RunStatus
from storage.store import Store

if TYPE_CHECKING:  # it names them, and is imported by what makes them
    from bot.approvals.forms.parts import FormParts
    from bot.clock import Clock
    from bot.tools import Registry
    from storage.keys import ClientKey
    from storage.transaction import Transaction

GLANCE = 0.25  # seconds between two looks at the rows while somebody waits
SAID_BESIDE = ("why", "within", programs.ASKED_BY)  # of a delivery: what is no part of the call


@dataclass(frozen=True, slots=True)
class HowItEnded:
    """How a call ended that a program had asked for."""

    status: CallStatus
    result: str  # what the tool returned, as text, or in words why it was not done
    arguments: dict[str, Any]  # as they ran, or were last proposed: people may have edited them


class AskedFor:
    """A call that a program has put before people."""

    def __init__(self, store: Store, run_id: str, at_work: AtWork, *, is_new: bool = False) -> None:
        """`run_id`: the request; it can be looked at in any later life of the process.

        `is_new`: it was asked just now, and not before with the same key.
        """
        self.run_id = run_id
        self.is_new = is_new
        self._store = store
        self._at_work = at_work

    def ended(self) -> HowItEnded | None:
        """Return how it ended; None while it waits or runs, or nobody knows what became of it."""
        with self._store.read() as tx:
            run, found = runs.get(tx, self.run_id), calls.of_run(tx, self.run_id)
            call = found[0] if found else None
            current = calls.revision(tx, call.id, call.revision) if call else None
        if call is None or call.status not in CALL_FINAL:
            if run is not None and run.status is RunStatus.CANCELLED:
                over = CallStatus.CANCELLED
                return HowItEnded(over, words_of(not_done(over)), {})
            return None
        arguments = json.loads(current.arguments) if current else {}
        why_not = not_done(call.status)
        said = words_of(why_not, self.stands().note) if why_not else outputs.result_of(call.output)
        return HowItEnded(call.status, said, arguments)

    def stands(self) -> HowItStands:
        """Return how it stands: what was asked, who decided, what came of it."""
        with self._store.read() as tx:
            return standing(tx, self._at_work.tools, self._at_work.workspace, self.run_id)

    def wait(self, seconds: float) -> HowItEnded:
        """Return how it ended, waiting so long at most; raises TimeoutError, and it goes on."""
        until, pause = time.monotonic() + seconds, threading.Event()
        while (found := self.ended()) is None:
            if time.monotonic() >= until:
                raise TimeoutError("nobody has decided yet")
            pause.wait(GLANCE)
        return found

    def claim(self, claimant: str, lease: timedelta = LEASE) -> Claimed | None:
        """Claim the call to execute it, for whoever gives this text, made anew for each attempt.

        None while it is still being checked: ask again. `lease`: until a sign of life is due.
        Raises NotClaimedError.
        """
        return self._at_work.handovers.claim(self.run_id, claimant, lease)

    def report(self, claimant: str, succeeded: bool | None, result: Any) -> None:
        """Say how the claimed call ended, in text or JSON; raises NotClaimedError.

        `succeeded`: None where it was handed on, and this program cannot say how it goes.
        """
        self._at_work.handovers.report(self.run_id, claimant, succeeded, result)

    def cancel(self) -> bool:
        """Take the request back; False where it has ended, or its call runs."""
        with self._store.write() as tx:
            run = runs.get(tx, self.run_id)
            found = [each.status for each in calls.of_run(tx, self.run_id)]
            is_over = bool(found) and CALL_FINAL.issuperset(found)  # the run ends in a moment
            if run is None or is_over or CallStatus.RUNNING in found:
                return False
            at, actor = self._at_work.clock.now(), run.requester
            if not endings.cancel(tx, run, at=at, actor=actor, words=outputs):
                return False
            text = notices.cancelled_line(run.requester, run.client)
            outbox.notice(tx, run, f"cancelled:{run.id}", {"text": text})
        self._at_work.signals.post.give()
        self._at_work.signals.work.give()
        return True


@dataclass(frozen=True, slots=True)
class AtWork:
    """What requests of programs are looked at, claimed and ended with."""

    clock: Clock
    signals: Signals
    tools: Registry
    workspace: str  # its address in Slack; "" where it is not known
    handovers: Handovers


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
        handovers = Handovers(self._store, self._clock, signals, self._tools)
        url = parts.identity.workspace
        self._at_work = AtWork(self._clock, signals, self._tools, url, handovers)

    def ask(
        self,
        tool: str | HandedOver,
        arguments: Mapping[str, Any],
        *,
        requester: str,
        channel: str = "",
        why: str = "",
        key: str = "",
        client: str | ClientKey = "",
        deadline: timedelta | None = None,
        while_open: bool = False,
    ) -> AskedFor:
        """Put a call before people, and return at once; nothing has been decided by then.

        `tool`: the name of one of the bot's, or what the program does itself once it may: then it
        claims the call, and reports. `requester`: the Slack user id of whoever answers for it, and
        does not approve it. `channel`: the id of the channel where it is asked, "" for the
        requester's direct messages; there it begins as well where a form would: where the two of
        you are not both there, or another company reads along. `why` is for the approver. `key`:
        what was asked with it before is returned, as long as it is kept, or goes on (`while_open`).
        `client`: the key by which a program asks, which says how often it may, or its name alone.
        `deadline`: in which it has to be decided, where policy gives longer.

        Raises KeyError for a tool that is not there, ActionError for what nobody can be asked,
        pydantic.ValidationError for arguments that it does not take, StrangerError for a requester
        who is no colleague, KeyUsedError where something else was asked with the key, TooOftenError
        where the client has asked as often as it may, and LookupFailedError where Slack cannot be
        asked.
        """
        caller, by_key = (client, None) if isinstance(client, str) else (client.name, client)
        action = "" if isinstance(tool, str) else stored(tool, self._tools, caller)
        known = self._tools.get(tool) if isinstance(tool, str) else described(action)
        if known is None:
            raise KeyError(tool)
        args = known.arguments.model_validate(dict(arguments))
        insist_on_length(known, args)
        asked: dict[str, Any] = {"tool": known.name, "arguments": args.model_dump(mode="json")}
        asked |= {"why": why} | ({"action": action} if action else {})
        asked |= {programs.ASKED_BY: by_key.id} if by_key else {}  # no part of the call
        asked |= {"within": deadline.total_seconds()} if deadline else {}
        effect = masked(known.effect_sentence(args))
        self._insist_on_colleague(requester)
        name = self._name(caller, key, while_open=while_open)
        delivery = self._delivery(name, requester, channel, asked)
        place = self._places.of(channel, requester)
        run_id, is_new = self._begin(delivery, effect, place, caller, by_key)
        self._signals.post.give()
        self._signals.work.give()
        return AskedFor(self._store, run_id, self._at_work, is_new=is_new)

    def _insist_on_colleague(self, requester: str) -> None:
        """Raise StrangerError for who may not ask."""
        if not requester or not self._authority.colleague(requester):
            raise StrangerError(f"{requester!r} is not a full member of this workspace")

    def _name(self, client: str, key: str, *, while_open: bool) -> str:
        """Return what the delivery is called, so that it is the one of what goes on."""
        name = programs.delivery_key(client, key or new_id())
        if while_open and key:
            with self._store.write() as tx:
                programs.let_go(tx, name)
        return name

    def _delivery(
        self, key: str, requester: str, channel: str, asked: Mapping[str, Any]
    ) -> Delivery:
        return Delivery(
            key=key,
            kind=DeliveryKind.PROGRAM,
            team=self._authority.team,
            user=requester,
            channel=channel,
            body=json.dumps(asked),
            received_at=self._clock.now(),
        )

    def asked(self, run_id: str, client: str | ClientKey = "") -> AskedFor | None:
        """Return a request that a program made before; None for others, and for other keys'."""
        with self._store.read() as tx:
            run = runs.get(tx, run_id)
            if run is None:
                return None
            if isinstance(client, str):
                is_theirs = (run.source, run.client) == (RunSource.PROGRAM, client)
            else:
                is_theirs = programs.belongs_to(tx, run, client)
        return AskedFor(self._store, run_id, self._at_work) if is_theirs else None

    def _begin(
        self, asked: Delivery, effect: str, place: str, client: str, key: ClientKey | None
    ) -> tuple[str, bool]:
        """Store what is asked, its request, and the message that this begins with.

        It keeps to the mode of the channel where it was to be asked, and is in `place`. Returns the
        request's id, which is that of an earlier one where this was asked before, and whether it is
        new.
        """
        now = asked.received_at
        run = Run(
            team=self._authority.team,
            channel=place or asked.user,
            thread_ts="",
            requester=asked.user,
            source=RunSource.PROGRAM,
            client=client,
            asked_in="" if place else asked.channel,
            created_at=now,
            updated_at=now,
        )
        with self._store.write() as tx:
            is_new = inbox.store(tx, asked)
            stored = inbox.find(tx, asked.key)
            assert stored is not None
            if not is_new:
                return _same(tx, stored, asked, key), False
            if key:  # counted here, so that of many at once no more are let through
                _insist_on_rate(tx, key, now)
            moves.started(tx, run, at=now)
            inbox.hold(tx, stored, run.id)
            mode = strictest(modes.of_run(tx, run))
            text, blocks = root_message(run.requester, effect, "", mode, run.client)
            outbox.root(tx, run, text, blocks)
        return run.id, True


def _insist_on_rate(tx: Transaction, client: ClientKey, now: datetime) -> None:
    """Raise TooOftenError where this client has asked as often as it may within an hour."""
    since = programs.asked_before(tx, client.name, client.per_hour, now - programs.HOUR)
    if since is not None:
        raise TooOftenError(since)


def _same(tx: Transaction, stored: Delivery, asked: Delivery, key: ClientKey | None) -> str:
    """Return the request of what was asked before; raises KeyUsedError where it was another, or
    another's.

    Why, and how long people have, may be said otherwise the second time: what was said first holds.
    """
    once, now = ((each.user, each.channel, _what(each)) for each in (stored, asked))
    run = runs.get(tx, stored.run_id or "")
    is_theirs = key is None or (run is not None and programs.belongs_to(tx, run, key))
    if once != now or not stored.run_id or not is_theirs:
        name = asked.key.partition(":")[2]
        raise KeyUsedError(f"the key {name!r} was used for something else")
    return stored.run_id


def _what(asked: Delivery) -> dict[str, Any]:
    """The call itself, as it was asked for."""
    body: dict[str, Any] = json.loads(asked.body)
    return {name: each for name, each in body.items() if name not in SAID_BESIDE}
