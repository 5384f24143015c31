"""Writes amounts with as many decimals as their type declares: 412.5 in cents becomes 412.50.

The record keeps equal amounts in one form, without trailing zeros. People and tools get amounts as
the type writes them. The value stays the same, and so does the digest.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal, localcontext
from functools import lru_cache
from typing import Any

from pydantic import BaseModel
from pydantic.errors import PydanticUserError
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import core_schema

from bot.tools.declared_secrets import LenientSchemaGenerator, ModelSchema

MOST_DIGITS = 4000  # before the point; as in the record
_PLACES = "x-decimal-places"  # in the JSON Schema that is only read here


def pad_decimal_places(args: BaseModel) -> BaseModel:
    """Change these arguments so that each amount has all of its declared decimals; return them."""
    schema = _find_decimal_schema(type(args))
    if schema is None:
        return args
    if type(args).__pydantic_root_model__:
        args.__dict__["root"] = _pad_value_decimals(args.__dict__["root"], [schema.root], schema)
        return args
    top = schema.list_equivalent_nodes([schema.root]).values()
    for name in type(args).model_fields.keys() & args.__dict__.keys():
        parts = schema.list_child_nodes(top, name)
        args.__dict__[name] = _pad_value_decimals(args.__dict__[name], parts, schema)
    return args


class _DecimalPlacesGenerator(LenientSchemaGenerator):
    """A JSON Schema generator that adds how many decimals each amount's type declares."""

    def generate_inner(self, schema: Any) -> JsonSchemaValue:
        # not with what a model's author has changed in its JSON Schema, which may hide amounts
        made = super().generate_inner({**schema, "metadata": {}})
        said = (schema.get("metadata") or {}).get("pydantic_js_updates") or {}
        places = schema.get("decimal_places") or said.get("decimal_places")
        return {**made, _PLACES: int(places)} if places else made

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def json_schema(self, schema: core_schema.JsonSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"]) if "schema" in schema else {}


@lru_cache(1024)
def _find_decimal_schema(model: type[BaseModel]) -> ModelSchema | None:
    """Return the JSON Schema of a model by its fields' names; None if it declares no decimals."""
    if "decimal_places" not in repr(model.__pydantic_core_schema__):
        return None
    try:
        return ModelSchema(
            model.model_json_schema(by_alias=False, schema_generator=_DecimalPlacesGenerator)
        )
    except PydanticUserError:
        return None


def _pad_value_decimals(value: Any, parts: Iterable[Any], schema: ModelSchema) -> Any:
    """Return the value with all declared decimals; `parts`: what the schema says of it."""
    if isinstance(value, BaseModel):  # its own schema says which of several models it is
        return pad_decimal_places(value)
    nodes = schema.list_equivalent_nodes(parts).values()

    def pad_part(step: str | int, part: Any) -> Any:
        return _pad_value_decimals(part, schema.list_child_nodes(nodes, step), schema)

    if isinstance(value, Decimal):
        return _pad_decimal(value, max((node.get(_PLACES, 0) for node in nodes), default=0))
    if isinstance(value, dict):
        value.update({key: pad_part(str(key), each) for key, each in value.items()})
    elif isinstance(value, list | tuple | set | frozenset):
        found = [pad_part(at, each) for at, each in enumerate(value)]
        return type(value)(*found) if hasattr(value, "_fields") else type(value)(found)
    elif hasattr(value, "__dataclass_fields__") and not isinstance(value, type):
        for name in value.__dataclass_fields__:
            object.__setattr__(value, name, pad_part(name, getattr(value, name, None)))
    return value


def _pad_decimal(value: Decimal, places: int) -> Decimal:
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int) or -exponent >= places or abs(value.adjusted()) > MOST_DIGITS:
        return value
    with localcontext() as context:
        context.prec = MOST_DIGITS + places + 2
        return value.quantize(Decimal(1).scaleb(-places))
