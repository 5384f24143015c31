"""What the bot is at work on at this moment, on each thread: for the log, the metrics, the traces.

A span is one piece of work from its beginning to its end: a delivery that is decided, a turn of
the model, a tool that runs, a call to Slack. Spans stand within one another; an inner one is
about the request and the call of the outer one, unless it says otherwise.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar, Token
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar

from storage import audit_log
from storage.audit_log import AuditLine

if TYPE_CHECKING:
    from storage.store import Store

log = logging.getLogger("countersign.watch")
P = ParamSpec("P")
S = TypeVar("S", bound="_Traced")
R = TypeVar("R")


class Work(StrEnum):
    """What a span does; a closed set."""

    ACKNOWLEDGE = "acknowledge"  # what arrived, up to its acknowledgement
    TICK = "tick"  # one pass of the loop
    DECIDE = "decide"  # one delivery is taken from the inbox
    ADVANCE = "advance"  # one worker with one run, from its claim until it lets go
    TURN = "turn"  # one turn of the model, with all its tries
    MODEL = "model"  # one request to the model
    TOOL = "tool"  # one call runs
    POST = "post"  # one message of the outbox is sent, or drawn again
    SLACK = "slack"  # one call of Slack's Web API
    LOOK_UP = "look_up"  # one question about a person, a group or a channel


class Incident(StrEnum):
    """What happens at one moment and is no row of the audit; a closed set."""

    POLICY_REFUSED = "policy_refused"  # a new policy file could not be used
    PAUSE = "pause"  # Slack wants not to be asked for a while
    UNSTORED = "unstored"  # the database could not take something; it is tried again or refused
    LATE = "late"  # no job had a request taken up in time, and the loop did


class Span:
    """One piece of work; made by `Tracer.over`, used in a `with`."""

    __slots__ = (
        "_began",
        "_token",
        "_watch",
        "about",
        "amounts",
        "begun_at",
        "call_id",
        "end",
        "number",
        "run_id",
        "seconds",
        "since",
        "within",
        "work",
    )

    def __init__(
        self,
        watch: Tracer,
        work: Work,
        about: str,
        run_id: str,
        call_id: str,
        since: datetime | None,
    ) -> None:
        """`about`: of what there are several: a tool's name, a method of Slack's.

        `since`: when what is done now began to wait for it.
        """
        self._watch, self.work, self.about = watch, work, about
        self.run_id, self.call_id, self.since = run_id, call_id, since
        self.within: Span | None = None
        self.end = ""  # how it ended, where that is not well: a code or a kind, never words
        self.amounts: dict[str, int] = {}
        self.begun_at: datetime
        self.seconds = 0.0
        self.number = 0  # its number in a trace, once one is needed
        self._token: Token[Span | None]

    def __enter__(self) -> Span:
        self.within = _CURRENT.get()
        if self.within is not None and not self.run_id:
            self.run_id, self.call_id = self.within.run_id, self.call_id or self.within.call_id
        self._token = _CURRENT.set(self)
        self.begun_at, self._began = self._watch.now(), time.perf_counter()
        return self

    def __exit__(self, _: object, error: BaseException | None, *__: object) -> None:
        """Tell whoever watches; raises nothing of its own."""
        self.seconds = time.perf_counter() - self._began
        if error is not None and not self.end:
            self.end = type(error).__name__
        _CURRENT.reset(self._token)
        self._watch.ended(self)

    @property
    def ended_at(self) -> datetime:
        """When it ended."""
        return self.begun_at + timedelta(seconds=self.seconds)


_CURRENT: ContextVar[Span | None] = ContextVar("span", default=None)
# These begin without knowing whose they are: it is told by what they write down.
_ADOPTS = (Work.DECIDE,)


class Exporter(Protocol):
    """Whoever is told what has been done; on the thread that did it, which waits for it."""

    def ended(self, span: Span) -> None:
        """A piece of work is over."""
        ...

    def heard(self, facts: Sequence[AuditLine]) -> None:
        """These rows of the audit are committed."""
        ...

    def happened(self, what: Incident, about: str) -> None:
        """It has happened just now."""
        ...

    def inspected(self, counts: Mapping[str, int]) -> None:
        """The setup was looked at: so much of it is wrong or odd, by level."""
        ...

    def opened(self, store: Store) -> None:
        """The record may be read from now on."""
        ...

    def page(self) -> str | None:
        """Return what it shows to a machine that asks; None for nothing."""
        ...

    def close(self) -> None:
        """Nothing more will be told."""
        ...


class Tracer:
    """Where work is reported; one per process, any thread."""

    def __init__(
        self,
        exporters: Sequence[Exporter] = (),
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Tell the `exporters`; without one, only the log learns whose a line is."""
        self._exporters, self.now = tuple(exporters), now

    def over(
        self,
        work: Work,
        about: str = "",
        *,
        run_id: str = "",
        call_id: str = "",
        since: datetime | None = None,
    ) -> Span:
        """Return a span for a `with`."""
        return Span(self, work, about, run_id, call_id, since)

    def ended(self, span: Span) -> None:
        """Tell of a span that is over."""
        for each in self._exporters:
            _tell(each.ended, span)

    def heard(self, facts: Sequence[AuditLine]) -> None:
        """Log rows of the audit that are committed, and tell of them."""
        if not facts:
            return
        _adopt(facts)
        _tell(audit_log.log_audit_lines, facts)
        for each in self._exporters:
            _tell(each.heard, facts)

    def happened(self, what: Incident, about: str = "") -> None:
        """Tell of it."""
        for each in self._exporters:
            _tell(each.happened, what, about)

    def inspected(self, counts: Mapping[str, int]) -> None:
        """Tell how much of the setup is wrong (`fail`) or odd (`warn`)."""
        for each in self._exporters:
            _tell(each.inspected, counts)

    def opened(self, store: Store) -> None:
        """Tell of it."""
        for each in self._exporters:
            each.opened(store)

    def page(self) -> str | None:
        """Return what there is to show to a machine that asks; None for nothing."""
        pages = (each.page() for each in self._exporters)
        return next((page for page in pages if page is not None), None)

    def close(self) -> None:
        """Have every exporter bring to its end what it does."""
        for each in self._exporters:
            _tell(each.close)


class _Traced(Protocol):
    """What has methods that are spans."""

    @property
    def watch(self) -> Tracer:
        """Where they are reported."""
        ...


def current_ids() -> tuple[str, str]:
    """Return the ids of the run and the call that this thread is at work on, "" for none."""
    span = _CURRENT.get()
    return (span.run_id, span.call_id) if span is not None else ("", "")


def traced(
    work: Work,
) -> Callable[[Callable[Concatenate[S, P], R]], Callable[Concatenate[S, P], R]]:
    """Mark a method as a span, of an object with `watch`; its first argument is the run's id."""

    def mark(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
        @wraps(method)
        def passing(self: S, /, *args: P.args, **named: P.kwargs) -> R:
            with self.watch.over(work, run_id=str(args[0]) if args else ""):
                return method(self, *args, **named)

        return passing

    return mark


def _tell(exporter: Callable[..., None], *what: Any) -> None:
    """Nothing that watches the work may stop it."""
    try:
        exporter(*what)
    except Exception:
        log.exception("what was done could not be told")


def _adopt(facts: Sequence[AuditLine]) -> None:
    span = _CURRENT.get()
    if span is not None and not span.run_id and span.work in _ADOPTS:
        span.run_id = next((each.run_id for each in facts if each.run_id), "")
