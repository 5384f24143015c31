"""The JSON bodies of the API for programs: requests, how they stand, and problems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

from countersign.request import RequestStatus
from storage.states import CallStatus

if TYPE_CHECKING:
    from bot.runs.program_calls import ProgramRequestStatus


PROBLEM_TYPE_PREFIX = "urn:countersign:problem:"  # a heading of docs/programs.md follows
DEFAULT_PROBLEM_TYPE = "about:blank"
PROBLEM_MEDIA_TYPE = "application/problem+json"  # RFC 9457
NO_STORE_HEADERS = {"Cache-Control": "no-store"}
SLACK_RETRY_AFTER_SECONDS = 10


class FieldError(BaseModel):
    """What is wrong with one field."""

    field: str = Field(examples=["arguments.amount"])
    message: str = Field(examples=["Input should be greater than 0"])


class Problem(BaseModel):
    """Why a request failed: `status` tells a program, `detail` tells a person."""

    model_config = ConfigDict(title="Problem")

    type: str = Field(
        description="What kind of problem it is: urn:countersign:problem:…, or about:blank."
    )
    title: str
    status: int = Field(examples=[403])
    detail: str = Field(description="A sentence for a person.")
    errors: list[FieldError] = Field(
        default=[], description="Where in the body, if the body is refused."
    )


class ProblemError(Exception):
    """Raised to answer an API request with a `Problem` body."""

    def __init__(
        self,
        status: HTTPStatus,
        detail: str,
        *,
        topic: str = "",
        errors: Sequence[FieldError] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """`detail` is a sentence; `topic` names a heading of docs/programs.md."""
        super().__init__(detail)
        self.status = status
        self.problem = Problem(
            type=f"{PROBLEM_TYPE_PREFIX}{topic}" if topic else DEFAULT_PROBLEM_TYPE,
            title=status.phrase,
            status=status.value,
            detail=detail,
            errors=list(errors),
        )
        self.headers = {**NO_STORE_HEADERS, **(headers or {})}

    def build_response(self) -> JSONResponse:
        """Return the problem as a JSON response."""
        unset = {"errors"} if not self.problem.errors else set()
        body: dict[str, Any] = self.problem.model_dump(exclude=unset)
        return JSONResponse(body, self.status, self.headers, media_type=PROBLEM_MEDIA_TYPE)


def build_field_problem(field: str, message: str) -> ProblemError:
    """Return the 422 problem that one field of the body is wrong."""
    return build_validation_problem([FieldError(field=field, message=message)])


def build_validation_problem(errors: Sequence[FieldError]) -> ProblemError:
    """Return the 422 problem that lists these errors of a request's body."""
    first = errors[0]
    detail = f"{first.field}: {first.message}"
    return ProblemError(
        HTTPStatus.UNPROCESSABLE_ENTITY, detail, topic="what-a-request-says", errors=errors
    )


def build_retry_later_problem(
    status: HTTPStatus, detail: str, seconds: int, topic: str = ""
) -> ProblemError:
    """Return a problem after which the request may be sent again in so many seconds."""
    return ProblemError(status, detail, topic=topic, headers={"Retry-After": str(max(1, seconds))})


def build_slack_unavailable_problem(error: Exception) -> ProblemError:
    """Return the 503 problem that somebody or a channel could not be looked up in Slack."""
    why = f"Slack could not be asked ({error})."
    return build_retry_later_problem(HTTPStatus.SERVICE_UNAVAILABLE, why, SLACK_RETRY_AFTER_SECONDS)


TOOL_NAME_PATTERN = "^[A-Za-z0-9_]{1,64}$"
VISIBLE_ASCII_PATTERN = "^[!-~]+$"
PAGE_PATTERN = "^[A-Za-z0-9_-]{0,64}$"
MESSAGE_BY_PATTERN = {  # instead of Pydantic's, which shows the pattern
    TOOL_NAME_PATTERN: "Use letters, digits and underscores, 64 characters at most.",
    VISIBLE_ASCII_PATTERN: "Use visible ASCII characters, without blanks.",
    PAGE_PATTERN: "Use the `next` of the page before.",
}

