"""OpenTelemetry traces of requests, from arrival to posting; imported only where they are on.

A request is one trace, whichever processes work on it: its trace id and the id of its first span
are computed from the run's id, so that neither has to be stored. Spans hold ids, names and codes,
and no arguments or words.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from bot import __version__
from bot.monitoring.live_events import ToolStepOutcome
from bot.monitoring.spans import Exporter, Span, WorkKind, get_current_run_and_call_ids
from storage.audit_log import AuditLine
from storage.states import CallStatus, RunStatus

FLUSH_TIMEOUT_SECONDS = 3.0  # for sending the remaining spans when the bot stops
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SAMPLED_FLAGS = TraceFlags(TraceFlags.SAMPLED)
_UNTRACED_WORK_KINDS = (WorkKind.ACKNOWLEDGE, WorkKind.TICK)  # they belong to no request
_CLIENT_WORK_KINDS = (WorkKind.MODEL, WorkKind.SLACK, WorkKind.LOOK_UP)  # they call another server
_GOOD_OUTCOMES = ("", ToolStepOutcome.DONE, ToolStepOutcome.ENTRUSTED)
_DECIDED_STATUSES = (CallStatus.APPROVED, CallStatus.REJECTED, CallStatus.EXPIRED)
_DECISION_EVENTS = {f"call.{status}" for status in _DECIDED_STATUSES} | {"question.answered"}
_FINISHED_RUN_STATUSES = (RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED)
_RUN_END_EVENTS = {f"run.{status}" for status in _FINISHED_RUN_STATUSES}


class OpenTelemetryTraces(Exporter):
    """An exporter that sends spans to a collector from its own thread."""

    def __init__(self, endpoint: str) -> None:
        """`endpoint`: the full address of the collector's OTLP over HTTP, with /v1/traces."""
        own = {"service.name": "countersign", "service.version": __version__}
        self._resource = Resource(own).merge(OTELResourceDetector().detect())
        self._scope = InstrumentationScope("countersign", __version__)
        self._queue = BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint))

    def close(self) -> None:
        """Send the spans that are left, waiting FLUSH_TIMEOUT_SECONDS at most for the collector."""
        closing = threading.Thread(target=self._queue.shutdown, name="traces", daemon=True)
        closing.start()
        closing.join(FLUSH_TIMEOUT_SECONDS)

    def report_span(self, span: Span) -> None:
        """Export a span of a request, and a span for the time it waited before if that is known."""
        if not span.run_id or span.work in _UNTRACED_WORK_KINDS:
            return
        name = f"{span.work.replace('_', ' ')} {span.subject}".strip()
        attributes: dict[str, str | int] = {"countersign.call_id": span.call_id}
        attributes["countersign.end"] = span.end
        attributes |= {f"countersign.tokens.{way}": n for way, n in span.amounts.items()}
        parent = _find_parent_span_id(span)
        self._queue_span(
            span.run_id,
            name,
            (span.begun_at, span.ended_at),
            attributes,
            number=_get_span_id(span),
            parent=parent,
            kind=SpanKind.CLIENT if span.work in _CLIENT_WORK_KINDS else SpanKind.INTERNAL,
            is_bad=span.end not in _GOOD_OUTCOMES,
        )
        if span.since is not None:
            waited = (span.since, span.begun_at)
            self._queue_span(
                span.run_id, f"inbox {span.subject}".strip(), waited, {}, parent=parent
            )

    def report_audit_rows(self, facts: Sequence[AuditLine]) -> None:
        """Export spans for the time people took to decide, and for each request that has ended.

        A sub-agent's new run is linked from the trace of its parent.
        """
        for fact in facts:
            if fact.event == "run.born" and fact.data.get("call"):
                self._link_sub_agent_run(fact)
            if fact.since is None:
                continue
            attributes: dict[str, str | int] = {"countersign.call_id": fact.call_id}
            attributes["countersign.end"] = fact.event
            if fact.event in _DECISION_EVENTS:
                attributes["countersign.tool"] = str(fact.data.get("tool", ""))
                self._queue_span(fact.run_id, "wait for people", (fact.since, fact.at), attributes)
            elif fact.event in _RUN_END_EVENTS:
                self._queue_span(
                    fact.run_id,
                    "request",
                    (fact.since, fact.at),
                    attributes,
                    number=_compute_root_span_id(fact.run_id),
                    parent=0,
                    is_bad=fact.event == "run.failed",
                )

    def _link_sub_agent_run(self, fact: AuditLine) -> None:
        """Link a sub-agent's run, which is a trace of its own, from its parent's trace."""
        told: dict[str, str | int] = {"countersign.call_id": str(fact.data["call"])}
        told["countersign.child_run_id"] = fact.run_id
        parent, _ = get_current_run_and_call_ids()
        if parent:
            link = Link(
                _build_span_context(fact.run_id, _compute_root_span_id(fact.run_id), is_remote=True)
            )
            self._queue_span(parent, "entrusted", (fact.at, fact.at), told, links=[link])

    def _queue_span(
        self,
        run_id: str,
        name: str,
        when: tuple[datetime, datetime],
        data: dict[str, str | int],
        *,
        number: int = 0,
        parent: int | None = None,
        kind: SpanKind = SpanKind.INTERNAL,
        is_bad: bool = False,
        links: Sequence[Link] = (),
    ) -> None:
        """Queue a span for sending; `parent` is None for the request's span, 0 for no parent."""
        parent = _compute_root_span_id(run_id) if parent is None else parent
        span = ReadableSpan(
            name,
            _build_span_context(run_id, number or _generate_span_id()),
            _build_span_context(run_id, parent, is_remote=True) if parent else None,
            self._resource,
            {"countersign.run_id": run_id, **{key: each for key, each in data.items() if each}},
            links=links,
            kind=kind,
            status=Status(StatusCode.ERROR if is_bad else StatusCode.UNSET),
            start_time=_convert_to_nanoseconds(when[0]),
            end_time=_convert_to_nanoseconds(max(when)),
            instrumentation_scope=self._scope,
        )
        self._queue.on_end(span)


def compute_trace_id(run_id: str) -> int:
    """Return the id of a request's trace, computed from its run id."""
    return int.from_bytes(hashlib.sha256(f"trace {run_id}".encode()).digest()[:16])


def _build_span_context(run_id: str, number: int, *, is_remote: bool = False) -> SpanContext:
    return SpanContext(
        compute_trace_id(run_id), number, is_remote=is_remote, trace_flags=_SAMPLED_FLAGS
    )


def _compute_root_span_id(run_id: str) -> int:
    """Return the id of a request's first span, which contains all others."""
    return int.from_bytes(hashlib.sha256(f"span {run_id}".encode()).digest()[:8])


def _find_parent_span_id(span: Span) -> int:
    """Return the id of the nearest enclosing span of the same request, else of its first span."""
    around = span.within
    while around is not None:
        if around.run_id == span.run_id and around.work not in _UNTRACED_WORK_KINDS:
            return _get_span_id(around)
        around = around.within
    return _compute_root_span_id(span.run_id)


def _get_span_id(span: Span) -> int:
    """Return a span's id in the trace, choosing it at the first call.

    Inner spans may need it before the span itself ends.
    """
    span.number = span.number or _generate_span_id()
    return span.number


def _generate_span_id() -> int:
    return secrets.randbits(64) or 1


def _convert_to_nanoseconds(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(microseconds=1) * 1000
