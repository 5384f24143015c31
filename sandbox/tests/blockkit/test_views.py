"""The view checker by itself: what a modal needs, and each limit of its fields."""

from __future__ import annotations

import pytest
from slack_sdk.errors import SlackObjectFormationError
from slack_sdk.models.views import View

from sandbox.tests.blockkit.builders import DIVIDER, input_block, modal, section
from sandbox.tests.blockkit.samples import Json, mrkdwn, plain
from slack_sandbox.blockkit.blocks import check_view


def test_a_modal_needs_a_title_and_blocks() -> None:
    """A modal needs title and blocks, and a submit where it asks; pointers start at /view."""
    ask = input_block({"type": "plain_text_input"})
    assert check_view(modal(DIVIDER)) == []
    assert check_view(modal(ask, submit=plain("Save"), close=plain("Back"), callback_id="c")) == []
    assert check_view(modal(ask)) == ["missing required field: submit [json-pointer:/view]"]
    assert check_view({"type": "home", "blocks": [DIVIDER]}) == []
    assert check_view([]) == ["must provide an object [json-pointer:/view]"]
    assert check_view({"type": "modal"}) == [
        "missing required field: title [json-pointer:/view]",
        "missing required field: blocks [json-pointer:/view]",
    ]
    assert check_view(modal(section(plain("")))) == [
        "must be more than 0 characters [json-pointer:/view/blocks/0/text/text]"
    ]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("title", plain("x" * 25)),
        ("submit", plain("x" * 25)),
        ("close", mrkdwn("Back")),
        ("private_metadata", "x" * 3001),
        ("callback_id", "x" * 256),
        ("external_id", "x" * 256),
        ("blocks", []),
        ("blocks", [DIVIDER] * 101),
        ("notify_on_close", "true"),
        ("submit_disabled", False),
        ("hash", "1.a"),
    ],
)
def test_views_beyond_a_limit_are_refused(field: str, value: object) -> None:
    """Each limit of a view holds, and what only Slack may set is refused as an unknown field."""
    assert len(check_view(modal(DIVIDER, **{field: value}))) == 1


@pytest.mark.parametrize(
    "change", [{"title": plain("x" * 25)}, {"blocks": []}, {"callback_id": "x" * 256}]
)
def test_slack_sdks_view_refuses_the_same(change: Json) -> None:
    """slack_sdk's View refuses what the checker refuses."""
    View(**modal(DIVIDER)).validate_json()
    with pytest.raises(SlackObjectFormationError):
        View(**{**modal(DIVIDER), **change}).validate_json()
    assert check_view({**modal(DIVIDER), **change}) != []
