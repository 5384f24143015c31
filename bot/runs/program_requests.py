"""Puts a call before people for a program, without the agent and without a form.

The request is the requester's: policy, approvers and the record treat it as if that person had
filled in the tool's form. The program can read its status and outcome.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from bot.agent import outputs
from bot.approvals.call_state import describe_revision_effect, list_approving_votes
from bot.approvals.channel_mode import get_mode_of_run
from bot.cards import notices
from bot.cards.notices import POLICY, describe_why_not_done
from bot.cards.request_form import render_request_root_message
from bot.cards.request_list import format_permalink
from bot.runs.program_calls import ClaimedCall, ProgramCalls
from bot.runs.program_calls import ProgramRequestError as ProgramRequestError
from bot.runs.program_calls import RequesterNotPermittedError as RequesterNotPermittedError
from bot.runs.program_calls import RequestKeyReusedError as RequestKeyReusedError
from bot.runs.program_calls import RequestRateLimitError as RequestRateLimitError
from bot.signals import Signals
from bot.tools.arguments import dump_arguments, load_arguments
from bot.tools.handed_over import (
    HandedOverAction,
    check_effect_length,
    dump_checked_action,
    load_action_tool,
)
from storage import (
    calls,
    endings,
    inbox,
    moves,
    outbox,
    programs,
    runs,
)
from storage.masking import mask_secrets
from storage.models import Delivery, Run, new_id
from storage.programs import LEASE
from storage.states import CALL_FINAL, CallStatus, CallVerb, DeliveryKind, RunSource, RunStatus
from storage.store import Store

if TYPE_CHECKING:
    from bot.approvals.form_requests import FormFactory
    from bot.clock import Clock
    from bot.tools import Registry, Tool
    from storage.models import Call, Run, Vote
    from storage.programs import ClientKey
    from storage.transaction import Transaction


GLANCE = 0.25  # seconds between two looks at the rows while somebody waits
SAID_BESIDE = ("why", "within", programs.ASKED_BY)  # of a delivery: what is no part of the call


@dataclass(frozen=True, slots=True)
class RequestOutcome:
    """How the call that a program requested ended."""

    status: CallStatus
    result: str  # what the tool returned, as text, or in words why it was not done
    arguments: dict[str, Any]  # as they ran, or were last proposed: people may have edited them


class ProgramRequest:
    """A call that a program has put before people, and what the program may do with it."""

    def __init__(
        self, store: Store, run_id: str, at_work: ProgramRequestParts, *, is_new: bool = False
    ) -> None:
        """`run_id` names the request's run; it is still valid after a restart.

        `is_new`: the request was made just now, not found by its key.
        """
        self.run_id = run_id
        self.is_new = is_new
        self._store = store
        self._at_work = at_work

    def find_outcome(self) -> RequestOutcome | None:
        """Return how the call ended; None while it waits, runs or is UNKNOWN."""
        with self._store.read() as tx:
            run, found = runs.find_run(tx, self.run_id), calls.list_calls_of_run(tx, self.run_id)
            call = found[0] if found else None
            current = calls.find_revision(tx, call.id, call.revision) if call else None
        if call is None or call.status not in CALL_FINAL:
            if run is not None and run.status is RunStatus.CANCELLED:
                over = CallStatus.CANCELLED
                return RequestOutcome(over, outcome_sentence(describe_why_not_done(over)), {})
            return None
        arguments = json.loads(current.arguments) if current else {}
        why_not = describe_why_not_done(call.status)
        said = (
            outcome_sentence(why_not, self.load_status().note)
            if why_not
            else outputs.extract_result(call.output)
        )
        return RequestOutcome(call.status, said, arguments)

    def load_status(self) -> ProgramRequestStatus:
        """Return the request's current status: what was asked, who decided, what came of it."""
        with self._store.read() as tx:
            return load_request_status(
                tx, self._at_work.tools, self._at_work.workspace, self.run_id
            )

    def wait_for_outcome(self, seconds: float) -> RequestOutcome:
        """Return how the call ended, waiting `seconds` at most; after that, raise TimeoutError."""
        until, pause = time.monotonic() + seconds, threading.Event()
        while (found := self.find_outcome()) is None:
            if time.monotonic() >= until:
                raise TimeoutError("nobody has decided yet")
            pause.wait(GLANCE)
        return found

    def claim_call(self, claimant: str, lease: timedelta = LEASE) -> ClaimedCall | None:
        """Claim the call in order to execute it; `claimant` is a secret text, new for each attempt.

        None while the call is still being checked: claim again. `lease`: how soon a sign of life is
        due. Raises NotClaimedError.
        """
        return self._at_work.program_calls.claim_call(self.run_id, claimant, lease)

    def report_outcome(self, claimant: str, succeeded: bool | None, result: Any) -> None:
        """Report how the claimed call ended, as text or JSON; raises NotClaimedError.

        `succeeded`: None if the work was handed on, and this program cannot say how it ends.
        """
        self._at_work.program_calls.report_outcome(self.run_id, claimant, succeeded, result)

    def cancel(self) -> bool:
        """Cancel the request; return False if it has ended, or its call is running."""
        with self._store.write() as tx:
            run = runs.find_run(tx, self.run_id)
            found = [each.status for each in calls.list_calls_of_run(tx, self.run_id)]
            is_over = bool(found) and CALL_FINAL.issuperset(found)  # the run ends in a moment
            if run is None or is_over or CallStatus.RUNNING in found:
                return False
            at, actor = self._at_work.clock.now(), run.requester
            if not endings.cancel_run(tx, run, at=at, actor=actor, words=outputs):
                return False
            text = notices.cancelled_line(run.requester, run.client)
            outbox.queue_notice(tx, run, f"cancelled:{run.id}", {"text": text})
        self._at_work.signals.outbox.notify()
        self._at_work.signals.work.notify()
        return True


