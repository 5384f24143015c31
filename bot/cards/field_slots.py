"""The slots of a tool's arguments: a FieldSlot for each value shown or edited by itself.

Pure: it reads the Pydantic model and the JSON values, and knows neither Slack's blocks nor how a
value is written. A nested model gives one slot per field of its own, one level deep; everything
deeper is one slot of JSON.
"""

from __future__ import annotations

import re
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import Enum, StrEnum
from functools import lru_cache
from typing import Annotated, Any, NewType, Union, get_args, get_origin

from pydantic import AliasChoices, BaseModel, NaiveDatetime, RootModel
from pydantic.errors import PydanticInvalidForJsonSchema
from pydantic.fields import FieldInfo

from bot.cards import slack_text
from bot.cards.action_names import ARGUMENT_BLOCK_ID_PREFIX
from bot.tools import Tool
from bot.tools.declared_values import get_dump_key, may_path_hold_secrets
from bot.tools.names import ID_KEYWORD
from storage.masking import ValuePath


class SlotKind(StrEnum):
    """The way a value is written for people and read back."""

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
    PERSON = "person"  # the Slack id of a person
    CHANNEL = "channel"  # the Slack id of a channel
    LINES = "lines"  # a list of strings, one on each line
    PEOPLE = "people"  # a list of Slack ids of people
    CHANNELS = "channels"  # a list of Slack ids of channels
    PRESENCE = "presence"  # whether an optional nested model is there at all
    EMPTY = "empty"  # a nested model that is set, but empty; its fields have the inputs
    JSON = "json"  # anything else


PICKER_BY_KIND = {  # Slack's elements for choosing people and channels
    SlotKind.PERSON: "users_select",
    SlotKind.PEOPLE: "multi_users_select",
    SlotKind.CHANNEL: "conversations_select",
    SlotKind.CHANNELS: "multi_conversations_select",
}
LIST_KINDS = (SlotKind.LINES, SlotKind.PEOPLE, SlotKind.CHANNELS)


class SlotSentinel(Enum):
    """Markers for what no JSON value can express: that there is no value, or that it stays."""

    ABSENT = "absent"  # the arguments have no such key
    KEEP = "keep"  # leave the current value as it is


@dataclass(frozen=True, slots=True)
class FieldSlot:
    """One value of a tool's arguments that is shown or edited by itself."""

    # field names from the top: they make the block id, and errors refer to them
    names: tuple[str, ...]
    keys: tuple[str, ...]  # the same names as keys of the dumped arguments
    label: str  # "Address › City"
    hint: str  # the field's description
    kind: SlotKind
    nullable: bool  # accepts None
    schema: Mapping[str, Any]  # JSON schema of values but None; references at the top are resolved
    # for each of `names`, what Pydantic's errors may call it
    error_names: tuple[frozenset[str], ...]
    secret: bool = False  # it is secret or may contain secrets, so it has no input
    # the parts of its value that are masked; () means all of it
    hidden_paths: frozenset[ValuePath] = frozenset()
    editable: bool = True
    is_within_optional: bool = False  # belongs to a nested model that may be unset as a whole
    is_naive_datetime: bool = False  # a date-time that must not have a time zone
    has_open_type: bool = False  # its type is not declared, or it may have several
    null_is_unset: bool = False  # null is its value when nothing is given
    has_secret_default: bool = False  # it may hold a secret
    default: Any = None  # where null counts as left out: what it then is, if the schema says so

    @property
    def block_id(self) -> str:
        """The block id of the slot's input, such as "f:amount" or "f:address.city"."""
        return ARGUMENT_BLOCK_ID_PREFIX + ".".join(self.names)


