"""The block checker by itself: whole payloads, surfaces, escaping and message texts."""

from __future__ import annotations

from typing import Any

import pytest
from slack_sdk.errors import SlackObjectFormationError
from slack_sdk.models.blocks import Block

from sandbox.tests.blockkit.builders import DIVIDER, actions, input_block, section
from sandbox.tests.blockkit.samples import (
    BLOCKS,
    BUTTON,
    ELEMENTS,
    OPTION,
    OTHER,
    SHORT_RICH,
    Json,
    mrkdwn,
    plain,
)
from slack_sandbox.blockkit.blocks import (
    check_blocks,
    check_message_size,
    check_message_text,
    message_size,
)
from slack_sandbox.blockkit.layouts import Surface


@pytest.mark.parametrize(
    ("block", "message"),
    [
        (section(plain("")), "must be more than 0 characters [json-pointer:/blocks/0/text/text]"),
        (
            section(plain("x" * 3001)),
            "must be less than 3001 characters [json-pointer:/blocks/0/text/text]",
        ),
        ({"type": "header"}, "missing required field: text [json-pointer:/blocks/0]"),
        (
            {"type": "divider", "color": "red"},
            "invalid additional property: color [json-pointer:/blocks/0]",
        ),
        ({"type": "sparkline"}, "unsupported type: sparkline [json-pointer:/blocks/0/type]"),
        (
            actions(*[BUTTON] * 26),
            "no more than 25 items allowed [json-pointer:/blocks/0/elements]",
        ),
        (
            {"type": "header", "text": mrkdwn()},
            "unsupported type: mrkdwn [json-pointer:/blocks/0/text/type]",
        ),
        ({"type": "section"}, "must define either text or fields [json-pointer:/blocks/0]"),
        ("divider", "must provide an object [json-pointer:/blocks/0]"),
        ({}, "missing required field: type [json-pointer:/blocks/0]"),
    ],
)
def test_messages_name_the_problem_and_the_place(block: Any, message: str) -> None:
    """Each refusal says what is wrong in Slack's words, with a JSON pointer."""
    assert check_blocks([block], "message") == [message]


def test_every_problem_is_named() -> None:
    """Two unsound blocks give two messages, each with its own pointer."""
    found = check_blocks([section(plain("")), DIVIDER, {"type": "header"}], "message")
    assert [each.split("json-pointer:")[1] for each in found] == [
        "/blocks/0/text/text]",
        "/blocks/2]",
    ]


@pytest.mark.parametrize("blocks", [None, {}, "[]", 7])
def test_blocks_must_be_a_list(blocks: object) -> None:
    """Other values are refused as a whole."""
    assert check_blocks(blocks, "message") == ["must provide an array [json-pointer:/blocks]"]


def test_plain_text_is_counted_as_slack_stores_it() -> None:
    """Ampersands and angle brackets count as entities in plain text, and as sent in mrkdwn."""
    assert check_blocks([{"type": "header", "text": plain("&" * 30)}], "message") == []
    assert check_blocks([{"type": "header", "text": plain("&" * 31)}], "message") != []
    assert check_blocks([section(plain("<" * 750))], "message") == []
    assert check_blocks([section(plain("<" * 751))], "message") != []
    assert check_blocks([section(mrkdwn("<" * 3000))], "message") == []


@pytest.mark.parametrize(("surface", "most"), [("message", 50), ("modal", 100), ("home", 100)])
def test_a_surface_limits_its_number_of_blocks(surface: Surface, most: int) -> None:
    """A message holds 50 blocks, a modal or Home 100, and only a message may hold none."""
    assert check_blocks([DIVIDER] * most, surface) == []
    assert check_blocks([DIVIDER] * (most + 1), surface) == [
        f"no more than {most} items allowed [json-pointer:/blocks]"
    ]
    assert (check_blocks([], surface) == []) is (surface == "message")


