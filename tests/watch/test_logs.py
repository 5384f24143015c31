"""The JSON log: fields of a line, and what is never in it."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

import pytest

from bot.monitoring.spans import Exporter, Span, Tracer, WorkKind, get_current_run_and_call_ids
from storage.masking import MASK
from tests.watch.log_lines import json_lines

log = logging.getLogger("countersign.test")


def test_ids_in_a_lines_template_become_fields() -> None:
    """Ids named in the template, whatever the other values contain."""
    with json_lines() as lines:
        log.warning("run %s call %s: %d%% done, run %s", "r1", "c1", 50, "r2")
        log.warning("message %s (%s): %s", 7, "card", "run r9 failed")
        log.warning("delivery %s failed", 3)
    first, second, third = lines.read()
    assert first["event"] == "run %s call %s: %d%% done, run %s"
    assert first["message"] == "run r1 call c1: 50% done, run r2"
    assert (first["run_id"], first["call_id"]) == ("r1", "c1")
    assert (second["message_id"], "run_id" in second) == ("7", False)
    assert third["delivery"] == "3"
    assert {each["level"] for each in (first, second, third)} == {"warning"}
    assert first["time"].endswith("Z")


def test_log_lines_have_the_ids_of_the_current_span() -> None:
    """Even lines of libraries, and on a thread started within the span."""
    library = logging.getLogger("some.library")
    with json_lines() as lines, ThreadPoolExecutor(1) as pool:
        with Tracer().start_span(WorkKind.ADVANCE, run_id="r1"):
            library.warning("outer")
            with Tracer().start_span(WorkKind.TOOL, "note", call_id="c1"):
                pool.submit(copy_context().run, library.warning, "on another thread").result()
            library.warning("again")
        library.warning("about nothing")
    told = [(each["message"], each.get("run_id"), each.get("call_id")) for each in lines.read()]
    assert told == [
        ("outer", "r1", None),
        ("on another thread", "r1", "c1"),
        ("again", "r1", None),
        ("about nothing", None, None),
    ]


def test_secrets_are_masked_in_every_field() -> None:
    """In the text, the fields, the template, and the traceback, which stays one line."""
    token = "xoxb-123456789012-abc"
    with json_lines() as lines:
        log.info("with %s", token)
        log.info(f"formatted {token}")
        log.info("row", extra={"fact": {"details": {"why": [token]}, "actor": token}})
        try:
            raise ValueError(f"it was {token}")
        except ValueError:
            log.exception("run %s: failed", "r1")
    assert len(lines.read()) == 4
    assert "123456789012" not in lines.text
    assert lines.text.count(f"xoxb-{MASK}") == 6
    [failed] = lines.read(run_id="r1")
    assert "ValueError: it was xoxb-" in failed["exception"]
    assert "\n" in failed["exception"]


def test_fields_of_libraries_are_left_out() -> None:
    """Whatever a record carries."""
    with json_lines() as lines:
        log.info("job done", extra={"job": {"args": {"amount": 40}}, "run_id": "forged"})
    [line] = lines.read()
    assert set(line) == {"time", "level", "logger", "event", "message", "thread"}


def test_a_failing_exporter_stops_nothing() -> None:
    """The exception is logged, and the work goes on."""

    class Broken(Exporter):
        def report_span(self, span: Span) -> None:
            raise RuntimeError("broken")

    with json_lines() as lines:
        with pytest.raises(LookupError), Tracer([Broken()]).start_span(WorkKind.TICK) as span:
            raise LookupError("of the work itself")
        assert get_current_run_and_call_ids() == ("", "")
    assert span.end == "LookupError"
    assert [each["message"] for each in lines.read()] == ["a span could not be exported"]
