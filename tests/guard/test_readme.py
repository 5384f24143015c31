"""What the README of the tests names exists."""

from __future__ import annotations

import ast
import re

import pytest

from tests.guard.sources import ROOT

README = (ROOT / "tests" / "README.md").read_text("utf-8")
CAUGHT_BY = re.findall(r"`([\w/.]+\.py)::(\w+)`", README)


@pytest.mark.parametrize(("path", "name"), CAUGHT_BY)
def test_each_fault_names_a_test_that_exists(path: str, name: str) -> None:
    """It is the test that caught a planted fault."""
    tree = ast.parse((ROOT / "tests" / path).read_text("utf-8"))
    assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_every_path_in_ticks_exists() -> None:
    """Files and folders are somewhere below tests/."""
    told = set(re.findall(r"`([\w/*]+(?:\.py|\.txt|/))`", README))
    assert told
    gone = [path for path in told if not [*(ROOT / "tests").rglob(path.rstrip("/"))]]
    assert gone == []


def test_every_folder_of_tests_has_a_row() -> None:
    """In the README's table of folders."""
    folders = {path.parent.name for path in (ROOT / "tests").glob("*/__init__.py")}
    assert {folder for folder in folders if f"`{folder}/`" not in README} == set()
