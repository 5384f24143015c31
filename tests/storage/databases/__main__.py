"""Freeze the newest revision: `python -m tests.storage.databases`, once, when it is finished.

It writes the shapes of the schema into `storage/migrations/shapes` and a database into this folder.
A revision that has landed is never frozen again: a change is the next revision.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import sys
import tempfile
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

from storage.migrations import newest
from tests.postgres_server import binaries, serve
from tests.storage.databases.freezing import (
    KEY,
    RECORD,
    SLACK,
    freeze_shapes,
    get_record_path,
    pack,
)
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.steps import press, waiting


def main() -> None:
    """Write the shapes and the database of the newest revision."""
    programs = binaries()
    if programs is None:
        raise SystemExit("PostgreSQL is needed, for its shape is kept as well")
    with tempfile.TemporaryDirectory() as name, serve(programs) as server:
        server.fresh("frozen")
        freeze_shapes(Path(name) / "shape.db", server.url("frozen", "owner"))
        left = Path(name) / "left"
        left.mkdir()
        leave_at_work(Path(name), left)
        pack(left, newest())
    sys.stdout.write(f"{get_record_path(newest())} and the shapes of {newest()} are written\n")


def leave_at_work(folder: Path, left: Path) -> None:
    """Copy the record while there is work, as a crash at that moment would leave it.

    One call waits; one is approved and waits for another of its plan; one runs; one has an
    unknown outcome.
    """
    fakes = FakeTools()
    harness = Harness(folder, fakes.tools, COUNTERSIGN_KEY=KEY)
    try:
        for calls in (
            [("note", {"text": "pending"})],
            [("note", {"text": "approved"}), ("note", {"text": "beside it"})],
        ):
            thread = waiting(harness, *calls)
            card = harness.card(SUPPORT, thread)
        press(harness, "ana", SUPPORT, card, "approve", 0)
        harness.settle()
        thread = waiting(harness, ("lose", {"text": "unknown"}))
        press(harness, "ana", SUPPORT, harness.card(SUPPORT, thread), "approve")
        harness.card(SUPPORT, thread, having="resolve_done")
        harness.settle()
        thread = waiting(harness, ("slow", {"text": "running"}))
        press(harness, "ana", SUPPORT, harness.card(SUPPORT, thread), "approve")
        assert fakes.entered.wait(30)
        harness.slack.wait(lambda: harness.app.outbox.is_idle())
        harness.app.core.store.sync_commits()
        with closing(sqlite3.connect(folder / RECORD[0])) as raw:
            raw.execute("VACUUM INTO ?", (str(left / RECORD[0]),))
        shutil.copyfile(folder / RECORD[1], left / RECORD[1])
        stood = [asdict(each) for each in harness.slack.world.messages[SUPPORT].values()]
        said = {"at": harness.clock.now().isoformat(), "messages": stood}
        (left / SLACK).write_text(json.dumps(said), "utf-8")
    finally:
        fakes.go_on.set()
        harness.close()


if __name__ == "__main__":
    main()
