"""The history of calls: what was proposed and decided, and which calls count towards limits."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import and_, bindparam, case, func, or_, select
from sqlmodel import col

from storage import calls, models
from storage.calls import CALL_OF_REQUEST_CONDITION
from storage.columns import hide_from_indexes
from storage.models import Attempt, Call, Item, Message, Plan, Revision, Run, Vote
from storage.states import LOOK_VERBS, CallStatus, CallVerb, MessageKind, MessageStatus
from storage.transaction import Transaction, fetch_first_row, fetch_rows, insert_row

# Sums and counts of a tool's calls over a time window, on which policies set limits.

C = CallStatus
MIN_DATETIME = datetime.min.replace(tzinfo=UTC)
UNSTARTED_STATUSES = (C.PENDING, C.APPROVED)
RUNNING_STATUSES = (C.RUNNING, C.ENTRUSTED)
_TEAM_CONDITION = hide_from_indexes(Run.team) == bindparam("team_")
_TOOL_CONDITION = hide_from_indexes(Call.tool) == bindparam("tool_")
_CURRENT_REVISION_CONDITION = (col(Revision.call_id) == col(Call.id)) & (
    col(Revision.number) == col(Call.revision)
)
_SELECT_COUNTED_CALLS = (
    select(
        col(Call.id),
        col(Call.status),
        col(Call.created_at),
        col(Call.finished_at),
        col(Call.decided_at),
        col(Revision.arguments),
    )
    .join(Run, col(Run.id) == col(Call.run_id))
    .join(Revision, _CURRENT_REVISION_CONDITION)
    .where(
        col(Run.team) == bindparam("team_"),
        or_(
            and_(
                col(Call.tool) == bindparam("tool_"),
                col(Call.finished_at) > bindparam("since_"),
                col(Call.status).in_((C.SUCCEEDED, C.UNKNOWN)),
            ),
            and_(
                _TOOL_CONDITION,
                col(Call.status).in_((*UNSTARTED_STATUSES, *RUNNING_STATUSES, C.UNKNOWN)),
                (col(Call.status) != C.UNKNOWN) | col(Call.finished_at).is_(None),
            ),
        ),
    )
)
_SELECT_ATTEMPTS = (
    select(col(Call.id), col(Attempt.at), col(Revision.arguments))
    .join(Attempt, col(Attempt.call_id) == col(Call.id))
    .join(Run, col(Run.id) == col(Call.run_id))
    .join(
        Revision,
        (col(Revision.call_id) == col(Call.id)) & (col(Revision.number) == col(Attempt.revision)),
    )
    .where(_TEAM_CONDITION, _TOOL_CONDITION)
    .where(col(Attempt.at) > bindparam("since_"))
    .order_by(col(Attempt.seq))
)
_SELECT_COUNTED_OF_REQUESTER = _SELECT_COUNTED_CALLS.where(
    col(Run.requester) == bindparam("requester_")
)
_SELECT_ATTEMPTS_OF_REQUESTER = _SELECT_ATTEMPTS.where(
    hide_from_indexes(Run.requester) == bindparam("requester_")
)


@dataclass(frozen=True, slots=True)
class CallCountedTowardsLimit:
    """A call that counts towards a policy's limit on its tool: when it ended, and its arguments."""

    at: datetime | None  # when it ended or was decided; None while it is open
    arguments: str  # canonical JSON


def iterate_calls_counted_towards_limit(
    tx: Transaction,
    team: str,
    requester: str | None,
    tool: str,
    *,
    since: datetime = MIN_DATETIME,
    call_about_to_run: Call | None = None,
) -> Iterator[CallCountedTowardsLimit]:
    """Yield the tool's calls that count towards a limit: open, or perhaps run after `since`.

    `requester`: whose calls; None: everybody's. An earlier start that may have had an effect,
    although its call failed or runs again, counts separately. `call_about_to_run`: a call that is
    about to run; neither it nor an unstarted call made after it counts.
    """
    for _, counts in iterate_starts_with_possible_effect(tx, team, requester, tool, since):
        yield counts
    parameters = {"team_": team, "requester_": requester, "tool_": tool, "since_": since}
    rows = tx.execute(
        _SELECT_COUNTED_CALLS if requester is None else _SELECT_COUNTED_OF_REQUESTER, parameters
    )
    for call_id, status, created_at, finished_at, decided_at, arguments in rows:
        if call_about_to_run is not None:
            later = (created_at, call_id) > (call_about_to_run.created_at, call_about_to_run.id)
            if call_id == call_about_to_run.id or (later and status in UNSTARTED_STATUSES):
                continue
        ended_at = (
            None
            if status in (*UNSTARTED_STATUSES, *RUNNING_STATUSES)
            else finished_at or decided_at or created_at
        )
        yield CallCountedTowardsLimit(ended_at, arguments)


