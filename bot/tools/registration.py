"""Checks that a tool definition is usable: its function, fields, sentences and preview.

Each check raises TypeError or ValueError with the tool's name and what is wrong.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from string import Formatter
from typing import Any, get_type_hints

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import core_schema

# The JSON Schema of a tool as the language model gets it: without what only forms for people need
# and without redundant words. Arguments are validated by the argument model, not by this schema.

# some servers cannot build grammars for larger bounds; validation still enforces those
MAX_REPETITIONS = 1_000
_MAX_EXACT_DIGITS = 15  # digits of a number that every JSON parser keeps exactly
# the meaning of \d, \w and \s in a pattern, spelled out for use within brackets
_CHARACTERS_BY_SHORTHAND = {"d": "0-9", "w": "A-Za-z0-9_", "s": " \\t\\n\\r"}
_PLAIN_IN_BRACKETS = frozenset("./+*?()$|{}")
_ESCAPE_OR_BRACKET_PATTERN = re.compile(r"\\(.)|[\[\]]", re.DOTALL)
# keywords whose value is a map of schemas, a list of schemas, or one schema
_MAP_KEYWORDS = ("properties", "$defs", "patternProperties", "dependentSchemas")
_LIST_KEYWORDS = ("anyOf", "oneOf", "allOf", "prefixItems")
_CONDITIONALS = ("not", "if", "then", "else")
_SINGLE_KEYWORDS = ("items", "additionalProperties", "propertyNames", "contains", *_CONDITIONALS)
# keywords that providers refuse at the top level; validation still enforces them
_REFUSED_AT_TOP = ("description", "$ref", "enum", "anyOf", "oneOf", "allOf", *_CONDITIONALS)

Schema = dict[str, Any]
Path = tuple[str, ...]


def build_tool_schema(model: type[BaseModel]) -> Schema:
    """Return the JSON Schema of an argument model as the language model gets it, shortened."""
    schema: Schema = _shorten_schema(
        model.model_json_schema(schema_generator=_DecimalSchemaGenerator)
    )
    for key in _REFUSED_AT_TOP:  # no loss: the tool has its own description
        schema.pop(key, None)
    takes_more = getattr(model, "may_have_extra_keys", None)  # models made from a JSON Schema
    if takes_more is not None and takes_more():
        return schema
    return schema | {"additionalProperties": False}


class _DecimalSchemaGenerator(GenerateJsonSchema):
    """A JSON Schema generator that adds a decimal's digit limits, which Pydantic leaves out."""

    def decimal_schema(self, schema: core_schema.DecimalSchema) -> Schema:
        json_schema = super().decimal_schema(schema)
        digits, places = schema.get("max_digits"), schema.get("decimal_places")
        if places is None or "anyOf" not in json_schema:
            return json_schema
        for option in json_schema["anyOf"]:
            if option.get("type") == "string":
                option["pattern"] = _build_digits_pattern(schema, digits, places)
            elif digits is not None and places <= digits <= _MAX_EXACT_DIGITS:
                largest = float(f"{10 ** (digits - places) - 1}.{'9' * places}")
                option["maximum"] = min(option.get("maximum", largest), largest)
        return json_schema


def _build_digits_pattern(
    schema: core_schema.DecimalSchema, digits: int | None, places: int
) -> str:
    least = schema.get("ge", schema.get("gt"))
    sign = "" if least is not None and least >= 0 else "-?"
    whole = "+" if digits is None else f"{{1,{max(digits - places, 1)}}}"
    return f"^{sign}[0-9]{whole}" + (rf"([.][0-9]{{1,{places}}})?$" if places else "$")


