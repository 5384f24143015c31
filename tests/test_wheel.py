"""Installed packages are complete: data files, dependencies, one version."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

import bot
from countersign.version import VERSION
from tests.guard.sources import list_imports, read_python_files

ROOT = Path(__file__).parent.parent
HOMES = {".": ("bot", "storage"), "client": ("countersign",), "sandbox": ("slack_sandbox",)}
PACKAGES = tuple(Path(home, each) for home, packages in HOMES.items() for each in packages)
STANDARD_LIBRARY = sys.stdlib_module_names | {"annotationlib"}  # the latter on Python 3.14
_ABOVE = re.compile(r"Path\(__file__\)(?:\.resolve\(\))?\.parents\[(\d+)\]")


def list_data_files() -> set[Path]:
    """Files in the packages that are neither modules nor pages for developers."""
    found = (path for package in PACKAGES for path in (ROOT / package).rglob("*"))
    return {
        path
        for path in found
        if path.is_file() and path.suffix not in (".py", ".md") and "__pycache__" not in path.parts
    }


def list_packaged_files() -> Iterator[Path]:
    """The files that each pyproject.toml puts into its wheel beside the modules."""
    for home in HOMES:
        settings = tomllib.loads((ROOT / home / "pyproject.toml").read_text("utf-8"))
        found = settings["tool"]["setuptools"].get("package-data", {})
        for package, patterns in found.items():
            for pattern in patterns:
                yield from (ROOT / home / package.replace(".", "/")).glob(pattern)


def test_the_wheels_have_every_data_file() -> None:
    """The settings of the wheel name each file that is no module."""
    assert {path.name for path in list_data_files()} >= {
        "manifest.yml",
        "index.html",
        "script.py.mako",
        "py.typed",  # without it, type checkers take all of the client for Any
    }
    assert list_data_files() - set(list_packaged_files()) == set()


def test_the_packages_read_nothing_outside_themselves() -> None:
    """No module makes a path out of its package, where a wheel has nothing."""
    out = [
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        for above in _ABOVE.findall(path.read_text("utf-8"))
        if int(above) >= len(path.relative_to(ROOT / package.parent).parts) - 1
    ]
    assert out == []


def test_the_packaged_manifest_is_the_one_at_the_top() -> None:
    """By a symbolic link."""
    assert (ROOT / "bot" / "manifest.yml").resolve() == ROOT / "manifest.yml"


def list_requirements(home: str) -> set[str]:
    """What an installation requires by name, with all extras but the developers'."""
    project = tomllib.loads((ROOT / home / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project.get("optional-dependencies", {})
    asked = [each for name, found in extras.items() if name != "dev" for each in found]
    return {
        normalize_name(re.split(r"[\[<>=]", each)[0]) for each in project["dependencies"] + asked
    }


def normalize_name(name: str) -> str:
    """One spelling for a distribution's name."""
    return name.lower().replace("_", "-")


@pytest.mark.long
def test_every_imported_package_is_required_by_name() -> None:
    """Nothing is there only because another package happens to require it."""
    homes, wrong = packages_distributions(), []
    ours = {
        package.name: home for home, packages in HOMES.items() for package in map(Path, packages)
    }
    for home, packages in HOMES.items():
        asked = list_requirements(home)
        for source in read_python_files(*(Path(home, each).as_posix() for each in packages)):
            for each in list_imports(source):
                top = each.name.partition(".")[0]
                if top in STANDARD_LIBRARY or ours.get(top) == home or each.typing:
                    continue
                if top == "pytest" and source.path.endswith("/pytest_plugin.py"):
                    continue  # pytest itself loads this file
                if source.path.startswith("client/countersign/adapters/"):
                    continue  # its users have the framework
                if not asked & set(map(normalize_name, homes.get(top, ()))):
                    wrong.append(f"{source}:{each.line}: {each.name}")
    assert wrong == []


def test_all_distributions_have_one_version() -> None:
    """They are released together, and require one another in that version."""
    projects = [
        tomllib.loads((ROOT / home / "pyproject.toml").read_text("utf-8"))["project"]
        for home in HOMES
    ]
    versions = {each["version"] for each in projects}
    assert versions == {bot.__version__} == {VERSION}
    asked = [*projects[0]["dependencies"], *projects[0]["optional-dependencies"]["sandbox"]]
    ours = [each for each in asked if each.startswith("countersign-")]
    assert {each.partition("==")[2] for each in ours} == versions
    assert len(ours) == 2
