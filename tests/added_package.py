"""An installed package made for a test: one module and its entry points."""

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
    """Install package `name`: `code` is its one module; each entry point is a group and a line."""
    place = folder / f"site_{name}"
    info = place / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (place / f"{name}.py").write_text(code)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [f"[{group}]\n{line}\n" for group, line in entry_points.items()]
    (info / "entry_points.txt").write_text("\n".join(lines))
    sys.modules.pop(name, None)  # left by an earlier test
    monkeypatch.syspath_prepend(str(place))
