"""A library that is not installed, for the tests of what then happens."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest


class _Missing(MetaPathFinder):
    """Finds nothing, and lets nobody else find this package either."""

    def __init__(self, package: str) -> None:
        self.package = package

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Raise what Python raises where a package is not installed."""
        if fullname.partition(".")[0] == self.package:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
        return None


def missing(monkeypatch: pytest.MonkeyPatch, package: str, *needing: str) -> None:
    """Have the package missing for a test, also where it, or a module needing it, was imported."""
    for name in list(sys.modules):
        if name.partition(".")[0] == package or name in needing:
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [_Missing(package), *sys.meta_path])
