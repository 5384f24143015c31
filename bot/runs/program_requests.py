"""Puts a call before people for a program, without the agent and without a form.

The request is the requester's: policy, approvers and the record treat it as if that person had
filled in the tool's form. The program can read its status and outcome.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from pydantic_core import to_jsonable_python

from bot.approvals.direct_requests import begin_direct_request
from bot.approvals.form_requests import FormServiceFactory
from bot.approvals.receipts import NoReceiptError, ReceiptWriter
from bot.cards.notices import request_cancelled_line
from bot.runs import program_calls
from bot.runs.endings import CallOutcomeStore
from bot.signals import Signals
from bot.tools.arguments import dump_values
from bot.tools.handed_over import (
    HandedOverAction,
    check_and_dump_action,
    check_effect_sentence_length,
    load_action_tool,
)
from storage import calls, endings, inbox, outbox, programs, runs
from storage.masking import mask_secrets
from storage.record import Delivery, Transaction, new_id
from storage.states import CALL_FINAL_STATUSES, CallStatus, DeliveryKind, RunSource

NON_CALL_FIELDS = ("why", "within", programs.KEY_ID_FIELD)  # in a delivery's body


class ProgramRequest:
    """A call that a program has put before people, and what the program may do with it."""

    def __init__(self, requests: ProgramRequests, run_id: str, *, is_new: bool = False) -> None:
        """`run_id` names the request's run; it is still valid after a restart.

        `is_new`: the request was made just now, not found by its key.
        """
        self.run_id = run_id
        self.is_new = is_new
        self._requests = requests
        self._store = requests.store

    def load_status(self) -> program_calls.ProgramRequestStatus:
        """Return the request's current status: what was asked, who decided, what came of it."""
        with self._store.read() as tx:
            return program_calls.load_program_request_status(
                tx, self._requests.tools, self._requests.workspace, self.run_id
            )

    def claim_call(
        self, claimant: str, lease: timedelta = programs.CLAIM_LEASE_DURATION
    ) -> program_calls.ProgramClaim | None:
        """Claim the call in order to execute it; `claimant` is a secret text, new for each attempt.

        Returns None while the call is still being checked: claim again. `lease`: the time within
        which the claim has to be renewed, or the outcome reported. Raises ClaimRefusedError.
        """
        return self._requests.program_calls.claim_call(self.run_id, claimant, lease)

    def write_receipts(self) -> dict[str, Any]:
        """Return the receipts of the request's call: see `ReceiptWriter`. Raises NoReceiptError."""
        with self._store.read() as tx:
            found = calls.list_calls_of_run(tx, self.run_id)
            if not found:
                raise NoReceiptError("Nobody has been asked yet.")
            return self._requests.receipts.write_receipts(tx, found[0])

    def report_outcome(self, claimant: str, succeeded: bool | None, result: Any) -> None:
        """Report how the claimed call ended, as text or JSON; raises ClaimRefusedError.

        `succeeded`: None if the work was handed on, and this program cannot say how it ends.
        """
        self._requests.program_calls.report_outcome(self.run_id, claimant, succeeded, result)

    def cancel(self) -> bool:
        """Cancel the request; return False if it has ended, or its call is running."""
        with self._store.write() as tx:
            run = runs.find_run(tx, self.run_id)
            found = [each.status for each in calls.list_calls_of_run(tx, self.run_id)]
            # its calls have all ended, so the run is about to end
            is_over = bool(found) and CALL_FINAL_STATUSES.issuperset(found)
            if run is None or is_over or CallStatus.RUNNING in found:
                return False
            at, actor = self._requests.clock.now(), run.requester
            if not endings.cancel_run(tx, run, at=at, actor=actor):
                return False
            text = request_cancelled_line(run.requester, run.client)
            outbox.queue_notice(tx, run, f"cancelled:{run.id}", {"text": text})
        self._requests.wake()
        return True


