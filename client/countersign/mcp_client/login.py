"""A person's OAuth login at an MCP server over HTTP; the SDK implements the protocol.

A request is sent with the current token, renewed if it has expired. Nobody is asked during a
request: if the server wants a login, the request fails, and a person is asked separately.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import json
import logging
import os
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from secrets import compare_digest
from typing import TextIO
from urllib.parse import parse_qs, urlsplit

import httpx2
from anyio import CancelScope, fail_after, move_on_after
from mcp.client.auth import OAuthClientProvider
from mcp.shared import auth
from pydantic import BaseModel, ValidationError

# The file with a person's login at one server: the tokens, and the client they were issued to.

PRIVATE_FILE_MODE = 0o600
PRIVATE_FOLDER_MODE = 0o700
RENEWAL_TIMEOUT_SECONDS = 20.0
LOCK_POLL_SECONDS = 0.05


class StoredLogin(BaseModel):
    """The content of a login file."""

    tokens: auth.OAuthToken
    expires_at: float | None = None  # when the access token expires, by this machine's clock
    client: auth.OAuthClientInformationFull
    server: auth.OAuthMetadata | None = None  # issued the tokens, and renews them
    resource: auth.ProtectedResourceMetadata | None = None


@dataclass(slots=True)
class LoginFile:
    """The file of one login; several processes may use it, and the newest login counts."""

    path: Path
    _last_version: tuple[int, int] = (0, 0)

    def read_if_changed(self) -> StoredLogin | None:
        """Return the login if the file has changed since this process last read or wrote it.

        None if it has not, and for a file that is missing or unreadable.
        """
        try:
            stat = self.path.stat()
            seen = stat.st_ino, stat.st_mtime_ns
            if seen == self._last_version:
                return None
            self._last_version = seen
            return StoredLogin.model_validate(json.loads(self.path.read_text("utf-8")))
        except (OSError, ValueError, ValidationError):
            return None

    def write(self, login: StoredLogin) -> None:
        """Replace the file's login; raises OSError."""
        self.path.parent.mkdir(mode=PRIVATE_FOLDER_MODE, parents=True, exist_ok=True)
        beside = self.path.with_name(f".{self.path.name}.{secrets.token_hex(4)}")
        file = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE_MODE)
        try:
            with os.fdopen(file, "w", encoding="utf-8") as writing:
                writing.write(login.model_dump_json(exclude_none=True))
            stat = beside.stat()
            beside.replace(self.path)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
        self._last_version = stat.st_ino, stat.st_mtime_ns

    @asynccontextmanager
    async def lock(self) -> AsyncIterator[None]:
        """Keep other processes from renewing the login during the block.

        Many servers end the login if a renewal token is used twice. If there is no lock in time,
        the block is run without it.
        """
        async with AsyncExitStack() as held:
            with suppress(OSError):  # a folder that cannot be written has no lock
                self.path.parent.mkdir(mode=PRIVATE_FOLDER_MODE, parents=True, exist_ok=True)
                file = held.enter_context(self.path.with_suffix(".lock").open("w"))
                with move_on_after(RENEWAL_TIMEOUT_SECONDS):
                    while not _try_to_lock(file):
                        await asyncio.sleep(LOCK_POLL_SECONDS)
            yield


