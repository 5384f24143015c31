"""The shapes of a Chat Completions request as strict models."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from bot.demo.model.schema import Strict

Name = Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]+$", min_length=1, max_length=64)]
CallId = Annotated[str, Field(min_length=1, max_length=40)]


class ChatStreamOptions(Strict):
    """The `stream_options` parameter."""

    include_usage: bool = False
    include_obfuscation: bool = True


class ChatBody(Strict):
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


class ChatTool(Strict):
    """One function tool; what its function has is looked at as the Responses API's."""

    type: Literal["function"]
    function: dict[str, Any]


class ChatPart(Strict):
    """One part of what somebody says."""

    type: Literal["text"]
    text: str


class ChatImageUrl(Strict):
    """Where a picture is."""

    url: str
    detail: Literal["low", "high", "auto", "original"] = "auto"


class ChatImage(Strict):
    """A picture as a part."""

    type: Literal["image_url"]
    image_url: ChatImageUrl


class ChatFileData(Strict):
    """A file with its name."""

    filename: Annotated[str, Field(min_length=1)]
    file_data: str


class ChatFile(Strict):
    """A file as a part."""

    type: Literal["file"]
    file: ChatFileData


Content = str | Annotated[list[ChatPart], Field(min_length=1)]
Parts = Annotated[ChatPart | ChatImage | ChatFile, Field(discriminator="type")]


class ChatTold(Strict):
    """A message of the system or of a developer."""

    role: Literal["system", "developer"]
    content: Content
    name: str | None = None


class ChatSaid(Strict):
    """A message of a user."""

    role: Literal["user"]
    content: str | Annotated[list[Parts], Field(min_length=1)]
    name: str | None = None


class CalledFunction(Strict):
    """The function that a call names."""

    name: Name
    arguments: str


class ToolCall(Strict):
    """A call of an assistant's message."""

    id: CallId
    type: Literal["function"]
    function: CalledFunction


class Assistant(Strict):
    """A message of the model's."""

    role: Literal["assistant"]
    content: Content | None = None
    refusal: str | None = None
    tool_calls: Annotated[list[ToolCall], Field(min_length=1)] | None = None
    name: str | None = None


class ChatOutput(Strict):
    """What became of a call."""

    role: Literal["tool"]
    content: Content
    tool_call_id: CallId


MESSAGES: dict[str, type[Strict]] = {
    **dict.fromkeys(("system", "developer"), ChatTold),
    "user": ChatSaid,
    "assistant": Assistant,
    "tool": ChatOutput,
}
