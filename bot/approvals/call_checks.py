"""Checks on proposed calls before people are asked: bad arguments, repeats, and limits of use."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pydantic import BaseModel, ValidationError

from bot.agent import outputs
from bot.cards.edit_form import find_first_unshown_argument_path
from bot.cards.field_values import list_argument_values
from bot.cards.review_dialog import can_review_show_whole_call
from bot.cards.slack_text import format_in_utc, shorten_text, show_hidden_characters
from bot.cards.views import CallView
from bot.clock import Clock
from bot.config.settings import Settings
from bot.policy.authority import LookupFailedError
from bot.tools import Effect, Tool
from bot.tools.arguments import build_readable_arguments, load_arguments, load_new_arguments
from bot.tools.names import UNKNOWN_NAME, SlackIdResolver
from bot.tools.registration import REASON_FIELD
from countersign.durations import format_count
from storage import call_history, calls, runs, sub_agents
from storage.digest import NonCanonicalValueError, parse_json_object
from storage.record import Call, Run, Transaction
from storage.states import CallStatus, RunSource


class CallRefusedError(Exception):
    """Raised when a call is refused before anyone is asked.

    `output` is for the model, `note` for people.
    """

    def __init__(self, output: str, note: str = "", *, tell: bool = False) -> None:
        super().__init__(output)
        self.output, self.note, self.tell = output, note or output, tell


def parse_arguments_and_reason(
    tool: Tool[Any], text: str, names: SlackIdResolver
) -> tuple[BaseModel, str]:
    """Return the model's argument text as validated arguments, and the reason the model gives.

    Names of people and channels are looked up. Raises CallRefusedError.
    """
    try:
        parsed = parse_json_object(text)
        reason = str(parsed.pop(REASON_FIELD, "") or "")[:500] if tool.needs_reason else ""
        args = load_new_arguments(tool, json.dumps(parsed), names)
    except NonCanonicalValueError as error:
        raise CallRefusedError(
            outputs.malformed_arguments_output(error), "its arguments were not valid"
        ) from error
    except LookupFailedError as error:
        raise CallRefusedError(
            outputs.NAME_LOOKUP_FAILED, "Slack could not be asked for names"
        ) from error
    except ValidationError as error:
        lines = [
            f"{'.'.join(map(str, e['loc'])) or 'arguments'}: {e['msg']}"
            for e in error.errors()[:20]
        ]
        unknown = [e["msg"] for e in error.errors() if e["type"] == UNKNOWN_NAME]
        raise CallRefusedError(
            outputs.invalid_arguments_output(lines),
            " ".join(unknown) or "its arguments were not valid",
        ) from error
    return args, reason


# The check, for proposed and edited calls, that people can be shown everything that would run.

TOO_LONG_TO_SHOW_ERROR = (
    "It is too long to show its approvers in full, and nothing runs that they cannot see. Make it "
    "smaller, or split it."
)


def explain_incomplete_display(
    tool: Tool[Any],
    arguments: str,
    names: Mapping[str, str],
    *,
    preview: str = "",
    reason: str = "",
    before: str | None = None,
) -> str:
    """Return why approvers could not be shown all of a call, in a sentence; "" if they can.

    `arguments`: the JSON that would run, exactly as it is digested; `before`: the JSON before an
    edit. `names`: the names of the ids in the arguments. `preview`, `reason`: further text to be
    shown.
    """
    as_read = build_readable_arguments(tool, arguments, names)
    old_values = build_readable_arguments(tool, before, names) if before is not None else None
    rows = list_argument_values(tool, as_read)
    runs: dict[str, Any] = json.loads(arguments)
    missing = find_first_unshown_argument_path(runs, as_read, rows, tool.list_secret_paths(runs))
    if missing is not None:
        where = (
            shorten_text(show_hidden_characters(" › ".join(map(str, missing))), 200)
            or "its arguments"
        )
        return f"Approvers could not be shown all of what would run: {where}. So nobody is asked."
    view = CallView(
        id="",
        revision=1,
        title=tool.title,
        effect=tool.effect_sentence(load_arguments(tool, arguments), names),
        does=tool.does,
        status=CallStatus.PENDING,
        values=list_argument_values(tool, as_read, old_values) if old_values is not None else rows,
        preview=preview,
        agent_reason=reason,
    )
    return "" if can_review_show_whole_call(view) else TOO_LONG_TO_SHOW_ERROR


# Repeated calls: the same tool with the same arguments, in one request or by one program.

C = CallStatus
RECENT_CALL_PERIOD = timedelta(minutes=10)  # a program may repeat a call whose outcome it never saw
STARTED_STATUSES = (
    C.RUNNING,
    C.SUCCEEDED,
    C.FAILED,
    C.UNKNOWN,
)  # a failed call may have changed something too
REPEATED_CALL_NOTE = "same as an earlier call, so it got that result"


@dataclass(frozen=True, slots=True)
class EarlierSameCall:
    """An earlier call with the same tool and arguments."""

    note: str  # for the card, if people are asked
    reusable_call: Call | None = None  # if set, its result is used and this call does not run


def find_earlier_same_call(
    tx: Transaction,
    run: Run,
    tool: Tool[Any],
    arguments: str,
    siblings: Sequence[tuple[Call, str]],
    now: datetime,
) -> EarlierSameCall | None:
    """Return the earlier call of this request or program that this call repeats, if there is one.

    `siblings`: the earlier calls of its plan with their canonical arguments. Raises
    CallRefusedError if the call was rejected before.
    """
    earlier: Sequence[Call] = ()  # does not include refused calls
    if run.calls or run.parent_call:
        earlier = call_history.list_same_calls_in_request(tx, run.root_id, tool.name, arguments)
    if any(each.status is C.REJECTED for each in earlier):
        raise CallRefusedError(outputs.REJECTED_BEFORE, "the same call was rejected before")
    ended_calls = (call for call in reversed(earlier) if call.status in (C.SUCCEEDED, C.UNKNOWN))
    earlier_call = next(ended_calls, None)
    if earlier_call is not None:
        return EarlierSameCall(
            _describe_earlier_outcome(earlier_call),
            earlier_call if _is_result_reusable(tx, earlier_call, tool, siblings) else None,
        )
    if any((call.tool, given) == (tool.name, arguments) for call, given in siblings):
        return EarlierSameCall("the same is in this plan already, so it would run twice")
    if earlier:
        return EarlierSameCall(_describe_earlier_outcome(earlier[-1]))
    return _find_recent_program_call(tx, run, tool, arguments, now)


def _find_recent_program_call(
    tx: Transaction, run: Run, tool: Tool[Any], arguments: str, now: datetime
) -> EarlierSameCall | None:
    """Return the same call by this program in the last ten minutes; None if there is none.

    The program may not know how the earlier call ended, or may want the call twice: only people can
    say.
    """
    if not run.client or run.parent_call or tool.does is Effect.READ:
        return None
    earlier_call = call_history.find_newest_matching_program_call(
        tx, run.client, tool.name, arguments, now - RECENT_CALL_PERIOD
    )
    if earlier_call is None:
        return None
    match earlier_call.status:
        case C.SUCCEEDED:
            at = format_in_utc(earlier_call.finished_at or earlier_call.created_at)
            return EarlierSameCall(f"the same was done already for this program, {at}")
        case C.RUNNING:
            return EarlierSameCall("the same is being done already for this program")
    return EarlierSameCall("the same was started already for this program, with unknown outcome")


def _is_result_reusable(
    tx: Transaction, done: Call, tool: Tool[Any], siblings: Sequence[tuple[Call, str]]
) -> bool:
    """Return whether running `done` again would still give the result that is stored."""
    if not tool.idempotent or tool.does is Effect.READ or done.status is not C.SUCCEEDED:
        return False
    ran = [
        call for call in calls.list_later_calls_of_run(tx, done) if call.status in STARTED_STATUSES
    ]
    # earlier calls of the same plan will have run by then, if they are approved
    between = [*ran, *(call for call, _ in siblings)]
    # calls of the request's other agents may have run before `done` or after it, so they count too
    found = calls.list_calls_of_request(tx, runs.get_run(tx, done.run_id).root_id)
    between += [
        call for call in found if call.run_id != done.run_id and call.status in STARTED_STATUSES
    ]
    return done.schema_digest == tool.schema_digest() and all(
        call.does == Effect.READ for call in between
    )


def _describe_earlier_outcome(call: Call) -> str:
    """Return the outcome of the earlier call, in words that follow "Why this is asked:"."""
    match call.status:
        case C.SUCCEEDED:
            at = format_in_utc(call.finished_at or call.created_at)
            return f"the same was done already in this request, {at}"
        case C.UNKNOWN:
            return "the same was started already in this request, with unknown outcome"
        case C.FAILED:
            return "the same was tried already in this request, and failed"
        case C.EXPIRED:
            return "the same was asked already in this request, with no answer"
        case _:
            return "the same was asked already in this request, and not done"


# Limits for one request and for one person: turns, tokens, cards, calls that wait for approval.

MAX_REFUSED_TURNS = 3  # turns in a row whose calls were all refused, before the request ends
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(hours=24)


def _was_every_recent_turn_refused(tx: Transaction, run: Run) -> bool:
    """Return whether the last MAX_REFUSED_TURNS turns all proposed calls, and all were refused."""
    proposed = calls.list_calls_of_run(tx, run.id)
    ids = list(dict.fromkeys(each.plan_id for each in proposed))[-MAX_REFUSED_TURNS:]
    plans = [calls.find_plan(tx, each) for each in ids]
    in_a_row = [*range(run.turns - MAX_REFUSED_TURNS + 1, run.turns + 1)]
    return [plan.turn for plan in plans if plan] == in_a_row and all(
        each.status is CallStatus.REFUSED for each in proposed if each.plan_id in ids
    )


@dataclass(frozen=True, slots=True)
class ReachedLimit:
    """A reached limit, because of which nobody is asked: texts for the model and the requester."""

    output: str
    note: str


@dataclass(frozen=True, slots=True)
class UsageLimits:
    """The limits from the settings, checked against what is stored."""

    settings: Settings
    clock: Clock

    def find_reached_asking_limit(
        self, tx: Transaction, run: Run, asked: int
    ) -> ReachedLimit | None:
        """Return the limit that forbids asking about one more call of this run; None if none does.

        `asked`: the number of calls of the same plan that people are asked about already.
        """
        settings = self.settings
        if sub_agents.get_root_run(tx, run).cards >= settings.max_cards:
            return ReachedLimit(
                outputs.card_limit_output(settings.max_cards),
                "this request has reached its limit for asking people",
            )
        if run.source is RunSource.PROGRAM and run.client:
            return None  # its API key's own limit was checked when the request came in
        waiting = runs.count_pending_calls_of_requester(tx, run.team, run.requester) + asked
        if waiting >= settings.max_pending:
            return ReachedLimit(
                outputs.too_many_waiting_output(waiting),
                f"{waiting} of your requests {'is' if waiting == 1 else 'are'} already waiting for "
                "a decision; this one has to wait until some are decided",
            )
        if wait := self._count_minutes_to_wait(tx, run, settings.max_asked_per_hour - asked):
            most = format_count(settings.max_asked_per_hour, "call")
            asked_text = f"people were asked about {most}"
            return ReachedLimit(
                outputs.rate_limit_output(asked_text, wait),
                f"{asked_text} of yours within the last hour, which is the limit; "
                f"ask me again in {format_count(wait, 'minute')}",
            )
        return None

    def _count_minutes_to_wait(self, tx: Transaction, run: Run, most: int) -> int:
        """Return how many whole minutes to wait before people may be asked again; 0 for now.

        `most`: the number of calls they may be asked about within the hour.
        """
        now = self.clock.now()
        if most <= 0:
            return HOUR // MINUTE
        first = runs.find_earlier_approval_ask_time(
            tx, run.team, run.requester, most - 1, now - HOUR
        )
        return max(1, -((now - HOUR - first) // MINUTE)) if first else 0

    def describe_reached_turn_limit(self, tx: Transaction, run: Run) -> str:
        """Return why this run may take no further model turn, for its thread; "" if it may.

        The words follow "I stopped:".
        """
        settings = self.settings
        request = sub_agents.get_root_run(tx, run)  # its turns include those of its sub-agents
        taken = request.turns
        # other running agents of the request may be in a turn that is not counted yet; there are at
        # most as many as calls, so far below the limit this needs no query
        if taken + request.calls >= settings.max_turns:
            taken += sub_agents.count_other_running_runs(tx, run)
        if taken >= settings.max_turns:
            return f"this request has taken {settings.max_turns} turns, which is its limit."
        if run.turns >= MAX_REFUSED_TURNS and _was_every_recent_turn_refused(tx, run):
            return f"what I proposed was refused {MAX_REFUSED_TURNS} turns in a row."
        if request.tokens >= settings.max_tokens:
            used = f"this request has used {request.tokens} tokens"
            return f"{used}, which is more than its limit."
        tokens = runs.sum_requester_tokens_since(tx, run, self.clock.now() - DAY)
        if tokens >= settings.max_tokens_per_day:
            return (
                f"your requests of the last 24 hours have used {tokens:,} tokens, and "
                f"one person's limit is {settings.max_tokens_per_day:,}. Ask me again later."
            )
        return ""
