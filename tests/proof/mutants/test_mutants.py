"""The changes that modules are tried with are made, one each, and take effect where they stand."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.proof.mutants.changes import changes
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
    """A module of its own, imported."""
    (tmp_path / "tried_module.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("tried_module")
    del sys.modules["tried_module"]


def test_each_change_is_made_once(module: Any, tmp_path: Path) -> None:
    """Comparisons, conditions, constants, members and what is returned; no words."""
    found = [each.what for each in changes(tmp_path / "tried_module.py", tmp_path)]
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
def test_a_change_takes_effect(module: Any, tmp_path: Path) -> None:
    """Functions that were imported before, and constants that others have, are changed as well,
    and so is what is made of a constant.
    """
    is_few, few = module.is_few, module.FEW
    found = {each.what: each for each in changes(tmp_path / "tried_module.py", tmp_path)}
    assert is_few("one")
    assert plant(found["LtE -> Lt"])
    assert not is_few("one")
    assert plant(found["without 'one'"])
    assert few - {"one"} == module.FEW
    assert few & module.MANY == {"two"}
