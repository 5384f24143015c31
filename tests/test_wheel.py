"""What an installed Countersign has: files that are no modules, and the packages of others."""

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
from tests.guard.sources import imports, python_files

ROOT = Path(__file__).parent.parent
HOMES = {".": ("bot", "storage"), "client": ("countersign",), "sandbox": ("slack_sandbox",)}
PACKAGES = tuple(Path(home, each) for home, packages in HOMES.items() for each in packages)
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
    """The files that each pyproject.toml has put into its wheel beside the modules."""
    for home in HOMES:
        settings = tomllib.loads((ROOT / home / "pyproject.toml").read_text("utf-8"))
        found = settings["tool"]["setuptools"].get("package-data", {})
        for package, patterns in found.items():
            for pattern in patterns:
                yield from (ROOT / home / package.replace(".", "/")).glob(pattern)


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
        if int(above) >= len(path.relative_to(ROOT / package.parent).parts) - 1
    ]
    assert out == []


def test_there_is_one_manifest() -> None:
    """The packaged manifest is the one at the top, by a link."""
    assert (ROOT / "bot" / "manifest.yml").resolve() == ROOT / "manifest.yml"


def named(home: str) -> set[str]:
    """The packages that an installation asks for by name, with all extras but the developers'."""
    project = tomllib.loads((ROOT / home / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project.get("optional-dependencies", {})
    asked = [each for name, found in extras.items() if name != "dev" for each in found]
    return {distribution(re.split(r"[\[<>=]", each)[0]) for each in project["dependencies"] + asked}


def distribution(name: str) -> str:
    """One way of writing its name."""
    return name.lower().replace("_", "-")


@pytest.mark.long
def test_what_is_imported_is_asked_for_by_name() -> None:
    """Nothing is there only because another package happens to bring it."""
    homes, wrong = packages_distributions(), []
    ours = {
        package.name: home for home, packages in HOMES.items() for package in map(Path, packages)
    }
    for home, packages in HOMES.items():
        asked = named(home)
        for source in python_files(*(Path(home, each).as_posix() for each in packages)):
            for each in imports(source):
                top = each.name.partition(".")[0]
                if top in sys.stdlib_module_names or ours.get(top) == home or each.typing:
                    continue
                if top == "pytest" and source.path.endswith("/pytest_plugin.py"):
                    continue  # it is what loads this file
                if source.path.startswith("client/countersign/adapters/"):
                    continue  # whoever imports it has the framework that it is for
                if not asked & set(map(distribution, homes.get(top, ()))):
                    wrong.append(f"{source}:{each.line}: {each.name}")
    assert wrong == []


def test_all_distributions_have_one_version() -> None:
    """They are released together, and ask for one another by it."""
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
