"""MCP servers that need a login: who is asked when, what is stored, and what is known of a call
when the login fails.
"""

from __future__ import annotations

import json
import stat
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from anyio import to_thread

from countersign.mcp_client.connection import ServerConnection, ServerNotReachedError, UrlAddress
from countersign.mcp_client.login import LoginFile, ServerLogin, build_login_path
from countersign.mcp_client.sent_calls import (
    CallOutcome,
    NotSentOutcome,
    ResultOutcome,
    UnknownOutcome,
)
from tests.servers.guarded import Guarded, guarded
from tests.servers.support import wait_until


class Person:
    """The person who is asked to log in, and the connection that asks."""

    def __init__(self, at: Guarded, folder: Path) -> None:
        self.at, self.folder = at, folder
        self.asked: list[str] = []
        self.connection = self.connect()

    def connect(self) -> ServerConnection:
        """A new connection, as another process would make it."""
        file = LoginFile(build_login_path(self.folder, self.at.url))
        login = ServerLogin(self.at.url, file, self.asked.append)
        return ServerConnection(UrlAddress(self.at.url, login=login), open_within=20)

    @property
    def file(self) -> Path:
        """The file of the login."""
        return build_login_path(self.folder, self.at.url)

    async def log_in(self) -> None:
        """Be asked, and log in."""
        with pytest.raises(ServerNotReachedError, match="somebody must log in there, at http"):
            await self.connection.list_current_tools()
        await self.open(self.asked[-1])
        assert await self.connection.wait_for_login()

    async def open(self, address: str) -> httpx2.Response:
        """Open an address in a browser that follows redirects."""
        async with httpx2.AsyncClient(follow_redirects=True) as browser:
            return await browser.get(address)

    async def paint(self, shed: str, *, waits: bool = False) -> CallOutcome:
        """Call the tool."""
        given: dict[str, Any] = {"shed": shed, "waits": waits}
        return await self.connection.call(
            "paint", given, lambda _found: None, lambda: anyio.fail_after(20)
        )


@pytest.fixture
def at(tmp_path: Path) -> Iterator[Guarded]:
    """The servers."""
    with guarded(tmp_path) as made:
        yield made


def run_with_person(at: Guarded, folder: Path, work: Callable[[Person], Awaitable[None]]) -> None:
    """Run this with a person and a connection."""

    async def worked() -> None:
        person = Person(at, folder)
        try:
            await work(person)
        finally:
            await person.connection.close()

    anyio.run(worked)


def test_somebody_is_asked_once_and_their_login_is_kept(at: Guarded, tmp_path: Path) -> None:
    """Nothing is called before; afterwards the next process uses it, too.

    Only its owner can read the file.
    """

    async def work(person: Person) -> None:
        assert isinstance(await person.paint("red"), NotSentOutcome)
        assert isinstance(await person.paint("red"), NotSentOutcome)
        assert len(person.asked) == 1
        await person.open(person.asked[0])
        assert await person.connection.wait_for_login()
        assert isinstance(await person.paint("blue"), ResultOutcome)
        await person.connection.close()
        person.connection = person.connect()
        assert isinstance(await person.paint("green"), ResultOutcome)
        assert len(person.asked) == 1
        assert stat.S_IMODE(person.file.stat().st_mode) == 0o600

    run_with_person(at, tmp_path, work)
    assert at.done == ["blue", "green"]
    assert at.logins.given == ["login"]


def test_an_expired_token_is_renewed_without_asking(at: Guarded, tmp_path: Path) -> None:
    """Without asking anybody, also in a new process, and if the server refuses it early."""

    async def work(person: Person) -> None:
        await person.log_in()
        at.logins.tokens.clear()
        assert isinstance(await person.paint("early"), ResultOutcome)
        kept = json.loads(person.file.read_text())
        person.file.write_text(json.dumps({**kept, "expires_at": 1.0}))
        at.logins.tokens.clear()
        await person.connection.close()
        person.connection = person.connect()
        assert isinstance(await person.paint("anew"), ResultOutcome)
        assert json.loads(person.file.read_text())["tokens"] != kept["tokens"]
        assert len(person.asked) == 1

    run_with_person(at, tmp_path, work)
    assert at.logins.given == ["login", "renewal", "renewal"]
    assert at.doorman.calls == ["paint", "paint"]


