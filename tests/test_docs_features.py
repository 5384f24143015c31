"""The page of features: a line for each, which leads to the page that tells how."""

from __future__ import annotations

import re

import pytest

from tests.pages import ROOT

DOCS = ROOT / "docs"
TEXT = (DOCS / "features.md").read_text("utf-8")
LINES = [
    line
    for line in TEXT.splitlines()
    if line.startswith("| ") and not re.match(r"\| \w+ \| \|$", line)
]


@pytest.mark.parametrize("line", LINES)
def test_a_feature_leads_to_its_page(line: str) -> None:
    """Each line has a sentence and at least one link; that they lead somewhere is tried for all."""
    _, feature, pages, _ = (each.strip() for each in line.split("|"))
    assert len(feature) > 10
    assert re.findall(r"\]\(([\w.-]+)(?:#[\w-]+)?\)", pages)


def test_every_page_for_users_is_named() -> None:
    """The screen leads to every page of the documentation that tells of something to use."""
    pages = {path.name for path in DOCS.glob("*.md")}
    linked = set(re.findall(r"\]\(([\w.-]+)", TEXT))
    assert pages - linked == {"features.md", "architecture.md", "performance.md"}


def test_no_feature_is_listed_twice() -> None:
    """Sentences stand once each, and all of them fit on one screen."""
    sentences = [line.split("|")[1].strip() for line in LINES]
    assert len(set(sentences)) == len(sentences) > 20
    assert len(TEXT.splitlines()) <= 60
