"""What went wrong, told to a program as application/problem+json (RFC 9457)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

KINDS = "urn:countersign:problem:"  # what follows is a heading of docs/programs.md
BLANK = "about:blank"
KIND = "application/problem+json"
NEVER_KEPT = {"Cache-Control": "no-store"}


class FieldError(BaseModel):
    """What is wrong with one field."""

    field: str = Field(examples=["arguments.amount"])
    message: str = Field(examples=["Input should be greater than 0"])


class Problem(BaseModel):
    """Why nothing was done, for a program by `status`, for a person by `detail`."""

    model_config = ConfigDict(title="Problem")

    type: str = Field(
        description="What kind of problem it is: urn:countersign:problem:…, or about:blank."
    )
    title: str
    status: int = Field(examples=[403])
    detail: str = Field(description="A sentence for a person.")
    errors: list[FieldError] = Field(default=[], description="Of a body that is not taken: where.")


class ProblemError(Exception):
    """This request is answered with a problem."""

    def __init__(
        self,
        status: HTTPStatus,
        detail: str,
        *,
        about: str = "",
        errors: Sequence[FieldError] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """`detail` is a sentence; `about` names a heading of the page on programs."""
        super().__init__(detail)
        self.status = status
        self.problem = Problem(
            type=f"{KINDS}{about}" if about else BLANK,
            title=status.phrase,
            status=status.value,
            detail=detail,
            errors=list(errors),
        )
        self.headers = {**NEVER_KEPT, **(headers or {})}

    def answer(self) -> JSONResponse:
        """The problem as a response."""
        unset = {"errors"} if not self.problem.errors else set()
        body: dict[str, Any] = self.problem.model_dump(exclude=unset)
        return JSONResponse(body, self.status, self.headers, media_type=KIND)


def not_taken(field: str, message: str) -> ProblemError:
    """One field of the body is wrong."""
    error = FieldError(field=field, message=message)
    return invalid([error])


def invalid(errors: Sequence[FieldError]) -> ProblemError:
    """The body is not what this takes."""
    first = errors[0]
    detail = f"{first.field}: {first.message}"
    return ProblemError(
        HTTPStatus.UNPROCESSABLE_ENTITY, detail, about="what-a-request-says", errors=errors
    )


def later(status: HTTPStatus, detail: str, seconds: int, about: str = "") -> ProblemError:
    """The same may be asked again in so many seconds."""
    return ProblemError(status, detail, about=about, headers={"Retry-After": str(max(1, seconds))})
