"""The list of a key's own requests: by page and by status."""

from __future__ import annotations

from typing import Any

import pytest

from tests.stories.harness import Harness
from tests.stories.steps import vote
from tests.web.api.conftest import NewProgram
from tests.web.api.program import Program


def list_pages(program: Program, query: str = "") -> list[list[dict[str, Any]]]:
    """Read all pages, one after the other."""
    found, after = [], ""
    while True:
        status, said = program.ask("GET", f"/v1/requests?limit=2{query}&after={after}")
        assert status == 200, said
        found.append(said["requests"])
        after = said["next"]
        if after is None:
            return found


def test_requests_are_listed_page_by_page(bot: Harness, new_program: NewProgram) -> None:
    """Each is listed once, the newest first. Later requests do not move the pages."""
    program, other = new_program(), new_program()
    asked = []
    for number in range(5):
        asked.append(program.note(f"listed {number}"))
        other.note(f"of another {number}")
    first = program.ask("GET", "/v1/requests?limit=2")[1]
    late = program.note("listed late")
    rest = program.ask("GET", f"/v1/requests?limit=100&after={first['next']}")[1]
    listed = [*first["requests"], *rest["requests"]]
    assert [each["id"] for each in listed] == [each["id"] for each in reversed(asked)]
    assert rest["next"] is None
    found = list_pages(program)
    assert [len(each) for each in found[:3]] == [2, 2, 2]
    assert found[0][0]["id"] == late["id"]
    for each in [late, *listed]:
        bot.slack.wait(lambda each=each: program.look(each)["status"] == "pending")  # type: ignore[misc]  # a default binds it
    [[*again], *_] = list_pages(program)
    assert again[0] == program.look(again[0])


def test_requests_are_listed_by_status(bot: Harness, new_program: NewProgram) -> None:
    """By one status or several. An unknown status is refused."""
    program = new_program()
    waits, done, gone = (program.note(f"by status {each}") for each in ("w", "d", "g"))
    vote(bot, "ana", program.card("by status d"))
    assert program.look(done, 30)["status"] == "succeeded"
    program.card("by status g")
    program.ask("POST", f"/v1/requests/{gone['id']}/cancel")
    program.card("by status w")

    def listed(query: str) -> set[str]:
        return {each["id"] for page in list_pages(program, query) for each in page}

    assert listed("&status=pending") == {waits["id"]}
    assert listed("&status=succeeded&status=cancelled") == {done["id"], gone["id"]}
    assert listed("&status=failed") == set()
    assert program.ask("GET", "/v1/requests?status=odd")[0] == 422


@pytest.mark.parametrize("query", ["limit=0", "limit=101", "after=nobody-s", "after=a/b"])
def test_an_invalid_page_or_size_is_refused(query: str, new_program: NewProgram) -> None:
    """The page starts at an unknown request, or the size is out of range."""
    assert new_program().ask("GET", f"/v1/requests?{query}")[0] == 422


def test_a_page_cannot_start_at_another_programs_request(new_program: NewProgram) -> None:
    """Its id is like an unknown one."""
    asked = new_program().note("not yours to list")
    assert new_program().ask("GET", f"/v1/requests?after={asked['id']}")[0] == 422
    assert new_program().ask("GET", "/v1/requests") == (200, {"requests": [], "next": None})


def test_nothing_is_listed_without_a_key(bot: Harness) -> None:
    """The status is 401."""
    assert Program(bot, "").ask("GET", "/v1/requests")[0] == 401