JsonObject = dict[str, Any]


Line = Annotated[str, Field(max_length=200)]
Words = Annotated[str, Field(max_length=3_000)]
MAX_DEADLINE_SECONDS = 30 * 24 * 3600


class _StrictBody(BaseModel):
    """Base of all request bodies: refuses unknown fields, and converts no types."""

    model_config = ConfigDict(extra="forbid", strict=True)


class _AskBody(_StrictBody):
    """The fields that calls and questions have in common."""

    requester: Line = Field(
        "",
        description="In whose name, as U… or @handle; default: the person responsible for the key.",
        examples=[""],  # only the installation knows which people exist
    )
    channel: Line = Field(
        "",
        description="Where, as C… or #name; default: the requester's direct messages.",
        examples=[""],
    )
    while_open: bool = Field(
        False,
        description="The Idempotency-Key identifies this request until it has ended; after that"
        " it starts a new request.",
    )


class _CallAskBody(_AskBody):
    """The fields that a tool's call and a handed-over call have in common."""

    reason: Words = Field("", description="Why, for the approver.", examples=["Friday's release"])
    deadline_seconds: int | None = Field(
        None,
        ge=1,
        le=MAX_DEADLINE_SECONDS,
        description="How long people have, unless the policy gives less; after that it is"
        " `expired`.",
    )


class ToolWanted(_CallAskBody):
    """A call of a tool that the bot has; the bot runs it once it is approved."""

    tool: Annotated[str, Field(min_length=1, max_length=64, examples=["refund_order"])]
    arguments: JsonObject = Field(
        default={}, examples=[{"order_id": 1042, "amount": "40.00", "reason": "damaged"}]
    )


class ActionSent(_StrictBody):
    """How a program describes what it will execute itself."""

    name: Annotated[
        str,
        Field(pattern=TOOL_NAME_PATTERN, description="The policy matches it like a tool's name."),
    ]
    title: Annotated[str, Field(min_length=1, max_length=80)]
    effect: Annotated[
        str,
        Field(
            min_length=1,
            max_length=300,
            description="What it does, in a sentence; {name} stands for an argument.",
        ),
    ]
    does: Literal["read", "write", "destructive"] | None = Field(
        None,
        description="If left out, it counts as destructive, and people see that it was not given.",
    )
    argument_schema: JsonObject | None = Field(
        None, alias="schema", description="JSON Schema of its arguments; default: any object."
    )


class ActionWanted(_CallAskBody):
    """A handed-over call: the program claims it once it is approved, and executes it itself."""

    action: ActionSent = Field(
        examples=[
            {
                "name": "deploy",
                "title": "Deploy",
                "effect": "Deploy {version} to {env}",
                "does": "write",
                "schema": {
                    "type": "object",
                    "properties": {"version": {"type": "string"}, "env": {"type": "string"}},
                    "required": ["version", "env"],
                    "additionalProperties": False,
                },
            }
        ]
    )
    arguments: JsonObject = Field(default={}, examples=[{"version": "1.4.2", "env": "prod"}])


def _get_body_kind(sent: Any) -> str:
    return "action" if isinstance(sent, dict) and "action" in sent else "tool"


RequestWanted = Annotated[
    Annotated[ToolWanted, Tag("tool")] | Annotated[ActionWanted, Tag("action")],
    Discriminator(_get_body_kind),
]


class QuestionWanted(_AskBody):
    """A question to a person; its answer is the result, and approves nothing."""

    question: JsonObject = Field(
        description="The arguments of the tool ask_person.",
        examples=[{"question": "Which of the two orders?", "why": "Both are open."}],
    )


