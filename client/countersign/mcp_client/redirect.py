"""Where somebody's browser is sent after a login: an address of this machine alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from secrets import compare_digest
from urllib.parse import parse_qs, urlsplit

from mcp.shared.auth import AuthorizationCodeResult

LOCAL, PATH = "127.0.0.1", "/callback"
LINE = 16_384  # bytes of a request that are read
READ = 10.0  # seconds for them to come
DONE = "You are logged in. You can close this page."
NOT_DONE = "You are not logged in. You can close this page."
NOT_HERE = "There is nothing here."


class NotLoggedInError(Exception):
    """Nobody has logged in; says why."""


@dataclass(slots=True)
class Redirect:
    """The address, and what came there."""

    url: str
    state: str = ""  # without it nothing is believed
    _answer: asyncio.Future[AuthorizationCodeResult] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    async def answer(self) -> AuthorizationCodeResult:
        """Wait for it. Raises NotLoggedInError where the person was refused, or refused."""
        return await self._answer

    async def heard(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request of a browser's."""
        try:
            async with asyncio.timeout(READ):
                line = await reader.readuntil(b"\n")
                while (await reader.readuntil(b"\n")).strip():
                    pass  # its headers
                status, text = self._taken(line.decode("latin-1"))
                writer.write(_page(status, text))
                await writer.drain()
        except (OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # no browser of the person's
        finally:
            writer.close()

    def _taken(self, line: str) -> tuple[str, str]:
        """Take what a request line says; returns the status and what the person reads."""
        method, _, rest = line.partition(" ")
        asked = urlsplit(rest.partition(" ")[0])
        said = {name: each[-1] for name, each in parse_qs(asked.query).items()}
        known = self.state and compare_digest(said.get("state", "").encode(), self.state.encode())
        if method != "GET" or asked.path != PATH or not known or self._answer.done():
            return "404 Not Found", NOT_HERE
        if "code" in said:
            found = AuthorizationCodeResult(
                code=said["code"], state=said["state"], iss=said.get("iss")
            )
            self._answer.set_result(found)
            return "200 OK", DONE
        why = said.get("error_description") or said.get("error") or "no reason was given"
        self._answer.set_exception(NotLoggedInError(f"the login was refused: {why[:200]}"))
        return "200 OK", NOT_DONE


@asynccontextmanager
async def redirected() -> AsyncIterator[Redirect]:
    """Listen at a port that is free, until the block ends; raises OSError where none is."""
    redirect = Redirect("")
    server = await asyncio.start_server(redirect.heard, LOCAL, 0, limit=LINE)
    redirect.url = f"http://{LOCAL}:{server.sockets[0].getsockname()[1]}{PATH}"
    try:
        yield redirect
    finally:
        server.close()


def _page(status: str, text: str) -> bytes:
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(text)}\r\nCache-Control: no-store\r\n"
        "Referrer-Policy: no-referrer\r\nConnection: close\r\n\r\n"
    )
    return f"{head}{text}".encode()
