"""What is on the disk when: no power failure takes what was acknowledged, done or told."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from slack_sdk import WebClient
from slack_sdk.web import SlackResponse
from sqlalchemy import insert

from bot.slack.channel_queues import Outbox
from bot.slack.posting import MessageRenderer, OutboxSlackCalls, UnconfirmedPostSearch
from storage import inbox
from storage.columns import get_column_values
from storage.models import Message
from storage.store import Store
from storage.transaction import Trace, Transaction
from tests.runs.bolt_app import bolt, press
from tests.runs.fakes import ANA, FakeDirectory, StillClock, make_core
from tests.runs.harness import LoopHarness
from tests.storage.builders import TEAM, click, delivery

HOW = {1: "soft", 2: "durable"}  # what PRAGMA synchronous says


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """What happens, in order; each wait for the log file's disk is noted as "disk".

    Only for files of this test: a thread that another one left may still wait for its own.
    """
    found: list[str] = []
    fsync = os.fsync

    def watched(file: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{file}"))
        if path.name.endswith("-wal") and path.is_relative_to(tmp_path):
            found.append("disk")
        fsync(file)

    monkeypatch.setattr(os, "fsync", watched)
    return found


class Watch(Trace):
    """Notes every commit of a writer, and how it waits for the disk."""

    def __init__(self, log: list[str]) -> None:
        self.log = log

    def before_commit(self, tx: Transaction) -> None:
        """What the database itself says of the commit to come."""
        if tx.writes:
            self.log.append(HOW[tx.exec_driver_sql("PRAGMA synchronous").scalar() or 0])


def watch(store: Store, log: list[str]) -> None:
    """Note every commit of a writer from now on, and how it waits for the disk."""
    store.trace = Watch(log)


def keep(store: Store, key: str, *, durable: bool = True) -> None:
    with store.write(durable=durable) as tx:
        inbox.insert_delivery(tx, delivery(key))


def test_only_who_says_so_does_not_wait(store: Store, log: list[str]) -> None:
    """A connection that has committed without waiting for the disk waits for it the next time."""
    watch(store, log)
    for number, durable in enumerate([True, False, True, False, False, True]):
        keep(store, str(number), durable=durable)
    assert log == ["durable", "soft", "durable", "soft", "soft", "durable"]


def test_a_shared_database_is_always_waited_for(tmp_path: Path, log: list[str]) -> None:
    """What another process tells its readers is not known, so all is on the disk first."""
    shared = Store(f"sqlite:///{tmp_path}/shared.db").open(exclusive=False)
    watch(shared, log)
    keep(shared, "1", durable=False)
    shared.sync_commits()
    shared.close()
    assert log == ["durable"]


def test_harden_waits_once_for_what_is_not_there_yet(store: Store, log: list[str]) -> None:
    """A commit that did not wait is on the disk after `sync_commits`.

    It is also when a durable one changed nothing since.
    """
    store.sync_commits()
    keep(store, "1")
    store.sync_commits()
    assert log == []
    keep(store, "2", durable=False)
    keep(store, "2")  # it is there already: nothing to commit, nothing to wait for
    store.sync_commits()
    store.sync_commits()
    assert log == ["disk"]


def test_a_database_behind_a_link(tmp_path: Path, log: list[str]) -> None:
    """The log that is waited for is the one that SQLite writes, wherever the file really is."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link.db").symlink_to(tmp_path / "real" / "file.db")
    linked = Store(f"sqlite:///{tmp_path}/link.db").open()
    keep(linked, "1", durable=False)
    linked.sync_commits()
    linked.close()
    assert log == ["disk"]


