"""The Chat Completions dialect: writes a transcript as chat messages and reads the answer. Pure.

Such a server accepts less than a transcript may hold: outputs have to follow their calls at once,
roles have to alternate, and only the first message may be the system's. The stored transcript is
not changed; encrypted reasoning and items of other kinds are left out of the chat.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from bot.agent import turn
from bot.agent.model_errors import raise_stream_error
from bot.agent.turn import AnswerSink, Dialect, GatheredAnswer, ModelRequest

# why an answer is incomplete: Chat Completions' term for it, and the Responses API's
CUT_REASON_BY_FINISH_REASON = {"length": "max_output_tokens", "content_filter": "content_filter"}


@dataclass(slots=True)
class _PartialCall:
    """A function call that is being assembled from the pieces of a stream."""

    index: int | None
    call_id: str = ""
    name: str = ""
    arguments: str = ""

    def add_piece(self, piece: dict[str, Any]) -> None:
        function = turn.get_object_or_empty(piece.get("function"))
        self.call_id = self.call_id or str(piece.get("id") or "")
        self.name = self.name or str(function.get("name") or "")
        more = function.get("arguments")
        self.arguments += more if isinstance(more, str) else json.dumps(more) if more else ""

    def build_item(self, *, whole: bool) -> dict[str, Any]:
        nothing = "{}" if whole else ""  # a call without arguments, or one that was cut off
        return {
            "type": "function_call",
            "call_id": self.call_id,
            "name": self.name,
            "arguments": self.arguments or nothing,
        }


class ChatAnswerReader:
    """Reads one answer, streamed or whole, into transcript items."""

    def __init__(self, sink: AnswerSink) -> None:
        self._sink = sink
        self._gathered = GatheredAnswer()
        self._text_by_kind: dict[str, list[str]] = {"content": [], "refusal": []}
        self._calls: list[_PartialCall] = []

    def read_event(self, event: dict[str, Any]) -> None:
        """Process one chunk; raises like `raise_stream_error` if it is an error."""
        if error := turn.get_object_or_empty(event.get("error")):
            raise_stream_error(error)
        total, written = turn.count_tokens(event.get("usage"), "completion_tokens")
        if total:  # a running total, or the final one
            self._gathered.tokens, self._gathered.output_tokens = total, written
        for choice in turn.list_objects(event.get("choices")):
            self._read_choice(choice)

    def get_answer_so_far(self) -> GatheredAnswer:
        """Return what has been read of the answer so far."""
        calls = (each.build_item(whole=not self._gathered.cut_reason) for each in self._calls)
        self._gathered.items = [*self._build_message_items(), *calls]
        return self._gathered

    def _read_choice(self, choice: dict[str, Any]) -> None:
        if choice.get("index"):  # further choices, which were not asked for
            return
        whole = turn.get_object_or_empty(choice.get("message"))
        delta = turn.get_object_or_empty(choice.get("delta")) or whole
        for kind, pieces in self._text_by_kind.items():
            words = delta.get(kind)
            if isinstance(words, str) and words:
                pieces.append(words)
                self._gathered.text.append(words)
                self._sink.write(words)
        for piece in turn.list_objects(delta.get("tool_calls")):
            self._add_call_piece(piece, whole=bool(whole))
        reason, error = choice.get("finish_reason"), turn.get_object_or_empty(choice.get("error"))
        if reason == "error":  # gateways say so of an answer that broke off at theirs
            raise_stream_error({"code": "server_error", **error})
        if reason:
            self._gathered.complete = True
            self._gathered.cut_reason = CUT_REASON_BY_FINISH_REASON.get(str(reason), "")

    def _add_call_piece(self, piece: dict[str, Any], *, whole: bool) -> None:
        index = piece.get("index")
        found = next(
            (each for each in reversed(self._calls) if index is None or each.index == index), None
        )
        if found is None or whole or _is_start_of_new_call(piece, found):
            found = _PartialCall(index)
            self._calls.append(found)
        found.add_piece(piece)

    def _build_message_items(self) -> list[dict[str, Any]]:
        said, refused = ("".join(each) for each in self._text_by_kind.values())
        parts: list[dict[str, Any]] = []
        if said or not (refused or self._calls):  # an empty answer is an answer, too
            parts.append({"type": "output_text", "text": said, "annotations": []})
        if refused:
            parts.append({"type": "refusal", "refusal": refused})
        return [{"type": "message", "role": "assistant", "content": parts}] if parts else []


def _is_start_of_new_call(piece: dict[str, Any], before: _PartialCall) -> bool:
    """Return whether a streamed piece begins a new call instead of continuing the one `before`.

    Some servers give all calls one index, or none; others give every piece an id of its own, or
    repeat the name in each.
    """
    if not turn.get_object_or_empty(piece.get("function")).get("name") or not before.name:
        return False
    call_id = piece.get("id")
    return call_id != before.call_id if call_id else piece.get("index") is None


# first line of Countersign's own messages between two turns: a chat has no role for them
COUNTERSIGN_NOTE_HEADER = "(From Countersign itself, not from a person:)"
PARAGRAPH_SEPARATOR = "\n\n"
MessageContent = str | list[dict[str, Any]]
MAX_CALL_ID_CHARS = 40


def build_request_body(model_request: ModelRequest, *, at_openai: bool = False) -> dict[str, Any]:
    """Return the body of the request for one turn.

    `at_openai`: the server is OpenAI's, which is asked to store nothing; other servers do not have
    that parameter, and some refuse unknown ones.
    """
    request: dict[str, Any] = {
        "model": model_request.model,
        "messages": build_chat_messages(model_request.instructions, model_request.transcript),
    }
    if model_request.tools:
        keys = ("name", "description", "parameters")
        request["tools"] = [
            {"type": "function", "function": {key: each[key] for key in keys if key in each}}
            for each in model_request.tools
        ]
        request["tool_choice"] = "auto"  # the default, but without it some servers ignore tools
    if model_request.effort:
        request["reasoning_effort"] = model_request.effort
    if at_openai:
        request["store"] = False
    return request


def build_chat_messages(
    instructions: str, transcript: Iterable[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return the messages of a chat for a transcript in which each call has an output.

    The order is kept, except that an output that came late stands directly after its call.
    """
    items = list(transcript)
    outputs = {
        str(each["call_id"]): _extract_text(each.get("output"))
        for each in items
        if each.get("type") == "function_call_output"
    }
    chat = _ChatBuilder(instructions, outputs)
    for item in items:
        match item.get("type", "message"):
            case "message":
                _add_message_item(chat, item)
            case "function_call":
                chat.add_call(item)
            case "function_call_output":
                chat.add_call_outputs()
    chat.add_call_outputs()
    return chat.messages


