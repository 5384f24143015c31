"""The policies of the documentation's cookbook, by the titles of its parts."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "policy.md").read_text("utf-8")


def recipes() -> dict[str, str]:
    """The TOML of each part of the cookbook, by its title."""
    cookbook = PAGE.partition("\n## Cookbook\n")[2].partition("\n## ")[0]
    parts = re.split(r"^### (.+)\n", cookbook, flags=re.M)[1:]
    found = {}
    for title, text in zip(parts[::2], parts[1::2], strict=True):
        [found[title]] = re.findall(r"^```toml\n(.*?)^```$", text, re.S | re.M)
    return found


RECIPES = recipes()
