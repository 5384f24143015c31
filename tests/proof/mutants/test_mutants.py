"""The changes for a module are found, one at a time, and take effect once planted."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.proof.mutants.changes import list_changes
from tests.proof.mutants.planting import plant

SOURCE = '''"""A module."""

FEW = {"one", "two"}
MANY = FEW | {"three"}


def is_few(name: str, most: int = 3) -> bool:
    """Not changed: words."""
    if not name:
        return False
    return name in FEW and len(name) <= most
'''


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """An imported module of its own."""
    (tmp_path / "tried_module.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("tried_module")
    del sys.modules["tried_module"]


def test_each_possible_change_is_listed_once(module: Any, tmp_path: Path) -> None:
    """They are comparisons, conditions, constants, members and returned values, but no texts."""
    found = [each.what for each in list_changes(tmp_path / "tried_module.py", tmp_path)]
    assert sorted(found) == [
        "3 -> 4",
        "BitOr -> BitAnd",
        "False -> True",
        "In -> NotIn",
        "LtE -> Lt",
        "and -> or",
        "not is gone",
        "returns None",
        "without 'one'",
        "without 'two'",
    ]


@pytest.mark.long
def test_a_planted_change_takes_effect_everywhere(module: Any, tmp_path: Path) -> None:
    """Functions imported before, constants in other modules, and constants made from them change,
    too.
    """
    is_few, few = module.is_few, module.FEW
    found = {each.what: each for each in list_changes(tmp_path / "tried_module.py", tmp_path)}
    assert is_few("one")
    assert plant(found["LtE -> Lt"])
    assert not is_few("one")
    assert plant(found["without 'one'"])
    assert few - {"one"} == module.FEW
    assert few & module.MANY == {"two"}
