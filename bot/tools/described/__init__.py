"""Makes the argument model of a JSON Schema: one field per property, typed as far as possible.

What cannot be typed is a field for any JSON value; the whole schema is checked in either case.
"""

from __future__ import annotations

import copy
import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    SerializerFunctionWrapHandler,
    create_model,
    model_serializer,
    model_validator,
)
from pydantic_core import PydanticCustomError, PydanticKnownError

from bot.tools.described import checking
from bot.tools.names import ID_KEYWORD, SlackIdKind, build_id_validator
from bot.tools.registration import Schema
from storage.digest import MAX_SAFE_INTEGER

SchemaError = checking.UnfitSchemaError

MAX_VALUE_FIELDS = 500_000  # of all objects in one value: each takes memory, even if empty


@dataclass(frozen=True, slots=True)
class ObjectSchemaOutline:
    """The fields and schemas of one object in a JSON Schema."""

    schema: Schema  # as callers of the tool get it
    form: Schema  # the same by field names, for forms
    names: Mapping[str, str]  # field name by key
    never_null: frozenset[str]  # keys and fields for which null means "not given"
    may_have_extra_keys: bool
    checker: checking.SchemaChecker | None  # of the whole schema; None for a nested object
    most_inner_fields: int  # of the nested object with the most fields


class SchemaBasedArguments(BaseModel):
    """Base of the argument models that are made from a JSON Schema."""

    model_config = ConfigDict(
        extra="forbid",
        serialize_by_alias=True,
        validate_by_name=True,
        validate_by_alias=True,
        protected_namespaces=(),
    )
    _outline: ClassVar[ObjectSchemaOutline]

    @classmethod
    def may_have_extra_keys(cls) -> bool:
        """Return whether the model accepts keys that its schema does not name."""
        return cls._outline.may_have_extra_keys

    @classmethod
    def counts_null_as_left_out(cls, name: str) -> bool:
        """Return whether null says that this field is not given."""
        return name in cls._outline.never_null

    @classmethod
    def get_schema_checker(cls) -> checking.SchemaChecker | None:
        """Return the checker of the tool's whole schema; None for a nested object."""
        return cls._outline.checker

    @classmethod
    def model_json_schema(cls, *args: Any, **options: Any) -> Schema:
        """Return the tool's JSON schema; with `by_alias=False`, the one for drawing forms."""
        by_alias = args[0] if args else options.get("by_alias", True)
        return copy.deepcopy(cls._outline.schema if by_alias else cls._outline.form)

    @model_validator(mode="wrap")
    @classmethod
    def _validate_arguments(
        cls, value: Any, handler: ModelWrapValidatorHandler[SchemaBasedArguments]
    ) -> SchemaBasedArguments:
        outline = cls._outline
        if not isinstance(value, Mapping):
            return handler(value)
        if (
            outline.checker is not None
            and outline.most_inner_fields * _count_objects(value) > MAX_VALUE_FIELDS
        ):
            raise checking.CHECK_LIMIT_ERROR
        values = {k: v for k, v in value.items() if v is not None or k not in outline.never_null}
        extra: dict[str, Any] = {}
        if outline.may_have_extra_keys:
            named_keys = {*outline.names, *outline.names.values()}
            extra = {
                key: normalise_json_value(values.pop(key))
                for key in [*values]
                if key not in named_keys
            }
        arguments = handler(values)
        if extra:
            object.__setattr__(arguments, "__pydantic_extra__", extra)
        if outline.checker is not None:
            outline.checker.check(cls.__name__, arguments.model_dump())
        return arguments

    @model_serializer(mode="wrap")
    def _serialise_given_values(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        whole = handler(self)
        found: dict[str, Any] = {}
        for key, name in self._outline.names.items():
            called = key if key in whole else name
            if name in self.model_fields_set and called in whole:
                found[called] = whole[called]
        return {**found, **(self.__pydantic_extra__ or {})}


def _count_objects(value: Any) -> int:
    found, left = 0, [value]
    while left:
        each = left.pop()
        if isinstance(each, Mapping):
            found += 1
            left += each.values()
        elif isinstance(each, list):
            left += each
    return found


def normalise_json_value(value: Any) -> Any:
    """Return a JSON value with each number as it will be read back after it was stored.

    Raises PydanticCustomError for what JSON does not have.
    """
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int | float):
        return normalise_json_number(value)
    if isinstance(value, list | tuple):
        return [normalise_json_value(each) for each in value]
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: normalise_json_value(each) for key, each in value.items()}
    raise PydanticCustomError("json_value", "Input should be a JSON value")


