"""What a collector of traces is told of a request, at the wire."""

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
from tests.stories.sub_agents import AGENTS, approve, asked_for, child_of, first_of
from tests.watch.collector import collector


def inside(spans: list[Span], name: str) -> set[str]:
    """The names of the spans that stand in the one of that name, at any depth."""
    own = {each.span_id for each in spans if each.name == name}
    found: set[str] = set()
    while below := [each for each in spans if each.parent_span_id in own]:
        found |= {each.name for each in below}
        own = {each.span_id for each in below}
    return found


def test_a_request_is_one_trace_from_click_to_tool(
    own_harness: Callable[..., Harness], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrived, decided, claimed, asked of the model, waited for, run, posted: each in its place.

    A restart in between changes nothing: what stood before it and after it is one trace.
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
    assert inside(spans, "advance") >= {"turn", "model", "tool note"}
    assert "slack chat.postMessage" in inside(spans, "post card")
    assert len({each.span_id for each in spans}) == len(spans)
    [request] = [each for each in spans if each.name == "request"]
    # as docs/watching.md tells how to find it
    assert request.trace_id.hex() == sha256(f"trace {run.id}".encode()).hexdigest()[:32]
    assert not request.parent_span_id
    assert inside(spans, "request") == set(names) - {"request"}
    assert all(each.start_time_unix_nano <= each.end_time_unix_nano for each in spans)
    told = {
        each.name: {one.key: one.value.string_value for one in each.attributes} for each in spans
    }
    assert {each["countersign.run_id"] for each in told.values()} == {run.id}
    assert told["tool note"]["countersign.call_id"] == call.id
    assert told["wait for people"]["countersign.end"] == "call.approved"
    assert collected.services == {"countersign"}
    for unsaid in (words, "please", "All noted", "UANA", "UBEN", SUPPORT):
        assert unsaid.encode() not in collected.raw


def test_a_sub_agent_is_a_trace_that_is_linked(
    own_harness: Callable[..., Harness], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trace of who asked it has a link to the request that its run is."""
    monkeypatch.setitem(os.environ, "OTEL_BSP_SCHEDULE_DELAY", "50")
    with collector() as collected:
        harness = own_harness([*FakeTools().tools, *AGENTS], COUNTERSIGN_TRACES=collected.url)
        thread, card = asked_for(harness, "errand seven")
        approve(harness, card, Turn(text="It is written."), Turn(text="Errand seven is written."))
        harness.said(SUPPORT, thread, "Errand seven is written.")
        harness.settle()
        child = child_of(harness, thread)
        spans = collected.spans(compute_trace_id(first_of(harness, thread).id), "request")
        [own] = [
            e for e in collected.spans(compute_trace_id(child.id), "request") if e.name == "request"
        ]
        harness.app.stop()
    [entrusted] = [each for each in spans if each.name == "entrusted"]
    [link] = entrusted.links
    assert (link.trace_id, link.span_id) == (own.trace_id, own.span_id)


def test_what_goes_wrong_is_marked(
    own_harness: Callable[..., Harness], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tool that failed and a request to the model that failed are errors, by kind, not words."""
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
def test_a_collector_that_is_gone_holds_up_nothing(own_harness: Callable[..., Harness]) -> None:
    """Requests go on, and the bot stops within its grace."""
    harness = own_harness(FakeTools().tools, COUNTERSIGN_TRACES="http://127.0.0.1:9/v1/traces")
    thread = ask(harness, ("note", {"text": "alone"}))
    vote(harness, "ana", harness.card(SUPPORT, thread))
    harness.said(SUPPORT, thread, "That is all.")
