"""Requests of programs that are refused with a problem; nobody is asked."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from typing import Any
from urllib.parse import urlsplit

import pytest

from bot.http import api_gate, ask_route
from bot.http.api_bodies import MESSAGE_BY_PATTERN
from storage.models import Run
from storage.programs import ProgramApiKey
from tests.stories.harness import Harness
from tests.stories.steps import forget_people
from tests.web.api.conftest import NewProgram
from tests.web.api.program import ACTION, Program

NOTE = {"tool": "note", "arguments": {"text": "not asked"}}


def read_problem(
    program: Program, body: Any, method: str = "POST", path: str = "/v1/requests"
) -> Any:
    """Send a request and return its problem, which has the form of one."""
    status, headers, said = program.raw(method, path, body, {})
    assert headers["Content-Type"] == "application/problem+json"
    assert headers["Cache-Control"] == "no-store"
    assert (said["status"], bool(said["title"]), bool(said["detail"])) == (status, True, True)
    return said


@pytest.mark.parametrize(
    ("body", "status", "part"),
    [
        ({"tool": "wipe"}, 403, "may not ask for wipe"),
        ({**NOTE, "requester": "@cleo"}, 403, "in the name of UBEN00001"),
        ({**NOTE, "requester": "@nobody"}, 422, "requester"),
        ({**NOTE, "channel": "#nowhere"}, 422, "channel"),
        ({**NOTE, "channel": "@ana"}, 422, "channel"),
        ({**NOTE, "deadline_seconds": 0}, 422, "deadline_seconds"),
        ({**NOTE, "deadline_seconds": "60"}, 422, "deadline_seconds"),
        ({**NOTE, "arguments": {"txt": "x"}}, 422, "arguments.text"),
        ({**NOTE, "more": 1}, 422, "more"),
        ({"tool": "nothing_like_it"}, 422, "no tool nothing_like_it"),
        (
            {
                "action": {**ACTION, "name": "nothing_short", "effect": "{version}" * 20},
                "arguments": {"version": "x" * 5_000, "env": "prod"},
            },
            422,
            "repeats more than",
        ),
        ({}, 422, "tool"),
        ([], 422, "body: Input should be"),
        (b'{"tool": "note", "tool": "wipe"}', 400, "appears twice"),
        (b'{"tool": "note", "arguments": {"text": NaN}}', 400, "NaN"),
        (b'{"tool": "no\\u0000te"}', 400, "U+0000"),
        (b'{"tool": "note", "arguments": {"in": [["a list\\u0000"]]}}', 400, "U+0000"),
        (b'{"tool": "\\ud800"}', 400, "cannot be stored"),
        (b"\xff", 400, "UTF-8"),
        (b"[" * 100_000, 400, "deep"),
        (b" " * 1_000_001, 413, "1,000,000"),
    ],
)
def test_a_wrong_request_is_refused_with_what_is_wrong(
    body: Any, status: int, part: str, bot: Harness, new_program: NewProgram
) -> None:
    """The problem says where the error is. Nobody is asked."""
    program = new_program(tools=("note", "nothing_*"))
    said = read_problem(program, body)
    assert (said["status"], part in str(said)) == (status, True), said
    assert bot.all(Run, Run.client == program.name) == []


@pytest.mark.parametrize("sent", [{"Content-Type": "text/plain"}, {"Content-Encoding": "gzip"}])
def test_a_body_that_is_not_plain_json_is_refused(
    sent: dict[str, str], new_program: NewProgram
) -> None:
    """Even if it could be read as JSON."""
    status, said = new_program().ask("POST", "/v1/requests", NOTE, **sent)
    assert (status, "must be application/json" in said["detail"]) == (415, True)


def test_every_pattern_of_the_api_is_explained_in_words(new_program: NewProgram) -> None:
    """The refusal of a value that does not fit says what would; no pattern is shown."""
    program = new_program(tools=("note", "deploy"))
    _, described = program.ask("GET", "/v1/openapi.json")
    paths = [each for each in walk(described) if each.get("in") == "path"]
    known = {each["pattern"] for each in walk(described) if isinstance(each.get("pattern"), str)}
    assert known - {each["schema"]["pattern"] for each in paths} == set(MESSAGE_BY_PATTERN)
    asked = f"/v1/requests/{program.note('to be claimed')['id']}/claim"
    action = {"action": {**ACTION, "name": "two words"}, "arguments": {}}
    for method, path, body, headers, part in (
        ("POST", "/v1/requests", action, {}, "action.name: Use letters, digits and underscores"),
        ("POST", "/v1/requests", NOTE, {"Idempotency-Key": "a b"}, "Key: Use visible ASCII"),
        ("POST", asked, {"claimant": "a b" * 8}, {}, "claimant: Use visible ASCII"),
        ("GET", "/v1/requests?after=a.b", None, {}, "after: Use the `next`"),
    ):
        status, _, said = program.raw(method, path, body, headers)
        assert (status, part in said["detail"]) == (422, True), said


def walk(described: Any) -> Iterator[dict[str, Any]]:
    """Yield every object in JSON."""
    if isinstance(described, dict):
        yield described
    for each in described.values() if isinstance(described, dict) else described:
        if isinstance(each, dict | list):
            yield from walk(each)


def test_a_request_can_be_used_by_its_own_program_only(new_program: NewProgram) -> None:
    """For other programs it does not exist."""
    mine, theirs = new_program(), new_program()
    asked = mine.note("whose is it")
    path = f"/v1/requests/{asked['id']}"
    claim = {"claimant": "0123456789abcdef"}
    for method, place, body in (
        ("GET", path, None),
        ("GET", f"{path}?wait=1", None),
        ("POST", f"{path}/claim", claim),
        ("POST", f"{path}/outcome", {**claim, "succeeded": True}),
        ("POST", f"{path}/cancel", None),
        ("GET", "/v1/requests/no-such-request", None),
        ("GET", "/v1/requests/a%00b", None),
        ("GET", "/v1/requests/a%0Ab", None),
    ):
        assert read_problem(theirs, body, method, place)["status"] == 404
    assert read_problem(mine, claim, path=f"{path}/claim")["status"] == 409
    assert read_problem(mine, None, "DELETE", path)["status"] == 405
    assert read_problem(mine, None, "GET", "/v1/nothing")["status"] == 404


def test_a_key_of_the_workspace_that_the_bot_worked_in_before_is_refused(
    bot: Harness, new_program: NewProgram
) -> None:
    """The person who answers for it may be nobody here, or somebody else."""
    program = new_program()
    with bot.app.core.store.write() as tx:
        tx.update_rows(ProgramApiKey, {"name": program.name}, team="T0BEFORE")
    assert read_problem(program, NOTE)["status"] == 401


def test_every_path_needs_a_valid_key(new_program: NewProgram) -> None:
    """Otherwise the status is 401, whatever is sent."""
    good = new_program()
    scheme, id_, secret = good.key.split("_", 2)
    for key in ("", "csk_", good.key[:-1], f"{scheme}_{id_}_{secret[::-1]}", f"csk_{'0' * 16}_x"):
        for method, path in (
            ("POST", "/v1/requests"),
            ("GET", "/v1/x"),
            ("GET", "/v1/openapi.json"),
        ):
            said = read_problem(Program(good.harness, key), b"{", method, path)
            assert said["status"] == 401
    _, headers, _ = Program(good.harness, "").raw("GET", "/v1/requests/x", None, {})
    assert headers["WWW-Authenticate"].startswith("Bearer")
    assert good.ask("GET", "/v1/openapi.json")[1]["openapi"] == "3.1.0"


def test_a_services_key_asks_in_the_name_of_any_colleague(
    bot: Harness, new_program: NewProgram
) -> None:
    """It cannot ask in a guest's name."""
    service = new_program(service=True)
    assert service.note("for cleo", requester="@cleo")["requester"] == "UCLEO0001"
    guest = next(each for each in bot.slack.world.people.values() if each.is_restricted)
    assert read_problem(service, {**NOTE, "requester": guest.id})["status"] == 422


