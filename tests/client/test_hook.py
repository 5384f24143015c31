"""`countersign hook`: what Claude Code is told before it uses a tool, and says afterwards."""

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
from tests.client.shop import Shop, ended
from tests.pages import ROOT


def use(command: str, **more: Any) -> str:
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


def hook(monkeypatch: pytest.MonkeyPatch, said: str, wait: str = "1m") -> int:
    """Claude Code starts the hook."""
    monkeypatch.setattr("sys.stdin", io.StringIO(said))
    return main(["hook", "--channel", "C0SUPPORT", "--wait", wait])


def answer(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """What it is answered."""
    found: dict[str, Any] = json.loads(capsys.readouterr().out)["hookSpecificOutput"]
    assert found["hookEventName"] == "PreToolUse"
    return found


def test_an_approved_tool_is_used_as_it_was_edited(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Approved as it is: nothing is changed, and how it went is said. Edited: all of the input."""
    future = shop.begin(hook, monkeypatch, use("make release"))
    card = shop.card("Use Bash: make release")
    assert "/home/ben/shop" in str(card)
    shop.approve("Use Bash: make release")
    assert ended(future) == 0
    said = answer(capsys)
    assert said["permissionDecision"] == "allow"
    assert "UANA00001" in said["permissionDecisionReason"]
    assert "updatedInput" not in said
    [call] = shop.calls("make release")
    assert call.status.value == "running"
    done = use("make release", hook_event_name="PostToolUse", duration_ms=4187)
    assert (hook(monkeypatch, done), capsys.readouterr().out) == (0, "")
    [call] = shop.calls("make release")
    assert (call.status.value, call.note) == ("succeeded", "done in 4.2 s")

    future = shop.begin(hook, monkeypatch, use("rm -rf build"))
    shop.edit("Use Bash: rm -rf build", command="rm -r build/cache")
    shop.approve("Use Bash: rm -r build/cache", "cleo")
    ended(future)
    assert answer(capsys)["updatedInput"] == {"command": "rm -r build/cache", "timeout": 5000}


def test_a_rejected_tool_is_not_used(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Claude is told the words, and that there is no way around it."""
    future = shop.begin(hook, monkeypatch, use("git push --force"))
    shop.reject("Use Bash: git push --force", "not on main")
    assert ended(future) == 0
    said = answer(capsys)
    assert said["permissionDecision"] == "deny"
    assert "not on main" in said["permissionDecisionReason"]


def test_where_nobody_can_be_asked_no_tool_is_used(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No key, no sense in what comes in, no such address: never an allow, never a quiet end."""
    monkeypatch.delenv("COUNTERSIGN_URL", raising=False)
    assert hook(monkeypatch, use("ls")) == 0
    assert answer(capsys)["permissionDecision"] == "deny"
    deep = use("ls").replace("5000", "[" * 100_000 + "]" * 100_000)
    for said in ("", "{}", "[]", "null", deep, use("ls", hook_event_name="Stop")):
        assert hook(monkeypatch, said) == BLOCKED_EXIT_CODE
        assert not capsys.readouterr().out
    monkeypatch.setattr("sys.stdin", None)  # closed by whoever has started it
    assert main(["hook"]) == BLOCKED_EXIT_CODE
    with pytest.raises(SystemExit) as end:
        main(["hook", "--wait", "for ever"])
    assert end.value.code == BLOCKED_EXIT_CODE
    # afterwards nothing depends on it: no code that Claude Code takes for a no
    assert hook(monkeypatch, use("ls", hook_event_name="PostToolUse")) == 1
    assert "was not told" in capsys.readouterr().err


def test_the_hook_waits_over_a_restart(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A bot that is started anew meanwhile loses nothing: the same request is waited for."""
    future = shop.begin(hook, monkeypatch, use("make patiently"), "4h")
    shop.card("Use Bash: make patiently")
    shop.harness.restart()
    shop.approve("Use Bash: make patiently")
    assert ended(future) == 0
    said = answer(capsys)
    assert said["permissionDecision"] == "allow", said
    assert len(shop.calls("make patiently")) == 1


@pytest.mark.long
def test_a_hook_that_is_ended_takes_it_back(shop: Shop) -> None:
    """Claude Code ends its hook while people decide: the request is cancelled."""
    words = [sys.executable, "-m", "bot", "hook", "--channel", "C0SUPPORT"]
    with subprocess.Popen(
        words, cwd=ROOT, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(use("make ended"))
        process.stdin.close()
        shop.card("Use Bash: make ended")
        assert "Asked at" in process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == BLOCKED_EXIT_CODE
    shop.harness.settle()
    [call] = shop.calls("make ended")
    assert call.status.value == "cancelled"


@pytest.mark.parametrize("number", ["", "toolu_7"])
def test_a_request_for_permission_is_answered_in_its_form(
    number: str, shop: Shop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where Claude Code would ask whoever sits before it: allowed as edited, or denied with why."""
    command = f"make permitted{number}"
    asks = {"hook_event_name": "PermissionRequest", "tool_use_id": number}
    future = shop.begin(hook, monkeypatch, use(command, **asks))
    shop.edit(f"Use Bash: {command}", command=f"{command} -n")
    shop.approve(f"Use Bash: {command} -n", "cleo")
    assert ended(future) == 0
    allowed = permission(capsys)
    given = {"command": f"{command} -n", "timeout": 5000}
    assert allowed == {"behavior": "allow", "updatedInput": given}
    assert len(shop.calls(f"{command} -n")) == 1
    future = shop.begin(hook, monkeypatch, use(f"{command} now", **{**asks, "tool_use_id": ""}))
    shop.reject(f"Use Bash: {command} now", "not today")
    assert ended(future) == 0
    denied = permission(capsys)
    assert (denied["behavior"], "not today" in denied["message"]) == ("deny", True)


def test_permission_is_denied_where_nobody_can_be_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In words that its hook takes."""
    monkeypatch.delenv("COUNTERSIGN_URL", raising=False)
    assert hook(monkeypatch, use("ls", hook_event_name="PermissionRequest")) == 0
    assert permission(capsys)["behavior"] == "deny"


def permission(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """What a request for permission is answered."""
    found = json.loads(capsys.readouterr().out)["hookSpecificOutput"]
    assert set(found) == {"hookEventName", "decision"}
    assert found["hookEventName"] == "PermissionRequest"
    decision: dict[str, Any] = found["decision"]
    return decision
