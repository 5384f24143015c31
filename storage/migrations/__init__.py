"""The schema's revisions, one file each in `versions`, and the newest of them."""

from __future__ import annotations

from pathlib import Path

SCRIPTS_FOLDER = Path(__file__).parent


class SchemaError(Exception):
    """Raised for a database of another Countersign version or of another application."""


def known(scripts: Path = SCRIPTS_FOLDER) -> set[str]:
    """Return the schema revisions in a folder, read from its file names (v0001_first.py)."""
    return {path.stem[1:5] for path in (scripts / "versions").glob("v[0-9]*.py")}


def newest(scripts: Path = SCRIPTS_FOLDER) -> str:
    """Return the newest schema revision ("0005") in the folder `scripts`."""
    return max(known(scripts))


def stranger(name: str, revision: str, scripts: Path = SCRIPTS_FOLDER) -> str:
    """Return why this build cannot use a database with that revision; "" if it can.

    `name`: the database's name, for the message.
    """
    ours = known(scripts)
    if revision in ours:
        return ""
    if revision.isdecimal() and revision < max(ours):
        return f"{name} was written by another Countersign (schema {revision}), unknown to this one"
    return f"{name} was written by a newer Countersign (schema {revision}); upgrade this one"
