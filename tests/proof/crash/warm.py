"""Makes one request in the process from which all lives are forked, so that statements and models

are compiled there once and not in each life.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from tests.records import ON_A_SERVER
from tests.runs.harness import approved


def make_request() -> None:
    """One request, approved and executed, on a file of its own; no thread is left."""
    with TemporaryDirectory() as folder:
        harness = approved(Path(folder) / "db")
        harness.work()
        harness.loop.tick()
        harness.stop()


if not ON_A_SERVER:  # servers belong to the process that tells the stories
    make_request()
