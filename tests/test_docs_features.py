"""The page of features is held to the tests that it names."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LINES = [
    line
    for line in (ROOT / "docs" / "features.md").read_text("utf-8").splitlines()
    if line.startswith("|") and not re.match(r"\| feature |\|---", line)
]


@pytest.mark.parametrize("line", LINES)
def test_a_feature_is_shown_by_a_test_that_is_there(line: str) -> None:
    """Each line has a sentence and one test, by file and name."""
    _, feature, shown, _ = (each.strip() for each in line.split("|"))
    assert len(feature) > 10
    named = re.fullmatch(r"`((?:client/|sandbox/)?tests/[\w/]+\.py)::(?:\w+::)?(test_\w+)`", shown)
    assert named, f"{shown} names no test"
    tree = ast.parse((ROOT / named[1]).read_text("utf-8"))
    names = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    assert named[2] in names


def test_no_feature_is_listed_twice() -> None:
    """Sentences and tests stand once each."""
    sentences = [line.split("|")[1].strip() for line in LINES]
    tests = [line.split("|")[2].strip() for line in LINES]
    assert len(set(sentences)) == len(sentences) > 30
    assert len(set(tests)) == len(tests)
