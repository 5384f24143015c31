"""Checks Chat Completions requests for the strict stand-in for the model.

Request bodies are only read. What is refused here, OpenAI's own server refuses.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from bot.demo.model_server import convert_chat_media_part
from tests.model_stand_in import responses_checks, responses_schema
from tests.model_stand_in.answers import REASONING_MODEL

# The shapes of a Chat Completions request as strict models.

Name = Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]+$", min_length=1, max_length=64)]
CallId = Annotated[str, Field(min_length=1, max_length=40)]


class ChatStreamOptions(responses_schema.StrictModel):
    """The `stream_options` parameter."""

    include_usage: bool = False
    include_obfuscation: bool = True


class ChatRequestBody(responses_schema.StrictModel):
    """All parameters the stand-in knows."""

    model: str
    messages: Annotated[list[Any], Field(min_length=1)]
    tools: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=128)] | None = None
    tool_choice: Any = None
    parallel_tool_calls: bool | None = None
    stream: bool | None = None
    stream_options: ChatStreamOptions | None = None
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"] | None = None
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    n: Literal[1] | None = None
    store: bool | None = None
    metadata: dict[str, str] | None = None
    user: str | None = None
    safety_identifier: Annotated[str, Field(max_length=64)] | None = None
    prompt_cache_key: Annotated[str, Field(max_length=64)] | None = None
    service_tier: Literal["auto", "default", "flex", "scale", "priority"] | None = None


class ChatTool(responses_schema.StrictModel):
    """One function tool; its function is checked as one of the Responses API."""

    type: Literal["function"]
    function: dict[str, Any]


class ChatTextPart(responses_schema.StrictModel):
    """A text in a content list."""

    type: Literal["text"]
    text: str


class ChatImageUrl(responses_schema.StrictModel):
    """The address of a picture."""

    url: str
    detail: Literal["low", "high", "auto", "original"] = "auto"


class ChatImagePart(responses_schema.StrictModel):
    """A picture as a part."""

    type: Literal["image_url"]
    image_url: ChatImageUrl


class ChatFileData(responses_schema.StrictModel):
    """A file with its name."""

    filename: Annotated[str, Field(min_length=1)]
    file_data: str


class ChatFilePart(responses_schema.StrictModel):
    """A file as a part."""

    type: Literal["file"]
    file: ChatFileData


Content = str | Annotated[list[ChatTextPart], Field(min_length=1)]
Parts = Annotated[ChatTextPart | ChatImagePart | ChatFilePart, Field(discriminator="type")]


class ChatSystemMessage(responses_schema.StrictModel):
    """A message of the system or of a developer."""

    role: Literal["system", "developer"]
    content: Content
    name: str | None = None


class ChatUserMessage(responses_schema.StrictModel):
    """A message of a user."""

    role: Literal["user"]
    content: str | Annotated[list[Parts], Field(min_length=1)]
    name: str | None = None


class ChatCalledFunction(responses_schema.StrictModel):
    """The function that a call names."""

    name: Name
    arguments: str


class ChatToolCall(responses_schema.StrictModel):
    """A call of an assistant's message."""

    id: CallId
    type: Literal["function"]
    function: ChatCalledFunction


class ChatAssistantMessage(responses_schema.StrictModel):
    """A message of the model."""

    role: Literal["assistant"]
    content: Content | None = None
    refusal: str | None = None
    tool_calls: Annotated[list[ChatToolCall], Field(min_length=1)] | None = None
    name: str | None = None


class ChatToolMessage(responses_schema.StrictModel):
    """The output of a call."""

    role: Literal["tool"]
    content: Content
    tool_call_id: CallId


MESSAGES: dict[str, type[responses_schema.StrictModel]] = {
    **dict.fromkeys(("system", "developer"), ChatSystemMessage),
    "user": ChatUserMessage,
    "assistant": ChatAssistantMessage,
    "tool": ChatToolMessage,
}


