"""What one check of the doctor says: how it stands, about what, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

PATIENCE = 15.0  # seconds any one check may take


class Level(StrEnum):
    """How what was checked stands."""

    OK = "ok"  # nothing is to be done
    WARN = "warn"  # it works, and somebody should look at it
    FAIL = "fail"  # Countersign would not work


@dataclass(frozen=True, slots=True)
class Check:
    """What came of one check; the remedy is empty where nothing is to be done."""

    level: Level
    about: str
    text: str
    remedy: str = ""

    def __str__(self) -> str:
        """One line, or more where the text has more."""
        line = f"{self.level:<4}  {self.about}: {self.text}"
        return f"{line}. {self.remedy}" if self.remedy else line


def ok(about: str, text: str) -> Check:
    """Say that all is well."""
    return Check(Level.OK, about, text)


def warn(about: str, text: str, remedy: str = "") -> Check:
    """Say that somebody should look at it."""
    return Check(Level.WARN, about, text, remedy)


def fail(about: str, text: str, remedy: str = "") -> Check:
    """Say that it would not work."""
    return Check(Level.FAIL, about, text, remedy)
