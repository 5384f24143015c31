"""The Edit dialog of a tool whose arguments a JSON Schema describes."""

from __future__ import annotations

from typing import Any

import pytest

from bot.tools.described import build_argument_model
from tests.messages.fields_support import (
    _flat,
    edit,
    find_block,
    find_element,
    list_errors,
    make_tool,
    render_view,
)
from tests.tools.described.samples import ANYTHING, CREATE_ISSUE

ISSUE = make_tool(build_argument_model(CREATE_ISSUE.schema, "create_issue"))
GIVEN = CREATE_ISSUE.taken[2]


def test_each_value_of_a_schema_has_the_input_that_fits_it() -> None:
    """Texts, choices, numbers, dates, lists, and yes or no."""
    view = render_view(ISSUE, GIVEN)
    kinds = {
        each["block_id"]: each["element"]["type"]
        for each in view["blocks"]
        if each["type"] == "input"
    }
    assert kinds == {
        "f:repo": "plain_text_input",
        "f:title": "plain_text_input",
        "f:body": "plain_text_input",
        "f:labels": "plain_text_input",
        "f:assignee": "radio_buttons",
        "f:assignee.login": "plain_text_input",
        "f:assignee.e-mail": "plain_text_input",
        "f:milestone": "number_input",
        "f:priority": "static_select",
        "f:weight": "number_input",
        "f:due_date": "datepicker",
        "f:copy_": "radio_buttons",
        "f:parent": "plain_text_input",
    }
    assert find_block(view, "f:title")["label"]["text"] == "Headline"
    assert find_element(ISSUE, GIVEN, "f:title")["max_length"] == 256


def test_an_edit_of_described_arguments_changes_only_its_values() -> None:
    """A value that is emptied is left out of the arguments."""
    assert edit(ISSUE, GIVEN, title="y", due_date="2026-12-01") == {
        "title": "y",
        "due date": "2026-12-01",
    }
    assert edit(ISSUE, GIVEN, weight=None) == {"weight": None}
    assert edit(ISSUE, GIVEN, priority="low", labels="feature") == {
        "priority": "low",
        "labels": ["feature"],
    }
    short: dict[str, Any] = {"repo": "a/b", "title": "x"}
    assert edit(ISSUE, short, milestone="4") == {"milestone": 4}


def test_a_value_that_breaks_the_schema_has_an_error_at_its_input() -> None:
    """The error is in words for people."""
    said = list_errors(ISSUE, GIVEN, repo="none", milestone="0", parent="[1]")
    assert said.keys() == {"f:repo", "f:milestone", "f:parent"}
    assert said["f:repo"] == "This does not have the expected format."
    assert said["f:milestone"] == "This should be greater than or equal to 1."
    said = list_errors(ISSUE, GIVEN, labels="bug\nother")
    assert said == {"f:labels": "At 2: This should be 'bug' or 'feature'."}


def test_arguments_that_a_schema_does_not_name_can_be_edited() -> None:
    """The schema names none; each value is edited by its own kind."""
    tool = make_tool(build_argument_model(ANYTHING.schema, "anything"))
    given = {"env": "prod", "replicas": 3, "force": False, "extra": {"a": [1]}}
    assert edit(tool, given, env="test", replicas="4") == {"env": "test", "replicas": 4}
    assert find_element(tool, given, "f:force")["type"] == "radio_buttons"


DEFAULTS: dict[str, tuple[dict[str, Any], Any]] = {  # schema with its default, and a value before
    "text": ({"type": "string", "default": "hello"}, "bye"),
    "whole": ({"type": "integer", "default": 7}, 20),
    "part": ({"type": "number", "default": 0.5}, 2.5),
    "day": ({"type": "string", "format": "date", "default": "2026-12-19"}, "2026-01-01"),
    "moment": (
        {"type": "string", "format": "date-time", "default": "2026-12-19T08:00:00Z"},
        "2026-01-01T08:00:00Z",
    ),
    "lines": ({"type": "array", "items": {"type": "string"}, "default": ["a"]}, ["b", "c"]),
    "object": ({"type": "object", "default": {"x": 1}}, {"x": 2}),
}


@pytest.mark.parametrize("kind", DEFAULTS)
def test_an_emptied_value_becomes_the_default_that_would_run(kind: str) -> None:
    """The dialog says so beforehand, and the card shows it afterwards."""
    schema, before = DEFAULTS[kind]
    tool = make_tool(build_argument_model({"properties": {"it": schema}}, "it"))
    assert edit(tool, {"it": before}, it=None) == _flat({"it": schema["default"]})
    hint = find_block(render_view(tool, {"it": before}), "f:it")["hint"]["text"]
    assert "Left empty, it is " in hint
    assert "none" not in hint
    assert edit(tool, {}, it=None) == {}  # it was not there before, as the card shows


def test_a_choice_with_a_default_cannot_be_left_out() -> None:
    """For it would then be the default. One without a default can."""
    schema = {"enum": ["low", "high"]}
    for each in ({"type": "boolean"}, schema):
        for more, is_offered in (({"default": each.get("enum", [True])[0]}, False), ({}, True)):
            tool = make_tool(build_argument_model({"properties": {"it": each | more}}, "it"))
            before = {"it": each.get("enum", [False, False])[1]}
            options = find_element(tool, before, "f:it")["options"]
            assert ("Not set" in [each["text"]["text"] for each in options]) is is_offered


def test_an_inner_object_that_is_not_set_becomes_its_default() -> None:
    """With its values."""
    inner = {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "default": {"city": "Bonn"},
    }
    tool = make_tool(build_argument_model({"properties": {"to": inner}}, "to"))
    assert edit(tool, {"to": {"city": "Ulm"}}, to="no") == {"to": {"city": "Bonn"}}


@pytest.mark.parametrize(
    ("default", "more", "hint"),
    [
        ({"city": "Bonn"}, {}, 'With “Not set”, it is {\n  "city": "Bonn"\n}.'),
        ({}, {}, "With “Not set”, it is its default."),
        (
            {"city": "Bonn"},
            {"pin": {"type": "string", "writeOnly": True}},
            "With “Not set”, it is ••••••••.",
        ),
        (None, {}, None),
    ],
)
def test_the_dialog_says_what_an_inner_object_is_that_is_not_set(
    default: Any, more: dict[str, Any], hint: str | None
) -> None:
    """Otherwise only the card would, after the edit."""
    inner = {"type": "object", "properties": {"city": {"type": "string"}, **more}}
    schema = {"properties": {"to": inner if default is None else {**inner, "default": default}}}
    tool = make_tool(build_argument_model(schema, "to"))
    found = find_block(render_view(tool, {"to": {"city": "Ulm"}}), "f:to").get("hint", {})
    assert found.get("text") == hint
