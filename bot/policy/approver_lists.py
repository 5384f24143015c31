"""Lists of approvers as a policy file has them, and the names that may be used in them. PURE.

"owner of args.service" stands for the owner of that argument's value, by the table
[owners.service]. Other names are those that the policy's author gives to sets of approvers;
the author's names for conditions are replaced here, too.
"""

from __future__ import annotations

import csv
import io
import math
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from bot.policy.gates import Allow, Approvers, Ask, Deny, GateAddOn
from bot.toml_file import FileProblems, KeyPath, nearest_name_hint

OwnerTables = Mapping[str, Mapping[str, Approvers]]  # field -> value -> its owners
FILE_NAME_PATTERN = re.compile(r"\w[\w.-]{0,99}")
MAX_OWNERS_FILE_CHARS = 1_000_000
AnyGate = TypeVar("AnyGate", Ask, Allow | Ask, GateAddOn, Allow | Deny | Ask | GateAddOn)


USER_ID_PATTERN = re.compile(r"[UW][A-Z0-9]{2,30}")
GROUP_HANDLE_PATTERN = re.compile(r"@[^\s@A-Z<>|&,]{1,80}")
_OWNER_PATTERN = re.compile(r"owner of args\.([A-Za-z_][A-Za-z0-9_]{0,99})|(manager of requester)")
MANAGER_OF_REQUESTER = "manager of requester"  # may stand in place of a field with an owner


def is_person_or_group(name: str) -> bool:
    """Return whether this is a user id, or the handle of a user group."""
    return bool(USER_ID_PATTERN.fullmatch(name) or GROUP_HANDLE_PATTERN.fullmatch(name))


def validate_approvers(values: list[str]) -> list[str]:
    """Return a list of approvers if it is valid; raises ValueError with what is wrong."""
    if not values:
        raise ValueError('nobody could decide; name people ("U0123") or groups ("@shop-leads")')
    for each in values:
        if each not in ("channel", "requester") and not is_person_or_group(each):
            remedy = (
                'write a user id ("U0123"), a lower-case group handle ("@shop-leads"), '
                '"channel", "requester" or a name from [approvers]'
            )
            raise ValueError(f"{each!r} names nobody; {remedy}")
    return values


def _validate_deciders(values: list[str]) -> list[str]:
    """Return a list of approvers, in which owners of arguments may be named; raises ValueError."""
    others = [each for each in values if not _OWNER_PATTERN.fullmatch(each)]
    if others or not values:
        validate_approvers(others)
    return values


def validate_owners(values: list[str]) -> list[str]:
    """Return a list of owners if it is valid; raises ValueError with what is wrong."""
    validate_approvers(values)
    if {"channel", "requester"} & set(values):
        raise ValueError("name people and groups only")
    return values


OwnerList = Annotated[list[str], AfterValidator(validate_owners)]
DeciderList = Annotated[list[str], AfterValidator(_validate_deciders)]
ApproverList = Annotated[list[str], AfterValidator(validate_approvers)]


def build_approvers(named: Iterable[str], silent: Iterable[str] = ()) -> Approvers:
    """Return the Approvers that a list names; `silent` lists more of them, who are not notified."""
    notified = tuple(dict.fromkeys(named))
    silent = tuple(dict.fromkeys(each for each in silent if each not in notified))
    everybody = (*notified, *silent)
    return Approvers(
        owners=tuple(
            match[1] or match[2] for match in map(_OWNER_PATTERN.fullmatch, everybody) if match
        ),
        users=tuple(each for each in everybody if each[0] in "UW"),
        groups=tuple(each[1:] for each in everybody if each[0] == "@"),
        channel="channel" in everybody,
        requester="requester" in everybody,
        silent=silent,
    )


def count_named_people(who: Approvers) -> float:
    """Return how many people the approvers can be at most; infinite if only Slack knows."""
    if who.owners:
        return math.inf
    return math.inf if who.groups or who.channel else len(who.users) + who.requester


def list_fields_with_owners(gate: Allow | Deny | Ask | GateAddOn) -> list[str]:
    """Return the argument fields, sorted, whose values' owners a gate names as approvers."""
    if not isinstance(gate, Ask | GateAddOn):
        return []
    who = [each.approvers for each in gate.stages] + [each.approvers for each in gate.escalation]
    who += [gate.break_glass] if isinstance(gate, Ask) and gate.break_glass else []
    return sorted({field for each in who for field in each.owners})


def _validate_file_name(value: str) -> str:
    if not FILE_NAME_PATTERN.fullmatch(value):
        raise ValueError('write the name of a CSV file beside the policy, as in "owners.csv"')
    return value


