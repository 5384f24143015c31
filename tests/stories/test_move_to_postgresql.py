"""A record is copied to PostgreSQL; waiting calls are decided with their old buttons."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.postgres_server import binaries, serve
from tests.records import ON_A_SERVER
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.steps import arrived, ask, press, waiting
from tests.stories.test_restored_backup import POLICY, C, command

PROGRAMS = binaries()
pytestmark = pytest.mark.skipif(PROGRAMS is None or ON_A_SERVER, reason="it begins in a file")


@pytest.fixture
def url() -> Iterator[str]:
    """The address of an empty database on a server of the story's own."""
    assert PROGRAMS is not None
    with serve(PROGRAMS) as server:
        server.fresh("moved")
        yield server.url("moved", "owner")


def test_waiting_calls_are_decided_after_a_copy_to_postgresql(
    own_harness: Callable[..., Harness], monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    """One call waits and one has run when the bot stops, is copied, and starts on PostgreSQL.

    The old button counts, nothing runs twice, and new requests work as before.
    """
    fakes = FakeTools()
    harness = own_harness(fakes.tools, POLICY)
    done = ask(harness, ("note", {"text": "done before"}))
    press(harness, "ana", SUPPORT, harness.card(SUPPORT, done), "approve")
    harness.said(SUPPORT, done, "That is all.")
    thread = ask(harness, ("note", {"text": "waits"}))
    card = harness.card(SUPPORT, thread)
    arrived(harness)

    harness.app.stop()
    key = (harness.folder / "countersign.db.key").read_text()
    command(harness, monkeypatch, "copy-to", url)
    harness.extra |= {"DATABASE_URL": url, "COUNTERSIGN_KEY": key}
    harness.start()
    assert harness.app.core.store.is_multi_process
    press(harness, "ana", SUPPORT, card, "approve")
    harness.said(SUPPORT, thread, "That is all.")
    [call] = harness.calls_in(thread)
    assert (call.status, call.revision) == (C.SUCCEEDED, 1)
    assert (fakes.did("note", "waits"), fakes.did("note", "done before")) == (1, 1)
    later = waiting(harness, ("note", {"text": "asked there"}))
    press(harness, "cleo", SUPPORT, harness.card(SUPPORT, later), "approve")
    arrived(harness)
    assert fakes.did("note", "asked there") == 1
