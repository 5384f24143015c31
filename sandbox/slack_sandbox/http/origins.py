"""Whose requests the sandbox takes: those of its own page, and of programs on this machine.

Another website's page, open in the same browser, could otherwise act as any person. It is
recognised by the Origin that browsers send, and by the Host if a name of its own leads here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from aiohttp import web

from slack_sandbox.http.bodies import refusal

OWN_PATH_PREFIXES = ("/sandbox/", "/page/")
LOCAL_HOSTS = {"127.0.0.1", "localhost", "::1"}
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@web.middleware
async def own_page_only(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer with 403 if a request for the page or its interface comes from another site."""
    if request.path == "/" or request.path.startswith(OWN_PATH_PREFIXES):
        host, origin = request.headers.get("Host", ""), request.headers.get("Origin")
        if urlsplit(f"//{host}").hostname not in LOCAL_HOSTS:
            raise refusal(web.HTTPForbidden, "the sandbox answers at 127.0.0.1 or localhost only")
        if origin is not None and urlsplit(origin)[:2] != (request.scheme, host):
            raise refusal(web.HTTPForbidden, "another site's page may not act here")
    return await handler(request)