MESSAGE_ONLY = [
    "context_actions",
    "markdown",
    "table",
    "data_table",
    "data_visualization",
    "task_card",
    "plan",
]
WHERE: dict[str, set[str]] = {
    **{name: {"message"} for name in MESSAGE_ONLY},
    **{name: {"message", "home"} for name in ("card", "carousel", "container")},
    "alert": {"modal"},
}


@pytest.mark.parametrize("name", BLOCKS)
def test_each_kind_of_block_has_its_surfaces(name: str) -> None:
    """Each kind of block is taken by the surfaces that show it, and refused by name elsewhere."""
    surfaces: tuple[Surface, ...] = ("message", "modal", "home")
    verdicts = {surface: check_blocks([BLOCKS[name]], surface) for surface in surfaces}
    assert {surface for surface, found in verdicts.items() if not found} == WHERE.get(
        name, set(surfaces)
    )
    refused = f"unsupported type: {name} [json-pointer:/blocks/0/type]"
    assert all(found == [refused] for found in verdicts.values() if found)


@pytest.mark.parametrize("name", ["file", "call"])
def test_blocks_that_are_only_read_are_refused(name: str) -> None:
    """Blocks that are only ever read are refused everywhere."""
    assert check_blocks([{"type": name, "external_id": "x", "source": "remote"}], "message") == [
        f"unsupported type: {name} [json-pointer:/blocks/0/type]"
    ]


PICKER = {"type": "users_select", "focus_on_load": True}
PIECE = {"type": "markdown", "text": "x" * 6000}
TABLE = {
    "type": "table",
    "rows": [[{"type": "raw_text", "text": "x" * 5000}, {"type": "raw_text", "text": "x" * 5000}]],
}
LONG_ROW = [*TABLE["rows"], [{"type": "raw_text", "text": "x"}]]
FILE = input_block({"type": "file_input"})
URL_SELECT = {"type": "channels_select", "response_url_enabled": True}
BOX = {"type": "container", "title": plain(), "child_blocks": [{**DIVIDER, "block_id": "one"}]}
CHART = {name: each for name, each in BLOCKS["data_visualization"].items() if name != "block_id"}


@pytest.mark.parametrize(
    ("surface", "sound", "unsound"),
    [
        (
            "message",
            [{**DIVIDER, "block_id": "a"}, {**DIVIDER, "block_id": "b"}],
            [{**DIVIDER, "block_id": "a"}] * 2,
        ),
        ("message", [BOX], [{**DIVIDER, "block_id": "one"}, BOX]),
        (
            "message",
            [actions({**BUTTON, "action_id": "a"})] * 2,
            [actions(*[{**BUTTON, "action_id": "a"}] * 2)],
        ),
        ("modal", [input_block(PICKER)], [input_block(PICKER), input_block(PICKER)]),
        ("message", [PIECE] * 2, [PIECE, PIECE, {"type": "markdown", "text": "x"}]),
        ("message", [TABLE], [{**TABLE, "rows": LONG_ROW}]),
        ("message", [TABLE], [{"type": "table", "rows": [[{"type": "raw_text", "text": ""}]]}] * 2),
        ("message", [{"type": "plan", "title": "Plan"}], [{"type": "plan", "title": "Plan"}] * 2),
        ("message", [CHART] * 2, [CHART] * 3),
        ("modal", [FILE], [{**FILE, "dispatch_action": True}]),
        ("modal", [input_block(URL_SELECT)], [actions(URL_SELECT)]),
    ],
)
def test_limits_of_a_whole_payload_are_refused_once(
    surface: Surface, sound: list[Json], unsound: list[Json]
) -> None:
    """Slack limits these for the message or view as a whole; there is exactly one error."""
    assert check_blocks(sound, surface) == []
    assert len(check_blocks(unsound, surface)) == 1