def normalise_json_number(value: float) -> int | float:
    """Return a number as it will be read back after it was stored as JSON.

    Raises PydanticCustomError if its value would change.
    """
    if isinstance(value, int) and abs(value) > MAX_SAFE_INTEGER:
        value = _convert_to_equal_float(value)
    if not math.isfinite(value):
        raise PydanticCustomError("json_number", "Input has more digits than a number can keep")
    return value


def _convert_to_equal_float(value: int) -> float:
    """Return the equal float of a large integer; NaN if no float equals it."""
    try:
        found = float(value)
    except OverflowError:
        return math.nan
    return found if value in (int(found), int(Decimal(repr(found)))) else math.nan


def check_not_boolean(value: Any) -> Any:
    """Return the value; raise an error for true and false, which Python counts as numbers."""
    if isinstance(value, bool):
        raise PydanticKnownError("float_type")
    return value


# The schema of one value, with references resolved and `allOf` parts merged. Pure.

_MAX_FOLLOWED_REFERENCES = 200  # references and allOf parts for one value
_MAX_ALTERNATIVES_DEPTH = 20  # nested alternatives
_NULL_SCHEMA = {"type": "null"}


def resolve_references(node: Any, root: Schema) -> Schema:
    """Return a schema node with its references and `allOf` parts merged into it.

    Raises SchemaError for a reference that leads to itself.
    """
    return _follow_references(node, root, [_MAX_FOLLOWED_REFERENCES])


def _follow_references(node: Any, root: Schema, budget: list[int]) -> Schema:
    budget[0] -= 1
    if budget[0] < 0:
        raise SchemaError("A reference in the schema leads to itself, or to too many others.")
    if not isinstance(node, dict):
        return {}
    merged = {key: each for key, each in node.items() if key not in ("$ref", "allOf")}
    parts = [checking.get_referenced_schema(root, node["$ref"])] if "$ref" in node else []
    parts += node["allOf"] if isinstance(node.get("allOf"), list) else []
    for each in parts:
        merged = _merge_schemas(merged, _follow_references(each, root, budget))
    return merged


def _merge_schemas(one: Schema, other: Schema) -> Schema:
    """Return both schemas as one; where both have a keyword, the first one's counts."""
    made = {**other, **one}
    if "properties" in one and "properties" in other:
        made["properties"] = {**other["properties"], **one["properties"]}
    if "required" in one and "required" in other:
        made["required"] = list(dict.fromkeys([*other["required"], *one["required"]]))
    return made


def split_null_from_schema(node: Any, root: Schema, depth: int = 0) -> tuple[Schema, bool]:
    """Return the schema of a value other than null, and whether null is allowed as well.

    Raises SchemaError for a reference that leads to itself.
    """
    if depth > _MAX_ALTERNATIVES_DEPTH:
        raise SchemaError("A reference in the schema leads to itself.")
    merged, nullable = resolve_references(node, root), False
    if isinstance(merged.get("type"), list):
        types = [each for each in merged["type"] if each != "null"]
        nullable = len(types) < len(merged["type"])
        merged["type"] = types[0] if len(types) == 1 else types
    for key in ("anyOf", "oneOf"):
        options = [resolve_references(each, root) for each in merged.get(key, ())]
        non_null = [each for each in options if each.get("type") != "null"]
        nullable |= len(non_null) < len(options)
        if len(non_null) == 1:
            rest = {name: each for name, each in merged.items() if name != key}
            inner, also = split_null_from_schema(_merge_schemas(rest, non_null[0]), root, depth + 1)
            return inner, nullable or also
        if options:
            merged[key] = non_null
    if isinstance(merged.get("enum"), list) and None in merged["enum"]:
        merged["enum"], nullable = [each for each in merged["enum"] if each is not None], True
    return merged, nullable