def iterate_starts_with_possible_effect(
    tx: Transaction, team: str, requester: str | None, tool: str, since: datetime = MIN_DATETIME
) -> Iterator[tuple[str, CallCountedTowardsLimit]]:
    """Yield (call id, time and arguments) of each start of a call that may have had an effect.

    Only starts whose outcome became known after `since`, in order. `requester`: whose calls; None:
    everybody's.
    """
    about = {"team_": team, "requester_": requester, "tool_": tool, "since_": since}
    found = tx.execute(
        _SELECT_ATTEMPTS if requester is None else _SELECT_ATTEMPTS_OF_REQUESTER, about
    )
    for call_id, at, arguments in found:
        yield call_id, CallCountedTowardsLimit(at, arguments)


def record_possible_effect(tx: Transaction, call: Call, at: datetime) -> None:
    """Record that a call may have had its effect, so that it counts towards limits in any case."""
    insert_row(tx, Attempt(call_id=call.id, revision=call.revision, at=at))


# All revisions and votes of a call, and the messages in its request's thread. Reads only.

_SELECT_ANSWERS_AND_NOTICES = (
    select(Message)
    .where(
        col(Message.run_id).in_(select(col(Run.id)).where(col(Run.root_id) == bindparam("root_"))),
        col(Message.kind).in_((MessageKind.ANSWER, MessageKind.NOTICE)),
        col(Message.status) != MessageStatus.STREAMING,
    )
    .order_by(col(Message.seq))
)


def list_votes_on_all_revisions(tx: Transaction, call_id: str) -> list[Vote]:
    """Return every vote on any revision of a call, oldest first."""
    return tx.list_rows(Vote, order_by="seq", call_id=call_id)


def list_request_answers_and_notices(tx: Transaction, root_id: str) -> list[Message]:
    """Return the answers and notices posted in a request's thread, in order."""
    return fetch_rows(tx, Message, _SELECT_ANSWERS_AND_NOTICES, root_=root_id)


def was_question_declined(tx: Transaction, call: Call) -> bool:
    """Return whether the call is a question that the person asked declined to answer."""
    answer = calls.find_person_answer(tx, call.id)
    return call.status is CallStatus.ANSWERED and answer is not None and answer.declined


_SELECT_CALLS_SINCE = (
    select(Call)
    .where(col(Call.created_at) >= bindparam("since_"))
    .order_by(col(Call.created_at), col(Call.id))
)
_SELECT_TRANSCRIPT_ITEMS = (
    select(col(Item.body)).where(col(Item.run_id) == bindparam("run_")).order_by(col(Item.seq))
)
_PAST_CALL_COLUMNS = (Call.id, Call.plan_id, Call.position, Call.status, Call.created_at)
_ENDED_AT_COLUMN = func.coalesce(col(Call.finished_at), col(Call.decided_at))
_SELECT_PAST_CALLS = (
    select(
        *map(col, _PAST_CALL_COLUMNS),
        _ENDED_AT_COLUMN,
        col(Revision.created_at),
        col(Revision.arguments),
    )
    .join(Run, col(Run.id) == col(Call.run_id))
    .join(Revision, col(Revision.call_id) == col(Call.id))
    .where(
        col(Run.team) == bindparam("team_"),
        col(Call.tool) == bindparam("tool_"),
        col(Call.status) != CallStatus.REFUSED,
    )
    .order_by(col(Call.created_at), col(Call.id), col(Revision.number))
)
_SELECT_PAST_CALLS_OF_REQUESTER = _SELECT_PAST_CALLS.where(
    col(Run.requester) == bindparam("requester_")
)