def test_a_key_has_a_limit_of_requests_per_hour(bot: Harness, new_program: NewProgram) -> None:
    """The refusal says when to come back, and takes no look-up in Slack. Repeating an earlier
    request does not count.
    """
    program = new_program(per_hour=2)
    head = {"Idempotency-Key": "first"}
    _, first = program.ask("POST", "/v1/requests", NOTE, **head)
    program.note("and a second")
    bot.settle()
    forget_people(bot)
    before = len(bot.slack.requests)
    status, headers, said = program.raw("POST", "/v1/requests", NOTE, {})
    assert "users.info" not in [each.method for each in bot.slack.requests[before:]]
    assert (status, "has made 2 requests within an hour" in said["detail"]) == (429, True)
    assert 3590 <= int(headers["Retry-After"]) <= 3601
    status, again = program.ask("POST", "/v1/requests", NOTE, **head)
    assert (status, again["id"]) == (200, first["id"])
    bot.clock.advance(int(headers["Retry-After"]))
    program.note("an hour later")


def test_requests_at_the_same_time_count_against_the_limit(new_program: NewProgram) -> None:
    """Of twelve at once, two are accepted."""
    program = new_program(per_hour=2)
    with ThreadPoolExecutor(12) as pool:
        sent = [pool.submit(program.ask, "POST", "/v1/requests", NOTE) for _ in range(12)]
    assert sorted(each.result()[0] for each in sent) == [201] * 2 + [429] * 10


