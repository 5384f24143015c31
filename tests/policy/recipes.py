"""The documentation's policies, the first three and the cookbook, by their titles."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "policy.md").read_text("utf-8")


def read_recipes(section: str) -> dict[str, str]:
    """The TOML of each part of a section, by the part's title."""
    text = PAGE.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    parts = re.split(r"^### (.+)\n", text, flags=re.M)[1:]
    found = {}
    for title, text in zip(parts[::2], parts[1::2], strict=True):
        [found[title]] = re.findall(r"^```toml\n(.*?)^```$", text, re.S | re.M)
    return found


RECIPES = read_recipes("Cookbook")
FIRST = read_recipes("Three to begin with")