def _shorten_schema(schema: Any) -> Any:
    if not isinstance(schema, dict):  # true and false are schemas, too
        return schema
    kept = {key: each for key, each in schema.items() if key not in ("title", "x-id-of")}
    for key in ("maxLength", "maxItems"):
        if kept.get(key, 0) > MAX_REPETITIONS:
            del kept[key]
    if isinstance(kept.get("pattern"), str):
        kept["pattern"] = _expand_pattern_shorthands(kept["pattern"])
    kinds = kept.get("type")
    if kinds == "array" or (isinstance(kinds, list) and "array" in kinds):
        kept.setdefault("items", {})  # means the same, but OpenAI refuses requests without it
    kept = replace_inner_schemas(kept, lambda each, _: _shorten_schema(each))
    if "properties" in kept:
        titles = {name: each.get("title", "") for name, each in schema["properties"].items()}
        for name, each in kept["properties"].items():
            kept["properties"][name] = _add_title_as_description(
                _remove_null_default(each), name, titles[name]
            )
    return kept


def replace_inner_schemas(schema: Schema, replacement: Callable[[Any, Path], Any]) -> Schema:
    """Return the schema with each schema directly within it replaced.

    `replacement` is called with the schema and the keys that lead to it.
    """
    replaced = dict(schema)
    for key, value in schema.items():
        if key in _MAP_KEYWORDS and isinstance(value, dict):
            replaced[key] = {name: replacement(each, (key, name)) for name, each in value.items()}
        elif key in _LIST_KEYWORDS and isinstance(value, list):
            replaced[key] = [replacement(each, (key, str(at))) for at, each in enumerate(value)]
        elif key in _SINGLE_KEYWORDS and isinstance(value, dict):
            replaced[key] = replacement(value, (key,))
    return replaced


def _expand_pattern_shorthands(pattern: str) -> str:
    """Return the pattern without shorthands and escapes, which some servers cannot read."""
    within = False

    def spelt(match: re.Match[str]) -> str:
        nonlocal within
        escaped = match[1]
        if escaped is None:
            within = match[0] == "["
            return match[0]
        if escaped.lower() in _CHARACTERS_BY_SHORTHAND and (escaped.islower() or not within):
            inner = _CHARACTERS_BY_SHORTHAND[escaped.lower()]
            return inner if within else f"[{'' if escaped.islower() else '^'}{inner}]"
        if escaped in _PLAIN_IN_BRACKETS:
            return escaped if within else f"[{escaped}]"
        return match[0]

    return _ESCAPE_OR_BRACKET_PATTERN.sub(spelt, pattern)


def _remove_null_default(field: Schema) -> Schema:
    """Return a field that defaults to null with its plain type, without null and default."""
    options = field.get("anyOf", [])
    given = [each for each in options if each != {"type": "null"}]
    if given == options or "default" not in field or field["default"] is not None:
        return field
    rest = {key: each for key, each in field.items() if key not in ("anyOf", "default")}
    return given[0] | rest if len(given) == 1 else {"anyOf": given} | rest


def _add_title_as_description(field: Schema, name: str, title: str) -> Schema:
    """Return the field with its title as description, if the title says more than its name."""
    words = set(re.findall(r"\w+", title.lower()))
    if "description" in field or words <= set(name.lower().split("_")):
        return field
    return field | {"description": title}


REASON_FIELD = "reason_for_approver"
_FIELD_STEP_PATTERN = re.compile(r"\.(\w+)")


def get_argument_model(function: Callable[..., Any], name: str) -> type[BaseModel]:
    """Return the Pydantic model with which a tool's function annotates its first parameter."""
    parameters = list(inspect.signature(function).parameters)
    if len(parameters) != 2:
        raise TypeError(f"tool {name}: the function takes (args, context)")
    model = _get_type_hints(function).get(parameters[0])
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        raise TypeError(f"tool {name}: the first parameter must be annotated with a Pydantic model")
    return model


def check_option_values(tool: Any) -> None:
    """Raise ValueError if an option of the tool has a value without a meaning."""
    for name, allowed in (("does", "read write destructive"), ("risk", "low medium high")):
        if (value := getattr(tool, name)) not in allowed.split():
            text = ", ".join(allowed.split())
            raise ValueError(f"tool {tool.name}: {name} is one of {text}, not {value!r}")
    for name in ("timeout", "max_output"):
        if not (value := getattr(tool, name)) > 0:
            raise ValueError(f"tool {tool.name}: {name} is more than 0, not {value!r}")


