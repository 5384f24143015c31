"""The JSON messages between the operator's commands and the running bot, and reply sentences."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
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
    RESOLVE = "resolve"  # say what became of it
    BREAK_GLASS = "break_glass"  # run it alone, without approval


@dataclass(frozen=True, slots=True)
class TerminalField:
    """One input that the operator can fill in."""

    name: str  # what is typed before the "="
    label: str
    text: str  # what stands there
    options: tuple[str, ...] = ()  # where it is one of these
    lines: bool = False  # one on each line


@dataclass(frozen=True, slots=True)
class TerminalCall:
    """One call as the terminal shows it, with what everybody who sees its card may read."""

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
    covered: tuple[str, ...] = ()  # what of it is shown or done in Slack only
    may: tuple[AllowedAction, ...] = ()
    fields: tuple[TerminalField, ...] = ()


class CommandKind(StrEnum):
    """What a command is to do; its target is a call with its revision, unless noted otherwise."""

    APPROVE = "approve"
    REJECT = "reject"  # words: why
    BREAK_GLASS = "break_glass"  # run it alone, without approval; words: why
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

    kind: CommandKind
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


# of parsed JSON, and of a line of JSON; both raise pydantic.ValidationError
parse_command_result = TypeAdapter(CommandResult).validate_python
parse_chat_event = TypeAdapter(ChatEvent).validate_json


def encode_as_json_line(message: CommandResult | ChatEvent) -> bytes:
    """Return a message as a line of JSON, in UTF-8."""
    return json.dumps(asdict(message), ensure_ascii=False).encode("utf-8", "replace") + b"\n"


UNKNOWN_CALL = (
    "There is nothing with that id. `countersign pending` lists what waits, with its ids."
)
CALL_IS_QUESTION = "That is a question. Whoever was asked answers it with `countersign answer`."
NOT_A_QUESTION = "That is not a question. It can be approved, edited or rejected."
UNKNOWN_PLAN = "No plan with that id waits. `countersign pending` shows plans with their ids."
PLAN_CHANGED = (
    "That is out of date: the plan has changed. `countersign pending` shows how it is now."
)
UNKNOWN_REQUEST = "There is no request with that id. `countersign show` prints it for each call."
UNKNOWN_CHAT = "You have no chat with that id."
NO_OPERATOR = "The bot was started without COUNTERSIGN_OPERATOR: set it, and start the bot anew."
NO_WORDS = "There is nothing to send: type a message."
TOO_MANY_CHATS = "Too many chats are open at once: close one, and try again."
CHAT_NOT_IN_SLACK_YET = (
    "The beginning of this chat has not reached Slack yet. Please say it again in a moment."
)
MESSAGE_RECEIVED = "The agent has it."
PLAN_SENT_BACK = "Sent back; the agent makes another plan."
NOTHING_TO_EDIT = "There is nothing to edit in it."
EDIT_CHANGES_NOTHING = "That changes nothing: it already has these values."
ANSWER_SAVED = "Answered; whoever asked has been told."
STATEMENT_SAVED = "Noted."
REQUEST_CANCELLED = "Cancelled; nothing more of it will run."
REQUEST_RETRIED = "It is tried again."
RESULT_DELAYED = (
    "It is stored, but takes longer than usual. `countersign show` shows what comes of it."
)
COMMAND_FAILED = "That could not be done, and nothing was changed. The bot's log says why."


def send_back_needs_words_sentence(most: int) -> str:
    """Return the refusal to send back a question, or a plan with no or too many words."""
    return f"Say what to do differently, in at most {most} characters."


def edit_saved_sentence(effect: str, new_target: str) -> str:
    """Return the sentence that an edit is stored; votes on the earlier revision no longer count."""
    return f"Saved: {effect}\nIt still waits for approval, as {new_target}"


def hidden_values_sentence(covered: Sequence[str]) -> str:
    """Return the refusal of an approval at the terminal, as that hides the values `covered`."""
    return (
        f"Not all of it is shown here ({', '.join(covered)}). Approve it in Slack: Review shows all"
        " of it to those who decide."
    )


def text_too_long_sentence(most: int, typed: int) -> str:
    """Return the sentence for a text that is too long."""
    return f"At most {most} characters, please; these are {typed}."


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
