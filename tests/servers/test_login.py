"""Servers that want somebody to log in: who is asked when, what is kept, and what of a call is
known whatever becomes of the login.
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
from tests.servers.support import until


class Person:
    """Whoever is asked to log in, and the connection that asks them."""

    def __init__(self, at: Guarded, folder: Path) -> None:
        self.at, self.folder = at, folder
        self.asked: list[str] = []
        self.connection = self.connected()

    def connected(self) -> ServerConnection:
        """A connection as a process of its own makes it."""
        file = LoginFile(build_login_path(self.folder, self.at.url))
        login = ServerLogin(self.at.url, file, self.asked.append)
        return ServerConnection(UrlAddress(self.at.url, login=login), open_within=20)

    @property
    def file(self) -> Path:
        """Where the login is kept."""
        return build_login_path(self.folder, self.at.url)

    async def logs_in(self) -> None:
        """Be asked, and log in."""
        with pytest.raises(ServerNotReachedError, match="somebody must log in there, at http"):
            await self.connection.list_current_tools()
        await self.opens(self.asked[-1])
        assert await self.connection.wait_for_login()

    async def opens(self, address: str) -> httpx2.Response:
        """Open an address in a browser, which goes where it is sent."""
        async with httpx2.AsyncClient(follow_redirects=True) as browser:
            return await browser.get(address)

    async def paints(self, shed: str, *, waits: bool = False) -> CallOutcome:
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


def with_person(at: Guarded, folder: Path, work: Callable[[Person], Awaitable[None]]) -> None:
    """Do it with a person and a connection."""

    async def worked() -> None:
        person = Person(at, folder)
        try:
            await work(person)
        finally:
            await person.connection.close()

    anyio.run(worked)


def test_somebody_is_asked_once_and_their_login_is_kept(at: Guarded, tmp_path: Path) -> None:
    """Until they have, nothing is called; then all is, also by the next process; the file is
    theirs alone.
    """

    async def work(person: Person) -> None:
        assert isinstance(await person.paints("red"), NotSentOutcome)
        assert isinstance(await person.paints("red"), NotSentOutcome)
        assert len(person.asked) == 1
        await person.opens(person.asked[0])
        assert await person.connection.wait_for_login()
        assert isinstance(await person.paints("blue"), ResultOutcome)
        await person.connection.close()
        person.connection = person.connected()
        assert isinstance(await person.paints("green"), ResultOutcome)
        assert len(person.asked) == 1
        assert stat.S_IMODE(person.file.stat().st_mode) == 0o600

    with_person(at, tmp_path, work)
    assert at.done == ["blue", "green"]
    assert at.logins.given == ["login"]


def test_a_token_that_has_aged_is_renewed(at: Guarded, tmp_path: Path) -> None:
    """Of itself, in a process that was started anew as well; a server that takes it no more before
    that is asked again with a new one. Nobody is asked.
    """

    async def work(person: Person) -> None:
        await person.logs_in()
        at.logins.tokens.clear()
        assert isinstance(await person.paints("early"), ResultOutcome)
        kept = json.loads(person.file.read_text())
        person.file.write_text(json.dumps({**kept, "expires_at": 1.0}))
        at.logins.tokens.clear()
        await person.connection.close()
        person.connection = person.connected()
        assert isinstance(await person.paints("anew"), ResultOutcome)
        assert json.loads(person.file.read_text())["tokens"] != kept["tokens"]
        assert len(person.asked) == 1

    with_person(at, tmp_path, work)
    assert at.logins.given == ["login", "renewal", "renewal"]
    assert at.doorman.calls == ["paint", "paint"]


def test_what_another_process_has_renewed_counts_here(at: Guarded, tmp_path: Path) -> None:
    """Two hosts have a proxy each; a renewed token ends the one before."""

    async def work(person: Person) -> None:
        await person.logs_in()
        first, person.connection = person.connection, person.connected()
        at.logins.tokens.clear()
        assert isinstance(await person.paints("by the second"), ResultOutcome)
        await person.connection.close()
        person.connection = first
        assert isinstance(await person.paints("by the first"), ResultOutcome)
        assert len(person.asked) == 1

    with_person(at, tmp_path, work)
    assert at.logins.given == ["login", "renewal"]


def test_somebody_is_asked_again_where_it_cannot_be_renewed(at: Guarded, tmp_path: Path) -> None:
    """And nothing is called meanwhile."""

    async def work(person: Person) -> None:
        await person.logs_in()
        at.logins.tokens.clear()
        at.logins.renewals.clear()
        found = await person.paints("red")
        assert isinstance(found, NotSentOutcome)
        assert person.asked[1] in found.why
        await person.opens(person.asked[1])
        assert await person.connection.wait_for_login()
        assert isinstance(await person.paints("blue"), ResultOutcome)

    with_person(at, tmp_path, work)
    assert at.done == ["blue"]


def test_nobody_is_asked_where_tokens_cannot_be_given_now(at: Guarded, tmp_path: Path) -> None:
    """It is said, and the next try renews it."""

    async def work(person: Person) -> None:
        await person.logs_in()
        at.logins.tokens.clear()
        at.away.append(503)
        found = await person.paints("red")
        assert found == NotSentOutcome("the login there could not be renewed (HTTP 503)")
        at.away.clear()
        assert isinstance(await person.paints("blue"), ResultOutcome)
        assert len(person.asked) == 1

    with_person(at, tmp_path, work)


@pytest.mark.parametrize("status", [401, 403, 500])
def test_a_call_that_was_sent_is_not_known_by_a_status(
    at: Guarded, tmp_path: Path, status: int
) -> None:
    """It was done, and then the token was refused: it is not sent again with another, and nobody
    is asked to log in for it; the next call goes on.
    """

    async def work(person: Person) -> None:
        await person.logs_in()
        at.doorman.after = status
        assert await person.paints("red") == UnknownOutcome(f"the only answer was HTTP {status}")
        assert at.done == ["red"]
        assert at.doorman.calls == ["paint"]
        at.doorman.after = 0
        assert isinstance(await person.paints("blue"), ResultOutcome)
        assert len(person.asked) == 1

    with_person(at, tmp_path, work)
    assert at.done == ["red", "blue"]


def test_a_connection_that_is_lost_under_a_call_leaves_it_open(at: Guarded, tmp_path: Path) -> None:
    """It was done; it is not sent again, and the next call begins anew."""

    async def work(person: Person) -> None:
        await person.logs_in()
        at.doorman.lost = True
        assert isinstance(await person.paints("red"), UnknownOutcome)
        at.doorman.lost = False
        assert isinstance(await person.paints("blue"), ResultOutcome)

    with_person(at, tmp_path, work)
    assert at.done == ["red", "blue"]


def test_a_redirect_is_followed_for_no_call(at: Guarded, tmp_path: Path) -> None:
    """Where a server has moved is learned by asking for its tools; a call that is sent on is not
    known, and what goes round in circles is not reached.
    """

    async def work(person: Person) -> None:
        await person.logs_in()
        at.doorman.moved = "all"
        assert isinstance(await person.paints("red"), ResultOutcome)
        at.doorman.moved = "calls"
        assert await person.paints("blue") == UnknownOutcome("the only answer was HTTP 307")
        assert at.doorman.calls == ["paint", "paint"]
        at.doorman.moved = "loop"
        assert isinstance(await person.paints("green"), NotSentOutcome)

    with_person(at, tmp_path, work)
    assert at.done == ["red"]


def test_a_long_call_holds_up_no_other(at: Guarded, tmp_path: Path) -> None:
    """Each is sent with the token by itself."""

    async def work(person: Person) -> None:
        await person.logs_in()
        found: list[CallOutcome] = []

        async def paint(shed: str) -> None:
            found.append(await person.paints(shed, waits=shed == "long"))

        async with anyio.create_task_group() as both:
            both.start_soon(paint, "long")
            await to_thread.run_sync(until, lambda: at.doorman.calls)
            await paint("short")
            at.goes_on.set()
        assert len(found) == 2
        assert all(isinstance(each, ResultOutcome) for each in found)

    with_person(at, tmp_path, work)
    assert at.done == ["short", "long"]


def test_what_comes_from_elsewhere_is_no_login(at: Guarded, tmp_path: Path) -> None:
    """Only the answer to this very question is believed; who is refused is told why, and asked
    again with the next call.
    """

    async def work(person: Person) -> None:
        with pytest.raises(ServerNotReachedError):
            await person.connection.list_current_tools()
        back = str(httpx2.URL(person.asked[0]).params["redirect_uri"])
        for query in ("", "?code=1", "?code=1&state=", "?code=1&state=x", "?error=x&state=x"):
            assert (await person.opens(back + query)).status_code == 404
        assert (await person.opens(back.replace("callback", "else"))).status_code == 404
        at.logins.lets_in = False
        assert "not logged in" in (await person.opens(person.asked[0])).text
        with pytest.raises(ServerNotReachedError, match="refused: access_denied"):
            await person.connection.wait_for_login()
        at.logins.lets_in = True
        await person.logs_in()
        assert isinstance(await person.paints("blue"), ResultOutcome)

    with_person(at, tmp_path, work)
    assert at.logins.given == ["login"]
