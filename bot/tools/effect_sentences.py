"""The sentence that says what a call would do: a tool's template, filled in with arguments."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from string import Formatter
from typing import Any


def fill_in_template(template: str, values: Mapping[str, Any]) -> str:
    """Return the template with these values, on one line; a choice stands by its value.

    Raises what `str.format` raises where the template does not fit the values.
    """
    return " ".join(_ValueFormatter().vformat(template, (), values).split())


def format_value(value: Any) -> str:
    """Return the value of an argument as it stands in a sentence."""
    return str(_unwrap_choice(value))


class _ValueFormatter(Formatter):
    """Formats as `str.format`, but a member of an enumeration by the value that it stands for."""

    def convert_field(self, value: Any, conversion: Any) -> Any:
        return super().convert_field(_unwrap_choice(value), conversion)


class ListInSentence(list[Any]):
    """A list that reads "a, b" in an effect; a template may also name one of its members."""

    def __str__(self) -> str:
        return ", ".join(map(format_value, self)) or "none"

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)


def _unwrap_choice(value: Any) -> Any:
    return value.value if isinstance(value, Enum) else value
