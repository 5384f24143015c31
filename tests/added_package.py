"""A package that is installed for a test: entry points and a module, found as any other's are."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest


def add_package(
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    name: str,
    code: str,
    entry_points: Mapping[str, str],
) -> None:
    """Install it: `code` is its one module, called as it is; group and line of each entry point."""
    place = folder / f"site_{name}"
    info = place / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (place / f"{name}.py").write_text(code)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [f"[{group}]\n{line}\n" for group, line in entry_points.items()]
    (info / "entry_points.txt").write_text("\n".join(lines))
    sys.modules.pop(name, None)  # of an earlier test
    monkeypatch.syspath_prepend(str(place))
