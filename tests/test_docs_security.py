"""Each promise of docs/security.md is shown by tests that exist: tests/threats.toml names them."""

from __future__ import annotations

import re
import tomllib

from tests.pages import ROOT, section

PAGE = ROOT / "docs" / "security.md"
PROOFS = ["a click", "a signature", "a receipt", "the record"]


def list_bold_names(text: str) -> list[str]:
    """The names of a table's rows."""
    return re.findall(r"^\| \*\*(.+?)\*\*", text, re.M)


def test_each_threat_names_tests_that_exist() -> None:
    """Every threat of the tables has at least one, and no test is of a threat that is gone."""
    there = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text("utf-8"), re.M)
    }
    shown = tomllib.loads((ROOT / "tests" / "threats.toml").read_text("utf-8"))
    text = PAGE.read_text("utf-8").replace(section(PAGE, "What proves what"), "")
    assert list_bold_names(text) == list(shown)
    for threat, named in shown.items():
        assert named, threat
        assert set(named) <= there, threat


def test_the_page_says_what_each_proof_proves_and_what_it_does_not() -> None:
    """A click, a signature, a receipt and the record; no cell is empty."""
    text = section(PAGE, "What proves what")
    assert list_bold_names(text) == PROOFS
    rows = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("| **")]
    assert all(len(cells) == 3 and all(each.strip() for each in cells) for cells in rows)
