"""The record is an older one on a server: calls that were open in it are asked again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy.exc import DBAPIError

from tests.postgres_server import Server, binaries, serve
from tests.records import KEY, ON_A_SERVER
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.steps import ask, press
from tests.stories.test_restored_backup import POLICY, check_asked_again

PROGRAMS = binaries()
pytestmark = pytest.mark.skipif(PROGRAMS is None or ON_A_SERVER, reason="it has its own server")


@pytest.fixture
def server() -> Iterator[Server]:
    """A server with an empty database `record`."""
    assert PROGRAMS is not None
    with serve(PROGRAMS) as running:
        running.fresh("record")
        yield running


def ask_once(
    server: Server, fakes: FakeTools, own_harness: Callable[..., Harness]
) -> tuple[Harness, str, dict[str, Any]]:
    """A bot whose record is on the server, with a call that waits: its thread, and its card."""
    url = server.url("record", "owner")
    harness = own_harness(fakes.tools, POLICY, DATABASE_URL=url, COUNTERSIGN_KEY=KEY)
    thread = ask(harness, ("note", {"text": "pay it once"}))
    card = harness.card(SUPPORT, thread)
    harness.settle()
    return harness, thread, card


def test_a_call_that_ran_after_the_dump_is_asked_again(
    server: Server, own_harness: Callable[..., Harness]
) -> None:
    """Its old button does nothing. A restart on the same server asks nothing again."""
    fakes = FakeTools()
    harness, thread, card = ask_once(server, fakes, own_harness)
    harness.restart()
    dump = server.dump("record")
    press(harness, "ana", SUPPORT, card, "approve")
    harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("note", "pay it once") == 1

    harness.app.stop()
    server.put_back("record", dump)
    harness.start()
    check_asked_again(harness, fakes, thread, card)
    harness.app.stop()


def test_a_call_whose_result_a_takeover_lost_is_asked_again(
    server: Server, own_harness: Callable[..., Harness]
) -> None:
    """The bot runs while a standby takes over that lacks the approval: it ends, and is started."""
    fakes = FakeTools()
    harness, thread, card = ask_once(server, fakes, own_harness)
    server.copy_as_standby("standby")
    press(harness, "ana", SUPPORT, card, "approve")
    harness.said(SUPPORT, thread, "That is all.")
    server.take_over("standby")

    with pytest.raises(DBAPIError, match="took over"):
        harness.app.wait()
    harness.restart()
    check_asked_again(harness, fakes, thread, card)
    harness.app.stop()
