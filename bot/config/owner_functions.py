"""Functions of the operator's own that say who owns a value, named in a policy's [owners.field]."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from bot.policy.approver_lists import validate_owners
from bot.policy.authority import LookupFailedError

PATIENCE = 5.0  # seconds that a function may take
_RUNNING = threading.BoundedSemaphore(16)  # also those that have taken longer


def import_owner_function(name: str) -> Callable[[Any], Any]:
    """Return the function "package.module:function"; raises LookupFailedError if there is none."""
    module, _, function = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), function)
    except Exception as error:  # whatever a module does when it is imported
        why = f"{name} cannot be imported ({type(error).__name__}: {error})"
        raise LookupFailedError(why) from error
    if not callable(found):
        raise LookupFailedError(f"{name} is no function")
    owners: Callable[[Any], Any] = found
    return owners


def call_owner_function(name: str, value: str | int) -> tuple[str, ...]:
    """Return the user ids and "@group" handles that the function returns for the value.

    Raises LookupFailedError if it fails, takes longer than PATIENCE, or returns something else.
    """
    if not _RUNNING.acquire(blocking=False):
        raise LookupFailedError(f"{name} is not called: too many calls have not come back")
    answer: Future[Any] = Future()

    def call() -> None:
        try:
            answer.set_result(import_owner_function(name)(value))
        except BaseException as error:  # noqa: BLE001 - whatever it raises, nobody owns the value
            answer.set_exception(error)
        finally:
            _RUNNING.release()

    threading.Thread(target=call, name=f"owners {name}", daemon=True).start()
    try:
        found = answer.result(PATIENCE)
        return tuple(validate_owners([str(each) for each in found])) if found else ()
    except TimeoutError:
        raise LookupFailedError(f"{name} has not answered within {PATIENCE:.0f} s") from None
    except BaseException as error:  # also what it is that it returned
        raise LookupFailedError(f"{name} failed ({type(error).__name__})") from error
