"""Spans: the work in progress on each thread, reported to the log, the metrics and the traces.

A span is one piece of work from its beginning to its end: a delivery that is decided, a turn of the
model, a tool that runs, a call to Slack. Spans can be nested; an inner span is about the run and
the call of the outer one, unless it names its own.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from storage import audit_log

if TYPE_CHECKING:
    from storage.store import Store

log = logging.getLogger("countersign.watch")


class WorkKind(StrEnum):
    """The kinds of work that a span stands for; a closed set."""

    ACKNOWLEDGE = "acknowledge"  # a delivery, from its arrival to its acknowledgement
    TICK = "tick"  # one pass of the loop
    DECIDE = "decide"  # one delivery from the inbox is decided
    ADVANCE = "advance"  # one worker with one run, from claim to release
    TURN = "turn"  # one turn of the model, with all attempts
    MODEL = "model"  # one request to the model
    TOOL = "tool"  # one call is executed
    POST = "post"  # one message of the outbox is sent or updated
    SLACK = "slack"  # one request to Slack's Web API
    LOOK_UP = "look_up"  # one look-up of a person, a group or a channel


class Incident(StrEnum):
    """The kinds of momentary trouble that are counted because they leave no audit row."""

    POLICY_REFUSED = "policy_refused"  # a new policy file could not be used
    PAUSE = "pause"  # Slack wants no requests for a while
    UNSTORED = "unstored"  # the database could not store something; it is tried again or refused
    LATE = "late"  # no replica's job started a request in time, so the loop did


@dataclass(slots=True, eq=False, repr=False)
class Span:
    """One piece of work with its duration; made by `Tracer.start_span`, used in a `with`."""

    _tracer: Tracer
    work: WorkKind
    subject: str  # the tool's name, the Slack method and so on
    run_id: str
    call_id: str
    since: datetime | None  # when the work became due; None: not measured
    within: Span | None = None
    end: str = ""  # how it failed: a code or kind, never a sentence; "" if it went well
    amounts: dict[str, int] = field(default_factory=dict)
    begun_at: datetime = field(init=False)
    seconds: float = 0.0
    number: int = 0  # its span id in a trace, once one is needed
    _began: float = field(init=False)
    _token: Token[Span | None] = field(init=False)

    def __enter__(self) -> Span:
        self.within = _CURRENT_SPAN.get()
        if self.within is not None and not self.run_id:
            self.run_id, self.call_id = self.within.run_id, self.call_id or self.within.call_id
        self._token = _CURRENT_SPAN.set(self)
        self.begun_at, self._began = self._tracer.now(), time.perf_counter()
        return self

    def __exit__(self, _: object, error: BaseException | None, *__: object) -> None:
        """Set duration and end, and report the span to the tracer; raise nothing of its own."""
        self.seconds = time.perf_counter() - self._began
        if error is not None and not self.end:
            self.end = type(error).__name__
        _CURRENT_SPAN.reset(self._token)
        self._tracer.report_span(self)

    @property
    def workspace(self) -> str:
        """The workspace that the work is for; "" if the process serves only one."""
        return self._tracer.workspace

    @property
    def ended_at(self) -> datetime:
        """The time when the span ended."""
        return self.begun_at + timedelta(seconds=self.seconds)


_CURRENT_SPAN: ContextVar[Span | None] = ContextVar("span", default=None)
_CURRENT_WORKSPACE: ContextVar[str] = ContextVar("workspace", default="")  # used outside of spans


class Exporter:
    """A receiver of reports about work, called on the thread that did the work, which waits."""

    def report_span(self, span: Span) -> None:
        """Receive a span that has ended."""

    def report_audit_rows(self, facts: Sequence[audit_log.AuditLine]) -> None:
        """Receive audit rows that have been committed."""

    def report_incident(self, what: Incident, subject: str) -> None:
        """Receive an incident that happened just now."""

    def report_setup_problems(self, counts: Mapping[str, int]) -> None:
        """Receive the number of setup problems by level (`fail`, `warn`)."""

    def attach_store(self, store: Store) -> None:
        """Receive the store, which may be read from now on."""

    def render_metrics_page(self) -> str | None:
        """Return the page to serve to a monitoring system; None if there is none."""
        return None

    def close(self) -> None:
        """Finish; no more reports follow."""


class Tracer:
    """The distributor of reports about work to the exporters; one per process, any thread."""

    def __init__(
        self,
        exporters: Sequence[Exporter] = (),
        now: Callable[[], datetime] = lambda: datetime.now(UTC),  # noqa: TID251  # for tests of the log
        workspace: str = "",
    ) -> None:
        """Report to `exporters`; without any, spans only give log lines their run and call ids.

        `workspace`: the one whose work it is, for the log of a process that serves several.
        """
        self._exporters, self.now, self.workspace = tuple(exporters), now, workspace

    def start_span(
        self,
        work: WorkKind,
        subject: str = "",
        *,
        run_id: str = "",
        call_id: str = "",
        since: datetime | None = None,
    ) -> Span:
        """Return a new span of this work, to be used in a `with`."""
        return Span(self, work, subject, run_id, call_id, since)

    def report_span(self, span: Span) -> None:
        """Pass a span that has ended to every exporter."""
        for each in self._exporters:
            _call_and_log_errors(each.report_span, span)

    def log_and_export_audit_lines(self, facts: Sequence[audit_log.AuditLine]) -> None:
        """Log committed audit rows, and pass them to every exporter."""
        if not facts:
            return
        _set_run_id_from_audit_lines(facts)
        _call_and_log_errors(audit_log.log_audit_lines, facts)
        for each in self._exporters:
            _call_and_log_errors(each.report_audit_rows, facts)

    def report_incident(self, what: Incident, subject: str = "") -> None:
        """Pass an incident to every exporter."""
        for each in self._exporters:
            _call_and_log_errors(each.report_incident, what, subject)

    def report_setup_problems(self, counts: Mapping[str, int]) -> None:
        """Pass the number of setup problems by level (`fail`, `warn`) to every exporter."""
        for each in self._exporters:
            _call_and_log_errors(each.report_setup_problems, counts)

    def attach_store(self, store: Store) -> None:
        """Pass the store to every exporter; raise what an exporter raises."""
        for each in self._exporters:
            each.attach_store(store)

    def render_metrics_page(self) -> str | None:
        """Return the first page that an exporter offers to a monitoring system, or None."""
        pages = (each.render_metrics_page() for each in self._exporters)
        return next((page for page in pages if page is not None), None)

    def close(self) -> None:
        """Close every exporter."""
        for each in self._exporters:
            _call_and_log_errors(each.close)


def get_current_run_and_call_ids() -> tuple[str, str]:
    """Return the run id and call id of this thread's current span; "" for each that is unknown."""
    span = _CURRENT_SPAN.get()
    return (span.run_id, span.call_id) if span is not None else ("", "")


def get_current_workspace() -> str:
    """Return the workspace that this thread works for; "" if the process serves one alone."""
    span = _CURRENT_SPAN.get()
    return span.workspace if span is not None else _CURRENT_WORKSPACE.get()


@contextmanager
def work_for_workspace(workspace: str) -> Iterator[None]:
    """Name a workspace in all that this thread logs in the block, also outside of spans."""
    before = _CURRENT_WORKSPACE.set(workspace)
    try:
        yield
    finally:
        _CURRENT_WORKSPACE.reset(before)


def _call_and_log_errors(exporter: Callable[..., None], *what: Any) -> None:
    try:
        exporter(*what)
    except Exception:
        log.exception("a span could not be exported")


def _set_run_id_from_audit_lines(facts: Sequence[audit_log.AuditLine]) -> None:
    """Set the run id of the current span, if it is a decision's, from the audit rows it wrote."""
    span = _CURRENT_SPAN.get()
    if span is not None and not span.run_id and span.work is WorkKind.DECIDE:
        span.run_id = next((each.run_id for each in facts if each.run_id), "")
