"""Names that a policy's author gives to sets of approvers and to conditions, put in before the
file is validated. PURE; mistakes are reported as problems of the file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from bot.policy import approver_lists
from bot.toml_file import FileProblems, KeyPath, nearest_name_hint

SETS, CONDITIONS = "approvers", "conditions"  # the tables of names
ASKS = "requester"  # the key that lists people, or names one
# the keys that list people
PEOPLE = ("approvers", "break_glass", "silent", "who", "loosen", "readers", "alarm", ASKS)
_NAMES = {
    SETS: re.compile(r"[a-z][a-z0-9_-]{0,59}"),
    CONDITIONS: re.compile(r"[a-z][a-z0-9_]{0,59}"),
}
_TAKEN = frozenset({"channel", "requester"})  # what these mean among approvers is settled
# texts and comments stand as they are; a name stands outside them, and is no field of anything
_TEXT = r"""\"{3}.*?\"{3}|'{3}.*?'{3}|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|//[^\n]*"""
_USE = re.compile(rf"(?s:{_TEXT})|(?<![\w.])conditions\s*\.\s*(?P<name>\w+)")
_MOST = 4_096  # characters that a condition may grow to; what one may have is far less


def replace_names_in_policy(written: dict[str, Any], problems: FileProblems) -> dict[str, Any]:
    """Return the parsed file with the names from [approvers] and [conditions] replaced."""
    if not isinstance(written, dict) or not {SETS, CONDITIONS} & written.keys():
        return written
    return _PolicyNames(written, problems).expand_file()


