"""The API, put together: an ASGI app that stands below /v1."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from anyio import CapacityLimiter
from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from bot.web.api.callers import Callers
from bot.web.api.described import DescribedApi
from bot.web.api.gate import Gate
from bot.web.api.hooks import Hooks
from bot.web.api.problems import FieldError, ProblemError, invalid, later
from bot.web.api.routes import Routes
from bot.web.api.waiting import WaitingPrograms
from storage.availability import passes

if TYPE_CHECKING:
    from bot.core import Core
    from bot.web.api.asking import Asker

KEYS = 4  # that are looked at at once
ASK_AGAIN = 1  # seconds, where the database could not


def make_api(core: Core, asking: Asker, is_stopping: Callable[[], bool]) -> ASGIApp:
    """Make the app; `is_stopping`: nothing new is asked, and nobody waits any more."""
    callers = Callers(core.store, core.clock, core.identity.team)
    waiting = WaitingPrograms(core.store, CapacityLimiter(1), is_stopping)
    api = DescribedApi()
    routes = Routes(asking, callers, waiting, is_stopping)
    api.include_router(routes.router())
    api.include_router(Hooks(routes, is_stopping).router())
    api.add_middleware(Gate, callers=callers, turns=CapacityLimiter(KEYS), is_stopping=is_stopping)
    api.add_exception_handler(ProblemError, _problem)
    api.add_exception_handler(RequestValidationError, _invalid)
    api.add_exception_handler(HTTPException, _refused)
    api.add_exception_handler(Exception, _broken)
    return api


async def _problem(_: Request, error: Exception) -> Response:
    assert isinstance(error, ProblemError)
    return error.answer()


async def _invalid(_: Request, error: Exception) -> Response:
    """What FastAPI says of a path, a header or a body that is not taken."""
    assert isinstance(error, RequestValidationError)
    found: list[dict[str, Any]] = list(error.errors())
    if any(each["loc"][0] == "path" for each in found):
        return ProblemError(HTTPStatus.NOT_FOUND, "This key has no such request.").answer()
    errors = [FieldError(field=_field(each["loc"]), message=each["msg"]) for each in found]
    return invalid(errors).answer()


def _field(loc: tuple[Any, ...]) -> str:
    """The field in a body, without the kind of body; else the header's or the parameter's name."""
    place, *rest = loc
    if place == "body" and rest and rest[0] in ("tool", "action") and len(rest) > 1:
        rest = rest[1:]
    return ".".join(map(str, rest)) or "body"


async def _refused(_: Request, error: Exception) -> Response:
    """A path that is not there, a method that it does not have."""
    assert isinstance(error, HTTPException)
    status = HTTPStatus(error.status_code)
    return ProblemError(status, f"{status.phrase}.", headers=error.headers).answer()


async def _broken(_: Request, error: Exception) -> Response:
    """A fault of ours, or the database's; the server's log has it."""
    if passes(error):
        sentence = "The record cannot be read or written just now; say the same again."
        return later(HTTPStatus.SERVICE_UNAVAILABLE, sentence, ASK_AGAIN).answer()
    sentence = "Something went wrong here; nothing is known of what came of it."
    return ProblemError(HTTPStatus.INTERNAL_SERVER_ERROR, sentence).answer()