_KIND_BY_FORMAT = {
    "email": SlotKind.EMAIL,
    "uri": SlotKind.URL,
    "date": SlotKind.DATE,
    "time": SlotKind.TIME,
    "date-time": SlotKind.DATETIME,
}
_KIND_BY_PYTHON_TYPE = {
    str: SlotKind.TEXT,
    bool: SlotKind.BOOLEAN,
    int: SlotKind.INTEGER,
    float: SlotKind.FLOAT,
}
_KIND_BY_ID_KEYWORD = {"person": SlotKind.PERSON, "channel": SlotKind.CHANNEL}
_LIST_KIND_BY_ID_KEYWORD = {"person": SlotKind.PEOPLE, "channel": SlotKind.CHANNELS}
_INPUT_KEY_PATTERN = re.compile(r"[A-Za-z0-9_-]{1,80}")  # keys that an input can be named by
_KIND_BY_JSON_TYPE = {
    "boolean": SlotKind.BOOLEAN,
    "integer": SlotKind.INTEGER,
    "number": SlotKind.FLOAT,
}


def build_slots(tool: Tool[Any], arguments: Mapping[str, Any]) -> tuple[FieldSlot, ...]:
    """Return the argument values shown by themselves: the model's fields, then keys it lacks.

    Every value of the arguments is in one of them, whether the model describes it or not; only
    fields that the model computes are left out.
    """
    slots: list[FieldSlot] = []
    model: type[BaseModel] = tool.arguments
    for name in model.model_fields:
        whole, parts = _build_field_slots(model)[name]
        editable = tool.editable is None or name in tool.editable
        value = arguments.get(whole.keys[0])
        if name in tool.secret:
            slots.append(replace(whole, secret=True))
        elif parts and (isinstance(value, Mapping) or (value is None and whole.nullable)):
            if value == {} and not whole.nullable:
                slots.append(replace(whole, kind=SlotKind.EMPTY))
            slots += (_set_editable(part, editable) for part in parts)
            allows_extra_keys = editable and _may_have_unknown_keys(
                _unwrap_annotation(model.model_fields[name].annotation)
            )
            slots += _build_extra_slots(value or {}, parts, whole, allows_extra_keys)
        else:
            slots.append(_set_editable(whole, editable))
    field_slots = [whole for whole, _ in _build_field_slots(model).values()]
    stored_arguments = {
        key: value for key, value in arguments.items() if key not in _list_computed_keys(model)
    }
    slots += _build_extra_slots(
        stored_arguments, field_slots, None, tool.editable is None and _may_have_unknown_keys(model)
    )
    return _distinguish_slot_labels(_mark_secret_slots(tool, arguments, slots))


def _set_editable(slot: FieldSlot, editable: bool) -> FieldSlot:
    return slot if slot.editable == editable else replace(slot, editable=editable)


def _list_computed_keys(model: type[BaseModel]) -> frozenset[str]:
    """Return the keys that the model computes; none if a model takes additional keys."""
    given = model.model_config.get("extra") == "allow" or _may_have_unknown_keys(model)
    return frozenset() if given else frozenset(model.model_computed_fields)


def _may_have_unknown_keys(model: Any) -> bool:
    """Return whether a model made from a schema accepts values that the schema does not name."""
    takes_more = getattr(model, "may_have_extra_keys", None)
    return takes_more is not None and bool(takes_more())


def _build_extra_slots(
    values: Mapping[str, Any], named: Iterable[FieldSlot], whole: FieldSlot | None, free: bool
) -> Iterator[FieldSlot]:
    """Yield slots for the values of an object that its model has no field for.

    `whole`: the slot of the object; None for the arguments themselves. `free`: whether the object
    accepts other keys, so that these values can be edited.
    """
    names, keys = (whole.names, whole.keys) if whole else ((), ())
    known = {each.keys[len(keys)] for each in named if len(each.keys) > len(keys)}
    for key, value in values.items():
        if key in known:
            continue
        editable = free and bool(_INPUT_KEY_PATTERN.fullmatch(key))
        kind = next(
            (kind for type_, kind in _KIND_BY_PYTHON_TYPE.items() if type(value) is type_),
            SlotKind.JSON,
        )
        yield FieldSlot(
            (*names, key),
            (*keys, key),
            f"{whole.label}{slack_text.LABEL_SEPARATOR}{slack_text.build_unique_key_label(key)}"
            if whole
            else slack_text.build_unique_key_label(key),
            "",
            kind if editable else SlotKind.JSON,
            not editable,
            {},
            (*(whole.error_names if whole else ()), frozenset({key})),
            editable=editable,
            is_within_optional=whole is not None and whole.nullable,
            has_open_type=True,
        )


