"""The schema's revisions, one file each in `versions`, and which of them is the newest."""

from __future__ import annotations

from pathlib import Path

SCRIPTS = Path(__file__).parent


class SchemaError(Exception):
    """The database was written by another version of Countersign, or is no database of its."""


def known(scripts: Path = SCRIPTS) -> set[str]:
    """The revisions in that folder, told by the names of its files (v0001_first.py)."""
    return {path.stem[1:5] for path in (scripts / "versions").glob("v[0-9]*.py")}


def newest(scripts: Path = SCRIPTS) -> str:
    """The newest revision in that folder."""
    return max(known(scripts))


def stranger(name: str, revision: str, scripts: Path = SCRIPTS) -> str:
    """Why this build cannot use the database of that name, which has that revision; "" where it
    can.
    """
    ours = known(scripts)
    if revision in ours:
        return ""
    if revision.isdecimal() and revision < max(ours):
        return f"{name} was written by another Countersign (schema {revision}), unknown to this one"
    return f"{name} was written by a newer Countersign (schema {revision}); upgrade this one"
