"""What the stand-in for the model does next: a transcript and tools in, one turn out.

It is rules, not a language model, and says so. It plans from the newest request only; what others
said earlier in a thread, and what tools returned, is data to it and never an order.
"""

from __future__ import annotations

import html
import json
import re
from dataclasses import dataclass, field, replace
from typing import Any

from bot.demo.model import phrases, reports
from bot.demo.model.phrases import REASON_FIELD, Values
from bot.demo.model.wire import Turn

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
IT = re.compile(r"\b(?:it|that|same)\b", re.I)
REPLACE = "replace_waiting_plan"  # offered while calls wait for people
ASK = "ask_person"
FEEDBACK = re.compile(r'Their feedback, quoted: "(.*)"', re.S)
ANSWER = re.compile(r'Quoted: > "(.*)"$')
LONGEST = 4_000  # characters of a request
SHORT, MOST_LINES = 80, 20  # characters of a line, and lines, of a summary
MOST_OF_REASON = 500  # characters that an approver is told


@dataclass
class Made:
    """A call of the transcript and, once it is there, what became of it."""

    name: str
    arguments: Values
    outcome: reports.Outcome | None = None


@dataclass
class Talk:
    """A transcript, read: the newest request, what was done for it, and what came before."""

    request: str = ""
    asked: bool = False  # the newest words are a person's, not a tool's
    made: list[Made] = field(default_factory=list)  # calls since the request
    earlier: list[Made] = field(default_factory=list)  # the last calls before it
    previous: str = ""  # the request before
    said: str = ""  # what the assistant said last


def plan(body: dict[str, Any]) -> Turn:
    """Make the next turn for a request body that the checks have let through."""
    if (summary := _summed_up(body["input"])) is not None:
        return Turn(text=summary)
    offered = [] if body.get("tool_choice") == "none" else body.get("tools") or []
    tools = {tool["name"]: {"parameters": {}} | tool for tool in offered}
    talk = read(body["input"])
    beside = tools.pop(REPLACE, None) is not None
    if (said := _heard(talk)) is not None:
        turn = _answer(replace(talk, request=f"{talk.request.rstrip(' .')}. {said}"), tools)
    else:
        turn = _told(talk, tools) if talk.made and not talk.asked else _answer(talk, tools)
    if beside:
        turn = _beside(talk, turn)
    if body.get("tool_choice") == "required" and tools and not turn.calls:
        turn = Turn(calls=[(next(iter(tools)), {})])
    if body.get("parallel_tool_calls") is False:
        turn = replace(turn, calls=turn.calls[:1])
    if turn.text and not talk.said and "offline stand-in" not in turn.text:
        turn = replace(turn, text=f"{turn.text}\n\n{reports.NOTICE}")
    return turn


def read(source: str | list[dict[str, Any]]) -> Talk:
    """Read the input of a request body."""
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
                open_calls[item["call_id"]].outcome = reports.outcome_of(_text(item["output"]))
    return talk


def _summed_up(source: str | list[dict[str, Any]]) -> str | None:
    """Return a summary where one is asked for: the beginning of each of its first lines."""
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
    """Report on every call of the request; what they have in common is said once.

    A plan that was sent back with a value is proposed with that instead.
    """
    feedback = _feedback(talk)
    if phrases.corrected(feedback):
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


def _reported(made: Made, outcome: reports.Outcome, alone: bool) -> str:
    if made.name != ASK or outcome.status not in ("answered", "expired"):
        return reports.report(made.name, made.arguments, outcome, alone=alone)
    found = ANSWER.search(outcome.words)
    return reports.answer(found[1]) if found else reports.NO_ANSWER


def _feedback(talk: Talk) -> str:
    """Return what whoever sent the plan back wants otherwise; "" where nobody did."""
    said = [FEEDBACK.search(made.outcome.words) for made in talk.made if made.outcome]
    return next((found[1] for found in said if found), "")


def _beside(talk: Talk, turn: Turn) -> Turn:
    """Say what waits, look something up, or take back what waits for what is wanted instead."""
    if turn.calls:
        reads = all(REASON_FIELD not in arguments for _, arguments in turn.calls)
        return turn if reads else replace(turn, calls=[(REPLACE, {}), *turn.calls])
    if not talk.asked or not QUESTION.search(talk.request):
        return turn
    waiting = [
        reports.label(made.name, made.arguments)
        for made in talk.earlier
        if made.outcome and made.outcome.status == "waiting"
    ]
    return Turn(text=reports.waits(waiting)) if waiting else turn


def _answer(talk: Talk, tools: dict[str, Values]) -> Turn:
    request = talk.request
    if len(request) > LONGEST:
        return Turn(text=f"That is more than I can read: at most {LONGEST:,} characters.")
    if THANKS.match(request):
        return Turn(text="You are welcome.")
    if CONSENT.match(request) and talk.earlier:
        return Turn(text="Words do not approve anything here: the buttons on the card do.")
    known = {}
    if IT.search(request):
        known = {key: value for made in talk.earlier for key, value in made.arguments.items()}
    found, left = phrases.proposals(request, tools, known)
    if not found and CORRECTION.search(request) and talk.earlier:
        return _corrected(talk, tools)
    questioned = talk.said.removesuffix(reports.NOTICE).rstrip().endswith("?")
    if questioned and (not found or NUMBER.fullmatch(request)):
        found, left = phrases.proposals(f"{talk.previous.rstrip(' .')}. {request}", tools, known)
    if found and left:
        return Turn(text=reports.no_tool(left))
    lacking = [each for each in found if each.missing]
    if lacking:
        return _ask(lacking, talk, tools)
    if found:
        return Turn(calls=[(each.tool, each.arguments) for each in found])
    return Turn(text=reports.help_text(tools, is_lost=bool(request) and not HELP.match(request)))


def _heard(talk: Talk) -> str | None:
    """Return what a person has just answered to a question; None where nobody has."""
    last = talk.made[-1] if talk.made and not talk.asked else None
    if last is None or last.name != ASK or last.outcome is None or "to" in last.arguments:
        return None
    found = ANSWER.search(last.outcome.words)
    return found[1] if found else None


def _ask(lacking: list[phrases.Proposal], talk: Talk, tools: dict[str, Values]) -> Turn:
    """Ask for what is missing: for an order alone by a question, once; else in words."""
    alone = len(lacking) == 1 and lacking[0].missing == ("order_id",)
    if alone and ASK in tools and not any(made.name == ASK for made in talk.made):
        return Turn(calls=[(ASK, {"question": "Which order is it? Its number will do."})])
    return Turn(text=reports.question(lacking))


def _corrected(talk: Talk, tools: dict[str, Values]) -> Turn:
    """Propose the last calls anew with the values a correction names, unless they may have run."""
    again = [
        made
        for made in talk.earlier
        if made.name in tools
        and not (made.outcome and made.outcome.status in ("succeeded", "unknown", ""))
    ]
    if not again:
        ran = "What I proposed before has run already, or there was nothing to change."
        return Turn(text=f"{ran} Please tell me the whole new request.")
    named = phrases.corrected(talk.request)
    if not any(named.keys() & made.arguments.keys() for made in again):
        return Turn(text="What is it to be? I need an order number, a reason or an amount in EUR.")
    calls = []
    for made in again:
        values = {key: value for key, value in named.items() if key in made.arguments}
        if why := made.arguments.get(REASON_FIELD):
            values[REASON_FIELD] = f"{why} Then: “{talk.request}”."[:MOST_OF_REASON]
        calls.append((made.name, {**made.arguments, **values}))
    return Turn(calls=calls)
