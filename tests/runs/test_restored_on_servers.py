"""A backup restored on a server is settled by one of the processes that start on it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from threading import Thread

import pytest
from sqlalchemy import select

from storage import backups, record_copies
from storage.models import Audit, Call
from storage.states import CallStatus
from storage.store import Store
from storage.transaction import fetch_rows
from tests.postgres_server import binaries, serve
from tests.records import ON_A_SERVER
from tests.runs.fakes import FakeDirectory, make_core, make_tools
from tests.runs.harness import LoopHarness

PROGRAMS = binaries()
pytestmark = pytest.mark.skipif(PROGRAMS is None or ON_A_SERVER, reason="it begins in a file")


@pytest.mark.parametrize("is_dumped", [False, True])
def test_one_of_several_replicas_settles_a_restored_backup(tmp_path: Path, is_dumped: bool) -> None:
    """All of them have seen that it is restored before; people are asked once.

    Also of what the server's own tools have dumped and put back.
    """
    harness = LoopHarness(tmp_path / "countersign.db")
    harness.model.script = [[("note", "once")]]
    harness.say("please")
    harness.loop.tick()
    harness.work()
    key = harness.store.signing_key
    copy = tmp_path / "copy.db"
    backups.make_backup(harness.store, copy, key, at=harness.clock.now(), version="0")
    harness.stop()
    assert PROGRAMS is not None
    with serve(PROGRAMS) as server:
        server.fresh("shared")
        url = server.url("shared", "owner")
        with (
            closing(Store(f"sqlite:///{copy}", key=key)) as source,
            closing(Store(url, key=key).open()) as target,
        ):
            backups.replace_database_contents(source, target, [], harness.clock.now())
            if is_dumped:  # by then nothing else says that it is a copy
                with target.write() as tx:
                    record_copies.delete_copy_note(tx)
        if is_dumped:
            server.put_back("shared", server.dump("shared"))
        stores = [Store(url, key=key).open() for _ in range(2)]
        assert all(each.mismatch_reason for each in stores)
        tools = make_tools(harness._act)
        parts = [make_core(each, harness.clock, FakeDirectory(), tools) for each in stores]
        threads = [
            Thread(target=core.build_restored_record_settler().settle_work_if_restored)
            for core in parts
        ]
        for each in threads:
            each.start()
        for each in threads:
            each.join(30)
        with stores[0].read() as tx:
            [call] = fetch_rows(tx, Call, select(Call))
            events = [row.event for row in fetch_rows(tx, Audit, select(Audit))]
        assert [each.mismatch_reason for each in stores] == ["", ""]
        for each in stores:
            each.close()
    assert (call.status, call.revision) == (CallStatus.PENDING, 2)
    assert events.count("record.restored") == 1
