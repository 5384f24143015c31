"""The policy file changes meanwhile: a good one counts from then on, a bad one never."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable

import pytest

from bot.app import build
from bot.config.startup import StartupError
from bot.policy.evaluation import parse
from bot.tools import Effect, ToolContext, tool
from storage.models import Audit
from storage.states import CallStatus
from tests.record_checks import find_first_broken_row
from tests.stories.fakes import FakeTools, Note
from tests.stories.harness import Harness
from tests.stories.steps import ask

ASKS = '[defaults]\napprovers = ["UANA00001"]\n'
ALLOWS = f'{ASKS}[[rule]]\ntool = "note"\nverdict = "allow"\n'
STRICTER = f'{ALLOWS}[[rule]]\ntool = "note"\nverdict = "deny"\nreason = "Closed."\n'


@tool(
    title="Look into the books", effect="Look for “{text}”", does=Effect.READ, needs_approval=True
)
def ledger(args: Note, _context: ToolContext) -> str:
    """Reads more than is allowed unasked."""
    return args.text


@pytest.fixture
def harness(own_harness: Callable[..., Harness]) -> Harness:
    """A bot that asks Ana about every change."""
    return own_harness([*FakeTools().tools, ledger], ASKS)


def change(harness: Harness, text: str, looks: int = 2) -> None:
    """Write the file, and let the loop look so many times."""
    harness.app.loop.wake()  # what it does at its start is done by then
    harness.settle()
    (harness.folder / "policy.toml").write_text(text, "utf-8")
    for _ in range(looks):
        harness.clock.advance(5)
        harness.settle()


def reloaded(harness: Harness) -> list[str]:
    """The digests of the policies that were taken, as the audit has them."""
    return [
        json.loads(row.data)["digest"]
        for row in harness.all(Audit, Audit.event == "policy.reloaded")
    ]


def outcome(harness: Harness, name: str = "note") -> CallStatus:
    """Where a new call of that tool stands once the bot is at rest."""
    harness.planner.clear_script()
    thread = ask(harness, (name, {"text": "x"}))
    harness.slack.wait(lambda: harness.calls_in(thread))
    harness.settle()
    [call] = harness.calls_in(thread)
    return call.status


def test_a_denied_tool_that_is_not_there(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    """A policy that denies what is not there stops a start; a bot that works does not take it."""
    misspelt = STRICTER.replace('tool = "note"\nverdict = "deny"', 'tool = "nte"\nverdict = "deny"')
    change(harness, misspelt)
    assert not reloaded(harness)
    assert "policy.toml:7: rule 'rule 2' tool: it denies nte, which is no tool" in caplog.text
    harness.policy = misspelt
    with pytest.raises(StartupError, match=r"is no tool; correct the name \(is note meant\?\)"):
        build(harness.settings(), harness.clock, parse(misspelt), harness.tools)


def test_a_good_file_counts_without_a_restart(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    """The next call is judged by the new file; audit and log say which policy it is, by digest."""
    caplog.set_level(logging.INFO, "countersign.reload")
    assert outcome(harness) is CallStatus.PENDING
    change(harness, ALLOWS)
    assert outcome(harness) is CallStatus.SUCCEEDED
    assert reloaded(harness) == [parse(ALLOWS).digest]
    assert parse(ALLOWS).digest[:8] in caplog.text
    assert outcome(harness, "ledger") is CallStatus.PENDING  # a read that asks still does
    with harness.app.core.store.read() as tx:
        assert find_first_broken_row(tx) is None
    change(harness, f"# only words\n{ALLOWS}")
    assert len(reloaded(harness)) == 1


def test_a_bad_file_is_refused_once(harness: Harness, caplog: pytest.LogCaptureFixture) -> None:
    """A file that cannot be used changes nothing, and is named once with line and reason.

    The next good one counts.
    """
    change(harness, ASKS)
    caplog.clear()
    change(harness, f'{ASKS}deadline = "soon"\n', looks=4)
    assert [
        each.getMessage().count("policy.toml:3: [defaults] deadline") for each in caplog.records
    ] == [1]
    (harness.folder / "policy.toml").unlink()
    harness.clock.advance(5)
    harness.clock.advance(5)
    harness.settle()
    assert outcome(harness) is CallStatus.PENDING
    assert reloaded(harness) == []
    change(harness, ALLOWS)
    assert outcome(harness) is CallStatus.SUCCEEDED


def test_half_a_file_is_never_in_force(harness: Harness) -> None:
    """A file seen once may be half written.

    Its looser beginning does not count before the rest is there.
    """
    change(harness, ALLOWS, looks=1)
    assert harness.app.core.policy.policy.rules == ()
    change(harness, STRICTER)
    assert reloaded(harness) == [parse(STRICTER).digest]
    assert outcome(harness) is CallStatus.REFUSED


def test_what_changed_while_it_started(harness: Harness) -> None:
    """A file that changes after the start has read it, and before the first look, is not missed."""
    harness.app.stop()
    harness.app = build(harness.settings(), harness.clock, parse(ASKS), harness.tools)
    (harness.folder / "policy.toml").write_text(ALLOWS, "utf-8")
    harness.app.start()
    change(harness, ALLOWS)
    assert reloaded(harness) == [parse(ALLOWS).digest]
