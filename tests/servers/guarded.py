"""An MCP server that needs a login, and the server at which people log in.

Both are made of the SDK's classes, each at an address of its own.
"""

from __future__ import annotations

import json
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn
from anyio import to_thread
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    ProviderTokenVerifier,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.routes import create_auth_routes
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl
from starlette.applications import Starlette
from starlette.types import ASGIApp, Message, Receive, Scope, Send

AGE = 3600  # seconds until an access token expires


@dataclass
class Logins:
    """The state of the login server; whoever asks is let in."""

    clients: dict[str, OAuthClientInformationFull] = field(default_factory=dict)
    codes: dict[str, AuthorizationCode] = field(default_factory=dict)
    tokens: dict[str, AccessToken] = field(default_factory=dict)
    renewals: dict[str, RefreshToken] = field(default_factory=dict)
    given: list[str] = field(default_factory=list)  # how each token was obtained
    refused: list[str] = field(default_factory=list)  # renewal tokens that do not count (any more)
    lets_in: bool = True

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self.clients[client_info.client_id or ""] = client_info

    async def authorize(
        self, client: OAuthClientInformationFull, params: AuthorizationParams
    ) -> str:
        to = str(params.redirect_uri)
        if not self.lets_in:
            return construct_redirect_uri(to, error="access_denied", state=params.state)
        code = secrets.token_urlsafe(32)
        self.codes[code] = AuthorizationCode(
            code=code,
            scopes=params.scopes or [],
            expires_at=time.time() + 60,
            client_id=client.client_id or "",
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        return construct_redirect_uri(to, code=code, state=params.state)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        del self.codes[authorization_code.code]
        self.given.append("login")
        return self._given(client)

    async def load_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: str
    ) -> RefreshToken | None:
        found = self.renewals.get(refresh_token)
        if found is None:
            self.refused.append(refresh_token)
        return found

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        del self.renewals[refresh_token.token]
        self.given.append("renewal")
        return self._given(client)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.tokens.get(token)

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        self.tokens.pop(token.token, None)

    def _given(self, client: OAuthClientInformationFull) -> OAuthToken:
        access, renewal, name = secrets.token_hex(), secrets.token_hex(), client.client_id or ""
        self.tokens[access] = AccessToken(token=access, client_id=name, scopes=[])
        self.renewals[renewal] = RefreshToken(token=renewal, client_id=name, scopes=[])
        return OAuthToken(access_token=access, expires_in=AGE, refresh_token=renewal)


@dataclass
class Doorman:
    """A gateway before the server, which can disturb calls; each call is recorded."""

    app: ASGIApp
    calls: list[str] = field(default_factory=list)
    after: int = 0  # the status that answers a call after it was done
    moved: str = ""  # redirects: "all" to the path with a slash, "calls" or "loop" to themselves
    lost: bool = False  # the connection breaks during a call

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            return await self.app(scope, receive, send)
        body = await _body(receive)
        name = (json.loads(body).get("params") or {}).get("name")
        is_call = json.loads(body).get("method") == "tools/call"
        if self.moved == "all" and not scope["path"].endswith("/"):
            return await _answer(send, 307, scope["path"] + "/")
        if is_call:
            self.calls.append(name)
        if self.moved == "loop" or (self.moved == "calls" and is_call):
            return await _answer(send, 307, scope["path"])
        scope["path"] = scope["path"].rstrip("/")
        heard: list[Message] = []

        async def hear(message: Message) -> None:
            heard.append(message)

        parts: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def again() -> Message:
            return parts.pop() if parts else await receive()

        if is_call and self.lost:
            await self.app(scope, again, hear)
            headers = [(b"content-type", b"application/json"), (b"content-length", b"99")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            raise ConnectionError("lost")
        if is_call and self.after:
            await self.app(scope, again, hear)
            return await _answer(send, self.after, "")
        return await self.app(scope, again, send)


async def _body(receive: Receive) -> bytes:
    found = b""
    while True:
        message = await receive()
        found += message.get("body", b"")
        if not message.get("more_body"):
            return found


async def _answer(send: Send, status: int, location: str) -> None:
    headers = [(b"location", location.encode())] if location else []
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


@dataclass
class Guarded:
    """Both servers."""

    url: str
    logins: Logins
    doorman: Doorman
    done: list[str]  # what the tool really did
    goes_on: threading.Event  # lets a waiting call go on
    away: list[int] = field(default_factory=list)  # the status that answers requests for tokens


@contextmanager
def guarded(folder: Path) -> Iterator[Guarded]:
    """Run both servers until the block ends."""
    logins, done, goes_on = Logins(), list[str](), threading.Event()
    with (
        socket.create_server(("127.0.0.1", 0)) as own,
        socket.create_server(("127.0.0.1", 0)) as at,
    ):
        url = f"http://127.0.0.1:{own.getsockname()[1]}"
        issuer = AnyHttpUrl(f"http://127.0.0.1:{at.getsockname()[1]}")
        settings = AuthSettings(
            issuer_url=issuer,
            resource_server_url=AnyHttpUrl(f"{url}/mcp"),
            required_scopes=[],
            validate_token_resource=False,
        )
        server = MCPServer("shop", auth=settings, token_verifier=ProviderTokenVerifier(logins))

        @server.tool()
        async def paint(shed: str, waits: bool = False) -> str:
            if waits:
                await to_thread.run_sync(goes_on.wait, 30)
            done.append(shed)
            return f"{shed} is painted"

        doorman = Doorman(server.streamable_http_app(stateless_http=True, json_response=True))
        made = Guarded(f"{url}/mcp", logins, doorman, done, goes_on)
        registration = ClientRegistrationOptions(enabled=True)
        routes = create_auth_routes(logins, issuer, client_registration_options=registration)
        with _serving(doorman, own), _serving(_away(Starlette(routes=routes), made), at):
            yield made


def _away(app: ASGIApp, made: Guarded) -> ASGIApp:
    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if made.away and scope.get("path") == "/token":
            return await _answer(send, made.away[0], "")
        return await app(scope, receive, send)

    return answer


@contextmanager
def _serving(app: Any, listening: socket.socket) -> Iterator[None]:
    serving = uvicorn.Server(uvicorn.Config(app, log_level="critical", ws="none"))
    thread = threading.Thread(target=serving.run, args=([listening],), daemon=True)
    thread.start()
    yield
    serving.should_exit = True
    thread.join(30)
