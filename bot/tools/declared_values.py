"""What a call's tool and argument schema declare of its values: secrets, and decimals. Pure.

A schema declares a secret by `writeOnly` or `format: password`, at any depth and behind references
and alternatives; a Python model by Pydantic's secret types. Where several alternatives might
describe a value, one that calls it secret is enough.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import lru_cache
from typing import Any
from urllib.parse import quote, quote_plus, unquote

import re2  # type: ignore[import-untyped] # ships no types
from pydantic import BaseModel, Secret, SecretBytes, SecretStr, ValidationError
from pydantic.errors import PydanticUserError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaValue
from pydantic_core import InitErrorDetails, PydanticCustomError, core_schema, to_jsonable_python

MAX_SCHEMA_LOOKUPS = 100_000  # visits to schema nodes, for all values of one call
_COMBINING_KEYWORDS = ("allOf", "anyOf", "oneOf")  # their schemas all describe the same value
_CONDITIONAL_KEYWORDS = ("if", "then", "else")
_SECRET_TYPES = (SecretStr, SecretBytes, Secret)
Node = Mapping[str, Any]
ValuePath = tuple[str | int, ...]  # as in storage.masking
MASK = "••••••••"  # the same as in storage.masking
_UNICODE_ESCAPE_PATTERN = re.compile(r"(?<!\\)((?:\\\\)*)\\u([0-9a-fA-F]{4})")
_BACKSLASH_PATTERN = re.compile(r"\\\\")
_QUOTE_PATTERN = re.compile("['\"]")


@dataclass(frozen=True, slots=True)
class ModelSchema:
    """A JSON Schema of a model, to be walked in parallel with a value of the model."""

    root: Node

    def list_equivalent_nodes(self, nodes: Iterable[Any]) -> dict[int, Node]:
        """Return these schema nodes, and all others that describe the same value, by object id."""
        equivalent: dict[int, Node] = {}
        pending = list(nodes)
        while pending:
            node = pending.pop()
            if not isinstance(node, Mapping) or id(node) in equivalent:
                continue
            equivalent[id(node)] = node
            if isinstance(node.get("$ref"), str):
                pending.append(self._resolve_reference(node["$ref"]))
            for key in _COMBINING_KEYWORDS:
                pending += node[key] if isinstance(node.get(key), list) else ()
            pending += (node[key] for key in _CONDITIONAL_KEYWORDS if key in node)
            dependent = node.get("dependentSchemas")
            pending += dependent.values() if isinstance(dependent, Mapping) else ()
        return equivalent

    def _resolve_reference(self, reference: str) -> Any:
        found: Any = self.root
        for step in reference[1:].split("/")[1:]:
            key = unquote(step).replace("~1", "/").replace("~0", "~")
            try:
                found = found[int(key)] if isinstance(found, list) else found[key]
            except (LookupError, ValueError, TypeError):  # a broken reference
                return None
        return found

    def list_child_nodes(self, nodes: Iterable[Node], step: str | int) -> list[Any]:
        """Return the schema nodes for the value at this key or list position."""
        return [
            part
            for node in nodes
            for part in (
                _list_property_nodes(node, step)
                if isinstance(step, str)
                else _list_item_nodes(node, step)
            )
        ]


def _list_property_nodes(node: Node, key: str) -> Iterator[Any]:
    properties, patterns = node.get("properties"), node.get("patternProperties")
    named = False
    if isinstance(properties, Mapping) and key in properties:
        named = True
        yield properties[key]
    for pattern, part in patterns.items() if isinstance(patterns, Mapping) else ():
        if _may_match_pattern(pattern, key):
            named = True
            yield part
    if not named:
        yield node.get("additionalProperties")


def rewrite_pattern_for_re2(pattern: str) -> str:
    """Return a schema's pattern with the escapes that RE2 lacks (\\u0041) as it writes them."""
    return _UNICODE_ESCAPE_PATTERN.sub(r"\1\\x{\2}", pattern)


def _may_match_pattern(pattern: str, key: str) -> bool:
    """Whether a key may match this pattern; also true where RE2 cannot check the pattern."""
    options = re2.Options()
    options.log_errors = False
    try:
        return bool(re2.compile(rewrite_pattern_for_re2(pattern), options).search(key))
    except re2.error:
        return True


def _list_item_nodes(node: Node, place: int) -> Iterator[Any]:
    first = node.get("prefixItems")
    first = first if isinstance(first, list) else []
    yield first[place] if place < len(first) else node.get("items")
    yield node.get("contains")


