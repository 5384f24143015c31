"""What a machine may ask about this process: a path, and what is said there. Shows no secret."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus

PLAIN = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class PageText:
    """One answer."""

    status: HTTPStatus
    text: str
    kind: str = PLAIN  # its Content-Type


@dataclass(frozen=True, slots=True)
class Page:
    """One path and what answers there.

    `answer` is called on a thread of its own for each request, and may wait a moment.
    """

    path: str
    answer: Callable[[], PageText]
