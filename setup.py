"""What pyproject.toml cannot say: a wheel is told which commit it was made from."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

TOP = Path(__file__).resolve().parent


def written(folder: Path) -> None:
    """Write the commit into the package in `folder`; nothing where no commit is known."""
    file = TOP / "bot" / "version.py"
    spec = importlib.util.spec_from_file_location("countersign_version", file)
    assert spec is not None and spec.loader is not None  # noqa: PT018 - both or neither
    version = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(version)
    if version.commit_id() != version.UNKNOWN:
        path = folder / "bot" / version.FILE
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(version.commit_id() + "\n", "utf-8")


class BuildWithCommit(build_py):
    """As ever, and the commit; a checkout that is installed as it lies says it by itself."""

    def run(self) -> None:
        """Build."""
        super().run()
        if not self.editable_mode:
            written(Path(self.build_lib))


class ArchiveWithCommit(sdist):
    """As ever, and the commit, from which a wheel is then made."""

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        """Put everything into `base_dir`."""
        super().make_release_tree(base_dir, files)
        written(Path(base_dir))


setup(cmdclass={"build_py": BuildWithCommit, "sdist": ArchiveWithCommit})
