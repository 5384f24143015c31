"""A database in a file for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from storage.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A fresh database, opened as the product opens it."""
    opened = Store(f"sqlite:///{tmp_path}/countersign.db").open()
    yield opened
    opened.close()
