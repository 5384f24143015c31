"""Recorded payloads of Slack, and how those of the sandbox differ in shape."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

FIXTURES = Path(__file__).parents[3] / "shared" / "fixtures"


def fixture(name: str) -> Any:
    """A recorded file; the test is skipped if the recordings are missing."""
    path = FIXTURES / name
    if not path.is_file():
        pytest.skip(f"{path} is not on this machine")
    return json.loads(path.read_text())


def kind(value: Any) -> str:
    """A JSON value's type, numbers as one."""
    if isinstance(value, bool):
        return "boolean"
    return {dict: "object", list: "list", str: "string", int: "number", float: "number"}.get(
        type(value), "null"
    )


def differences(ours: Any, theirs: Any, at: str = "") -> list[str]:
    """Keys of ours that theirs lacks, and values of other types (null fits all), at any depth."""
    if kind(ours) == "null" or kind(theirs) == "null":
        return []
    if kind(ours) != kind(theirs):
        return [f"{at}: {kind(ours)} instead of {kind(theirs)}"]
    if isinstance(ours, dict):
        found = [f"{at}/{key}: unknown" for key in ours if key not in theirs]
        return found + [
            d
            for key in ours
            if key in theirs
            for d in differences(ours[key], theirs[key], f"{at}/{key}")
        ]
    if isinstance(ours, list) and theirs:
        return [d for item in ours for d in differences(item, theirs[0], f"{at}/0")]
    return []