def _mark_secret_slots(
    tool: Tool[Any], arguments: Mapping[str, Any], slots: Iterable[FieldSlot]
) -> list[FieldSlot]:
    """Return the slots with their secret parts marked; one that may hold a secret has no input."""
    if not tool.has_secrets:
        return list(slots)
    paths = tool.list_secret_paths(arguments)
    marked_slots = []
    for slot in slots:
        hidden = {path[len(slot.keys) :] for path in paths if path[: len(slot.keys)] == slot.keys}
        if slot.secret or any(slot.keys[: len(path)] == path for path in paths):
            hidden = {()}
        model: Any = tool.arguments
        shut = bool(hidden) or may_path_hold_secrets(model, slot.keys)
        marked_slots.append(
            replace(
                slot,
                secret=shut and slot.kind is not SlotKind.PRESENCE,
                hidden_paths=frozenset(hidden),
                has_secret_default=shut,
            )
        )
    return marked_slots


def _distinguish_slot_labels(found: list[FieldSlot]) -> tuple[FieldSlot, ...]:
    labels = slack_text.distinguish_labels(
        [each.label for each in found], [each.keys for each in found]
    )
    return tuple(
        slot if slot.label == label else replace(slot, label=label)
        for slot, label in zip(found, labels, strict=True)
    )


