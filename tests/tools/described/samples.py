"""Schemas as other people's servers publish them, with arguments that fit and some that do not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Sample:
    """One schema, with arguments that it accepts and refuses."""

    schema: dict[str, Any]
    taken: tuple[dict[str, Any], ...]
    refused: dict[str, dict[str, Any]] = field(default_factory=dict)  # by the place of the error


CONVERT_TIME = Sample(  # mcp-server-time
    {
        "type": "object",
        "properties": {
            "source_timezone": {"type": "string", "description": "Source IANA timezone name"},
            "time": {"type": "string", "description": "Time to convert in 24-hour format (HH:MM)"},
            "target_timezone": {"type": "string"},
        },
        "required": ["source_timezone", "time", "target_timezone"],
    },
    ({"source_timezone": "UTC", "time": "14:30", "target_timezone": "Europe/Berlin"},),
    {"time": {"source_timezone": "UTC", "target_timezone": "UTC"}},
)
FETCH = Sample(  # mcp-server-fetch, as pydantic writes it
    {
        "description": "Parameters for fetching a URL.",
        "properties": {
            "url": {"description": "URL to fetch", "format": "uri", "minLength": 1, "title": "Url"}
            | {"type": "string"},
            "max_length": {
                "default": 5000,
                "description": "Maximum number of characters to return.",
                "exclusiveMaximum": 1000000,
                "exclusiveMinimum": 0,
                "title": "Max Length",
                "type": "integer",
            },
            "raw": {"default": False, "title": "Raw", "type": "boolean"},
        },
        "required": ["url"],
        "title": "Fetch",
        "type": "object",
    },
    (
        {"url": "https://example.com"},
        {"url": "https://example.com/a?b=c", "max_length": 10, "raw": True},
    ),
    {"url": {"url": "no address"}, "max_length": {"url": "https://a.example", "max_length": 0}},
)
EDIT_FILE = Sample(  # server-filesystem, as zod writes it (draft-07)
    {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "edits": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "oldText": {"type": "string", "description": "Text to search for"},
                        "newText": {"type": "string"},
                    },
                    "required": ["oldText", "newText"],
                    "additionalProperties": False,
                },
            },
            "dryRun": {"type": "boolean", "default": False},
        },
        "required": ["path", "edits"],
        "additionalProperties": False,
    },
    ({"path": "a.txt", "edits": [{"oldText": "a", "newText": "b"}], "dryRun": True},),
    {"edits.0.newText": {"path": "a.txt", "edits": [{"oldText": "a"}]}},
)
CREATE_ISSUE = Sample(  # nullable values, enums, names that Python does not allow
    {
        "type": "object",
        "$defs": {
            "Label": {"type": "string", "enum": ["bug", "feature"]},
            "Person": {
                "type": "object",
                "title": "Person",
                "properties": {"login": {"type": "string"}, "e-mail": {"type": "string"}},
                "required": ["login"],
            },
        },
        "properties": {
            "repo": {"type": "string", "pattern": "^[\\w.-]+/[\\w.-]+$"},
            "title": {"type": "string", "minLength": 1, "maxLength": 256, "title": "Headline"},
            "body": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
            "labels": {"type": "array", "items": {"$ref": "#/$defs/Label"}, "uniqueItems": True},
            "assignee": {"$ref": "#/$defs/Person"},
            "milestone": {"type": ["integer", "null"], "minimum": 1},
            "priority": {"enum": ["low", "high"]},
            "weight": {"type": "number", "multipleOf": 0.5},
            "due date": {"type": "string", "format": "date"},
            "copy": {"type": "boolean"},
            "parent": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
        },
        "required": ["repo", "title"],
    },
    (
        {"repo": "acme/shop", "title": "x"},
        {"repo": "acme/shop", "title": "x", "body": None, "milestone": None},
        {
            "repo": "acme/shop",
            "title": "x",
            "body": "y",
            "labels": ["bug"],
            "assignee": {"login": "ben", "e-mail": "ben@acme.example"},
            "milestone": 3,
            "priority": "high",
            "weight": 2.5,
            "due date": "2026-11-23",
            "copy": True,
            "parent": 7,
        },
    ),
    {
        "repo": {"repo": "no", "title": "x"},
        "title": {"repo": "a/b", "title": ""},
        "labels": {"repo": "a/b", "title": "x", "labels": ["bug", "bug"]},
        "labels.0": {"repo": "a/b", "title": "x", "labels": ["other"]},
        "assignee.login": {"repo": "a/b", "title": "x", "assignee": {}},
        "milestone": {"repo": "a/b", "title": "x", "milestone": 0},
        "weight": {"repo": "a/b", "title": "x", "weight": 0.7},
        "due date": {"repo": "a/b", "title": "x", "due date": "tomorrow"},
        "parent": {"repo": "a/b", "title": "x", "parent": [1]},
        "unknown": {"repo": "a/b", "title": "x", "unknown": 1},
    },
)
TREE = Sample(  # contains itself
    {
        "type": "object",
        "properties": {"root": {"$ref": "#/definitions/Node"}},
        "required": ["root"],
        "definitions": {
            "Node": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "children": {"type": "array", "items": {"$ref": "#/definitions/Node"}},
                },
                "required": ["name"],
            }
        },
    },
    ({"root": {"name": "a", "children": [{"name": "b", "children": [{"name": "c"}]}]}},),
    {"root.children.0.name": {"root": {"name": "a", "children": [{}]}}},
)
PAYMENT = Sample(  # alternatives of objects, a field that needs another
    {
        "type": "object",
        "properties": {
            "way": {
                "oneOf": [
                    {
                        "type": "object",
                        "properties": {"card": {"type": "string"}},
                        "required": ["card"],
                        "additionalProperties": False,
                    },
                    {
                        "type": "object",
                        "properties": {"iban": {"type": "string"}},
                        "required": ["iban"],
                        "additionalProperties": False,
                    },
                ]
            },
            "amount": {"type": "number", "minimum": 0, "exclusiveMinimum": True},
            "notes": {"type": "object", "additionalProperties": {"type": "string"}},
            "place": {"type": "array", "prefixItems": [{"type": "number"}, {"type": "number"}]},
        },
        "dependencies": {"notes": ["amount"]},
        "required": ["way"],
    },
    (
        {"way": {"iban": "DE00"}},
        {"way": {"card": "1"}, "amount": 1, "notes": {"a": "b"}, "place": [1.5, 2]},
    ),
    {
        "way.card": {"way": {"card": "1", "iban": "2"}},
        "amount": {"way": {"card": "1"}, "amount": 0},
        "notes.a": {"way": {"card": "1"}, "amount": 1, "notes": {"a": 1}},
        "": {"way": {"card": "1"}, "notes": {}},
    },
)
ANYTHING = Sample(
    {"type": "object"},
    ({}, {"a": 1, "b": {"c": [1.5, None, "x", True]}, "model_dump": "x", "_private": 2}),
)
SAMPLES = {
    "convert_time": CONVERT_TIME,
    "fetch": FETCH,
    "edit_file": EDIT_FILE,
    "create_issue": CREATE_ISSUE,
    "tree": TREE,
    "payment": PAYMENT,
    "anything": ANYTHING,
}
