"""The operator's log: who asked, who decided what, and what came of it."""

from __future__ import annotations

import logging

import pytest

from storage.models import Audit
from tests.pages import ROOT
from tests.stories.harness import SUPPORT, Harness
from tests.stories.steps import ask, reject

SECRETIVE = "for the customer only"


def list_log_lines(caplog: pytest.LogCaptureFixture, run_id: str) -> list[str]:
    """The log's lines about a run, without the numbers and ids that each begins with."""
    told = [each.getMessage() for each in caplog.records if each.name == "countersign.audit"]
    return [line.split(": ", 1)[1] for line in told if f" run {run_id}" in line]


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """The log at its default level."""
    caplog.set_level(logging.INFO)
    return caplog


def test_the_log_follows_an_approved_call(harness: Harness, log: pytest.LogCaptureFixture) -> None:
    """It has requester, place, approver and outcome, but no arguments. Each line is a row of the
    audit with its number; the documentation shows these lines.
    """
    thread = ask(harness, ("note", {"text": SECRETIVE}))
    card = harness.card(SUPPORT, thread)
    harness.settle()  # until the audit says that the card was shown
    harness.person("cleo").click(SUPPORT, card["ts"], "approve")
    harness.said(SUPPORT, thread, "That is all.")
    harness.settle()
    [call] = harness.calls_in(thread)
    assert list_log_lines(log, call.run_id) == [
        f"run.born by UBEN00001 (channel {SUPPORT}, thread_ts {thread})",
        "run.running by worker",
        "call.born.pending by agent (tool note, revision 1)",
        "run.waiting by worker",
        f'card.shown by system (channel {SUPPORT}, calls {{"{call.id}": 1}})',
        'call.approved by UCLEO0001 (tool note, revision 1, counts_as "member of @shop-leads")',
        "run.ready by UCLEO0001",
        "run.running by worker",
        "call.running by worker (tool note, revision 1)",
        "call.succeeded by worker (tool note, revision 1)",
        "run.completed by worker",
    ]
    rows = {
        f"#{row.seq} run {row.run_id}" for row in harness.all(Audit) if row.run_id == call.run_id
    }
    assert {" ".join(each.split()[:3]).rstrip(":") for each in log.messages} >= rows
    assert f"call {call.id}: call.approved by UCLEO0001" in log.text
    page = (ROOT / "docs" / "operating.md").read_text("utf-8")
    shown = [each for each in list_log_lines(log, call.run_id) if "channel" not in each]
    assert [each for each in shown if f": {each}\n" not in page] == []
    assert SECRETIVE not in log.text


def test_the_log_follows_a_rejected_call(harness: Harness, log: pytest.LogCaptureFixture) -> None:
    """It has refused attempts, the rejection and the end of the request, but not the approver's
    words.
    """
    thread = ask(harness, ("note", {"text": SECRETIVE}))
    card = harness.card(SUPPORT, thread)
    harness.settle()
    harness.person("ben").click(SUPPORT, card["ts"], "approve")
    reject(harness, "cleo", SUPPORT, card, "it is Ana's, of Rose Street")
    harness.said(SUPPORT, thread, "That is all.")
    harness.settle()
    [call] = harness.calls_in(thread)
    assert list_log_lines(log, call.run_id)[5:] == [
        "decision.refused by UBEN00001 (tool note, revision 1, verb approve, why not_approver)",
        'call.rejected by UCLEO0001 (tool note, revision 1, counts_as "member of @shop-leads")',
        "run.ready by UCLEO0001",
        "run.running by worker",
        "run.completed by worker",
    ]
    assert "Rose Street" not in log.text
    assert SECRETIVE not in log.text
