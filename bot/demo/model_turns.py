"""Decides what the stand-in for the model does next: a transcript and tools in, one turn out.

It is rules, not a language model, and says so. It plans from the newest request only: what others
said earlier in a thread, and what tools returned, is data and never an order.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bot.demo import order_phrases
from bot.demo.order_phrases import REASON_FIELD, Values


@dataclass(frozen=True, slots=True)
class Turn:
    """One model turn: text, then calls as (tool name, arguments); a str is sent unchanged."""

    text: str = ""
    calls: Sequence[tuple[str, Mapping[str, Any] | str]] = ()


# Texts of the stand-in for the model: what it is, what it still needs, and the outcome of calls.

STAND_IN_NOTICE = "_I am the offline stand-in planner, not a language model._"
EXAMPLE_REQUEST_BY_TOOL = {
    "refund_order": "Refund 15 EUR of order 1042, the mug was chipped",
    "look_up_order": "Look up order 1042",
    "cancel_order": "Cancel order 1043, the customer changed her mind",
}
MORE_HELP = """I also understand “post … in #channel”, “ask @somebody: …”, “run `…` on shop” and \
the words of a tool's name. There is a form for each tool, too: `/approvals request`."""
PHRASE_BY_STATUS = {
    "succeeded": "is done",
    "rejected": "was rejected",
    "answered": "was answered",
    "sent back": "was sent back",
    "expired": "has expired",
    "cancelled": "was cancelled",
    "superseded": "was set aside",
    "invalidated": "is no longer valid",
    "refused": "was refused",
    "invalid arguments": "was not proposed, because it is not valid",
    "failed": "failed",
    "unknown": "is uncertain",
    "waiting": "waits for people",
}
STATUS_PATTERN = re.compile(rf"({'|'.join(each.upper() for each in PHRASE_BY_STATUS)})\b")
NOT_RUN_AGAIN_PREFIX = "NOT RUN AGAIN"
FIRST_LINE_PATTERN = re.compile(r'(?:[^"\n]|"(?:\\.|[^"\\])*")*', re.S)  # a quote may span lines
# Instructions for the model in a call's output. Quoted text is a person's, and is kept.
MODEL_INSTRUCTIONS_PATTERN = re.compile(
    r"(\".*\")|\s*\b(?:Do not|Propose|Change it, or|If an earlier call)\b[^.]*\.", re.S
)
EDITED_ARGUMENTS_PATTERN = re.compile(r" and ran with: (\{.*\})$", re.S)
MAX_ITEMS = 20  # shown of a list
# The thread already shows the outcome in a line of its own; these say only what comes next.
FOLLOW_UP_BY_STATUS = {
    "succeeded": "That is done.",
    "rejected": "Then I will leave it. If something should be different, tell me "
    "what, and I will propose it again.",
    "expired": "Ask me again if it is still needed.",
    "sent back": "Tell me what to change, and I will propose it again.",
}
NOBODY_ASKED_PREFIX = "before it was run, and nobody was asked: "
NO_ANSWER_TEXT = "Without an answer I cannot continue. Ask me again once you know."


@dataclass(frozen=True)
class ReportedOutcome:
    """What became of a call, as its output in the transcript says."""

    status: str  # a key of PHRASE_BY_STATUS; "" if the output has none
    result: Any = None  # of a success; parsed if it is JSON
    explanation: str = ""  # the rest of the output
    # the arguments that ran, if a person edited them
    edited_arguments: Mapping[str, Any] | None = None
    # whether the output is an earlier, equal call's; this call did not run
    is_repeat: bool = False


def parse_call_output(output: str) -> ReportedOutcome:
    """Parse a call's output: a status word and more words, a tool's result on the lines below."""
    output = output.strip()
    head = FIRST_LINE_PATTERN.match(output)
    first = head[0] if head else ""
    if first.startswith(NOT_RUN_AGAIN_PREFIX):
        return replace(parse_call_output(output.partition("\n")[2]), is_repeat=True)
    status = STATUS_PATTERN.match(first)
    if not status:
        return ReportedOutcome("", _parse_json_or_text(output))
    if status[1] != "SUCCEEDED":
        explanation = MODEL_INSTRUCTIONS_PATTERN.sub(r"\1", output[status.end() :])
        return ReportedOutcome(
            status[1].lower(), explanation=" ".join(explanation.strip(" .:;,\n").split())
        )
    edited = EDITED_ARGUMENTS_PATTERN.search(first)
    ran = _parse_json_or_text(edited[1]) if edited else None
    words = first[status.end() : edited.start() if edited else None].strip(" .:")
    result = _parse_json_or_text(output[len(first) :].strip())
    return ReportedOutcome("succeeded", result, words, ran if isinstance(ran, dict) else None)


