"""The page's JavaScript modules as files: what they import, and how many stand in a folder."""

from __future__ import annotations

import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "bot" / "sandbox" / "page"
IMPORT = re.compile(r"""(?:\bfrom|^import|\bimport\()\s*["']([^"']+)["']""", re.M)


def imports() -> dict[Path, set[Path]]:
    """Return what each module of the page imports."""
    return {
        module: {(module.parent / path).resolve() for path in IMPORT.findall(module.read_text())}
        for module in PAGE.rglob("*.js")
    }


def test_every_import_leads_to_a_module_of_the_page() -> None:
    """No module imports a file that is not there, or one from elsewhere."""
    found = imports()
    assert len(found) > 50
    assert not {path for needed in found.values() for path in needed} - set(found)


def test_modules_import_each_other_in_no_circle() -> None:
    """The modules can be put in an order in which each imports only earlier ones."""
    try:
        TopologicalSorter(imports()).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(path.name for path in error.args[1]))