def test_a_token_renewed_by_another_process_is_used(at: Guarded, tmp_path: Path) -> None:
    """Two hosts have a proxy each; a renewed token ends the previous one."""

    async def work(person: Person) -> None:
        await person.log_in()
        first, person.connection = person.connection, person.connect()
        at.logins.tokens.clear()
        assert isinstance(await person.paint("by the second"), ResultOutcome)
        await person.connection.close()
        person.connection = first
        assert isinstance(await person.paint("by the first"), ResultOutcome)
        assert len(person.asked) == 1

    run_with_person(at, tmp_path, work)
    assert at.logins.given == ["login", "renewal"]


def test_one_of_two_processes_renews_an_expired_token(at: Guarded, tmp_path: Path) -> None:
    """Both need it at once; some servers end the login if a renewal token is used twice."""

    async def work(person: Person) -> None:
        await person.log_in()
        kept = json.loads(person.file.read_text())
        person.file.write_text(json.dumps({**kept, "expires_at": 1.0}))
        at.logins.tokens.clear()
        others = [person.connect() for _ in range(3)]
        async with anyio.create_task_group() as all_at_once:
            for each in others:
                all_at_once.start_soon(each.list_current_tools)
        for each in others:
            await each.close()
        assert len(person.asked) == 1

    run_with_person(at, tmp_path, work)
    assert at.logins.given == ["login", "renewal"]
    assert at.logins.refused == []


def test_somebody_is_asked_again_if_renewing_is_refused(at: Guarded, tmp_path: Path) -> None:
    """Nothing is called meanwhile."""

    async def work(person: Person) -> None:
        await person.log_in()
        at.logins.tokens.clear()
        at.logins.renewals.clear()
        found = await person.paint("red")
        assert isinstance(found, NotSentOutcome)
        assert person.asked[1] in found.why
        await person.open(person.asked[1])
        assert await person.connection.wait_for_login()
        assert isinstance(await person.paint("blue"), ResultOutcome)

    run_with_person(at, tmp_path, work)
    assert at.done == ["blue"]


def test_nobody_is_asked_if_the_login_server_is_down(at: Guarded, tmp_path: Path) -> None:
    """The call says so, and the next one renews the token."""

    async def work(person: Person) -> None:
        await person.log_in()
        at.logins.tokens.clear()
        at.away.append(503)
        found = await person.paint("red")
        assert found == NotSentOutcome("the login there could not be renewed (HTTP 503)")
        at.away.clear()
        assert isinstance(await person.paint("blue"), ResultOutcome)
        assert len(person.asked) == 1

    run_with_person(at, tmp_path, work)


@pytest.mark.parametrize("status", [401, 403, 500])
def test_a_call_answered_by_a_status_alone_is_unknown(
    at: Guarded, tmp_path: Path, status: int
) -> None:
    """The call was done, then the token was refused.

    It is not sent again, nobody has to log in for it, and the next call goes on.
    """

    async def work(person: Person) -> None:
        await person.log_in()
        at.doorman.after = status
        assert await person.paint("red") == UnknownOutcome(f"the only answer was HTTP {status}")
        assert at.done == ["red"]
        assert at.doorman.calls == ["paint"]
        at.doorman.after = 0
        assert isinstance(await person.paint("blue"), ResultOutcome)
        assert len(person.asked) == 1

    run_with_person(at, tmp_path, work)
    assert at.done == ["red", "blue"]


