"""Loads the entry points of a group, by which other packages add parts to the bot.

A broken entry point is named and stops the start, so that nothing an operator relies on is missing.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

OURS = "Countersign"


class EntryPointError(ValueError):
    """Raised if an entry point cannot be used; the text says which one and why."""


@dataclass(frozen=True, slots=True)
class LoadedEntryPoint:
    """One entry point with its loaded object."""

    name: str
    source: str  # "package 1.0", or OURS for what comes with the bot
    value: Any


def load_entry_points(group: str, own: Iterable[tuple[str, str]] = ()) -> list[LoadedEntryPoint]:
    """Load the entry points of a group: the bot's `own` first, then the others by name.

    `own`: name and "module:attribute", as a package would declare them; written in code so that a
    checkout that was never installed has them as well. Raises EntryPointError.
    """
    ours = [EntryPoint(name, value, group) for name, value in own]
    declared = _list_declared_entry_points(tuple(sys.path)).select(group=group)
    theirs = sorted(declared, key=lambda each: (each.name, each.value))
    found: dict[str, LoadedEntryPoint] = {}
    for each in (*ours, *theirs):
        if each.name in found:
            both = f"{found[each.name].source} and {_describe_package(each)}"
            raise EntryPointError(f"{group} has two entry points named {each.name}: {both}")
        found[each.name] = LoadedEntryPoint(
            each.name, _describe_package(each), _load_entry_point(each)
        )
    return list(found.values())


@lru_cache(maxsize=1)
def _list_declared_entry_points(_path: tuple[str, ...]) -> Any:
    """Return all entry points of the packages on this path; cached, as reading them takes 3 ms."""
    return entry_points()


def _load_entry_point(entry: EntryPoint) -> Any:
    try:
        return entry.load()
    except Exception as error:  # whatever a module does when it is imported
        why = f"{type(error).__name__}: {error}"
        of = f"{entry.name} = {entry.value!r} of {_describe_package(entry)}"
        raise EntryPointError(f"the entry point {of} cannot be loaded ({why})") from error


def _describe_package(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else OURS
