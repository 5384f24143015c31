"""Writes amounts with as many decimals as their type declares: 412.5 in cents becomes 412.50.

The record keeps equal amounts in one form, without trailing zeros. People and tools get amounts as
the type writes them. The value stays the same, and so does the digest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal, localcontext
from functools import lru_cache
from typing import Any

from pydantic import BaseModel

MOST_DIGITS = 4000  # before the point; as in the record
Node = Mapping[str, Any]  # of Pydantic's core schema
_SAME = ("schema", "lax_schema", "strict_schema", "json_schema", "python_schema")  # same value


def pad_decimal_places(args: BaseModel) -> BaseModel:
    """Change these arguments so that each amount has all of its declared decimals; return them."""
    if _has_decimal_places(type(args)):
        _pad_model_decimals(args)
    return args


@lru_cache(1024)
def _has_decimal_places(model: type[BaseModel]) -> bool:
    return "decimal_places" in repr(model.__pydantic_core_schema__)


@lru_cache(1024)
def _get_schema_definitions(model: type[BaseModel]) -> Mapping[str, Node]:
    whole: Any = model.__pydantic_core_schema__
    return {each["ref"]: each for each in whole.get("definitions", ())}


def _pad_model_decimals(value: BaseModel) -> None:
    model = type(value)
    whole = [model.__pydantic_core_schema__]
    if model.__pydantic_root_model__:
        value.__dict__["root"] = _pad_value_decimals(value.__dict__["root"], [*whole], model)
        return
    parts = list(_list_equivalent_nodes(whole, model))
    for name in model.model_fields:
        if name in value.__dict__:
            below = list(_list_child_nodes(parts, name))
            value.__dict__[name] = _pad_value_decimals(value.__dict__[name], below, model)


def _pad_value_decimals(value: Any, nodes: list[Any], model: type[BaseModel]) -> Any:
    """Return the value with all declared decimals; `nodes` are the schema parts for the value."""
    if isinstance(value, BaseModel):
        _pad_model_decimals(value)
        return value
    parts = list(_list_equivalent_nodes(nodes, model))
    if isinstance(value, Decimal):
        return _pad_decimal(value, max(map(_get_declared_places, parts), default=0))
    if isinstance(value, dict):
        made = {
            key: _pad_value_decimals(each, list(_list_child_nodes(parts, key)), model)
            for key, each in value.items()
        }
        value.update(made)
    elif isinstance(value, list | tuple | set | frozenset):
        found = [
            _pad_value_decimals(each, list(_list_child_nodes(parts, n)), model)
            for n, each in enumerate(value)
        ]
        return type(value)(*found) if hasattr(value, "_fields") else type(value)(found)
    elif hasattr(value, "__dataclass_fields__") and not isinstance(value, type):
        for name in value.__dataclass_fields__:
            each = getattr(value, name, None)
            object.__setattr__(
                value, name, _pad_value_decimals(each, list(_list_child_nodes(parts, name)), model)
            )
    return value


def _get_declared_places(node: Node) -> int:
    """Return how many decimals a schema node declares, directly or in its metadata; 0 if none."""
    said = (node.get("metadata") or {}).get("pydantic_js_updates") or {}
    return int(node.get("decimal_places") or said.get("decimal_places") or 0)


def _pad_decimal(value: Decimal, places: int) -> Decimal:
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int) or -exponent >= places or abs(value.adjusted()) > MOST_DIGITS:
        return value
    with localcontext() as context:
        context.prec = MOST_DIGITS + places + 2
        return value.quantize(Decimal(1).scaleb(-places))


def _list_equivalent_nodes(nodes: list[Any], model: type[BaseModel]) -> Iterator[Node]:
    """Yield these schema nodes and all others that describe the same value."""
    definitions, left, seen = _get_schema_definitions(model), list(nodes), set()
    while left:
        node = left.pop()
        if not isinstance(node, Mapping) or id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        if node.get("type") == "definition-ref":
            left.append(definitions.get(node["schema_ref"]))
        left += (node[key] for key in _SAME if key in node)
        choices = node.get("choices", ())
        for choice in choices.values() if isinstance(choices, Mapping) else choices:
            left.append(choice[0] if isinstance(choice, tuple) else choice)
        left += node.get("steps", ())


def _list_child_nodes(parts: list[Node], step: Any) -> Iterator[Any]:
    """Yield the schema nodes for the value at this name, key or position within a value."""
    for node in parts:
        fields = node.get("fields")
        if isinstance(fields, Mapping) and step in fields:
            yield fields[step]
        elif isinstance(fields, list):
            named = (each for each in fields if isinstance(each, Mapping))
            yield from (each for n, each in enumerate(named) if step in (n, each.get("name")))
        items = node.get("items_schema")
        if isinstance(items, list) and isinstance(step, int) and items:
            yield items[min(step, len(items) - 1)]
        elif isinstance(items, Mapping):
            yield items
        yield node.get("values_schema")
