"""The built-in brain of the stand-in planner: a transcript and tools in, one turn out.

It is rules, not a language model, and says so. It plans from the newest request only; what others
said earlier in a thread, and what tools returned, is data to it and never an order.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from bot.sandbox.openai import answers as answers
from bot.sandbox.openai import words as words
from bot.sandbox.openai.arguments import Clause, fill
from bot.sandbox.openai.tools import REASON_FIELD, Tool, begins_action, kind, pick, tools_of
from bot.sandbox.openai.wire import Turn

HELLO = re.compile(
    r"^(?:hi|hello|hey|good (?:morning|day|evening)|moin|hallo|yo)\b[\s!.,]*(?:there|bot|all)?[\s!.]*$",
    re.I,
)
HELP = re.compile(
    r"^\W*help\b|what (?:can|do) you|who are you|what are you|how do(?:es)? (?:i|this|you)|are you (?:a|an)\b",
    re.I,
)
THANKS = re.compile(
    r"^\W*(?:thanks|thank you|thx|great|perfect|cool|nice|danke)"
    r"(?:[\s,]+(?:a lot|so much|very much|again|all|bot|thanks))*\W*$",
    re.I,
)
NEVER_MIND = re.compile(
    r"^\W*(?:never ?mind|forget (?:it|that)|stop|leave it|cancel|cancel (?:it|that|this))\W*$", re.I
)
CONSENT = re.compile(
    r"^\W*(?:yes|yep|approved?|go ahead|do it|ok(?:ay)?|confirm(?:ed)?|lgtm)(?: (?:it|that|this))?\W*$",
    re.I,
)
CORRECTION = re.compile(
    r"\b(?:instead|rather|make (?:it|that|them)|actually|i meant|try (?:it |that )?again|again|only"
    r"|change (?:it|that) to)\b",
    re.I,
)
PRONOUN = re.compile(r"\b(?:it|its|that|this|them|there|the same|same)\b", re.I)
HISTORY = re.compile(
    r"^[^\n]*\b(?:earlier|before|history|context|quoted)\b[^\n]*\n(?:.*\n)*?\s*(?:>|&gt;)", re.I
)
LONGEST = 8_000  # characters of a request; some of the patterns take a while on more
MOST = 30  # orders in one request
AMOUNT_KEYS = ("left_to_refund", "refundable", "left", "total", "amount", "paid", "price")


@dataclass
class Made:
    """A call of the transcript and, once it is there, its output."""

    name: str
    arguments: dict[str, Any]
    outcome: answers.Outcome | None = None


@dataclass
class Talk:
    """A transcript, read: the newest request, what was done for it, and what came before."""

    request: str = ""
    asked: bool = False  # the newest words are a person's, not a tool's
    made: list[Made] = field(default_factory=list)  # calls since the request
    earlier: list[Made] = field(default_factory=list)  # the last calls before it
    previous: str = ""  # the request before
    said: str = ""  # what the assistant said last
    spoke: bool = False  # the assistant has said something in this conversation


def plan(body: dict[str, Any]) -> Turn:
    """The next turn for a request body that `planner_checks` has let through."""
    tools, talk = tools_of(body), read(body)
    now = _now(str(body.get("instructions") or ""))
    turn = (
        _after_calls(talk, tools, now)
        if talk.made and not talk.asked
        else _on_request(talk, tools, now)
    )
    if body.get("parallel_tool_calls") is False:
        turn = replace(turn, calls=turn.calls[:1])
    if turn.text and not turn.calls and not talk.spoke and "offline stand-in" not in turn.text:
        turn = replace(turn, text=f"{turn.text}\n\n{answers.NOTICE}")
    return turn


def read(body: dict[str, Any]) -> Talk:
    """Read the transcript of a request body."""
    source = body["input"]
    items = [{"role": "user", "content": source}] if isinstance(source, str) else source
    bots = set(re.findall(r"<@([UW]\w+)>", str(body.get("instructions") or "")))
    talk, open_calls, fresh = Talk(), {}, False
    for item in items:
        match item.get("type", "message"), item.get("role"):
            case "message", "user":
                text = _text(item["content"])
                if HISTORY.match(text) and not words.AUTHOR.match(text):
                    continue  # what was said before, quoted as data
                said = words.request_of(text, bots)
                if fresh:
                    talk.request = f"{talk.request}. {said}".strip(". ") if said else talk.request
                else:
                    talk.previous, talk.request = talk.request, said
                    talk.earlier, talk.made, fresh = talk.made or talk.earlier, [], True
                talk.asked = True
            case "message", "assistant":
                talk.said, talk.spoke, talk.asked, fresh = (
                    _text(item["content"]),
                    True,
                    False,
                    False,
                )
            case "function_call", _:
                made = Made(item["name"], _arguments(item["arguments"]))
                talk.made.append(made)
                open_calls[item["call_id"]] = made
                talk.asked = fresh = False
            case "function_call_output", _:
                open_calls[item["call_id"]].outcome = answers.outcome_of(_text(item["output"]))
    return talk


def _text(content: Any) -> str:
    return (
        content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)
    )


def _arguments(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _now(instructions: str) -> datetime:
    """The time the instructions name, so that a moved clock counts; else the machine's."""
    named = re.search(
        r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?:Z|\+00:00| ?UTC)?", instructions
    )
    found = words.moment(named[0], datetime.now(UTC)) if named else None
    return found or datetime.now(UTC)


