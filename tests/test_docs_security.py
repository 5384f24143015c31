"""Each promise of docs/security.md names tests that exist."""

from __future__ import annotations

import re

from tests.pages import ROOT

PAGE = ROOT / "docs" / "security.md"


def test_each_threat_names_tests_that_exist() -> None:
    """Every row of the table names at least one."""
    there = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text("utf-8"), re.M)
    }
    rows = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| **")]
    assert len(rows) >= 7
    for row in rows:
        named = re.findall(r"`(test_\w+)`", row)
        assert named, row
        assert set(named) <= there, row
