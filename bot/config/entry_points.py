"""Loads what other packages provide by name: entry points, and functions that find owners."""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from bot.policy.approver_lists import validate_owners
from bot.policy.authority import LookupFailedError

BUILT_IN_SOURCE = "Countersign"


class EntryPointError(ValueError):
    """Raised if an entry point cannot be used; the text says which one and why."""


@dataclass(frozen=True, slots=True)
class LoadedEntryPoint:
    """One entry point with its loaded object."""

    name: str
    source: str  # "package 1.0", or BUILT_IN_SOURCE for the bot's own
    value: Any

    @property
    def is_ours(self) -> bool:
        """Return whether the entry point comes with the bot."""
        return self.source == BUILT_IN_SOURCE


def load_entry_points(
    group: str, bot_entries: Iterable[tuple[str, str]] = ()
) -> list[LoadedEntryPoint]:
    """Load the entry points of a group: the bot's `bot_entries` first, then the others by name.

    `bot_entries`: name and "module:attribute", as a package would declare them; written in code so
    that a checkout that was never installed has them as well. Raises EntryPointError.
    """
    bot_points = [EntryPoint(name, value, group) for name, value in bot_entries]
    declared = _list_declared_entry_points(tuple(sys.path)).select(group=group)
    package_points = sorted(declared, key=lambda each: (each.name, each.value))
    loaded: dict[str, LoadedEntryPoint] = {}
    for each in (*bot_points, *package_points):
        if each.name in loaded:
            sources = f"{loaded[each.name].source} and {_describe_package(each)}"
            raise EntryPointError(f"{group} has two entry points named {each.name}: {sources}")
        loaded[each.name] = LoadedEntryPoint(
            each.name, _describe_package(each), _load_entry_point(each)
        )
    return list(loaded.values())


@lru_cache(maxsize=1)
def _list_declared_entry_points(_path: tuple[str, ...]) -> Any:
    """Return all entry points of the packages on this path; cached, as reading them takes 3 ms."""
    return entry_points()


def _load_entry_point(entry: EntryPoint) -> Any:
    try:
        return entry.load()
    except Exception as error:  # importing a module may raise anything
        why = f"{type(error).__name__}: {error}"
        of = f"{entry.name} = {entry.value!r} of {_describe_package(entry)}"
        raise EntryPointError(f"the entry point {of} cannot be loaded ({why})") from error


def _describe_package(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else BUILT_IN_SOURCE


FUNCTION_TIMEOUT_SECONDS = 5.0
_FUNCTION_SLOTS = threading.BoundedSemaphore(16)  # also held by calls that timed out


def import_owner_function(name: str) -> Callable[[Any], Any]:
    """Return the function "package.module:function"; raises LookupFailedError if there is none."""
    module, _, function = name.partition(":")
    try:
        imported = getattr(importlib.import_module(module), function)
    except Exception as error:  # importing a module may raise anything
        why = f"{name} cannot be imported ({type(error).__name__}: {error})"
        raise LookupFailedError(why) from error
    if not callable(imported):
        raise LookupFailedError(f"{name} is not a function")
    owners: Callable[[Any], Any] = imported
    return owners


def call_owner_function(name: str, value: str | int) -> tuple[str, ...]:
    """Return the user ids and "@group" handles that the function returns for the value.

    Raises LookupFailedError if it fails, takes longer than FUNCTION_TIMEOUT_SECONDS, or returns
    something else.
    """
    if not _FUNCTION_SLOTS.acquire(blocking=False):
        raise LookupFailedError(f"{name} was not called: too many earlier calls have not returned")
    answer: Future[Any] = Future()

    def call() -> None:
        try:
            answer.set_result(import_owner_function(name)(value))
        except BaseException as error:  # noqa: BLE001 - whatever it raises, nobody owns the value
            answer.set_exception(error)
        finally:
            _FUNCTION_SLOTS.release()

    threading.Thread(target=call, name=f"owners {name}", daemon=True).start()
    try:
        owners = answer.result(FUNCTION_TIMEOUT_SECONDS)
        return tuple(validate_owners([str(each) for each in owners])) if owners else ()
    except TimeoutError:
        raise LookupFailedError(
            f"{name} has not answered within {FUNCTION_TIMEOUT_SECONDS:.0f} s"
        ) from None
    except BaseException as error:  # includes errors of the returned values
        raise LookupFailedError(f"{name} failed ({type(error).__name__})") from error
