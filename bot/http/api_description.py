"""How the API describes itself: OpenAPI 3.1, with every problem that a path may answer."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Request, Security
from fastapi.security import HTTPBearer

from bot import __version__
from bot.http.api_bodies import KIND, Problem
from storage.client_keys import ClientKey

REF = "#/components/schemas/{model}"
ABOUT = (
    "Programs put calls before people, wait for what they decide, and execute what they approved. "
    "A key asks, and never approves."
)
KEY = "key"  # where in a request's state its key stands
_BEARER = HTTPBearer(
    scheme_name="key",
    description="A key of `countersign key new`: csk_…",
    auto_error=False,  # the gate has looked at it
)


async def _asking_key(request: Request, _bearer: Annotated[Any, Security(_BEARER)]) -> ClientKey:
    """The key that the gate has found; the scheme is named for the description."""
    found: ClientKey = request.scope["state"][KEY]
    return found


Key = Annotated[ClientKey, Depends(_asking_key)]


def told(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The problems that a path may answer with, for its description."""
    found: dict[int | str, dict[str, Any]] = {}
    for status in (400, *statuses, 500):
        schema = {"$ref": REF.format(model=Problem.__name__)}
        found[status] = {
            "description": HTTPStatus(status).phrase,
            "content": {KIND: {"schema": schema}},
        }
    return found


class DescribedApi(FastAPI):
    """FastAPI without pages for a browser; its description holds what problems look like."""

    def __init__(self) -> None:
        """No path is there yet."""
        super().__init__(
            title="Countersign",
            version=__version__,
            description=ABOUT,
            docs_url=None,  # its pages would come from somebody else's server
            redoc_url=None,
            redirect_slashes=False,
        )

    def openapi(self) -> dict[str, Any]:
        """The description; the same each time."""
        found = super().openapi()
        if Problem.__name__ not in found["components"]["schemas"]:
            made = Problem.model_json_schema(ref_template=REF)
            found["components"]["schemas"] |= made.pop("$defs", {})
            found["components"]["schemas"][Problem.__name__] = made
        return found
