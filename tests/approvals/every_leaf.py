"""Random tools of every source, and arguments for them: nested, open, with look-alikes, decoys."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from random import Random
from typing import Any

from pydantic import BaseModel, Field, Secret, SecretStr, create_model

from bot.mcp.server_file import Server, ToolDefinition
from bot.mcp.server_tools import _LazyConnection, build_server_tool
from bot.tools import Effect, Tool, ToolContext
from bot.tools.handed_over import HandedOverAction, load_action_tool

KEYS = (
    *("url", "method", "body", "amount", "order_id", "a b", "a.b", "a_b", "A b", "сумма", "счёт"),
    *("Amount", "Аmount", "аmount", "amоunt", "מחיר", "رقم", "数量", "x1", "xl", "items", "copy"),
    *(
        "a\u200bb",
        "a\u202eb",
        "json",
        "model_fields",
        "price",
        "Method",
        "options › url",
        "x-y",
        " ",
    ),
    *("model_computed_fields", "né", "ne\u0301", "Ⅰ", "__proto__", "$ref", "properties", "0", "O"),
)
DECOYS = (
    *(
        "",
        "—",
        "empty",
        "none",
        "no value",
        "null",
        "yes",
        "no",
        "true",
        "5",
        "{}",
        "[]",
        "••••••••",
    ),
    *('"—"', '"x"', "GET", "url", "Amount", "a, b", "a\nb", "\u200b", "\u202egnp.exe", "שלום 12"),
    *("2026-01-31", "wrong_item", "12.50", '{"a": 1}', '[1, "a"]', "before", "now", "👩🏽‍💻", " "),
)


@dataclass(frozen=True, slots=True)
class Sample:
    """A tool, the JSON of its arguments, and which texts in that are secret."""

    tool: Tool[Any]
    given: str
    secrets: frozenset[str]


class Maker:
    """Makes samples, the same ones for the same seed."""

    def __init__(self, seed: int) -> None:
        self._chance = Random(seed)
        self._number = 0
        self._secrets: set[str] = set()
        self._defs: dict[str, Any] = {}

    def sample(self, source: str) -> Sample:
        """Return a tool of that source: "program", "server", "python" or "form"."""
        if source in ("python", "form"):
            model, value = self._python(0)
            tool = Tool("act", "Act", "Act on it", Effect.WRITE, model, do_nothing)
            return Sample(tool, json.dumps(value), frozenset(self._secrets))
        schema, value = self._marked() if self._chance.random() < 0.03 else self._object(0)
        schema |= {"$defs": self._defs}
        return Sample(_TOOLS[source](schema), json.dumps(value), frozenset(self._secrets))

    # schemas, and values that match them

    def _any(self, depth: int, *, secret: bool = False) -> Any:
        """Any JSON value; a text that is no decoy if it is to be secret."""
        kind = self._chance.choice("sssdninbe" + "lo" * (depth < 3))
        if secret or kind == "s":
            return self._text(secret=secret)
        if kind in "ni":
            return self._chance.choice((0, 1, -1, 7.25, 1e21, 123456789, 40))
        if kind == "b":
            return self._chance.choice((True, False))
        if kind == "e":
            return self._chance.choice((None, {}, [], "", [[]], [{}], {"a": {}}, [None]))
        if kind == "l":
            return [self._any(depth + 1) for _ in range(self._chance.randint(0, 3))]
        if kind == "o":
            return {key: self._any(depth + 1) for key in self._keys(3)}
        return self._chance.choice(DECOYS)

    def _text(self, *, secret: bool = False) -> str:
        self._number += 1
        text = f"{'hush' if secret else 'leaf'}{self._number:04}{self._chance.choice('xyz')}"
        text *= 1 + 300 * (not secret and self._chance.random() < 0.02)
        if secret:
            self._secrets.add(text)
        return text

    def _keys(self, most: int) -> list[str]:
        return self._chance.sample(KEYS, self._chance.randint(0, most))

    def _object(self, depth: int) -> tuple[dict[str, Any], dict[str, Any]]:
        schema: dict[str, Any] = {"type": "object", "properties": {}}
        value: dict[str, Any] = {}
        for key in self._keys(5):
            part, inner = self._part(depth + 1)
            schema["properties"][key] = part
            if self._chance.random() < 0.8:
                value[key] = inner
        match self._chance.choice(("open", "typed", "pattern", "shut", "secret")):
            case "open":
                schema["additionalProperties"] = True
                value |= self._more(schema, lambda: self._any(depth + 1))
            case "typed":
                schema["additionalProperties"] = {"type": "string"}
                value |= self._more(schema, self._text)
            case "pattern":
                schema["patternProperties"] = {"^(x|a|сум)": {}}
                schema["additionalProperties"] = False
                more = self._more(schema, lambda: self._any(depth + 1))
                value |= {
                    key: each for key, each in more.items() if key[:1] in "xa" or key[:3] == "сум"
                }
            case "secret":
                schema["additionalProperties"] = {"type": "string", "writeOnly": True}
                value |= self._more(schema, lambda: self._text(secret=True))
            case _:
                schema["additionalProperties"] = False
        return schema, value

    def _marked(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """An object that is secret as a whole, whatever its parts say."""
        value = {key: self._text(secret=True) for key in self._keys(3)}
        properties = {key: {"type": "string"} for key in value if self._chance.random() < 0.5}
        return {"type": "object", "writeOnly": True, "properties": properties}, value

    def _more(self, schema: dict[str, Any], make: Callable[[], Any]) -> dict[str, Any]:
        # keys that make the same field name are left out
        taken = {
            "".join(c if c.isascii() and c.isalnum() else "_" for c in key).strip("_")
            for key in schema["properties"]
        }
        return {
            key: make()
            for key in self._keys(4)
            if key not in schema["properties"] and key not in taken
        }

    def _part(self, depth: int) -> tuple[dict[str, Any], Any]:
        kinds = ["text", "text", "whole", "bool", "any", "secret", "union", "ref"]
        kinds += ["object", "list", "of objects", "all", "marked"] if depth < 4 else []
        match self._chance.choice(kinds):
            case "text":
                return {"type": "string"}, self._chance.choice((*DECOYS, *[self._text()] * 30))
            case "whole":
                return {"type": "integer"}, self._chance.randint(-5, 10**6)
            case "bool":
                return {"type": "boolean"}, self._chance.choice((True, False))
            case "secret":
                mark = self._chance.choice(({"writeOnly": True}, {"format": "password"}))
                return {"type": "string", **mark}, self._text(secret=True)
            case "union":
                part, value = self._part(depth + 1)
                key = self._chance.choice(("anyOf", "oneOf"))
                return {key: [part, {"type": "null"}]}, value if value is not None else "x"
            case "ref":
                part, value = self._part(depth + 1)
                self._defs[name := f"D{len(self._defs)}"] = part
                return {"$ref": f"#/$defs/{name}"}, value
            case "all":
                part, value = self._part(depth + 1)
                return {"allOf": [part, {"description": "All of it."}]}, value
            case "object":
                return self._object(depth)
            case "marked":
                return self._marked()
            case "list":
                return {"type": "array"}, [
                    self._any(depth) for _ in range(self._chance.randint(0, 3))
                ]
            case "of objects":
                schema, value = self._object(depth)
                return {"type": "array", "items": schema}, [value]
            case _:
                return {}, self._any(depth)

    def _python(self, depth: int) -> tuple[type[BaseModel], dict[str, Any]]:
        fields: dict[str, Any] = {}
        value: dict[str, Any] = {}
        for number in range(self._chance.randint(1, 6)):
            name = f"field_{number}"
            type_, inner = self._type(depth + 1)
            fields[name] = (type_, Field(title=self._chance.choice((None, "Amount", "Аmount"))))
            value[name] = inner
        return create_model(f"Model{depth}", **fields), value

    def _type(self, depth: int) -> tuple[Any, Any]:
        kinds = ["text", "any", "secret", "whole", "dict", "list", "secrets", "optional", "number"]
        kinds += ["model", "models", "of models"] if depth < 4 else []
        match self._chance.choice(kinds):
            case "text":
                return str, self._chance.choice((*DECOYS, *[self._text()] * 30))
            case "secret":
                return SecretStr, self._text(secret=True)
            case "number":
                return Secret[int], 10**6
            case "whole":
                return int, 5
            case "dict":
                return dict[str, Any], {key: self._any(depth) for key in self._keys(4)}
            case "list":
                return list[Any], [self._any(depth) for _ in range(3)]
            case "secrets":
                return (
                    dict[str, list[SecretStr] | str],
                    {"one": [self._text(secret=True)], "two": "2"},
                )
            case "optional":
                type_, inner = self._type(depth + 1)
                return type_ | None, inner
            case "model":
                return self._python(depth)
            case "models":
                model, inner = self._python(depth)
                return list[model], [inner]  # type: ignore[valid-type]  # a model that is made here
            case "of models":
                model, inner = self._python(depth)
                return dict[str, model], dict.fromkeys(self._keys(2), inner)  # type: ignore[valid-type]  # a model that is made here
            case _:
                return Any, self._any(depth)


def do_nothing(args: BaseModel, context: ToolContext) -> None:
    return None


def of_program(schema: dict[str, Any]) -> Tool[Any]:
    action = HandedOverAction("act", "Act", "Act on it", Effect.WRITE, schema)
    tool = load_action_tool(json.dumps(asdict(action) | {"client": ""}))
    assert tool is not None
    return tool


def of_server(schema: dict[str, Any]) -> Tool[Any]:
    server = Server.model_validate({"name": "depot", "command": "depot"})
    return build_server_tool(
        server, ToolDefinition("act", "Act", "", schema), _LazyConnection(server, {})
    )


_TOOLS = {"program": of_program, "server": of_server}


def texts(drawn: Any) -> Iterator[str]:
    """Every text in blocks, and the initial values of inputs."""
    if isinstance(drawn, dict):
        for key, each in drawn.items():
            if key in ("text", "initial_value") and isinstance(each, str):
                yield each
            else:
                yield from texts(each)
    for each in drawn if isinstance(drawn, list) else ():
        yield from texts(each)