class ProgramRequests:
    """Makes and finds requests of programs; one per process, for any thread."""

    def __init__(self, parts: FormServiceFactory, signals: Signals) -> None:
        """`parts` are the parts that forms use, as these requests begin in the same way."""
        self.store = parts.sources.store
        self.clock = parts.sources.clock
        self.tools = parts.tools
        self.workspace = parts.identity.workspace  # Slack address; "" if it is not known
        self._authority = parts.authority
        self._places = parts.build_request_channel_checker()
        self._signals = signals
        outcomes = CallOutcomeStore(
            parts.sources, self.tools, signals, parts.previews, self.store.signing_key
        )
        self.program_calls = program_calls.ProgramCallClaimManager(
            parts.sources, self.tools, signals, outcomes
        )
        self.receipts = ReceiptWriter(self.store.signing_key, self.tools)

    def ask(
        self,
        tool: str | HandedOverAction,
        arguments: Mapping[str, Any],
        *,
        requester: str,
        channel: str = "",
        why: str = "",
        key: str = "",
        client: str | programs.ProgramApiKey = "",
        deadline: timedelta | None = None,
        while_open: bool = False,
    ) -> ProgramRequest:
        """Put a call before people, and return at once, before anybody has decided.

        `tool`: the name of one of the bot's tools, or an action that the program executes itself:
        it then claims the call and reports. `requester`: the Slack user id of the person who is
        responsible for the request and cannot approve it. `channel`: the id of the channel to ask
        in, "" for the requester's direct messages; those are used as well if the requester or the
        bot is not in the channel, or another company can read it. `why`: for the approver. `key`:
        if an earlier request with this key is still stored (with `while_open`: still open), that
        one is returned. `client`: the API key of the program, which limits how often it asks, or
        just its name. `deadline`: the time to decide in, if shorter than policy's.

        Raises KeyError for an unknown tool, HandedOverActionError for an action that nobody can be
        asked about, pydantic.ValidationError for invalid arguments, RequesterNotPermittedError if
        the requester is no full member of the workspace, RequestKeyReusedError if the key was used
        for something else, RequestRateLimitError if the client has asked too often, and
        LookupFailedError if Slack cannot be asked.
        """
        caller, by_key = (client, None) if isinstance(client, str) else (client.name, client)
        action = "" if isinstance(tool, str) else check_and_dump_action(tool, self.tools, caller)
        definition = self.tools.get(tool) if isinstance(tool, str) else load_action_tool(action)
        if definition is None:
            raise KeyError(tool)
        args = definition.arguments.model_validate(dict(arguments))
        check_effect_sentence_length(definition, args)
        values = to_jsonable_python(dump_values(args))  # with the content of secrets
        body: dict[str, Any] = {"tool": definition.name, "arguments": values}
        body |= {"why": why} | ({"action": action} if action else {})
        body |= {programs.KEY_ID_FIELD: by_key.id} if by_key else {}  # not part of the call
        body |= {"within": deadline.total_seconds()} if deadline else {}
        effect = mask_secrets(definition.effect_sentence(args))
        self._require_colleague(requester)
        name = self._prepare_delivery_key(caller, key, while_open=while_open)
        delivery = self._build_delivery(name, requester, channel, body)
        place = self._places.get_channel_if_allowed(channel, requester)
        run_id, is_new = self._store_request(delivery, effect, place, caller, by_key)
        self.wake()
        return ProgramRequest(self, run_id, is_new=is_new)

    def wake(self) -> None:
        """Wake the loop and the outbox, because a request was stored or has changed."""
        self._signals.outbox.notify()
        self._signals.work.notify()

    def _require_colleague(self, requester: str) -> None:
        if not requester or not self._authority.is_active_colleague(requester):
            why = f"{requester!r} is not a full member of this workspace"
            raise program_calls.RequesterNotPermittedError(why)

    def _prepare_delivery_key(self, client: str, key: str, *, while_open: bool) -> str:
        """Return the delivery's key; with `while_open`, first free it if its request is over."""
        name = programs.build_delivery_key(client, key or new_id())
        if while_open and key:
            with self.store.write() as tx:
                programs.free_delivery_key_of_ended_request(tx, name)
        return name

    def _build_delivery(
        self, key: str, requester: str, channel: str, asked: Mapping[str, Any]
    ) -> Delivery:
        return Delivery(
            key=key,
            kind=DeliveryKind.PROGRAM,
            team=self._authority.team,
            user=requester,
            channel=channel,
            body=json.dumps(asked),
            received_at=self.clock.now(),
        )

    def find_request(
        self, run_id: str, client: str | programs.ProgramApiKey = ""
    ) -> ProgramRequest | None:
        """Return an earlier request of this client or API key; None if it is not theirs."""
        with self.store.read() as tx:
            run = runs.find_run(tx, run_id)
            if run is None:
                return None
            if isinstance(client, str):
                is_theirs = (run.source, run.client) == (RunSource.PROGRAM, client)
            else:
                is_theirs = programs.is_request_of_key(tx, run, client)
        return ProgramRequest(self, run_id) if is_theirs else None

    def _store_request(
        self,
        delivery: Delivery,
        effect: str,
        place: str,
        client: str,
        key: programs.ProgramApiKey | None,
    ) -> tuple[str, bool]:
        """Store the request: its delivery, its run, and the message that begins its thread.

        The run is in the channel `place`, or in direct messages if that is "". Returns the run's
        id, which is that of an earlier one if the same request was made before, and whether it is
        new.
        """
        now, asked_in = delivery.received_at, "" if place else delivery.channel
        with self.store.write() as tx:
            is_new = inbox.insert_delivery(tx, delivery)
            stored = inbox.find_delivery(tx, delivery.key)
            assert stored is not None
            if not is_new:
                return _get_run_id_of_same_request(tx, stored, delivery, key), False
            if key:  # counted in this transaction, so that concurrent requests stay in the limit
                _check_rate_limit(tx, key, now)
            run = begin_direct_request(
                tx,
                stored,
                RunSource.PROGRAM,
                effect,
                at=now,
                place=place,
                asked_in=asked_in,
                client=client,
            )
        return run.id, True


