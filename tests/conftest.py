"""Settings and fixtures of all tests: a fresh database, the number of random examples.

`make test` tries few, others each time; `make test-variants` tries many.
"""

from __future__ import annotations

import gc
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from storage.store import Store
from tests.records import store_of

gc.disable()  # during the imports, which leave no garbage
settings.register_profile("few", max_examples=15, deadline=None)  # no limit for slow machines
settings.register_profile("many", max_examples=400, deadline=None)
settings.load_profile("few")
# a shell that runs the tests in the background has them, and what they start, ignore Ctrl-C
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Exempt everything loaded so far from garbage collection, and collect less often."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    gc.enable()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A fresh record, opened as the product opens it."""
    opened = store_of(tmp_path / "countersign.db").open()
    yield opened
    opened.close()
