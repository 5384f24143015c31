"""The policy file changes while the bot is at work: a good one counts from then on, a bad one never
does.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable

import pytest

from bot.app import build
from bot.policy.evaluate import parse
from bot.tools import Effect, ToolContext, tool
from storage.audit import verify
from storage.models import Audit
from storage.states import CallStatus
from tests.stories.kit import Kit, Note
from tests.stories.world import World, ask

ASKS = '[defaults]\napprovers = ["UANA00001"]\n'
ALLOWS = f'{ASKS}[[rule]]\ntool = "note"\nverdict = "allow"\n'
STRICTER = f'{ALLOWS}[[rule]]\ntool = "note"\nverdict = "deny"\nreason = "Closed."\n'


@tool(title="Look into the books", effect="Look for “{text}”", does=Effect.READ, asks=True)
def ledger(args: Note, _context: ToolContext) -> str:
    """Reads more than is allowed unasked."""
    return args.text


@pytest.fixture
def world(own_world: Callable[..., World]) -> World:
    """A world that asks Ana about every change."""
    return own_world([*Kit().tools, ledger], ASKS)


def change(world: World, text: str, looks: int = 2) -> None:
    """Write the file, and let the loop look so many times."""
    (world.folder / "policy.toml").write_text(text, "utf-8")
    for _ in range(looks):
        world.clock.advance(5)
        world.settle()


def reloaded(world: World) -> list[str]:
    """The digests of the policies that were taken, as the audit has them."""
    return [
        json.loads(row.data)["digest"] for row in world.all(Audit, Audit.event == "policy.reloaded")
    ]


def outcome(world: World, name: str = "note") -> CallStatus:
    """Where a new call of that tool stands once the bot is at rest."""
    world.planner.clear()
    thread = ask(world, (name, {"text": "x"}))
    world.slack.wait(lambda: world.calls_in(thread))
    world.settle()
    [call] = world.calls_in(thread)
    return call.status


def test_a_good_file_counts_without_a_restart(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """The next call is judged by the new file; audit and log say which policy it is, by digest."""
    caplog.set_level(logging.INFO, "countersign.reload")
    assert outcome(world) is CallStatus.PENDING
    change(world, ALLOWS)
    assert outcome(world) is CallStatus.SUCCEEDED
    assert reloaded(world) == [parse(ALLOWS).digest]
    assert parse(ALLOWS).digest[:8] in caplog.text
    assert outcome(world, "ledger") is CallStatus.PENDING  # a read that asks still does
    with world.app.core.store.read() as tx:
        assert verify(tx) is None
    change(world, f"# only words\n{ALLOWS}")
    assert len(reloaded(world)) == 1


def test_a_bad_file_is_refused_once(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """A file that cannot be used changes nothing, is named with line and reason once, and the next
    good one counts.
    """
    change(world, ASKS)
    caplog.clear()
    change(world, f'{ASKS}deadline = "soon"\n', looks=4)
    assert [
        each.getMessage().count("policy.toml:3: [defaults] deadline") for each in caplog.records
    ] == [1]
    (world.folder / "policy.toml").unlink()
    world.clock.advance(5)
    world.clock.advance(5)
    world.settle()
    assert outcome(world) is CallStatus.PENDING
    assert reloaded(world) == []
    change(world, ALLOWS)
    assert outcome(world) is CallStatus.SUCCEEDED


def test_half_a_file_is_never_in_force(world: World) -> None:
    """A file seen once may be half written: its looser beginning does not count before the rest is
    there.
    """
    change(world, ALLOWS, looks=1)
    assert world.app.core.policy.rules == ()
    change(world, STRICTER)
    assert reloaded(world) == [parse(STRICTER).digest]
    assert outcome(world) is CallStatus.REFUSED


def test_what_changed_while_it_started(world: World) -> None:
    """A file that changes after the start has read it, and before the first look, is not missed."""
    world.app.stop()
    world.app = build(world.settings(), world.clock, parse(ASKS), world.tools)
    (world.folder / "policy.toml").write_text(ALLOWS, "utf-8")
    world.app.start()
    change(world, ALLOWS)
    assert reloaded(world) == [parse(ALLOWS).digest]
