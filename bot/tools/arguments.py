"""Converts a tool's arguments: to canonical JSON, to its Pydantic model, to values people read."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from contextlib import nullcontext, suppress
from copy import deepcopy
from dataclasses import replace
from decimal import Decimal
from typing import Any

from pydantic import BaseModel, Secret, SecretBytes, SecretStr, ValidationError
from pydantic_core import to_jsonable_python

from bot.policy.condition_values import SlackId
from bot.policy.gates import Ask, Gate
from bot.tools import Tool
from bot.tools.declared_values import ValuePath, validate_json
from bot.tools.described.checking import allow_longer_schema_checks
from bot.tools.described.defaults import list_missing_defaults
from bot.tools.names import SlackIdResolver
from storage.digest import NonCanonicalValueError, canonical_json


def dump_arguments(args: BaseModel) -> str:
    """Return validated arguments as canonical JSON: what is stored, shown, digested and run.

    Secrets are written out. Raises NonCanonicalValueError.
    """
    try:
        values = to_jsonable_python(dump_values(args, exact=True))
    except UnicodeDecodeError as error:
        raise NonCanonicalValueError("bytes have to be text in UTF-8") from error
    return canonical_json(values)


def load_arguments(
    tool: Tool[Any], text: str, resolver: SlackIdResolver | None = None
) -> BaseModel:
    """Parse arguments from JSON into the tool's model.

    `resolver`, given for new arguments, turns names of people and channels into ids; stored ones
    have ids already. Raises pydantic.ValidationError when the arguments do not fit the model, and
    what the look-up raises.
    """
    with allow_longer_schema_checks() if resolver is None else nullcontext():
        return validate_json(tool.arguments, text, resolver)


def load_new_arguments(
    tool: Tool[Any], text: str, resolver: SlackIdResolver | None = None
) -> BaseModel:
    """Parse new arguments, making sure that what is stored of them is read as the same again.

    Values that were left out get the defaults of the tool's JSON Schema: they would run, so people
    and the policy see them. Raises what `load_arguments` and `dump_arguments` raise.
    """
    args = _fill_in_defaults(tool, load_arguments(tool, text, resolver), resolver)
    stored = dump_arguments(args)
    if dump_arguments(load_arguments(tool, stored)) != stored:
        raise NonCanonicalValueError("the tool reads back other values than it writes")
    return args


MAX_DEFAULTS_TRIED_SINGLY = 20  # each of them costs a check of all arguments


def _fill_in_defaults(
    tool: Tool[Any], args: BaseModel, resolver: SlackIdResolver | None
) -> BaseModel:
    """Return arguments with the schema's defaults, but for those that the schema does not allow."""
    missing = list_missing_defaults(args)
    if not missing:
        return args
    try:
        return _set_values(tool, args, missing, resolver)
    except ValidationError as error:
        refused = _find_refused_paths({path for path, _ in missing}, error)
    allowed = [each for each in missing if each[0] not in refused]
    for some in (allowed, *([each] for each in allowed[:MAX_DEFAULTS_TRIED_SINGLY])):
        with suppress(ValidationError):
            args = _set_values(tool, args, some, resolver)
            if some is allowed:
                break
    return args


def _find_refused_paths(paths: Collection[ValuePath], error: ValidationError) -> set[ValuePath]:
    """Return those of the paths at which an error is, or within whose value it is."""
    ways = [[loc[:n] for n in range(len(loc), 0, -1)] for loc in (e["loc"] for e in error.errors())]
    found = (next((each for each in way if each in paths), None) for way in ways)
    return {each for each in found if each}


def _set_values(
    tool: Tool[Any],
    args: BaseModel,
    values_by_path: Iterable[tuple[ValuePath, Any]],
    resolver: SlackIdResolver | None,
) -> BaseModel:
    values = args.model_dump(mode="json")
    for path, value in values_by_path:
        place: Any = values
        with suppress(LookupError):  # within a default that was refused
            for step in path[:-1]:
                place = place[step]
            place[path[-1]] = deepcopy(value)
    return load_arguments(tool, json.dumps(values), resolver)


def build_readable_arguments(
    tool: Tool[Any], text: str, names: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return stored arguments as JSON values, formatted as their types declare (40.00, not 40).

    With `names`, each id has its name beside it.
    """
    values = dump_values(load_arguments(tool, text))
    found: dict[str, Any] = to_jsonable_python(_add_names_to_ids(values, names or {}))
    return found


def _add_names_to_ids(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, SlackId) and value in names:
        return f"{names[value]} ({value})"
    if isinstance(value, dict):
        return {key: _add_names_to_ids(each, names) for key, each in value.items()}
    if isinstance(value, list):
        return [_add_names_to_ids(each, names) for each in value]
    return value


def dump_values(args: BaseModel, *, exact: bool = False) -> dict[str, Any]:
    """Return arguments by field, with the content of Pydantic's secret types, and with sets sorted.

    `exact`: write equal decimals (40.0 and 40.00) the same way.
    """
    given = args.model_dump(mode="python", exclude_computed_fields=True)
    values: dict[str, Any] = _normalise_and_reveal_secrets(given, exact)
    return values


def _normalise_and_reveal_secrets(value: Any, exact: bool) -> Any:
    if value is None or type(value) in (str, int, float, bool):  # most values are
        return value
    if isinstance(value, SecretStr | SecretBytes | Secret):
        return _normalise_and_reveal_secrets(value.get_secret_value(), exact)
    if isinstance(value, Decimal) and exact:  # 40.0 and 40.00 must give one text
        return json.loads(canonical_json(value))
    if isinstance(value, dict):
        return {key: _normalise_and_reveal_secrets(each, exact) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_normalise_and_reveal_secrets(each, exact) for each in value]
    # a set has no order, and the digest needs one
    if isinstance(value, set | frozenset):
        members = (_normalise_and_reveal_secrets(each, exact) for each in value)
        return sorted(members, key=lambda each: canonical_json(to_jsonable_python(each)))
    return value


def restrict_editable_fields(tool: Tool[Any], gate: Gate) -> Tool[Any]:
    """Return the tool with only those fields editable that the gate allows to be edited."""
    if not isinstance(gate, Ask) or gate.editable is None:
        return tool
    kept = frozenset(gate.editable)
    return replace(tool, editable=kept if tool.editable is None else kept & tool.editable)
