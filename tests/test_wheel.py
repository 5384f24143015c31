"""What an installed Countersign has of the files that are no modules."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGES = ("bot", "storage")
_ABOVE = re.compile(r"Path\(__file__\)(?:\.resolve\(\))?\.parents\[(\d+)\]")


def others() -> set[Path]:
    """The files in the packages that are neither modules nor pages for who reads the code."""
    found = (path for package in PACKAGES for path in (ROOT / package).rglob("*"))
    return {
        path
        for path in found
        if path.is_file() and path.suffix not in (".py", ".md") and "__pycache__" not in path.parts
    }


def packaged() -> Iterator[Path]:
    """The files that pyproject.toml has put into the wheel beside the modules."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    for package, patterns in settings["tool"]["setuptools"]["package-data"].items():
        for pattern in patterns:
            yield from (ROOT / package.replace(".", "/")).glob(pattern)


def test_the_wheel_has_every_file_that_is_read() -> None:
    """Each file in the packages that is no module is named in the settings of the wheel."""
    assert {path.name for path in others()} >= {"manifest.yml", "index.html", "script.py.mako"}
    assert others() - set(packaged()) == set()


def test_the_packages_read_nothing_outside_themselves() -> None:
    """No module makes a path that leads out of its package, where a wheel has nothing."""
    out = [
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        for above in _ABOVE.findall(path.read_text("utf-8"))
        if int(above) >= len(path.relative_to(ROOT).parts) - 1
    ]
    assert out == []


def test_there_is_one_manifest() -> None:
    """The packaged manifest is the one at the top, by a link."""
    assert (ROOT / "bot" / "manifest.yml").resolve() == ROOT / "manifest.yml"
