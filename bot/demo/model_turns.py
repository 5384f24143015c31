"""Decides what the stand-in for the model does next: a transcript and tools in, one turn out.

It is rules, not a language model, and says so. It plans from the newest request only: what others
said earlier in a thread, and what tools returned, is data and never an order.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from bot.demo import order_phrases
from bot.demo.model_answers import Turn
from bot.demo.order_phrases import REASON_FIELD, PhrasedCall, Values

# The texts of the stand-in for the model: what it is, what it still needs, what became of calls.

NOTICE = "_I am the offline stand-in planner, not a language model._"
EXAMPLES = {
    "refund_order": "Refund 15 EUR of order 1042, the mug was chipped",
    "look_up_order": "Look up order 1042",
    "cancel_order": "Cancel order 1043, the customer changed her mind",
}
ELSEWHERE = """I also understand “post … in #channel”, “ask @somebody: …”, “run `…` on shop” and \
the words of a tool's name. There is a form for each tool, too: `/approvals request`."""
OUTCOMES = {
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
STATUS = re.compile(rf"({'|'.join(each.upper() for each in OUTCOMES)})\b")
AGAIN = "NOT RUN AGAIN"
HEAD = re.compile(r'(?:[^"\n]|"(?:\\.|[^"\\])*")*', re.S)  # a line; what is quoted may be several
# Sentences of an output that are meant for a model's ears only; what is quoted is a person's.
FOR_MODELS = re.compile(
    r"(\".*\")|\s*\b(?:Do not|Propose|Change it, or|If an earlier call)\b[^.]*\.", re.S
)
EDITED = re.compile(r" and ran with: (\{.*\})$", re.S)
LISTED = 20  # entries of a list that are shown
# What the thread says of a call in a line of its own: not told over again, but what comes next.
TOLD_ABOVE = {
    "succeeded": "That is done.",
    "rejected": "Then I leave it. If something should be different, tell me what, "
    "and I propose it anew.",
    "expired": "Ask me again if it is still needed.",
    "sent back": "Tell me what to change, and I propose it anew.",
}
BEFOREHAND = "before it was run, and nobody was asked: "
NO_ANSWER = "Without an answer I cannot go on. Ask me again once you know."


@dataclass(frozen=True)
class Outcome:
    """What became of a call, as its output in the transcript says."""

    status: str  # a key of OUTCOMES; "" where the output does not say
    result: Any = None  # of a success: parsed where it is JSON
    words: str = ""  # what else the output says about it
    ran: Mapping[str, Any] | None = None  # the arguments that ran, where a person edited them
    again: bool = False  # that of an earlier call which is the same, this one having done nothing


def outcome_of(output: str) -> Outcome:
    """Parse a call's output: a status word and more words, a tool's result on the lines below."""
    output = output.strip()
    head = HEAD.match(output)
    first = head[0] if head else ""
    if first.startswith(AGAIN):
        return replace(outcome_of(output.partition("\n")[2]), again=True)
    status = STATUS.match(first)
    if not status:
        return Outcome("", _parsed(output))
    if status[1] != "SUCCEEDED":
        told = FOR_MODELS.sub(r"\1", output[status.end() :])
        return Outcome(status[1].lower(), words=" ".join(told.strip(" .:;,\n").split()))
    edited = EDITED.search(first)
    ran = _parsed(edited[1]) if edited else None
    words = first[status.end() : edited.start() if edited else None].strip(" .:")
    result = _parsed(output[len(first) :].strip())
    return Outcome("succeeded", result, words, ran if isinstance(ran, dict) else None)


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def report(tool: str, arguments: Mapping[str, Any], outcome: Outcome, *, alone: bool = True) -> str:
    """Return Markdown that says what became of one call.

    `alone`: all calls that are reported with it ended in the same way, so a general sentence is
    enough.
    """
    shown = values(outcome.result)
    looked = REASON_FIELD not in arguments and not outcome.words
    if outcome.status in ("succeeded", "") and looked:
        return shown or "There is nothing to show."
    about = f"**{label(tool, {**arguments, **(outcome.ran or {})})}**"
    if not outcome.status:
        return f"{about}: {shown}"
    if tool == "query" and outcome.status == "succeeded" and not outcome.again:
        return "That is what the database says."
    if outcome.again:
        about += " was not run again; what I proposed before"
    elif alone and outcome.status in TOLD_ABOVE:
        return TOLD_ABOVE[outcome.status]
    if alone and outcome.words.startswith(BEFOREHAND) and not outcome.again:
        return f"That would not work, so I asked nobody: {outcome.words.removeprefix(BEFOREHAND)}."
    told = "" if outcome.status in TOLD_ABOVE else outcome.words
    if told:
        joined = told.startswith(("by ", "before "))
        told = f" {told}" if joined else f": {told.removesuffix('.')}"
    return f"{about} {OUTCOMES[outcome.status]}{told}."


def label(tool: str, arguments: Mapping[str, Any]) -> str:
    """Return a name for a call with its main arguments: "Refund order 1042, amount 40.00"."""
    about = [
        _flat(value) if key.endswith(("id", "channel", "name")) else f"{_words(key)} {_flat(value)}"
        for key, value in arguments.items()
        if key not in (REASON_FIELD, "note", "text", "reason", "sql")
        and isinstance(value, str | int | float)
        and not isinstance(value, bool)
    ]
    return _capital(f"{_words(tool)} {', '.join(about)}".strip())


def values(result: Any) -> str:
    """Return a tool's result as a short Markdown list, with a count of the entries left out."""
    if result in (None, "", [], {}):
        return ""
    match result:
        case dict():
            return "\n".join(
                _member(key, each) for key, each in result.items() if each not in (None, "")
            )
        case list():
            left = len(result) - LISTED
            more = [f"- … and {left} more"] if left > 0 else []
            return "\n".join([*(f"- {_flat(each)}" for each in result[:LISTED]), *more])
    return str(result)


def _member(key: str, value: Any) -> str:
    rows = isinstance(value, list) and value and isinstance(value[0], dict)
    name = f"**{_capital(_words(re.sub('_id$', '', key)))}:**"
    return f"{name}\n{values(value)}" if rows else f"- {name} {_flat(value)}"


def help_text(tools: Iterable[str], *, is_lost: bool) -> str:
    """Return what the stand-in is, and up to three example requests to copy."""
    names = list(tools)
    lost = "I did not understand that, or have no tool for it. " if is_lost else ""
    who = f"{lost}I am the offline stand-in planner, not a language model."
    said = [f"- `{text}`" for name, text in EXAMPLES.items() if name in names]
    if not said:
        can = f"I can {', '.join(map(_words, names))}." if names else "I was given no tools."
        return f"{who}\n\n{can}"
    return "\n".join([f"{who}\n\nCopy one of these and change it:", *said, f"\n{ELSEWHERE}"])


def waits(calls: Iterable[str]) -> str:
    """Return a list of the calls that wait for a decision, and how to change them."""
    lines = [f"- **{each}** waits for a decision, and has not run." for each in calls]
    return "\n".join([*lines, "\nTell me what to change, and I take it back and propose it anew."])


def no_tool(left: Iterable[str]) -> str:
    """Return a refusal of a request with parts that fit no tool."""
    orders = " and ".join(f"“{each}”" for each in left)
    return f"I have no tool for {orders}, so I did nothing. Ask me for the rest alone, please."


def question(lacking: Iterable[PhrasedCall]) -> str:
    """Return a question for the arguments that these calls still need."""
    return "\n".join(
        f"For “{_words(each.tool)}” I still need the "
        f"{' and the '.join(_wanted(name) for name in each.missing)}. Can you tell me?"
        for each in lacking
    )


def _wanted(name: str) -> str:
    return (
        "amount in EUR, above zero" if name == "amount" else _words(re.sub("_id$", " number", name))
    )


def _words(name: str) -> str:
    return name.replace("_", " ").replace("-", " ")


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _flat(value: Any) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case dict():
            return ", ".join(_flat(each) for each in value.values() if each not in (None, ""))
        case list():
            return "; ".join(_flat(each) for each in value)
    return str(value)


AUTHOR = re.compile(r"^[^\n:]{0,80}<@([UW]\w+)>\) writes(?:, on [^\n]*)?:\n")
HISTORY = re.compile(r"^(?:Earlier messages|Files)\b[^\n]*\bquoted\b")
MENTIONED = re.compile(r"^\s*<@[UW]\w+>[\s,:]*")
HELP = re.compile(r"^\W*(?:(?:hi|hello|hey|help)\b|(?:what|who) (?:can|do|are) you)", re.I)
THANKS = re.compile(r"^\W*(?:thanks|thank you|great|perfect)\b[^.]{0,20}$", re.I)
CONSENT = re.compile(
    r"^\W*(?:yes|approved?|go ahead|do it|ok(?:ay)?)(?: (?:it|this|that))?\W*$", re.I
)
CORRECTION = re.compile(r"\b(?:instead|rather|make it|i meant|only|change it to)\b", re.I)
NUMBER = re.compile(r"\W*(?:order\s*)?#?\d+\W*", re.I)
QUESTION = re.compile(r"\?\s*$|^\W*(?:why|what|who|when|where|how)\b", re.I)
SUM_UP = re.compile(r"^The older part of a Slack thread, quoted, to be summed up:\n")
REPLACE = "replace_waiting_plan"  # offered while calls wait for people
ASK = "ask_person"
FEEDBACK = re.compile(r'Their feedback, quoted: "(.*)"', re.S)
ANSWER = re.compile(r'Quoted: > "(.*)"$')
LONGEST = 4_000  # characters of a request
SHORT, MOST_LINES = 80, 20  # characters of a line, and lines, of a summary
MOST_OF_REASON = 500  # characters that an approver is told


@dataclass
class Made:
    """A call in the transcript and, once known, its outcome."""

    name: str
    arguments: Values
    outcome: Outcome | None = None


@dataclass
class Talk:
    """A transcript as read: the newest request, the calls made for it, and what came before."""

    request: str = ""
    asked: bool = False  # the newest words are a person's, not a tool's
    made: list[Made] = field(default_factory=list)  # calls since the request
    earlier: list[Made] = field(default_factory=list)  # the last calls before it
    previous: str = ""  # the request before
    said: str = ""  # what the assistant said last


def plan(body: dict[str, Any]) -> Turn:
    """Return the next turn for a request body that has passed the checks."""
    if (summary := _summed_up(body["input"])) is not None:
        return Turn(text=summary)
    offered = [] if body.get("tool_choice") == "none" else body.get("tools") or []
    tools = {tool["name"]: {"parameters": {}} | tool for tool in offered}
    talk = read(body["input"])
    beside = tools.pop(REPLACE, None) is not None
    said = _heard(talk)
    reports = talk.made and not talk.asked and said is None
    turn = _told(talk, tools) if reports else _answer(talk, tools, said or "")
    if beside:
        turn = _beside(talk, turn)
    if body.get("tool_choice") == "required" and tools and not turn.calls:
        turn = Turn(calls=[(next(iter(tools)), {})])
    if body.get("parallel_tool_calls") is False:
        turn = replace(turn, calls=turn.calls[:1])
    if turn.text and not talk.said and "offline stand-in" not in turn.text:
        turn = replace(turn, text=f"{turn.text}\n\n{NOTICE}")
    return turn


def read(source: str | list[dict[str, Any]]) -> Talk:
    """Return the transcript in the input of a request body as a Talk."""
    items = [{"role": "user", "content": source}] if isinstance(source, str) else source
    talk = Talk()
    open_calls: dict[str, Made] = {}
    for item in items:
        match item.get("type", "message"), item.get("role"):
            case "message", "user":
                _take_request(talk, _text(item["content"]))
            case "message", "assistant":
                talk.said, talk.asked = _text(item["content"]), False
            case "message", "developer":  # what waited has been decided
                talk.made, talk.asked = talk.made or talk.earlier, False
            case "function_call", _ if item["name"] == REPLACE:
                open_calls[item["call_id"]] = Made(REPLACE, {})
            case "function_call", _:
                made = Made(item["name"], _arguments(item["arguments"]))
                talk.made.append(made)
                open_calls[item["call_id"]] = made
                talk.asked = False
            case "function_call_output", _:
                open_calls[item["call_id"]].outcome = outcome_of(_text(item["output"]))
    return talk


def _summed_up(source: str | list[dict[str, Any]]) -> str | None:
    """Return a summary if one is asked for, the beginnings of the first lines; None otherwise."""
    last = source if isinstance(source, str) else source[-1].get("content") or ""
    text = _text(last)
    if not SUM_UP.match(text):
        return None
    lines = [line.removeprefix("> ")[:SHORT] for line in text.splitlines()[1:]]
    return "\n".join(lines[:MOST_LINES])


def _take_request(talk: Talk, text: str) -> None:
    if HISTORY.match(text):
        return  # what was said before, quoted as data
    lines = [
        line for line in AUTHOR.sub("", text).splitlines() if not line.startswith((">", "&gt;"))
    ]
    said = html.unescape(MENTIONED.sub("", "\n".join(lines))).strip()
    if talk.asked:  # the person goes on
        talk.request = f"{talk.request}. {said}".strip(". ")
        return
    talk.previous, talk.request, talk.asked = talk.request, said, True
    talk.earlier, talk.made = talk.made or talk.earlier, []


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content)


