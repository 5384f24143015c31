"""Claude Code's hooks over HTTP: it asks before it uses a tool, and says afterwards how it went."""

from __future__ import annotations

import json
import socket
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import pytest

from storage.models import Call, Run
from tests.client_keys import revoke_key
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import words
from tests.stories.steps import open_modal, reject, typed, vote
from tests.web.api.conftest import Asks
from tests.web.api.program import Program

PATH = "/v1/hooks/claude-code?channel=%23support"
LATER = {"Prefer": "respond-async, wait=1"}


def use(command: str, event: str = "PreToolUse", **more: Any) -> dict[str, Any]:
    """What Claude Code says of this use of its shell."""
    return {
        "session_id": "5c1e",
        "transcript_path": "/home/ben/.claude/5c1e.jsonl",
        "cwd": "/home/ben/shop",
        "permission_mode": "default",
        "hook_event_name": event,
        "tool_name": "Bash",
        "tool_input": {"command": command, "timeout": 5000},
        "tool_use_id": f"toolu_{command.replace(' ', '_')}",
        **more,
    }


def decision(answer: tuple[int, dict[str, Any]]) -> dict[str, Any]:
    """What is decided in an answer, which is always a good one."""
    status, said = answer
    assert status == 200, said
    found: dict[str, Any] = said["hookSpecificOutput"]
    assert found.pop("hookEventName") == "PreToolUse"
    return found


def begun(program: Program, pool: ThreadPoolExecutor, command: str) -> Future[Any]:
    """Claude Code waits at its hook."""
    return pool.submit(program.ask, "POST", PATH, use(command))


def used(bot: Harness, program: Program, command: str) -> str:
    """A use that Ana has let through; the id of its request."""
    with ThreadPoolExecutor(1) as pool:
        waiting = begun(program, pool, command)
        vote(bot, "ana", program.card(f"Use Bash: {command}"))
        assert decision(waiting.result(30))["permissionDecision"] == "allow"
    [run] = bot.all(Run, Run.client == program.name)
    return str(run.id)


def told(program: Program, command: str, event: str = "PostToolUse", **more: Any) -> None:
    """Claude Code says how it went, and is answered nothing."""
    assert program.ask("POST", PATH, use(command, event, **more)) == (200, {})


def test_a_tool_is_used_as_people_approved_it(bot: Harness, asks: Asks) -> None:
    """The answer comes once people have decided, with the input as it was edited; the card says in
    the end that it was done, and nothing of what the tool printed.
    """
    program = asks()
    with ThreadPoolExecutor(1) as pool:
        waiting = begun(program, pool, "rm -rf build")
        card = program.card("Use Bash: rm -rf build")
        assert "Claude Code works in /home/ben/shop." in words(card)
        open_modal(bot, "ana", SUPPORT, card, "edit")
        bot.person("ana").submit(typed(command="rm -r build/cache"))
        vote(bot, "cleo", program.card("Use Bash: rm -r build/cache", "cleo"))
        said = decision(waiting.result(30))
    assert said["permissionDecision"] == "allow"
    assert said["updatedInput"] == {"command": "rm -r build/cache", "timeout": 5000}
    [run] = bot.all(Run, Run.client == program.name)
    assert program.look({"id": run.id})["status"] == "running"
    bot.restart()  # neither side has kept anything of it
    secret = {"stdout": "the secret of the shop", "stderr": ""}
    told(program, "rm -rf build", tool_response=secret, duration_ms=4187)
    stands = program.look({"id": run.id}, 30)
    assert (stands["status"], stands["result"]) == ("succeeded", "done in 4.2 s")
    bot.settle()
    assert "the secret" not in str(bot.thread(SUPPORT, bot.run_of(run.id).thread_ts))


def test_an_edit_from_nothing_to_no_is_an_edit(bot: Harness, asks: Asks) -> None:
    """Who makes false of 0 has it used with false, though programs take both for the same."""
    program = asks()
    given = {"command": "make typed", "options": {"force": 0}}
    with ThreadPoolExecutor(1) as pool:
        said = use("make typed", tool_input=given)
        waiting = pool.submit(program.ask, "POST", PATH, said)
        card = program.card("Use Bash: make typed")
        open_modal(bot, "ana", SUPPORT, card, "edit")
        bot.person("ana").submit(typed(options='{"force": false}'))
        bot.slack.wait(lambda: "Edited by" in str(program.card("Use Bash: make typed", "cleo")))
        vote(bot, "cleo", program.card("Use Bash: make typed", "cleo"))
        answer = decision(waiting.result(30))
    assert answer["updatedInput"]["options"]["force"] is False


