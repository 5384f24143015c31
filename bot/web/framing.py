"""Refuses a request whose end two readers could see at different places."""

from __future__ import annotations

from http import HTTPStatus

from starlette.types import ASGIApp, Receive, Scope, Send

from bot.web.api.problems import ProblemError

TWICE = "A request has a Content-Length or a Transfer-Encoding, and not both."


class OneLength:
    """ASGI: hands all on that says once how long its body is.

    A proxy before this may go by the one and this by the other: then what one takes for the body is
    another request to the other.
    """

    def __init__(self, app: ASGIApp) -> None:
        """`app`: all that this process answers over HTTP."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or have it answered."""
        names = [name for name, _ in scope.get("headers", ())]
        if b"transfer-encoding" in names and b"content-length" in names:
            error = ProblemError(HTTPStatus.BAD_REQUEST, TWICE, headers={"Connection": "close"})
            await error.answer()(scope, receive, send)
        else:
            await self._app(scope, receive, send)