def _is_marked_secret(node: Node) -> bool:
    """Whether a schema node declares its value secret, or text that contains a secret."""
    return (
        node.get("writeOnly") is True
        or str(node.get("format", "")).lower() == "password"
        or _has_secret_mark(node.get("contentSchema"))
    )


def _has_secret_mark(node: Any) -> bool:
    """Whether a schema node, or any node within it, declares a value secret."""
    if isinstance(node, Mapping):
        return _is_marked_secret(node) or any(map(_has_secret_mark, node.values()))
    return isinstance(node, list) and any(map(_has_secret_mark, node))


class LenientSchemaGenerator(GenerateJsonSchema):
    """A JSON Schema generator that never fails, for schemas that only this program reads."""

    def handle_invalid_for_json_schema(
        self, schema: core_schema.CoreSchema, error_info: str
    ) -> JsonSchemaValue:
        return {}

    def emit_warning(self, kind: Any, detail: str) -> None:
        """Ignore the warning: nobody else is given the schema."""


class _SecretMarkingGenerator(LenientSchemaGenerator):
    """A JSON Schema generator that marks each of Pydantic's secret types."""

    def json_or_python_schema(self, schema: core_schema.JsonOrPythonSchema) -> JsonSchemaValue:
        made = super().json_or_python_schema(schema)
        written: Any = schema.get("serialization") or {}
        # Pydantic itself marks SecretStr and SecretBytes, but none of its other secret types
        if getattr(written.get("function"), "__module__", "") == "pydantic.types":
            made = {**made, "writeOnly": True}
        return made


@lru_cache(1024)
def _list_secret_schemas(model: type[BaseModel]) -> tuple[ModelSchema, ...]:
    """Return the schemas of a model that declare a secret; none for most models.

    A value may be stored under its field's name or an alias, so all forms are looked at.
    """
    schemas = []
    modes: tuple[JsonSchemaMode, ...] = ("validation", "serialization")
    for mode in modes:
        for by_alias in (True, False):
            try:
                root = model.model_json_schema(
                    by_alias=by_alias, mode=mode, schema_generator=_SecretMarkingGenerator
                )
            except PydanticUserError:
                continue
            if _has_secret_mark(root):
                schemas.append(ModelSchema(root))
    return tuple(schemas)


def list_secret_paths(
    model: type[BaseModel], names: Iterable[str], values: Mapping[str, Any] | BaseModel
) -> frozenset[ValuePath]:
    """Return the paths of all secret values in these arguments, none within a secret value.

    `values`: as JSON, or as the model itself. `names`: fields that the tool itself declares secret.
    """
    whole = {key for name in names for key in _list_field_keys(model, name)}
    paths: set[ValuePath] = {(key,) for key, _ in _list_parts(values) if key in whole}
    descriptions = _list_secret_schemas(model)
    if not descriptions and isinstance(values, Mapping):
        return frozenset(paths)
    walk = _SecretWalker(descriptions)
    top = [each.list_equivalent_nodes([each.root]) for each in descriptions]
    is_whole = any(_is_marked_secret(node) for each in top for node in each.values())
    for key, value in _list_parts(values):
        if is_whole:
            paths.add((key,))
        elif key not in whole:
            walk.collect_secret_paths(value, (key,), walk.list_child_nodes(top, key), paths)
    return frozenset(paths)


@lru_cache(4096)
def may_path_hold_secrets(model: type[BaseModel], keys: tuple[str, ...]) -> bool:
    """Return whether the value at this path of `keys` may be secret or contain a secret."""
    for described in _list_secret_schemas(model):
        nodes = described.list_equivalent_nodes([described.root])
        is_within = any(map(_is_marked_secret, nodes.values()))
        for key in keys:
            nodes = described.list_equivalent_nodes(described.list_child_nodes(nodes.values(), key))
            is_within |= any(map(_is_marked_secret, nodes.values()))
        if is_within or _can_reach_secret_mark(described, nodes):
            return True
    return False


def _can_reach_secret_mark(described: ModelSchema, nodes: dict[int, Node]) -> bool:
    seen: dict[int, Any] = {}
    left: list[Any] = list(nodes.values())
    while left:
        node = left.pop()
        if id(node) in seen:
            continue
        seen[id(node)] = node
        if isinstance(node, Mapping):
            if _is_marked_secret(node):
                return True
            left += (*node.values(), *described.list_equivalent_nodes([node]).values())
        elif isinstance(node, list):
            left += node
    return False


