"""The HTTP API at the bot's own socket: the API for programs without a key, and the operator's."""

from __future__ import annotations

import socket
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from http import HTTPStatus
from typing import Any

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse

from bot.http.api import build_api_app
from bot.http.api_bodies import ProblemError, build_retry_later_problem
from bot.http.api_gate import ApiKeyChecker
from bot.http.api_routes import Id
from bot.http.ask_route import ProgramRequestService
from bot.http.http_side import build_web_app
from bot.http.keys import KeyManager, Name
from bot.http.server import WebServer
from bot.runs.surfaces import Host
from bot.terminal import terminal_messages
from bot.terminal.terminal import OperatorCommandExecutor
from storage import personal_data
from storage.programs import ProgramApiKey, build_bot_account_key

MAX_OPEN_CHATS = 16
MAX_COMMAND_CHARS = 65_536
JSON_LINES_MEDIA_TYPE = "application/x-ndjson"


class BotAccountKeyChecker(ApiKeyChecker):
    """An API key check that accepts requests without a key as from the bot's own account."""

    def get_authenticated_key(self, headers: Sequence[str]) -> ProgramApiKey:
        """Return the key in these headers, the bot account's for none; raises ProblemError."""
        if headers:
            return super().get_authenticated_key(headers)
        return build_bot_account_key(self._team)


class SocketApiServer:
    """The HTTP server at the bot's Unix socket; one per process, from the first connection on."""

    def __init__(self, host: Host, listening: socket.socket) -> None:
        self._host = host
        self._ending = threading.Event()
        operator = host.settings.operator
        self._terminal = OperatorCommandExecutor(host, operator) if operator else None
        self._keys = KeyManager(host)
        self._open_chat_count = 0
        self._chat_limiter = CapacityLimiter(MAX_OPEN_CHATS)
        callers = BotAccountKeyChecker(host.store, host.clock, host.identity.team)
        asking = ProgramRequestService(host.authority.directory, host.programs)
        api = build_api_app(host.store, callers, asking, self._is_stopping, self._build_router())
        self._server = WebServer(listening, f"unix:{listening.getsockname()}")
        self._server.start(build_web_app({}, None, api))

    def close(self) -> None:
        """Tell the clients that wait how their requests stand, then stop the server."""
        self._ending.set()
        if self._terminal is not None:
            self._terminal.stop()
        self._server.close()

    def _is_stopping(self) -> bool:
        return self._ending.is_set() or self._host.signals.stopping.is_set()

    def _build_router(self) -> APIRouter:
        """Return the routes that only the socket has, for the command line of the same version.

        What is no coroutine runs on the threads of the framework: it may block.
        """
        router = APIRouter(include_in_schema=False)
        ways: tuple[tuple[str, Callable[..., Any]], ...] = (
            ("POST /keys", self._keys.create_key),
            ("POST /keys/renew", self._keys.renew_key),
            ("POST /keys/revoke", self._keys.revoke_key),
            ("POST /passkeys/revoke", self.revoke_passkey),
            ("POST /forget", self.erase_data_of_person),
            ("POST /terminal", self.handle_operator_command),
            ("GET /chats/{run_id}", self.stream_chat_events),
        )
        for way, answer in ways:
            method, path = way.split()
            router.add_api_route(path, answer, methods=[method], response_model=None)
        return router

    def revoke_passkey(self, id: Name) -> dict[str, Any]:
        """Revoke the passkey with this id; tell its person and those whom the policy wants told."""
        actor, now = self._host.settings.operator or "system", self._host.clock.now()
        row = self._host.passkeys.revoke_for_operator(id, actor, now)
        if row is None:
            raise ProblemError(HTTPStatus.NOT_FOUND, "There is no passkey with that id to revoke.")
        self._host.signals.outbox.notify()  # so that the passkey's owner is notified at once
        self._host.signals.work.notify()  # the request to approve the passkey is over
        return {"person": row.person, "name": row.name}

    def erase_data_of_person(self, person: Name) -> personal_data.ErasureResult:
        """Erase the stored texts of what a person asked and wrote; return what was erased."""
        actor, over = self._host.settings.operator or "system", self._ending.is_set
        store, now = self._host.store, self._host.clock.now()
        done = personal_data.erase_personal_data(
            store, person, at=now, actor=actor, should_stop=over
        )
        if over():
            why = "The bot is stopping, and not everything was done. Please repeat the command."
            raise build_retry_later_problem(HTTPStatus.SERVICE_UNAVAILABLE, why, 1)
        return done

    def handle_operator_command(self, asking: terminal_messages.OperatorCommand) -> Response:
        """Carry out an operator's command, and answer with its CommandResult."""
        terminal = self._get_terminal()
        if len(asking.words) + sum(map(len, asking.values.values())) > MAX_COMMAND_CHARS:
            why = f"A command may have at most {MAX_COMMAND_CHARS:,} characters."
            raise ProblemError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, why)
        answer = terminal_messages.encode_as_json_line(terminal.run_command(asking))
        return Response(answer, media_type=JSONResponse.media_type)

    async def stream_chat_events(self, run_id: Id, request: Request) -> Response:
        """Stream the events in the chat of a request, a line of JSON for each event."""
        terminal = self._get_terminal()
        if self._open_chat_count >= MAX_OPEN_CHATS:
            many = HTTPStatus.TOO_MANY_REQUESTS
            raise ProblemError(many, terminal_messages.TOO_MANY_CHATS)
        return StreamingResponse(
            self._stream_event_lines(terminal, run_id, request), media_type=JSON_LINES_MEDIA_TYPE
        )

    async def _stream_event_lines(
        self, terminal: OperatorCommandExecutor, run_id: str, request: Request
    ) -> AsyncIterator[bytes]:
        """Yield a chat's events as lines of JSON until the client is gone or the bot stops."""
        self._open_chat_count += 1
        following = terminal.follow_chat(run_id)
        try:
            while not (self._is_stopping() or await request.is_disconnected()):
                for each in await to_thread.run_sync(
                    following.read_new_events, limiter=self._chat_limiter
                ):
                    yield terminal_messages.encode_as_json_line(each)
        finally:
            following.close()
            self._open_chat_count -= 1

    def _get_terminal(self) -> OperatorCommandExecutor:
        """Return the operator command executor; ProblemError if the settings name no operator."""
        if self._terminal is None:
            raise ProblemError(HTTPStatus.CONFLICT, terminal_messages.NO_OPERATOR)
        return self._terminal
