"""Whether a result is what its tool promises; a remark, for the result was given all the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match
from jsonschema.validators import extend
from mcp_types import CallToolResult
from referencing import Registry

MOST_REMARK = 300  # characters


def _unchecked(*_: object) -> Iterator[Any]:
    yield from ()


# patterns may take endless time, and nothing depends on this check
_Plain: Any = extend(  # type: ignore[no-untyped-call] # jsonschema has no types
    Draft202012Validator, {"pattern": _unchecked, "patternProperties": _unchecked}
)


def broken_promise(result: CallToolResult, schema: Mapping[str, Any] | None) -> str:
    """Return in which way a result does not fit its tool's output schema; "" where it does, or that
    cannot be told.
    """
    if schema is None:
        return ""
    if result.structured_content is None:
        return "The tool promises values, and its result has none."
    try:
        validator = _Plain(schema, registry=Registry())  # it fetches nothing
        wrong = best_match(validator.iter_errors(result.structured_content))
    except Exception:  # noqa: BLE001 # a schema that cannot be used promises nothing
        return ""
    if wrong is None:
        return ""
    return f"The result is not what the tool promises: {wrong.message}"[:MOST_REMARK]