_COUNT_CALLS_BY_GATE = (
    select(col(Call.gate), col(Run.requester), func.count())
    .join(Run, col(Run.id) == col(Call.run_id))
    .where(col(Call.created_at) >= bindparam("since_"), col(Call.status) != CallStatus.REFUSED)
    .group_by(col(Call.gate), col(Run.requester))
)


@dataclass(frozen=True, slots=True)
class PastCall:
    """A past call of one tool, with its arguments and the time each version of them was made."""

    id: str
    plan_id: str
    position: int
    status: CallStatus
    created_at: datetime
    ended_at: datetime | None
    argument_versions: tuple[tuple[datetime, str], ...]
    attempts: tuple[CallCountedTowardsLimit, ...]  # earlier starts that may have had an effect


def list_calls_proposed_since(tx: Transaction, moment: datetime) -> list[Call]:
    """Return the calls proposed since `moment`, in order."""
    return fetch_rows(tx, Call, _SELECT_CALLS_SINCE, since_=moment)


def count_calls_by_gate_since(tx: Transaction, moment: datetime) -> list[tuple[str, str, int]]:
    """Return (gate as JSON, requester, number of calls) for the calls proposed since `moment`.

    Refused calls are not counted.
    """
    return [
        (gate, requester, count)
        for gate, requester, count in tx.execute(_COUNT_CALLS_BY_GATE, {"since_": moment})
    ]


def find_proposed_arguments(tx: Transaction, call: Call) -> str | None:
    """Return the arguments as the model wrote them, from the transcript; None if there are none."""
    for text in tx.scalars(_SELECT_TRANSCRIPT_ITEMS, {"run_": call.run_id}):
        item = json.loads(text)
        if item.get("type") == "function_call" and item.get("call_id") == call.provider_id:
            return str(item.get("arguments"))
    return None


def list_past_calls_of_tool(
    tx: Transaction, team: str, requester: str | None, tool: str
) -> list[PastCall]:
    """Return the calls of this tool that were not refused, in order.

    `requester`: whose requests; None: anyone's.
    """
    past_calls_by_id: dict[str, PastCall] = {}
    tried = defaultdict[str, tuple[CallCountedTowardsLimit, ...]](tuple)
    for call_id, counts in iterate_starts_with_possible_effect(tx, team, requester, tool):
        tried[call_id] += (counts,)
    parameters = {"team_": team, "requester_": requester, "tool_": tool}
    for row in tx.execute(
        _SELECT_PAST_CALLS if requester is None else _SELECT_PAST_CALLS_OF_REQUESTER, parameters
    ):
        call_id, plan_id, position, status, created_at, ended_at, revised_at, arguments = row
        earlier_versions = (
            past_calls_by_id[call_id].argument_versions if call_id in past_calls_by_id else ()
        )
        versions = (*earlier_versions, (revised_at, arguments))
        past_calls_by_id[call_id] = PastCall(
            call_id, plan_id, position, status, created_at, ended_at, versions, tried[call_id]
        )
    return list(past_calls_by_id.values())


def iterate_calls_counted_at_proposal(
    history: Sequence[PastCall], call: Call
) -> Iterator[CallCountedTowardsLimit]:
    """Yield those past calls that counted towards a limit at the time when `call` was proposed."""
    now = call.created_at
    for each in history:
        yield from (one for one in each.attempts if one.at is not None and one.at <= now)
        sibling = each.plan_id == call.plan_id
        if each.position >= call.position if sibling else each.created_at >= now:
            continue
        earlier_arguments = [text for since, text in each.argument_versions if since <= now] or [
            each.argument_versions[0][1]
        ]
        over = (
            each.ended_at is not None
            and each.ended_at <= now
            and each.status not in UNSTARTED_STATUSES
        )
        if not over and (each.ended_at is not None or each.status in UNSTARTED_STATUSES):
            yield CallCountedTowardsLimit(None, earlier_arguments[-1])
        elif each.status in (CallStatus.SUCCEEDED, CallStatus.UNKNOWN, *RUNNING_STATUSES):
            yield CallCountedTowardsLimit(each.ended_at or each.created_at, earlier_arguments[-1])


# Earlier calls of the same request or program, with which a new call is compared.

