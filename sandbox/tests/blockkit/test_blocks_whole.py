"""Rules beyond single blocks: scopes, domains, attachments, nested elements, error codes."""

from __future__ import annotations

from typing import Any

import pytest

from sandbox.tests.blockkit.differences import CHART, TABLE, VISUAL
from sandbox.tests.blockkit.samples import BLOCKS, BUTTON, ELEMENTS, Json, plain
from slack_sandbox.blockkit.attachments import check_attachments, completed_attachments
from slack_sandbox.blockkit.blocks import check_blocks, check_leave, error_of
from slack_sandbox.blockkit.text import completed, elements_of, every_block

DIVIDER: Json = {"type": "divider"}
MANIFEST: Json = {
    "features": {
        "unfurl_domains": ["shop.example"],
        "user_connections": {"auth_hosts": ["login.example"]},
    }
}
VIDEO = BLOCKS["video"]
FILE: Json = {"type": "input", "label": plain(), "element": {"type": "file_input"}}


def auth(url: str) -> Json:
    """An auth_provider that sends people there."""
    return {
        "type": "auth_provider",
        "value": "shop",
        "name": plain(),
        "is_connected": False,
        "auth_url": url,
    }


@pytest.mark.parametrize(
    ("block", "scope", "at"),
    [
        (VIDEO, "links.embed:write", "/blocks/0"),
        ({**VIDEO, "video_url": "https://film.shop.example/a"}, "links.embed:write", "/blocks/0"),
        (FILE, "files:read", "/blocks/0/element"),
    ],
)
def test_videos_and_file_inputs_need_their_scopes(block: Json, scope: str, at: str) -> None:
    """Videos and file inputs need a scope each, and nothing more."""
    assert check_leave([block], {scope}, MANIFEST) == []
    assert check_leave([block], {"chat:write"}, MANIFEST) == [
        f"{(block.get('element') or block)['type']} needs the scope {scope} [json-pointer:{at}]"
    ]


@pytest.mark.parametrize(
    ("block", "pointer"),
    [
        ({**VIDEO, "video_url": "https://othershop.example/a"}, "/blocks/0/video_url"),
        ({**VIDEO, "video_url": "https://shop.example.evil.example/a"}, "/blocks/0/video_url"),
        (auth("https://login.example.evil.example/"), "/blocks/0/auth_url"),
        (
            {**auth("https://a.login.example/"), "disconnect_url": "https://shop.example/"},
            "/blocks/0/disconnect_url",
        ),
    ],
)
def test_domains_missing_in_the_manifest_are_refused(block: Json, pointer: str) -> None:
    """A listed domain covers its subdomains, but no name that only looks like it."""
    (found,) = check_leave([block], {"links.embed:write"}, MANIFEST)
    assert found.endswith(f"[json-pointer:{pointer}]")
    assert check_leave([auth("https://a.login.example/")], (), MANIFEST) == []


def attachment(**more: Any) -> Json:
    """An attachment of the older kind."""
    return {
        "color": "#36a64f",
        "title": "Order 7",
        "text": "A *basket*",
        "mrkdwn_in": ["text"],
        **more,
    }


@pytest.mark.parametrize(
    ("attachments", "blocks", "error", "at"),
    [
        ("[]", [], "invalid_attachments", "/attachments"),
        (["x"], [], "invalid_attachments", "/attachments"),
        ([attachment()] * 101, [], "too_many_attachments", ""),
        ([{}], [], "invalid_attachments", "/attachments/0"),
        ([{"color": "#36a64f"}], [], "invalid_attachments", "/attachments/0"),
        ([attachment(text=7)], [], "invalid_attachments", "/attachments/0/text"),
        ([attachment(image_url="a cat")], [], "invalid_attachments", "/attachments/0/image_url"),
        (
            [attachment(fields=[{"title": 1}])],
            [],
            "invalid_attachments",
            "/attachments/0/fields/0/title",
        ),
        (
            [attachment(mrkdwn_in=["color"])],
            [],
            "invalid_attachments",
            "/attachments/0/mrkdwn_in/0",
        ),
        (
            [attachment(), {"blocks": [{"type": "header"}]}],
            [],
            "invalid_blocks",
            "/attachments/1/blocks/0",
        ),
        (
            [{"blocks": [{"type": "alert", "text": plain()}]}],
            [],
            "invalid_blocks",
            "/attachments/0/blocks/0/type",
        ),
        ([{"blocks": [DIVIDER] * 51}], [], "invalid_blocks", "/attachments/0/blocks"),
        ([{"blocks": [TABLE]}], [TABLE], "invalid_attachments", "/attachments/1"),
    ],
)
def test_wrong_attachments_are_refused_with_code_and_place(
    attachments: Any, blocks: list[Json], error: str, at: str
) -> None:
    """The code and the place are those of the mistake."""
    code, problems = check_attachments(attachments, blocks)
    assert code == error
    assert [what.endswith(f"[json-pointer:{at}]") for what in problems] == ([True] if at else [])


