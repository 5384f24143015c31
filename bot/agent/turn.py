"""One turn of the model: its request, its result, and the interface of dialects. Plain types.

A dialect is a way of talking to the model's server. With any dialect, a transcript is stored in one
form, the items of the Responses API.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """One function call as the model wrote it; its arguments are unparsed and untrusted."""

    provider_id: str
    name: str
    arguments: str
    index: int  # its place in `items`


@dataclass(frozen=True, slots=True)
class Reply:
    """The model's answer in words; `cut_reason`: why it is incomplete, "" if it is complete.

    The reason is as in the Responses API: "max_output_tokens", "content_filter".
    """

    text: str
    items: list[dict[str, Any]]
    tokens: int
    cut_reason: str = ""
    input_tokens: int = 0  # of the request; 0 if the server does not say


@dataclass(frozen=True, slots=True)
class Proposal:
    """The calls that the model proposes, perhaps after some words."""

    text: str
    calls: list[FunctionCall]
    items: list[dict[str, Any]]
    tokens: int
    input_tokens: int = 0  # of the request; 0 if the server does not say


@dataclass(frozen=True, slots=True)
class CompactedItems:
    """Items by which the model's server replaces others, to be sent to it unchanged."""

    items: list[dict[str, Any]]
    tokens: int


class PlannerError(Exception):
    """Raised if a model turn failed; the text is a sentence for people."""


class ModelRequestTooLongError(PlannerError):
    """Raised if a request is too long. `window`: how many tokens the model can read; 0 if unknown.

    `without_files`: takes the same turn without new files; None if there are none.
    """

    def __init__(
        self,
        text: str,
        window: int = 0,
        without_files: Callable[[], Reply | Proposal] | None = None,
    ) -> None:
        super().__init__(text)
        self.window, self.without_files = window, without_files


class UnusableReasoningError(PlannerError):
    """Raised if the model's server cannot use the reasoning, compactions or ids of its items."""


class ModelRequestRefusedError(PlannerError):
    """Raised if the model's server refuses a request's content, so that a retry cannot help."""


class AnswerSink(Protocol):
    """Receives the text of an answer as it arrives."""

    def write(self, text: str) -> None:
        """Add text; may raise to stop the turn."""

    def discard_text(self) -> None:
        """Discard what was written so far; the turn is tried again."""


class ModelPlanner(Protocol):
    """The interface of what asks the model for its next answer or calls."""

    def take_turn(
        self,
        transcript: Sequence[dict[str, Any]],
        tools: Sequence[dict[str, Any]],
        instructions: str,
        sink: AnswerSink,
    ) -> Reply | Proposal:
        """Send a transcript to the model, and return its answer or the calls that it proposes.

        Raises PlannerError, ModelRequestTooLongError if the request is too long,
        UnusableReasoningError if it has reasoning that the server cannot use, and what `sink`
        raises.
        """

    @property
    def compaction_server_id(self) -> str:
        """Return the id of the model's server, which alone can read transcripts that it compacts.

        "" if it compacts none.
        """

    def compact_items(
        self, items: Sequence[dict[str, Any]], instructions: str
    ) -> CompactedItems | None:
        """Have the model's server compact these items; None if it cannot or does not."""

    def close(self) -> None:
        """Close the planner's connections; a turn under way fails."""


CHARS_PER_TOKEN = 4  # a rough average
MAX_PLAUSIBLE_TOKENS = 10**8  # a count above this is not believed


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One request to the model: its settings, instructions, tools, and the transcript as stored."""

    model: str
    effort: str | None  # reasoning effort; None: the model's default
    transcript: list[dict[str, Any]]
    tools: list[dict[str, Any]]
    instructions: str


@dataclass(slots=True)
class GatheredAnswer:
    """What has been read of an answer so far."""

    text: list[str] = field(default_factory=list)
    items: list[dict[str, Any]] = field(default_factory=list)
    tokens: int = 0  # of request and answer
    output_tokens: int = 0  # of the answer alone
    complete: bool = False
    cut_reason: str = ""  # why the answer is incomplete, though its stream ended properly


class AnswerReader(Protocol):
    """Reads an answer, event by event."""

    def read_event(self, event: dict[str, Any]) -> None:
        """Process one event; unknown kinds are ignored.

        Raises CutStreamError for a failure that a retry may help, else PlannerError.
        """

    def get_answer_so_far(self) -> GatheredAnswer:
        """Return what has been read of the answer so far."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """One API of a model's server: how its requests are written and its answers read."""

    name: str  # for people
    path: str  # part of the URL, after /v1
    build_request_body: Callable[
        [ModelRequest], dict[str, Any]
    ]  # for one turn, without the parameters for streaming
    make_reader: Callable[
        [AnswerSink], AnswerReader
    ]  # reads an answer's events and passes its text to the sink
    streaming_parameters: dict[str, Any]  # added to a request whose answer is to be streamed
    # whether its reader can also take an unstreamed answer, as one event
    accepts_unstreamed: bool = False
    optional_parameters: tuple[str, ...] = ()  # left out where the server or model has none such
    compaction_path: str = ""  # part of the URL for compacting items; "" if there is none


