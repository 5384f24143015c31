"""For all tests: a fresh database, and fewer random examples than Hypothesis would try."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from storage.store import Store

settings.register_profile(
    "suite", max_examples=50, deadline=None
)  # no test fails by a slow machine
settings.load_profile("suite")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A fresh database in a file, opened as the product opens it."""
    opened = Store(f"sqlite:///{tmp_path}/countersign.db").open()
    yield opened
    opened.close()
