"""The gate that a call has now, the facts that policy judges it by, and why people are asked again.

The gate depends on policy, the channel's mode and earlier rejections.

Look-ups ask Slack, so they stay outside any transaction; sums over earlier calls are read from the
database, and may be read again inside the transaction that starts a call.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Context, Decimal, Inexact, InvalidOperation, localcontext
from functools import partial
from typing import Any, TypeVar

from pydantic import BaseModel

from bot.approvals.call_state import get_approval_lifetime, load_preview
from bot.approvals.channel_mode import get_strictest_channel_mode, restrict_gate_by_channel_mode
from bot.approvals.signatures import list_people_who_can_sign
from bot.clock import Clock
from bot.policy.approver_lists import MANAGER_OF_REQUESTER, read_owned_value
from bot.policy.authority import Authority, Directory, LookupFailedError
from bot.policy.condition_values import Facts, NeededLookups, SlackId, SpendingSum
from bot.policy.evaluation import CurrentPolicy
from bot.policy.gates import ADD_PASSKEY, Allow, Ask, Deny, load_gate, shorten_deadline
from bot.tools import Effect, Preview, Tool
from bot.tools.arguments import dump_arguments, dump_values
from countersign.durations import format_duration
from storage import call_history
from storage.digest import MAX_DECIMAL_DIGITS
from storage.record import Call, Run, Store, Transaction
from storage.states import ChannelMode

# The facts by which policy judges a call: people and places are looked up live, sums are read
# from the database.

log = logging.getLogger("countersign.facts")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PolicyFactSources:
    """Everything needed to judge a call by policy: its rules, people, the database, the time."""

    policy: CurrentPolicy
    directory: Directory
    store: Store
    clock: Clock
    host: str  # the host name that passkeys sign for; "" if signing is not set up


def load_policy_facts(
    sources: PolicyFactSources, run: Run, tool: Tool[Any], args: BaseModel
) -> Facts:
    """Look up the facts by which policy rules judge a call, except spending sums.

    A fact is None if Slack cannot be asked.
    """
    values = dump_values(args)
    plain = build_plain_facts(
        tool, run.requester, run.origin_channel, values, sources.clock.now(), run.client
    )
    facts = look_up_policy_facts(sources, plain)
    if tool.name == ADD_PASSKEY:
        has_signer = _look_up_or_none(partial(_has_signer, sources, run.team, facts))
        facts = replace(facts, has_signer=has_signer)
    compared = any(each.same for each in get_lookups_needed_by_rules(sources.policy, tool).spent)
    return replace(facts, arguments=dump_arguments(args)) if compared else facts


def build_plain_facts(
    tool: Tool[Any],
    requester: str,
    channel: str,
    values: Mapping[str, Any],
    now: datetime,
    client: str = "",
) -> Facts:
    """Return the facts of a call for which nothing has to be looked up."""
    return Facts(
        tool=tool.name,
        effect=tool.does,
        requester=SlackId(requester),
        args=values,
        channel=SlackId(channel),
        risk=tool.risk,
        client=client,
        now=now,
    )


def look_up_policy_facts(sources: PolicyFactSources, facts: Facts) -> Facts:
    """Return the facts with what the rules look up: groups, channels, people and owners."""
    needs = sources.policy.get_needed_lookups(facts.tool, facts.effect, facts.risk)
    directory = sources.directory
    owner_values = {**facts.args, MANAGER_OF_REQUESTER: facts.requester}
    functions = sources.policy.policy.owner_functions
    groups = {
        each: _look_up_or_none(partial(_find_group_members, directory, each))
        for each in needs.groups
    }
    channels = {
        each: _look_up_or_none(partial(directory.find_channel_id, each)) for each in needs.channels
    }
    people = {
        each: _look_up_or_none(partial(_find_user_by_handle, directory, each))
        for each in needs.people
    }
    owners = {
        field: None
        if value is None
        else _look_up_or_none(partial(directory.find_owners, field, functions[field], value))
        for field, value in ((e, read_owned_value(owner_values, e)) for e in needs.owners)
    }
    return replace(facts, groups=groups, channels=channels, people=people, owners=owners)


def _has_signer(sources: PolicyFactSources, team: str, facts: Facts) -> bool:
    """Return whether anybody else may approve this new passkey and can sign with one of their own.

    Raises LookupFailedError.
    """
    gate, terms = sources.policy.policy.get_gate(facts), sources.policy.policy.passkeys
    if not isinstance(gate, Ask):
        return False
    with sources.store.read() as tx:
        able = list_people_who_can_sign(tx, team, terms, sources.clock.now(), sources.host)
    who, authority = gate.stages[0].approvers, Authority(sources.directory, team)
    named = authority.list_named_people(who, requester=facts.requester, channel="")
    others = sorted((named & able) - {facts.requester})
    return any(authority.is_active_colleague(each) for each in others)


def get_lookups_needed_by_rules(current: CurrentPolicy, tool: Tool[Any]) -> NeededLookups:
    """Return the look-ups that the policy's rules for this tool need."""
    return current.get_needed_lookups(tool.name, tool.does, tool.risk)


