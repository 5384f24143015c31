"""What pages name exists: links, files, tests, pictures. Short pages stay short."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path

import pytest
from PIL import Image, ImageSequence

from storage import states
from tests.pages import PAGES, ROOT, named, prose

README = ROOT / "README.md"
LARGEST = 150_000  # bytes of one picture
LONGEST_README, LONGEST_DECISION = 150, 40  # lines


def list_anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", prose(page), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_link_leads_somewhere(page: Path) -> None:
    """Each relative link and picture exists, and the heading that it points at."""
    for target in re.findall(r"\]\(([^)\s]+)\)|(?:src|srcset)=\"([^\"]+)\"", prose(page)):
        target = "".join(target)
        if target.startswith("https://"):
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), f"{target} is not there"
        assert not anchor or anchor in list_anchors(there), f"{target} has no such heading"


def test_every_path_in_the_architecture_exists() -> None:
    """Its table names every folder of the product."""
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    paths = re.findall(r"`((?:bot|storage|client|sandbox)/[\w/.*]*)`", text)
    assert [path for path in paths if not list(ROOT.glob(path.rstrip("/")))] == []
    folders = {
        f"bot/{each.name}/" for each in (ROOT / "bot").iterdir() if (each / "__init__.py").exists()
    }
    assert folders <= set(paths)


def test_the_architecture_draws_every_status() -> None:
    """For each state machine, with the statuses of the code."""
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    drawings = text[text.index("\ncall  ") :].partition("```")[0]
    drawn = dict(re.findall(r"^(\w+)(.*(?:\n .*)*)", drawings, re.M))
    kinds: dict[str, type[StrEnum]] = {
        "call": states.CallStatus,
        "run": states.RunStatus,
        "message": states.MessageStatus,
        "delivery": states.DeliveryStatus,
        "installation": states.InstallationState,
    }
    for name, kind in kinds.items():
        assert {each.name for each in kind} <= set(re.findall(r"[A-Z]+", drawn.get(name, ""))), name


def test_files_and_tests_that_pages_name_exist() -> None:
    """Paths that pages give in full, and the tests that tests/README.md names."""
    files = {
        path
        for page in PAGES
        for path in re.findall(
            r"`((?:bot|storage|tests|client/countersign|sandbox/slack_sandbox)/[\w/]+\.\w+)`",
            page.read_text("utf-8"),
        )
    }
    assert [path for path in sorted(files) if not (ROOT / path).exists()] == []
    tests = ROOT / "tests"
    told = re.findall(r"`([\w/.]+\.py)::(test_\w+)`", (tests / "README.md").read_text("utf-8"))
    assert len(told) > 30
    gone = [
        f"{path}::{name}"
        for path, name in told
        if not (tests / path).exists() or f"def {name}(" not in (tests / path).read_text("utf-8")
    ]
    assert gone == []


def test_every_picture_is_used_and_small() -> None:
    """A page shows it, it has a dark twin, and it is not too large."""
    pictures = list((ROOT / "docs" / "pictures").glob("*.png"))
    used = "\n".join(page.read_text("utf-8") for page in PAGES)
    names = {each.name for each in pictures}
    assert {"card.png", "decided.png", "edit.png"} <= names
    light = {name for name in names if not name.endswith("-dark.png")}
    assert names - light == {name.replace(".png", "-dark.png") for name in light}
    assert [name for name in names if not re.search(rf'pictures/{name}["\)]', used)] == []
    assert [each.name for each in pictures if each.stat().st_size > LARGEST] == []


def test_the_moving_picture_is_short_and_small() -> None:
    """8 to 15 seconds, at most 1.5 MB, and a still for readers who want no motion."""
    [name] = re.findall(r'src="(docs/pictures/[\w.]+)"', README.read_text("utf-8"))
    with Image.open(ROOT / name) as picture:
        shown = 0.0
        for frame in ImageSequence.Iterator(picture):
            frame.load()
            shown += frame.info["duration"]
    assert 8_000 <= shown <= 15_000  # milliseconds
    assert (ROOT / name).stat().st_size <= 1_500_000
    assert "prefers-reduced-motion: reduce" in README.read_text("utf-8")


def test_the_readme_and_decision_records_are_short() -> None:
    """Records also have numbers of their own and all three parts."""
    assert len(README.read_text("utf-8").splitlines()) <= LONGEST_README
    records = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    numbers = [each.name[:4] for each in records]
    assert sorted(set(numbers)) == numbers
    for record in records:
        text = record.read_text("utf-8")
        assert len(text.splitlines()) <= LONGEST_DECISION
        assert all(f"**{part}.**" in text for part in ("Context", "Decision", "Consequences")), (
            record.name
        )
