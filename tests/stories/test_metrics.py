"""The metrics page that Prometheus reads, while a request is worked on."""

from __future__ import annotations

from collections.abc import Callable
from urllib.request import urlopen

import pytest

pytest.importorskip("prometheus_client")
pytest.importorskip("starlette")

from prometheus_client.parser import text_string_to_metric_families

from tests.missing import missing
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.steps import ask, vote

PAGE = {"COUNTERSIGN_HTTP": "127.0.0.1:0"}


def fetch_page(harness: Harness) -> str:
    """Return the text of the metrics page."""
    web = harness.app.endpoints.web
    assert web is not None
    with urlopen(f"{web.url}/metrics", timeout=10) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        text: str = answer.read().decode()
    return text


def read_series(harness: Harness) -> dict[tuple[str, str], float]:
    """Return the value of each series by its name and the values of its labels."""
    return {
        (each.name, " ".join(sorted(each.labels.values()))): each.value
        for family in text_string_to_metric_families(fetch_page(harness))
        for each in family.samples
    }


def test_the_metrics_count_each_step_of_a_request(own_harness: Callable[..., Harness]) -> None:
    """Waiting calls, refused votes, decisions, tool runs, messages and look-ups, without any id."""
    harness = own_harness(FakeTools().tools, **PAGE)
    thread = ask(harness, ("note", {"text": "counted"}))
    card = harness.card(SUPPORT, thread)
    vote(harness, "ben", card)
    before = read_series(harness)
    assert before["countersign_pending_calls", ""] == 1
    assert before["countersign_open_runs", "waiting"] == 1
    assert before["countersign_oldest_pending_call_seconds", ""] > 0
    vote(harness, "ana", card)
    harness.said(SUPPORT, thread, "That is all.")
    harness.settle()
    after = read_series(harness)
    assert after["countersign_pending_calls", ""] == 0
    assert after["countersign_open_runs", "waiting"] == 0
    refused = sum(
        value for (name, _), value in after.items() if name == "countersign_refusals_total"
    )
    assert refused == 1
    for series, value in {
        ("countersign_decisions_total", "approve"): 1,
        ("countersign_decision_seconds_count", "approved"): 1,
        ("countersign_calls_total", "approved"): 1,
        ("countersign_calls_total", "succeeded"): 1,
        ("countersign_runs_total", "completed"): 1,
        ("countersign_tool_runs_total", "done note"): 1,
        ("countersign_turn_seconds_count", ""): 2,
        ("countersign_database_up", ""): 1,
        ("countersign_outbox_messages", ""): 0,
        ("countersign_inbox_deliveries", ""): 0,
    }.items():
        assert after[series] == value, series
    for name, label in (
        ("countersign_model_tokens_total", "in"),
        ("countersign_model_tokens_total", "out"),
        ("countersign_acknowledgement_seconds_count", ""),
        ("countersign_tick_seconds_count", ""),
        ("countersign_slack_request_seconds_count", "chat.postMessage"),
        ("countersign_lookup_seconds_count", "person"),
    ):
        assert after[name, label] > 0, (name, label)
    text = fetch_page(harness)
    for private in ("UANA", "UBEN", SUPPORT, "counted", harness.run_in(thread).id):
        assert private not in text


def test_without_its_package_the_page_answers_501(
    own_harness: Callable[..., Harness], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests are still worked on without `prometheus_client`."""
    missing(monkeypatch, "prometheus_client", "bot.monitoring.metrics")
    harness = own_harness(FakeTools().tools, **PAGE)
    with pytest.raises(OSError, match="501"):
        fetch_page(harness)
    thread = ask(harness, ("peek", {"text": "uncounted"}))
    harness.said(SUPPORT, thread, "That is all.")