def _validate_function_name(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][\w.]{0,199}:[A-Za-z_]\w{0,99}", value):
        raise ValueError('write a function of your own, as in "package.module:find_owner"')
    if re.split(r"[.:]", value)[0] in sys.stdlib_module_names:
        raise ValueError("is no function of your own; write one that returns who owns a value")
    return value


class OwnersEntry(BaseModel):
    """A policy's table [owners.field]: owners by the argument's value, and where to find others."""

    model_config = ConfigDict(extra="allow", strict=True)
    __pydantic_extra__: dict[str, OwnerList] = Field(init=False)
    file: Annotated[str, AfterValidator(_validate_file_name)] | None = None
    function: Annotated[str, AfterValidator(_validate_function_name)] | None = None

    def build_table(
        self, field: str, files: Mapping[str, str], problems: FileProblems
    ) -> dict[str, Approvers]:
        """Return the owners by value: those of the table, then those of its file."""
        table = dict(self.__pydantic_extra__)
        for line, value, owners in self._read_rows(field, files, problems):
            try:
                if value in table:
                    raise ValueError(f"{value!r} has owners already; name them in one place")
                table[value] = validate_owners(owners)
            except ValueError as error:
                problems.add(("owners", field, "file"), f"{self.file}, line {line}: {error}")
        return {value: build_approvers(owners) for value, owners in sorted(table.items())}

    def _read_rows(
        self, field: str, files: Mapping[str, str], problems: FileProblems
    ) -> Iterator[tuple[int, str, list[str]]]:
        """Yield line, value and owners of each row of the CSV file; report a file that is wrong."""
        if self.file is None:
            return
        text = files.get(self.file)
        if text is None or len(text) > MAX_OWNERS_FILE_CHARS:
            sentence = f"{self.file} cannot be read; put a CSV file of at most 1 MB there"
            problems.add(("owners", field, "file"), sentence)
            return
        rows = csv.reader(io.StringIO(text), strict=True)
        try:
            if next(rows, None) != ["key", "owners"]:
                raise csv.Error("write key,owners in its first line, with a comma")
            for row in filter(None, rows):
                if len(row) != 2:
                    raise csv.Error(f"line {rows.line_num} has {len(row)} columns instead of 2")
                yield rows.line_num, row[0], row[1].replace(",", " ").split()
        except csv.Error as error:
            problems.add(("owners", field, "file"), f"{self.file}: {error}")


def build_owner_tables(
    tables: Mapping[str, OwnersEntry],
    gates: Iterable[Allow | Deny | Ask | GateAddOn],
    default: Ask | None,
    files: Mapping[str, str],
    problems: FileProblems,
) -> OwnerTables:
    """Return who owns which values of which fields; mistakes are added to `problems`.

    `gates`: those of the rules, in order; `files`: the texts of the files that tables name.
    """
    used = set[str]()
    for index, gate in enumerate(gates):
        fields = list_fields_with_owners(gate)
        used.update(fields)
        for field in (each for each in fields if each not in tables):
            table = "manager" if field == MANAGER_OF_REQUESTER else f"owners.{field}"
            sentence = f"there is no [{table}]{nearest_name_hint([field], tables)}"
            problems.add(("rule", index, "approvers"), f"{sentence}; add it")
        if fields and isinstance(gate, Ask) and (gate.remember or gate.once):
            sentence = "what an owner approves is asked every time; nothing is remembered"
            problems.add(("rule", index, "approvers"), sentence)
    if default and list_fields_with_owners(default):
        sentence = "name owners in a rule for the tools that have the field, and managers in a rule"
        problems.add(("defaults", "approvers"), sentence)
    for field in sorted(tables.keys() - used):
        loc = ("manager",) if field == MANAGER_OF_REQUESTER else ("owners", field)
        problems.add(loc, "is used nowhere; use it, or remove it")
    return {
        field: each.build_table(field, files, problems) for field, each in sorted(tables.items())
    }