def get_value_at_keys(arguments: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    """Return the value at these keys; SlotSentinel.ABSENT if one of the keys is not there."""
    value: Any = arguments
    for key in keys:
        if not isinstance(value, Mapping) or key not in value:
            return SlotSentinel.ABSENT
        value = value[key]
    return value


def set_nested_value(data: dict[str, Any], keys: tuple[str, ...], value: Any) -> None:
    """Set the value at these keys; do nothing if the object to hold it is not there."""
    for key in keys[:-1]:
        inner = data.get(key)
        if not isinstance(inner, dict):
            return
        data = inner
    data[keys[-1]] = value


@lru_cache(maxsize=512)
def _build_field_slots(
    model: type[BaseModel],
) -> dict[str, tuple[FieldSlot, tuple[FieldSlot, ...]]]:
    """Return, by field, its slot as a whole and, for a nested model, the slots of its parts."""
    slots_by_field: dict[str, tuple[FieldSlot, tuple[FieldSlot, ...]]] = {}
    for name, whole in _build_own_slots(model).items():
        inner = _unwrap_annotation(model.model_fields[name].annotation)
        parts: tuple[FieldSlot, ...] = ()
        if (
            isinstance(inner, type)
            and issubclass(inner, BaseModel)
            and not issubclass(inner, RootModel)
        ):
            parts = tuple(_nest_slot(whole, part) for part in _build_own_slots(inner).values())
        if parts and whole.nullable:
            parts = (replace(whole, kind=SlotKind.PRESENCE), *parts)
        slots_by_field[name] = (whole, parts)
    return slots_by_field


def _nest_slot(whole: FieldSlot, part: FieldSlot) -> FieldSlot:
    return replace(
        part,
        names=whole.names + part.names,
        keys=whole.keys + part.keys,
        error_names=whole.error_names + part.error_names,
        label=f"{whole.label}{slack_text.LABEL_SEPARATOR}{part.label}",
        is_within_optional=whole.nullable,
    )


def _build_own_slots(model: type[BaseModel]) -> dict[str, FieldSlot]:
    """Return one slot for each field of the model, by name; a nested model is one slot as well."""
    try:
        schema = model.model_json_schema(by_alias=False)
    except PydanticInvalidForJsonSchema:
        schema = {}  # every field falls back to JSON
    # A model that contains itself is a reference at the top as well.
    properties = _resolve_schema(schema, schema)[0].get("properties", {})
    is_left_out = getattr(model, "counts_null_as_left_out", None)  # if made from a JSON Schema
    slots_by_field = {}
    for name, field in model.model_fields.items():
        inner, nullable = _resolve_schema(properties.get(name, {}), schema)
        core = _unwrap_annotation(field.annotation)
        kind = _choose_slot_kind(inner, core, schema)
        slots_by_field[name] = FieldSlot(
            names=(name,),
            keys=(get_dump_key(model, name),),
            label=field.title or slack_text.humanise_field_name(_get_name_for_label(model, name)),
            hint=field.description or "",
            kind=kind,
            nullable=nullable,
            schema=inner,
            error_names=(_list_error_names(name, field),),
            is_naive_datetime=core is NaiveDatetime,
            has_open_type=kind is SlotKind.JSON and inner.get("type") not in ("object", "array"),
            null_is_unset=field.default is None,
            default=inner.get("default") if is_left_out and is_left_out(name) else None,
        )
    return slots_by_field


def _get_name_for_label(model: type[BaseModel], name: str) -> str:
    """Return the name that labels an untitled field: its key if a schema names the keys."""
    return get_dump_key(model, name) if hasattr(model, "may_have_extra_keys") else name


def _list_error_names(name: str, field: FieldInfo) -> frozenset[str]:
    names = {name}
    for alias in (field.alias, field.validation_alias):
        for choice in alias.choices if isinstance(alias, AliasChoices) else [alias]:
            if choice is not None:
                names.add(choice if isinstance(choice, str) else str(choice.path[0]))
    return frozenset(names)


def _resolve_schema(
    schema: Mapping[str, Any], root: Mapping[str, Any]
) -> tuple[dict[str, Any], bool]:
    """Return the schema without references and without null, and whether it accepted null."""
    resolved, nullable = dict(schema), False
    while True:
        if "$ref" in resolved:
            target = root.get("$defs", {}).get(str(resolved.pop("$ref")).rpartition("/")[2], {})
            resolved = {**target, **resolved}
            continue
        options = [option for option in resolved.get("anyOf", ()) if option.get("type") != "null"]
        if len(options) != len(resolved.get("anyOf", ())):
            nullable = True
            resolved["anyOf"] = options
        if len(options) != 1:
            break
        del resolved["anyOf"]
        resolved = {**resolved, **options[0]}
    if None in resolved.get("enum", ()):
        nullable = True
        resolved["enum"] = [value for value in resolved["enum"] if value is not None]
    return resolved, nullable


def _choose_slot_kind(schema: Mapping[str, Any], core: Any, root: Mapping[str, Any]) -> SlotKind:
    if schema.get("enum") or schema.get("const") is not None:
        return SlotKind.CHOICE
    if core is Decimal:
        return SlotKind.DECIMAL
    match schema.get("type"):
        case "string":
            by_format = _KIND_BY_FORMAT.get(schema.get("format", ""), SlotKind.TEXT)
            return _KIND_BY_ID_KEYWORD.get(str(schema.get(ID_KEYWORD)), by_format)
        case "array" if "prefixItems" not in schema:
            items = _resolve_schema(schema.get("items", {}), root)
            return (
                _LIST_KIND_BY_ID_KEYWORD.get(str(items[0].get(ID_KEYWORD)), SlotKind.LINES)
                if items[0].get("type") == "string" and not items[1]
                else SlotKind.JSON
            )
        case type_:
            return _KIND_BY_JSON_TYPE.get(str(type_), SlotKind.JSON)


def _unwrap_annotation(annotation: Any) -> Any:
    """Return the type inside Annotated, Optional, NewType and aliases.

    The annotation itself if that is not one type.
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
