"""A server's result as the model and people see it: complete, and nothing twice."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mcp_types import CallToolResult

from bot.mcp.server_connection import convert_tool_result

VALUES = {"number": 7, "names": ["a", "b"], "deep": {"x": 1.5, "y": None}}
TURNED = dict(reversed(VALUES.items()))
LISTED = {"result": [{"a": 1}, {"a": 2}]}
MIRRORED: dict[str, tuple[list[str], dict[str, Any]]] = {
    "as it is": ([json.dumps(VALUES)], VALUES),
    "without blanks": ([json.dumps(VALUES, separators=(",", ":"))], VALUES),
    "over lines": ([json.dumps(VALUES, indent=2)], VALUES),
    "in another order": ([json.dumps(TURNED)], VALUES),
    "with room around it": ([f"\n {json.dumps(VALUES)}\n"], VALUES),
    "fenced": ([f"```json\n{json.dumps(VALUES, indent=4)}\n```"], VALUES),
    "twice": ([json.dumps(VALUES), json.dumps(VALUES, indent=1)], VALUES),
    "what a result holds": ([json.dumps(LISTED["result"])], LISTED),
    "a text alone": (["seven"], {"said": "seven"}),
    "a number alone": (["7"], {"number": 7}),
    "no text": ([], VALUES),
}


def build_result(texts: list[str], given: Any) -> CallToolResult:
    """A result with these texts and values."""
    content = [{"type": "text", "text": each} for each in texts]
    return CallToolResult.model_validate({"content": content, "structuredContent": given})


@pytest.mark.parametrize("name", MIRRORED)
def test_text_that_repeats_the_values_is_left_out(name: str) -> None:
    """However the server formats it for clients that read only text."""
    texts, given = MIRRORED[name]
    assert convert_tool_result(build_result(texts, given)) in (given, given.get("result"))


@pytest.mark.parametrize("given", [[7], [[7, 8]], [], ["seven"], 7, "seven", True], ids=str)
def test_values_may_be_any_json(given: Any) -> None:
    """As the newest protocol allows; a text that repeats them is left out."""
    assert convert_tool_result(build_result([], given)) == given
    assert convert_tool_result(build_result([json.dumps(given)], given)) == given
    both = convert_tool_result(build_result(["Found."], given))
    assert both == f"Found.\n{json.dumps(given)}"


def test_other_text_is_shown_beside_the_values() -> None:
    """The values are shown once, even if the text repeats them."""
    for texts in (["Found seven."], ["Found seven.", json.dumps(VALUES, indent=2)]):
        assert (
            convert_tool_result(build_result(texts, VALUES))
            == f"Found seven.\n{json.dumps(VALUES)}"
        )
    other = json.dumps({**VALUES, "number": 8})
    assert convert_tool_result(build_result([other], VALUES)) == f"{other}\n{json.dumps(VALUES)}"
    assert convert_tool_result(build_result([json.dumps(VALUES)], None)) == VALUES
    assert convert_tool_result(build_result(["[1, 2"], None)) == "[1, 2"


@pytest.mark.parametrize(
    ("block", "shown"),
    [
        ({"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"}, "[image, image/png, 6 b"),
        ({"type": "audio", "data": "aGVsbG8=", "mimeType": "audio/wav"}, "[audio, audio/wav, 6 b"),
        ({"type": "resource_link", "name": "plan", "uri": "x://plan"}, "plan: x://plan"),
        ({"type": "resource", "resource": {"uri": "x://a", "text": "all of it"}}, "all of it"),
        ({"type": "resource", "resource": {"uri": "x://b", "blob": "aGk="}}, "[file x://b, unk"),
    ],
    ids=["image", "audio", "link", "text of a resource", "file of a resource"],
)
def test_each_kind_of_content_is_shown(block: dict[str, Any], shown: str) -> None:
    """Text embedded as a resource is read; other data is named with its size."""
    result = CallToolResult.model_validate({"content": [block]})
    assert shown in str(convert_tool_result(result))