def is_object_schema(found: Schema) -> bool:
    """Return whether the schema describes an object with named properties."""
    return found.get("type", "object") == "object" and isinstance(found.get("properties"), dict)


def schema_allows_extra_keys(found: Schema) -> bool:
    """Return whether an object accepts keys that its schema does not name.

    It does if the schema says so, or names no keys at all.
    """
    if "patternProperties" in found:  # the check of the whole schema judges other keys
        return True
    return found.get("additionalProperties", "properties" not in found) is not False


def build_form_schema(node: Any, root: Schema, *, optional: bool) -> Schema:
    """Return a value's schema as a form needs it, with null allowed if the value is `optional`."""
    found, nullable = split_null_from_schema(node, root)
    if isinstance(found.get("items"), dict):
        found = {**found, "items": resolve_references(found["items"], root)}
    return {"anyOf": [found, _NULL_SCHEMA]} if nullable or optional else found


MAX_OBJECT_DEPTH = 4  # nested objects with fields of their own; deeper ones are edited as JSON
MAX_INNER_FIELDS = 3_000  # of all nested objects together; the rest is edited as JSON
MAX_CHOICES = 100  # per field; with more, it takes JSON that is checked against the schema
_FIELD_NAME_PATTERN = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,79}")
Whole = Annotated[int, BeforeValidator(check_not_boolean)]
Number = Annotated[
    int | float, BeforeValidator(check_not_boolean), AfterValidator(normalise_json_number)
]
Json = Annotated[Any, AfterValidator(normalise_json_value)]
_PLAIN_TYPES: dict[str, Any] = {"string": str, "integer": Whole, "number": Number, "boolean": bool}
_LITERAL: Any = Literal  # as Any, since the values are known only at run time
_LIST: Any = list  # the same, for types


def build_argument_model(schema: Mapping[str, Any], name: str) -> type[BaseModel]:
    """Return the argument model of a JSON Schema of an object (2020-12, or an earlier draft).

    `name` is the tool's name. Values are dumped exactly as they were given: an optional value that
    was left out stays out, and null counts as left out where null itself is not allowed. Values are
    checked against the whole schema, and errors are reported at their field. A key that the schema
    does not name is refused, unless the schema allows more keys or names none. The same schema and
    name give the same model.

    Raises SchemaError for a schema that describes no object, is too large, refers to other
    documents, or could take endless time to check.
    """
    return _build_cached_model(checking.dump_schema(schema), name)


@lru_cache(512)
def _build_cached_model(text: str, name: str) -> type[BaseModel]:
    whole = checking.normalise_schema(text)
    checker = checking.SchemaChecker(whole)
    top = resolve_references(whole, whole)
    if top.get("type", "object") != "object":
        raise SchemaError("The schema is not one of an object.")
    return _ModelBuilder(whole, checker).build_model({"properties": {}, **top}, top, name, 0)


