"""What a tool's arguments consist of: one Slot per value that is shown or edited by itself.

Pure: it reads the Pydantic model and the JSON values, and knows neither Slack's blocks nor how a
value is written. A nested model gives one slot per field of its own, one level deep; everything
deeper is one slot of JSON.
"""

from __future__ import annotations

import re
import types
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import Enum, StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, NewType, Union, get_args, get_origin

from pydantic import (
    AliasChoices,
    BaseModel,
    NaiveDatetime,
    RootModel,
    Secret,
    SecretBytes,
    SecretStr,
)
from pydantic.errors import PydanticInvalidForJsonSchema
from pydantic.fields import FieldInfo

from bot.messages.actions.names import ARGUMENT

if TYPE_CHECKING:  # slots are made of any model; only their signature names the tool
    from bot.tools import Tool


class Kind(StrEnum):
    """How a value is written and read back."""

    TEXT = "text"  # as it is
    EMAIL = "email"  # text, in Slack's e-mail input
    URL = "url"  # text, in Slack's address input
    INTEGER = "integer"  # a JSON number without a point, of any size
    FLOAT = "float"  # a JSON number
    DECIMAL = "decimal"  # a JSON string of digits; never goes through a float
    BOOLEAN = "boolean"  # yes or no
    CHOICE = "choice"  # one of the values an Enum or a Literal lists
    DATE = "date"  # YYYY-MM-DD
    TIME = "time"  # ISO 8601
    DATETIME = "datetime"  # ISO 8601
    LINES = "lines"  # a list of strings, one on each line
    PRESENCE = "presence"  # whether an optional nested model is there at all
    JSON = "json"  # whatever has no better form


class Mark(Enum):
    """Stand-ins for what no JSON value can say."""

    ABSENT = "absent"  # the arguments have no such key
    KEEP = "keep"  # leave what is there untouched


@dataclass(frozen=True, slots=True)
class Slot:
    """One value of the arguments."""

    # field names from the top: make the block id, and are what errors point at
    names: tuple[str, ...]
    keys: tuple[str, ...]  # the same as keys of the dumped arguments
    label: str  # "Address › City"
    hint: str  # the field's description
    kind: Kind
    nullable: bool  # accepts None
    schema: Mapping[str, Any]  # JSON schema of what is not None, references resolved at the top
    called: tuple[frozenset[str], ...]  # for each step the names that Pydantic's errors may give it
    secret: bool = False  # nobody may read it
    editable: bool = True
    within_optional: bool = False  # belongs to a nested model that may be unset as a whole
    naive: bool = False  # a date-time that must not have a time zone

    @property
    def block_id(self) -> str:
        """The id of its input: "f:amount", "f:address.city"."""
        return ARGUMENT + ".".join(self.names)


_FORMATS = {
    "email": Kind.EMAIL,
    "uri": Kind.URL,
    "date": Kind.DATE,
    "time": Kind.TIME,
    "date-time": Kind.DATETIME,
}
_BY_TYPE = {str: Kind.TEXT, bool: Kind.BOOLEAN, int: Kind.INTEGER, float: Kind.FLOAT}
_KEY = re.compile(r"[A-Za-z0-9_-]{1,80}")  # that can name an input
_TYPES = {"boolean": Kind.BOOLEAN, "integer": Kind.INTEGER, "number": Kind.FLOAT}


def slots(tool: Tool[Any], arguments: Mapping[str, Any]) -> tuple[Slot, ...]:
    """List the slots of these arguments: the model's fields in order, then keys the model lacks."""
    found: list[Slot] = []
    model: type[BaseModel] = tool.arguments
    known = {dump_key(model, name, field) for name, field in model.model_fields.items()}
    for name in model.model_fields:
        whole, parts = _field_slots(model)[name]
        editable = tool.editable is None or name in tool.editable
        value = arguments.get(whole.keys[0])
        if name in tool.secret:
            found.append(replace(whole, secret=True))
        elif parts and (isinstance(value, Mapping) or (value is None and whole.nullable)):
            found += (replace(part, editable=editable) for part in parts)
        else:
            found.append(replace(whole, editable=editable))
    known |= model.model_computed_fields.keys()
    takes_more = getattr(model, "takes_more", None)  # of a model that a schema describes
    free = tool.editable is None and takes_more is not None and takes_more()
    found += (
        _beside(key, value, free and bool(_KEY.fullmatch(key)))
        for key, value in arguments.items()
        if key not in known
    )
    return tuple(found)


def _beside(key: str, value: Any, editable: bool) -> Slot:
    """The slot of a value that the model has no field for, written as what it is."""
    kind = next((kind for type_, kind in _BY_TYPE.items() if type(value) is type_), Kind.JSON)
    called = (frozenset({key}),)
    return Slot(
        (key,),
        (key,),
        humanised(key),
        "",
        kind if editable else Kind.JSON,
        not editable,
        {},
        called,
        editable=editable,
    )