Claimant = Annotated[
    str,
    Field(
        min_length=16,
        max_length=200,
        pattern=VISIBLE_ASCII_PATTERN,
        description="A random text, a new one for each attempt to run it.",
        examples=["6f1c0f0e6d7b4e0e9f7c1a2b3c4d5e6f"],
    ),
]


class ClaimSent(_StrictBody):
    """The body of a claim: who executes the call, and how long the claim holds."""

    claimant: Claimant
    lease_seconds: int | None = Field(
        None,
        ge=30,
        le=3_600,
        description="Seconds without a sign of life before people are asked; default: 300.",
    )


class OutcomeSent(_StrictBody):
    """The body of a report on how a claimed call went."""

    claimant: Claimant
    succeeded: bool | None = Field(
        description="null: it was handed on, and its outcome is not known here.", examples=[True]
    )
    result: Any = Field(None, description="Any JSON of 100 kB at most; people see it.")


class RequestShown(BaseModel):
    """A request and its current state."""

    model_config = ConfigDict(title="Request")

    id: str
    status: RequestStatus
    tool: str = Field(description="The tool, or the action's name.")
    title: str
    effect: str = Field(description="What it does, in a sentence, with the arguments as they are.")
    arguments: JsonObject = Field(description="As they are now: people may have edited them.")
    revision: int
    digest: str = Field(description="The fingerprint of exactly what would run.")
    reason: str
    requester: str
    channel: str
    link: str = Field(description='Link to its message in Slack; "" until it is posted.')
    created_at: datetime
    deadline: datetime | None
    starts_at: datetime | None = Field(
        description="When it starts, if it is approved for a later time; else null."
    )
    handed_over: bool = Field(description="Whether the program is to claim and execute it.")
    decided_by: list[str]
    break_glass: str = Field(description="Why `decided_by` ran it without approval; else empty.")
    edited_by: list[str]
    result: Any = Field(description="Text or JSON; null until it has ended.")
    note: str = Field(description="Why it was refused, rejected, …")


class RequestsShown(BaseModel):
    """Some of a key's own requests, the newest first."""

    model_config = ConfigDict(title="Requests")

    requests: list[RequestShown]
    next: str | None = Field(description="The `after` of the next page; null: no more.")


class ReceiptsShown(BaseModel):
    """Signed statements of what was decided about a call, and of how it ended.

    docs/receipts.md says what is in them. Each is a DSSE envelope around an in-toto Statement v1,
    signed with a key of `/v1/receipt-keys`.
    """

    model_config = ConfigDict(title="Receipts")

    decision: JsonObject
    end: JsonObject | None = Field(description="null before it has ended.")


class PublicKeysShown(BaseModel):
    """The public keys that receipts are signed with, the one in use first: a JSON Web Key Set."""

    model_config = ConfigDict(title="PublicKeys")

    keys: list[dict[str, str]]


class ClaimedShown(BaseModel):
    """The approved call that a claimant is to execute, exactly as it is here."""

    model_config = ConfigDict(title="Claimed")

    arguments: JsonObject
    revision: int
    digest: str
    lease_seconds: int = Field(
        description="Report within it, or claim again with the same claimant to continue."
    )
    receipt: JsonObject = Field(description="The signed decision: see docs/receipts.md.")


def build_request_shown(request: ProgramRequestStatus) -> RequestShown:
    """Return the API body of a request with its status, filled from fields of the same names."""
    is_entrusted = request.status == CallStatus.ENTRUSTED
    told = {field.name: getattr(request, field.name) for field in fields(request)}
    told["status"] = CallStatus.RUNNING if is_entrusted else request.status
    told["arguments"] = request.arguments or {}
    return RequestShown.model_validate(told)


def should_program_keep_waiting(request: RequestShown) -> bool:
    """Return whether the request's status gives a waiting program nothing to do yet.

    A handed-over call that is approved waits for the program; any other runs by itself.
    """
    if request.status is RequestStatus.APPROVED:
        return not request.handed_over
    return request.status in (RequestStatus.PREPARING, RequestStatus.PENDING, RequestStatus.RUNNING)
