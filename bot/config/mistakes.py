"""What is wrong with the settings, for the operator; values are never told."""

from __future__ import annotations

from pathlib import Path


class SettingsError(ValueError):
    """The settings cannot be used.

    `problems` has one line each: the variable, what is wrong, what to do.
    """

    def __init__(self, problems: list[str], policy_path: Path | None = None) -> None:
        """`policy_path`: the policy file, to be checked still where that setting is right."""
        self.problems = tuple(problems)
        self.policy_path = policy_path
        super().__init__("\n  ".join(["the settings cannot be used:", *problems]))