def test_both_kinds_of_attachments_are_accepted() -> None:
    """Both kinds of attachments pass.

    They come back numbered, with ids and a fallback, without what nobody knows.
    """
    given = [
        attachment(fields=[{"title": "Price", "value": "40", "short": True}], surprise=1),
        {"blocks": [DIVIDER]},
    ]
    assert check_attachments(given, [DIVIDER]) == ("", [])
    assert check_attachments([attachment()] * 100, []) == ("", [])
    first, second = completed_attachments(given)
    assert (first["id"], first["fallback"], second["id"]) == (1, "A *basket*", 2)
    assert "surprise" not in first
    assert second["blocks"][0]["block_id"]
    assert "block_id" not in given[1]["blocks"][0]


def test_nested_elements_get_ids() -> None:
    """Buttons in containers, cards and carousels are found, and get ids as all others do."""
    card = {"type": "card", "title": plain(), "actions": [dict(BUTTON)]}
    box = {
        "type": "container",
        "title": plain(),
        "child_blocks": [{"type": "actions", "elements": [dict(BUTTON)]}],
    }
    blocks = completed(
        [box, {"type": "carousel", "elements": [card]}, {**card, "actions": [dict(BUTTON)]}]
    )
    found = [
        (block["type"], element) for block in every_block(blocks) for element in elements_of(block)
    ]
    assert [kind for kind, _ in found] == ["actions", "card", "card"]
    assert all(element["action_id"] for _, element in found)
    assert len({block["block_id"] for block in every_block(blocks)}) == 5


def test_a_second_table_is_refused() -> None:
    """A second table has an error of its own, and points at the block that is too many."""
    problems = check_blocks([TABLE, DIVIDER, {**TABLE, "caption": "More"}], "message")
    assert problems == ["only_one_table_allowed [json-pointer:/blocks/2]"]
    assert error_of(problems) == "invalid_attachments"
    assert error_of(check_blocks([{"type": "header"}], "message")) == "invalid_blocks"


@pytest.mark.parametrize(
    "series",
    [
        [{"name": "EUR", "data": [{"label": "June", "value": 1}]}],
        [{"name": "EUR", "data": [{"label": "May", "value": 1}, {"label": "May", "value": 2}]}],
        [CHART["series"][0], CHART["series"][0]],
    ],
)
def test_chart_series_need_a_name_and_a_point_per_category(series: list[Json]) -> None:
    """Each series has one point per category, and a name of its own."""
    assert check_blocks([VISUAL], "message") == []
    broken = {**VISUAL, "chart": {**CHART, "series": series}}
    (found,) = check_blocks([broken], "message")
    assert found.endswith("[json-pointer:/blocks/0/chart]")


def test_an_initial_option_may_leave_out_defaults() -> None:
    """`emoji` is true where nothing is said: such an option is the one that was offered."""
    option = {"text": {"type": "plain_text", "text": "One"}, "value": "1"}
    spelled = {"text": {"type": "plain_text", "text": "One", "emoji": True}, "value": "1"}
    other = {"text": {"type": "plain_text", "text": "One", "emoji": False}, "value": "1"}
    for initial, sound in ((spelled, True), (other, False)):
        element = {**ELEMENTS["static_select"], "options": [option], "initial_option": initial}
        block = {"type": "input", "label": plain(), "element": element}
        assert (check_blocks([block], "modal") == []) is sound