class _SecretWalker:
    """A walk through the values of one call and, in parallel, the schemas that describe them."""

    def __init__(self, descriptions: tuple[ModelSchema, ...]) -> None:
        self._descriptions = descriptions
        self._left = MAX_SCHEMA_LOOKUPS

    def list_child_nodes(
        self, nodes: list[dict[int, Node]], step: str | int
    ) -> list[dict[int, Node]]:
        found = []
        for described, each in zip(self._descriptions, nodes, strict=True):
            made = (
                described.list_equivalent_nodes(described.list_child_nodes(each.values(), step))
                if each
                else {}
            )
            self._left -= len(each) + len(made)
            found.append(made)
        return found

    def collect_secret_paths(
        self, value: Any, path: ValuePath, nodes: list[dict[int, Node]], found: set[ValuePath]
    ) -> None:
        """Add the paths of a value's secrets to `found`; past the work limit, all are secret."""
        marked = any(_is_marked_secret(node) for each in nodes for node in each.values())
        if marked or isinstance(value, _SECRET_TYPES) or self._left < 0:
            found.add(path)
            return
        # members of a set have no path of their own, so one secret makes the whole set secret
        within = isinstance(value, set | frozenset)
        inner: set[ValuePath] = set()
        for step, part in _list_parts(value):
            below = self.list_child_nodes(nodes, step) if any(nodes) else nodes
            self.collect_secret_paths(part, (*path, step), below, inner)
        found |= {path} if within and inner else inner


def _list_parts(value: Any) -> Iterator[tuple[str | int, Any]]:
    """Yield the parts of a value with their keys or positions; nothing for a plain value."""
    if isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield get_dump_key(type(value), name), getattr(value, name, None)
        yield from (value.__pydantic_extra__ or {}).items()
    elif isinstance(value, Mapping):
        yield from ((str(key), each) for key, each in value.items())
    elif isinstance(value, list | tuple | set | frozenset):
        yield from enumerate(value)
    elif hasattr(value, "__dataclass_fields__") and not isinstance(value, type):
        yield from ((name, getattr(value, name, None)) for name in value.__dataclass_fields__)


def get_dump_key(model: type[BaseModel], name: str) -> str:
    """Return the key that model_dump() uses for a field."""
    field = model.model_fields[name]
    if not model.model_config.get("serialize_by_alias"):
        return name
    return field.serialization_alias or field.alias or name


def _list_field_keys(model: type[BaseModel], name: str) -> set[str]:
    """Return all keys under which a field's value may be stored: its name and aliases."""
    field = model.model_fields.get(name)
    aliases = [field.alias, field.serialization_alias, field.validation_alias] if field else []
    return {name, *(each for each in aliases if isinstance(each, str))}


def mask_at_paths(value: Any, paths: frozenset[ValuePath]) -> Any:
    """Return a copy of the value with a mask at each of these paths."""
    if () in paths:
        return None if value is None else MASK
    if not paths:
        return value
    masked_parts = {
        step: mask_at_paths(part, frozenset(path[1:] for path in paths if path[0] == step))
        for step, part in _list_parts(value)
    }
    if isinstance(value, BaseModel):
        masked = value.model_copy()
        steps = {get_dump_key(type(value), name): name for name in type(value).model_fields}
        for step, part in masked_parts.items():
            if step in steps:
                masked.__dict__[steps[str(step)]] = part
            elif masked.__pydantic_extra__ is not None:
                masked.__pydantic_extra__[str(step)] = part
        return masked
    return list(masked_parts.values()) if isinstance(value, list | tuple) else masked_parts


def mask_secret_texts(text: str, value: Any, paths: frozenset[ValuePath]) -> str:
    """Return a text with a mask in place of each secret of a value.

    A secret is also found with other white space, quoted as in Python or JSON, or URL-encoded.
    """
    secrets: set[str] = set()
    _collect_secret_texts(value, paths, secrets, within=False)
    for secret in sorted(secrets, key=len, reverse=True):
        as_python, as_json = repr(secret)[1:-1], json.dumps(secret)[1:-1]
        forms = (secret, as_python, as_json, json.dumps(secret, ensure_ascii=False)[1:-1])
        in_address = (encode(secret, safe="", errors="replace") for encode in (quote, quote_plus))
        for form in dict.fromkeys((*forms, *in_address)):
            text = re.sub(_build_search_pattern(form), MASK, text)
    return text


def _build_search_pattern(form: str) -> str:
    """Return a pattern for this text with any white space and any number of extra backslashes."""
    words = [_BACKSLASH_PATTERN.sub(r"\\\\+", re.escape(each)) for each in form.split() or [form]]
    return r"\s+".join(_QUOTE_PATTERN.sub(r"\\\\*\g<0>", each) for each in words)