def _check_rate_limit(tx: Transaction, client: programs.ProgramApiKey, now: datetime) -> None:
    """Raise RequestRateLimitError if this client has no requests left within the hour."""
    since = programs.find_time_of_nth_newest_request(
        tx, client.name, client.per_hour, now - programs.RATE_LIMIT_PERIOD
    )
    if since is not None:
        raise program_calls.RequestRateLimitError(since)


def _get_run_id_of_same_request(
    tx: Transaction, stored: Delivery, delivery: Delivery, key: programs.ProgramApiKey | None
) -> str:
    """Return the run's id of the earlier request (`stored`) that has the same key as `delivery`.

    Both have to ask for the same call; reason and deadline may differ, and those of the first
    request apply. Raises RequestKeyReusedError if the call differs, or if another API key made the
    earlier request.
    """
    once, now = (
        (each.user, each.channel, _extract_call_definition(each)) for each in (stored, delivery)
    )
    assert stored.run_id is not None  # stored together with its run
    is_theirs = key is None or programs.is_request_of_key(tx, runs.get_run(tx, stored.run_id), key)
    if once != now or not is_theirs:
        name = delivery.key.partition(":")[2]
        raise program_calls.RequestKeyReusedError(
            f"The Idempotency-Key {name} was used for another request."
        )
    return stored.run_id


def _extract_call_definition(asked: Delivery) -> dict[str, Any]:
    """Return the part of a request's body that defines the call."""
    body: dict[str, Any] = json.loads(asked.body)
    return {name: each for name, each in body.items() if name not in NON_CALL_FIELDS}
