"""The JSON messages between the operator's commands and the running bot."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from pydantic import TypeAdapter, ValidationError

from storage.states import CallStatus

# A call as the terminal shows it: plain data, all of it text for people. Pure.


class AllowedAction(StrEnum):
    """What the operator may do to a call now."""

    APPROVE = "approve"
    EDIT = "edit"
    REJECT = "reject"
    ANSWER = "answer"
    RESOLVE = "resolve"  # say what became of it


@dataclass(frozen=True, slots=True)
class TerminalField:
    """One input that the operator can fill in."""

    name: str  # what is typed before the "="
    label: str
    text: str  # what stands there
    options: tuple[str, ...] = ()  # where it is one of these
    lines: bool = False  # one on each line
    hint: str = ""


@dataclass(frozen=True, slots=True)
class TerminalCall:
    """One call, with what everybody may read who sees its card."""

    id: str  # with its revision: what a decision is about
    plan: str  # the plan with its revision, where more of it waits; "" where nothing does
    run: str
    status: CallStatus
    effect: str
    requester: str
    values: tuple[tuple[str, str, str], ...]  # title, what it is, what it was before an edit
    is_final: bool = False  # it cannot be undone, or that is not known
    final: str = ""  # what is known of that, in a sentence
    chain: tuple[str, ...] = ()  # which sub-agents stand between, a line each
    preview: str = ""
    reason: str = ""  # why, in the words of the agent or of whoever asked
    deciders: str = ""  # who may decide, or is asked
    deadline: str = ""
    approved_by: str = ""
    note: str = ""  # what came of it
    question: bool = False
    declined: bool = False  # who was asked could not say
    covered: tuple[str, ...] = ()  # what of it is shown in Slack only
    may: tuple[AllowedAction, ...] = ()
    fields: tuple[TerminalField, ...] = ()


class MalformedMessageError(ValueError):
    """Raised for a message from the bot that cannot be understood."""


class CommandKind(StrEnum):
    """What a command is to do; its target is a call with its revision, unless noted otherwise."""

    APPROVE = "approve"
    REJECT = "reject"  # words: why
    APPROVE_PLAN = "approve_plan"  # all that waits in it; the target: a plan with its revision
    SEND_BACK = "send_back"  # its plan is made anew; words: how
    EDIT = "edit"  # values: what was changed
    ANSWER = "answer"  # a question; values, or words where it asks for one
    DECLINE = "decline"  # they cannot say
    DONE = "done"  # a call that is UNKNOWN has happened
    NOT_DONE = "not_done"
    AGAIN = "again"  # it is to run once more
    CANCEL = "cancel"  # target: a request
    RETRY = "retry"  # target: a request that could not go on
    SAY = "say"  # words for the agent; target: a request of the chat, "" to begin one
    PENDING = "pending"  # tell what the operator may decide
    LOOK = "look"  # tell how one call stands


@dataclass(frozen=True, slots=True)
class OperatorCommand:
    """One command of the operator's."""

    wish: CommandKind
    target: str = ""  # as it was shown: "PCG7SqfUal4mukN38Utqcw:1"
    words: str = ""  # a note, why not, an answer, a request
    values: Mapping[str, str] = field(default_factory=dict)  # what was typed, by the field's name


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The result of a command: whether it took effect, with a sentence or the calls asked for."""

    counted: bool
    sentence: str
    run: str = ""  # the request that words went to
    calls: tuple[TerminalCall, ...] = ()


class ChatEventKind(StrEnum):
    """The kinds of events in a chat."""

    STEP = "step"  # a tool begins; text: what it does
    WORDS = "words"  # more of an answer that is on its way
    VOID = "void"  # the words so far are taken back
    ANSWER = "answer"  # the whole of one, in Markdown
    NOTICE = "notice"  # a line that the thread was told
    CALL = "call"  # how a call stands now
    STATE = "state"  # how the request stands now; text: its status


@dataclass(frozen=True, slots=True)
class ChatEvent:
    """One event in a chat."""

    kind: ChatEventKind
    run: str
    text: str = ""
    call: TerminalCall | None = None
    id: str = ""  # of an answer, a notice or a state: the same each time it is told


_ANSWERING, _HAPPENING = TypeAdapter(CommandResult), TypeAdapter(ChatEvent)


def encode_message_line(said: CommandResult | ChatEvent) -> bytes:
    """Return a message as a line of JSON, in UTF-8."""
    return json.dumps(asdict(said), ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def parse_command_result(said: Any) -> CommandResult:
    """Return the result of a command from parsed JSON; raises GarbledError."""
    try:
        return _ANSWERING.validate_python(said)
    except ValidationError:
        raise MalformedMessageError("no answer") from None


def parse_chat_event(line: bytes) -> ChatEvent:
    """Return the event that a line of JSON describes; raises GarbledError."""
    try:
        return _HAPPENING.validate_json(line)
    except ValidationError:
        raise MalformedMessageError("nothing that happens") from None
