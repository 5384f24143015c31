"""Claude Code's hooks over HTTP: it asks before it uses a tool, and reports the outcome."""

from __future__ import annotations

import json
import socket
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import pytest

from bot.http.claude_code import USED_DIFFERENTLY_TEXT
from storage.models import Call, Run
from tests.client_keys import revoke_key
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import words
from tests.stories.steps import open_modal, reject, typed, vote
from tests.web.api.conftest import NewProgram
from tests.web.api.program import Program

PATH = "/v1/hooks/claude-code?channel=%23support"
LATER = {"Prefer": "respond-async, wait=1"}


def build_use(command: str, event: str = "PreToolUse", **more: Any) -> dict[str, Any]:
    """Build what Claude Code sends about this use of its shell."""
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


def read_decision(answer: tuple[int, dict[str, Any]]) -> dict[str, Any]:
    """Read the decision in an answer, whose status is always 200."""
    status, said = answer
    assert status == 200, said
    found: dict[str, Any] = said["hookSpecificOutput"]
    assert found.pop("hookEventName") == "PreToolUse"
    return found


def start_use(program: Program, pool: ThreadPoolExecutor, command: str) -> Future[Any]:
    """Have Claude Code wait at its hook."""
    return pool.submit(program.ask, "POST", PATH, build_use(command))


def approve_use(bot: Harness, program: Program, command: str) -> str:
    """Have Ana approve a use; returns the id of its request."""
    with ThreadPoolExecutor(1) as pool:
        waiting = start_use(program, pool, command)
        vote(bot, "ana", program.card(f"Use Bash: {command}"))
        assert read_decision(waiting.result(30))["permissionDecision"] == "allow"
    [run] = bot.all(Run, Run.client == program.name)
    return str(run.id)


def report_outcome(program: Program, command: str, event: str = "PostToolUse", **more: Any) -> None:
    """Have Claude Code report an outcome; the answer is empty."""
    assert program.ask("POST", PATH, build_use(command, event, **more)) == (200, {})


def test_a_tool_is_used_as_people_approved_it(bot: Harness, new_program: NewProgram) -> None:
    """The answer has the input as it was edited. In the end the card says that it was done, and has
    nothing of the tool's output.
    """
    program = new_program()
    with ThreadPoolExecutor(1) as pool:
        waiting = start_use(program, pool, "rm -rf build")
        card = program.card("Use Bash: rm -rf build")
        assert "Claude Code works in /home/ben/shop." in words(card)
        open_modal(bot, "ana", SUPPORT, card, "edit")
        bot.person("ana").submit(typed(command="rm -r build/cache"))
        vote(bot, "cleo", program.card("Use Bash: rm -r build/cache", "cleo"))
        said = read_decision(waiting.result(30))
    assert said["permissionDecision"] == "allow"
    assert said["updatedInput"] == {"command": "rm -r build/cache", "timeout": 5000}
    [run] = bot.all(Run, Run.client == program.name)
    assert program.look({"id": run.id})["status"] == "running"
    bot.restart()  # neither side keeps the use in memory
    secret = {"stdout": "the secret of the shop", "stderr": ""}
    used = said["updatedInput"]
    more = {"tool_input": used, "tool_response": secret, "duration_ms": 4187}
    report_outcome(program, "rm -rf build", **more)
    stands = program.look({"id": run.id}, 30)
    assert (stands["status"], stands["result"]) == ("succeeded", "done in 4.2 s")
    bot.settle()
    assert "the secret" not in str(bot.thread(SUPPORT, bot.run_of(run.id).thread_ts))


@pytest.mark.parametrize("event", ["PostToolUse", "PostToolUseFailure"])
def test_a_use_with_another_input_than_the_approved_one_is_unknown(
    event: str, bot: Harness, new_program: NewProgram
) -> None:
    """As when Claude Code does not take the edited input, or takes that of another hook."""
    program = new_program()
    command = f"rm -rf {event}"
    request = {"id": approve_use(bot, program, command)}
    used = {"command": f"sudo {command}", "timeout": 5000}
    report_outcome(program, command, event, tool_input=used, error="Exit code 1")
    stands = program.look(request, 30)
    assert (stands["status"], stands["note"]) == ("unknown", USED_DIFFERENTLY_TEXT)


def test_an_edit_from_0_to_false_is_an_edit(bot: Harness, new_program: NewProgram) -> None:
    """Python regards 0 and false as equal."""
    program = new_program()
    given = {"command": "make typed", "options": {"force": 0}}
    with ThreadPoolExecutor(1) as pool:
        said = build_use("make typed", tool_input=given)
        waiting = pool.submit(program.ask, "POST", PATH, said)
        card = program.card("Use Bash: make typed")
        open_modal(bot, "ana", SUPPORT, card, "edit")
        sent = bot.person("ana").submit(typed(options='{"force": false}'))
        assert sent["outcome"] == "closed", sent
        bot.slack.wait(lambda: "Edited by" in str(program.card("Use Bash: make typed", "cleo")))
        vote(bot, "cleo", program.card("Use Bash: make typed", "cleo"))
        answer = read_decision(waiting.result(30))
    assert answer["updatedInput"]["options"]["force"] is False


