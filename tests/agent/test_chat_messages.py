"""Transcripts as messages of Chat Completions: a server accepts whatever was stored."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bot.agent.chat_completions import (
    COUNTERSIGN_NOTE_HEADER,
    OPENAI_CHAT_DIALECT,
    build_chat_messages,
    build_request_body,
)
from bot.agent.turn import ModelRequest
from tests.model_stand_in.answers import seal_reasoning
from tests.model_stand_in.chat_checks import check_chat_request
from tests.model_stand_in.responses_checks import check_responses_request

Item = dict[str, Any]
MARK = re.compile(r"<\d+>")
ANY = st.characters(codec="utf-8", exclude_characters="<")
WORDS = st.text(ANY, max_size=20)


def build_message(role: str, text: str) -> Item:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"role": role, "content": [{"type": kind, "text": text}]}


def build_call(call_id: str, name: str = "note", arguments: str = "{}") -> Item:
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}


def build_output(call_id: str, text: str) -> Item:
    return {"type": "function_call_output", "call_id": call_id, "output": text}


@st.composite
def transcripts(draw: st.DrawFn) -> list[Item]:
    """Any transcript in which each call has one output, somewhere after it.

    Every message, call and output has a mark, <1>, <2> and so on, in order.
    """
    items: list[Item] = []
    for number in range(draw(st.integers(1, 12))):
        mark = f"<{number}>"
        match draw(st.sampled_from(("user", "assistant", "developer", "call", "reasoning"))):
            case "call":
                name = draw(st.text(ANY, min_size=1, max_size=64))
                arguments = draw(st.one_of(WORDS, st.just("{}"))) + mark
                call_id = mark + draw(st.text(ANY, max_size=55))
                items.append(
                    build_call(call_id, name, draw(st.sampled_from((arguments, f'["{mark}"]'))))
                )
            case "reasoning":
                said = f"rs_{number}"
                items.append({"type": "reasoning", "id": said, "summary": []})
            case role:
                items.append(build_message(role, mark + draw(WORDS)))
    for each in [each for each in items if each.get("type") == "function_call"]:
        at = draw(st.integers(items.index(each) + 1, len(items)))
        items.insert(at, build_output(each["call_id"], "told" + each["call_id"]))
    return items


def find_marks(value: Any) -> list[str]:
    """The marks in the value, each once, in order."""
    return list(dict.fromkeys(MARK.findall(json.dumps(value, ensure_ascii=False))))


@given(transcripts())
def test_any_valid_transcript_is_a_valid_chat(items: list[Item]) -> None:
    """Calls are answered at once, roles take turns, nothing is missing or out of order.

    Stored items do not change.
    """
    before = json.dumps(items)
    made = build_chat_messages("Be brief.", items)
    check_chat_request({"model": "gpt-5", "messages": made})
    assert json.dumps(items) == before
    roles = [each["role"] for each in made]
    assert roles[0] == "system"
    assert {one for one, other in pairwise(roles) if one == other} <= {"tool"}
    untold = [each for each in items if each.get("type") != "function_call_output"]
    assert find_marks([each for each in made if each["role"] != "tool"]) == find_marks(untold)
    calls = {each["id"]: each for one in made for each in one.get("tool_calls") or ()}
    told = {each["tool_call_id"]: each["content"] for each in made if each["role"] == "tool"}
    assert calls.keys() == told.keys()
    assert len(calls) == sum(each.get("type") == "function_call" for each in items)
    for call_id, each in calls.items():
        assert find_marks(each["function"]) == find_marks(told[call_id])
        assert isinstance(json.loads(each["function"]["arguments"]), dict)


def test_what_a_chat_accepts_is_kept_verbatim() -> None:
    """Names, arguments, ids and words."""
    arguments = '{"order_id": 1042,  "reason": "ü"}'
    items = [
        build_message("user", "First."),
        build_message("user", "Second."),
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [],
            "encrypted_content": seal_reasoning("rs_1", []),
        },
        {**build_message("assistant", "I look."), "type": "message", "id": "msg_1"},
        build_call("call_1", "look_up_order", arguments),
        build_message("assistant", "One moment."),
        build_output("call_1", "SUCCEEDED."),
        build_message("developer", "What waited has been decided."),
    ]
    check_responses_request({"model": "gpt-4.1", "input": [items[0], *items[3:]]})
    function = {"name": "look_up_order", "arguments": arguments}
    assert build_chat_messages("Be brief.", items) == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "First.\n\nSecond."},
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [{"id": "call_1", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "SUCCEEDED."},
        {"role": "assistant", "content": "One moment."},
        {"role": "user", "content": f"{COUNTERSIGN_NOTE_HEADER}\nWhat waited has been decided."},
    ]


def test_what_a_chat_refuses_is_replaced() -> None:
    """A long id, an impossible name, arguments that are no JSON object. A call that was made after
    another one's output stays behind it."""
    long = "call_" + "x" * 60
    items = [
        build_message("user", "Do it."),
        build_call(long, "look up!", "{broken"),
        build_output(long, "INVALID ARGUMENTS"),
        build_call("call_2"),
        build_output("call_2", "SUCCEEDED."),
    ]
    made = build_chat_messages("", items)
    check_chat_request({"model": "gpt-5", "messages": made})
    assert [each["role"] for each in made] == ["user", *["assistant", "tool"] * 2]
    [replaced] = made[1]["tool_calls"]
    assert replaced["function"] == {"name": "look_up_", "arguments": '{"unreadable": "{broken"}'}
    assert (replaced["id"], made[2]["content"]) == (made[2]["tool_call_id"], "INVALID ARGUMENTS")
    assert made == build_chat_messages("", items)


def test_a_refusal_becomes_a_message_of_the_assistant() -> None:
    """A message without words is left out."""
    refused = {"role": "assistant", "content": [{"type": "refusal", "refusal": "I will not."}]}
    made = build_chat_messages(
        "", [build_message("user", "Do it."), refused, build_message("assistant", " ")]
    )
    assert made == [
        {"role": "user", "content": "Do it."},
        {"role": "assistant", "content": "I will not."},
    ]


def test_a_request_without_tools_has_no_list_of_tools() -> None:
    """Servers refuse an empty list. The effort is passed on."""
    bare = build_request_body(
        ModelRequest("gpt-5", None, [build_message("user", "hello")], [], "Be brief.")
    )
    assert set(bare) == {"model", "messages"}
    inquiry = ModelRequest("gpt-5", None, [build_message("user", "hello")], [], "Be brief.")
    assert OPENAI_CHAT_DIALECT.build_request_body(inquiry) == {**bare, "store": False}
    tool = {"type": "function", "name": "note", "description": "Note", "strict": False}
    full = build_request_body(
        ModelRequest(
            "gpt-5", "low", [build_message("user", "hello")], [{**tool, "parameters": {}}], ""
        )
    )
    assert (full["reasoning_effort"], full["tool_choice"]) == ("low", "auto")
    [offered] = full["tools"]
    assert offered == {
        "type": "function",
        "function": {"name": "note", "description": "Note", "parameters": {}},
    }