def lookup(arguments: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    """Return the value at these keys; Mark.ABSENT where the way there ends early."""
    value: Any = arguments
    for key in keys:
        if not isinstance(value, Mapping) or key not in value:
            return Mark.ABSENT
        value = value[key]
    return value


def humanised(name: str) -> str:
    """A field name as a label: "order_id" -> "Order id"."""
    words = " ".join(name.replace("_", " ").split())
    return words[:1].upper() + words[1:] or name


def dump_key(model: type[BaseModel], name: str, field: FieldInfo) -> str:
    """Return the key that model_dump() gives the field."""
    if not model.model_config.get("serialize_by_alias"):
        return name
    return field.serialization_alias or field.alias or name


@lru_cache(maxsize=512)
def _field_slots(model: type[BaseModel]) -> dict[str, tuple[Slot, tuple[Slot, ...]]]:
    """For each field its slot as a whole and, for a nested model, the slots it falls into."""
    found: dict[str, tuple[Slot, tuple[Slot, ...]]] = {}
    for name, whole in _own_slots(model).items():
        inner = _unwrapped(model.model_fields[name].annotation)
        parts: tuple[Slot, ...] = ()
        if (
            isinstance(inner, type)
            and issubclass(inner, BaseModel)
            and not issubclass(inner, RootModel)
        ):
            parts = tuple(_below(whole, part) for part in _own_slots(inner).values())
        if parts and whole.nullable:
            parts = (replace(whole, kind=Kind.PRESENCE, secret=False), *parts)
        found[name] = (whole, parts)
    return found


def _below(whole: Slot, part: Slot) -> Slot:
    return replace(
        part,
        names=whole.names + part.names,
        keys=whole.keys + part.keys,
        called=whole.called + part.called,
        label=f"{whole.label} › {part.label}",
        within_optional=whole.nullable,
    )


def _own_slots(model: type[BaseModel]) -> dict[str, Slot]:
    """A slot for each field of the model, none of them divided."""
    try:
        schema = model.model_json_schema(by_alias=False)
    except PydanticInvalidForJsonSchema:
        schema = {}  # every field falls back to JSON
    # A model that contains itself is a reference at the top as well.
    properties = _resolved(schema, schema)[0].get("properties", {})
    found = {}
    for name, field in model.model_fields.items():
        inner, nullable = _resolved(properties.get(name, {}), schema)
        core = _unwrapped(field.annotation)
        found[name] = Slot(
            names=(name,),
            keys=(dump_key(model, name, field),),
            label=field.title or humanised(name),
            hint=field.description or "",
            kind=_kind(inner, core, schema),
            nullable=nullable,
            schema=inner,
            called=(_called(name, field),),
            secret=_hides(field.annotation, set()),
            naive=core is NaiveDatetime,
        )
    return found


def _called(name: str, field: FieldInfo) -> frozenset[str]:
    names = {name}
    for alias in (field.alias, field.validation_alias):
        for choice in alias.choices if isinstance(alias, AliasChoices) else [alias]:
            if choice is not None:
                names.add(choice if isinstance(choice, str) else str(choice.path[0]))
    return frozenset(names)


def _resolved(schema: Mapping[str, Any], root: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """The schema without references and without null, and whether it accepted null."""
    found, nullable = dict(schema), False
    while True:
        if "$ref" in found:
            target = root.get("$defs", {}).get(str(found.pop("$ref")).rpartition("/")[2], {})
            found = {**target, **found}
            continue
        options = [option for option in found.get("anyOf", ()) if option.get("type") != "null"]
        if len(options) != len(found.get("anyOf", ())):
            nullable = True
            found["anyOf"] = options
        if len(options) != 1:
            break
        del found["anyOf"]
        found = {**found, **options[0]}
    if None in found.get("enum", ()):
        nullable = True
        found["enum"] = [value for value in found["enum"] if value is not None]
    return found, nullable


def _kind(schema: Mapping[str, Any], core: Any, root: Mapping[str, Any]) -> Kind:
    if schema.get("enum") or schema.get("const") is not None:
        return Kind.CHOICE
    if core is Decimal:
        return Kind.DECIMAL
    match schema.get("type"):
        case "string":
            return _FORMATS.get(schema.get("format", ""), Kind.TEXT)
        case "array" if "prefixItems" not in schema:
            items = _resolved(schema.get("items", {}), root)
            return Kind.LINES if items[0].get("type") == "string" and not items[1] else Kind.JSON
        case type_:
            return _TYPES.get(str(type_), Kind.JSON)


def _unwrapped(annotation: Any) -> Any:
    """The type inside Annotated, Optional, NewType and aliases.

    The annotation itself where that is not one type.
    """
    while True:
        if get_origin(annotation) is Annotated:
            annotation = get_args(annotation)[0]
        elif isinstance(annotation, NewType):
            annotation = annotation.__supertype__
        elif hasattr(annotation, "__value__"):
            annotation = annotation.__value__
        elif get_origin(annotation) in (Union, types.UnionType):
            inner = [arg for arg in get_args(annotation) if arg is not types.NoneType]
            if len(inner) != 1:
                return annotation
            annotation = inner[0]
        else:
            return annotation


def _hides(annotation: Any, seen: set[Any]) -> bool:
    """Whether a Pydantic secret is anywhere in the annotation, or in the models it names."""
    annotation = _unwrapped(annotation)
    origin = get_origin(annotation) or annotation
    if isinstance(origin, type) and issubclass(origin, SecretStr | SecretBytes | Secret):
        return True
    if any(_hides(arg, seen) for arg in get_args(annotation) if not isinstance(arg, str | int)):
        return True
    if not (isinstance(origin, type) and issubclass(origin, BaseModel)) or origin in seen:
        return False
    seen.add(origin)
    return any(_hides(field.annotation, seen) for field in origin.model_fields.values())
