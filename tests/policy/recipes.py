"""The documentation's policies, the first three and the cookbook, by their titles."""

from __future__ import annotations

import re
from pathlib import Path

from tests.pages import section

DOCS = Path(__file__).parents[2] / "docs"


def read_recipes(text: str, heading: str) -> dict[str, str]:
    """The TOML below each heading of that level, by its title."""
    parts = re.split(rf"^{heading} (.+)\n", text, flags=re.M)[1:]
    found = {}
    for title, text in zip(parts[::2], parts[1::2], strict=True):
        [found[title]] = re.findall(r"^```toml\n(.*?)^```$", text, re.S | re.M)
    return found


RECIPES = read_recipes((DOCS / "cookbook.md").read_text("utf-8"), "##")
FIRST = read_recipes(section(DOCS / "policy.md", "Three to begin with"), "###")