def _try_to_lock(file: TextIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def build_login_path(folder: Path, url: str) -> Path:
    """Return the path in `folder` at which the login for a URL is kept."""
    return folder / f"{hashlib.sha256(url.encode()).hexdigest()[:32]}.json"


# Where the browser returns after a login: an address that only this machine can reach.

CALLBACK_HOST = "127.0.0.1"
CALLBACK_PATH = "/callback"
MAX_REQUEST_BYTES = 16_384
REQUEST_TIMEOUT_SECONDS = 10.0
LOGGED_IN_TEXT = "You are logged in. You can close this page."
NOT_LOGGED_IN_TEXT = "You are not logged in. You can close this page."
NOT_FOUND_TEXT = "There is nothing here."


class NotLoggedInError(Exception):
    """Raised when nobody has logged in; the message says why."""


@dataclass(slots=True)
class LoginRedirectReceiver:
    """The local address to which a browser returns after a login, and the result of the login."""

    url: str
    state: str = ""  # OAuth's `state`; every result is refused while it is ""
    _result: asyncio.Future[auth.AuthorizationCodeResult] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    async def wait_for_login_result(self) -> auth.AuthorizationCodeResult:
        """Wait for the result of the login. Raises NotLoggedInError if the login was refused."""
        return await self._result

    async def handle_browser_request(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Answer one request of a browser."""
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_SECONDS):
                line = await reader.readuntil(b"\n")
                while (await reader.readuntil(b"\n")).strip():
                    pass  # skip the headers
                status, text = self._accept_result(line.decode("latin-1"))
                writer.write(_build_http_response(status, text))
                await writer.drain()
        except (OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # no valid request, so not from the person's browser
        finally:
            writer.close()

    def _accept_result(self, line: str) -> tuple[str, str]:
        """Take the login's result from a request line; return an HTTP status and the page text."""
        method, _, rest = line.partition(" ")
        url = urlsplit(rest.partition(" ")[0])
        query = {name: each[-1] for name, each in parse_qs(url.query).items()}
        is_known_state = self.state and compare_digest(
            query.get("state", "").encode(), self.state.encode()
        )
        if (
            method != "GET"
            or url.path != CALLBACK_PATH
            or not is_known_state
            or self._result.done()
        ):
            return "404 Not Found", NOT_FOUND_TEXT
        if "code" in query:
            result = auth.AuthorizationCodeResult(
                code=query["code"], state=query["state"], iss=query.get("iss")
            )
            self._result.set_result(result)
            return "200 OK", LOGGED_IN_TEXT
        why = query.get("error_description") or query.get("error") or "no reason was given"
        self._result.set_exception(NotLoggedInError(f"the login was refused: {why[:200]}"))
        return "200 OK", NOT_LOGGED_IN_TEXT


@asynccontextmanager
async def listen_for_login_redirect() -> AsyncIterator[LoginRedirectReceiver]:
    """Listen on a free port of this machine during the block; raises OSError if there is none."""
    redirect = LoginRedirectReceiver("")
    server = await asyncio.start_server(
        redirect.handle_browser_request, CALLBACK_HOST, 0, limit=MAX_REQUEST_BYTES
    )
    redirect.url = f"http://{CALLBACK_HOST}:{server.sockets[0].getsockname()[1]}{CALLBACK_PATH}"
    try:
        yield redirect
    finally:
        server.close()


def _build_http_response(status: str, text: str) -> bytes:
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(text)}\r\nCache-Control: no-store\r\n"
        "Referrer-Policy: no-referrer\r\nConnection: close\r\n\r\n"
    )
    return f"{head}{text}".encode()


LOGIN_TIMEOUT_SECONDS = 600.0  # for the person to log in
PAST_EXPIRY_TIME = 1.0
_TOO_MANY_REQUESTS = HTTPStatus.TOO_MANY_REQUESTS
OAUTH_CLIENT_NAME = "Countersign"
log = logging.getLogger("countersign.servers")