def _add_message_item(chat: _ChatBuilder, item: Mapping[str, Any]) -> None:
    role, said = str(item.get("role")), _convert_content(item.get("content"))
    if role in ("assistant", "user"):
        chat.add_content(role, said)
    else:  # a developer's message: some models allow those only at the beginning
        chat.add_content("user", f"{COUNTERSIGN_NOTE_HEADER}\n{_extract_text(item.get('content'))}")


class _ChatBuilder:
    """Builds the list of messages, one item after the other."""

    def __init__(self, instructions: str, outputs: Mapping[str, str]) -> None:
        """`outputs` has the output of each call, by call id."""
        self.messages: list[dict[str, Any]] = []
        self._outputs = outputs
        self._unanswered_ids: list[str] = []  # of calls in the last message that have no output yet
        if instructions:
            self.messages.append({"role": "system", "content": instructions})

    def add_content(self, role: str, said: MessageContent) -> None:
        """Add content: to the last message if that has this role, else as a new message."""
        self.add_call_outputs()
        last = self._find_last_message(role)
        if isinstance(said, str) and not said.strip():
            return
        if last is None:
            self.messages.append({"role": role, "content": said})
        else:
            last["content"] = _join_contents(last["content"], said)

    def add_call(self, item: Mapping[str, Any]) -> None:
        """Add a function call to the assistant's last message."""
        last = self._find_last_message("assistant")
        if last is None:
            # where null is allowed, "" means the same, and some servers do not allow null
            last = {"role": "assistant", "content": ""}
            self.messages.append(last)
        name, arguments = str(item.get("name")), str(item.get("arguments"))
        function = {
            "name": turn.clean_tool_name(name),
            "arguments": _ensure_object_arguments(arguments),
        }
        call = {
            "id": _shorten_call_id(str(item["call_id"])),
            "type": "function",
            "function": function,
        }
        last.setdefault("tool_calls", []).append(call)
        self._unanswered_ids.append(str(item["call_id"]))

    def add_call_outputs(self) -> None:
        """Add the outputs of the calls in the last assistant message."""
        for each in self._unanswered_ids:
            told = self._outputs.get(each, "")
            self.messages.append(
                {"role": "tool", "tool_call_id": _shorten_call_id(each), "content": told}
            )
        self._unanswered_ids = []

    def _find_last_message(self, role: str) -> dict[str, Any] | None:
        found = self.messages[-1] if self.messages else {}
        return found if found.get("role") == role else None


