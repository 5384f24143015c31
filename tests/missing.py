"""Makes a package look as if it were not installed."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest


class _Missing(MetaPathFinder):
    """Refuses to find one package, as if it were not installed."""

    def __init__(self, package: str) -> None:
        self.package = package

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Raise what Python raises for a package that is not installed."""
        if fullname.partition(".")[0] == self.package:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
        return None


def missing(monkeypatch: pytest.MonkeyPatch, package: str, *needing: str) -> None:
    """Make a package look uninstalled, and forget imports of it and of the modules `needing` it."""
    for name in list(sys.modules):
        if name.partition(".")[0] == package or name in needing:
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [_Missing(package), *sys.meta_path])