def test_file_inputs_and_response_urls_are_for_modals() -> None:
    """File inputs and response_url_enabled are for modals."""
    for block in (FILE, input_block(URL_SELECT)):
        assert check_blocks([block], "modal") == []
        assert len(check_blocks([block], "message")) == 1


@pytest.mark.parametrize(
    ("sound", "changes"),
    [
        (ELEMENTS["number_input"], {"initial_value": "21"}),
        (ELEMENTS["number_input"], {"min_value": "2"}),
        (ELEMENTS["number_input"], {"is_decimal_allowed": False}),
        (ELEMENTS["number_input"], {"initial_value": "1,5"}),
        (ELEMENTS["number_input"], {"initial_value": "1e3"}),
        (ELEMENTS["plain_text_input"], {"min_length": 9, "max_length": 8}),
        (ELEMENTS["datepicker"], {"initial_date": "2026-02-30"}),
        (ELEMENTS["datepicker"], {"initial_date": "28.02.2026"}),
        (ELEMENTS["timepicker"], {"initial_time": "24:00"}),
        (ELEMENTS["static_select"], {"option_groups": [{"label": plain(), "options": [OPTION]}]}),
        (ELEMENTS["static_select"], {"initial_option": {**OTHER, "value": "3"}}),
        (ELEMENTS["radio_buttons"], {"initial_option": {**OTHER, "text": plain("2")}}),
    ],
)
def test_contradicting_fields_of_an_input_are_refused(sound: Json, changes: Json) -> None:
    """An input whose bounds, formats or initial values contradict each other is refused once."""
    assert check_blocks([input_block(sound)], "modal") == []
    assert len(check_blocks([input_block({**sound, **changes})], "modal")) == 1


def test_a_message_needs_a_text() -> None:
    """A message needs a text.

    An update's text ends at 4,000 characters, a new message's does not.
    """
    assert check_message_text("hello") is None
    assert check_message_text(" \n") == "no_text"
    assert check_message_text("x" * 4001) is None
    assert check_message_text("x" * 4000, update=True) is None
    assert check_message_text("x" * 4001, update=True) == "msg_too_long"


def test_sound_blocks_can_be_too_long_together() -> None:
    """Blocks that are sound one by one can be too long together; rich text counts escaped."""
    long = [section(mrkdwn("x" * 3000))] * 4
    assert check_message_size(long) is None
    assert check_message_size([*long, section(mrkdwn("x" * 1000))]) == "msg_blocks_too_long"
    assert message_size([SHORT_RICH]) == 105
    rich = {"type": "rich_text_section", "elements": [{"type": "text", "text": "<&>"}]}
    assert message_size([{"type": "rich_text", "elements": [rich]}]) == 113


SDK_LIMITS: list[tuple[Json, bool]] = [
    (section(plain("x" * 3000)), True),
    (section(plain("x" * 3001)), False),
    ({"type": "section", "fields": [plain()] * 11}, False),
    ({"type": "header", "text": plain("x" * 151)}, False),
    (actions(*[BUTTON] * 25), True),
    (actions(*[BUTTON] * 26), False),
    ({"type": "context", "elements": [plain()] * 11}, False),
    ({**DIVIDER, "block_id": "x" * 256}, False),
    ({"type": "markdown", "text": "x" * 12_001}, False),
    (input_block({"type": "plain_text_input"}), True),
    ({**input_block({"type": "plain_text_input"}), "label": plain("x" * 2001)}, False),
    ({"type": "image", "image_url": "https://a.example", "alt_text": "x" * 2001}, False),
]


@pytest.mark.parametrize(("block", "sound"), SDK_LIMITS)
def test_slack_sdks_validators_agree(block: Json, sound: bool) -> None:
    """slack_sdk's own validators come to the same verdict."""
    parsed = Block.parse(block)
    assert parsed is not None
    try:
        parsed.validate_json()
        theirs = True
    except SlackObjectFormationError:
        theirs = False
    assert ((not check_blocks([block], "message")), theirs) == (sound, sound)