def _collect_secret_texts(
    value: Any, paths: frozenset[ValuePath], found: set[str], *, within: bool
) -> None:
    within = within or () in paths
    if isinstance(value, _SECRET_TYPES):
        value = value.get_secret_value()
    if within and value not in (None, "", True, False) and not list(_list_parts(value)):
        found.add(value.decode(errors="replace") if isinstance(value, bytes) else str(value))
    for step, part in _list_parts(value) if within or paths else ():
        below = frozenset(path[1:] for path in paths if path and path[0] == step)
        _collect_secret_texts(part, below, found, within=within)


def dump_with_secrets(args: BaseModel, *, computed: bool = False) -> dict[str, Any]:
    """Return arguments as JSON values, secrets included, formatted as the tool's types declare.

    `computed`: include the model's computed fields.
    """
    given = args.model_dump(mode="python", exclude_computed_fields=not computed)
    values: dict[str, Any] = to_jsonable_python(_reveal_secrets(given))
    return values


def _reveal_secrets(value: Any) -> Any:
    if isinstance(value, _SECRET_TYPES):
        return _reveal_secrets(value.get_secret_value())
    if isinstance(value, dict):
        return {key: _reveal_secrets(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_reveal_secrets(each) for each in value]
    if isinstance(value, set | frozenset):  # mostly in the order in which they are stored
        members = (to_jsonable_python(_reveal_secrets(each)) for each in value)
        return sorted(members, key=lambda each: json.dumps(each, sort_keys=True))
    return value


# What a model's own validators raise for values that their author did not expect. Errors from
# looking up names are not among these.
_VALIDATOR_ERRORS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError)


def validate_json(model: type[BaseModel], text: str, names: object = None) -> BaseModel:
    """Parse arguments from JSON into a tool's model, with the declared decimals of each amount.

    `names` turns names into ids. Raises pydantic.ValidationError, also where the model's own code
    fails, and what the look-up of names raises.
    """
    try:
        args = model.model_validate_json(
            text, extra="forbid", by_alias=True, by_name=True, context=names
        )
    except _VALIDATOR_ERRORS as error:
        message = f"the tool's own check of these values failed ({type(error).__name__})"
        failed = PydanticCustomError("check_failed", "{message}", {"message": message})
        wrong = InitErrorDetails(type=failed, input=None)
        raise ValidationError.from_exception_data(model.__name__, [wrong]) from error
    return pad_decimal_places(args)


# Amounts are written with as many decimals as their type declares: 412.5 in cents becomes 412.50.
# The record keeps equal amounts in one form, without trailing zeros; people and tools get them as
# the type writes them. The value stays the same, and so does the digest.

MAX_DIGITS = 4000  # before the decimal point; as in storage.digest
_DECIMAL_PLACES_KEYWORD = "x-decimal-places"  # only in this module's own JSON Schema


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
        # ignores what the model's author has changed in its JSON Schema, which may hide amounts
        made = super().generate_inner({**schema, "metadata": {}})
        said = (schema.get("metadata") or {}).get("pydantic_js_updates") or {}
        places = schema.get("decimal_places") or said.get("decimal_places")
        return {**made, _DECIMAL_PLACES_KEYWORD: int(places)} if places else made

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
    """Return the value with all declared decimals; `parts`: the schema nodes that describe it."""
    if isinstance(value, BaseModel):  # the schema of this model: the field may allow several
        return pad_decimal_places(value)
    nodes = schema.list_equivalent_nodes(parts).values()

    def pad_part(step: str | int, part: Any) -> Any:
        return _pad_value_decimals(part, schema.list_child_nodes(nodes, step), schema)

    if isinstance(value, Decimal):
        return _pad_decimal(
            value, max((node.get(_DECIMAL_PLACES_KEYWORD, 0) for node in nodes), default=0)
        )
    if isinstance(value, dict):
        value.update({key: pad_part(str(key), each) for key, each in value.items()})
    elif isinstance(value, list | tuple | set | frozenset):
        padded = [pad_part(at, each) for at, each in enumerate(value)]
        return type(value)(*padded) if hasattr(value, "_fields") else type(value)(padded)
    elif hasattr(value, "__dataclass_fields__") and not isinstance(value, type):
        for name in value.__dataclass_fields__:
            object.__setattr__(value, name, pad_part(name, getattr(value, name, None)))
    return value


def _pad_decimal(value: Decimal, places: int) -> Decimal:
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int) or -exponent >= places or abs(value.adjusted()) > MAX_DIGITS:
        return value
    with localcontext() as context:
        context.prec = MAX_DIGITS + places + 2
        return value.quantize(Decimal(1).scaleb(-places))
