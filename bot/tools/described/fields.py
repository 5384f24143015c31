"""Makes the argument model of a schema: a field for each property, typed where that says enough.

What no field can say is a value of any JSON; the whole schema is held to in either case.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, create_model

from bot.tools.described.checking import Checker
from bot.tools.described.model import Described, Outline, json_value, no_boolean, number
from bot.tools.described.reading import as_form, followed, is_object, takes_more, without_null
from bot.tools.described.schemas import Schema, UnfitSchemaError, normal, text_of

DEEPEST = 4  # objects within one another that have fields; below they are JSON
MOST_INNER = 3_000  # fields of all objects within; what is beyond them is JSON
MOST_CHOICES = 100  # of a field; more are any JSON that the schema is held to
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,79}")
Whole = Annotated[int, BeforeValidator(no_boolean)]
Number = Annotated[int | float, BeforeValidator(no_boolean), AfterValidator(number)]
Json = Annotated[Any, AfterValidator(json_value)]
_PLAIN: dict[str, Any] = {"string": str, "integer": Whole, "number": Number, "boolean": bool}
_LITERAL: Any = Literal  # of values that are known only now
_LIST: Any = list  # the same, of types


def arguments_of(schema: Mapping[str, Any], name: str) -> type[BaseModel]:
    """Return the argument model of a JSON Schema of an object (2020-12, or an earlier draft).

    `name` is that of the tool. What was validated is dumped as it was given: an optional value that
    was not given is not there, and null stands for that where null itself is not allowed. Values
    are held to the whole schema, and errors stand at their field. A key that the schema does not
    name is refused, unless it says that there may be more or names none. The same schema and name
    give the same model.

    Raises UnfitSchemaError for a schema that is of no object, too large, refers to other
    documents, or could take endless time to check.
    """
    return _made(text_of(schema), name)


@lru_cache(512)
def _made(text: str, name: str) -> type[BaseModel]:
    whole = normal(text)
    checker = Checker(whole)
    top = followed(whole, whole)
    if top.get("type", "object") != "object":
        raise UnfitSchemaError("The schema is not that of an object.")
    return _Maker(whole, checker).model({"properties": {}, **top}, top, name, 0)


class _Maker:
    """Makes the models of one schema, each object once."""

    def __init__(self, whole: Schema, checker: Checker) -> None:
        self._whole, self._checker = whole, checker
        self._models: dict[str, type[Described] | None] = {}
        self._left = MOST_INNER

    def model(self, found: Schema, said: Schema, name: str, depth: int) -> type[Described]:
        """`found` has properties; `said` is the same as it was written."""
        properties, required = found["properties"], set(found.get("required", ()))
        names = _names(properties)
        fields: dict[str, Any] = {}
        for key, called in names.items():
            fields[called] = self._field(key, called, properties[key], key in required, depth)
        made: type[Described] = create_model(name, __base__=Described, **fields)
        optional = [key for key in properties if key not in required]
        silent = [key for key in optional if not self._checker.takes_null(properties[key])]
        within = (len(each.model_fields) for each in self._models.values() if each)
        made._outline = Outline(
            schema=self._schema(found, takes_more(said)) if depth == 0 else found,
            form={
                "type": "object",
                "properties": {
                    called: as_form(properties[key], self._whole, optional=key not in required)
                    for key, called in names.items()
                },
            },
            names=names,
            never_null=frozenset({*silent, *(names[key] for key in silent)}),
            takes_more=takes_more(said),
            checker=self._checker if depth == 0 else None,
            widest=max(within, default=0),
        )
        return made

    def _schema(self, top: Schema, free: bool) -> Schema:
        """The whole schema, its properties at the top."""
        required = {"required": top["required"]} if top.get("required") else {}
        shown = {"type": "object", "properties": top["properties"], **required}
        more = {} if free else {"additionalProperties": False}
        return {**self._whole, **shown, **more}

    def _field(self, key: str, called: str, part: Schema, required: bool, depth: int) -> Any:
        found, nullable = without_null(part, self._whole)
        type_ = self._type(found, called, depth)
        description = found.get("description")
        told: dict[str, Any] = {
            "alias": key if key != called else None,
            "title": part.get("title") if isinstance(part.get("title"), str) else None,
            "description": description if isinstance(description, str) else None,
        }
        if required:
            return (type_ | None if nullable else type_, Field(**told))
        return (type_ | None, Field(default_factory=_nothing, **told))

    def _type(self, found: Schema, name: str, depth: int) -> Any:
        choices = [found["const"]] if "const" in found else found.get("enum")
        if choices:
            plain = all(isinstance(each, str | int) for each in choices[:MOST_CHOICES])
            # each error of a field would name all of them; the check of the schema does not
            plain = plain and len(choices) <= MOST_CHOICES
            return _LITERAL[tuple(choices)] if plain else Json
        kind = found.get("type")
        if isinstance(kind, str) and kind in _PLAIN and not _alternatives(found):
            return _PLAIN[kind]
        if depth >= DEEPEST:
            return Json
        if kind == "array" and isinstance(found.get("items"), dict) and "prefixItems" not in found:
            inner, nullable = without_null(found["items"], self._whole)
            type_ = self._type(inner, name, depth + 1)
            return _LIST[type_ | None if nullable else type_]
        if is_object(found) and not _alternatives(found):
            return self._inner(found, name, depth)
        return Json

    def _inner(self, found: Schema, name: str, depth: int) -> Any:
        """The model of an object within; one that holds itself is JSON there."""
        if self._left < 0:
            return Json
        text = json.dumps(found, sort_keys=True)
        if text not in self._models:
            self._models[text] = None
            self._left -= len(found["properties"])
            if self._left < 0:
                return Json
            self._models[text] = self.model(found, found, name, depth + 1)
        return self._models[text] or Json


def _nothing() -> None:
    """Stand for what is not given."""


def _alternatives(found: Schema) -> bool:
    return any(key in found for key in ("anyOf", "oneOf"))


def _names(keys: Iterable[str]) -> dict[str, str]:
    """A name for the field of each key: the key itself where it can be one."""
    wanted = list(keys)
    found: dict[str, str] = {}
    for key in wanted:
        name = key
        if not _NAME.fullmatch(key) or hasattr(Described, key):
            name = re.sub(r"[^A-Za-z0-9_-]+", "_", key).strip("_")[:70]
            name = name if name[:1].isalpha() else f"field_{name}"
            while name in wanted or name in found.values() or hasattr(Described, name):
                name += "_"
        found[key] = name
    return found
