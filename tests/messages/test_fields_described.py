"""The Edit dialog of a tool whose arguments a JSON Schema describes."""

from __future__ import annotations

from typing import Any

from bot.tools.described import build_argument_model
from tests.messages.fields_support import block, edited, element, errors, tool_for, view_of
from tests.tools.described.samples import ANYTHING, CREATE_ISSUE

ISSUE = tool_for(build_argument_model(CREATE_ISSUE.schema, "create_issue"))
GIVEN = CREATE_ISSUE.taken[2]


def test_each_value_has_the_input_that_fits_it() -> None:
    """Texts, choices, numbers, dates, lists, yes and no: each has its own input."""
    view = view_of(ISSUE, GIVEN)
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
    assert block(view, "f:title")["label"]["text"] == "Headline"
    assert element(ISSUE, GIVEN, "f:title")["max_length"] == 256


def test_what_is_changed_is_changed_and_nothing_else() -> None:
    """An edit changes its value only; what is emptied is not given any more."""
    assert edited(ISSUE, GIVEN, title="y", due_date="2026-12-01") == {
        "title": "y",
        "due date": "2026-12-01",
    }
    assert edited(ISSUE, GIVEN, weight=None) == {"weight": None}
    assert edited(ISSUE, GIVEN, priority="low", labels="feature") == {
        "priority": "low",
        "labels": ["feature"],
    }
    short: dict[str, Any] = {"repo": "a/b", "title": "x"}
    assert edited(ISSUE, short, milestone="4") == {"milestone": 4}


def test_what_is_wrong_is_said_at_its_input() -> None:
    """What the schema does not take is said below the input, in words for people."""
    said = errors(ISSUE, GIVEN, repo="none", milestone="0", parent="[1]")
    assert said.keys() == {"f:repo", "f:milestone", "f:parent"}
    assert said["f:repo"] == "This does not have the expected format."
    assert said["f:milestone"] == "This should be greater than or equal to 1."
    said = errors(ISSUE, GIVEN, labels="bug\nother")
    assert said == {"f:labels": "At 2: This should be 'bug' or 'feature'."}


def test_arguments_without_names_can_be_edited() -> None:
    """Where the schema names nothing, each value is edited as what it is."""
    tool = tool_for(build_argument_model(ANYTHING.schema, "anything"))
    given = {"env": "prod", "replicas": 3, "force": False, "extra": {"a": [1]}}
    assert edited(tool, given, env="test", replicas="4") == {"env": "test", "replicas": 4}
    assert element(tool, given, "f:force")["type"] == "radio_buttons"
