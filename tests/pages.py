"""Parses the pages of the documentation for tests: code blocks, sections, tables."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
TOP = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "client/README.md", "sandbox/README.md")
PAGES = sorted([*(ROOT / each for each in TOP), *(ROOT / "docs").rglob("*.md")])


def named(page: Path) -> str:
    """The page's path below the root, used as the id of its test."""
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path, language: str) -> list[str]:
    """The code blocks of that language, without the indentation they have inside a list."""
    return blocks_in(page.read_text("utf-8"), language)


def blocks_in(text: str, language: str) -> list[str]:
    """The code blocks of that language in a part of a page."""
    found = re.findall(rf"^( *)```{language}\n(.*?)^\1```$", text, re.S | re.M)
    return [re.sub(rf"^{indent}", "", code, flags=re.M) for indent, code in found]


def prose(page: Path) -> str:
    """The page without its code blocks."""
    return re.sub(r"^( *)```.*?^\1```$", "", page.read_text("utf-8"), flags=re.S | re.M)


def section(page: Path, title: str) -> str:
    """The text below that heading, up to the next heading of its level."""
    found = re.search(
        rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", page.read_text("utf-8"), re.S | re.M
    )
    assert found, f"{named(page)} has no section {title!r}"
    return found[1]


def table(text: str) -> dict[str, list[str]]:
    """The rows of the tables in a text: first cell, without its ticks, to the other cells."""
    rows = [
        re.split(r"(?<!\\)\|", line)[1:-1] for line in text.splitlines() if line.startswith("| `")
    ]
    return {row[0].strip().strip("`"): [cell.strip() for cell in row[1:]] for row in rows}
