"""A published JSON schema to compare with: a quick verdict, and reasons for a refusal."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
from jsonschema import Draft202012Validator, ValidationError


class Schema:
    """A JSON schema of 2020-12, compiled."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self._quick = jsonschema_rs.Draft202012Validator(schema, validate_formats=False)
        self._telling = Draft202012Validator(schema)

    def is_valid(self, value: Any) -> bool:
        """Whether the value fits the schema."""
        return self._quick.is_valid(value)

    def errors(self, value: Any) -> list[ValidationError]:
        """Why the value does not fit, nested reasons included; empty if it fits."""
        return [] if self._quick.is_valid(value) else list(self._telling.iter_errors(value))