def add_spending_sums_to_facts(
    tx: Transaction,
    sources: PolicyFactSources,
    run: Run,
    tool: Tool[Any],
    facts: Facts,
    *,
    judged_call: Call | None = None,
    siblings: Iterable[tuple[str, str]] = (),
) -> Facts:
    """Return the facts with the sums and counts of earlier calls that policy rules look at.

    `judged_call`: the call that is judged, if it is stored already. `siblings`: tool and arguments
    (canonical JSON) of calls proposed together with it and before it, which are not stored yet.
    """
    wanted = get_lookups_needed_by_rules(sources.policy, tool).spent
    if not wanted:
        return facts
    siblings, now = list(siblings), sources.clock.now()
    sums = {}
    for (name, anyone), some in _group_sums(wanted).items():
        whose = None if anyone else run.requester
        since = now - timedelta(seconds=max(each.window for each in some))
        counted_calls = [
            *call_history.iterate_calls_counted_towards_limit(
                tx, run.team, whose, name, since=since, call_about_to_run=judged_call
            ),
            *(
                call_history.CallCountedTowardsLimit(None, arguments)
                for other, arguments in siblings
                if other == name
            ),
        ]
        for each in some:
            begun = now - timedelta(seconds=each.window)
            within = [call for call in counted_calls if call.at is None or call.at > begun]
            sums[each] = sum_field_or_count_calls(each, within, facts.arguments)
    return replace(facts, now=now, spent=sums)


def _group_sums(sums: Iterable[SpendingSum]) -> dict[tuple[str, bool], list[SpendingSum]]:
    """Return the sums that rules need, by tool and by whether they are over everybody's calls."""
    found: dict[tuple[str, bool], list[SpendingSum]] = {}
    for each in sorted(sums):
        found.setdefault((each.tool, each.anyone), []).append(each)
    return found


def sum_field_or_count_calls(
    spending_sum: SpendingSum,
    calls: list[call_history.CallCountedTowardsLimit],
    arguments: str = "",
) -> Decimal | None:
    """Return the exact sum of a field over these calls, or their number if no field is named.

    None if one of the calls has no number in the field. `arguments` (canonical JSON) are those of
    the call that is judged; only calls with the same values in the fields of `spending_sum.same`
    count, and the result is None if one of them cannot be compared.
    """
    counted = (
        _filter_comparable_calls(spending_sum.same, calls, arguments)
        if spending_sum.same
        else calls
    )
    if counted is None:
        return None
    if not spending_sum.field:
        return Decimal(len(counted))
    total = Decimal(0)
    with localcontext(Context(prec=MAX_DECIMAL_DIGITS, traps=[Inexact, InvalidOperation])):
        for call in counted:
            value = json.loads(call.arguments, parse_float=Decimal).get(spending_sum.field)
            if isinstance(value, bool) or not isinstance(value, int | Decimal | str):
                return None
            try:
                total += Decimal(value)
            except ArithmeticError:
                return None
    return total if total.is_finite() else None


def _filter_comparable_calls(
    fields: tuple[str, ...], calls: Iterable[call_history.CallCountedTowardsLimit], arguments: str
) -> list[call_history.CallCountedTowardsLimit] | None:
    """Return the calls with the same values in these fields; None if one cannot be compared."""
    mine, found = _get_comparable_values(fields, arguments), []
    if mine is None:
        return None
    for call in calls:
        theirs = _get_comparable_values(fields, call.arguments)
        if theirs is None or [*map(type, theirs)] != [*map(type, mine)]:
            return None
        if theirs == mine:
            found.append(call)
    return found


def _get_comparable_values(
    fields: tuple[str, ...], arguments: str
) -> list[str | int | Decimal] | None:
    """Return the values of these fields; None if one of them cannot be compared."""
    known = json.loads(arguments or "{}", parse_float=Decimal)
    found = [known.get(field) for field in fields]
    return found if all(isinstance(each, str | int | Decimal) for each in found) else None


def _find_group_members(directory: Directory, handle: str) -> frozenset[str] | None:
    group = directory.find_group(handle)
    return group.members if group else None


def _find_user_by_handle(directory: Directory, handle: str) -> str | None:
    """Return the id of the one user with this handle, not counting names people give themselves."""
    found = [
        user for user, known in directory.find_people_by_name(handle).items() if known == handle
    ]
    return found[0] if len(found) == 1 else None


def _look_up_or_none(look_up: Callable[[], T]) -> T | None:
    try:
        return look_up()
    except LookupFailedError as error:
        log.warning("a fact for the policy is not known: %s", error)
        return None


# The gate of one call, with people and groups looked up live; nothing is written.

AFTER_REJECTION_TEXT = (
    "something in this request was rejected, so even what policy allows needs approval"
)


