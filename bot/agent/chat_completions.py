"""Chat Completions: a transcript as chat messages. Pure.

A server of that API takes less than it gives out: the outputs of an assistant's calls follow it at
once, roles take turns, and only the first message is the system's. What is kept of a transcript
stays as it is; a model's sealed thoughts and items of other kinds have no place in a chat.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from bot.agent.model_errors import raise_failed
from bot.agent.turn import AnswerSink, Dialect, GatheredAnswer, ModelRequest

# Chat Completions: an answer, as items of the form in which transcripts are kept.

# why an answer is not whole, as a chat names it and as the Responses API does
CUT = {"length": "max_output_tokens", "content_filter": "content_filter"}


@dataclass(slots=True)
class _Call:
    """A call that is being put together."""

    index: int | None
    call_id: str = ""
    name: str = ""
    arguments: str = ""

    def take(self, piece: dict[str, Any]) -> None:
        function = _object(piece.get("function"))
        self.call_id = self.call_id or str(piece.get("id") or "")
        self.name = self.name or str(function.get("name") or "")
        more = function.get("arguments")
        self.arguments += more if isinstance(more, str) else json.dumps(more) if more else ""

    def item(self, *, whole: bool) -> dict[str, Any]:
        nothing = "{}" if whole else ""  # a call without arguments, or one that was cut off
        return {
            "type": "function_call",
            "call_id": self.call_id,
            "name": self.name,
            "arguments": self.arguments or nothing,
        }


class ChatReader:
    """One answer, streamed or whole."""

    def __init__(self, sink: AnswerSink) -> None:
        """Words go to `sink` as they come."""
        self._sink = sink
        self._gathered = GatheredAnswer()
        self._said: dict[str, list[str]] = {"content": [], "refusal": []}
        self._calls: list[_Call] = []

    def take(self, event: dict[str, Any]) -> None:
        """Take in a chunk; raises as `raise_failed` does for a failure in the place of one."""
        if error := _object(event.get("error")):
            raise_failed(error)
        usage = _object(event.get("usage"))
        if isinstance(usage.get("total_tokens"), int):  # so far, or in the end
            self._gathered.tokens = usage["total_tokens"]
            self._gathered.written = min(self._gathered.tokens, usage.get("completion_tokens") or 0)
        for choice in event.get("choices") or ():
            self._take_choice(_object(choice))

    def gathered(self) -> GatheredAnswer:
        """Return what has come of it so far."""
        calls = (each.item(whole=not self._gathered.cut) for each in self._calls)
        self._gathered.items = [*self._message(), *calls]
        return self._gathered

    def _take_choice(self, choice: dict[str, Any]) -> None:
        if choice.get("index"):  # only one was asked for
            return
        whole = _object(choice.get("message"))
        delta = _object(choice.get("delta")) or whole
        for kind, said in self._said.items():
            words = delta.get(kind)
            if isinstance(words, str) and words:
                said.append(words)
                self._gathered.text.append(words)
                self._sink.write(words)
        for piece in delta.get("tool_calls") or ():
            self._take_piece(_object(piece), whole=bool(whole))
        if reason := choice.get("finish_reason"):
            self._gathered.complete = True
            self._gathered.cut = CUT.get(reason, "")

    def _take_piece(self, piece: dict[str, Any], *, whole: bool) -> None:
        index = piece.get("index")
        found = next(
            (each for each in reversed(self._calls) if index is None or each.index == index), None
        )
        if found is None or whole or _begins(piece, found):
            found = _Call(index)
            self._calls.append(found)
        found.take(piece)

    def _message(self) -> list[dict[str, Any]]:
        said, refused = ("".join(each) for each in self._said.values())
        parts: list[dict[str, Any]] = []
        if said or not (refused or self._calls):  # that it said nothing is an answer, too
            parts.append({"type": "output_text", "text": said, "annotations": []})
        if refused:
            parts.append({"type": "refusal", "refusal": refused})
        return [{"type": "message", "role": "assistant", "content": parts}] if parts else []


def _begins(piece: dict[str, Any], before: _Call) -> bool:
    """Whether a piece begins another call than the one before at its place.

    Some servers give all calls one place, or none; others give every piece an id of its own, or
    say the name again with each.
    """
    if not _object(piece.get("function")).get("name") or not before.name:
        return False
    call_id = piece.get("id")
    return call_id != before.call_id if call_id else piece.get("index") is None


def _object(value: Any) -> dict[str, Any]:
    """The value, where it is a JSON object; else an empty one."""
    return value if isinstance(value, dict) else {}


# the first line of what Countersign itself says between two turns: a chat has no role for it
OURS = "(From Countersign itself, not from a person:)"
GAP = "\n\n"
Said = str | list[dict[str, Any]]  # the content of a message
LONGEST_ID, LONGEST_NAME = 40, 64  # characters


def request_of(asked: ModelRequest, *, at_openai: bool = False) -> dict[str, Any]:
    """The request for one turn.

    `at_openai`: it goes to OpenAI's own server, which is told to store nothing; others know no such
    parameter, and some refuse what they do not know.
    """
    request: dict[str, Any] = {
        "model": asked.model,
        "messages": messages(asked.instructions, asked.transcript),
    }
    if asked.tools:
        request["tools"] = [_tool(each) for each in asked.tools]
        request["tool_choice"] = "auto"  # as it is unsaid, but some servers then leave tools out
    if asked.effort:
        request["reasoning_effort"] = asked.effort
    if at_openai:
        request["store"] = False
    return request


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: tool[key] for key in ("name", "description", "parameters") if key in tool}
    return {"type": "function", "function": kept}


def messages(instructions: str, transcript: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a transcript, in which each call has an output, as the messages of a chat.

    All of it keeps its order, but for an output that came late: it stands behind its call.
    """
    items = list(transcript)
    outputs = {
        str(each["call_id"]): _text(each.get("output"))
        for each in items
        if each.get("type") == "function_call_output"
    }
    chat = _Chat(instructions, outputs)
    for item in items:
        match item.get("type", "message"):
            case "message":
                _say(chat, item)
            case "function_call":
                chat.call(item)
            case "function_call_output":
                chat.answer()
    chat.answer()
    return chat.messages


