"""A tool's JSON schema as the model reads it: what people's forms need is left out, and so is what
says nothing. Validation keeps to the argument model, not to this.
"""

from __future__ import annotations

import re
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import core_schema

# beyond, some servers' grammars cannot be built; validation still keeps to the bound
MOST_REPEATED = 1_000
_MOST_DIGITS = 15  # that a JSON number keeps exactly everywhere
# what a backslash and this letter mean in a pattern, spelt out within brackets
_SETS = {"d": "0-9", "w": "A-Za-z0-9_", "s": " \\t\\n\\r"}
_PLAIN_IN_BRACKETS = frozenset("./+*?()$|{}")
_ESCAPE_OR_BRACKET = re.compile(r"\\(.)|[\[\]]", re.DOTALL)
_MAPS = ("properties", "$defs", "patternProperties")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLE = ("items", "additionalProperties", "not")
# what providers refuse at the top; validation still keeps to it
_NOT_AT_TOP = ("description", "$ref", "anyOf", "oneOf", "allOf", "not", "if", "then", "else")

Schema = dict[str, Any]


def written(model: type[BaseModel]) -> Schema:
    """The schema of an argument model in as few words as say everything."""
    schema: Schema = _plain(model.model_json_schema(schema_generator=_Bounded))
    for key in _NOT_AT_TOP:  # and the tool has a description of its own
        schema.pop(key, None)
    takes_more = getattr(model, "takes_more", None)  # of a model that a schema describes
    if takes_more is not None and takes_more():
        return schema
    return schema | {"additionalProperties": False}


class _Bounded(GenerateJsonSchema):
    """Writes the digits of a decimal, which Pydantic leaves out."""

    def decimal_schema(self, schema: core_schema.DecimalSchema) -> Schema:
        made = super().decimal_schema(schema)
        digits, places = schema.get("max_digits"), schema.get("decimal_places")
        if places is None or "anyOf" not in made:
            return made
        for option in made["anyOf"]:
            if option.get("type") == "string":
                option["pattern"] = _digits(schema, digits, places)
            elif digits is not None and places <= digits <= _MOST_DIGITS:
                largest = float(f"{10 ** (digits - places) - 1}.{'9' * places}")
                option["maximum"] = min(option.get("maximum", largest), largest)
        return made


def _digits(schema: core_schema.DecimalSchema, digits: int | None, places: int) -> str:
    least = schema.get("ge", schema.get("gt"))
    sign = "" if least is not None and least >= 0 else "-?"
    whole = "+" if digits is None else f"{{1,{max(digits - places, 1)}}}"
    return f"^{sign}[0-9]{whole}" + (rf"([.][0-9]{{1,{places}}})?$" if places else "$")


def _plain(schema: Any) -> Any:
    if not isinstance(schema, dict):  # true or false
        return schema
    kept = {key: each for key, each in schema.items() if key not in ("title", "x-id-of")}
    for key in ("maxLength", "maxItems"):
        if kept.get(key, 0) > MOST_REPEATED:
            del kept[key]
    if isinstance(kept.get("pattern"), str):
        kept["pattern"] = _spelt_out(kept["pattern"])
    for key in _MAPS:
        if key in kept:
            kept[key] = {name: _plain(each) for name, each in kept[key].items()}
    for key in _LISTS:
        if key in kept:
            kept[key] = [_plain(each) for each in kept[key]]
    for key in _SINGLE:
        if key in kept:
            kept[key] = _plain(kept[key])
    if "properties" in kept:
        titles = {name: each.get("title", "") for name, each in schema["properties"].items()}
        for name, each in kept["properties"].items():
            kept["properties"][name] = _said(_left_out(each), name, titles[name])
    return kept


def _spelt_out(pattern: str) -> str:
    """The same pattern without shorthands and escapes, over which some servers' grammars end."""
    within = False

    def spelt(found: re.Match[str]) -> str:
        nonlocal within
        escaped = found[1]
        if escaped is None:
            within = found[0] == "["
            return found[0]
        if escaped.lower() in _SETS and (escaped.islower() or not within):
            inner = _SETS[escaped.lower()]
            return inner if within else f"[{'' if escaped.islower() else '^'}{inner}]"
        if escaped in _PLAIN_IN_BRACKETS:
            return escaped if within else f"[{escaped}]"
        return found[0]

    return _ESCAPE_OR_BRACKET.sub(spelt, pattern)


def _left_out(field: Schema) -> Schema:
    """A field that is null unless given, as its plain type: the model leaves it out."""
    options = field.get("anyOf", [])
    given = [each for each in options if each != {"type": "null"}]
    if given == options or "default" not in field or field["default"] is not None:
        return field
    rest = {key: each for key, each in field.items() if key not in ("anyOf", "default")}
    return given[0] | rest if len(given) == 1 else {"anyOf": given} | rest


def _said(field: Schema, name: str, title: str) -> Schema:
    """The field with its title as its description, where that alone says more than its name."""
    words = set(re.findall(r"\w+", title.lower()))
    if "description" in field or words <= set(name.lower().split("_")):
        return field
    return field | {"description": title}