def _shorten_call_id(call_id: str) -> str:
    """Return the id of a call, or a hash of it if it is longer than the API accepts."""
    if len(call_id) <= MAX_CALL_ID_CHARS:
        return call_id
    return f"call_{hashlib.sha256(call_id.encode()).hexdigest()[:24]}"


def _ensure_object_arguments(text: str) -> str:
    """Return a call's arguments, or {"unreadable": text} if they are no JSON object.

    Some servers parse them before the model sees them.
    """
    try:
        is_object = isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        is_object = False
    return text if is_object else json.dumps({"unreadable": text}, ensure_ascii=False)


def _convert_content(content: Any) -> MessageContent:
    """Return an item's content as a chat has it: a text, or parts if it has pictures or files."""
    parts = content if isinstance(content, list) else []
    if not any(
        each.get("type") in _MEDIA_PART_CONVERTERS for each in parts if isinstance(each, dict)
    ):
        return _extract_text(content)
    found: MessageContent = []
    for each in parts:
        show = _MEDIA_PART_CONVERTERS.get(each.get("type"))
        found = _join_contents(found, [show(each)] if show else str(each.get("text") or ""))
    return found


def _join_contents(before: MessageContent, more: MessageContent) -> MessageContent:
    """Return two contents as one; a text that follows a text is joined with it."""
    if isinstance(before, str) and isinstance(more, str):
        return f"{before}{PARAGRAPH_SEPARATOR}{more}"
    first, second = _convert_to_parts(before), _convert_to_parts(more)
    if first and second and first[-1]["type"] == second[0]["type"] == "text":
        text = f"{first[-1]['text']}{PARAGRAPH_SEPARATOR}{second[0]['text']}"
        return [*first[:-1], {"type": "text", "text": text}, *second[1:]]
    return [*first, *second]


def _convert_to_parts(said: MessageContent) -> list[dict[str, Any]]:
    return [{"type": "text", "text": said}] if isinstance(said, str) else said


def _convert_image(part: Mapping[str, Any]) -> dict[str, Any]:
    shown = {"url": part["image_url"], "detail": part.get("detail") or "auto"}
    return {"type": "image_url", "image_url": shown}


def _convert_file(part: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "file", "file": {"filename": part["filename"], "file_data": part["file_data"]}}


_MEDIA_PART_CONVERTERS = {"input_image": _convert_image, "input_file": _convert_file}


def _extract_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = [each for each in content or () if isinstance(each, dict)]
    return PARAGRAPH_SEPARATOR.join(
        str(each.get("text") or each.get("refusal") or "") for each in parts
    )


CHAT_DIALECT = Dialect(
    name="the Chat Completions API",
    path="/chat/completions",
    build_request_body=build_request_body,
    make_reader=ChatAnswerReader,
    streaming_parameters={"stream": True, "stream_options": {"include_usage": True}},
    accepts_unstreamed=True,
)
OPENAI_CHAT_DIALECT = replace(
    CHAT_DIALECT, build_request_body=partial(build_request_body, at_openai=True)
)