def _say(chat: _Chat, item: Mapping[str, Any]) -> None:
    role, said = str(item.get("role")), _said(item.get("content"))
    if role in ("assistant", "user"):
        chat.say(role, said)
    else:  # a developer's: some models take such words at the beginning alone
        chat.say("user", f"{OURS}\n{_text(item.get('content'))}")


class _Chat:
    """The messages, one after the other."""

    def __init__(self, instructions: str, outputs: Mapping[str, str]) -> None:
        """`outputs`: what became of each call, by its id."""
        self.messages: list[dict[str, Any]] = []
        self._outputs = outputs
        self._called: list[str] = []  # by the last message, and not answered yet
        if instructions:
            self.messages.append({"role": "system", "content": instructions})

    def say(self, role: str, said: Said) -> None:
        """Somebody says something, in one message with what they have just said."""
        self.answer()
        last = self._last(role)
        if isinstance(said, str) and not said.strip():
            return
        if last is None:
            self.messages.append({"role": role, "content": said})
        else:
            last["content"] = _joined(last["content"], said)

    def call(self, item: Mapping[str, Any]) -> None:
        """The model proposes a call, beside those of the same turn."""
        last = self._last("assistant")
        if last is None:
            # "" says as much as null to those that take both, and some take no null
            last = {"role": "assistant", "content": ""}
            self.messages.append(last)
        name, arguments = str(item.get("name")), str(item.get("arguments"))
        function = {"name": _named(name), "arguments": _arguments(arguments)}
        made = {"id": _id(str(item["call_id"])), "type": "function", "function": function}
        last.setdefault("tool_calls", []).append(made)
        self._called.append(str(item["call_id"]))

    def answer(self) -> None:
        """Tell what became of the calls that were proposed last."""
        for each in self._called:
            told = self._outputs.get(each, "")
            self.messages.append({"role": "tool", "tool_call_id": _id(each), "content": told})
        self._called = []

    def _last(self, role: str) -> dict[str, Any] | None:
        """The last message, where it is of that role."""
        found = self.messages[-1] if self.messages else {}
        return found if found.get("role") == role else None


def _id(call_id: str) -> str:
    """The id of a call, or what stands for it where it is longer than a chat takes."""
    if len(call_id) <= LONGEST_ID:
        return call_id
    return f"call_{hashlib.sha256(call_id.encode()).hexdigest()[:24]}"


def _named(name: str) -> str:
    """The name of a tool as a chat takes it, whatever the model had made up."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:LONGEST_NAME] or "unnamed"


def _arguments(text: str) -> str:
    """A call's arguments as they are, or what stands for them where a server could not read them:
    some do, before the model sees them.
    """
    try:
        is_object = isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        is_object = False
    return text if is_object else json.dumps({"unreadable": text}, ensure_ascii=False)


def _said(content: Any) -> Said:
    """What an item's content says: in words alone, or with pictures and files as parts."""
    parts = content if isinstance(content, list) else []
    if not any(each.get("type") in _SHOWN for each in parts if isinstance(each, dict)):
        return _text(content)
    found: Said = []
    for each in parts:
        show = _SHOWN.get(each.get("type"))
        found = _joined(found, [show(each)] if show else str(each.get("text") or ""))
    return found


def _joined(before: Said, more: Said) -> Said:
    """What was said, and then more of it; words that follow words are one text."""
    if isinstance(before, str) and isinstance(more, str):
        return f"{before}{GAP}{more}"
    first, second = _listed(before), _listed(more)
    if first and second and first[-1]["type"] == second[0]["type"] == "text":
        text = f"{first[-1]['text']}{GAP}{second[0]['text']}"
        return [*first[:-1], {"type": "text", "text": text}, *second[1:]]
    return [*first, *second]


def _listed(said: Said) -> list[dict[str, Any]]:
    return [{"type": "text", "text": said}] if isinstance(said, str) else said


def _image(part: Mapping[str, Any]) -> dict[str, Any]:
    shown = {"url": part["image_url"], "detail": part.get("detail") or "auto"}
    return {"type": "image_url", "image_url": shown}


def _file(part: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "file", "file": {"filename": part["filename"], "file_data": part["file_data"]}}


_SHOWN = {"input_image": _image, "input_file": _file}  # parts that are no words


def _text(content: Any) -> str:
    """What an item's content says in words."""
    if isinstance(content, str):
        return content
    parts = [each for each in content or () if isinstance(each, dict)]
    return GAP.join(str(each.get("text") or each.get("refusal") or "") for each in parts)


CHAT = Dialect(
    name="the Chat Completions API",
    path="/chat/completions",
    request_of=request_of,
    reading=ChatReader,
    streamed={"stream": True, "stream_options": {"include_usage": True}},
    whole=True,
)
CHAT_AT_OPENAI = replace(CHAT, request_of=partial(request_of, at_openai=True))
