"""The sandbox does not depend on the bot, and its packages form layers."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1] / "slack_sandbox"
# from the lowest layer to the highest
PACKAGES = (
    *("spec", "blockkit", "workspace", "setup"),
    *("delivery", "web_api", "client", "http", "launch"),
)
TOP = ("ports", "pytest_plugin", "server", "standalone", "__main__")


def imported(path: Path) -> Iterator[str]:
    """Every module that a file imports, also within a function."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            yield from (f"{node.module}.{each.name}" for each in node.names)


def test_the_sandbox_imports_nothing_of_the_bot() -> None:
    """No file imports anything of the rest of the project."""
    found = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in ROOT.rglob("*.py")
        for name in imported(path)
        if name.split(".")[0] in ("bot", "storage", "countersign", "tests", "bench")
    ]
    assert found == []


def test_each_package_imports_only_those_below_it() -> None:
    """None imports a module at the top."""
    wrong = []
    for number, package in enumerate(PACKAGES):
        for path in (ROOT / package).rglob("*.py"):
            below = PACKAGES[: number + 1]
            named = [
                name.split(".")[1] for name in imported(path) if name.startswith("slack_sandbox.")
            ]
            wrong += [f"{path.relative_to(ROOT)}: {name}" for name in named if name not in below]
    assert wrong == []


def test_the_readme_names_every_package_and_module_at_the_top() -> None:
    """The map in the README is complete."""
    readme = (ROOT.parent / "README.md").read_text("utf-8")
    folders = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert folders == {*PACKAGES}
    assert {path.stem for path in ROOT.glob("*.py")} == {*TOP, "__init__"}
    assert [name for name in (*folders, "page") if f"`{name}/`" not in readme] == []
    assert [name for name in TOP if f"`{name}.py`" not in readme] == []
