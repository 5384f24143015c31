"""A database as its first start leaves it, made once in a process: its migrations take long."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from storage.store import Store


@cache
def _folder() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="countersign-tests-")


@cache
def _migrated() -> Path:
    path = Path(_folder().name) / "new.db"
    Store(f"sqlite:///{path}").open().close()
    return path


def new_database(path: Path) -> None:
    """Put one at `path`, as empty as there is; a key and all else are made when it is opened."""
    shutil.copyfile(_migrated(), path)
