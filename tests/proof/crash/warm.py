"""Imported once, in the process from which all lives are forked: it makes a request there, so that
what is worked out at first use (statements, models of arguments) is not worked out in each life.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from tests.records import ON_A_SERVER
from tests.runs.harness import approved


def request() -> None:
    """One request, approved and executed, on a file of its own; no thread is left."""
    with TemporaryDirectory() as folder:
        harness = approved(Path(folder) / "db")
        harness.work()
        harness.loop.tick()
        harness.stop()


if not ON_A_SERVER:  # whose servers are those of the process that tells the stories
    request()
