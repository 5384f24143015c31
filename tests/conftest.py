"""For all tests: a fresh database, and how many random examples are tried.

Few in `make test`, which draws others each time; many in `make test-variants`.
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

gc.disable()  # while everything is imported, of which nothing is garbage
settings.register_profile("few", max_examples=15, deadline=None)  # none fails by a slow machine
settings.register_profile("many", max_examples=400, deadline=None)
settings.load_profile("few")
# a shell that runs the tests in the background has them, and what they start, ignore Ctrl-C
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """What is there by now stays: the garbage collector need not walk it again and again.

    What the tests make it looks at less often than it would by itself.
    """
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    gc.enable()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A fresh record, opened as the product opens it."""
    opened = store_of(tmp_path / "countersign.db").open()
    yield opened
    opened.close()
