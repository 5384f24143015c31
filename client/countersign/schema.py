"""JSON Schema of a function's arguments, and values converted from and to JSON, with Pydantic."""

from __future__ import annotations

import inspect
import json
import math
import sys
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, make_dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, get_type_hints

if TYPE_CHECKING:  # loaded when a function is first called, so that importing this module is fast
    from pydantic import TypeAdapter

MAX_RESULT_BYTES = 90_000  # as JSON
MAX_RESULT_DEPTH = 30  # the API reads 32 levels of a body
MAX_SHORTENED_CHARS = 20_000  # kept of a longer result
_VARIADIC_KINDS = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def read_signature(function: Callable[..., Any]) -> inspect.Signature:
    """Return a function's signature, whose annotations may name what only a type checker knows."""
    if sys.version_info >= (3, 14):
        from annotationlib import Format

        return inspect.signature(function, annotation_format=Format.FORWARDREF)
    return inspect.signature(function)


def list_shown_parameters(
    function: Callable[..., Any], without: Collection[str]
) -> dict[str, inspect.Parameter]:
    """Return the parameters of a function that people are shown, by name.

    `without`: names of those that are not shown. Raises TypeError for *args and **kwargs, and for a
    name in `without` that is no parameter.
    """
    parameters = dict(read_signature(function).parameters)
    for name, each in parameters.items():
        if each.kind in _VARIADIC_KINDS:
            raise TypeError(
                f"{function.__name__} takes *{name}: people must see the name of each argument;"
                " give them names"
            )
    unknown = sorted(set(without) - parameters.keys())
    if unknown:
        raise TypeError(f"{function.__name__} has no parameter {', '.join(unknown)}")
    return {name: each for name, each in parameters.items() if name not in without}