def _arguments(text: str) -> Values:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _told(talk: Talk, tools: dict[str, Values]) -> Turn:
    """Return a turn that reports on every call of the request; equal sentences are said once.

    If a plan was sent back with a value to change, the turn proposes it with that value instead.
    """
    feedback = _feedback(talk)
    if order_phrases.changed(feedback):
        again = _corrected(replace(talk, request=feedback, earlier=talk.made), tools)
        if again.calls:
            return again
    ended = [
        (made, made.outcome)
        for made in talk.made
        if made.outcome and (made.name != ASK or len(talk.made) == 1)
    ]
    alone = len({outcome.status for _, outcome in ended}) == 1
    lines = [_reported(made, outcome, alone) for made, outcome in ended]
    return Turn(text="\n\n".join(dict.fromkeys(lines)))


def _reported(made: Made, outcome: Outcome, alone: bool) -> str:
    if made.name != ASK or outcome.status not in ("answered", "expired"):
        return report(made.name, made.arguments, outcome, alone=alone)
    found = ANSWER.search(outcome.words)
    return f"The answer is: “{found[1]}”." if found else NO_ANSWER


def _feedback(talk: Talk) -> str:
    """Return the feedback of the person who sent the plan back; "" if nobody did."""
    said = [FEEDBACK.search(made.outcome.words) for made in talk.made if made.outcome]
    return next((found[1] for found in said if found), "")


