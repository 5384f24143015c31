"""At which of several statements something went wrong. PURE."""

from __future__ import annotations

from collections.abc import Iterator, Sized
from contextlib import contextmanager

from bot.tools import ToolError


@contextmanager
def placed(number: int, statements: Sized) -> Iterator[None]:
    """Have what goes wrong inside say at which of several statements it did."""
    try:
        yield
    except Exception as error:
        if len(statements) == 1:
            raise
        place = f"statement {number}: "
        if isinstance(error, ToolError):
            raise ToolError(f"{place}{error}") from None
        error.add_note(place)  # what the database says is put into words elsewhere
        raise


def place_of(error: BaseException | None) -> str:
    """What `placed` has noted: "statement 2: ", or nothing."""
    return "".join(getattr(error, "__notes__", ()))