class _ModelBuilder:
    """Makes the models of one schema, one for each different object."""

    def __init__(self, whole: Schema, checker: checking.SchemaChecker) -> None:
        self._whole, self._checker = whole, checker
        self._models: dict[str, type[SchemaBasedArguments] | None] = {}
        self._left = MAX_INNER_FIELDS

    def build_model(
        self, merged: Schema, written: Schema, name: str, depth: int
    ) -> type[SchemaBasedArguments]:
        """Return the model of an object that the schema `written` describes.

        `merged`: the same schema with its references and `allOf` parts merged into it.
        """
        properties, required = merged["properties"], set(merged.get("required", ()))
        names = _choose_field_names(properties)
        fields: dict[str, Any] = {}
        for key, field_name in names.items():
            fields[field_name] = self._build_field(
                key, field_name, properties[key], key in required, depth
            )
        model: type[SchemaBasedArguments] = create_model(
            name, __base__=SchemaBasedArguments, **fields
        )
        optional = [key for key in properties if key not in required]
        silent = [key for key in optional if not self._checker.is_null_allowed(properties[key])]
        within = (len(each.model_fields) for each in self._models.values() if each)
        model._outline = ObjectSchemaOutline(
            schema=self._build_top_schema(merged, schema_allows_extra_keys(written))
            if depth == 0
            else merged,
            form={
                "type": "object",
                "properties": {
                    field_name: build_form_schema(
                        properties[key], self._whole, optional=key not in required
                    )
                    for key, field_name in names.items()
                },
            },
            names=names,
            never_null=frozenset({*silent, *(names[key] for key in silent)}),
            may_have_extra_keys=schema_allows_extra_keys(written),
            checker=self._checker if depth == 0 else None,
            most_inner_fields=max(within, default=0),
        )
        return model

    def _build_top_schema(self, top: Schema, free: bool) -> Schema:
        """Return the whole schema with the object's properties at the top level.

        `free`: whether keys that the schema does not name are accepted.
        """
        required = {"required": top["required"]} if top.get("required") else {}
        shown = {"type": "object", "properties": top["properties"], **required}
        more = {} if free else {"additionalProperties": False}
        return {**self._whole, **shown, **more}

    def _build_field(
        self, key: str, field_name: str, schema: Schema, required: bool, depth: int
    ) -> Any:
        merged, nullable = split_null_from_schema(schema, self._whole)
        type_ = self._build_type(merged, field_name, depth)
        description = merged.get("description")
        field_options: dict[str, Any] = {
            "alias": key if key != field_name else None,
            "title": schema.get("title") if isinstance(schema.get("title"), str) else None,
            "description": description if isinstance(description, str) else None,
        }
        if required:
            return (type_ | None if nullable else type_, Field(**field_options))
        return (type_ | None, Field(default_factory=_return_none, **field_options))

    def _build_type(self, schema: Schema, name: str, depth: int) -> Any:
        choices = [schema["const"]] if "const" in schema else schema.get("enum")
        if choices:
            are_plain = all(isinstance(each, str | int) for each in choices[:MAX_CHOICES])
            # with more, each error of the field would list them all; the schema's check does not
            are_plain = are_plain and len(choices) <= MAX_CHOICES
            return _LITERAL[tuple(choices)] if are_plain else Json
        kind = schema.get("type")
        if isinstance(kind, str) and kind in _PLAIN_TYPES and not _has_alternatives(schema):
            id_kind = next((each for each in SlackIdKind if each == schema.get(ID_KEYWORD)), None)
            if kind == "string" and id_kind:
                return Annotated[str, build_id_validator(id_kind)]
            return _PLAIN_TYPES[kind]
        if depth >= MAX_OBJECT_DEPTH:
            return Json
        if (
            kind == "array"
            and isinstance(schema.get("items"), dict)
            and "prefixItems" not in schema
        ):
            inner, nullable = split_null_from_schema(schema["items"], self._whole)
            type_ = self._build_type(inner, name, depth + 1)
            return _LIST[type_ | None if nullable else type_]
        if is_object_schema(schema) and not _has_alternatives(schema):
            return self._build_inner_model(schema, name, depth)
        return Json

    def _build_inner_model(self, schema: Schema, name: str, depth: int) -> Any:
        """Return the model of an inner object; any JSON if it contains itself or is too large."""
        if self._left < 0:
            return Json
        text = json.dumps(schema, sort_keys=True)
        if text not in self._models:
            self._models[text] = None
            self._left -= len(schema["properties"])
            if self._left < 0:
                return Json
            self._models[text] = self.build_model(schema, schema, name, depth + 1)
        return self._models[text] or Json


def _return_none() -> None:
    """Return None, the default of a field that was not given."""


def _has_alternatives(found: Schema) -> bool:
    return any(key in found for key in ("anyOf", "oneOf"))


def _choose_field_names(keys: Iterable[str]) -> dict[str, str]:
    """Return a field name for each key: the key itself if it is a valid and free name."""
    all_keys = list(keys)
    names: dict[str, str] = {}
    for key in all_keys:
        name = key
        if not _FIELD_NAME_PATTERN.fullmatch(key) or hasattr(SchemaBasedArguments, key):
            name = re.sub(r"[^A-Za-z0-9_-]+", "_", key).strip("_")[:70]
            name = name if name[:1].isalpha() else f"field_{name}"
            while name in all_keys or name in names.values() or hasattr(SchemaBasedArguments, name):
                name += "_"
        names[key] = name
    return names