def _on_request(talk: Talk, tools: list[Tool], now: datetime) -> Turn:
    request = talk.request
    if len(request) > LONGEST:
        return Turn(
            text=f"That is more than I can read: my rules take {LONGEST:,} characters at most."
        )
    if len(_clauses(words.Masked(request), tools)) > MOST:
        return Turn(text=f"That is more than I can plan: my rules take {MOST} steps at most.")
    if NEVER_MIND.match(request):
        return Turn(text="All right, I leave it at that.")
    if THANKS.match(request):
        return Turn(text="You are welcome.")
    if CONSENT.match(request) and talk.earlier:
        return Turn(text="Words do not approve anything here: the buttons on the card do.")
    if not request or HELLO.match(request) or HELP.search(request):
        return Turn(text=answers.help_text(tools))
    if CORRECTION.search(request) and talk.earlier and not _plans_alone(request, tools):
        return _corrected(talk, tools, now)
    if talk.said.rstrip().removesuffix(answers.NOTICE).rstrip().endswith("?") and not _plans_alone(
        request, tools
    ):
        request = _completed(talk, tools, now)
    return _proposal(replace(talk, request=request), tools, now)


def _plans_alone(request: str, tools: list[Tool]) -> bool:
    return any(pick(tools, each, bare=False) for each in _clauses(words.Masked(request), tools))


def _clauses(masked: words.Masked, tools: list[Tool]) -> list[str]:
    return words.clauses(masked.text, lambda text: begins_action(tools, text))


def _completed(talk: Talk, tools: list[Tool], now: datetime) -> str:
    """The request before, completed by the answer to the question about it."""
    _, missing = _propose(replace(talk, request=talk.previous), tools, now)
    answer, before = talk.request, talk.previous.rstrip(" .!?")
    if not missing:
        return answer
    tool, names = missing[0]
    field_name = names[0]
    if "." in field_name:
        return f"{before}, {answer}"
    number = re.fullmatch(rf"\D{{0,20}}?({words.NUMBER})\D{{0,10}}", answer)
    if number and field_name == tool.id_field:
        return f"{before} ({(tool.nouns or ['number'])[0]} {number[1]})"
    if number and kind(tool.properties[field_name]) == "number":
        return f"{before} ({number[1]} EUR)"
    if field_name == "channel":
        return (
            f"{before} in #{answer.strip('# .')}"
            if re.fullmatch(r"#?[\w-]+\.?", answer)
            else f"{before} {answer}"
        )
    return f"{before} “{answer}”" if "“" not in before else f"{before}: {answer}"


def _proposal(talk: Talk, tools: list[Tool], now: datetime) -> Turn:
    calls, missing = _propose(talk, tools, now)
    if missing:
        reads = _reads_for(missing, calls, talk, tools)
        return (
            Turn(calls=reads)
            if reads
            else Turn(text=answers.question([(tool, names) for tool, names in missing]))
        )
    if calls:
        return Turn(calls=[(tool.name, arguments) for tool, arguments in calls])
    return Turn(text=f"I could not make out what to do.\n\n{answers.help_text(tools)}")


Calls = list[tuple[Tool, dict[str, Any]]]
Missing = list[tuple[Tool, list[str]]]


