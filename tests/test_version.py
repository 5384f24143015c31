"""The version and commit that a bot states: from git's own files, or as its wheel was told."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import bot
from bot import version
from bot.version import describe_version, find_checked_out_commit
from countersign.cli.commands import main

ROOT = Path(__file__).parent.parent
ONE, TWO = "1" * 40, "2" * 64


def test_the_commit_is_read_from_gits_files(tmp_path: Path) -> None:
    """A branch of its own file or among packed ones, a bare commit, a worktree, no checkout."""
    git = tmp_path / ".git"
    assert find_checked_out_commit(tmp_path) == ""
    (git / "refs/heads").mkdir(parents=True)
    (git / "HEAD").write_text(f"{ONE}\n")
    assert find_checked_out_commit(tmp_path) == ONE
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    assert find_checked_out_commit(tmp_path) == ""
    (git / "packed-refs").write_text(
        f"# pack-refs\n{ONE} refs/heads/main2\n{TWO} refs/heads/main\n"
    )
    assert find_checked_out_commit(tmp_path) == TWO
    (git / "refs/heads/main").write_text(f"{ONE}\n")
    assert find_checked_out_commit(tmp_path) == ONE
    beside = tmp_path / "beside"
    (git / "worktrees/beside").mkdir(parents=True)
    (git / "worktrees/beside/HEAD").write_text("ref: refs/heads/main\n")
    (git / "worktrees/beside/commondir").write_text("../..\n")
    beside.mkdir()
    (beside / ".git").write_text(f"gitdir: {git}/worktrees/beside\n")
    assert find_checked_out_commit(beside) == ONE
    (git / "HEAD").write_text("ref: refs/heads/../../secret\n")
    (git / "secret").write_text("no commit at all\n")
    assert find_checked_out_commit(tmp_path) == ""


def test_the_commit_of_this_checkout_is_the_one_git_reports() -> None:
    """Compared with `git rev-parse HEAD`."""
    if not (ROOT / ".git").exists():
        pytest.skip("this is no checkout")
    told = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    assert version.commit_id() == told.stdout.strip()
    assert describe_version() == f"{bot.__version__} (commit {told.stdout[:12]})"


def test_the_commit_is_unknown_without_git_and_file(tmp_path: Path) -> None:
    """With the file that a wheel has, its commit is stated."""
    package = tmp_path / "bot"
    package.mkdir()
    for name in ("__init__.py", "version.py"):
        shutil.copy(ROOT / "bot" / name, package / name)
    code = "from bot.version import describe_version; print(describe_version())"

    def read_printed_version() -> str:
        run = [sys.executable, "-c", code]
        return subprocess.run(run, cwd=tmp_path, capture_output=True, text=True).stdout.strip()

    assert read_printed_version() == f"{bot.__version__} (commit unknown)"
    (package / version.FILE).write_text(f"{ONE}\n")
    assert read_printed_version() == f"{bot.__version__} (commit {ONE[:12]})"


@pytest.mark.long
def test_a_wheel_has_the_commit_it_was_made_from(tmp_path: Path) -> None:
    """A file in it says so; the checkout is left as it was."""
    if not (ROOT / ".git").exists():
        pytest.skip("this is no checkout")
    pip = [sys.executable, "-m", "pip", "wheel", "--no-deps", "-q", "-w", str(tmp_path), str(ROOT)]
    made = subprocess.run(pip, capture_output=True, text=True)
    if "No matching distribution" in made.stderr:
        pytest.skip("what builds wheels cannot be had here")
    assert made.returncode == 0, made.stderr
    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as file:
        assert file.read(f"bot/{version.FILE}").decode().strip() == version.commit_id()
        assert "bot/version.py" in file.namelist()
    assert not (ROOT / "bot" / version.FILE).exists()


def test_the_version_option_prints_version_and_commit(capsys: pytest.CaptureFixture[str]) -> None:
    """And nothing else."""
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert re.fullmatch(r"0\.1\.0 \(commit ([0-9a-f]{12}|unknown)\)\n", said)
