"""The JSON messages between the operator's commands and the running bot, and reply sentences."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum

from pydantic import TypeAdapter

from storage.states import CallStatus, CallVerb


class AllowedAction(StrEnum):
    """What the operator may do to a call now."""

    APPROVE = "approve"
    EDIT = "edit"
    REJECT = "reject"
    ANSWER = "answer"
    RESOLVE = "resolve"  # record how an UNKNOWN call ended
    BREAK_GLASS = "break_glass"  # run it without the missing approvals


@dataclass(frozen=True, slots=True)
class TerminalField:
    """One input that the operator can fill in."""

    name: str  # as typed before "="
    label: str
    text: str  # its present value
    options: tuple[str, ...] = ()  # the allowed values; empty if any will do
    lines: bool = False  # a list, one value on each line


@dataclass(frozen=True, slots=True)
class TerminalCall:
    """One call as the terminal shows it, with what everybody who sees its card may read."""

    id: str  # with its revision, which a decision is about
    plan: str  # the plan with its revision; "" if nothing else of the plan waits
    run: str
    status: CallStatus
    effect: str
    requester: str
    values: tuple[tuple[str, str, str], ...]  # title, value, and value before an edit
    is_final: bool = False  # it cannot be undone, or its effect is unknown
    final: str = ""  # a sentence about what cannot be undone
    chain: tuple[str, ...] = ()  # the sub-agents in between, a line each
    preview: str = ""
    reason: str = ""  # given by the agent or the program
    deciders: str = ""  # who may decide, or who is asked a question
    deadline: str = ""
    approved_by: str = ""
    note: str = ""  # its outcome
    question: bool = False
    declined: bool = False  # the person asked could not answer
    covered: tuple[str, ...] = ()  # which parts can be seen or done in Slack only
    may: tuple[AllowedAction, ...] = ()
    fields: tuple[TerminalField, ...] = ()


class CommandKind(StrEnum):
    """What a command is to do; its target is a call with its revision, unless noted otherwise."""

    APPROVE = "approve"
    REJECT = "reject"  # words: the reason
    BREAK_GLASS = "break_glass"  # run it without the missing approvals; words: the reason
    APPROVE_PLAN = "approve_plan"  # approve all its pending calls; target: a plan with its revision
    SEND_BACK = "send_back"  # have the plan made anew; words: what should change
    EDIT = "edit"  # values: the changed fields
    ANSWER = "answer"  # answer a question; values, or words if it asks for one value
    DECLINE = "decline"  # the operator cannot answer a question
    DONE = "done"  # an UNKNOWN call has run
    NOT_DONE = "not_done"
    AGAIN = "again"  # an UNKNOWN call is to run once more
    CANCEL = "cancel"  # target: a request
    RETRY = "retry"  # target: a request that failed
    SAY = "say"  # words for the agent; target: a request of the chat, "" for a new chat
    PENDING = "pending"  # list what the operator may decide
    LOOK = "look"  # show one call


@dataclass(frozen=True, slots=True)
class OperatorCommand:
    """One command of the operator's."""

    kind: CommandKind
    target: str = ""  # as displayed: "PCG7SqfUal4mukN38Utqcw:1"
    words: str = ""  # a note, a reason, an answer or a request
    values: Mapping[str, str] = field(default_factory=dict)  # typed values, by field name


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The result of a command: whether it took effect, with a sentence or the calls asked for."""

    counted: bool
    sentence: str
    run: str = ""  # the request that received the words
    calls: tuple[TerminalCall, ...] = ()


class ChatEventKind(StrEnum):
    """The kinds of events in a chat."""

    STEP = "step"  # a tool begins, or reports progress; text: what it does, or how far it is
    WORDS = "words"  # the next words of an answer being written
    VOID = "void"  # the words so far do not count
    ANSWER = "answer"  # a complete answer, in Markdown
    NOTICE = "notice"  # a notice in the thread
    CALL = "call"  # a new or changed call
    STATE = "state"  # the request's status; text: the status


@dataclass(frozen=True, slots=True)
class ChatEvent:
    """One event in a chat."""

    kind: ChatEventKind
    run: str
    text: str = ""
    call: TerminalCall | None = None
    id: str = ""  # of an answer, notice or state; the same if it is sent again


# from parsed JSON, and from a line of JSON; both raise pydantic.ValidationError
parse_command_result = TypeAdapter(CommandResult).validate_python
parse_chat_event = TypeAdapter(ChatEvent).validate_json


def encode_as_json_line(message: CommandResult | ChatEvent) -> bytes:
    """Return a message as a line of JSON, in UTF-8."""
    return json.dumps(asdict(message), ensure_ascii=False).encode("utf-8", "replace") + b"\n"


UNKNOWN_CALL = "Nothing has that id. `countersign pending` lists what is waiting, with ids."
CALL_IS_QUESTION = (
    "That is a question. The person who was asked answers it with `countersign answer`."
)
NOT_A_QUESTION = "That is not a question. It can be approved, edited or rejected."
UNKNOWN_PLAN = "No plan with that id is waiting. `countersign pending` shows plans with their ids."
PLAN_CHANGED = (
    "That is out of date: the plan has changed. `countersign pending` shows how it is now."
)
UNKNOWN_REQUEST = "There is no request with that id. `countersign show` prints it for each call."
UNKNOWN_CHAT = "You have no chat with that id."
NO_OPERATOR = "The bot was started without COUNTERSIGN_OPERATOR: set it, and restart the bot."
NO_WORDS = "There is nothing to send: type a message."
TOO_MANY_CHATS = "Too many chats are open at once: close one, and try again."
CHAT_NOT_IN_SLACK_YET = (
    "The start of this chat is not in Slack yet. Please send this again in a moment."
)
MESSAGE_RECEIVED = "Sent to the agent."
PLAN_SENT_BACK = "Sent back; the agent makes another plan."
NOTHING_TO_EDIT = "It has nothing to edit."
EDIT_CHANGES_NOTHING = "That changes nothing: it already has these values."
ANSWER_SAVED = "Answered; the answer was passed on."
STATEMENT_SAVED = "Noted."
REQUEST_CANCELLED = "Cancelled; nothing more of it will run."
REQUEST_RETRIED = "Trying again."
RESULT_DELAYED = "It is stored, but takes longer than usual. `countersign show` shows the outcome."
COMMAND_FAILED = "That could not be done, and nothing was changed. The bot's log says why."

SEND_BACK_NEEDS_WORDS = "Say what to do differently, in at most {} characters."
EDIT_SAVED = "Saved: {}\nIt still waits for approval, as {}"  # the effect, and its new id
VALUES_HIDDEN = (
    "Not all of it is shown here ({}). Approve it in Slack: Review shows all of it to those who"
    " decide."
)
TEXT_TOO_LONG = "At most {} characters, please; these are {}."


def vote_decided_call_sentence(verb: CallVerb, effect: str) -> str:
    """Return the sentence that this vote has decided a call."""
    if verb is CallVerb.BREAK_GLASS:
        return f"Run without approval: {effect}\nOthers are asked to look at it."
    return f"Approved: {effect}" if verb is CallVerb.APPROVE else f"Rejected: {effect}"


def vote_counted_sentence(verb: CallVerb, effect: str, needed: int) -> str:
    """Return the sentence that a vote counts, while others still have to vote."""
    if verb is CallVerb.REJECT:
        return f"Your rejection counts, but more are needed: {effect}"
    more = "1 more person has" if needed == 1 else f"{needed} more people have"
    return f"Your approval counts; {more} to approve: {effect}"