@dataclass(frozen=True, slots=True)
class FunctionJsonCodec:
    """The JSON Schema of one function's arguments, and JSON conversion of arguments and result."""

    schema: dict[str, Any]
    _arguments_adapter: TypeAdapter[Any]
    _arguments_class: type[Any]
    _result_adapter: TypeAdapter[Any] | None

    def arguments_to_json(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Validate arguments and return them as JSON values; a set is a sorted list.

        Raises pydantic.ValidationError, and TypeError for what JSON would not carry unchanged or
        the function's types would not accept again as it is.
        """
        from pydantic.fields import FieldInfo

        plain_values = {
            name: each for name, each in values.items() if not isinstance(each, FieldInfo)
        }
        return self._write_json(self._arguments_adapter.validate_python(plain_values))

    def _write_json(self, validated: Any) -> dict[str, Any]:
        """Return validated arguments as JSON values that are read as these arguments again."""
        from pydantic_core import ValidationError

        values, name = self._dump(validated), self._arguments_class.__name__
        try:
            again = self._dump(self._arguments_adapter.validate_json(json.dumps(values)))
        except ValidationError as error:
            [first, *_] = error.errors()
            if first["type"] != "json_invalid":  # half a character: the API says what is wrong
                raise _build_type_error(name, first["msg"]) from None
            return values
        if changed := [each for each in values if again.get(each) != values[each]]:
            raise TypeError(
                f"{name} would not run with the {changed[0]} that people are shown: its type reads"
                " another value than it writes (by a check that changes it, or an alias)"
            )
        return values

    def _dump(self, validated: Any) -> dict[str, Any]:
        from pydantic_core import PydanticSerializationError

        dump, name = self._arguments_adapter.dump_python, self._arguments_class.__name__
        python_values = dump(validated, by_alias=True, warnings=False)
        if lost := _find_lost_value(python_values):
            raise _build_type_error(name, lost)
        try:
            json_values = dump(validated, mode="json", by_alias=True)
        except (PydanticSerializationError, UnicodeDecodeError) as error:  # of bytes
            raise _build_type_error(name, str(error)) from None
        sorted_values: dict[str, Any] = _sort_sets(json_values, python_values)
        return sorted_values

    def arguments_from_json(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return JSON arguments, which people may have edited, in the types of the function.

        Raises pydantic.ValidationError, and TypeError for arguments that the function's types would
        not read as people see them.
        """
        made = self._arguments_adapter.validate_json(json.dumps(arguments))
        read = self._write_json(made)
        python_values = self._arguments_adapter.dump_python(made, by_alias=True, warnings=False)
        for name, value in read.items():
            if not _is_read_as_written(arguments.get(name), value, python_values[name]):
                raise TypeError(
                    f"{self._arguments_class.__name__} would not run with the {name} that people"
                    " approved: its type reads another value"
                )
        return {name: getattr(made, name) for name in self._arguments_class.__dataclass_fields__}

    def result_from_json(self, result: Any) -> Any:
        """Return an earlier JSON result in the function's return type, unchanged if that fails."""
        if self._result_adapter is None:
            return result
        try:
            return self._result_adapter.validate_json(json.dumps(result))
        except ValueError:
            return result


def build_function_codec(
    function: Callable[..., Any], parameters: Mapping[str, inspect.Parameter]
) -> FunctionJsonCodec:
    """Return the JSON codec of a function with these parameters; TypeError for non-JSON types."""
    from pydantic import TypeAdapter  # here, so that decorating a function does not load pydantic
    from pydantic.errors import PydanticUserError

    try:
        fields = [
            (name, _resolve_parameter_type(function, each), _build_default_field(each))
            for name, each in parameters.items()
        ]
        model = make_dataclass(
            function.__name__,
            fields,
            kw_only=True,
            namespace={"__pydantic_config__": {"extra": "forbid"}},
        )
        arguments: TypeAdapter[Any] = TypeAdapter(model)
        schema = arguments.json_schema()
        if renamed := sorted(parameters.keys() - schema.get("properties", {}).keys()):
            raise TypeError(
                f"{function.__name__}: `Field` gives {renamed[0]} an alias; people are shown, and"
                " policies read, the parameter's own name"
            )
        if "serialization_exclude" in repr(arguments.core_schema):
            raise TypeError(
                f"{function.__name__}: people would not see a field with exclude=; remove it"
            )
    except PydanticUserError as error:
        raise _build_type_error(function.__name__, str(error).partition("\n")[0]) from None
    result = None
    with suppress(NameError, PydanticUserError):  # then a result stays as its JSON was reported
        result = TypeAdapter(_resolve_annotation(function, "return"))
    return FunctionJsonCodec(schema, arguments, model, result)


def _resolve_parameter_type(function: Callable[..., Any], parameter: inspect.Parameter) -> Any:
    """Return the type of a parameter; `note: str = None` may also be None."""
    from pydantic import TypeAdapter
    from pydantic_core import ValidationError

    found = _resolve_annotation(function, parameter.name)
    if parameter.default is None:
        try:
            TypeAdapter(found).validate_python(None)
        except ValidationError:
            return found | None
    return found


def _resolve_annotation(function: Callable[..., Any], name: str) -> Any:
    """Return the type of one parameter, or of "return"; raises NameError for one not there.

    Names that only other annotations need may be missing: a type checker alone imports them.
    """
    annotations = _read_annotations(function)
    alone = SimpleNamespace(__annotations__={name: annotations.get(name, Any)})
    there = getattr(inspect.unwrap(function), "__globals__", {})
    return get_type_hints(alone, there, include_extras=True)[name]


def _read_annotations(function: Callable[..., Any]) -> Mapping[str, Any]:
    if sys.version_info >= (3, 14):
        from annotationlib import Format, get_annotations

        return get_annotations(function, format=Format.FORWARDREF)
    return getattr(function, "__annotations__", {})


def _build_type_error(function: str, why: str) -> TypeError:
    return TypeError(
        f"{function} takes a value that cannot be written as JSON ({why}); name it in `without`"
    )


def _find_lost_value(value: Any) -> str:
    """Return in words what in a value Pydantic would not write unchanged; "" if there is nothing.

    It writes a secret as asterisks, and a number that is not finite as null.
    """
    match value:
        case dict():
            return next(filter(None, map(_find_lost_value, value.values())), "")
        case list() | tuple() | set() | frozenset():
            return next(filter(None, map(_find_lost_value, value)), "")
        case float():
            return "" if math.isfinite(value) else f"the number {value}"
    return "a secret" if hasattr(value, "get_secret_value") else ""


def _sort_sets(value: Any, python_value: Any) -> Any:
    """Return a JSON value in which each list that was a set is sorted.

    A set has another order in each process, and a request is found again by its arguments.
    """
    match python_value:
        case set() | frozenset() if isinstance(value, list):
            return sorted(value, key=lambda each: json.dumps(each, sort_keys=True))
        case dict() if isinstance(value, dict) and len(value) == len(python_value):
            pairs = zip(value.items(), python_value.values(), strict=True)
            return {name: _sort_sets(each, python) for (name, each), python in pairs}
        case list() | tuple() if isinstance(value, list) and len(value) == len(python_value):
            return [_sort_sets(*pair) for pair in zip(value, python_value, strict=True)]
    return value


def _is_read_as_written(written: Any, read: Any, python_value: Any) -> bool:
    """Return whether a JSON value says what was read of it, apart from blanks around it.

    Null also stands for a value that is not there: a default that nobody has seen must not run.
    `read`: what was read, as JSON; `python_value`: in Python. A date, for example, may be written
    in several ways; a set may have any order, and leave out nothing but what stands twice.
    """
    match python_value:
        case _ if written is None:
            return read is None
        case dict() if isinstance(written, dict):
            pairs = dict(zip(read, python_value.values(), strict=True))
            return not written.keys() - read.keys() and all(
                _is_read_as_written(written.get(name), each, pairs[name])
                for name, each in read.items()
            )
        case set() | frozenset() if isinstance(written, list):
            given = sorted({json.dumps(each, sort_keys=True) for each in written})
            return given == sorted(json.dumps(each, sort_keys=True) for each in read)
        case list() | tuple() if isinstance(written, list):
            return len(written) == len(read) and all(
                map(_is_read_as_written, written, read, python_value)
            )
        case None | str() | int() | float() | dict() | list() | tuple() | set() | frozenset():
            return bool(written == read) or str(written).strip() == str(read).strip()
    return True


def _build_default_field(parameter: inspect.Parameter) -> Any:
    if parameter.default is parameter.empty:
        return field(default=MISSING)
    if type(parameter.default).__hash__ is None:  # a list, for example; it needs a factory
        return field(default_factory=lambda: parameter.default)
    return field(default=parameter.default)


def convert_result_to_json(value: Any) -> Any:
    """Return a result as JSON to report; one over 90,000 bytes is cut to a text that says so.

    A result that is nested deeper than the API reads is cut in the same way. An iterator in it,
    such as a generator, a file or a cursor, is not read: that is for the caller to do.
    """
    from pydantic_core import to_json

    try:
        readable = _name_iterators(value)
        json_value = json.loads(to_json(readable, fallback=str, inf_nan_mode="strings"))
    except Exception:  # noqa: BLE001 # it holds itself, or its own code for this fails
        json_value = format_value(value)
    text = json.dumps(json_value)
    if len(text) <= MAX_RESULT_BYTES and _measure_depth(json_value) <= MAX_RESULT_DEPTH:
        return json_value
    return f"{text[:MAX_SHORTENED_CHARS]}… ({len(text):,} characters in all)"


def _name_iterators(value: Any) -> Any:
    """Return a value in whose collections and dataclasses a text stands for each iterator."""
    match value:
        case Iterator():
            return format_value(value)
        case dict():
            return {name: _name_iterators(each) for name, each in value.items()}
        case list() | tuple() | set() | frozenset() | deque():
            return [*map(_name_iterators, value)]
    if is_dataclass(value) and not hasattr(value, "__pydantic_serializer__"):
        return {each.name: _name_iterators(getattr(value, each.name)) for each in fields(value)}
    return value


def _measure_depth(value: Any) -> int:
    if not isinstance(value, dict | list):
        return 0
    return 1 + max(
        map(_measure_depth, value.values() if isinstance(value, dict) else value), default=0
    )


def format_value(value: Any) -> str:
    """Return a value as text, however its class makes that; its type alone where this fails."""
    try:
        return str(value)
    except Exception:  # noqa: BLE001 # code of the value's class
        return f"({type(value).__name__} without a text)"


def replace_unstorable_characters(value: Any) -> Any:
    """Return JSON in which U+FFFD stands for U+0000 and for halves of characters."""
    match value:
        case str():
            whole = value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            return whole.replace("\0", "\ufffd")
        case dict():
            return {
                replace_unstorable_characters(name): replace_unstorable_characters(each)
                for name, each in value.items()
            }
        case list() | tuple():
            return [replace_unstorable_characters(each) for each in value]
    return value


_JSON_TYPE_BY_CLASS = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
}


def infer_schema_from_values(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return a JSON Schema that fits these arguments and others of the same names and types."""
    kinds = {name: _JSON_TYPE_BY_CLASS.get(type(each)) for name, each in arguments.items()}
    return {
        "type": "object",
        "properties": {
            name: {"type": kind} if kind is not None else {} for name, kind in kinds.items()
        },
        "required": sorted(kinds),
        "additionalProperties": False,
    }
