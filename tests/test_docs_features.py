"""docs/features.md has a line for each feature, which links to the page that explains it."""

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
def test_each_feature_links_to_its_page(line: str) -> None:
    """That the links work is tested for all pages elsewhere."""
    _, feature, pages, _ = (each.strip() for each in line.split("|"))
    assert len(feature) > 10
    assert re.findall(r"\]\(([\w.-]+)(?:#[\w-]+)?\)", pages)


def test_every_page_for_users_is_linked() -> None:
    """Only the pages for developers are left out."""
    pages = {path.name for path in DOCS.glob("*.md")}
    linked = set(re.findall(r"\]\(([\w.-]+)", TEXT))
    assert pages - linked == {"features.md", "architecture.md", "performance.md"}


def test_features_are_listed_once_on_one_screen() -> None:
    """The page has at most 60 lines."""
    sentences = [line.split("|")[1].strip() for line in LINES]
    assert len(set(sentences)) == len(sentences) > 20
    assert len(TEXT.splitlines()) <= 60