def test_a_disk_that_fails_is_asked_again(
    store: Store, log: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the disk does not answer, nothing passes for hardened."""
    keep(store, "1", durable=False)

    def broken(_: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", broken)
        with pytest.raises(OSError, match="Input/output"):
            store.sync_commits()
    store.sync_commits()
    assert log == ["disk"]


def test_an_acknowledged_click_is_on_the_disk(store: Store, log: list[str]) -> None:
    """Slack is told that a click has arrived once it would survive a power failure."""
    app = bolt(make_core(store, StillClock(), FakeDirectory(), []))
    watch(store, log)
    assert press(app, "1") == 200
    assert log == ["durable"]


class Effects(Counter[str]):
    """Notes when a tool has its effect."""

    def __init__(self, log: list[str]) -> None:
        super().__init__()
        self.log = log

    def __setitem__(self, call_id: str, times: int) -> None:
        super().__setitem__(call_id, times)
        self.log.append("effect")


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[LoopHarness]:
    """The product without its edges."""
    made = LoopHarness(tmp_path / "countersign.db")
    yield made
    made.stop()


def test_what_a_whole_story_waits_for(harness: LoopHarness, log: list[str]) -> None:
    """Arrival and decision, the intent before the effect and its result are on the disk at once.

    A claim and a model's turn are not, until the outbox tells of them: lost, they would be taken
    again.
    """
    watch(harness.store, log)
    harness.effects = Effects(log)
    harness.model.script = [[("note", "a")]]
    harness.say("please")
    harness.loop.tick()
    assert set(log) == {"durable"}
    log.clear()
    harness.work()
    # claimed, what was said taken in, proposed and suspended
    assert log == ["soft", "durable", "soft"]
    log.clear()
    [call] = harness.all()[1]
    harness.arrive(lambda key: click(key, "approve", f"{call.id}:1", ANA))
    harness.loop.tick()
    assert log == ["durable", "durable"]
    log.clear()
    harness.work()
    assert log == ["soft", "durable", "effect", "durable", "durable", "soft"]
    assert dict(harness.effects) == {call.id: 1}


class Slack(WebClient):
    """Notes when Slack is told something."""

    def __init__(self, log: list[str]) -> None:
        super().__init__("xoxb-1")
        self.log, self.told = log, threading.Event()

    def get_last_post_sequence_number(self, channel: str, thread_ts: str) -> int:
        """The bot has posted nowhere yet."""
        return 0

    def api_call(self, api_method: str, **_: Any) -> SlackResponse:
        """It worked."""
        self.log.append(api_method)
        self.told.set()
        answer: Any = {"ok": True, "ts": "9.9", "channel": {"id": "D1"}}
        return answer  # type: ignore[no-any-return]  # used like a mapping only


ROWS = {
    "chat.update": Message(
        key="k", kind="notice", channel="C1", body='{"text": "x"}', ts="1.0", status="stale"
    ),
    "chat.postMessage": Message(key="k", kind="notice", channel="C1", body='{"text": "x"}'),
    "chat.postEphemeral": Message(
        key="k", kind="private", channel="C1", body='{"text": "x"}', recipient=ANA
    ),
    "chat.stopStream": Message(
        key="k",
        kind="answer",
        channel="C1",
        body='{"text": "x", "streamed": true}',
        ts="1.0",
        status="closing",
    ),
}


@pytest.mark.parametrize("method", ROWS)
def test_slack_is_told_what_is_on_the_disk(store: Store, log: list[str], method: str) -> None:
    """Whatever the outbox says, the commits it speaks of have reached the disk before."""
    core = make_core(store, StillClock(), FakeDirectory(), [])
    slack = Slack(log)
    client: Any = slack
    renderer = MessageRenderer(store, core.clock, core.tools, core.directory)
    search = UnconfirmedPostSearch(store, core.clock, core.identity.user, client)
    posting = OutboxSlackCalls(store, client, TEAM)
    out = Outbox(store, core.clock, core.signals, renderer, posting, search)
    with store.write(durable=False) as tx:
        tx.execute(insert(Message), get_column_values(ROWS[method]))
    thread = threading.Thread(target=out.run)
    thread.start()
    told = slack.told.wait(10)
    out.stop()
    thread.join(30)
    assert told
    assert log[:2] == ["disk", method]