@dataclass(frozen=True, slots=True)
class ProgramRequestParts:
    """The parts of the bot that a program's requests use."""

    clock: Clock
    signals: Signals
    tools: Registry
    workspace: str  # its address in Slack; "" where it is not known
    program_calls: ProgramCalls


class ProgramRequests:
    """Makes and finds requests of programs; one per process, for any thread."""

    def __init__(self, parts: FormFactory, signals: Signals) -> None:
        """`parts` are the parts that forms use, as these requests begin in the same way."""
        self._store = parts.sources.store
        self._clock = parts.sources.clock
        self._tools = parts.tools
        self._authority = parts.authority
        self._places = parts.build_placement()
        self._signals = signals
        handovers = ProgramCalls(self._store, self._clock, signals, self._tools)
        url = parts.identity.workspace
        self._at_work = ProgramRequestParts(self._clock, signals, self._tools, url, handovers)

    def ask(
        self,
        tool: str | HandedOverAction,
        arguments: Mapping[str, Any],
        *,
        requester: str,
        channel: str = "",
        why: str = "",
        key: str = "",
        client: str | ClientKey = "",
        deadline: timedelta | None = None,
        while_open: bool = False,
    ) -> ProgramRequest:
        """Put a call before people, and return at once, before anybody has decided.

        `tool`: the name of one of the bot's tools, or an action that the program executes itself:
        it then claims the call and reports. `requester`: the Slack user id of the person who is
        responsible for the request and cannot approve it. `channel`: the id of the channel to ask
        in, "" for the requester's direct messages; those are used as well if the requester or the
        bot is not in the channel, or another company can read it. `why`: for the approver. `key`:
        an earlier request with this key is returned, as long as it is kept, or is open
        (`while_open`). `client`: the API key of the program, which limits how often it asks, or
        just its name. `deadline`: the time to decide in, if shorter than policy's.

        Raises KeyError for an unknown tool, ActionError for an action that nobody can be asked
        about, pydantic.ValidationError for invalid arguments, RequesterNotPermittedError if the
        requester is no full member of the workspace, RequestKeyReusedError if the key was used for
        something else, RequestRateLimitError if the client has asked too often, and
        LookupFailedError if Slack cannot be asked.
        """
        caller, by_key = (client, None) if isinstance(client, str) else (client.name, client)
        action = "" if isinstance(tool, str) else dump_checked_action(tool, self._tools, caller)
        known = self._tools.get(tool) if isinstance(tool, str) else load_action_tool(action)
        if known is None:
            raise KeyError(tool)
        args = known.arguments.model_validate(dict(arguments))
        check_effect_length(known, args)
        asked: dict[str, Any] = {"tool": known.name, "arguments": args.model_dump(mode="json")}
        asked |= {"why": why} | ({"action": action} if action else {})
        asked |= {programs.ASKED_BY: by_key.id} if by_key else {}  # no part of the call
        asked |= {"within": deadline.total_seconds()} if deadline else {}
        effect = mask_secrets(known.effect_sentence(args))
        self._require_colleague(requester)
        name = self._prepare_delivery_key(caller, key, while_open=while_open)
        delivery = self._build_delivery(name, requester, channel, asked)
        place = self._places.find_start_channel(channel, requester)
        run_id, is_new = self._store_request(delivery, effect, place, caller, by_key)
        self._signals.outbox.notify()
        self._signals.work.notify()
        return ProgramRequest(self._store, run_id, self._at_work, is_new=is_new)

    def _require_colleague(self, requester: str) -> None:
        if not requester or not self._authority.is_active_colleague(requester):
            why = f"{requester!r} is not a full member of this workspace"
            raise RequesterNotPermittedError(why)

    def _prepare_delivery_key(self, client: str, key: str, *, while_open: bool) -> str:
        """Return the delivery's key; with `while_open`, first free it if its request is over."""
        name = programs.build_delivery_key(client, key or new_id())
        if while_open and key:
            with self._store.write() as tx:
                programs.release_delivery_key(tx, name)
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
            received_at=self._clock.now(),
        )

    def find_request(self, run_id: str, client: str | ClientKey = "") -> ProgramRequest | None:
        """Return an earlier request of this client or API key; None if it is not theirs."""
        with self._store.read() as tx:
            run = runs.find_run(tx, run_id)
            if run is None:
                return None
            if isinstance(client, str):
                is_theirs = (run.source, run.client) == (RunSource.PROGRAM, client)
            else:
                is_theirs = programs.is_request_of_key(tx, run, client)
        return ProgramRequest(self._store, run_id, self._at_work) if is_theirs else None

    def _store_request(
        self, asked: Delivery, effect: str, place: str, client: str, key: ClientKey | None
    ) -> tuple[str, bool]:
        """Store the request: its delivery, its run, and the message that begins its thread.

        The run is in the channel `place`, or in direct messages if that is "". Returns the run's
        id, which is that of an earlier one if the same request was made before, and whether it is
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
            is_new = inbox.insert_delivery(tx, asked)
            stored = inbox.find_delivery(tx, asked.key)
            assert stored is not None
            if not is_new:
                return _get_run_id_of_same_request(tx, stored, asked, key), False
            if key:  # counted here, so that of many at once no more are let through
                _check_rate_limit(tx, key, now)
            moves.insert_run(tx, run, at=now)
            inbox.hold_message(tx, stored, run.id)
            mode = get_mode_of_run(tx, run)
            text, blocks = render_request_root_message(run.requester, effect, "", mode, run.client)
            outbox.queue_thread_root_message(tx, run, text, blocks)
        return run.id, True


def _check_rate_limit(tx: Transaction, client: ClientKey, now: datetime) -> None:
    """Raise RequestRateLimitError if this client has no requests left within the hour."""
    since = programs.find_time_of_earlier_request(
        tx, client.name, client.per_hour, now - programs.HOUR
    )
    if since is not None:
        raise RequestRateLimitError(since)


def _get_run_id_of_same_request(
    tx: Transaction, stored: Delivery, asked: Delivery, key: ClientKey | None
) -> str:
    """Return the run's id of an equal earlier request; RequestKeyReusedError if it differs or is
    another's.

    The reason and the deadline may differ: those of the first request apply.
    """
    once, now = (
        (each.user, each.channel, _extract_call_definition(each)) for each in (stored, asked)
    )
    run = runs.find_run(tx, stored.run_id or "")
    is_theirs = key is None or (run is not None and programs.is_request_of_key(tx, run, key))
    if once != now or not stored.run_id or not is_theirs:
        name = asked.key.partition(":")[2]
        raise RequestKeyReusedError(f"the key {name!r} was used for something else")
    return stored.run_id


def _extract_call_definition(asked: Delivery) -> dict[str, Any]:
    """Return the part of a request's body that defines the call."""
    body: dict[str, Any] = json.loads(asked.body)
    return {name: each for name, each in body.items() if name not in SAID_BESIDE}