def test_a_call_whose_connection_is_lost_is_unknown(at: Guarded, tmp_path: Path) -> None:
    """The call was done and is not sent again; the next one connects again."""

    async def work(person: Person) -> None:
        await person.log_in()
        at.doorman.lost = True
        assert isinstance(await person.paint("red"), UnknownOutcome)
        at.doorman.lost = False
        assert isinstance(await person.paint("blue"), ResultOutcome)

    run_with_person(at, tmp_path, work)
    assert at.done == ["red", "blue"]


def test_a_lost_call_breaks_no_other_off(at: Guarded, tmp_path: Path) -> None:
    """Each has a request of its own, and the lost one is unknown alone."""

    async def work(person: Person) -> None:
        await person.log_in()
        outcomes: list[CallOutcome] = []

        async def paint_slowly() -> None:
            outcomes.append(await person.paint("slow", waits=True))

        async with anyio.create_task_group() as both:
            both.start_soon(paint_slowly)
            await to_thread.run_sync(wait_until, lambda: at.doorman.calls)
            at.doorman.lost = True
            lost = await person.paint("red")
            assert isinstance(lost, UnknownOutcome)
            assert "the connection was lost during the call" in lost.why
            at.goes_on.set()
        assert isinstance(outcomes[0], ResultOutcome), outcomes

    run_with_person(at, tmp_path, work)
    assert at.done == ["red", "slow"]
    assert at.doorman.calls == ["paint", "paint"]


def test_a_redirect_of_a_call_is_not_followed(at: Guarded, tmp_path: Path) -> None:
    """The server's new place is learned when its tools are listed.

    An endless redirect counts as not reached.
    """

    async def work(person: Person) -> None:
        await person.log_in()
        at.doorman.moved = "all"
        assert isinstance(await person.paint("red"), ResultOutcome)
        at.doorman.moved = "calls"
        assert await person.paint("blue") == UnknownOutcome("the only answer was HTTP 307")
        assert at.doorman.calls == ["paint", "paint"]
        at.doorman.moved = "loop"
        assert isinstance(await person.paint("green"), NotSentOutcome)

    run_with_person(at, tmp_path, work)
    assert at.done == ["red"]


def test_a_long_call_holds_up_no_other(at: Guarded, tmp_path: Path) -> None:
    """Each is sent with the token by itself."""

    async def work(person: Person) -> None:
        await person.log_in()
        found: list[CallOutcome] = []

        async def paint(shed: str) -> None:
            found.append(await person.paint(shed, waits=shed == "long"))

        async with anyio.create_task_group() as both:
            both.start_soon(paint, "long")
            await to_thread.run_sync(wait_until, lambda: at.doorman.calls)
            await paint("short")
            at.goes_on.set()
        assert len(found) == 2
        assert all(isinstance(each, ResultOutcome) for each in found)

    run_with_person(at, tmp_path, work)
    assert at.done == ["short", "long"]


def test_a_forged_login_answer_is_ignored(at: Guarded, tmp_path: Path) -> None:
    """Only the answer to this very request counts.

    Who is refused gets the reason, and is asked again at the next call.
    """

    async def work(person: Person) -> None:
        with pytest.raises(ServerNotReachedError):
            await person.connection.list_current_tools()
        back = str(httpx2.URL(person.asked[0]).params["redirect_uri"])
        for query in ("", "?code=1", "?code=1&state=", "?code=1&state=x", "?error=x&state=x"):
            assert (await person.open(back + query)).status_code == 404
        assert (await person.open(back.replace("callback", "else"))).status_code == 404
        at.logins.lets_in = False
        assert "not logged in" in (await person.open(person.asked[0])).text
        with pytest.raises(ServerNotReachedError, match="refused: access_denied"):
            await person.connection.wait_for_login()
        at.logins.lets_in = True
        await person.log_in()
        assert isinstance(await person.paint("blue"), ResultOutcome)

    run_with_person(at, tmp_path, work)
    assert at.logins.given == ["login"]