def _propose(talk: Talk, tools: list[Tool], now: datetime) -> tuple[Calls, Missing]:
    """(the calls the request asks for, what they lack)."""
    masked = words.Masked(talk.request)
    calls: Calls = []
    missing: Missing = []
    known: dict[str, Any] = {}
    if PRONOUN.search(talk.request):
        for made in talk.earlier:
            known |= {
                k: v
                for k, v in made.arguments.items()
                if k.endswith("_id") or k in ("channel", "name")
            }
    facts = _facts(talk.made)
    for text in _clauses(masked, tools):
        tool = pick(tools, text)
        if tool is None:
            continue
        told = " ".join(answers.news(*each) for each in calls if not each[0].reads)
        clause = Clause(text, masked, talk.request, now, known, told, facts)
        sets, lacks = fill(tool, clause)
        if lacks:
            missing.append((tool, lacks))
        known = {
            **known,
            **{k: v for values in sets for k, v in values.items() if k != REASON_FIELD},
        }
        calls += [(tool, values) for values in sets]
    return calls, missing


def _facts(made: list[Made]) -> dict[int, str]:
    """Amounts that were looked up, by the id they belong to."""
    found: dict[int, str] = {}
    for each in made:
        result = (
            each.outcome.result if each.outcome and each.outcome.status == "succeeded" else None
        )
        target = next((v for v in each.arguments.values() if isinstance(v, int)), None)
        if not isinstance(result, dict) or target is None:
            continue
        for key in AMOUNT_KEYS:
            if amount := re.search(words.NUMBER, str(result.get(key, ""))):
                found[target] = words.decimal_text(amount[0])
                break
    return found


def _reads_for(
    missing: Missing, calls: Calls, talk: Talk, tools: list[Tool]
) -> list[tuple[str, dict[str, Any]]]:
    """Look-ups that can supply a missing amount, unless they were made already."""
    reads = []
    for tool, names in missing:
        if names != ["amount"] or not tool.id_field:
            return []
        look = next((t for t in tools if t.reads and t.required == [tool.id_field]), None)
        for target in [
            values[tool.id_field]
            for each, values in calls
            if each is tool and tool.id_field in values
        ]:
            if look is None or any(
                look.name == m.name and target in m.arguments.values() for m in talk.made
            ):
                return []
            reads.append((look.name, {tool.id_field: target}))
    return reads


def _after_calls(talk: Talk, tools: list[Tool], now: datetime) -> Turn:
    """After outputs: the writes that waited for a look-up, or a truthful report."""
    reading = {tool.name for tool in tools if tool.reads}
    only_reads = all(made.name in reading for made in talk.made)
    ask = ""
    if only_reads and all(_succeeded(made) for made in talk.made):
        calls, missing = _propose(talk, tools, now)
        waiting = [(tool.name, values) for tool, values in calls if not tool.reads]
        if waiting and not missing:
            return Turn(calls=waiting)
        ask = answers.question(missing)
    # what was only looked up on the way to an action is not told again
    told = [
        made for made in talk.made if only_reads or made.name not in reading or not _succeeded(made)
    ]
    lines = [
        answers.report(made.name, made.arguments, made.outcome, reads=made.name in reading)
        for made in told
        if made.outcome
    ]
    return Turn(text="\n\n".join([*lines, ask] if ask else lines))


def _succeeded(made: Made) -> bool:
    return made.outcome is not None and made.outcome.status == "succeeded"


def _corrected(talk: Talk, tools: list[Tool], now: datetime) -> Turn:
    """The last calls again, with the values the correction names.

    What already ran is not touched.
    """
    by_name = {tool.name: tool for tool in tools if not tool.reads}
    again = [
        (by_name[made.name], made)
        for made in talk.earlier
        if made.name in by_name
        and not (made.outcome and made.outcome.status in ("succeeded", "unknown"))
    ]
    if not again:
        ran = "What I proposed before has run already, or there was nothing to change."
        return Turn(text=f"{ran} Please tell me the whole new request.")
    masked = words.Masked(talk.request)
    request = f"{talk.previous}” and then “{talk.request}" if talk.previous else talk.request
    calls = []
    for tool, made in again:
        clause = Clause(masked.text, masked, request, now, made.arguments, guess=False)
        calls.append((tool.name, {**made.arguments, **fill(tool, clause)[0][0]}))
    return Turn(calls=calls)