# The status of a program's request, as data: what was asked, who decided, what came of it.

PREPARING = "preparing"  # nobody has been asked yet


@dataclass(frozen=True, slots=True)
class ProgramRequestStatus:
    """The current status of one request of a program."""

    id: str
    status: str  # PREPARING, then the call's
    requester: str
    channel: str  # where it is asked; a person's id while that conversation is being opened
    created_at: datetime
    link: str = ""  # to its message in Slack; "" before it stands
    tool: str = ""
    title: str = ""
    effect: str = ""
    arguments: dict[str, Any] | None = None  # as they stand; secret ones masked
    revision: int = 0
    digest: str = ""
    reason: str = ""
    deadline: datetime | None = None
    handed_over: bool = False  # the program executes it itself
    decided_by: tuple[str, ...] = ()  # Slack user ids
    edited_by: tuple[str, ...] = ()
    result: Any = None  # what came of it, in JSON where it was
    note: str = ""  # why it was refused, rejected, or went wrong

    @property
    def is_decided(self) -> bool:
        """Return whether people, the policy or the clock have decided the call."""
        return self.status not in (PREPARING, CallStatus.PENDING)


def load_request_status(
    tx: Transaction, tools: Registry, workspace: str, run_id: str
) -> ProgramRequestStatus:
    """Return the status of the request; KeyError if there is no such run.

    `workspace`: the workspace's address in Slack.
    """
    run, found = runs.find_run(tx, run_id), calls.list_calls_of_run(tx, run_id)
    if run is None:
        raise KeyError(run_id)
    link = format_permalink(workspace, run.channel, run.thread_ts)
    return (
        _build_call_status(tx, tools, run, found[0], link)
        if found
        else _build_unproposed_status(tx, tools, run, link)
    )