def _parse_json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def describe_outcome(
    tool: str, arguments: Mapping[str, Any], outcome: ReportedOutcome, *, alone: bool = True
) -> str:
    """Return Markdown that says what became of one call.

    `alone`: all calls that are reported with it ended in the same way, so a general sentence is
    enough.
    """
    shown = format_result_list(outcome.result)
    is_lookup = REASON_FIELD not in arguments and not outcome.explanation
    if outcome.status in ("succeeded", "") and is_lookup:
        return shown or "There is nothing to show."
    about = f"**{format_call_label(tool, {**arguments, **(outcome.edited_arguments or {})})}**"
    if not outcome.status:
        return f"{about}: {shown}"
    if tool == "query" and outcome.status == "succeeded" and not outcome.is_repeat:
        return "That is what the database says."
    if outcome.is_repeat:
        about += " was not run again; what I proposed before"
    elif alone and outcome.status in FOLLOW_UP_BY_STATUS:
        return FOLLOW_UP_BY_STATUS[outcome.status]
    if alone and outcome.explanation.startswith(NOBODY_ASKED_PREFIX) and not outcome.is_repeat:
        why = outcome.explanation.removeprefix(NOBODY_ASKED_PREFIX)
        return f"That would not work, so I asked nobody: {why}."
    explanation = "" if outcome.status in FOLLOW_UP_BY_STATUS else outcome.explanation
    if explanation:
        joined = explanation.startswith(("by ", "before "))
        explanation = f" {explanation}" if joined else f": {explanation.removesuffix('.')}"
    return f"{about} {PHRASE_BY_STATUS[outcome.status]}{explanation}."


def format_call_label(tool: str, arguments: Mapping[str, Any]) -> str:
    """Return a name for a call with its main arguments: "Refund order 1042, amount 40.00"."""
    about = [
        _format_value(value)
        if key.endswith(("id", "channel", "name"))
        else f"{order_phrases.identifier_to_words(key)} {_format_value(value)}"
        for key, value in arguments.items()
        if key not in (REASON_FIELD, "note", "text", "reason", "sql")
        and isinstance(value, str | int | float)
        and not isinstance(value, bool)
    ]
    return _capitalize_first(
        f"{order_phrases.identifier_to_words(tool)} {', '.join(about)}".strip()
    )


def format_result_list(result: Any) -> str:
    """Return a tool's result as a short Markdown list, with a count of the entries left out."""
    if result in (None, "", [], {}):
        return ""
    match result:
        case dict():
            return "\n".join(
                _format_result_member(key, each)
                for key, each in result.items()
                if each not in (None, "")
            )
        case list():
            hidden_count = len(result) - MAX_ITEMS
            more = [f"- … and {hidden_count} more"] if hidden_count > 0 else []
            return "\n".join([*(f"- {_format_value(each)}" for each in result[:MAX_ITEMS]), *more])
    return str(result)


def _format_result_member(key: str, value: Any) -> str:
    rows = isinstance(value, list) and value and isinstance(value[0], dict)
    name = f"**{_capitalize_first(order_phrases.identifier_to_words(re.sub('_id$', '', key)))}:**"
    return f"{name}\n{format_result_list(value)}" if rows else f"- {name} {_format_value(value)}"


def help_text(tools: Iterable[str], *, is_lost: bool) -> str:
    """Return what the stand-in is, and up to three example requests to copy."""
    names = list(tools)
    lost = "I did not understand that, or have no tool for it. " if is_lost else ""
    who = f"{lost}I am the offline stand-in planner, not a language model."
    said = [f"- `{text}`" for name, text in EXAMPLE_REQUEST_BY_TOOL.items() if name in names]
    if not said:
        can = ", ".join(map(order_phrases.identifier_to_words, names))
        can = f"I can {can}." if names else "I was given no tools."
        return f"{who}\n\n{can}"
    return "\n".join([f"{who}\n\nCopy one of these and change it:", *said, f"\n{MORE_HELP}"])


def describe_waiting_calls(calls: Iterable[str]) -> str:
    """Return a list of the calls that wait for a decision, and how to change them."""
    lines = [f"- **{each}** waits for a decision, and has not run." for each in calls]
    change = "Tell me what to change, and I will take it back and propose it again."
    return "\n".join([*lines, f"\n{change}"])