def check_chat_request(body: Any) -> None:
    """Raise RequestRefusal unless Chat Completions would accept this request body."""
    if not isinstance(body, dict):
        raise responses_schema.RequestRefusal(
            "We could not parse the JSON body of your request: expected an object."
        )
    parsed = responses_schema.parse_strict_model(ChatRequestBody, body, "")
    _check_model(parsed)
    for index, each in enumerate(parsed.tools or []):
        function = responses_schema.parse_strict_model(ChatTool, each, f"tools[{index}]").function
        flat = {"parameters": None, **function, "type": "function"}
        responses_checks.check_tool(flat, f"tools[{index}].function")
    _check_tool_choice(parsed)
    for index, message in enumerate(parsed.messages):
        path = f"messages[{index}]"
        if not isinstance(message, dict):
            raise responses_schema.RequestRefusal(
                f"Invalid type for '{path}': expected an object.", path, "invalid_type"
            )
        if message.get("role") not in MESSAGES:
            raise responses_schema.build_bad_value_refusal(
                message.get("role"), f"{path}.role", list(MESSAGES)
            )
        responses_schema.parse_strict_model(MESSAGES[message["role"]], message, path)
        if message["role"] == "user" and isinstance(message["content"], list):
            _check_media_parts(message["content"], f"{path}.content")
        if message["role"] == "assistant" and not (
            message.get("content") or _get_tool_calls(message)
        ):
            text = f"Invalid value for '{path}.content': expected a string, got null."
            raise responses_schema.RequestRefusal(text, f"{path}.content", "invalid_type")
    _check_call_output_pairs(parsed.messages)


def _check_media_parts(parts: list[dict[str, Any]], path: str) -> None:
    for index, part in enumerate(parts):
        if part["type"] != "text":
            responses_checks.check_media_part(convert_chat_media_part(part), f"{path}[{index}]")


def _get_tool_calls(message: dict[str, Any]) -> list[dict[str, Any]]:
    return message.get("tool_calls") or []


def _check_model(body: ChatRequestBody) -> None:
    if not responses_checks.MODEL.match(body.model):
        text = f"The model `{body.model}` does not exist or you do not have access to it."
        raise responses_schema.RequestRefusal(text, None, "model_not_found", 404)
    if body.stream_options and not body.stream:
        text = "The 'stream_options' parameter is only allowed when 'stream' is enabled."
        raise responses_schema.RequestRefusal(text, "stream_options")
    reasons = bool(REASONING_MODEL.match(body.model))
    thinks = reasons and body.reasoning_effort != "none"
    responses_checks.refuse_unfit_parameters(
        ("temperature", thinks and body.temperature is not None),
        ("top_p", thinks and body.top_p is not None),
        ("max_tokens", reasons and body.max_tokens is not None),
        ("reasoning_effort", not reasons and body.reasoning_effort is not None),
    )


def _check_tool_choice(body: ChatRequestBody) -> None:
    names = [each["function"]["name"] for each in body.tools or []]
    choice = body.tool_choice
    for name in ("tool_choice", "parallel_tool_calls"):
        if getattr(body, name) is not None and not names:
            raise responses_schema.RequestRefusal(
                f"'{name}' is only allowed when 'tools' are specified.", name
            )
    if isinstance(choice, dict) and choice.get("type") == "function":
        named = (choice.get("function") or {}).get("name")
        if named not in names:
            text = f"Tool choice '{named}' not found in 'tools' parameter."
            raise responses_schema.RequestRefusal(text, "tool_choice")
    elif choice not in (None, "auto", "none", "required"):
        raise responses_schema.build_bad_value_refusal(
            choice, "tool_choice", ["none", "auto", "required"]
        )


def _check_call_output_pairs(messages: list[dict[str, Any]]) -> None:
    """Refuse calls that are not directly followed by their outputs, and outputs of no call."""
    waiting: list[str] = []
    for index, message in enumerate(messages):
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                what = "messages with role 'tool' must be a response to a preceeding message"
                text = f"Invalid parameter: {what} with 'tool_calls'."
                raise responses_schema.RequestRefusal(text, f"messages[{index}].role")
            waiting.remove(message["tool_call_id"])
            continue
        _require_all_answered(waiting)
        waiting = [each["id"] for each in _get_tool_calls(message)]
        if len(set(waiting)) < len(waiting):
            text = f"Duplicate value for 'tool_call_id' in messages[{index}]."
            raise responses_schema.RequestRefusal(text, "messages", "invalid_value")
    _require_all_answered(waiting)


def _require_all_answered(waiting: list[str]) -> None:
    if waiting:
        raise responses_schema.RequestRefusal(
            "An assistant message with 'tool_calls' must be followed by tool messages responding to"
            " each 'tool_call_id'. The following tool_call_ids did not have response messages: "
            + ", ".join(waiting),
            "messages",
        )
