"""How requests go out to a server over HTTP: a tool's call goes once, whatever the answer is.

The SDK follows a redirect, and logs in where a server wants that, by sending the same request
again. With a call it may not: that it was answered so does not say that nothing was done.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import httpx2

from countersign.mcp_client.wire import call_id

if TYPE_CHECKING:
    from countersign.mcp_client.login import ServerLogin

MOST_MOVES = 5  # from one address to the next, that are remembered


class CallsOnce(httpx2.Auth):
    """One connection's."""

    def __init__(self, login: ServerLogin | None) -> None:
        """`login`: by which the server is told who asks."""
        self._login = login
        self._leading: WeakKeyDictionary[httpx2.Request, httpx2.URL] = WeakKeyDictionary()
        self._moved: dict[httpx2.URL, httpx2.URL] = {}  # as redirects of other requests have shown

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send one request."""
        if (came_from := self._leading.pop(request, None)) is not None:
            self._moved[came_from] = request.url  # the SDK has followed it
        is_call = call_id(request) is not None
        if is_call:
            request.url = self._place(request.url)
        if self._login is None:
            response = yield request
            self._note(response, is_call)
            return
        async with aclosing(self._login.flow(request, is_call)) as flow:
            outgoing = await anext(flow, None)
            while outgoing is not None:
                response = yield outgoing
                self._note(response, is_call)
                try:
                    outgoing = await flow.asend(response)
                except StopAsyncIteration:
                    return

    def _place(self, url: httpx2.URL) -> httpx2.URL:
        """Where requests to an address end up."""
        for _ in range(MOST_MOVES):
            url = self._moved.get(url, url)
        return url

    def _note(self, response: httpx2.Response, is_call: bool) -> None:
        """Have no call be redirected, and remember where others are."""
        if is_call:
            response.next_request = None
        elif response.next_request is not None:
            self._leading[response.next_request] = response.request.url