def describe_unmatched_request_parts(left: Iterable[str]) -> str:
    """Return a refusal of a request with parts that fit no tool."""
    orders = " and ".join(f"“{each}”" for each in left)
    return f"I did not understand {orders}, or have no tool for it, so I did nothing."


def _capitalize_first(text: str) -> str:
    return text[:1].upper() + text[1:]


def _format_value(value: Any) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case dict():
            return ", ".join(
                _format_value(each) for each in value.values() if each not in (None, "")
            )
        case list():
            return "; ".join(_format_value(each) for each in value)
    return str(value)


AUTHOR_PATTERN = re.compile(r"^[^\n:]{0,80}<@([UW]\w+)>\) writes(?:, on [^\n]*)?:\n")
QUOTED_HISTORY_PATTERN = re.compile(r"^(?:Earlier messages|Files)\b[^\n]*\bquoted\b")
LEADING_MENTION_PATTERN = re.compile(r"^\s*<@[UW]\w+>[\s,:]*")
HELP_PATTERN = re.compile(r"^\W*(?:(?:hi|hello|hey|help)\b|(?:what|who) (?:can|do|are) you)", re.I)
THANKS_PATTERN = re.compile(r"^\W*(?:thanks|thank you|great|perfect)\b[^.]{0,20}$", re.I)
DECISION_PATTERN = re.compile(
    r"^\W*(?:(?:yes|no|approved?|reject(?:ed)?|deny|go ahead|do it|ok(?:ay)?|sure|lgtm|please|it"
    r"|this|that)\b\W*)+$",
    re.I,
)
CORRECTION_PATTERN = re.compile(r"\b(?:instead|rather|make it|i meant|only|change it to)\b", re.I)
ORDER_NUMBER_PATTERN = re.compile(r"\W*(?:order\s*)?#?\d+\W*", re.I)
QUESTION_PATTERN = re.compile(r"\?\s*$|^\W*(?:why|what|who|when|where|how)\b", re.I)
SUMMARY_PATTERN = re.compile(r"^The older part of a Slack thread, quoted, to be summed up:\n")
REPLACE_PLAN_TOOL = "replace_waiting_plan"  # offered while calls wait for people
ASK_TOOL = "ask_person"
FEEDBACK_PATTERN = re.compile(r'Their feedback, quoted: "(.*)"', re.S)
QUOTED_ANSWER_PATTERN = re.compile(r'Quoted: > "(.*)"$')
MAX_REQUEST_CHARS = 4_000
MAX_SUMMARY_LINE_CHARS = 80
MAX_SUMMARY_LINES = 20
CORRECTION_NOTE = "This corrects what I proposed before."  # for the approver


@dataclass
class TranscriptCall:
    """A call in the transcript and, once known, its outcome."""

    name: str
    arguments: Values
    outcome: ReportedOutcome | None = None


@dataclass
class Conversation:
    """A transcript as read: the newest request, the calls made for it, and what came before."""

    request: str = ""
    is_request_newest: bool = False  # whether the newest item is a person's message
    calls: list[TranscriptCall] = field(default_factory=list)  # since the request
    earlier_calls: list[TranscriptCall] = field(default_factory=list)  # the last calls before it
    previous_request: str = ""  # the one before; after answers, the one that was asked about
    answered: Values = field(default_factory=dict)  # values that people gave in answer to questions
    last_reply: str = ""  # the assistant's latest text

    @property
    def ends_in_question(self) -> bool:
        """Whether the assistant's last words are a question."""
        return self.last_reply.removesuffix(STAND_IN_NOTICE).rstrip().endswith("?")


def plan_turn(body: dict[str, Any]) -> Turn:
    """Return the next turn for a request body that has passed the checks."""
    if (summary := _find_summary(body["input"])) is not None:
        return Turn(text=summary)
    offered = [] if body.get("tool_choice") == "none" else body.get("tools") or []
    tools = {tool["name"]: {"parameters": {}} | tool for tool in offered}
    talk = parse_conversation(body["input"])
    beside = tools.pop(REPLACE_PLAN_TOOL, None) is not None
    person_answer = _find_person_answer(talk)
    reports = talk.calls and not talk.is_request_newest and person_answer is None
    if reports:
        turn = _build_report_turn(talk, tools)
    else:
        turn = _build_request_turn(talk, tools, person_answer or "")
    if beside:
        turn = _adjust_for_waiting_calls(talk, turn)
    if body.get("tool_choice") == "required" and tools and not turn.calls:
        turn = Turn(calls=[(next(iter(tools)), {})])
    if body.get("parallel_tool_calls") is False:
        turn = replace(turn, calls=turn.calls[:1])
    if turn.text and not talk.last_reply and "offline stand-in" not in turn.text:
        turn = replace(turn, text=f"{turn.text}\n\n{STAND_IN_NOTICE}")
    return turn