@pytest.mark.parametrize(
    ("event", "more", "status", "note"),
    [
        ("PostToolUseFailure", {"error": "Exit code 3\nNo such file"}, "failed", "Exit code 3"),
        ("PermissionDenied", {"reason": "[Data]"}, "failed", "auto mode"),
        ("PostToolUse", {"tool_response": {"backgroundTaskId": "b1"}}, "unknown", "background"),
    ],
)
def test_what_became_of_it_is_what_claude_code_says(
    event: str, more: dict[str, Any], status: str, note: str, bot: Harness, asks: Asks
) -> None:
    """A failure in its first line; of what goes on in the background, that nobody sees its end."""
    program = asks()
    command = f"make {note}"
    request = {"id": used(bot, program, command)}
    told(program, command, event, **more)
    stands = program.look(request, 30)
    assert (stands["status"], note in stands["note"]) == (status, True)
    told(program, command)  # said twice, or of something else: nothing more comes of it
    told(program, "never asked")
    if status == "failed":
        assert program.look(request)["status"] == status


ODD: dict[str, tuple[str, dict[str, Any], str]] = {
    "cut": ("PostToolUse", {"tool_response": {"stdout": "half \ud83d"}}, "succeeded"),
    "binary": ("PostToolUse", {"tool_response": {"stdout": "\0", "more": [[[]]]}}, "succeeded"),
    "deep": ("PostToolUse", {"tool_response": json.loads("[" * 50 + "]" * 50)}, "succeeded"),
    "failed": ("PostToolUseFailure", {"error": "half \ud83d"}, "failed"),
}


@pytest.mark.parametrize("name", ODD)
def test_what_a_tool_prints_loses_no_report(name: str, bot: Harness, asks: Asks) -> None:
    """It is kept nowhere: half a character or a zero in it is no reason to ask what happened."""
    event, more, status = ODD[name]
    program = asks()
    request = {"id": used(bot, program, f"print {name}")}
    told(program, f"print {name}", event, **more)
    assert program.look(request, 30)["status"] == status


def test_what_claude_says_of_a_command_is_its_reason(bot: Harness, asks: Asks) -> None:
    """On one line, shortened, and as its words; the description that a tool of a server is given
    is no reason, but part of what it does.
    """
    program = asks()
    long = f"Take back  the release.\n{'It is late. ' * 40}"
    said = use("make back", tool_input={"command": "make back", "description": long})
    assert program.ask("POST", PATH, said, **LATER)[0] == 202
    card = words(program.card("Use Bash: make back"))
    assert "Claude Code says: “Take back the release. It is late." in card
    assert "…”, and works in /home/ben/shop." in card
    given = {"title": "Broken", "description": "It rings twice."}
    said = use("issue", tool_name="mcp__github__create_issue", tool_input=given)
    assert program.ask("POST", PATH, said, **LATER)[0] == 202
    card = words(program.card("It rings twice."))
    assert "Claude Code works in /home/ben/shop." in card
    assert "Claude Code says" not in card


def test_of_what_nothing_is_heard_nobody_knows(bot: Harness, asks: Asks) -> None:
    """Claude Code died, or was stopped, while the tool ran: after a quarter of an hour people are
    asked what became of it.
    """
    program = asks()
    request = {"id": used(bot, program, "make died")}
    bot.clock.advance(800)
    bot.settle()
    assert program.look(request)["status"] == "running"
    bot.clock.advance(101)
    assert program.look(request, 30)["status"] == "unknown"


def test_a_no_is_told_in_its_words(bot: Harness, asks: Asks) -> None:
    """Rejected, by people or by the clock: denied, and why."""
    program = asks()
    with ThreadPoolExecutor(2) as pool:
        first, second = (begun(program, pool, each) for each in ("git push", "git tag"))
        reject(bot, "ana", SUPPORT, program.card("Use Bash: git push"), "not on main")
        said = decision(first.result(30))
        assert said["permissionDecision"] == "deny"
        assert "not on main" in said["permissionDecisionReason"]
        program.card("Use Bash: git tag")
        bot.clock.advance(9 * 60 + 1)
        said = decision(second.result(30))
    assert (said["permissionDecision"], "in time" in said["permissionDecisionReason"]) == (
        "deny",
        True,
    )