_SELECT_LAST_REJECTED_GATE = (
    select(col(Call.gate))
    .where(CALL_OF_REQUEST_CONDITION, hide_from_indexes(Call.status) == C.REJECTED.value)
    .order_by(col(Call.decided_at).desc())
    .limit(1)
)
_SELECT_SAME_CALLS = (
    select(Call)
    .join(Plan, col(Plan.id) == col(Call.plan_id))
    .join(Revision, _CURRENT_REVISION_CONDITION)
    .where(CALL_OF_REQUEST_CONDITION, _TOOL_CONDITION, col(Call.status) != CallStatus.REFUSED)
    .where(col(Revision.arguments) == bindparam("arguments_"))
    .order_by(col(Call.created_at), col(Plan.turn), col(Call.position))
)
_SELECT_NEWEST_PROGRAM_CALL = (
    select(Call)
    .join(Run, col(Run.id) == col(Call.run_id))
    .join(
        Revision,
        (col(Revision.call_id) == col(Call.id))
        & (col(Revision.number).in_((1, col(Call.revision)))),
    )
    .where(col(Run.client) == bindparam("client_"), col(Run.created_at) > bindparam("since_"))
    .where(_TOOL_CONDITION, col(Revision.arguments) == bindparam("arguments_"))
    .where(col(Call.status).in_((CallStatus.RUNNING, CallStatus.SUCCEEDED, CallStatus.UNKNOWN)))
    .order_by(col(Call.created_at).desc())
    .limit(1)
)


def list_same_calls_in_request(
    tx: Transaction, root_id: str, tool: str, arguments: str
) -> list[Call]:
    """Return the request's calls of this tool with these canonical arguments, in order.

    Sub-agents' calls are included, refused ones are not.
    """
    return fetch_rows(tx, Call, _SELECT_SAME_CALLS, id_=root_id, tool_=tool, arguments_=arguments)


def find_newest_matching_program_call(
    tx: Transaction, client: str, tool: str, arguments: str, since: datetime
) -> Call | None:
    """Return this program's newest started call of this tool with these arguments; or None.

    The arguments are compared in their first and current revisions. Only requests made after
    `since` count.
    """
    values = {"client_": client, "tool_": tool, "arguments_": arguments, "since_": since}
    return fetch_first_row(tx, Call, _SELECT_NEWEST_PROGRAM_CALL, **values)


def find_gate_of_last_rejected_call(tx: Transaction, root_id: str) -> str | None:
    """Return the gate (JSON) of the call rejected last in this request; None if there is none."""
    found: str | None = tx.scalar(_SELECT_LAST_REJECTED_GATE, {"id_": root_id})
    return found


# The calls that people had to decide in a period, and their votes: for reports. Reads only.

_ASKED_IN_PERIOD_CONDITIONS = (
    col(Call.asked_at).is_not(None),
    # a question to people has `asked_at` too, but no policy sent it to approvers
    col(Call.gate).contains('"verdict":"ask"'),
    col(Call.created_at) >= bindparam("since_"),
    col(Call.created_at) < bindparam("until_"),
    col(Run.team) == bindparam("team_"),
)
_SELECT_CALLS_IN_PERIOD = (
    select(
        *(col(Call.id), col(Call.tool), col(Call.status), col(Call.decided_at), col(Run.requester)),
        *(col(Call.gate), col(Call.does), col(Call.action), col(Call.created_at), col(Run.client)),
        *(case((col(Run.asked_in) != "", col(Run.asked_in)), else_=col(Run.channel)),),
        col(Run.purged_at).is_not(None),
    )
    .join(Run, col(Run.id) == col(Call.run_id))
    .where(*_ASKED_IN_PERIOD_CONDITIONS)
    .order_by(col(Call.created_at), col(Call.id))
)
_SELECT_REVISIONS_IN_PERIOD = (
    select(Revision)
    .join(Call, col(Call.id) == col(Revision.call_id))
    .join(Run, col(Run.id) == col(Call.run_id))
    .where(*_ASKED_IN_PERIOD_CONDITIONS)
    .order_by(col(Revision.seq))
)
_SELECT_VOTES_IN_PERIOD = (
    select(
        col(Vote.call_id),
        col(Vote.revision),
        col(Vote.person),
        col(Vote.verb),
        col(Vote.created_at),
        col(Vote.for_person),
    )
    .join(Call, col(Call.id) == col(Vote.call_id))
    .join(Run, col(Run.id) == col(Call.run_id))
    .where(*_ASKED_IN_PERIOD_CONDITIONS, col(Vote.verb).not_in(LOOK_VERBS))
    .order_by(col(Vote.seq))
)
_SELECT_DIALOG_OPENINGS = (  # of the Review or Edit dialog
    select(col(models.Audit.call_id), col(models.Audit.actor), func.min(col(models.Audit.at)))
    .join(Run, col(Run.id) == col(models.Audit.run_id))
    .join(Call, (col(Call.run_id) == col(Run.id)) & (col(Call.id) == col(models.Audit.call_id)))
    .where(
        col(models.Audit.event).in_(("call.shown", "call.revealed")), *_ASKED_IN_PERIOD_CONDITIONS
    )
    .group_by(col(models.Audit.call_id), col(models.Audit.actor))
)
_POLICY_REFUSAL_NOTE_COLUMN = case(
    (col(Call.status) == CallStatus.REFUSED, col(Call.note)), else_=""
)
_SELECT_GATES_IN_PERIOD = (
    select(col(Call.gate), _POLICY_REFUSAL_NOTE_COLUMN)
    .join(Run, col(Run.id) == col(Call.run_id))
    .where(col(Call.created_at) >= bindparam("since_"), col(Call.created_at) < bindparam("until_"))
    .where(col(Run.team) == bindparam("team_"))
    # a purge empties the note of a refused call
    .where((col(Call.status) != CallStatus.REFUSED) | (col(Call.note) != ""))
    .distinct()
)