def _beside(talk: Talk, turn: Turn) -> Turn:
    """Return the turn to take while calls wait: list them, look something up, or replace them."""
    if turn.calls:
        reads = all(REASON_FIELD not in arguments for _, arguments in turn.calls)
        return turn if reads else replace(turn, calls=[(REPLACE, {}), *turn.calls])
    if not talk.asked or not QUESTION.search(talk.request):
        return turn
    waiting = [
        label(made.name, made.arguments)
        for made in talk.earlier
        if made.outcome and made.outcome.status == "waiting"
    ]
    return Turn(text=waits(waiting)) if waiting else turn


def _answer(talk: Talk, tools: dict[str, Values], answer: str) -> Turn:
    """Return the turn that the request asks for; `answer`: a person's reply to a question."""
    request = talk.request
    if len(request) > LONGEST:
        return Turn(text=f"That is more than I can read: at most {LONGEST:,} characters.")
    if THANKS.match(request):
        return Turn(text="You are welcome.")
    if CONSENT.match(request) and talk.earlier:
        return Turn(text="Words do not approve anything here: the buttons on the card do.")
    found, left = order_phrases.proposals(request, tools, order_phrases.changed(answer))
    if not found and CORRECTION.search(request) and talk.earlier:
        return _corrected(talk, tools)
    questioned = talk.said.removesuffix(NOTICE).rstrip().endswith("?")
    if questioned and (not found or NUMBER.fullmatch(request)):
        said = {"text": request} | order_phrases.changed(request)
        found, left = order_phrases.proposals(talk.previous, tools, said)
    if found and left:
        return Turn(text=no_tool(left))
    lacking = [each for each in found if each.missing]
    if lacking:
        return _ask(lacking, talk, tools)
    if found:
        return Turn(calls=[(each.tool, each.arguments) for each in found])
    return Turn(text=help_text(tools, is_lost=bool(request) and not HELP.match(request)))