@pytest.mark.parametrize(
    ("key", "query", "body", "why"),
    [
        ("", "", use("ls"), "no valid API key"),
        ("csk_wrong", "", use("ls"), "no valid API key"),
        ("good", "", use("ls", tool_name="Write"), "may not ask for claude_Write"),
        ("good", "", use("ls", tool_input=7), "not what Claude Code sends"),
        ("good", "", use("ls", tool_use_id=""), "not what Claude Code sends"),
        ("good", "", use("ls", event="Stop"), "not what Claude Code sends"),
        ("good", "", [], "not what Claude Code sends"),
        ("good", "", b"{", "JSON"),
        ("good", "", b" " * 1_000_001, "1,000,000"),
        ("good", "&wait=soon", use("ls"), "duration"),
        ("good", "&does=good", use("ls"), "read"),
        ("good", "&requester=@nobody", use("ls"), "nobody"),
        ("good", "&more=1", use("ls"), "not a parameter"),
    ],
)
def test_whatever_is_wrong_is_a_no(
    key: str, query: str, body: Any, why: str, bot: Harness, asks: Asks
) -> None:
    """Claude Code lets a tool be used where it is not answered 200; so it is, and nobody is asked.

    Who prefers to ask again is told the problem as any program is.
    """
    program = asks(tools=("claude_Bash",))
    asking = program if key == "good" else Program(bot, key)
    said = decision(asking.ask("POST", PATH + query, body))
    assert said["permissionDecision"] == "deny"
    assert why in said["permissionDecisionReason"]
    status, problem = asking.ask("POST", PATH + query, body, **LATER)
    assert (status >= 400, why in problem["detail"]) == (True, True), problem
    assert bot.all(Run, Run.client == program.name) == []


def test_who_prefers_to_ask_again_is_told_where_it_stands(bot: Harness, asks: Asks) -> None:
    """202 while people decide; said again, it is the same request; two that hear of the yes are one
    use, which is handed out once.
    """
    program = asks()
    body = use("make twice")
    status, said = program.ask("POST", PATH, body, **LATER)
    assert (status, said["status"]) == (202, "pending")
    status, again = program.ask("POST", PATH, body, **LATER)
    assert (status, again["id"]) == (202, said["id"])
    vote(bot, "ana", program.card("Use Bash: make twice"))
    program.look(said, 30)
    endless = {"Prefer": f"respond-async, wait={'9' * 5_000}"}
    answers = [program.ask("POST", PATH, body, **each) for each in (LATER, {}, endless)]
    assert [decision(each)["permissionDecision"] for each in answers] == ["allow"] * 3
    [call] = bot.all(Call, Call.run_id == said["id"])
    assert bot.audit_of(call).count("call.running") == 1
    told(program, "make twice")
    said = decision(program.ask("POST", PATH, body))
    assert (said["permissionDecision"], "done before" in said["permissionDecisionReason"]) == (
        "deny",
        True,
    )


def test_nobody_decides_for_one_who_has_gone(bot: Harness, asks: Asks) -> None:
    """The line has signs of life while it waits; when Claude Code hangs up, it is taken back."""
    program = asks()
    web = bot.app.endpoints.web
    assert web is not None
    where = urlsplit(web.url)
    body = json.dumps(use("make gone")).encode()
    head = (
        f"POST {PATH} HTTP/1.1\r\nHost: {where.netloc}\r\nAuthorization: Bearer {program.key}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection((str(where.hostname), where.port or 0), 30) as line:
        line.sendall(head.encode() + body)
        heard = b""
        while not heard.endswith(b"1\r\n \r\n"):
            heard += line.recv(65_536)
        assert heard.startswith(b"HTTP/1.1 200")
        program.card("Use Bash: make gone")
    [run] = bot.all(Run, Run.client == program.name)
    bot.slack.wait(lambda: program.look({"id": run.id})["status"] == "cancelled", 20)


def test_a_stop_is_a_no(bot: Harness, asks: Asks) -> None:
    """A bot that is stopped says no before it goes, and leaves no card to be decided in vain."""
    program = asks()
    with ThreadPoolExecutor(1) as pool:
        waiting = begun(program, pool, "make stopped")
        program.card("Use Bash: make stopped")
        bot.restart()
        said = decision(waiting.result(30))
    assert said["permissionDecision"] == "deny"
    assert "stopped" in said["permissionDecisionReason"]
    [run] = bot.all(Run, Run.client == program.name)
    assert program.look({"id": run.id})["status"] == "cancelled"


def test_a_key_that_is_revoked_amid_a_wait(bot: Harness, asks: Asks) -> None:
    """Who waits with it is told nothing of what people then say, and is handed out nothing."""
    program = asks()
    asked = program.deploy("9.1-revoked")
    with ThreadPoolExecutor(2) as pool:
        looks = pool.submit(program.ask, "GET", f"/v1/requests/{asked['id']}?wait=60")
        hook = begun(program, pool, "make revoked")
        card, of_hook = (program.card(each) for each in ("9.1-revoked", "Use Bash: make revoked"))
        revoke_key(bot.app.core.store.path, program.name)
        with suppress(ValueError):  # no button any more, where it is taken back by now
            vote(bot, "ana", of_hook)
        vote(bot, "ana", card)
        assert looks.result(30)[0] == 401
        assert decision(hook.result(30))["permissionDecision"] == "deny"
    bot.settle()
    runs = [each.id for each in bot.all(Run, Run.client == program.name)]
    found = [call for each in runs for call in bot.all(Call, Call.run_id == each)]
    assert [each.claimant for each in found] == ["", ""]
