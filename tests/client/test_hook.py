"""`countersign hook`: what it answers Claude Code before a tool is used, and reports afterwards."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
from typing import Any

import pytest

from countersign.cli.commands import main
from countersign.cli.hook import BLOCKED_EXIT_CODE
from tests.client.shop import Shop, get_result
from tests.pages import ROOT


def build_input(command: str, **more: Any) -> str:
    """What Claude Code says that it is about to do."""
    said = {
        "session_id": "5c1e",
        "transcript_path": "/home/ben/.claude/5c1e.jsonl",
        "cwd": "/home/ben/shop",
        "permission_mode": "default",
        "hook_event_name": "PreToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": command, "timeout": 5000},
        "tool_use_id": f"toolu_{abs(hash(command))}",
    }
    return json.dumps({**said, **more})


def run_hook(monkeypatch: pytest.MonkeyPatch, said: str, wait: str = "1m") -> int:
    """Run the hook as Claude Code does."""
    monkeypatch.setattr("sys.stdin", io.StringIO(said))
    return main(["hook", "--channel", "C0SUPPORT", "--wait", wait])


def read_answer(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """What the hook answered."""
    found: dict[str, Any] = json.loads(capsys.readouterr().out)["hookSpecificOutput"]
    assert found["hookEventName"] == "PreToolUse"
    return found


def test_an_approved_tool_is_used_with_the_edited_input(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Unedited, nothing is changed, and the end is reported.

    Edited, the whole input is replaced.
    """
    future = shop.start(run_hook, monkeypatch, build_input("make release"))
    card = shop.wait_for_card("Use Bash: make release")
    assert "/home/ben/shop" in str(card)
    shop.approve("Use Bash: make release")
    assert get_result(future) == 0
    said = read_answer(capsys)
    assert said["permissionDecision"] == "allow"
    assert "UANA00001" in said["permissionDecisionReason"]
    assert "updatedInput" not in said
    [call] = shop.list_calls("make release")
    assert call.status.value == "running"
    done = build_input("make release", hook_event_name="PostToolUse", duration_ms=4187)
    assert (run_hook(monkeypatch, done), capsys.readouterr().out) == (0, "")
    [call] = shop.list_calls("make release")
    assert (call.status.value, call.note) == ("succeeded", "done in 4.2 s")

    future = shop.start(run_hook, monkeypatch, build_input("rm -rf build"))
    shop.edit("Use Bash: rm -rf build", command="rm -r build/cache")
    shop.approve("Use Bash: rm -r build/cache", "cleo")
    get_result(future)
    assert read_answer(capsys)["updatedInput"] == {"command": "rm -r build/cache", "timeout": 5000}


def test_a_rejected_tool_is_not_used(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Claude gets the words, and is told not to work around it."""
    future = shop.start(run_hook, monkeypatch, build_input("git push --force"))
    shop.reject("Use Bash: git push --force", "not on main")
    assert get_result(future) == 0
    said = read_answer(capsys)
    assert said["permissionDecision"] == "deny"
    assert "not on main" in said["permissionDecisionReason"]


def test_no_tool_is_used_if_nobody_can_be_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No key, nonsense as input, no address: never an allow, never a quiet end."""
    monkeypatch.delenv("COUNTERSIGN_URL", raising=False)
    assert run_hook(monkeypatch, build_input("ls")) == 0
    assert read_answer(capsys)["permissionDecision"] == "deny"
    deep = build_input("ls").replace("5000", "[" * 100_000 + "]" * 100_000)
    for said in ("", "{}", "[]", "null", deep, build_input("ls", hook_event_name="Stop")):
        assert run_hook(monkeypatch, said) == BLOCKED_EXIT_CODE
        assert not capsys.readouterr().out
    monkeypatch.setattr("sys.stdin", None)  # closed by the caller
    assert main(["hook"]) == BLOCKED_EXIT_CODE
    with pytest.raises(SystemExit) as end:
        main(["hook", "--wait", "for ever"])
    assert end.value.code == BLOCKED_EXIT_CODE
    # after the use nothing depends on it: not the exit code that blocks
    assert run_hook(monkeypatch, build_input("ls", hook_event_name="PostToolUse")) == 1
    assert "was not told" in capsys.readouterr().err


def test_the_hook_waits_while_the_bot_restarts(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It waits for the same request."""
    future = shop.start(run_hook, monkeypatch, build_input("make patiently"), "4h")
    shop.wait_for_card("Use Bash: make patiently")
    shop.harness.restart()
    shop.approve("Use Bash: make patiently")
    assert get_result(future) == 0
    said = read_answer(capsys)
    assert said["permissionDecision"] == "allow", said
    assert len(shop.list_calls("make patiently")) == 1


@pytest.mark.long
def test_ending_a_hook_cancels_its_request(shop: Shop) -> None:
    """Claude Code ends it while people decide."""
    words = [sys.executable, "-m", "bot", "hook", "--channel", "C0SUPPORT"]
    with subprocess.Popen(
        words, cwd=ROOT, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(build_input("make ended"))
        process.stdin.close()
        shop.wait_for_card("Use Bash: make ended")
        assert "Asked at" in process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == BLOCKED_EXIT_CODE
    shop.harness.settle()
    [call] = shop.list_calls("make ended")
    assert call.status.value == "cancelled"


@pytest.mark.parametrize("number", ["", "toolu_7"])
def test_a_request_for_permission_is_answered_in_its_form(
    number: str, shop: Shop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Claude Code would ask its user: allowed with the edited input, or denied with the reason."""
    command = f"make permitted{number}"
    asks = {"hook_event_name": "PermissionRequest", "tool_use_id": number}
    future = shop.start(run_hook, monkeypatch, build_input(command, **asks))
    shop.edit(f"Use Bash: {command}", command=f"{command} -n")
    shop.approve(f"Use Bash: {command} -n", "cleo")
    assert get_result(future) == 0
    allowed = read_permission(capsys)
    given = {"command": f"{command} -n", "timeout": 5000}
    assert allowed == {"behavior": "allow", "updatedInput": given}
    assert len(shop.list_calls(f"{command} -n")) == 1
    future = shop.start(
        run_hook, monkeypatch, build_input(f"{command} now", **{**asks, "tool_use_id": ""})
    )
    shop.reject(f"Use Bash: {command} now", "not today")
    assert get_result(future) == 0
    denied = read_permission(capsys)
    assert (denied["behavior"], "not today" in denied["message"]) == ("deny", True)


def test_permission_is_denied_if_nobody_can_be_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the form of that event."""
    monkeypatch.delenv("COUNTERSIGN_URL", raising=False)
    assert run_hook(monkeypatch, build_input("ls", hook_event_name="PermissionRequest")) == 0
    assert read_permission(capsys)["behavior"] == "deny"


def read_permission(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """The hook's answer to a request for permission."""
    found = json.loads(capsys.readouterr().out)["hookSpecificOutput"]
    assert set(found) == {"hookEventName", "decision"}
    assert found["hookEventName"] == "PermissionRequest"
    decision: dict[str, Any] = found["decision"]
    return decision
