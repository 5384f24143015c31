"""What Slack makes of a message without blocks: rich text, in which code is code."""

from __future__ import annotations

from slack_sandbox.blockkit.text import rich_text
from slack_sandbox.spec.slack_error import Json


def leaves(text: str) -> list[Json]:
    """The leaves of the one section it becomes."""
    [section] = rich_text(text)["elements"]
    found: list[Json] = section["elements"]
    return found


def test_backticks_make_code() -> None:
    """Text between two of them is code as written; a single one stays a character."""
    assert leaves("run `a &lt; 20` for <@UANA00001>, it`s due") == [
        {"type": "text", "text": "run "},
        {"type": "text", "text": "a < 20", "style": {"code": True}},
        {"type": "text", "text": " for "},
        {"type": "user", "user_id": "UANA00001"},
        {"type": "text", "text": ", it`s due"},
    ]


def test_code_has_no_links_or_mentions() -> None:
    """Names and addresses in code stay text; an empty `` is not code."""
    assert leaves("`see <https://a.example|here> <@U1>` ``") == [
        {"type": "text", "text": "see here @U1", "style": {"code": True}},
        {"type": "text", "text": " ``"},
    ]
