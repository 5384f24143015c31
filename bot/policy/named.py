"""Names that a policy's author gives to sets of approvers and to conditions, put in their places
before the file is read. PURE; what makes no sense is noted as a problem of the file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from bot.policy.file import people
from bot.toml_file import Loc, Problems, meant

SETS, CONDITIONS = "approvers", "conditions"  # the tables of names
ASKS = "requester"  # the key that lists people, or names one
PEOPLE = ("approvers", "who", "loosen", "readers", ASKS)  # the keys that list people
_NAMES = {
    SETS: re.compile(r"[a-z][a-z0-9_-]{0,59}"),
    CONDITIONS: re.compile(r"[a-z][a-z0-9_]{0,59}"),
}
_TAKEN = frozenset({"channel", "requester"})  # what these mean among approvers is settled
# texts and comments stand as they are; a name stands outside them, and is no field of anything
_TEXT = r"""\"{3}.*?\"{3}|'{3}.*?'{3}|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|//[^\n]*"""
_USE = re.compile(rf"(?s:{_TEXT})|(?<![\w.])conditions\s*\.\s*(?P<name>\w+)")
_MOST = 4_096  # characters that a condition may grow to; what one may have is far less


def without_names(written: dict[str, Any], problems: Problems) -> dict[str, Any]:
    """The file as TOML has it, with what its names stand for in their places."""
    if not isinstance(written, dict) or not {SETS, CONDITIONS} & written.keys():
        return written
    return _Names(written, problems).expanded()


class _Names:
    """The names of one file."""

    def __init__(self, written: dict[str, Any], problems: Problems) -> None:
        self._written = written
        self._problems = problems
        self._sets = self._table(SETS, list)
        self._conditions = self._table(CONDITIONS, str)
        self._used: set[Loc] = set()
        self._found_sets: dict[str, list[str]] = {}
        self._found_conditions: dict[str, str] = {}

    def expanded(self) -> dict[str, Any]:
        for name in self._sets:
            self._set(name, ())
        for name in self._conditions:
            self._condition(name, ())
        found = {key: each for key, each in self._written.items() if key not in (SETS, CONDITIONS)}
        if isinstance(found.get("defaults"), dict):
            found["defaults"] = self._options(found["defaults"], ("defaults",))
        if isinstance(found.get("rule"), list):
            found["rule"] = [
                self._options(each, ("rule", index)) for index, each in enumerate(found["rule"])
            ]
        if isinstance(found.get("template"), list):
            found["template"] = [self._entry(each) for each in found["template"]]
        if "modes" in found:
            found["modes"] = self._entry(found["modes"])
        found |= self._entry(found)
        there = {(SETS, each) for each in self._sets} | {
            (CONDITIONS, each) for each in self._conditions
        }
        for loc in sorted(there - self._used):
            self._problems.add(loc, "is used nowhere; use it, or remove it")
        return found

    def _table(self, table: str, kind: type) -> Mapping[str, Any]:
        """The names of a table that can be used, with what is written there."""
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

    def _set(self, name: str, path: tuple[str, ...]) -> list[str]:
        """The approvers a name stands for; anybody where that is a problem, which is noted."""
        if name in path:
            self._problems.add((SETS, name), _circle([*path, name]))
            return ["channel"]
        if name not in self._found_sets:
            found = self._people(self._sets[name], (*path, name))
            try:
                if not all(isinstance(each, str) for each in found):
                    raise ValueError("write each in quotes")
                people(found)
            except ValueError as error:
                self._problems.add((SETS, name), str(error))
                found = ["channel"]
            self._found_sets[name] = found
        return self._found_sets[name]

    def _people(self, written: list[Any], path: tuple[str, ...] = ()) -> list[Any]:
        """A list of approvers with the names in it taken apart; what is unknown stays as it is."""
        found: list[Any] = []
        for each in written:
            known = isinstance(each, str) and each in self._sets
            found += self._set(each, path) if known else [each]
            if known:
                self._used.add((SETS, each))
        return list(dict.fromkeys(found)) if all(isinstance(each, str) for each in found) else found

    def _condition(self, name: str, path: tuple[str, ...]) -> str:
        """The condition a name stands for; one that always holds where that is a problem."""
        # only now: the library behind it takes a moment to load
        from bot.policy.conditions.condition import Condition

        if name in path:
            self._problems.add((CONDITIONS, name), _circle([*path, name]))
            return "true"
        if name not in self._found_conditions:
            found = self._text(self._conditions[name], (CONDITIONS, name), (*path, name))
            try:
                Condition(found)
            except ValueError as error:
                self._problems.add((CONDITIONS, name), str(error))
                found = "true"
            self._found_conditions[name] = found
        return self._found_conditions[name]

    def _text(self, written: str, loc: Loc, path: tuple[str, ...] = ()) -> str:
        """A condition with the names in it taken apart."""

        def one(use: re.Match[str]) -> str:
            name = use["name"]
            if name is None:
                return use[0]
            if name not in self._conditions:
                near = meant([name], self._conditions)
                self._problems.add(loc, f"names conditions.{name}, which is not there{near}")
                return "true"
            self._used.add((CONDITIONS, name))
            found = self._condition(name, path)
            return f"({found}\n)" if "//" in found else f"({found})"

        found = _USE.sub(one, written)
        if len(found) <= _MOST:
            return found
        self._problems.add(loc, "is too long with the conditions it names; split it")
        return "true"

    def _options(self, written: Any, loc: Loc) -> Any:
        """[defaults] or a rule with the names in it taken apart."""
        if not isinstance(written, dict):
            return written
        found = dict(written)
        if isinstance(found.get("when"), str):
            found["when"] = self._text(found["when"], (*loc, "when"))
        for key in ("stages", "escalation"):
            if isinstance(found.get(key), list):
                found[key] = [self._entry(each) for each in found[key]]
        return self._entry(found)

    def _entry(self, written: Any) -> Any:
        """A table with the names in its lists of people taken apart."""
        if not isinstance(written, dict):
            return written
        lists = {key: written[key] for key in PEOPLE if isinstance(written.get(key), list)}
        if isinstance(asks := written.get(ASKS), str) and asks in self._sets:
            lists[ASKS] = [asks]
        return {**written, **{key: self._people(each) for key, each in lists.items()}}


def _circle(names: list[str]) -> str:
    return f"stands for itself ({' → '.join(names)}); take it out of one of them"
