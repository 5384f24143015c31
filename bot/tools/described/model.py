"""What all argument models made of a schema have in common: what they take, and what they give
back. Exactly what was given is kept; nothing appears that was not.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar

from pydantic import (
    BaseModel,
    ConfigDict,
    ModelWrapValidatorHandler,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)
from pydantic_core import PydanticCustomError, PydanticKnownError

from bot.tools.described.checking import TOO_MUCH, Checker
from bot.tools.described.schemas import Schema
from storage.digest import SAFE_INTEGER

MOST_CELLS = 500_000  # fields of all objects of one value: each takes room, also an empty one


@dataclass(frozen=True, slots=True)
class Outline:
    """What one object of a schema holds."""

    schema: Schema  # as those who call the tool are given it
    form: Schema  # the same by the names of its fields, as forms read it
    names: Mapping[str, str]  # the field of each key
    never_null: frozenset[str]  # keys and fields for which null says that nothing is given
    takes_more: bool  # keys beside these
    checker: Checker | None  # of the whole; None for an object within another
    widest: int  # fields of the object within it that has most


class Described(BaseModel):
    """The arguments of a tool, as a schema describes them."""

    model_config = ConfigDict(
        extra="forbid",
        serialize_by_alias=True,
        validate_by_name=True,
        validate_by_alias=True,
        protected_namespaces=(),
    )
    _outline: ClassVar[Outline]

    @classmethod
    def outline(cls) -> Outline:
        """Return what it holds."""
        return cls._outline

    @classmethod
    def takes_more(cls) -> bool:
        """Return whether it takes values that its schema does not name."""
        return cls._outline.takes_more

    @classmethod
    def model_json_schema(cls, *args: Any, **options: Any) -> Schema:
        """Return the schema that it was made of; with `by_alias=False` the one that forms read."""
        by_alias = args[0] if args else options.get("by_alias", True)
        return copy.deepcopy(cls._outline.schema if by_alias else cls._outline.form)

    @model_validator(mode="wrap")
    @classmethod
    def _taken(cls, value: Any, handler: ModelWrapValidatorHandler[Described]) -> Described:
        outline = cls._outline
        if not isinstance(value, Mapping):
            return handler(value)
        if outline.checker is not None and outline.widest * _objects(value) > MOST_CELLS:
            raise TOO_MUCH
        given = {k: v for k, v in value.items() if v is not None or k not in outline.never_null}
        more: dict[str, Any] = {}
        if outline.takes_more:
            known = {*outline.names, *outline.names.values()}
            more = {key: json_value(given.pop(key)) for key in [*given] if key not in known}
        made = handler(given)
        if more:
            object.__setattr__(made, "__pydantic_extra__", more)
        if outline.checker is not None:
            outline.checker.check(cls.__name__, made.model_dump())
        return made

    @model_serializer(mode="wrap")
    def _given(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        whole = handler(self)
        found: dict[str, Any] = {}
        for key, name in self._outline.names.items():
            called = key if key in whole else name
            if name in self.model_fields_set and called in whole:
                found[called] = whole[called]
        return {**found, **(self.__pydantic_extra__ or {})}


def _objects(value: Any) -> int:
    """How many objects there are in a JSON value."""
    found, left = 0, [value]
    while left:
        each = left.pop()
        if isinstance(each, Mapping):
            found += 1
            left += each.values()
        elif isinstance(each, list):
            left += each
    return found


def json_value(value: Any) -> Any:
    """Return any JSON value with numbers that keep what they are on the way to the record and back.

    Raises PydanticCustomError for what JSON does not have.
    """
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int | float):
        return number(value)
    if isinstance(value, list | tuple):
        return [json_value(each) for each in value]
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: json_value(each) for key, each in value.items()}
    raise PydanticCustomError("json_value", "Input should be a JSON value")


def number(value: float) -> int | float:
    """Return a number as it is read again from the record.

    Raises PydanticCustomError where it would be another one.
    """
    if isinstance(value, int) and abs(value) > SAFE_INTEGER:
        value = _as_float(value)
    if not math.isfinite(value):
        raise PydanticCustomError("json_number", "Input has more digits than a number can keep")
    return value


def _as_float(value: int) -> float:
    """The same number as a float, or as the record writes one; not a number where there is none."""
    try:
        found = float(value)
    except OverflowError:
        return math.nan
    return found if value in (int(found), int(Decimal(repr(found)))) else math.nan


def no_boolean(value: Any) -> Any:
    """Refuse true and false where a number is meant."""
    if isinstance(value, bool):
        raise PydanticKnownError("float_type")
    return value
