"""Strict models of a Responses API request, and the errors for a request that does not fit.

Each model is checked by itself here; `responses_checks` checks what must fit together.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

JSON_NAMES = {
    dict: "an object",
    list: "an array",
    str: "a string",
    bool: "a boolean",
    int: "an integer",
}

Text64 = Annotated[str, Field(min_length=1, max_length=64)]
Status = Literal["in_progress", "completed", "incomplete"]
Include = Literal[
    "file_search_call.results",
    "web_search_call.results",
    "web_search_call.action.sources",
    "message.input_image.image_url",
    "computer_call_output.output.image_url",
    "code_interpreter_call.outputs",
    "reasoning.encrypted_content",
    "message.output_text.logprobs",
]


class RequestRefusal(Exception):
    """Raised to answer a request with an error: an HTTP status and OpenAI's error body."""

    def __init__(
        self, message: str, param: str | None = None, code: str | None = None, status: int = 400
    ):
        super().__init__(message)
        self.message, self.param, self.code, self.status = message, param, code, status

    def build_error_body(self) -> dict[str, Any]:
        """Return the JSON error body."""
        error = {
            "message": self.message,
            "type": "invalid_request_error",
            "param": self.param,
            "code": self.code,
        }
        return {"error": error}


class StrictModel(BaseModel):
    """A JSON object without unknown members and without coercion."""

    model_config = ConfigDict(extra="forbid", strict=True)


class ReasoningOptions(StrictModel):
    """The `reasoning` parameter."""

    effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    summary: Literal["auto", "concise", "detailed"] | None = None
    generate_summary: Literal["auto", "concise", "detailed"] | None = None
    context: Literal["auto", "current_turn", "all_turns"] | None = None


class TextConfig(StrictModel):
    """The `text` parameter."""

    format: dict[str, Any] = {}
    verbosity: Literal["low", "medium", "high"] | None = None


class StreamOptions(StrictModel):
    """The `stream_options` parameter."""

    include_obfuscation: bool = True


class ResponsesRequestBody(StrictModel):
    """All parameters the stand-in knows."""

    model: str
    input: Any = None
    instructions: str | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: Any = "auto"
    parallel_tool_calls: bool | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    store: bool | None = None
    include: list[Include] | None = None
    reasoning: ReasoningOptions | None = None
    text: TextConfig | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    max_output_tokens: Annotated[int, Field(ge=16)] | None = None
    max_tool_calls: Annotated[int, Field(ge=1)] | None = None
    metadata: dict[str, Annotated[str, Field(max_length=512)]] | None = None
    user: str | None = None
    safety_identifier: Annotated[str, Field(max_length=64)] | None = None
    prompt_cache_key: Annotated[str, Field(max_length=64)] | None = None
    prompt_cache_retention: Literal["in_memory", "24h"] | None = None
    service_tier: Literal["auto", "default", "flex", "scale", "priority"] | None = None
    truncation: Literal["auto", "disabled"] | None = None
    previous_response_id: str | None = None


class CompactRequestBody(StrictModel):
    """The parameters of a compaction request."""

    model: str
    input: Any = None
    instructions: str | None = None
    previous_response_id: str | None = None
    prompt_cache_key: Annotated[str, Field(max_length=64)] | None = None


class FunctionToolParam(StrictModel):
    """One function tool."""

    type: Literal["function"]
    name: Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]+$", min_length=1, max_length=64)]
    parameters: dict[str, Any] | None
    strict: bool | None = None
    description: str | None = None


class MessageItem(StrictModel):
    """A message item of any role."""

    type: Literal["message"] = "message"
    role: Literal["user", "assistant", "system", "developer"]
    content: Any
    id: Annotated[str, Field(pattern="^msg")] = "msg"
    status: Status = "completed"
    phase: Literal["commentary", "final_answer"] | None = None


class FunctionCallItem(StrictModel):
    """A function call that is sent back."""

    type: Literal["function_call"]
    name: Text64
    arguments: str
    call_id: Text64
    id: Annotated[str, Field(pattern="^fc")] = "fc"
    status: Status = "completed"


class FunctionCallOutputItem(StrictModel):
    """The output of a function call."""

    type: Literal["function_call_output"]
    call_id: Text64
    output: Any
    id: Annotated[str, Field(pattern="^fc")] | None = None
    status: Status | None = None