class OwnerResolver:
    """Replaces "owner of args.field" in gates by the owners of one call's arguments."""

    def __init__(
        self,
        tables: OwnerTables,
        functions: Mapping[str, str],
        args: Mapping[str, Any] | None,
        found: Mapping[str, tuple[str, ...] | None] | None = None,
    ) -> None:
        """`found`: by field, what the `functions` return for the values of `args`; None on failure.

        If `args` is None, for checks of the policy, the owners of all values are put in; a field
        with a function then also stays in the `owners` of the approvers.
        """
        self._tables = tables
        self._functions = functions
        self._args = args
        self._found = found or {}
        self.notes: list[str] = []  # sentences on the owners that were put in

    def replace_owners_in_gate(self, gate: AnyGate) -> AnyGate:
        """Return the gate with its owners replaced; a value without an owner adds nobody.

        Its offers to save an approval are dropped, since the next call may have another owner.
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
        table, function = self._tables.get(field, {}), self._functions.get(field)
        if self._args is None:
            yield from table.values()
            if function:
                yield Approvers(owners=(field,))
            return
        value, owner = read_owned_value(self._args, field), Approvers()
        reason = f"it is not in [owners.{field}]"
        if field == MANAGER_OF_REQUESTER:
            owner = build_approvers(self._found.get(field) or ())
            reason = f"Slack's profile field {function!r} names no person that could be looked up"
        elif value is not None and str(value) in table:
            owner = table[str(value)]
        elif function and value is not None:
            looked_up = self._found.get(field)
            owner = build_approvers(looked_up or ())
            reason = (
                f"{function} names nobody" if looked_up is not None else f"{function} has failed"
            )
        names = ", ".join(owner.names)
        self.notes.append(f"{describe_owner(field)} is {names or f'nobody: {reason}'}")
        yield owner


def describe_owner(field: str) -> str:
    """Return words for the owner that a field stands for: "the owner of args.service"."""
    return (
        f"the {MANAGER_OF_REQUESTER}"
        if field == MANAGER_OF_REQUESTER
        else f"the owner of args.{field}"
    )


def read_owned_value(args: Mapping[str, Any], field: str) -> str | int | None:
    """Return the argument whose owner is meant; None if it is neither text nor whole number."""
    value = args.get(field)
    value = value.value if isinstance(value, Enum) else value
    return value if isinstance(value, str | int) and not isinstance(value, bool) else None


# Names that a policy's author gives to sets of approvers and to conditions, replaced before the
# file is validated; mistakes are reported as problems of the file.

APPROVERS_TABLE = "approvers"  # named sets of approvers
CONDITIONS_TABLE = "conditions"  # named conditions
REQUESTER_KEY = "requester"  # a list of people, or one name
# the keys that list people
PEOPLE_KEYS = (
    "approvers",
    "break_glass",
    "silent",
    "who",
    "loosen",
    "readers",
    "alarm",
    REQUESTER_KEY,
)
_NAME_PATTERN_BY_TABLE = {
    APPROVERS_TABLE: re.compile(r"[a-z][a-z0-9_-]{0,59}"),
    CONDITIONS_TABLE: re.compile(r"[a-z][a-z0-9_]{0,59}"),
}
_FALLBACK_BY_TABLE = {APPROVERS_TABLE: ["channel"], CONDITIONS_TABLE: "true"}  # for invalid ones
_RESERVED_NAMES = frozenset({"channel", "requester"})  # these have their own meaning already
# quoted texts and comments stay unchanged; a name counts only outside them, and not after a dot
_TEXT_OR_COMMENT = r"""\"{3}.*?\"{3}|'{3}.*?'{3}|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|//[^\n]*"""
_CONDITION_NAME_PATTERN = re.compile(
    rf"(?s:{_TEXT_OR_COMMENT})|(?<![\w.])conditions\s*\.\s*(?P<name>\w+)"
)
_MAX_EXPANDED_CHARS = 4_096  # of a condition with its names replaced; a valid one is far shorter


def replace_names_in_policy(written: dict[str, Any], problems: FileProblems) -> dict[str, Any]:
    """Return the parsed file with the names from [approvers] and [conditions] replaced."""
    if not isinstance(written, dict) or not {APPROVERS_TABLE, CONDITIONS_TABLE} & written.keys():
        return written
    return _PolicyNames(written, problems).expand_file()


