"""The owners of a call's arguments: who decides where a rule says "owner of args.service", by the
table [owners.service] of the policy. PURE.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, TypeVar

from bot.policy.gates import Allow, Approvers, Ask, Deny, GateAddOn

OwnerTables = Mapping[str, Mapping[str, Approvers]]  # field -> value -> who owns it
AnyGate = TypeVar("AnyGate", Ask, Allow | Ask, GateAddOn, Allow | Deny | Ask | GateAddOn)


def list_fields_with_owners(gate: Allow | Deny | Ask | GateAddOn) -> list[str]:
    """Return the fields whose owners a gate names, sorted."""
    if not isinstance(gate, Ask | GateAddOn):
        return []
    who = [each.approvers for each in gate.stages] + [each.approvers for each in gate.escalation]
    who += [gate.break_glass] if isinstance(gate, Ask) and gate.break_glass else []
    return sorted({field for each in who for field in each.owners})


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
        changed["break_glass"] = gate.break_glass and self._resolve_approvers(gate.break_glass)
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
