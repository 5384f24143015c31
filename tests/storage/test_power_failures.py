"""What is on the disk when: no power failure loses what was acknowledged, done or told."""

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
from tests.runs.bolt_app import deliver_click, make_bolt_app
from tests.runs.fakes import ANA, FakeDirectory, StillClock, make_core
from tests.runs.harness import LoopHarness
from tests.storage.builders import TEAM, click, delivery

HOW = {1: "soft", 2: "durable"}  # by the value of PRAGMA synchronous


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Events in order; each wait for the log file's disk is "disk".

    Only files of this test count: a thread of another one may still wait for its own.
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


class CommitWatch(Trace):
    """Notes every commit of a writer, and whether it waits for the disk."""

    def __init__(self, log: list[str]) -> None:
        self.log = log

    def before_commit(self, tx: Transaction) -> None:
        """Note what the database says about the coming commit."""
        if tx.writes:
            self.log.append(HOW[tx.exec_driver_sql("PRAGMA synchronous").scalar() or 0])


def watch_commits(store: Store, log: list[str]) -> None:
    """Note every commit of a writer from now on, and whether it waits for the disk."""
    store.trace = CommitWatch(log)


def store_delivery(store: Store, key: str, *, durable: bool = True) -> None:
    with store.write(durable=durable) as tx:
        inbox.insert_delivery(tx, delivery(key))


def test_only_commits_that_are_not_durable_do_not_wait(store: Store, log: list[str]) -> None:
    """Afterwards their connection waits for the disk again."""
    watch_commits(store, log)
    for number, durable in enumerate([True, False, True, False, False, True]):
        store_delivery(store, str(number), durable=durable)
    assert log == ["durable", "soft", "durable", "soft", "soft", "durable"]


def test_commits_to_a_shared_database_always_wait(tmp_path: Path, log: list[str]) -> None:
    """Another process may tell its readers at any time."""
    shared = Store(f"sqlite:///{tmp_path}/shared.db").open(exclusive=False)
    watch_commits(shared, log)
    store_delivery(shared, "1", durable=False)
    shared.sync_commits()
    shared.close()
    assert log == ["durable"]


def test_sync_commits_waits_once_for_what_is_not_on_the_disk(store: Store, log: list[str]) -> None:
    """It does so even if a durable transaction has changed nothing since."""
    store.sync_commits()
    store_delivery(store, "1")
    store.sync_commits()
    assert log == []
    store_delivery(store, "2", durable=False)
    store_delivery(store, "2")  # already stored: nothing to commit, nothing to wait for
    store.sync_commits()
    store.sync_commits()
    assert log == ["disk"]


def test_sync_commits_waits_for_the_log_of_a_linked_file(tmp_path: Path, log: list[str]) -> None:
    """SQLite writes the log beside the real file."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link.db").symlink_to(tmp_path / "real" / "file.db")
    linked = Store(f"sqlite:///{tmp_path}/link.db").open()
    store_delivery(linked, "1", durable=False)
    linked.sync_commits()
    linked.close()
    assert log == ["disk"]


def test_sync_commits_raises_if_the_disk_fails(
    store: Store, log: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits again the next time."""
    store_delivery(store, "1", durable=False)

    def broken(_: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", broken)
        with pytest.raises(OSError, match="Input/output"):
            store.sync_commits()
    store.sync_commits()
    assert log == ["disk"]


def test_an_acknowledged_click_is_on_the_disk(store: Store, log: list[str]) -> None:
    """It would survive a power failure."""
    app = make_bolt_app(make_core(store, StillClock(), FakeDirectory(), []))
    watch_commits(store, log)
    assert deliver_click(app, "1") == 200
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


def test_which_commits_of_a_request_wait_for_the_disk(harness: LoopHarness, log: list[str]) -> None:
    """Arrival, decision, intent and result do.

    A claim or a model's turn does not before the outbox tells of it: lost, it would be done
    again.
    """
    watch_commits(harness.store, log)
    harness.effects = Effects(log)
    harness.model.script = [[("note", "a")]]
    harness.say("please")
    harness.loop.tick()
    assert set(log) == {"durable"}
    log.clear()
    harness.work()
    # claim, intake of the message, proposal with suspension
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


class ToldSlack(WebClient):
    """Notes when Slack is told something."""

    def __init__(self, log: list[str]) -> None:
        super().__init__("xoxb-1")
        self.log, self.told = log, threading.Event()

    def get_last_post_sequence_number(self, channel: str, thread_ts: str) -> int:
        """The bot has posted nowhere yet."""
        return 0

    def api_call(self, api_method: str, **_: Any) -> SlackResponse:
        """Answer that it worked."""
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
def test_slack_is_told_only_what_is_on_the_disk(store: Store, log: list[str], method: str) -> None:
    """Commits that a message speaks of reach the disk before it is sent."""
    core = make_core(store, StillClock(), FakeDirectory(), [])
    slack = ToldSlack(log)
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