class _PolicyNames:
    """The names that one file gives to sets of approvers and to conditions."""

    def __init__(self, written: dict[str, Any], problems: FileProblems) -> None:
        self._written = written
        self._problems = problems
        self._named = {
            APPROVERS_TABLE: self._load_name_table(APPROVERS_TABLE, list),
            CONDITIONS_TABLE: self._load_name_table(CONDITIONS_TABLE, str),
        }
        self._used: set[KeyPath] = set()
        self._found: dict[tuple[str, str], Any] = {}  # by table and name: what the name stands for

    def expand_file(self) -> dict[str, Any]:
        all_names = [(table, name) for table, names in self._named.items() for name in names]
        for loc in all_names:
            self._resolve_name(*loc, ())
        other_tables = {key: each for key, each in self._written.items() if key not in self._named}
        expanded: dict[str, Any] = self._expand(other_tables, ())
        for loc in sorted({*all_names} - self._used):
            self._problems.add(loc, "is used nowhere; use it, or remove it")
        return expanded

    def _load_name_table(self, table: str, kind: type) -> Mapping[str, Any]:
        """Return the usable entries of one table of names; the others are reported."""
        written = self._written.get(table, {})
        if not isinstance(written, dict):
            self._problems.add((table,), f"write a table, headed [{table}]")
            return {}
        expected_form = 'a list, as in ["@finance"]' if kind is list else "a condition in quotes"
        entries = {}
        for name, value in written.items():
            if not _NAME_PATTERN_BY_TABLE[table].fullmatch(name) or (
                table == APPROVERS_TABLE and name in _RESERVED_NAMES
            ):
                self._problems.add((table, name), "cannot be a name; write another, in lower case")
            elif not isinstance(value, kind):
                self._problems.add((table, name), f"write {expected_form}")
            else:
                entries[name] = value
        return entries

    def _resolve_name(self, table: str, name: str, path: tuple[str, ...]) -> Any:
        """Return what a name stands for: approvers, or a condition.

        ["channel"] or "true" if that is invalid, which is reported.
        """
        loc = (table, name)
        if name in path:
            self._problems.add(loc, _circular_name_sentence([*path, name]))
            return _FALLBACK_BY_TABLE[table]
        if loc not in self._found:
            resolve = self._resolve_set if table == APPROVERS_TABLE else self._resolve_condition
            try:
                self._found[loc] = resolve(name, (*path, name))
            except ValueError as error:
                self._problems.add(loc, str(error))
                self._found[loc] = _FALLBACK_BY_TABLE[table]
        return self._found[loc]

    def _resolve_set(self, name: str, path: tuple[str, ...]) -> list[str]:
        people = self._resolve_people(self._named[APPROVERS_TABLE][name], path)
        if not all(isinstance(each, str) for each in people):
            raise ValueError("write each in quotes")
        return validate_approvers(people)

    def _resolve_condition(self, name: str, path: tuple[str, ...]) -> str:
        # imported late, because the CEL library takes a moment to load
        from bot.policy.condition import Condition

        written = self._named[CONDITIONS_TABLE][name]
        return Condition(self._insert_conditions(written, (CONDITIONS_TABLE, name), path)).source

    def _resolve_people(self, written: list[Any], path: tuple[str, ...] = ()) -> list[Any]:
        """Return a list of approvers with the names in it replaced; unknown entries are kept."""
        found: list[Any] = []
        for each in written:
            known = isinstance(each, str) and each in self._named[APPROVERS_TABLE]
            found += self._resolve_name(APPROVERS_TABLE, each, path) if known else [each]
            if known:
                self._used.add((APPROVERS_TABLE, each))
        return list(dict.fromkeys(found)) if all(isinstance(each, str) for each in found) else found

    def _insert_conditions(self, written: str, loc: KeyPath, path: tuple[str, ...] = ()) -> str:
        """Return a condition with the conditions it names inserted; "true" if it gets too long."""

        def one(use: re.Match[str]) -> str:
            name = use["name"]
            if name is None:
                return use[0]
            if name not in self._named[CONDITIONS_TABLE]:
                near = nearest_name_hint([name], self._named[CONDITIONS_TABLE])
                self._problems.add(loc, f"names conditions.{name}, which does not exist{near}")
                return "true"
            self._used.add((CONDITIONS_TABLE, name))
            expanded = self._resolve_name(CONDITIONS_TABLE, name, path)
            return f"({expanded}\n)" if "//" in expanded else f"({expanded})"

        expanded = _CONDITION_NAME_PATTERN.sub(one, written)
        if len(expanded) <= _MAX_EXPANDED_CHARS:
            return expanded
        self._problems.add(loc, "is too long with the conditions it names; split it")
        return "true"

    def _expand(self, written: Any, loc: KeyPath) -> Any:
        """Return a part of the file with the names in its conditions and lists of people replaced.

        The `fixed` values of a template are left as they are.
        """
        if isinstance(written, list):
            return [self._expand(each, (*loc, index)) for index, each in enumerate(written)]
        fixed = loc[:1] == ("template",) and loc[2:] == ("fixed",)
        if not isinstance(written, dict) or fixed:
            return written
        expanded = {key: self._expand(each, (*loc, key)) for key, each in written.items()}
        if isinstance(expanded.get("when"), str):
            expanded["when"] = self._insert_conditions(expanded["when"], (*loc, "when"))
        for key in expanded if loc[:1] == ("owners",) else PEOPLE_KEYS:
            if isinstance(expanded.get(key), list):
                expanded[key] = self._resolve_people(expanded[key])
        if (
            isinstance(requester := expanded.get(REQUESTER_KEY), str)
            and requester in self._named[APPROVERS_TABLE]
        ):
            expanded[REQUESTER_KEY] = self._resolve_people([requester])
        return expanded


def _circular_name_sentence(names: list[str]) -> str:
    return f"refers to itself ({' → '.join(names)}); take it out of one of them"