@dataclass(frozen=True, slots=True)
class VoteInReport:
    """One person's vote, with the number of the revision that it was given on."""

    person: str
    verb: CallVerb
    revision: int
    at: datetime
    delegator: str = ""  # the person whose right the voter used; "" for their own
    opened: bool = False  # the voter had opened Review or Edit before


@dataclass(frozen=True, slots=True)
class CallInReport:
    """One call that people were asked about, with its revisions and votes."""

    id: str
    tool: str
    status: CallStatus
    decided_at: datetime | None
    requester: str
    revisions_by_number: dict[int, Revision]
    votes: tuple[VoteInReport, ...]  # oldest first
    gate: str = models.PURGED  # JSON of the gate that was shown
    does: str = ""
    action: str = ""  # a program's description of what it runs itself
    created_at: datetime = MIN_DATETIME
    client: str = ""
    channel: str = ""  # where the request was made
    is_purged: bool = False

    @property
    def newest_arguments(self) -> str:
        """Return the arguments of the newest revision."""
        return self.revisions_by_number[max(self.revisions_by_number)].arguments


def list_calls_people_had_to_decide(
    tx: Transaction, team: str, since: datetime, until: datetime
) -> list[CallInReport]:
    """Return a workspace's calls proposed in [since, until) that people had to decide, in order."""
    given = {"team_": team, "since_": since, "until_": until}
    drafts: defaultdict[str, dict[int, Revision]] = defaultdict(dict)
    for each in fetch_rows(tx, Revision, _SELECT_REVISIONS_IN_PERIOD, **given):
        drafts[each.call_id][each.number] = each
    opened = {(call, person): at for call, person, at in tx.execute(_SELECT_DIALOG_OPENINGS, given)}
    votes: defaultdict[str, tuple[VoteInReport, ...]] = defaultdict(tuple)
    for call, number, person, verb, at, delegator in tx.execute(_SELECT_VOTES_IN_PERIOD, given):
        looked = (call, person) in opened and opened[call, person] <= at
        votes[call] += (VoteInReport(person, verb, number, at, delegator, looked),)
    return [
        CallInReport(call, tool, status, decided_at, requester, drafts[call], votes[call], *more)
        for call, tool, status, decided_at, requester, *more in tx.execute(
            _SELECT_CALLS_IN_PERIOD, given
        )
    ]


def list_gates_given(
    tx: Transaction, team: str, since: datetime, until: datetime
) -> list[tuple[str, str]]:
    """Return the distinct (gate as JSON, why refused or "") of calls proposed in [since, until).

    A call that policy refused has no gate; its note begins with "policy: ".
    """
    given = {"team_": team, "since_": since, "until_": until}
    return [(gate, note) for gate, note in tx.execute(_SELECT_GATES_IN_PERIOD, given)]
