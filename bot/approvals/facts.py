"""The facts by which policy judges a call: people and places looked up live, sums read from the
database.

Look-ups ask Slack, so they stay outside any transaction; sums may be read again inside the one that
starts a call.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Context, Decimal, Inexact, InvalidOperation, localcontext
from functools import partial
from typing import Any, TypeVar

from pydantic import BaseModel

from bot.clock import Clock
from bot.policy.authority import Directory, LookupFailedError
from bot.policy.condition_values import Facts, NeededLookups, SlackId, SpendingSum
from bot.policy.evaluation import CurrentPolicy
from bot.tools import Tool
from bot.tools.arguments import dump_arguments, reveal_secrets
from storage import call_history
from storage.call_history import CountedCall
from storage.digest import MOST_DIGITS
from storage.models import Call, Run
from storage.store import Store
from storage.transaction import Transaction

log = logging.getLogger("countersign.facts")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FactSources:
    """Everything needed to judge a call by policy: its rules, people, the database, the time."""

    policy: CurrentPolicy
    directory: Directory
    store: Store
    clock: Clock


def load_facts(sources: FactSources, run: Run, tool: Tool[Any], args: BaseModel) -> Facts:
    """Return all facts of a call but the sums; a fact is None where Slack cannot be asked."""
    values = reveal_secrets(
        args.model_dump(mode="python", exclude_computed_fields=True), exact=False
    )
    facts = load_facts_from_values(sources, run.requester, run.origin_channel, tool, values)
    facts = replace(facts, client=run.client) if run.client else facts
    compared = any(each.same for each in get_lookups_for_tool(sources.policy, tool).spent)
    return replace(facts, arguments=dump_arguments(args)) if compared else facts


def load_facts_from_values(
    sources: FactSources, requester: str, channel: str, tool: Tool[Any], values: Mapping[str, Any]
) -> Facts:
    """Return the facts, without sums, of a call that does not exist yet, with these `values`."""
    directory, needs = sources.directory, get_lookups_for_tool(sources.policy, tool)
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
    return Facts(
        tool=tool.name,
        effect=tool.does,
        requester=SlackId(requester),
        args=values,
        channel=SlackId(channel),
        risk=tool.risk,
        now=sources.clock.now(),
        groups=groups,
        channels=channels,
        people=people,
    )


def get_lookups_for_tool(current: CurrentPolicy, tool: Tool[Any]) -> NeededLookups:
    """Return the look-ups that the policy's rules for this tool need."""
    return current.get_needed_lookups(tool.name, tool.does, tool.risk)


def add_spending_sums(
    tx: Transaction,
    sources: FactSources,
    run: Run,
    tool: Tool[Any],
    facts: Facts,
    *,
    beside: Call | None = None,
    siblings: Iterable[tuple[str, str]] = (),
) -> Facts:
    """Return the facts with the sums over earlier calls that the rules need.

    `beside`: the call that is judged, where it is stored already. `siblings`: tool and arguments
    (canonical JSON) of calls proposed together with it and before it, which are not stored yet.
    """
    wanted = get_lookups_for_tool(sources.policy, tool).spent
    if not wanted:
        return facts
    siblings, now = list(siblings), sources.clock.now()
    sums = {}
    for (name, anyone), some in _group_sums(wanted).items():
        whose = None if anyone else run.requester
        since = now - timedelta(seconds=max(each.window for each in some))
        found = [
            *call_history.counted_calls(tx, run.team, whose, name, since=since, beside=beside),
            *(CountedCall(None, arguments) for other, arguments in siblings if other == name),
        ]
        for each in some:
            begun = now - timedelta(seconds=each.window)
            within = [call for call in found if call.at is None or call.at > begun]
            sums[each] = sum_spending(each, within, facts.arguments)
    return replace(facts, now=now, spent=sums)


def _group_sums(wanted: Iterable[SpendingSum]) -> dict[tuple[str, bool], list[SpendingSum]]:
    """Return the sums grouped by tool and by whether they are over anyone's calls."""
    found: dict[tuple[str, bool], list[SpendingSum]] = {}
    for each in sorted(wanted):
        found.setdefault((each.tool, each.anyone), []).append(each)
    return found


def sum_spending(
    wanted: SpendingSum, calls: list[CountedCall], arguments: str = ""
) -> Decimal | None:
    """Return the exact sum of a field over these calls, or their number if no field is named.

    None if one of the calls has no number in the field. `arguments` (canonical JSON) are those of
    the call that is judged; only calls with the same values in the fields of `wanted.same` count,
    and the result is None if one of them cannot be compared.
    """
    counted = _filter_comparable_calls(wanted.same, calls, arguments) if wanted.same else calls
    if counted is None:
        return None
    if not wanted.field:
        return Decimal(len(counted))
    total = Decimal(0)
    with localcontext(Context(prec=MOST_DIGITS, traps=[Inexact, InvalidOperation])):
        for call in counted:
            value = json.loads(call.arguments, parse_float=Decimal).get(wanted.field)
            if isinstance(value, bool) or not isinstance(value, int | Decimal | str):
                return None
            try:
                total += Decimal(value)
            except ArithmeticError:
                return None
    return total if total.is_finite() else None


def _filter_comparable_calls(
    fields: tuple[str, ...], calls: Iterable[CountedCall], arguments: str
) -> list[CountedCall] | None:
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