class ServerLogin:
    """A person's OAuth login at one MCP server; used on one event loop."""

    def __init__(self, url: str, file: LoginFile, asked: Callable[[str], None]) -> None:
        """Prepare the login at `url`; `asked` shows a person the address at which to log in."""
        self._url, self._file, self._asked = url, file, asked
        nowhere = auth.OAuthClientMetadata(redirect_uris=None, client_name=OAUTH_CLIENT_NAME)
        self._sdk = OAuthClientProvider(url, nowhere, _TokenStorage(self))
        self._task: asyncio.Task[None] | None = None
        self._known = asyncio.Event()
        self._address, self._failed, self._not_renewed = "", "", ""

    @property
    def tokens(self) -> auth.OAuthToken | None:
        """The current tokens; None if there are none."""
        return self._sdk.context.current_tokens

    @property
    def client(self) -> auth.OAuthClientInformationFull | None:
        """The client registration at the server that issues the tokens; None if there is none."""
        return self._sdk.context.client_info

    @property
    def login_needed_reason(self) -> str:
        """Why the server cannot be used without a (new) login; "" if none is needed."""
        if self._task is not None and not self._task.done():
            return f"somebody must log in there, at {self._address or self._url}"
        if self._not_renewed:
            return f"the login there could not be renewed ({self._not_renewed})"
        return f"nobody has logged in there ({self._failed})" if self._failed else ""

    async def wait_until_login_address_known(self) -> None:
        """Wait until it is known at which page the person logs in, or the login has ended."""
        if self._task is not None:
            knows = asyncio.ensure_future(self._known.wait())
            try:
                await asyncio.wait([self._task, knows], return_when=asyncio.FIRST_COMPLETED)
            finally:
                knows.cancel()

    async def wait_until_login_ends(self) -> bool:
        """Wait for the end of the login; return whether it succeeded, False if none was begun."""
        if self._task is None:
            return False
        await asyncio.wait([self._task])
        return not self._failed

    async def close(self) -> None:
        """Stop a login that is under way."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def send_with_login_token(
        self, request: httpx2.Request, is_call: bool
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send a request with the token; if the server answers 401, send it again with a newer one.

        A tool call (`is_call`) is sent only once. If the answer is still 401, a person is asked to
        log in.
        """
        used = await self._add_token(request)
        response = yield request
        if response.status_code != HTTPStatus.UNAUTHORIZED:
            return
        context = self._sdk.context
        if context.current_tokens and context.current_tokens.access_token == used:
            context.token_expiry_time = PAST_EXPIRY_TIME  # forces a renewal
        if is_call:
            return
        again = await self._add_token(request)
        if again and again != used:
            await response.aread()
            response = yield request
        if response.status_code == HTTPStatus.UNAUTHORIZED and not self._not_renewed:
            self._start_login(request)

    async def _add_token(self, request: httpx2.Request) -> str:
        """Put the current token, renewed if needed, into a request; return the token, "" for none.

        The SDK's flow holds a lock while it sends; it is left before that, since a call may take
        long.
        """
        self._reload_from_file()
        self._not_renewed = ""
        request.headers.pop("authorization", None)
        context = self._sdk.context
        async with AsyncExitStack() as held:
            if context.can_refresh_token() and not context.is_token_valid():
                await held.enter_async_context(self._file.lock())
                self._reload_from_file()  # another process may just have renewed it
            flow = await held.enter_async_context(aclosing(self._sdk.async_auth_flow(request)))
            outgoing = await anext(flow)
            with CancelScope(shield=True):  # a renewed token lost now could not be renewed again
                while outgoing is not request:
                    answer = await self._send_token_renewal(outgoing)
                    if answer is None:
                        break
                    outgoing = await flow.asend(answer)
        return request.headers.get("authorization", "").removeprefix("Bearer ")

    async def _send_token_renewal(self, wish: httpx2.Request) -> httpx2.Response | None:
        """Send a token renewal request; return the answer, None if the server is unavailable."""
        try:
            with fail_after(RENEWAL_TIMEOUT_SECONDS):
                async with httpx2.AsyncClient() as http:
                    answer = await http.send(wish)
        except (httpx2.HTTPError, TimeoutError) as error:
            self._not_renewed = type(error).__name__
            return None
        if (
            answer.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR
            or answer.status_code == _TOO_MANY_REQUESTS
        ):
            self._not_renewed = f"HTTP {answer.status_code}"
            return None
        return answer

    def _reload_from_file(self) -> None:
        """Take over the login from the file if another process has changed the file."""
        kept = self._file.read_if_changed()
        if kept is not None:
            self._use_login(kept)

    def _use_login(self, login: StoredLogin) -> None:
        context = self._sdk.context
        context.current_tokens, context.client_info = login.tokens, login.client
        context.token_expiry_time = login.expires_at
        context.oauth_metadata, context.protected_resource_metadata = login.server, login.resource

    def save_tokens(
        self, tokens: auth.OAuthToken, provider: OAuthClientProvider | None = None
    ) -> None:
        """Use and save tokens that were issued just now; a failure to save is only logged."""
        context = (provider or self._sdk).context
        if context.client_info is None:
            return
        in_seconds = tokens.expires_in
        now = time.time()  # noqa: TID251  # a login outlives the process
        login = StoredLogin(
            tokens=tokens,
            expires_at=None if in_seconds is None else now + in_seconds,
            client=context.client_info,
            server=context.oauth_metadata,
            resource=context.protected_resource_metadata,
        )
        self._use_login(login)
        try:
            self._file.write(login)
        except OSError as error:
            log.warning("the login at %s could not be stored: %s", self._url, error)

    def _start_login(self, request: httpx2.Request) -> None:
        """Start a login with the refused request, unless one is under way or it is no POST."""
        if request.method != "POST" or (self._task is not None and not self._task.done()):
            return
        self._address, self._failed = "", ""
        self._known.clear()
        self._task = asyncio.get_running_loop().create_task(self._run_login(request))

    async def _run_login(self, request: httpx2.Request) -> None:
        try:
            with fail_after(LOGIN_TIMEOUT_SECONDS):
                async with listen_for_login_redirect() as redirect:
                    await self._complete_login(request, redirect)
        except NotLoggedInError as error:
            self._failed = str(error)
        except TimeoutError:
            self._failed = f"nobody did within {LOGIN_TIMEOUT_SECONDS / 60:g} minutes"
        except Exception as error:  # noqa: BLE001 # what a server says here may be anything
            self._failed = " ".join(f"{type(error).__name__} {error}".split())[:200]

    async def _complete_login(
        self, refused: httpx2.Request, redirect: LoginRedirectReceiver
    ) -> None:
        async def show(address: str) -> None:
            parts = urlsplit(address)
            if parts.scheme not in ("https", "http"):
                raise NotLoggedInError("its login page has no web address")
            redirect.state = parse_qs(parts.query)["state"][0]
            self._address = address
            self._known.set()
            self._asked(address)

        uris = [redirect.url]
        client_metadata = auth.OAuthClientMetadata.model_validate(
            {
                "client_name": OAUTH_CLIENT_NAME,
                "redirect_uris": uris,
                "token_endpoint_auth_method": "none",
            }
        )
        new = _TokenStorage(None)
        provider = OAuthClientProvider(
            self._url, client_metadata, new, show, redirect.wait_for_login_result
        )
        headers = {k: v for k, v in refused.headers.items() if k.lower() != "authorization"}
        async with httpx2.AsyncClient(auth=provider) as http:
            request = http.build_request(
                "POST", refused.url, content=refused.content, headers=headers
            )
            response = await http.send(request, stream=True)
            await response.aclose()
        if new.new_tokens is None:
            raise NotLoggedInError(f"it answered with HTTP {response.status_code}")
        self.save_tokens(new.new_tokens, provider)


class _TokenStorage:
    """The SDK's token storage: that of `login`, or with None an empty one for a first login."""

    def __init__(self, login: ServerLogin | None) -> None:
        self.new_tokens: auth.OAuthToken | None = None
        self._login = login

    async def get_tokens(self) -> auth.OAuthToken | None:
        return self._login.tokens if self._login else None

    async def set_tokens(self, tokens: auth.OAuthToken) -> None:
        self.new_tokens = tokens
        if self._login:
            self._login.save_tokens(tokens)

    async def get_client_info(self) -> auth.OAuthClientInformationFull | None:
        return self._login.client if self._login else None

    async def set_client_info(self, client_info: auth.OAuthClientInformationFull) -> None:
        """Store nothing: the provider's context has the registration, too."""
