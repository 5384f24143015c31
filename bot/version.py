"""The bot's version, and the commit that it was built from.

In a checkout git's own files name the commit, in an installed wheel a file that setup.py wrote at
the build. No program is run, and no file is read before the version is asked for.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

UNKNOWN = "unknown"
FILE = "commit.txt"  # in this folder, but only in an installed wheel
SHORT_DIGITS = 12  # shown to people
_COMMIT_ID_PATTERN = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_REFERENCE_PREFIX = "ref: "


@cache
def commit_id() -> str:
    """Return the id of the commit this code was built from; `unknown` if no file names it."""
    here = Path(__file__).parent
    return (
        find_checked_out_commit(here.parent)
        or _validate_commit_id(_read_small_file(here / FILE))
        or UNKNOWN
    )


def describe_version() -> str:
    """Return the version with its commit in short, for people and for the log."""
    from bot import __version__

    found = commit_id()
    return f"{__version__} (commit {found if found == UNKNOWN else found[:SHORT_DIGITS]})"


def find_checked_out_commit(folder: Path) -> str:
    """Return the commit checked out in this folder; "" if it is not the top of a checkout."""
    git = folder / ".git"
    if said := _read_small_file(git):  # in a worktree, .git is a file that names the folder
        git = folder / said.removeprefix("gitdir: ")
    head = _read_small_file(git / "HEAD")
    if not head.startswith(_REFERENCE_PREFIX):
        return _validate_commit_id(head)
    name = head.removeprefix(_REFERENCE_PREFIX)
    common = _read_small_file(git / "commondir")
    homes = [git, git / common] if common else [git]
    loose = (_validate_commit_id(_read_small_file(each / name)) for each in homes)
    return next(filter(None, loose), "") or _find_packed_commit(homes[-1], name)


def _find_packed_commit(git: Path, name: str) -> str:
    """Return the commit of a reference that git keeps in the file `packed-refs`; "" for none."""
    lines = _read_small_file(git / "packed-refs").splitlines()
    found = (line.split(" ", 1) for line in lines if " " in line)
    return next((_validate_commit_id(commit_id) for commit_id, each in found if each == name), "")


def _read_small_file(path: Path) -> str:
    """Return the text of a small file without outer blanks; "" if it cannot be read."""
    try:
        return path.read_text("utf-8").strip()
    except (OSError, ValueError):
        return ""


def _validate_commit_id(text: str) -> str:
    return text if _COMMIT_ID_PATTERN.fullmatch(text) else ""