def check_field_names(
    tool_name: str, model: type[BaseModel], effect: str, **named: set[str] | None
) -> None:
    """Raise ValueError for a field name that is reserved, or unknown in `effect` or in `named`.

    Also for a field that Pydantic would leave out of what is stored, shown and run. `named`: the
    field names that each option of the tool, such as `secret`, gives.
    """
    if "serialization_exclude" in repr(model.__pydantic_core_schema__):
        raise ValueError(
            f"tool {tool_name}: a field with exclude= or exclude_if= is not stored, so approvers "
            "would not see its value and the function would not get it"
        )
    fields = set(model.model_fields)
    if REASON_FIELD in fields:
        raise ValueError(f"tool {tool_name}: the field name {REASON_FIELD} is reserved")
    for label, names in named.items():
        if unknown := (names or set()) - fields:
            raise ValueError(
                f"tool {tool_name}: {label} names unknown fields: {', '.join(sorted(unknown))}"
            )
    try:
        missing = [each for each in _list_template_fields(effect) if not _has_field(model, each)]
    except ValueError as error:
        raise ValueError(f"tool {tool_name}: effect is no template: {error}") from error
    if missing:
        text = ", ".join(each or "{}" for each in missing)
        raise ValueError(f"tool {tool_name}: effect names unknown fields: {text}")


def check_callback_parameters(
    tool_name: str,
    model: type[BaseModel],
    preview: Callable[..., Any] | None,
    outcome: Callable[..., Any] | None,
    step: Callable[..., Any] | None,
) -> None:
    """Raise TypeError for a preview, outcome or step function with the wrong parameters."""
    for what, function, parameters in (
        ("preview", preview, ("args", "context")),
        ("outcome", outcome, ("args", "result")),
        ("step", step, ("args",)),
    ):
        try:
            if function is not None:
                inspect.signature(function).bind(*parameters)
        except TypeError as error:
            raise TypeError(
                f"tool {tool_name}: the {what} takes ({', '.join(parameters)})"
            ) from error
    if preview is not None:
        _check_preview_model(tool_name, model, preview)


def _check_preview_model(
    tool_name: str, model: type[BaseModel], preview: Callable[..., Any]
) -> None:
    """Raise TypeError if the preview is annotated with another model than this tool's."""
    first = next(iter(inspect.signature(preview).parameters), "")
    try:
        wanted = _get_type_hints(preview).get(first)
    except (NameError, TypeError):  # imported for type checkers only, or not a plain function
        return
    if isinstance(wanted, type) and issubclass(wanted, BaseModel) and not issubclass(model, wanted):
        raise TypeError(
            f"tool {tool_name}: the preview takes {wanted.__name__}, the tool {model.__name__}"
        )


def _get_type_hints(function: Callable[..., Any]) -> dict[str, Any]:
    known = inspect.getclosurevars(function).nonlocals if inspect.isfunction(function) else {}
    return get_type_hints(function, localns=dict(known))


def _list_template_fields(template: str) -> Iterator[str]:
    """Yield the field names in a template, including those inside a format specification."""
    for _, name, spec, _ in Formatter().parse(template):
        if name is not None:
            yield name
            yield from _list_template_fields(spec or "")


def _has_field(model: type[BaseModel], name: str) -> bool:
    first = re.split(r"[.\[]", name, maxsplit=1)[0]
    field = model.model_fields.get(first)
    if field is None:
        return False
    step, inner = _FIELD_STEP_PATTERN.match(name, len(first)), field.annotation
    if step is None or not (isinstance(inner, type) and issubclass(inner, BaseModel)):
        return True
    return hasattr(inner, step[1]) or _has_field(inner, name[step.start(1) :])
