"""What runs is what was shown: altered rows, changed tools and policies, malformed calls."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from pydantic import BaseModel, Field, field_validator

from bot.approvals.edits import TOOL_CHANGED_ERROR
from bot.cards.answers import TOOL_CHANGED_REPLY
from bot.demo.model_server import Turn
from bot.tools import Effect, Tool, ToolContext, tool
from storage.models import Audit, Vote
from storage.states import RunStatus
from tests.model_stand_in.answers import OddTurn
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import action_ids, value_of, words
from tests.stories.steps import (
    arrived,
    ask,
    now_at,
    on_top,
    open_modal,
    press,
    told,
    typed,
    waiting,
)

DENIES = """
[defaults]
approvers = ["@shop-leads"]

[[rule]]
tool = "note"
verdict = "deny"
reason = "notes are frozen until Monday"
"""
STRICTER = """
[defaults]
approvers = ["@finance"]
post_to = "C0FINANCE"
"""

BOTH = """
[defaults]
approvers = ["UANA00001", "UCLEO0001"]
quorum = 2
"""


def statuses(harness: Harness, thread: str) -> list[str]:
    return [str(call.status) for call in harness.calls_in(thread)]


def tamper(harness: Harness, table: str, statement: str, *values: str) -> None:
    """Change the database as somebody could who can write its file."""
    harness.was_tampered_with = True
    raw = sqlite3.connect(harness.folder / "countersign.db", timeout=10, isolation_level=None)
    guards = raw.execute(
        "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = ?", (table,)
    )
    kept = guards.fetchall()
    for name, _ in kept:
        raw.execute(f"DROP TRIGGER {name}")
    assert raw.execute(statement, values).rowcount == 1
    for _, sql in kept:
        raw.execute(sql)
    raw.close()


ALTERED = [
    (
        "revision",
        "UPDATE revision SET arguments = replace(arguments, 'honest', 'crooked') WHERE call_id = ?",
    ),
    ("revision", "UPDATE revision SET digest = '00' WHERE call_id = ?"),
    (
        "call",
        "UPDATE call SET gate = replace(gate, 'shop-leads', 'everybody-')"
        " WHERE id = ? AND gate LIKE '%shop-l%'",
    ),
    ("call", "UPDATE call SET tool = 'wipe' WHERE id = ?"),
]


@pytest.mark.file
@pytest.mark.parametrize(
    ("table", "statement"), ALTERED, ids=["arguments", "digest", "gate", "tool"]
)
def test_what_was_altered_in_storage_is_refused(
    harness: Harness, fakes: FakeTools, table: str, statement: str
) -> None:
    """It is altered after the approval: it does not run, and card, model and audit say why."""
    text = f"honest {table} {len(statement)}"
    thread = ask(
        harness, ("note", {"text": text}), ("peek", {"text": text}), ("put", {"text": text})
    )
    card = harness.card(SUPPORT, thread)
    harness.person("ana").click(SUPPORT, card["ts"], "approve", value=value_of(card, "approve", 0))
    harness.slack.wait(lambda: statuses(harness, thread) == ["approved", "succeeded", "pending"])
    harness.settle()
    altered = harness.calls_in(thread)[0]
    tamper(harness, table, statement, altered.id)
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    harness.said(SUPPORT, thread, "That is all.")
    harness.settle()
    assert statuses(harness, thread) == ["invalidated", "succeeded", "succeeded"]
    assert harness.outputs()[0]["output"].startswith("INVALIDATED: it was not run")
    assert "call.invalidated" in harness.audit_of(altered)
    assert "call.running" not in harness.audit_of(altered)
    effects = [
        name
        for (name, did), _ in fakes.ran.items()
        if did in (text, text.replace("honest", "crooked"))
    ]
    assert sorted(effects) == ["peek", "put"]
    assert "No longer valid" in words(now_at(harness, SUPPORT, card["ts"]))


class ChangedNote(BaseModel):
    text: str = Field(title="Text", max_length=20_000)
    copies: int = Field(1, title="Copies")


def build_changed_note(fakes: FakeTools, name: str = "note") -> Tool[Any]:
    @tool(title="Write a note", effect="Write “{text}”", does=Effect.WRITE, name=name)
    def another(args: ChangedNote, context: ToolContext) -> str:
        fakes.ran[("note", args.text)] += 1
        return "noted in another way"

    return another


def build_reworded_note(fakes: FakeTools) -> Tool[Any]:
    """Build the tool `note` with another sentence of what it does."""
    return replace(next(t for t in fakes.tools if t.name == "note"), effect="Delete “{text}”")


@pytest.fixture
def deployed(own_harness: Callable[..., Harness]) -> Iterator[tuple[Harness, FakeTools]]:
    """A bot that can be restarted with other tools and policies, and its tools."""
    fakes = FakeTools()
    return own_harness(fakes.tools), fakes  # type: ignore[return-value]  # nothing to end: own_world does


def test_a_call_whose_tools_effect_sentence_changed_does_not_run(
    deployed: tuple[Harness, FakeTools],
) -> None:
    """It was approved as “Write …”, and the tool now says “Delete …”."""
    harness, fakes = deployed
    thread = ask(harness, ("note", {"text": "old words"}), ("put", {"text": "sibling"}))
    card = harness.card(SUPPORT, thread)
    harness.person("ana").click(SUPPORT, card["ts"], "approve", value=value_of(card, "approve", 0))
    harness.slack.wait(lambda: statuses(harness, thread) == ["approved", "pending"])
    harness.settle()
    harness.tools = [build_reworded_note(fakes), *(t for t in fakes.tools if t.name != "note")]
    harness.restart()
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    harness.said(SUPPORT, thread, "That is all.")
    harness.settle()
    assert statuses(harness, thread) == ["invalidated", "succeeded"]
    assert "what would run is not what was shown" in harness.outputs()[0]["output"]
    assert not fakes.did("note", "old words")
    thread = ask(harness, ("note", {"text": "new words"}))
    harness.person("ana").click(SUPPORT, harness.card(SUPPORT, thread)["ts"], "approve")
    harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("note", "new words") == 1


def test_a_changed_tool_a_missing_tool_and_a_denial(deployed: tuple[Harness, FakeTools]) -> None:
    """After a restart with another schema, without the tool or with a denial nothing runs."""
    harness, fakes = deployed
    thread = ask(harness, ("note", {"text": "schema"}), ("put", {"text": "gone"}))
    card = harness.card(SUPPORT, thread)
    harness.settle()
    harness.tools = [
        build_changed_note(fakes),
        *(t for t in fakes.tools if t.name not in ("note", "put")),
    ]
    harness.restart()
    harness.person("ana").click(SUPPORT, card["ts"], "approve_all")
    harness.said(SUPPORT, thread, "That is all.")
    harness.settle()
    assert statuses(harness, thread) == ["invalidated", "invalidated"]
    outputs = [o["output"] for o in harness.outputs()]
    assert "the tool has changed since this was shown" in outputs[0]
    assert "the tool is no longer there" in outputs[1]
    assert harness.run_in(thread).status is RunStatus.COMPLETED
    assert "No longer valid" in words(now_at(harness, SUPPORT, card["ts"]))

    thread = ask(harness, ("note", {"text": "denied"}))
    card = harness.card(SUPPORT, thread)
    harness.policy = DENIES
    harness.restart()
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    harness.said(SUPPORT, thread, "That is all.")
    harness.settle()
    assert statuses(harness, thread) == ["invalidated"]
    assert "policy now forbids it: notes are frozen until Monday" in harness.outputs()[-1]["output"]
    assert "notes are frozen" in words(now_at(harness, SUPPORT, card["ts"]))
    assert not sum(fakes.ran.values())


SHOUTING: list[bool] = []  # whether the tool below has been changed


class Said(BaseModel):
    """What is said; a change of its validator does not change its schema."""

    text: str

    @field_validator("text")
    @classmethod
    def shout(cls, text: str) -> str:
        """Make it loud."""
        return text.upper() if SHOUTING else text


@tool(title="Say", effect="Say {text}", does=Effect.WRITE)
def say(args: Said, context: ToolContext) -> str:
    """Say something."""
    raise AssertionError(f"it has said {args.text}")


def test_arguments_that_a_tool_now_reads_differently_do_not_run(
    own_harness: Callable[..., Harness],
) -> None:
    """Its schema is the same, but what it makes of the stored text is not what was shown."""
    harness = own_harness([say])
    thread = ask(harness, ("say", {"text": "quietly"}))
    card = harness.card(SUPPORT, thread)
    SHOUTING.append(True)
    try:
        harness.person("ana").click(SUPPORT, card["ts"], "approve", seen=card)
        harness.said(SUPPORT, thread, "That is all.")
        harness.settle()
    finally:
        SHOUTING.clear()
    assert statuses(harness, thread) == ["invalidated"]
    assert "run differently from how they were shown" in harness.outputs()[-1]["output"]


def test_a_call_of_a_changed_tool_cannot_be_edited(deployed: tuple[Harness, FakeTools]) -> None:
    """It would not run, and the open dialog and the button say so."""
    harness, fakes = deployed
    thread = waiting(harness, ("note", {"text": "to be edited"}))
    card = harness.card(SUPPORT, thread)
    open_modal(harness, "ana", SUPPORT, card, "edit")
    harness.tools = [build_changed_note(fakes), *(t for t in fakes.tools if t.name != "note")]
    harness.restart()
    assert harness.person("ana").submit(typed(text="edited"))["outcome"] == "updated"
    assert TOOL_CHANGED_ERROR in on_top(harness, "ana")
    press(harness, "cleo", SUPPORT, card, "edit")
    told(harness, "cleo", SUPPORT, thread, TOOL_CHANGED_ERROR)
    assert statuses(harness, thread) == ["pending"]


def test_a_changed_tools_call_ends_at_first_approval(
    own_harness: Callable[..., Harness],
) -> None:
    """Two approvals are needed; the first person to approve is told, and no vote is stored."""
    fakes = FakeTools()
    harness = own_harness(fakes.tools, BOTH)
    thread = ask(harness, ("note", {"text": "in vain"}), ("put", {"text": "goes on"}))
    card = harness.card(SUPPORT, thread)
    harness.tools = [build_changed_note(fakes), *(t for t in fakes.tools if t.name != "note")]
    harness.restart()
    for who in ("ana", "cleo"):
        press(harness, who, SUPPORT, card, "approve_all" if who == "ana" else "approve")
        arrived(harness)
        card = harness.card(SUPPORT, thread, who) if who == "ana" else card
    told(harness, "ana", SUPPORT, thread, TOOL_CHANGED_REPLY)
    harness.said(SUPPORT, thread, "That is all.")
    harness.settle()
    assert statuses(harness, thread) == ["invalidated", "succeeded"]
    assert "the tool has changed since this was shown" in harness.outputs()[0]["output"]
    changed, _ = harness.calls_in(thread)
    assert harness.audit_of(changed) == [
        "call.born.pending",
        "decision.refused",
        "call.invalidated",
    ]
    assert not harness.all(Vote, Vote.call_id == changed.id)
    assert "No longer valid" in words(now_at(harness, SUPPORT, card["ts"]))
    assert (fakes.did("note", "in vain"), fakes.did("put", "goes on")) == (0, 1)


def test_an_approval_under_an_older_policy_is_asked_again(
    deployed: tuple[Harness, FakeTools],
) -> None:
    """The new approvers are asked on a card of their own."""
    harness, fakes = deployed
    thread = ask(harness, ("note", {"text": "asked again"}))
    card = harness.card(SUPPORT, thread)
    harness.policy = STRICTER
    harness.restart()
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    new_card = harness.card("C0FINANCE", None, "cleo")
    harness.settle()
    assert statuses(harness, thread) == ["pending"]
    assert "S0FINANCE" in words(new_card)
    assert "approve" not in action_ids(now_at(harness, SUPPORT, card["ts"]))
    assert not sum(fakes.ran.values())
    harness.person("cleo").click("C0FINANCE", new_card["ts"], "approve")
    harness.said(SUPPORT, thread, "That is all.")
    harness.settle()
    assert fakes.did("note", "asked again") == 1
    [call] = harness.calls_in(thread)
    assert harness.audit_of(call).count("call.running") == 1


MALFORMED_CALLS = [
    ("note", '{"text": "cut of'),
    ("note", '{"text": "a", "text": "b"}'),
    ("note", '["text"]'),
    ("note", "null"),
    ("note", '{"text": NaN}'),
    ("note", '{"text": "a", "colour": "red"}'),
    ("note", "{}"),
    *(("note", f'{{"text": {"[" * deep}{"]" * deep}}}') for deep in (40, 700, 5_000)),
    ("refund_order", '{"order_id": 1042, "amount": 1e400, "reason": "late"}'),
    ("refund_order", '{"order_id": 1042, "amount": "-1.00", "reason": "late"}'),
    ("refund_order", '{"order_id": 1042, "amount": "1.00", "reason": "whim"}'),
    ("sudo", '{"text": "rm"}'),
]


def test_malformed_calls_are_refused_and_not_shown(harness: Harness, fakes: FakeTools) -> None:
    """Invalid or deeply nested JSON, duplicate keys, invalid values, unknown tools."""
    thread = ask(harness, *MALFORMED_CALLS, ("note", {"text": "the good one"}))
    card = harness.card(SUPPORT, thread)
    harness.settle()
    assert action_ids(card).count("approve") == 1
    assert "the good one" in words(card)
    assert statuses(harness, thread) == ["refused"] * len(MALFORMED_CALLS) + ["pending"]
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    harness.said(SUPPORT, thread, "That is all.")
    harness.settle()
    outputs = harness.outputs()
    assert [o["call_id"] for o in outputs] == [c.provider_id for c in harness.calls_in(thread)]
    starts = [o["output"].split(":")[0].split(".")[0].split(",")[0] for o in outputs]
    assert starts == ["INVALID ARGUMENTS"] * (len(MALFORMED_CALLS) - 1) + ["REFUSED", "SUCCEEDED"]
    assert "there is no tool named 'sudo'" in outputs[len(MALFORMED_CALLS) - 1]["output"]
    assert fakes.did("note", "a") == fakes.did("note", "b") == 0


def test_a_plan_of_malformed_calls_only_makes_no_card(harness: Harness) -> None:
    """The run goes on by itself."""
    thread = ask(harness, ("note", "{"))
    harness.said(SUPPORT, thread, "That is all.")
    harness.settle()
    assert statuses(harness, thread) == ["refused"]
    assert len(harness.thread(SUPPORT, thread)) == 2


@pytest.fixture
def lenient_harness(harness: Harness) -> Iterator[Harness]:
    """The harness with a planner that accepts any call ids."""
    harness.planner.lenient_ids = True
    yield harness
    harness.planner.lenient_ids = False


def test_calls_with_repeated_or_empty_ids_keep_their_own_approvals(
    lenient_harness: Harness, fakes: FakeTools
) -> None:
    """The model gives two calls one id, one an empty id, and uses an id again."""
    harness = lenient_harness
    notes = [("note", {"text": text}) for text in ("dup 1", "dup 2", "dup 3")]
    harness.planner.script(
        OddTurn(calls=notes, call_ids=["call_same", "call_same", ""]),
        OddTurn(calls=[("note", {"text": "reused"})], call_ids=["call_same"]),
        Turn(text="Ids survived."),
    )
    thread = harness.person("ben").say(SUPPORT, "@bot odd ids")
    card = harness.card(SUPPORT, thread)
    harness.settle()
    harness.person("ana").click(
        SUPPORT, card["ts"], "approve", value=value_of(card, "approve", 1), seen=card
    )
    arrived(harness)
    assert statuses(harness, thread) == ["pending", "approved", "pending"]
    harness.person("ana").click(SUPPORT, card["ts"], "approve_all")
    later = harness.said(SUPPORT, thread, "reused")
    harness.settle()
    assert statuses(harness, thread)[3] == "pending"
    assert fakes.did("note", "reused") == 0
    harness.person("ana").click(SUPPORT, later["ts"], "approve")
    harness.said(SUPPORT, thread, "Ids survived.")
    harness.settle()

    assert [fakes.did("note", text) for text in ("dup 1", "dup 2", "dup 3", "reused")] == [
        1,
        1,
        1,
        1,
    ]
    ids = [c.provider_id for c in harness.calls_in(thread)]
    assert len(set(ids)) == 4
    assert all(ids)
    assert [o["call_id"] for o in harness.outputs()] == ids
    assert ["dup 1" in o["output"] or "dup 2" in o["output"] for o in harness.outputs()] == [
        True,
        True,
        False,
        False,
    ]
    rows = harness.all(
        Audit, Audit.run_id == harness.run_in(thread).id, Audit.event == "call.running"
    )
    assert len({json.loads(row.data)["digest"] for row in rows}) == 4