def parse_conversation(source: str | list[dict[str, Any]]) -> Conversation:
    """Return the transcript in a request body's `input`, parsed as a Conversation."""
    items = [{"role": "user", "content": source}] if isinstance(source, str) else source
    talk = Conversation()
    open_calls: dict[str, TranscriptCall] = {}
    for item in items:
        match item.get("type", "message"), item.get("role"):
            case "message", "user":
                _add_user_message(talk, _join_text_parts(item["content"]))
            case "message", "assistant":
                talk.last_reply, talk.is_request_newest = _join_text_parts(item["content"]), False
            case "message", "developer":  # calls that waited have been decided
                talk.calls, talk.is_request_newest = talk.calls or talk.earlier_calls, False
            case "function_call", _ if item["name"] == REPLACE_PLAN_TOOL:
                open_calls[item["call_id"]] = TranscriptCall(REPLACE_PLAN_TOOL, {})
            case "function_call", _:
                call = TranscriptCall(item["name"], _parse_arguments(item["arguments"]))
                talk.calls.append(call)
                open_calls[item["call_id"]] = call
                talk.is_request_newest = False
            case "function_call_output", _:
                open_calls[item["call_id"]].outcome = parse_call_output(
                    _join_text_parts(item["output"])
                )
    return talk


def _find_summary(source: str | list[dict[str, Any]]) -> str | None:
    """Return a summary if the request asks for one (the first lines, shortened); else None."""
    last = source if isinstance(source, str) else source[-1].get("content") or ""
    text = _join_text_parts(last)
    if not SUMMARY_PATTERN.match(text):
        return None
    lines = [line.removeprefix("> ")[:MAX_SUMMARY_LINE_CHARS] for line in text.splitlines()[1:]]
    return "\n".join(lines[:MAX_SUMMARY_LINES])


def _add_user_message(talk: Conversation, text: str) -> None:
    if QUOTED_HISTORY_PATTERN.match(text):
        return  # earlier messages, quoted as data
    lines = [
        line
        for line in AUTHOR_PATTERN.sub("", text).splitlines()
        if not line.startswith((">", "&gt;"))
    ]
    message_text = html.unescape(LEADING_MENTION_PATTERN.sub("", "\n".join(lines))).strip()
    if talk.is_request_newest:  # the person adds to the request
        talk.request = f"{talk.request}. {message_text}".strip(". ")
        return
    values = order_phrases.parse_order_amount_reason(message_text) if talk.ends_in_question else {}
    if not (values and talk.answered):
        talk.previous_request, talk.answered = talk.request, {}
    talk.answered |= values
    talk.request, talk.is_request_newest = message_text, True
    talk.earlier_calls, talk.calls = talk.calls or talk.earlier_calls, []


def _join_text_parts(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content)


def _parse_arguments(text: str) -> Values:
    value = _parse_json_or_text(text)
    return value if isinstance(value, dict) else {}


def _build_report_turn(talk: Conversation, tools: dict[str, Values]) -> Turn:
    """Return a turn that reports on every call of the request; equal sentences are said once.

    If a plan was sent back with a value to change, the turn proposes it with that value instead.
    """
    feedback = _find_feedback(talk)
    if order_phrases.parse_order_amount_reason(feedback):
        again = _build_corrected_turn(
            replace(talk, request=feedback, earlier_calls=talk.calls), tools
        )
        if again.calls:
            return again
    ended = [
        (call, call.outcome)
        for call in talk.calls
        if call.outcome and (call.name != ASK_TOOL or len(talk.calls) == 1)
    ]
    alone = len({outcome.status for _, outcome in ended}) == 1
    lines = [_describe_made_call(call, outcome, alone) for call, outcome in ended]
    return Turn(text="\n\n".join(dict.fromkeys(lines)))


def _describe_made_call(made: TranscriptCall, outcome: ReportedOutcome, alone: bool) -> str:
    if made.name != ASK_TOOL or outcome.status not in ("answered", "expired"):
        return describe_outcome(made.name, made.arguments, outcome, alone=alone)
    found = QUOTED_ANSWER_PATTERN.search(outcome.explanation)
    return f"The answer is: “{found[1]}”." if found else NO_ANSWER_TEXT


def _find_feedback(talk: Conversation) -> str:
    """Return the feedback of the person who sent the plan back; "" if nobody did."""
    said = [
        FEEDBACK_PATTERN.search(made.outcome.explanation) for made in talk.calls if made.outcome
    ]
    return next((found[1] for found in said if found), "")


