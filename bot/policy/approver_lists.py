"""Lists of approvers as a policy writes them, and the owners of arguments that they may name: who
decides where a rule says "owner of args.service", by the table [owners.service]. PURE.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator

from bot.policy.gates import Allow, Approvers, Ask, Deny, GateAddOn
from bot.toml_file import FileProblems, nearest_name_hint

OwnerTables = Mapping[str, Mapping[str, Approvers]]  # field -> value -> who owns it
AnyGate = TypeVar("AnyGate", Ask, Allow | Ask, GateAddOn, Allow | Deny | Ask | GateAddOn)


USER_ID = re.compile(r"[UW][A-Z0-9]{2,30}")
GROUP_HANDLE = re.compile(r"@[^\s@A-Z<>|&,]{1,80}")
_OWNER = re.compile(r"owner of args\.([A-Za-z_][A-Za-z0-9_]{0,99})")


def validate_approvers(values: list[str]) -> list[str]:
    """Return a list of approvers if it is valid; raises ValueError with what is wrong."""
    if not values:
        raise ValueError('nobody could decide; name people ("U0123") or groups ("@shop-leads")')
    for each in values:
        if (
            each not in ("channel", "requester")
            and not USER_ID.fullmatch(each)
            and not GROUP_HANDLE.fullmatch(each)
        ):
            remedy = (
                'write a user id ("U0123"), a lower-case group handle ("@shop-leads"), '
                '"channel", "requester" or a name from [approvers]'
            )
            raise ValueError(f"{each!r} names nobody; {remedy}")
    return values


def _validate_deciders(values: list[str]) -> list[str]:
    """Return a list of approvers, in which owners of arguments may be named; raises ValueError."""
    others = [each for each in values if not _OWNER.fullmatch(each)]
    if others or not values:
        validate_approvers(others)
    return values


def _validate_owners(values: list[str]) -> list[str]:
    """Return a list of owners if it is valid; raises ValueError with what is wrong."""
    validate_approvers(values)
    if {"channel", "requester"} & set(values):
        raise ValueError("name people and groups only")
    return values


OwnerList = Annotated[list[str], AfterValidator(_validate_owners)]
DeciderList = Annotated[list[str], AfterValidator(_validate_deciders)]
ApproverList = Annotated[list[str], AfterValidator(validate_approvers)]


def build_approvers(named: Iterable[str], silent: Iterable[str] = ()) -> Approvers:
    """Return who is named in a list of approvers; `silent` names who decides unnotified besides."""
    told = tuple(dict.fromkeys(named))
    silent = tuple(dict.fromkeys(each for each in silent if each not in told))
    who = (*told, *silent)
    return Approvers(
        owners=tuple(found[1] for found in map(_OWNER.fullmatch, who) if found),
        users=tuple(each for each in who if each[0] in "UW"),
        groups=tuple(each[1:] for each in who if each[0] == "@"),
        channel="channel" in who,
        requester="requester" in who,
        silent=silent,
    )


def count_named_people(who: Approvers) -> float:
    """Return how many people these can be at most; infinite if only Slack knows."""
    if who.owners:
        return math.inf
    return math.inf if who.groups or who.channel else len(who.users) + who.requester


def list_fields_with_owners(gate: Allow | Deny | Ask | GateAddOn) -> list[str]:
    """Return the fields whose owners a gate names, sorted."""
    if not isinstance(gate, Ask | GateAddOn):
        return []
    who = [each.approvers for each in gate.stages] + [each.approvers for each in gate.escalation]
    return sorted({field for each in who for field in each.owners})


def build_owner_tables(
    tables: Mapping[str, Mapping[str, list[str]]],
    gates: Iterable[Allow | Deny | Ask | GateAddOn],
    default: Ask | None,
    problems: FileProblems,
) -> OwnerTables:
    """Return who owns which values of which fields; mistakes are added to `problems`.

    `gates`: those of the rules, in order.
    """
    used = set[str]()
    for index, gate in enumerate(gates):
        fields = list_fields_with_owners(gate)
        used.update(fields)
        for field in (each for each in fields if each not in tables):
            sentence = f"there is no [owners.{field}]{nearest_name_hint([field], tables)}"
            problems.add(("rule", index, "approvers"), f"{sentence}; add it")
        if fields and isinstance(gate, Ask) and (gate.remember or gate.once):
            sentence = "what an owner approves is asked every time; nothing is remembered"
            problems.add(("rule", index, "approvers"), sentence)
    if default and list_fields_with_owners(default):
        sentence = "name owners in a rule for the tools that have the field"
        problems.add(("defaults", "approvers"), sentence)
    for field in sorted(tables.keys() - used):
        problems.add(("owners", field), "is used nowhere; use it, or remove it")
    return {
        field: {value: build_approvers(each) for value, each in sorted(table.items())}
        for field, table in sorted(tables.items())
    }


class OwnerResolver:
    """Puts the owners of one call's arguments into gates, in the place of "owner of args.field"."""

    def __init__(self, tables: OwnerTables, args: Mapping[str, Any] | None) -> None:
        """Without `args`, whoever owns any value is put in: for checks of the policy."""
        self._tables = tables
        self._args = args
        self.notes: list[str] = []  # who was put in, in words

    def replace_owners_in_gate(self, gate: AnyGate) -> AnyGate:
        """Return the gate with people and groups only; a value without an owner adds nobody.

        Such an approval is never remembered: the next call may have another owner.
        """
        if not isinstance(gate, Ask | GateAddOn) or not list_fields_with_owners(gate):
            return gate
        changed: dict[str, Any] = {
            key: tuple(
                each.model_copy(update={"approvers": self._resolve_approvers(each.approvers)})
                for each in getattr(gate, key)
            )
            for key in ("stages", "escalation")
        }
        if isinstance(gate, GateAddOn):
            changed["ask"] = gate.ask and self.replace_owners_in_gate(gate.ask)
            return gate.model_copy(update=changed)
        return gate.copy_without_offers().model_copy(update=changed)

    def _resolve_approvers(self, who: Approvers) -> Approvers:
        found = who.model_copy(update={"owners": ()})
        for field in who.owners:
            for each in self._find_owners(field):
                found |= each
        return found

    def _find_owners(self, field: str) -> Iterator[Approvers]:
        table = self._tables.get(field, {})
        if self._args is None:
            yield from table.values()
            return
        value = self._args.get(field)
        value = value.value if isinstance(value, Enum) else value
        if isinstance(value, str | int) and not isinstance(value, bool) and str(value) in table:
            owner = table[str(value)]
            names = ", ".join([*owner.users, *(f"@{each}" for each in owner.groups)])
            self.notes.append(f"the owner of args.{field} is {names}")
            yield owner
        else:
            self.notes.append(f"the owner of args.{field} is nobody: it is not in [owners.{field}]")
