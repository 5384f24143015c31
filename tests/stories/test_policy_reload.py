"""The policy file changes while the bot works: a valid one is loaded, a broken one never."""

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
    """A read that needs approval."""
    return args.text


@pytest.fixture
def harness(own_harness: Callable[..., Harness]) -> Harness:
    """A bot whose default approver is Ana."""
    return own_harness([*FakeTools().tools, ledger], ASKS)


def write_policy(harness: Harness, text: str, looks: int = 2) -> None:
    """Write the policy file, and let the loop look at it this many times."""
    harness.app.loop.wake()  # so that its work at start is over before the file changes
    harness.settle()
    (harness.folder / "policy.toml").write_text(text, "utf-8")
    for _ in range(looks):
        harness.clock.advance(5)
        harness.settle()


def list_reloads(harness: Harness) -> list[str]:
    """Return the digests of the reloaded policies, from the audit."""
    return [
        json.loads(row.data)["digest"]
        for row in harness.all(Audit, Audit.event == "policy.reloaded")
    ]


def propose_call(harness: Harness, name: str = "note") -> CallStatus:
    """Propose a call of this tool, and return its status once the bot is at rest."""
    harness.planner.clear_script()
    thread = ask(harness, (name, {"text": "x"}))
    harness.slack.wait(lambda: harness.calls_in(thread))
    harness.settle()
    [call] = harness.calls_in(thread)
    return call.status


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (f"quorum = {'9' * 5_000}", "a number in it is too long"),
        (f"quorum = {'[' * 5_000}", "it is nested too deeply"),
        ("quorum = 2026-02-30", "Invalid date or datetime"),
    ],
)
def test_a_value_that_cannot_be_read_stops_nothing(
    harness: Harness, caplog: pytest.LogCaptureFixture, wrong: str, why: str
) -> None:
    """The line is named, and the old policy stays in force."""
    write_policy(harness, f"{ALLOWS}\n{wrong}\n")
    assert propose_call(harness) is CallStatus.PENDING
    [line] = [each for each in caplog.text.splitlines() if "this is not TOML" in each]
    assert f"policy.toml:7: this is not TOML: {why}" in line


def test_a_policy_that_denies_an_unknown_tool_is_not_loaded(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    """With such a policy the bot does not start either."""
    misspelt = STRICTER.replace('tool = "note"\nverdict = "deny"', 'tool = "nte"\nverdict = "deny"')
    write_policy(harness, misspelt)
    assert not list_reloads(harness)
    assert "policy.toml:7: rule 'rule 2' tool: it denies nte, which is no tool" in caplog.text
    harness.policy = misspelt
    with pytest.raises(StartupError, match=r"is no tool; correct the name \(did you mean note\?\)"):
        build(harness.settings(), harness.clock, parse(misspelt), harness.tools)


def test_a_valid_policy_is_loaded_without_a_restart(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    """Audit and log give its digest; a change of comments alone is no new policy."""
    caplog.set_level(logging.INFO, "countersign.reload")
    assert propose_call(harness) is CallStatus.PENDING
    write_policy(harness, ALLOWS)
    assert propose_call(harness) is CallStatus.SUCCEEDED
    assert list_reloads(harness) == [parse(ALLOWS).digest]
    assert parse(ALLOWS).digest[:8] in caplog.text
    assert propose_call(harness, "ledger") is CallStatus.PENDING  # not loosened by the new rules
    with harness.app.core.store.read() as tx:
        assert find_first_broken_row(tx) is None
    write_policy(harness, f"# only words\n{ALLOWS}")
    assert len(list_reloads(harness)) == 1


def test_a_broken_policy_file_is_logged_once_and_not_loaded(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    """The log gives its line and the reason; a missing file changes nothing either.

    The next valid file is loaded.
    """
    write_policy(harness, ASKS)
    caplog.clear()
    write_policy(harness, f'{ASKS}deadline = "soon"\n', looks=4)
    assert [
        each.getMessage().count("policy.toml:3: [defaults] deadline") for each in caplog.records
    ] == [1]
    (harness.folder / "policy.toml").unlink()
    harness.clock.advance(5)
    harness.clock.advance(5)
    harness.settle()
    assert propose_call(harness) is CallStatus.PENDING
    assert list_reloads(harness) == []
    write_policy(harness, ALLOWS)
    assert propose_call(harness) is CallStatus.SUCCEEDED


def test_a_half_written_policy_file_is_not_loaded(harness: Harness) -> None:
    """A file seen only once may be half written, with a looser beginning."""
    write_policy(harness, ALLOWS, looks=1)
    assert harness.app.core.policy.policy.rules == ()
    write_policy(harness, STRICTER)
    assert list_reloads(harness) == [parse(STRICTER).digest]
    assert propose_call(harness) is CallStatus.REFUSED


def test_a_policy_changed_during_the_start_is_loaded(harness: Harness) -> None:
    """It changes after the start has read it, and before the loop's first look."""
    harness.app.stop()
    harness.app = build(harness.settings(), harness.clock, parse(ASKS), harness.tools)
    (harness.folder / "policy.toml").write_text(ALLOWS, "utf-8")
    harness.app.start()
    write_policy(harness, ALLOWS)
    assert list_reloads(harness) == [parse(ALLOWS).digest]