@pytest.mark.parametrize(
    ("event", "more", "status", "note"),
    [
        ("PostToolUseFailure", {"error": "Exit code 3\nNo such file"}, "failed", "Exit code 3"),
        ("PermissionDenied", {"reason": "[Data]"}, "failed", "auto mode"),
        ("PostToolUse", {"tool_response": {"backgroundTaskId": "b1"}}, "unknown", "background"),
    ],
)
def test_the_outcome_of_a_use_is_the_one_claude_code_reports(
    event: str, more: dict[str, Any], status: str, note: str, bot: Harness, new_program: NewProgram
) -> None:
    """A failure has its first line; the outcome of a background task is unknown."""
    program = new_program()
    command = f"make {note}"
    request = {"id": approve_use(bot, program, command)}
    report_outcome(program, command, event, **more)
    stands = program.look(request, 30)
    assert (stands["status"], note in stands["note"]) == (status, True)
    report_outcome(program, command)  # a second report, or one of another use, changes nothing
    report_outcome(program, "never asked")
    if status == "failed":
        assert program.look(request)["status"] == status


ODD: dict[str, tuple[str, dict[str, Any], str]] = {
    "cut": ("PostToolUse", {"tool_response": {"stdout": "half \ud83d"}}, "succeeded"),
    "binary": ("PostToolUse", {"tool_response": {"stdout": "\0", "more": [[[]]]}}, "succeeded"),
    "deep": ("PostToolUse", {"tool_response": json.loads("[" * 50 + "]" * 50)}, "succeeded"),
    "failed": ("PostToolUseFailure", {"error": "half \ud83d"}, "failed"),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_output_of_a_tool_does_not_lose_its_report(
    name: str, bot: Harness, new_program: NewProgram
) -> None:
    """The output is not stored, whatever characters it has."""
    event, more, status = ODD[name]
    program = new_program()
    request = {"id": approve_use(bot, program, f"print {name}")}
    report_outcome(program, f"print {name}", event, **more)
    assert program.look(request, 30)["status"] == status


def test_what_a_command_is_for_stands_on_the_card_once(
    bot: Harness, new_program: NewProgram
) -> None:
    """Claude's description is an argument, which people may edit; below it is the folder."""
    program = new_program()
    given = {"command": "make back", "description": "Take back the release."}
    said = build_use("make back", tool_input=given)
    assert program.ask("POST", PATH, said, **LATER)[0] == 202
    message = program.card("Use Bash: make back")
    card = words({"blocks": message["blocks"]})
    assert card.count("Take back the release.") == 1
    assert "Description" in card
    assert "Claude Code works in /home/ben/shop." in card


def test_a_use_without_a_report_is_unknown_after_a_quarter_of_an_hour(
    bot: Harness, new_program: NewProgram
) -> None:
    """Claude Code died, or was stopped, while the tool ran."""
    program = new_program()
    request = {"id": approve_use(bot, program, "make died")}
    bot.clock.advance(800)
    bot.settle()
    assert program.look(request)["status"] == "running"
    bot.clock.advance(101)
    assert program.look(request, 30)["status"] == "unknown"


def test_a_rejected_or_expired_use_is_denied_with_the_reason(
    bot: Harness, new_program: NewProgram
) -> None:
    """A person rejects one; the other expires."""
    program = new_program()
    with ThreadPoolExecutor(2) as pool:
        first, second = (start_use(program, pool, each) for each in ("git push", "git tag"))
        reject(bot, "ana", SUPPORT, program.card("Use Bash: git push"), "not on main")
        said = read_decision(first.result(30))
        assert said["permissionDecision"] == "deny"
        assert "not on main" in said["permissionDecisionReason"]
        program.card("Use Bash: git tag")
        bot.clock.advance(9 * 60 + 1)
        said = read_decision(second.result(30))
    assert (said["permissionDecision"], "in time" in said["permissionDecisionReason"]) == (
        "deny",
        True,
    )


@pytest.mark.parametrize(
    ("key", "query", "body", "why"),
    [
        ("", "", build_use("ls"), "no valid API key"),
        ("csk_wrong", "", build_use("ls"), "no valid API key"),
        ("good", "", build_use("ls", tool_name="Write"), "may not ask for claude_Write"),
        ("good", "", build_use("ls", tool_input=7), "not what Claude Code sends"),
        ("good", "", build_use("ls", tool_use_id=""), "not what Claude Code sends"),
        ("good", "", build_use("ls", event="Stop"), "not what Claude Code sends"),
        ("good", "", [], "not what Claude Code sends"),
        ("good", "", b"{", "JSON"),
        ("good", "", b" " * 1_000_001, "1,000,000"),
        ("good", "&wait=soon", build_use("ls"), "duration"),
        ("good", "&does=good", build_use("ls"), "read"),
        ("good", "&requester=@nobody", build_use("ls"), "nobody"),
        ("good", "&more=1", build_use("ls"), "not a parameter"),
    ],
)
def test_any_wrong_request_at_the_hook_is_denied(
    key: str, query: str, body: Any, why: str, bot: Harness, new_program: NewProgram
) -> None:
    """Claude Code would use the tool if the status were not 200. Nobody is asked.

    A client that prefers to ask again gets the problem like any program.
    """
    program = new_program(tools=("claude_Bash",))
    asking = program if key == "good" else Program(bot, key)
    said = read_decision(asking.ask("POST", PATH + query, body))
    assert said["permissionDecision"] == "deny"
    assert why in said["permissionDecisionReason"]
    status, problem = asking.ask("POST", PATH + query, body, **LATER)
    assert (status >= 400, why in problem["detail"]) == (True, True), problem
    assert bot.all(Run, Run.client == program.name) == []


def test_a_client_that_prefers_to_ask_again_gets_202_while_waiting(
    bot: Harness, new_program: NewProgram
) -> None:
    """Asking again finds the same request. Two answers with the approval are one use, which is
    handed out once.
    """
    program = new_program()
    body = build_use("make twice")
    status, said = program.ask("POST", PATH, body, **LATER)
    assert (status, said["status"]) == (202, "pending")
    status, again = program.ask("POST", PATH, body, **LATER)
    assert (status, again["id"]) == (202, said["id"])
    vote(bot, "ana", program.card("Use Bash: make twice"))
    program.look(said, 30)
    endless = {"Prefer": f"respond-async, wait={'9' * 5_000}"}
    answers = [program.ask("POST", PATH, body, **each) for each in (LATER, {}, endless)]
    assert [read_decision(each)["permissionDecision"] for each in answers] == ["allow"] * 3
    [call] = bot.all(Call, Call.run_id == said["id"])
    assert bot.audit_of(call).count("call.running") == 1
    report_outcome(program, "make twice")
    said = read_decision(program.ask("POST", PATH, body))
    assert (said["permissionDecision"], "done before" in said["permissionDecisionReason"]) == (
        "deny",
        True,
    )


def test_a_request_is_cancelled_when_claude_code_hangs_up(
    bot: Harness, new_program: NewProgram
) -> None:
    """While it waits, the connection gets signs of life."""
    program = new_program()
    web = bot.app.endpoints.web
    assert web is not None
    where = urlsplit(web.url)
    body = json.dumps(build_use("make gone")).encode()
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


def test_a_bot_that_stops_denies_waiting_uses(bot: Harness, new_program: NewProgram) -> None:
    """Their requests are cancelled, so no card is decided in vain."""
    program = new_program()
    with ThreadPoolExecutor(1) as pool:
        waiting = start_use(program, pool, "make stopped")
        program.card("Use Bash: make stopped")
        bot.restart()
        said = read_decision(waiting.result(30))
    assert said["permissionDecision"] == "deny"
    assert "stopped" in said["permissionDecisionReason"]
    [run] = bot.all(Run, Run.client == program.name)
    assert program.look({"id": run.id})["status"] == "cancelled"


def test_a_key_revoked_during_a_wait_gets_nothing(bot: Harness, new_program: NewProgram) -> None:
    """A waiting client learns no decision, and is handed out no call."""
    program = new_program()
    asked = program.deploy("9.1-revoked")
    with ThreadPoolExecutor(2) as pool:
        looks = pool.submit(program.ask, "GET", f"/v1/requests/{asked['id']}?wait=60")
        hook = start_use(program, pool, "make revoked")
        card, of_hook = (program.card(each) for each in ("9.1-revoked", "Use Bash: make revoked"))
        revoke_key(bot.app.core.store.path, program.name)
        with suppress(ValueError):  # there is no button if it has been cancelled by now
            vote(bot, "ana", of_hook)
        vote(bot, "ana", card)
        assert looks.result(30)[0] == 401
        assert read_decision(hook.result(30))["permissionDecision"] == "deny"
    bot.settle()
    runs = [each.id for each in bot.all(Run, Run.client == program.name)]
    found = [call for each in runs for call in bot.all(Call, Call.run_id == each)]
    assert [each.claimant for each in found] == ["", ""]
