"""Claude Code's PermissionRequest hook, which it calls where it would show a dialog."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from bot.http.claude_code import HookEventDetector
from countersign.hook_formats import HookEventKind
from storage.models import Call
from tests.stories.harness import SUPPORT, Harness
from tests.stories.steps import open_modal, reject, typed, vote
from tests.web.api.conftest import NewProgram
from tests.web.api.program import Program
from tests.web.api.test_hooks import PATH as SUPPORT_HOOK
from tests.web.api.test_hooks import build_use

EVENT = "PermissionRequest"
PATH = SUPPORT_HOOK + "&wait=1m"


def build_permission_request(command: str, **more: Any) -> dict[str, Any]:
    """Build what Claude Code sends where it would show a dialog; some versions send no id."""
    said = build_use(command, EVENT, permission_suggestions=[], **more)
    return {name: each for name, each in said.items() if each is not None}


def read_decision(answer: tuple[int, dict[str, Any]]) -> dict[str, Any]:
    """Read the decision, in the form that this hook takes."""
    status, said = answer
    assert status == 200, said
    assert set(said) == {"hookSpecificOutput"}
    found = said["hookSpecificOutput"]
    assert found["hookEventName"] == EVENT
    assert set(found) == {"hookEventName", "decision"}
    decision: dict[str, Any] = found["decision"]
    return decision


@pytest.mark.parametrize("number", [None, "toolu_1"])
def test_the_permission_hook_returns_what_people_decided(
    number: str | None, bot: Harness, new_program: NewProgram
) -> None:
    """The answer has the edited input. If Claude Code gives no id, it cannot report the outcome,
    which is unknown.
    """
    program = new_program()
    command = f"make {number or 'unnamed'}"
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(
            program.ask, "POST", PATH, build_permission_request(command, tool_use_id=number)
        )
        card = program.card(f"Use Bash: {command}")
        open_modal(bot, "ana", SUPPORT, card, "edit")
        bot.person("ana").submit(typed(command=f"{command} -n"))
        vote(bot, "cleo", program.card(f"Use Bash: {command} -n", "cleo"))
        allowed = read_decision(waiting.result(30))
    given = {"command": f"{command} -n", "timeout": 5000}
    assert allowed == {"behavior": "allow", "updatedInput": given}
    call: Call = bot.all(Call)[-1]
    if number is None:
        assert (call.status.value, call.note) == (
            "unknown",
            "Claude Code does not say how it went.",
        )
        return
    assert call.status.value == "running"
    done = build_use(command, "PostToolUse", tool_input=given, tool_use_id=number)
    assert program.ask("POST", PATH, done) == (200, {})
    assert bot.all(Call)[-1].status.value == "succeeded"


def test_a_rejected_permission_is_denied_with_the_reason(
    bot: Harness, new_program: NewProgram
) -> None:
    """The same asked again later is another request."""
    program = new_program()
    with ThreadPoolExecutor(1) as pool:
        for number in (1, 2):
            said = build_permission_request("git push --force", tool_use_id=None)
            waiting = pool.submit(program.ask, "POST", PATH, said)
            reject(bot, "ana", SUPPORT, program.card("Use Bash: git push --force"), f"no, {number}")
            denied = read_decision(waiting.result(30))
            assert denied["behavior"] == "deny"
            assert f"no, {number}" in denied["message"]
            assert "another way" in denied["message"]
            bot.settle()  # after that its card has no buttons


def test_both_hooks_together_ask_once_about_one_use(bot: Harness, new_program: NewProgram) -> None:
    """The use has an id, so there is one card."""
    program, before = new_program(), len(bot.all(Call, Call.tool == "claude_Bash"))
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(program.ask, "POST", PATH, build_use("make both"))
        vote(bot, "ana", program.card("Use Bash: make both"))
        assert waiting.result(30)[0] == 200
    assert read_decision(program.ask("POST", PATH, build_permission_request("make both"))) == {
        "behavior": "allow"
    }
    assert len(bot.all(Call, Call.tool == "claude_Bash")) == before + 1


WRONG: dict[str, tuple[str, dict[str, Any]]] = {
    "no tool": (PATH, {"tool_name": 5}),
    "a session that is none": (PATH, {"session_id": ""}),
    "an id that is none": (PATH, {"tool_use_id": 5}),
    "a wait that is none": (f"{SUPPORT_HOOK}&wait=soon", {}),
    "a mistyped address": ("/v1/hooks/claud-code", {}),
    "a channel that is none": ("/v1/hooks/claude-code?channel=%23nowhere", {}),
}


@pytest.mark.parametrize("key", [True, False])
@pytest.mark.parametrize("name", WRONG)
def test_any_wrong_permission_request_is_denied(
    name: str, key: bool, bot: Harness, new_program: NewProgram
) -> None:
    """The denial is in the form of this hook, with a key or without."""
    path, more = WRONG[name]
    program = new_program() if key else Program(bot, "")
    found = read_decision(program.ask("POST", path, build_permission_request("ls", **more)))
    assert found["behavior"] == "deny"
    assert found["message"]


def test_a_tools_input_cannot_change_which_hook_is_meant() -> None:
    """A denial is in the form of the hook that was called, whatever the input contains, and however
    the body is split.
    """
    own, other = HookEventKind.BEFORE.value, HookEventKind.PERMISSION.value
    plain = json.dumps({"hook_event_name": other, "tool_input": {}})
    nested = json.dumps({"hook_event_name": own, "tool_input": {"hook_event_name": other}})
    later = json.dumps({"tool_input": {"hook_event_name": other}, "hook_event_name": own})
    quoted = json.dumps({"hook_event_name": own, "tool_input": {"a": plain}})
    expected = {plain: HookEventKind.PERMISSION}
    for text in (plain, nested, later, quoted, "", "{", '"hook_event_name"'):
        for size in (1, 7, 1000):
            heard, body = HookEventDetector(), text.encode()
            for at in range(0, len(body) + 1, size):
                heard.add_body_part(body[at : at + size], is_last=at + size > len(body))
            assert heard.event is expected.get(text, HookEventKind.BEFORE), (text, size)
        heard = HookEventDetector()
        heard.add_body_part(text.encode(), is_last=False)
        assert heard.event is HookEventKind.BEFORE  # the rest might say otherwise