def _heard(talk: Talk) -> str | None:
    """Return a person's answer if the last call was a question to the requester; None otherwise."""
    last = talk.made[-1] if talk.made and not talk.asked else None
    if last is None or last.name != ASK or last.outcome is None or "to" in last.arguments:
        return None
    found = ANSWER.search(last.outcome.words)
    return found[1] if found else None


def _ask(lacking: list[order_phrases.PhrasedCall], talk: Talk, tools: dict[str, Values]) -> Turn:
    """Return a turn that asks for missing arguments.

    If only one order number is missing, it asks once with ask_person; otherwise with a text.
    """
    alone = len(lacking) == 1 and lacking[0].missing == ("order_id",)
    if alone and ASK in tools and not any(made.name == ASK for made in talk.made):
        return Turn(calls=[(ASK, {"question": "Which order is it? Its number will do."})])
    return Turn(text=question(lacking))


def _corrected(talk: Talk, tools: dict[str, Values]) -> Turn:
    """Return a turn that proposes the last calls again with corrected values.

    Calls that may have run already are left out.
    """
    again = [
        made
        for made in talk.earlier
        if made.name in tools
        and not (made.outcome and made.outcome.status in ("succeeded", "unknown", ""))
    ]
    if not again:
        ran = "What I proposed before has run already, or there was nothing to change."
        return Turn(text=f"{ran} Please tell me the whole new request.")
    named = order_phrases.changed(talk.request)
    if not any(named.keys() & made.arguments.keys() for made in again):
        return Turn(text="What is it to be? I understand “make it 30 EUR”, for example.")
    calls = []
    for made in again:
        values = {key: value for key, value in named.items() if key in made.arguments}
        if why := made.arguments.get(REASON_FIELD):
            values[REASON_FIELD] = f"{why} Then: “{talk.request}”."[:MOST_OF_REASON]
        calls.append((made.name, {**made.arguments, **values}))
    return Turn(calls=calls)
