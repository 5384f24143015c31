"""The page's JavaScript modules as files: what they import, and how many are in a folder."""

from __future__ import annotations

import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "slack_sandbox" / "page"
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


def test_modules_have_no_import_cycle() -> None:
    """The modules can be put in an order in which each imports only earlier ones."""
    try:
        TopologicalSorter(imports()).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(path.name for path in error.args[1]))


def test_folders_have_no_import_cycle() -> None:
    """Folders of modules can be put in such an order, too."""
    folders: dict[Path, set[Path]] = {}
    for module, needed in imports().items():
        others = {path.parent for path in needed} - {module.parent}
        folders.setdefault(module.parent, set()).update(others)
    try:
        TopologicalSorter(folders).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(path.name for path in error.args[1]))


def test_no_folder_holds_more_than_twelve_files() -> None:
    """A folder can be read at one glance."""
    folders = [PAGE, *(path for path in PAGE.rglob("*") if path.is_dir())]
    held = {path.name: sum(each.is_file() for each in path.iterdir()) for path in folders}
    assert not {name: count for name, count in held.items() if count > 12}