def _adjust_for_waiting_calls(talk: Conversation, turn: Turn) -> Turn:
    """Return the turn to take while calls wait: list them, look something up, or replace them."""
    if turn.calls:
        reads = all(REASON_FIELD not in arguments for _, arguments in turn.calls)
        return turn if reads else replace(turn, calls=[(REPLACE_PLAN_TOOL, {}), *turn.calls])
    if not talk.is_request_newest or not QUESTION_PATTERN.search(talk.request):
        return turn
    waiting = [
        format_call_label(made.name, made.arguments)
        for made in talk.earlier_calls
        if made.outcome and made.outcome.status == "waiting"
    ]
    return Turn(text=describe_waiting_calls(waiting)) if waiting else turn


def _build_request_turn(talk: Conversation, tools: dict[str, Values], answer: str) -> Turn:
    """Return the turn that the request asks for; `answer`: a person's reply to a question."""
    request = talk.request
    if len(request) > MAX_REQUEST_CHARS:
        return Turn(text=f"That is more than I can read: at most {MAX_REQUEST_CHARS:,} characters.")
    if THANKS_PATTERN.match(request):
        return Turn(text="You are welcome.")
    if DECISION_PATTERN.match(request) and talk.earlier_calls:
        return Turn(text="Messages don't decide this; use the buttons on the card.")
    calls, unmatched = order_phrases.parse_requested_calls(
        request, tools, order_phrases.parse_order_amount_reason(answer)
    )
    if not calls and CORRECTION_PATTERN.search(request) and talk.earlier_calls:
        return _build_corrected_turn(talk, tools)
    if talk.ends_in_question and (not calls or ORDER_NUMBER_PATTERN.fullmatch(request)):
        known = {"text": request, **talk.answered}
        known |= order_phrases.parse_order_amount_reason(answer)
        calls, unmatched = order_phrases.parse_requested_calls(talk.previous_request, tools, known)
    if calls and unmatched:
        return Turn(text=describe_unmatched_request_parts(unmatched))
    lacking = [each for each in calls if each.missing]
    if lacking:
        return _build_question_turn(lacking, talk, tools)
    if calls:
        return Turn(calls=[(each.tool, each.arguments) for each in calls])
    return Turn(text=help_text(tools, is_lost=bool(request) and not HELP_PATTERN.match(request)))


def _find_person_answer(talk: Conversation) -> str | None:
    """Return a person's answer if the last call was a question to the requester; None otherwise."""
    last = talk.calls[-1] if talk.calls and not talk.is_request_newest else None
    if last is None or last.name != ASK_TOOL or last.outcome is None or "to" in last.arguments:
        return None
    found = QUOTED_ANSWER_PATTERN.search(last.outcome.explanation)
    return found[1] if found else None


def _build_question_turn(
    lacking: list[order_phrases.RequestedCall], talk: Conversation, tools: dict[str, Values]
) -> Turn:
    """Return a turn that asks for missing arguments.

    If only one order number is missing, it asks once with ask_person; otherwise with a text.
    """
    alone = len(lacking) == 1 and lacking[0].missing == ("order_id",)
    if alone and ASK_TOOL in tools and not any(made.name == ASK_TOOL for made in talk.calls):
        return Turn(calls=[(ASK_TOOL, {"question": "Which order is it? Its number will do."})])
    return Turn(text=order_phrases.missing_arguments_question(lacking))


def _build_corrected_turn(talk: Conversation, tools: dict[str, Values]) -> Turn:
    """Return a turn that proposes the last calls again with corrected values.

    Calls that may have run already are left out.
    """
    again = [
        call
        for call in talk.earlier_calls
        if call.name in tools
        and not (call.outcome and call.outcome.status in ("succeeded", "unknown", ""))
    ]
    if not again:
        ran = "What I proposed before has run already, or there was nothing to change."
        return Turn(text=f"{ran} Please tell me the whole new request.")
    named = order_phrases.parse_order_amount_reason(talk.request)
    if not any(named.keys() & call.arguments.keys() for call in again):
        return Turn(text="What should it be? I understand “make it 30 EUR”, for example.")
    calls = []
    for call in again:
        values = {key: value for key, value in named.items() if key in call.arguments}
        if REASON_FIELD in call.arguments:
            why = str(call.arguments[REASON_FIELD]).removesuffix(CORRECTION_NOTE).strip()
            values[REASON_FIELD] = f"{why} {CORRECTION_NOTE}".strip()
        calls.append((call.name, {**call.arguments, **values}))
    return Turn(calls=calls)
