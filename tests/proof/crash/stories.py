"""The stories that are told many times, each time struck at another step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bot.config.connection_settings import Transport
from tests.proof.crash.enrolling import Countersign, Enrol
from tests.proof.crash.minds import (
    ANSWER,
    ASIDE,
    Mind,
    delegate_call,
    delegate_twice,
    propose_and_chat,
    propose_calls,
    propose_each_time,
)
from tests.proof.crash.outside import Change, Wait
from tests.proof.crash.people import Act, Fill, Hear, Press, Say
from tests.proof.crash.program import make_program_acts
from tests.proof.crash.signing import Sign
from tests.stories.steps import typed

POLICY = """
[defaults]
approvers = ["@shop-leads"]
deadline = "1h"

[[rule]]
tool = "peek"
verdict = "allow"
"""
THREE_APPROVERS = """
[defaults]
approvers = ["UANA00001", "UCLEO0001", "UDAN00001"]
quorum = 3
"""
BREAK_GLASS = """
[defaults]
approvers = ["UCLEO0001", "UDAN00001"]
quorum = 2
break_glass = ["UANA00001"]
urgent = true  # at some hours of the machine's clock both of them sleep
"""
REMEMBERS = """
[defaults]
approvers = ["@shop-leads"]

[[rule]]
tool = "note"
verdict = "ask"
remember = [{}]
"""
SIGNED = """
[defaults]
approvers = ["UANA00001", "UCLEO0001"]
quorum = 2
signature = "passkey"
"""
STRICTER = """
[defaults]
approvers = ["@finance"]
"""
LEADS = frozenset({"UANA00001", "UCLEO0001"})


@dataclass(frozen=True)
class Story:
    """One story: what the model does, what people do, and which effects it may have."""

    name: str
    mind: Mind
    acts: Callable[[], list[Act]]  # new ones for each telling
    policy: str = POLICY
    may: Mapping[str, int] = field(default_factory=dict)  # effects by text, and how often at most
    needs: int = 1  # votes of `allowed`
    allowed: frozenset[str] = LEADS
    over: Transport = Transport.SOCKET  # HTTP: as `countersign serve`, for programs
    served: bool = False  # with an MCP server that asks somebody during its calls


def _note(text: str) -> tuple[str, dict[str, Any]]:
    return "note", {"text": text}


def _type_text(text: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda view: typed(text=text)


def _give_reason(view: dict[str, Any]) -> dict[str, Any]:
    options = next(b["element"]["options"] for b in view["blocks"] if b.get("block_id") == "reason")
    other = next(option for option in options if option["value"] == "other")
    words = {"text": {"value": "not this week"}}
    return {"reason": {"preset": {"selected_option": other}}, "words": words}


def _remember(view: dict[str, Any]) -> dict[str, Any]:
    [block] = [b for b in view["blocks"] if b.get("block_id") == "remember"]
    return {"remember": {"offer": {"selected_option": block["element"]["options"][0]}}}


def _explain_emergency(view: dict[str, Any]) -> dict[str, Any]:
    return {"words": {"text": {"value": "nobody is awake"}}}


def _fill_form(view: dict[str, Any]) -> dict[str, Any]:
    return typed(text="milk") | {"why": {"text": {"value": "there is none"}}}


QUESTION = ("ask_person", {"question": "Is the parcel here?", "kind": "yes_no"})
PLAN = (_note("one"), ("refuse", {"text": "two"}), _note("three"))
LOOKS_FIRST = (("peek", {"text": "the shelf"}), _note("seen"))


def _say(text: str = "@bot please", *, beside: bool = False) -> Say:
    return Say(text, beside=beside)


STORIES = (
    Story(
        "approve",
        propose_calls(_note("it")),
        lambda: [_say(), Press("ana", "approve"), Hear(ANSWER)],
        may={"it": 1},
    ),
    Story(
        "edit, then approve",
        propose_calls(_note("draft")),
        lambda: [
            _say(),
            Fill("ana", "edit", _type_text("final")),
            Press("cleo", "approve"),
            Hear(ANSWER),
        ],
        may={"final": 1},
    ),
    Story(
        "reject",
        propose_calls(_note("no")),
        lambda: [_say(), Fill("ana", "reject", _give_reason), Hear(ANSWER)],
    ),
    Story(
        "expire",
        propose_calls(_note("late")),
        lambda: [_say(), Hear("late"), Wait(3700), Hear(ANSWER)],
    ),
    Story(
        "quorum of three",
        propose_calls(_note("three")),
        lambda: [
            _say(),
            *(Press(who, "approve") for who in ("ana", "cleo", "dan")),
            Hear(ANSWER),
        ],
        THREE_APPROVERS,
        may={"three": 1},
        needs=3,
        allowed=LEADS | {"UDAN00001"},
    ),
    Story(
        "break glass",
        propose_calls(_note("at once")),
        lambda: [
            _say(),
            Fill("ana", "break_glass", _explain_emergency),
            Hear(ANSWER),
            Hear("please look at what"),
            Press("cleo", "looked_at"),
        ],
        BREAK_GLASS,
        may={"at once": 1},
        allowed=frozenset({"UANA00001"}),
    ),
    Story(
        "signed by two",
        propose_calls(_note("signed")),
        lambda: [_say(), Sign("ana"), Sign("cleo"), Hear(ANSWER)],
        SIGNED,
        may={"signed": 1},
        needs=2,
    ),
    Story(
        "a passkey that another approves",
        propose_calls(_note("signed")),
        lambda: [Enrol("ana"), Countersign("cleo", "ana")],
        SIGNED,
    ),
    Story(
        "plan whose second step fails",
        propose_calls(*PLAN),
        lambda: [_say(), Press("ana", "approve_all"), Hear(ANSWER)],
        may={"one": 1},
    ),
    Story(
        "look at once, then approve",
        propose_calls(*LOOKS_FIRST),
        lambda: [_say(), Press("ana", "approve"), Hear(ANSWER)],
        may={"the shelf": 9, "seen": 1},
    ),
    Story(
        "may be repeated",
        propose_calls(("put", {"text": "value"})),
        lambda: [_say(), Press("ana", "approve"), Hear(ANSWER)],
        may={"value": 9},
    ),
    Story(
        "question",
        propose_calls(QUESTION),
        lambda: [_say(), Press("ben", "choose_1"), Hear(ANSWER)],
    ),
    Story(
        "form",
        propose_calls(),
        lambda: [
            Fill("ben", "/approvals request note", _fill_form),
            Press("ana", "approve"),
            Hear("milk"),
        ],
        may={"milk": 1},
    ),
    Story(
        "sub-agent",
        delegate_call("write it down", _note("errand")),
        lambda: [_say(), Press("ana", "approve"), Hear(ANSWER)],
        may={"errand": 1},
    ),
    Story(
        "sub-agent of a sub-agent",
        delegate_twice(QUESTION, _note("draft"), ("lose", {"text": "parcel"})),
        lambda: [
            _say(),
            Press("ben", "choose_1"),
            Fill("ana", "edit", _type_text("final")),
            Press("cleo", "approve"),
            Press("ana", "approve", unless=ANSWER),  # Cleo may have clicked that one as well
            Hear(ANSWER),
        ],
        may={"final": 1, "parcel": 1},
    ),
    Story(
        "remembered grant",
        propose_each_time(_note("daily")),
        lambda: [
            _say(),
            Fill("ana", "review", _remember),
            Hear(ANSWER),
            _say("@bot once more", beside=True),
            Hear(ANSWER, times=2),
        ],
        REMEMBERS,
        may={"daily": 2},
    ),
    Story(
        "cancel",
        propose_calls(_note("never")),
        lambda: [_say(), Hear("never"), _say("@bot cancel", beside=True), Hear("ancelled")],
    ),
    Story(
        "asked again",
        propose_calls(("empty", {"text": "history"})),
        lambda: [
            _say(),
            Hear("3 books"),
            Change("shelf", "5"),
            Press("ana", "approve"),
            Hear("5 books", unless=ANSWER),
            Press("ana", "approve", unless=ANSWER),
            Hear(ANSWER),
        ],
        may={"history": 1},
    ),
    Story(
        "policy changed",
        propose_calls(_note("strict")),
        lambda: [
            _say(),
            Hear("strict"),
            Change("policy.toml", STRICTER),
            Press("cleo", "approve"),
            Hear(ANSWER),
        ],
        may={"strict": 1},
        allowed=frozenset({"UCLEO0001"}),
    ),
    Story(
        "nobody knows",
        propose_calls(("lose", {"text": "parcel"})),
        lambda: [_say(), Press("ana", "approve"), Hear(ANSWER)],
        may={"parcel": 1},
    ),
    Story(
        "server asks",
        propose_calls(("desk_shelve", {"text": "vase"})),
        lambda: [
            _say(),
            Press("ana", "approve"),
            Press("ben", "choose_1", unless=ANSWER),
            Hear(ANSWER),
        ],
        may={"vase": 1},
        served=True,
    ),
    Story(
        "side turn",
        propose_and_chat(_note("aside"), "what will it do?"),
        lambda: [
            _say(),
            Hear("aside"),
            _say("@bot what will it do?", beside=True),
            Hear(ASIDE),
            Press("ana", "approve"),
            Hear(ANSWER),
        ],
        may={"aside": 1},
    ),
    Story(
        "program",
        propose_calls(),
        lambda: make_program_acts("release", Press("ana", "approve")),
        may={"release": 1},
        over=Transport.HTTP,
    ),
)
BY_NAME = {story.name: story for story in STORIES}