class _PolicyNames:
    """The names that one file gives to sets of approvers and to conditions."""

    def __init__(self, written: dict[str, Any], problems: FileProblems) -> None:
        self._written = written
        self._problems = problems
        self._sets = self._load_name_table(SETS, list)
        self._conditions = self._load_name_table(CONDITIONS, str)
        self._used: set[KeyPath] = set()
        self._found_sets: dict[str, list[str]] = {}
        self._found_conditions: dict[str, str] = {}

    def expand_file(self) -> dict[str, Any]:
        for name in self._sets:
            self._resolve_set(name, ())
        for name in self._conditions:
            self._resolve_condition(name, ())
        found = {key: each for key, each in self._written.items() if key not in (SETS, CONDITIONS)}
        if isinstance(found.get("defaults"), dict):
            found["defaults"] = self._resolve_options(found["defaults"], ("defaults",))
        if isinstance(found.get("rule"), list):
            found["rule"] = [
                self._resolve_options(each, ("rule", index))
                for index, each in enumerate(found["rule"])
            ]
        if isinstance(found.get("template"), list):
            found["template"] = [self._resolve_entry(each) for each in found["template"]]
        if isinstance(tables := found.get("owners"), dict):
            found["owners"] = {field: self._resolve_owners(each) for field, each in tables.items()}
        if "modes" in found:
            found["modes"] = self._resolve_entry(found["modes"])
        found |= self._resolve_entry(found)
        there = {(SETS, each) for each in self._sets} | {
            (CONDITIONS, each) for each in self._conditions
        }
        for loc in sorted(there - self._used):
            self._problems.add(loc, "is used nowhere; use it, or remove it")
        return found

    def _load_name_table(self, table: str, kind: type) -> Mapping[str, Any]:
        """Return the usable entries of one table of names; the others are reported."""
        written = self._written.get(table, {})
        if not isinstance(written, dict):
            self._problems.add((table,), f"write a table, headed [{table}]")
            return {}
        what = 'a list, as in ["@finance"]' if kind is list else "a condition in quotes"
        found = {}
        for name, value in written.items():
            if not _NAMES[table].fullmatch(name) or (table == SETS and name in _TAKEN):
                self._problems.add((table, name), "cannot be a name; write another, in lower case")
            elif not isinstance(value, kind):
                self._problems.add((table, name), f"write {what}")
            else:
                found[name] = value
        return found

    def _resolve_set(self, name: str, path: tuple[str, ...]) -> list[str]:
        """Return the approvers a name stands for; ["channel"] if invalid, which is reported."""
        if name in path:
            self._problems.add((SETS, name), _circular_name_sentence([*path, name]))
            return ["channel"]
        if name not in self._found_sets:
            found = self._resolve_people(self._sets[name], (*path, name))
            try:
                if not all(isinstance(each, str) for each in found):
                    raise ValueError("write each in quotes")
                approver_lists.validate_approvers(found)
            except ValueError as error:
                self._problems.add((SETS, name), str(error))
                found = ["channel"]
            self._found_sets[name] = found
        return self._found_sets[name]

    def _resolve_people(self, written: list[Any], path: tuple[str, ...] = ()) -> list[Any]:
        """Return a list of approvers with the names in it replaced; unknown entries are kept."""
        found: list[Any] = []
        for each in written:
            known = isinstance(each, str) and each in self._sets
            found += self._resolve_set(each, path) if known else [each]
            if known:
                self._used.add((SETS, each))
        return list(dict.fromkeys(found)) if all(isinstance(each, str) for each in found) else found

    def _resolve_condition(self, name: str, path: tuple[str, ...]) -> str:
        """Return the condition a name stands for; "true" if invalid, which is reported."""
        # only now: the library behind it takes a moment to load
        from bot.policy.condition import Condition

        if name in path:
            self._problems.add((CONDITIONS, name), _circular_name_sentence([*path, name]))
            return "true"
        if name not in self._found_conditions:
            found = self._insert_conditions(
                self._conditions[name], (CONDITIONS, name), (*path, name)
            )
            try:
                Condition(found)
            except ValueError as error:
                self._problems.add((CONDITIONS, name), str(error))
                found = "true"
            self._found_conditions[name] = found
        return self._found_conditions[name]

    def _insert_conditions(self, written: str, loc: KeyPath, path: tuple[str, ...] = ()) -> str:
        """Return a condition with the conditions it names inserted; "true" if it gets too long."""

        def one(use: re.Match[str]) -> str:
            name = use["name"]
            if name is None:
                return use[0]
            if name not in self._conditions:
                near = nearest_name_hint([name], self._conditions)
                self._problems.add(loc, f"names conditions.{name}, which is not there{near}")
                return "true"
            self._used.add((CONDITIONS, name))
            found = self._resolve_condition(name, path)
            return f"({found}\n)" if "//" in found else f"({found})"

        found = _USE.sub(one, written)
        if len(found) <= _MOST:
            return found
        self._problems.add(loc, "is too long with the conditions it names; split it")
        return "true"

    def _resolve_options(self, written: Any, loc: KeyPath) -> Any:
        """Return [defaults] or a rule with the names in its condition and lists replaced."""
        if not isinstance(written, dict):
            return written
        found = dict(written)
        if isinstance(found.get("when"), str):
            found["when"] = self._insert_conditions(found["when"], (*loc, "when"))
        for key in ("stages", "escalation"):
            if isinstance(found.get(key), list):
                found[key] = [self._resolve_entry(each) for each in found[key]]
        return self._resolve_entry(found)

    def _resolve_owners(self, written: Any) -> Any:
        """Return one table of owners with the names in its lists replaced."""
        if not isinstance(written, dict):
            return written
        return {
            value: self._resolve_people(each) if isinstance(each, list) else each
            for value, each in written.items()
        }

    def _resolve_entry(self, written: Any) -> Any:
        """Return a table with the names in its lists of people replaced; other values unchanged."""
        if not isinstance(written, dict):
            return written
        lists = {key: written[key] for key in PEOPLE if isinstance(written.get(key), list)}
        if isinstance(asks := written.get(ASKS), str) and asks in self._sets:
            lists[ASKS] = [asks]
        return {**written, **{key: self._resolve_people(each) for key, each in lists.items()}}


def _circular_name_sentence(names: list[str]) -> str:
    return f"stands for itself ({' → '.join(names)}); take it out of one of them"
