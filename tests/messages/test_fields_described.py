"""The Edit dialog of a tool whose arguments a JSON Schema describes."""

from __future__ import annotations

from typing import Any

from bot.tools.described import build_argument_model
from tests.messages.fields_support import (
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