def _build_unproposed_status(
    tx: Transaction, tools: Registry, run: Run, link: str
) -> ProgramRequestStatus:
    """Return the status of a request whose call is not yet proposed, from its first delivery."""
    delivery = programs.find_first_program_delivery(tx, run.id)
    asked = json.loads(delivery.body) if delivery else {}  # {} also where it was purged
    name, action = asked.get("tool", ""), asked.get("action", "")
    tool = tools.find_action_tool(action) if action else tools.get(name)
    effect, arguments = (
        _describe_effect_and_arguments(tool, asked["arguments"]) if tool and asked else ("", None)
    )
    return ProgramRequestStatus(
        run.id,
        CallStatus.CANCELLED if run.status is RunStatus.CANCELLED else PREPARING,
        run.requester,
        run.channel,
        run.created_at,
        link,
        tool=name,
        title=tool.title if tool else name,
        effect=effect,
        arguments=arguments,
        reason=asked.get("why", ""),
        handed_over=bool(action),
    )


def _describe_effect_and_arguments(
    tool: Tool[Any], given: Mapping[str, Any]
) -> tuple[str, dict[str, Any] | None]:
    """Return the sentence of what the call would do, and its arguments with secrets masked.

    The tool's title and None if the arguments no longer fit the tool.
    """
    try:
        args = load_arguments(tool, json.dumps(given))
        return mask_secrets(tool.effect_sentence(args)), tool.mask_arguments(
            json.loads(dump_arguments(args))
        )
    except ValueError:
        return tool.title, None


def _build_call_status(
    tx: Transaction, tools: Registry, run: Run, call: Call, link: str
) -> ProgramRequestStatus:
    current = calls.find_revision(tx, call.id, call.revision)
    tool, votes = (
        tools.find_tool_of_call(call),
        calls.list_votes_on_revision(tx, call.id, call.revision),
    )
    given = json.loads(current.arguments) if current else None
    against = [vote for vote in votes if vote.verb is CallVerb.REJECT]
    rejected = call.status is CallStatus.REJECTED
    words = "; ".join(vote.reason for vote in against if vote.reason) if rejected else ""
    return ProgramRequestStatus(
        run.id,
        call.status,
        run.requester,
        run.channel,
        run.created_at,
        link,
        tool=call.tool,
        title=tool.title if tool else call.tool,
        effect=describe_revision_effect(tools, call, current) if current else "",
        arguments=tool.mask_arguments(given) if tool and given is not None else None,
        revision=call.revision,
        digest=call.digest,
        reason=call.reason,
        deadline=call.deadline if calls.is_waiting_for_people(call) else None,
        handed_over=bool(call.action),
        decided_by=_list_deciders(tx, call, against if rejected else list_approving_votes(votes)),
        edited_by=tuple(sorted(calls.list_editors(tx, call.id))),
        result=_load_result(tx, call),
        note=mask_secrets(words or call.note),
    )


def outcome_sentence(what: str, note: str = "") -> str:
    """Return a sentence that says what became of a request, with the `note` as its reason."""
    why = note.removeprefix(POLICY)
    return f"{what}: {why.rstrip('.')}." if why else f"{what}."


def _list_deciders(tx: Transaction, call: Call, votes: Sequence[Vote]) -> tuple[str, ...]:
    if call.status is CallStatus.ANSWERED:
        answer = calls.find_person_answer(tx, call.id)
        return (answer.person,) if answer else ()
    return tuple(vote.person for vote in votes)


def _load_result(tx: Transaction, call: Call) -> Any:
    if call.status is CallStatus.ANSWERED:
        answer = calls.find_person_answer(tx, call.id)
        return None if answer is None or answer.declined else json.loads(answer.given)
    if call.status is not CallStatus.SUCCEEDED:
        return None
    text = outputs.extract_result(call.output)
    try:
        return json.loads(text)
    except ValueError:
        return text