def compute_gate(
    sources: PolicyFactSources,
    run: Run,
    tool: Tool[Any],
    args: BaseModel,
    *,
    call: Call | None = None,
    siblings: Iterable[tuple[str, str]] = (),
) -> Allow | Deny | Ask:
    """Return the gate that policy gives a call now; to be called outside any transaction.

    `call`, `siblings`: see bot.approvals.call_gates.add_spending_sums_to_facts.
    """
    facts = load_policy_facts(sources, run, tool, args)
    with sources.store.read() as tx:
        return compute_gate_in_transaction(
            tx, sources, run, tool, facts, call=call, siblings=siblings
        )


def compute_gate_in_transaction(
    tx: Transaction,
    sources: PolicyFactSources,
    run: Run,
    tool: Tool[Any],
    facts: Facts,
    *,
    call: Call | None = None,
    siblings: Iterable[tuple[str, str]] = (),
) -> Allow | Deny | Ask:
    """Return the gate that policy gives for these facts, with sums read in this transaction.

    `call`, `siblings`: see bot.approvals.call_gates.add_spending_sums_to_facts.
    """
    summed = add_spending_sums_to_facts(
        tx, sources, run, tool, facts, judged_call=call, siblings=siblings
    )
    gate, _ = apply_channel_mode_to_gate(
        tx, sources, run, summed, sources.policy.policy.get_gate(summed)
    )
    # nothing can have been rejected before the first call of a request
    is_first = not run.parent_call and run.calls == (call is not None)
    reads = facts.effect == Effect.READ
    return gate if reads or is_first else _apply_earlier_rejection(tx, run, gate)


def apply_channel_mode_to_gate(
    tx: Transaction,
    sources: PolicyFactSources,
    run: Run,
    facts: Facts,
    gate: Allow | Deny | Ask,
    until: datetime | None = None,
) -> tuple[Allow | Deny | Ask, ChannelMode]:
    """Return the gate, made stricter if the channel is in strict or observe mode, and the mode.

    `until`: the moment whose mode is meant, if it is not the current one.
    """
    mode = get_strictest_channel_mode(tx, run, until)
    default = (
        sources.policy.policy.build_default_ask_gate(facts) if mode is ChannelMode.STRICT else None
    )
    return restrict_gate_by_channel_mode(
        gate, mode, default, reads=facts.effect == Effect.READ
    ), mode


def _apply_earlier_rejection(
    tx: Transaction, run: Run, gate: Allow | Deny | Ask
) -> Allow | Deny | Ask:
    """Return the gate, made stricter if people have rejected a call of this request.

    A call that policy allows is then put before the people who could have rejected that call,
    unless its rule says otherwise. Saved approvals do not apply.
    """
    if isinstance(gate, Deny) or (isinstance(gate, Allow) and gate.after_rejection == "allow"):
        return gate
    text = call_history.find_gate_of_last_rejected_call(tx, run.root_id)
    if text is None:
        return gate
    if isinstance(gate, Ask):
        return gate.copy_without_offers()
    rejected_gate = load_gate(text)
    if not isinstance(rejected_gate, Ask):
        return gate
    changed = {"would_allow": True, "editable": None, "run_at": None}
    return rejected_gate.copy_without_offers().model_copy(update=changed)


@dataclass(frozen=True, slots=True)
class ReapprovalRequest:
    """How to ask people again about a call: its gate, the preview of its new card, and why."""

    gate: Ask
    preview: Preview
    reason: str  # in words, for people
    actor: str  # policy | worker


def build_policy_change_reapproval(call: Call, gate: Ask) -> ReapprovalRequest:
    """Return how to ask again about a call whose gate changed with the policy.

    The preview stays as it was shown.
    """
    shown = load_gate(call.gate)
    if isinstance(shown, Ask):
        gate = shorten_deadline(gate, shown)
    why = "what the policy says about this has changed since it was asked"
    if gate.would_allow:
        why = AFTER_REJECTION_TEXT
    return ReapprovalRequest(gate, load_preview(call), why, "policy")


def describe_expired_approval(call: Call) -> str:
    """Return the reason for asking again about a call whose approval is too old."""
    age = format_duration(round(get_approval_lifetime(call).total_seconds()))
    return f"it was approved more than {age} ago and had not started."


def build_invalid_grant_reapproval(call: Call, gate: Ask) -> ReapprovalRequest:
    """Return how to ask again about a call whose saved approval no longer holds."""
    why = "the saved approval for this no longer holds"
    return ReapprovalRequest(gate, load_preview(call), why, "policy")


def build_reapproval(call: Call, gate: Ask, why: str) -> ReapprovalRequest:
    """Return how to ask again about a call under this gate, with the preview it had."""
    return ReapprovalRequest(gate, load_preview(call), why, "system")


def allow_full_preview_in_thread(sources: PolicyFactSources, run: Run, seen: Preview) -> Preview:
    """Return the preview, shown in full in the thread if policy allows reading it unapproved."""
    if seen.in_thread is None or seen.as_read is None:
        return seen
    allowed = isinstance(compute_gate(sources, run, *seen.as_read), Allow)
    return replace(seen, in_thread=None) if allowed else seen