def test_a_request_is_refused_if_slack_cannot_look_up_people(
    bot: Harness, new_program: NewProgram
) -> None:
    """The refusal says when to come back, and does not count against the limit."""
    program = new_program(per_hour=1)
    forget_people(bot)
    bot.slack.faults.fail("users.info", "internal_error", times=99)
    status, headers, said = program.raw("POST", "/v1/requests", NOTE, {})
    assert (status, "Slack could not be asked" in said["detail"]) == (503, True)
    assert int(headers["Retry-After"]) > 0
    bot.slack.faults.clear()
    forget_people(bot)
    program.note("once Slack answers")


def test_a_key_has_a_limit_of_waiting_requests(
    bot: Harness, new_program: NewProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other keys can wait all the same."""
    monkeypatch.setattr(ask_route, "MAX_WAITING_REQUESTS_PER_KEY", 1)
    program, other = new_program(), new_program()
    mine, theirs = program.note("waited for by one"), other.note("waited for by another")
    path = f"/v1/requests/{mine['id']}"
    with ThreadPoolExecutor(2) as pool:
        both = {pool.submit(program.ask, "GET", f"{path}?wait=30") for _ in range(2)}
        done, waits = wait(both, 20, FIRST_COMPLETED)
        assert [each.result()[0] for each in done] == [429]
        assert other.look(theirs, 1)["status"] in ("preparing", "pending")
        assert program.look(mine)["status"] in ("preparing", "pending")
        assert program.ask("POST", f"{path}/cancel")[0] == 200
        assert [each.result(30)[1]["status"] for each in waits] == ["cancelled"]
    assert program.look(mine, 1)["status"] == "cancelled"


def test_a_request_with_half_a_body_is_answered_in_time(
    new_program: NewProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not hold its connection for long; the status is 408."""
    monkeypatch.setattr(api_gate, "BODY_TIMEOUT_SECONDS", 0.2)
    program = new_program()
    web = program.harness.app.endpoints.web
    assert web is not None
    address = urlsplit(web.url)
    head = f"POST /v1/requests HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {program.key}\r\n"
    with socket.create_connection((address.hostname or "", address.port or 0), timeout=10) as line:
        line.sendall(
            f"{head}Content-Type: application/json\r\nContent-Length: 99\r\n\r\n{{".encode()
        )
        assert line.makefile("rb").readline().split()[1] == b"408"
