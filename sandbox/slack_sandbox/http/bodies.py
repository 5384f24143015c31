"""The bodies of the interface's requests, read and checked, and of its refusals."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from aiohttp import web

from slack_sandbox.http.fields import Fields, read
from slack_sandbox.spec.slack_error import Json


def refusal(error: type[web.HTTPException], message: str) -> web.HTTPException:
    """Return an error to raise, with the body {"ok": false, "message": …}."""
    return error(
        text=json.dumps({"ok": False, "message": message}), content_type="application/json"
    )


async def body_of(request: web.Request, fields: Fields | Callable[[Any], Json]) -> Json:
    """Return a POST's body, checked by a table of fields or a function; ValueError becomes 400."""
    try:
        body = await request.json()
        return fields(body) if callable(fields) else read(body, fields)
    except ValueError as error:
        raise refusal(web.HTTPBadRequest, str(error)) from None