class ReasoningSummaryPart(StrictModel):
    """A part of a reasoning summary."""

    type: Literal["summary_text"]
    text: str


class ReasoningItem(StrictModel):
    """A reasoning item that is sent back."""

    type: Literal["reasoning"]
    id: Annotated[str, Field(pattern="^rs")]
    summary: list[ReasoningSummaryPart]
    content: list[dict[str, Any]] = []
    encrypted_content: str | None = None
    status: Status = "completed"


class CompactionItem(StrictModel):
    """The item that replaces earlier items."""

    type: Literal["compaction"]
    encrypted_content: Annotated[str, Field(min_length=1)]
    id: Annotated[str, Field(pattern="^cmp")] | None = None


class TextPart(StrictModel):
    """One part of a content list."""

    type: str
    text: str
    annotations: list[dict[str, Any]] = []
    logprobs: list[dict[str, Any]] = []


class ImagePart(StrictModel):
    """A picture in a content list."""

    type: Literal["input_image"]
    image_url: str
    detail: Literal["low", "high", "auto", "original"]


class FilePart(StrictModel):
    """A file in a content list."""

    type: Literal["input_file"]
    filename: Annotated[str, Field(min_length=1)]
    file_data: str
    detail: Literal["low", "high", "auto"] = "auto"


S = TypeVar("S", bound=StrictModel)
ITEMS: dict[str, type[StrictModel]] = {
    "message": MessageItem,
    "function_call": FunctionCallItem,
    "function_call_output": FunctionCallOutputItem,
    "reasoning": ReasoningItem,
    "compaction": CompactionItem,
}


def parse_strict_model(model: type[S], value: Any, path: str) -> S:
    """Return the value as this model, or raise a RequestRefusal naming the place under `path`."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise _build_validation_refusal(error.errors()[0], path) from None


def _build_validation_refusal(error: Any, path: str) -> RequestRefusal:
    where = path
    for step in error["loc"]:
        where += f"[{step}]" if isinstance(step, int) else f"{'.' if where else ''}{step}"
    kind, given = error["type"], error["input"]
    if kind == "extra_forbidden":
        return RequestRefusal(f"Unknown parameter: '{where}'.", where, "unknown_parameter")
    if kind == "missing":
        return RequestRefusal(
            f"Missing required parameter: '{where}'.", where, "missing_required_parameter"
        )
    if kind == "literal_error":
        return build_bad_value_refusal(given, where, [error["ctx"]["expected"]])
    if kind.endswith(("_type", "_parsing")):
        name = "null" if given is None else JSON_NAMES.get(type(given), "a number")
        return RequestRefusal(
            f"Invalid type for '{where}': {error['msg']}, but got {name} instead.",
            where,
            "invalid_type",
        )
    return RequestRefusal(f"Invalid '{where}': {error['msg']}.", where, "invalid_value")


# Checks that pictures and files are complete and of the type that they declare.

_BEGINS = {
    "image/png": rb"\x89PNG\r\n\x1a\n",
    "image/jpeg": rb"\xff\xd8\xff",
    "image/gif": rb"GIF8[79]a",
    "image/webp": rb"RIFF....WEBP",
    "application/pdf": rb"%PDF-",
}
_PDF = "application/pdf"
_DATA = re.compile(r"data:([a-z]+/[a-z]+);base64,([A-Za-z0-9+/]+={0,2})")


def is_valid_data_url(url: str, *, pictures: bool) -> bool:
    """Whether a data URL holds a picture (`pictures`) or a PDF of the type that it declares."""
    found = _DATA.fullmatch(url)
    if found is None or found[1] not in _BEGINS or (found[1] == _PDF) is pictures:
        return False
    try:
        data = base64.b64decode(found[2], validate=True)
    except binascii.Error:
        return False
    return re.match(_BEGINS[found[1]], data, re.DOTALL) is not None


def list_part_types(items: Any) -> set[str]:
    """Return the types of all parts in the content lists of a checked input."""
    contents = [each.get("content") for each in items] if isinstance(items, list) else []
    return {part["type"] for content in contents if isinstance(content, list) for part in content}


def build_bad_value_refusal(given: Any, path: str, allowed: list[str]) -> RequestRefusal:
    """Return the refusal of a value that is not one of `allowed`."""
    return RequestRefusal(
        f"Invalid value: '{given}'. Supported values are: {', '.join(allowed)}.",
        path,
        "invalid_value",
    )
