"""Finds the installed packages that the bot does not need: for its extras and for tests.

A measured bot must not find them: the model's client imports two more HTTP libraries if they are
installed, 11 MB and half a second of processor time that a plain installation does not have.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from functools import cache
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

LOOKED_FOR = ("numpy",)  # psycopg looks it up in sys.modules and cannot handle None
PROJECT = Path(__file__).parents[1] / "pyproject.toml"


@cache
def find_other_modules(*extras: str) -> tuple[str, ...]:
    """Return the modules that `pip install` of the bot with these extras does not install."""
    project = tomllib.loads(PROJECT.read_text("utf-8"))["project"]
    more = [each for extra in extras for each in project["optional-dependencies"][extra]]
    needed = {project["name"], *_needed([*project["dependencies"], *more])}
    owners = metadata.packages_distributions().items()
    found = [name for name, of in owners if needed.isdisjoint(map(canonicalize_name, of))]
    return tuple(name for name in found if name not in LOOKED_FOR)


def _needed(wanted: Iterable[str]) -> set[str]:
    """Return the canonical names of the distributions that these requirements need."""
    left, found = [*map(Requirement, wanted)], set()
    while left:
        each = left.pop()
        known = (canonicalize_name(each.name), *sorted(each.extras))
        if known in found:
            continue
        found.add(known)
        try:
            asked = map(Requirement, metadata.requires(each.name) or ())
        except metadata.PackageNotFoundError:  # needed on another platform only
            continue
        left += [one for one in asked if _applies(one, each.extras)]
    return {name for name, *_ in found}


def _applies(requirement: Requirement, extras: Iterable[str]) -> bool:
    """Return whether a requirement applies here, given these extras."""
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": each}) for each in ("", *extras))
