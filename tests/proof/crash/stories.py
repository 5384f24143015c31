"""The stories that are told again and again, each time struck at another step."""

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
    chats_beside,
    each_time,
    hands_on,
    hands_on_twice,
    proposes,
)
from tests.proof.crash.outside import Change, Wait
from tests.proof.crash.people import Act, Fill, Hear, Press, Say
from tests.proof.crash.program import asks_claims_reports
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
THREE = """
[defaults]
approvers = ["UANA00001", "UCLEO0001", "UDAN00001"]
quorum = 3
"""
GLASS = """
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
    """One story: what the model does, what people do, and what may come of it."""

    name: str
    mind: Mind
    acts: Callable[[], list[Act]]  # anew for each telling
    policy: str = POLICY
    may: Mapping[str, int] = field(default_factory=dict)  # effects by text, and how many at most
    needs: int = 1  # votes of these
    allowed: frozenset[str] = LEADS
    over: Transport = Transport.SOCKET  # HTTP: as `countersign serve`, which programs ask
    served: bool = False  # an MCP server is there, which asks somebody amid its calls


def _note(text: str) -> tuple[str, dict[str, Any]]:
    return "note", {"text": text}


def _words(text: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda view: typed(text=text)


def _because(view: dict[str, Any]) -> dict[str, Any]:
    options = next(b["element"]["options"] for b in view["blocks"] if b.get("block_id") == "reason")
    other = next(option for option in options if option["value"] == "other")
    words = {"text": {"value": "not this week"}}
    return {"reason": {"preset": {"selected_option": other}}, "words": words}


def _remember(view: dict[str, Any]) -> dict[str, Any]:
    [block] = [b for b in view["blocks"] if b.get("block_id") == "remember"]
    return {"remember": {"offer": {"selected_option": block["element"]["options"][0]}}}


def _alone(view: dict[str, Any]) -> dict[str, Any]:
    return {"words": {"text": {"value": "nobody is awake"}}}


def _why(view: dict[str, Any]) -> dict[str, Any]:
    return typed(text="milk") | {"why": {"text": {"value": "there is none"}}}


QUESTION = ("ask_person", {"question": "Is the parcel here?", "kind": "yes_no"})
PLAN = (_note("one"), ("refuse", {"text": "two"}), _note("three"))
LOOKS_FIRST = (("peek", {"text": "the shelf"}), _note("seen"))


def _say(text: str = "@bot please", *, beside: bool = False) -> Say:
    return Say(text, beside=beside)


STORIES = (
    Story(
        "approve",
        proposes(_note("it")),
        lambda: [_say(), Press("ana", "approve"), Hear(ANSWER)],
        may={"it": 1},
    ),
    Story(
        "edit, then approve",
        proposes(_note("draft")),
        lambda: [
            _say(),
            Fill("ana", "edit", _words("final")),
            Press("cleo", "approve"),
            Hear(ANSWER),
        ],
        may={"final": 1},
    ),
    Story(
        "reject",
        proposes(_note("no")),
        lambda: [_say(), Fill("ana", "reject", _because), Hear(ANSWER)],
    ),
    Story(
        "expire",
        proposes(_note("late")),
        lambda: [_say(), Hear("late"), Wait(3700), Hear(ANSWER)],
    ),
    Story(
        "quorum of three",
        proposes(_note("three")),
        lambda: [
            _say(),
            *(Press(who, "approve") for who in ("ana", "cleo", "dan")),
            Hear(ANSWER),
        ],
        THREE,
        may={"three": 1},
        needs=3,
        allowed=LEADS | {"UDAN00001"},
    ),
    Story(
        "break glass",
        proposes(_note("at once")),
        lambda: [
            _say(),
            Fill("ana", "break_glass", _alone),
            Hear(ANSWER),
            Hear("please look at what"),
            Press("cleo", "looked_at"),
        ],
        GLASS,
        may={"at once": 1},
        allowed=frozenset({"UANA00001"}),
    ),
    Story(
        "signed by two",
        proposes(_note("signed")),
        lambda: [_say(), Sign("ana"), Sign("cleo"), Hear(ANSWER)],
        SIGNED,
        may={"signed": 1},
        needs=2,
    ),
    Story(
        "a passkey that another approves",
        proposes(_note("signed")),
        lambda: [Enrol("ana"), Countersign("cleo", "ana")],
        SIGNED,
    ),
    Story(
        "plan whose second step fails",
        proposes(*PLAN),
        lambda: [_say(), Press("ana", "approve_all"), Hear(ANSWER)],
        may={"one": 1},
    ),
    Story(
        "look at once, then approve",
        proposes(*LOOKS_FIRST),
        lambda: [_say(), Press("ana", "approve"), Hear(ANSWER)],
        may={"the shelf": 9, "seen": 1},
    ),
    Story(
        "may be repeated",
        proposes(("put", {"text": "value"})),
        lambda: [_say(), Press("ana", "approve"), Hear(ANSWER)],
        may={"value": 9},
    ),
    Story(
        "question",
        proposes(QUESTION),
        lambda: [_say(), Press("ben", "choose_1"), Hear(ANSWER)],
    ),
    Story(
        "form",
        proposes(),
        lambda: [
            Fill("ben", "/approvals request note", _why),
            Press("ana", "approve"),
            Hear("milk"),
        ],
        may={"milk": 1},
    ),
    Story(
        "sub-agent",
        hands_on("write it down", _note("errand")),
        lambda: [_say(), Press("ana", "approve"), Hear(ANSWER)],
        may={"errand": 1},
    ),
    Story(
        "sub-agent of a sub-agent",
        hands_on_twice(QUESTION, _note("draft"), ("lose", {"text": "parcel"})),
        lambda: [
            _say(),
            Press("ben", "choose_1"),
            Fill("ana", "edit", _words("final")),
            Press("cleo", "approve"),
            Press("ana", "approve", unless=ANSWER),  # Cleo may have pressed that one as well
            Hear(ANSWER),
        ],
        may={"final": 1, "parcel": 1},
    ),
    Story(
        "remembered grant",
        each_time(_note("daily")),
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
        proposes(_note("never")),
        lambda: [_say(), Hear("never"), _say("@bot cancel", beside=True), Hear("ancelled")],
    ),
    Story(
        "asked again",
        proposes(("empty", {"text": "history"})),
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
        proposes(_note("strict")),
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
        proposes(("lose", {"text": "parcel"})),
        lambda: [_say(), Press("ana", "approve"), Hear(ANSWER)],
        may={"parcel": 1},
    ),
    Story(
        "server asks",
        proposes(("desk_shelve", {"text": "vase"})),
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
        chats_beside(_note("aside"), "what will it do?"),
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
        proposes(),
        lambda: asks_claims_reports("release", Press("ana", "approve")),
        may={"release": 1},
        over=Transport.HTTP,
    ),
)
BY_NAME = {story.name: story for story in STORIES}
