"""The traces of a request that an OpenTelemetry collector receives."""

from __future__ import annotations

import os
from collections.abc import Callable
from hashlib import sha256

import pytest

pytest.importorskip("opentelemetry")

from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from bot.demo.model_server import Turn
from bot.monitoring.traces import compute_trace_id
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.steps import ask, vote
from tests.stories.sub_agents import AGENTS, approve, asked_for, child_of, get_request_run
from tests.watch.collector import collector


def list_names_inside(spans: list[Span], name: str) -> set[str]:
    """Return the names of all spans below the ones of this name, at any depth."""
    own = {each.span_id for each in spans if each.name == name}
    found: set[str] = set()
    while below := [each for each in spans if each.parent_span_id in own]:
        found |= {each.name for each in below}
        own = {each.span_id for each in below}
    return found


def test_a_request_is_one_trace_from_click_to_tool(
    own_harness: Callable[..., Harness], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the spans for inbox, decision, model, waiting, tool and posting in their places.

    A restart in between makes no second trace.
    """
    monkeypatch.setitem(os.environ, "OTEL_BSP_SCHEDULE_DELAY", "50")
    words = "saffron-and-salt"
    with collector() as collected:
        harness = own_harness(FakeTools().tools, COUNTERSIGN_TRACES=collected.url)
        thread = ask(harness, ("note", {"text": words}), answer="All noted down.")
        card = harness.card(SUPPORT, thread)
        harness.settle()
        harness.restart()
        vote(harness, "ana", card)
        harness.said(SUPPORT, thread, "All noted down.")
        harness.settle()
        run, [call] = harness.run_in(thread), harness.calls_in(thread)
        spans = collected.spans(compute_trace_id(run.id), "request")
        harness.app.stop()
        spans = collected.spans(compute_trace_id(run.id), "request")
    names = [each.name for each in spans]
    assert {"inbox message", "decide message", "inbox action", "decide action"} <= set(names)
    assert names.count("turn") == names.count("model") == 2
    assert list_names_inside(spans, "advance") >= {"turn", "model", "tool note"}
    assert "slack chat.postMessage" in list_names_inside(spans, "post card")
    assert len({each.span_id for each in spans}) == len(spans)
    [request] = [each for each in spans if each.name == "request"]
    # as docs/watching.md describes it
    assert request.trace_id.hex() == sha256(f"trace {run.id}".encode()).hexdigest()[:32]
    assert not request.parent_span_id
    assert list_names_inside(spans, "request") == set(names) - {"request"}
    assert all(each.start_time_unix_nano <= each.end_time_unix_nano for each in spans)
    attributes = {
        each.name: {one.key: one.value.string_value for one in each.attributes} for each in spans
    }
    assert {each["countersign.run_id"] for each in attributes.values()} == {run.id}
    assert attributes["tool note"]["countersign.call_id"] == call.id
    assert attributes["wait for people"]["countersign.end"] == "call.approved"
    assert collected.services == {"countersign"}
    for private in (words, "please", "All noted", "UANA", "UBEN", SUPPORT):
        assert private.encode() not in collected.raw


def test_a_sub_agents_trace_is_linked_from_its_parents(
    own_harness: Callable[..., Harness], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The parent's span for the delegated task links to the sub-agent's request."""
    monkeypatch.setitem(os.environ, "OTEL_BSP_SCHEDULE_DELAY", "50")
    with collector() as collected:
        harness = own_harness([*FakeTools().tools, *AGENTS], COUNTERSIGN_TRACES=collected.url)
        thread, card = asked_for(harness, "errand seven")
        approve(harness, card, Turn(text="It is written."), Turn(text="Errand seven is written."))
        harness.said(SUPPORT, thread, "Errand seven is written.")
        harness.settle()
        child = child_of(harness, thread)
        spans = collected.spans(compute_trace_id(get_request_run(harness, thread).id), "request")
        [own] = [
            e for e in collected.spans(compute_trace_id(child.id), "request") if e.name == "request"
        ]
        harness.app.stop()
    [entrusted] = [each for each in spans if each.name == "entrusted"]
    [link] = entrusted.links
    assert (link.trace_id, link.span_id) == (own.trace_id, own.span_id)


def test_failures_are_marked_in_the_trace_by_kind(
    own_harness: Callable[..., Harness], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failed tool and a failed model request have an error status and their kind of error."""
    monkeypatch.setitem(os.environ, "OTEL_BSP_SCHEDULE_DELAY", "50")
    with collector() as collected:
        harness = own_harness(FakeTools().tools, COUNTERSIGN_TRACES=collected.url)
        harness.planner.fail_next_requests(500)
        thread = ask(harness, ("explode", {"text": "x"}), answer="It failed.")
        vote(harness, "ana", harness.card(SUPPORT, thread))
        harness.said(SUPPORT, thread, "It failed.")
        harness.settle()
        spans = collected.spans(compute_trace_id(harness.run_in(thread).id), "request")
        harness.app.stop()
    ends = {
        (each.name, one.value.string_value)
        for each in spans
        if each.status.code == Status.STATUS_CODE_ERROR
        for one in each.attributes
        if one.key == "countersign.end"
    }
    assert {("model", "server"), ("tool explode", "failed")} <= ends


@pytest.mark.long
def test_an_unreachable_collector_does_not_block_requests(
    own_harness: Callable[..., Harness],
) -> None:
    """Nothing listens at the collector's address."""
    harness = own_harness(FakeTools().tools, COUNTERSIGN_TRACES="http://127.0.0.1:9/v1/traces")
    thread = ask(harness, ("note", {"text": "alone"}))
    vote(harness, "ana", harness.card(SUPPORT, thread))
    harness.said(SUPPORT, thread, "That is all.")
