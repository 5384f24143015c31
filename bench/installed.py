"""What is installed here beside the bot and what it needs: for its extras, and for tests.

A bot that is measured is not to find it: the model's client imports two more HTTP libraries where
they are there, 11 MB and half a second of processor time that no installation of the bot has.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from functools import cache
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

LOOKED_FOR = ("numpy",)  # psycopg asks what is imported, and takes None for it
PROJECT = Path(__file__).parents[1] / "pyproject.toml"


@cache
def others(*extras: str) -> tuple[str, ...]:
    """Names to import of all that `pip install` of the bot, with these extras, does not bring."""
    project = tomllib.loads(PROJECT.read_text("utf-8"))["project"]
    more = [each for extra in extras for each in project["optional-dependencies"][extra]]
    needed = {project["name"], *_needed([*project["dependencies"], *more])}
    owners = metadata.packages_distributions().items()
    found = [name for name, of in owners if needed.isdisjoint(map(canonicalize_name, of))]
    return tuple(name for name in found if name not in LOOKED_FOR)


def _needed(wanted: Iterable[str]) -> set[str]:
    """The distributions that these requirements come to, by their canonical names."""
    left, found = [*map(Requirement, wanted)], set()
    while left:
        each = left.pop()
        known = (canonicalize_name(each.name), *sorted(each.extras))
        if known in found:
            continue
        found.add(known)
        try:
            asked = map(Requirement, metadata.requires(each.name) or ())
        except metadata.PackageNotFoundError:  # of another platform
            continue
        left += [one for one in asked if _applies(one, each.extras)]
    return {name for name, *_ in found}


def _applies(requirement: Requirement, extras: Iterable[str]) -> bool:
    """Return whether it is wanted here, by a package that is wanted with these extras."""
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": each}) for each in ("", *extras))