def set_estimated_token_counts(request: ModelRequest, answer: GatheredAnswer) -> None:
    """Set an answer's token counts to estimates, as its server has not counted them.

    The limits need them.
    """
    read, said = (
        len(json.dumps(each, ensure_ascii=False)) // CHARS_PER_TOKEN
        for each in ([request.instructions, request.tools, request.transcript], answer.items)
    )
    answer.tokens, answer.output_tokens = read + said, said


MAX_CALL_ID_CHARS = 64
MAX_TOOL_NAME_CHARS = 64


def build_turn_result(answer: GatheredAnswer) -> Reply | Proposal:
    """Return the result of an answer: a Proposal if it has function calls, else a Reply.

    In the items, names and arguments that no server would accept again are replaced; the calls have
    the model's own. Reasoning at the end is dropped.
    """
    text = join_half_characters("".join(answer.text))
    items: list[dict[str, Any]] = join_half_characters(answer.items)
    while items and items[-1].get("type") == "reasoning":  # reasoning that led to nothing
        items.pop()
    calls = []
    for index, item in enumerate(items):
        if item.get("type") == "function_call":
            call_id, name = (str(item.get(each) or "") for each in ("call_id", "name"))
            raw_arguments = item.get("arguments")
            arguments = (
                raw_arguments
                if isinstance(raw_arguments, str)
                else json.dumps(raw_arguments)
                if raw_arguments
                else ""
            )
            is_id_too_long = len(call_id) > MAX_CALL_ID_CHARS
            calls.append(FunctionCall("" if is_id_too_long else call_id, name, arguments, index))
            item |= {"name": clean_tool_name(name), "arguments": arguments}
    input_tokens = answer.tokens - answer.output_tokens
    return (
        Proposal(text, calls, items, answer.tokens, input_tokens)
        if calls
        else Reply(text, items, answer.tokens, answer.cut_reason, input_tokens)
    )


def clean_tool_name(name: str) -> str:
    """Return a tool's name with the characters and length that the model's server accepts."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:MAX_TOOL_NAME_CHARS] or "unnamed"


def join_half_characters(value: Any) -> Any:
    """Return a JSON value with surrogate halves joined to characters; a lone half becomes U+FFFD.

    Some servers send the two halves of an emoji (UTF-16 surrogates) in events of their own.
    """
    text = json.dumps(value, ensure_ascii=False)
    if not _SURROGATE_PATTERN.search(text):
        return value
    return json.loads(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))


_SURROGATE_PATTERN = re.compile("[\ud800-\udfff]")


class WholeCharacterSink:
    """Passes an answer's text on to another sink, without splitting surrogate pairs."""

    def __init__(self, sink: AnswerSink) -> None:
        self._sink, self._half = sink, ""

    def write(self, text: str) -> None:
        """Add text; the first half of a character waits for the second."""
        text = self._half + text
        end = len(text) - ("\ud800" <= text[-1:] <= "\udbff")
        self._half = text[end:]
        self._sink.write(join_half_characters(text[:end]))

    def discard_text(self) -> None:
        """Discard what was written so far."""
        self._half = ""
        self._sink.discard_text()


def get_object_or_empty(value: Any) -> dict[str, Any]:
    """Return the value if it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


def list_objects(value: Any) -> list[dict[str, Any]]:
    """Return the objects in a JSON array; none if the value is no array."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def count_tokens(usage: Any, written: str) -> tuple[int, int]:
    """Return the tokens of question and answer together, and of the answer alone.

    `written`: the name of the latter in the server's `usage`. A number that is missing there, or
    implausible, counts as 0.
    """
    said = get_object_or_empty(usage)
    total, own = (
        each if isinstance(each, int) and 0 < each < MAX_PLAUSIBLE_TOKENS else 0
        for each in (said.get("total_tokens"), said.get(written))
    )
    return total, min(total, own)
