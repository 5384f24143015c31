"""Where coding agents ask before they use a tool: Claude Code's hooks, over HTTP.

It decides nothing: it asks as any program does. What goes wrong here is told as a problem, of which
`hook_answers` makes a no.
"""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from anyio import CancelScope
from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import ValidationError
from starlette.datastructures import QueryParams

from bot.web.api.bodies import ActionWanted, ClaimSent, OutcomeSent, RequestShown, ShownStatus
from bot.web.api.claude_code import (
    ASKING,
    ToolUse,
    allowed,
    denied,
    read_use,
    why_not,
)
from bot.web.api.described import Key
from bot.web.api.hook_answers import BROKEN, LATE, WAIT, prefers_later
from bot.web.api.problems import ProblemError, not_taken
from countersign.durations import seconds

if TYPE_CHECKING:
    from bot.web.api.routes import Routes
    from storage.client_keys import ClientKey

log = logging.getLogger("countersign.api")
KEPT = 15  # seconds between two signs of life on a line that waits
QUIET = 900  # seconds that a tool may take before people are asked how it ended
ASKED = (ShownStatus.PREPARING, ShownStatus.PENDING)
OPEN = (*ASKED, ShownStatus.APPROVED)
MAY = (ShownStatus.APPROVED, ShownStatus.RUNNING)
NOT_HEARD = "Claude Code does not say how it went."
STOPPED = "Countersign was stopped while people decided; ask again in a minute."
_WAIT = re.compile(r"wait=(\d{1,4})", re.ASCII)


@dataclass(frozen=True, slots=True)
class HookTerms:
    """How it is asked, as the hook's address says."""

    wait: int  # seconds that people have
    does: str  # "" where it is not said
    requester: str
    channel: str


class Hooks:
    """The endpoint; on the server's loop."""

    def __init__(self, routes: Routes, is_stopping: Callable[[], bool]) -> None:
        """`routes` ask, wait, claim and report as for any program."""
        self._routes = routes
        self._is_stopping = is_stopping

    def router(self) -> APIRouter:
        """Return it. Its format is Claude Code's, and stands not in the API's description."""
        router = APIRouter(include_in_schema=False)
        router.add_api_route("/hooks/claude-code", self.claude_code, methods=["POST"])
        return router

    async def claude_code(self, key: Key, request: Request) -> Response:
        """Answer what Claude Code says before or after it uses a tool.

        Before: once people have decided; who prefers to ask again (`Prefer: respond-async`) is
        answered 202 while they have not. After: nothing, and how it went is written down.
        """
        try:
            use = read_use(await request.json())
        except ValueError as error:
            raise not_taken("body", str(error)) from None
        terms = terms_of(request.query_params)
        if use.event not in ASKING:
            return JSONResponse(await self._report(key, use))
        if prefers_later(request.headers):
            return await self._for_now(key, use, terms, request)
        return StreamingResponse(
            self._in_the_end(key, use, terms, request), media_type="application/json"
        )

    async def _for_now(
        self, key: ClientKey, use: ToolUse, terms: HookTerms, request: Request
    ) -> Response:
        """The answer if there is one soon, else 202; what is wrong is a problem."""
        said = _WAIT.search(request.headers["prefer"])
        found = await self._ask(key, use, terms)
        if found.status in ASKED and said:
            found = await self._routes.look(key, found.id, request, min(int(said[1]), 60))
        if found.status in ASKED:
            about = {"id": found.id, "link": found.link, "status": found.status}
            return JSONResponse(about, HTTPStatus.ACCEPTED)
        return JSONResponse(await self._decided(key, use, found))

    async def _in_the_end(
        self, key: ClientKey, use: ToolUse, terms: HookTerms, request: Request
    ) -> AsyncIterator[bytes]:
        """The answer, after blanks (they are JSON, too) that keep the line alive until then."""
        left_alone = ""  # a request that nobody waits for any more
        try:
            found = await self._ask(key, use, terms)
            until = time.monotonic() + terms.wait + LATE
            left_alone = _open(found)
            while found.status in ASKED and time.monotonic() < until and not self._is_stopping():
                yield b" "
                found = await self._routes.look(key, found.id, request, KEPT)
                left_alone = _open(found)
                if await request.is_disconnected():
                    return
            if self._is_stopping():
                answer = denied(STOPPED, use.event)
            else:
                if found.status in ASKED:
                    found = await self._withdrawn(key, found.id, request)
                answer = await self._decided(key, use, found)
                left_alone = ""
        except ProblemError as error:
            answer = denied(str(error), use.event)
        except Exception:
            log.exception("a hook could not be answered")
            answer = denied(BROKEN, use.event)
        finally:
            if left_alone:
                with CancelScope(shield=True), suppress(ProblemError):
                    await self._routes.cancel(key, left_alone)
        yield json.dumps(answer).encode()

    async def _ask(self, key: ClientKey, use: ToolUse, terms: HookTerms) -> RequestShown:
        """Put it before people; once, however often it is said. Raises ProblemError."""
        try:
            wanted = ActionWanted(
                action=use.action(terms.does),
                arguments=use.given,
                reason=use.reason,
                deadline_seconds=terms.wait,
                requester=terms.requester,
                channel=terms.channel,
            )
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            raise not_taken(".".join(map(str, first["loc"])), first["msg"]) from None
        return await self._routes.ask(key, wanted, Response(), use.key)

    async def _withdrawn(self, key: ClientKey, request_id: str, request: Request) -> RequestShown:
        """It, taken back; unless it was decided at that very moment."""
        try:
            return await self._routes.cancel(key, request_id)
        except ProblemError:
            return await self._routes.look(key, request_id, request, 0)

    async def _decided(self, key: ClientKey, use: ToolUse, found: RequestShown) -> dict[str, Any]:
        """What Claude Code is answered; with a yes the use is handed out to it."""
        if found.status not in MAY:
            return denied(why_not(found, taken_back=True), use.event)
        who = use.claimant(key.id)
        claimed = await self._routes.claim(
            key, found.id, ClaimSent(claimant=who, lease_seconds=QUIET)
        )
        if not use.is_heard_of:
            outcome = OutcomeSent(claimant=who, succeeded=None, result=NOT_HEARD)
            await self._routes.report(key, found.id, outcome)
        return allowed(use, found, claimed.arguments)

    async def _report(self, key: ClientKey, use: ToolUse) -> dict[str, Any]:
        """Write down how a use went that was asked about; return the answer, which says nothing."""
        request_id = await self._routes.asked_with(key, use.key)
        if request_id is None:
            return {}
        succeeded, how = use.outcome()
        outcome = OutcomeSent(claimant=use.claimant(key.id), succeeded=succeeded, result=how)
        try:
            await self._routes.report(key, request_id, outcome)
        except ProblemError as error:
            log.warning("request %s: Claude Code says “%s”, but: %s", request_id, how, error)
        return {}


def _open(found: RequestShown) -> str:
    """Its id where it would still be done; else ""."""
    return found.id if found.status in OPEN else ""


def terms_of(said: QueryParams) -> HookTerms:
    """Read how it is asked from what stands in the hook's address; raises ProblemError."""
    for name in said:
        if name not in ("wait", "does", "requester", "channel"):
            raise not_taken(name, "The address of a hook takes no such thing.")
    wait = seconds(said.get("wait", WAIT))
    if not wait:
        raise not_taken("wait", "It is no duration: 90s, 30m, 4h, 2d.")
    texts = (said.get("does", ""), said.get("requester", ""), said.get("channel", ""))
    return HookTerms(wait, *texts)
