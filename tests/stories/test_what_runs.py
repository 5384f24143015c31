"""What was shown is what runs, or nothing does: tampering, changed policy and tools, odd proposals,
odd call ids.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pydantic import BaseModel, Field

from bot.tools import Effect, Tool, ToolContext, tool
from storage.models import Audit
from storage.states import RunStatus
from tests.stories.kit import Kit
from tests.stories.world import (
    SUPPORT,
    Turn,
    World,
    action_ids,
    arrived,
    ask,
    now_at,
    value_of,
    words,
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


def statuses(world: World, thread: str) -> list[str]:
    return [str(call.status) for call in world.calls_in(thread)]


def tamper(world: World, table: str, statement: str, *values: str) -> None:
    """Change the database behind the bot's back, as only who can write its file could."""
    raw = sqlite3.connect(world.folder / "countersign.db", timeout=10, isolation_level=None)
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
        "UPDATE call SET gate = replace(gate, 'shop-leads', 'everybody-') WHERE id = ? AND gate LIKE '%shop-l%'",
    ),
    ("call", "UPDATE call SET tool = 'wipe' WHERE id = ?"),
]


@pytest.mark.parametrize(
    ("table", "statement"), ALTERED, ids=["arguments", "digest", "gate", "tool"]
)
def test_what_was_altered_in_storage_is_refused(
    world: World, kit: Kit, table: str, statement: str
) -> None:
    """Altered between the approval and the run: it does not run, person, model and audit hear why
    (B01).
    """
    text = f"honest {table} {len(statement)}"
    thread = ask(world, ("note", {"text": text}), ("peek", {"text": text}), ("put", {"text": text}))
    card = world.card(SUPPORT, thread)
    world.person("ana").click(SUPPORT, card["ts"], "approve", value=value_of(card, "approve", 0))
    world.slack.wait(lambda: statuses(world, thread) == ["approved", "succeeded", "pending"])
    world.settle()
    altered = world.calls_in(thread)[0]
    tamper(world, table, statement, altered.id)
    world.person("ana").click(SUPPORT, card["ts"], "approve")
    world.said(SUPPORT, thread, "That is all.")
    world.settle()
    assert statuses(world, thread) == ["invalidated", "succeeded", "succeeded"]
    assert world.outputs()[0]["output"].startswith("INVALIDATED: it was not run")
    assert "call.invalidated" in world.audit_of(altered)
    assert "call.running" not in world.audit_of(altered)
    effects = [
        name
        for (name, did), _ in kit.ran.items()
        if did in (text, text.replace("honest", "crooked"))
    ]
    assert sorted(effects) == ["peek", "put"]
    assert "No longer valid" in words(now_at(world, SUPPORT, card["ts"]))


class Changed(BaseModel):
    text: str = Field(title="Text", max_length=20_000)
    copies: int = Field(1, title="Copies")


def changed_note(kit: Kit) -> Tool[Any]:
    @tool(title="Write a note", effect="Write “{text}”", does=Effect.WRITE, name="note")
    def another(args: Changed, context: ToolContext) -> str:
        kit.ran[("note", args.text)] += 1
        return "noted in another way"

    return another


@pytest.fixture
def deployed(own_world: Callable[..., World]) -> Iterator[tuple[World, Kit]]:
    """A world of its own, to be restarted with other tools and policies."""
    kit = Kit()
    return own_world(kit.tools), kit  # type: ignore[return-value]  # nothing to end: own_world does


def test_a_changed_tool_a_missing_tool_and_a_denial(deployed: tuple[World, Kit]) -> None:
    """After a deploy: another schema, no such tool, a policy that denies: a human yes runs nothing
    (B05, B07).
    """
    world, kit = deployed
    thread = ask(world, ("note", {"text": "schema"}), ("put", {"text": "gone"}))
    card = world.card(SUPPORT, thread)
    world.settle()
    world.tools = [changed_note(kit), *(t for t in kit.tools if t.name not in ("note", "put"))]
    world.restart()
    world.person("ana").click(SUPPORT, card["ts"], "approve_all")
    world.said(SUPPORT, thread, "That is all.")
    world.settle()
    assert statuses(world, thread) == ["invalidated", "invalidated"]
    told = [o["output"] for o in world.outputs()]
    assert "the tool has changed since this was shown" in told[0]
    assert "the tool is no longer there" in told[1]
    assert world.run_in(thread).status is RunStatus.COMPLETED
    assert "No longer valid" in words(now_at(world, SUPPORT, card["ts"]))

    thread = ask(world, ("note", {"text": "denied"}))
    card = world.card(SUPPORT, thread)
    world.policy = DENIES
    world.restart()
    world.person("ana").click(SUPPORT, card["ts"], "approve")
    world.said(SUPPORT, thread, "That is all.")
    world.settle()
    assert statuses(world, thread) == ["invalidated"]
    assert "policy now forbids it: notes are frozen until Monday" in world.outputs()[-1]["output"]
    assert "notes are frozen" in words(now_at(world, SUPPORT, card["ts"]))
    assert not sum(kit.ran.values())


def test_an_approval_under_an_older_policy_is_asked_again(deployed: tuple[World, Kit]) -> None:
    """Other approvers now: the old yes does not count, those people are asked on a card of their
    own (B05, B06).
    """
    world, kit = deployed
    thread = ask(world, ("note", {"text": "asked again"}))
    card = world.card(SUPPORT, thread)
    world.policy = STRICTER
    world.restart()
    world.person("ana").click(SUPPORT, card["ts"], "approve")
    again = world.card("C0FINANCE", None, "cleo")
    world.settle()
    assert statuses(world, thread) == ["pending"]
    assert "S0FINANCE" in words(again)
    assert "approve" not in action_ids(now_at(world, SUPPORT, card["ts"]))
    assert not sum(kit.ran.values())
    world.person("cleo").click("C0FINANCE", again["ts"], "approve")
    world.said(SUPPORT, thread, "That is all.")
    world.settle()
    assert kit.did("note", "asked again") == 1
    [call] = world.calls_in(thread)
    assert world.audit_of(call).count("call.running") == 1


BAD = [
    ("note", '{"text": "cut of'),
    ("note", '{"text": "a", "text": "b"}'),
    ("note", '["text"]'),
    ("note", "null"),
    ("note", '{"text": NaN}'),
    ("note", '{"text": "a", "colour": "red"}'),
    ("note", "{}"),
    ("refund_order", '{"order_id": 1042, "amount": 1e400, "reason": "late"}'),
    ("refund_order", '{"order_id": 1042, "amount": "-1.00", "reason": "late"}'),
    ("refund_order", '{"order_id": 1042, "amount": "1.00", "reason": "whim"}'),
    ("sudo", '{"text": "rm"}'),
]


def test_odd_proposals_reach_nobody(world: World, kit: Kit) -> None:
    """Malformed, duplicate, non-object or invalid arguments, invented tools: the model hears it
    (L01, L08, L09).
    """
    thread = ask(world, *BAD, ("note", {"text": "the good one"}))
    card = world.card(SUPPORT, thread)
    world.settle()
    assert action_ids(card).count("approve") == 1
    assert "the good one" in words(card)
    assert statuses(world, thread) == ["refused"] * len(BAD) + ["pending"]
    world.person("ana").click(SUPPORT, card["ts"], "approve")
    world.said(SUPPORT, thread, "That is all.")
    world.settle()
    outputs = world.outputs()
    assert [o["call_id"] for o in outputs] == [c.provider_id for c in world.calls_in(thread)]
    starts = [o["output"].split(":")[0].split(".")[0].split(",")[0] for o in outputs]
    assert starts == ["INVALID ARGUMENTS"] * (len(BAD) - 1) + ["REFUSED", "SUCCEEDED"]
    assert "there is no tool named 'sudo'" in outputs[len(BAD) - 1]["output"]
    assert kit.did("note", "a") == kit.did("note", "b") == 0


def test_only_odd_proposals_make_no_card(world: World) -> None:
    """With nothing to ask there is no card at all and the run goes on by itself (L09)."""
    thread = ask(world, ("note", "{"))
    world.said(SUPPORT, thread, "That is all.")
    world.settle()
    assert statuses(world, thread) == ["refused"]
    assert len(world.thread(SUPPORT, thread)) == 2


@pytest.fixture
def lenient(world: World) -> Iterator[World]:
    """A planner that takes call ids as they come."""
    world.planner.lenient_ids = True
    yield world
    world.planner.lenient_ids = False


def test_call_ids_twice_empty_and_reused(lenient: World, kit: Kit) -> None:
    """One id for two calls, an empty id, an id of an earlier turn: each call keeps its own approval
    (X14, X15, X16).
    """
    world = lenient
    notes = [("note", {"text": text}) for text in ("dup 1", "dup 2", "dup 3")]
    world.planner.script(
        Turn(calls=notes, call_ids=["call_same", "call_same", ""]),
        Turn(calls=[("note", {"text": "reused"})], call_ids=["call_same"]),
        Turn(text="Ids survived."),
    )
    thread = world.person("ben").say(SUPPORT, "@bot odd ids")
    card = world.card(SUPPORT, thread)
    world.settle()
    world.person("ana").click(
        SUPPORT, card["ts"], "approve", value=value_of(card, "approve", 1), seen=card
    )
    arrived(world)
    assert statuses(world, thread) == ["pending", "approved", "pending"]
    world.person("ana").click(SUPPORT, card["ts"], "approve_all")
    later = world.said(SUPPORT, thread, "reused")
    world.settle()
    assert statuses(world, thread)[3] == "pending"
    assert kit.did("note", "reused") == 0
    world.person("ana").click(SUPPORT, later["ts"], "approve")
    world.said(SUPPORT, thread, "Ids survived.")
    world.settle()

    assert [kit.did("note", text) for text in ("dup 1", "dup 2", "dup 3", "reused")] == [1, 1, 1, 1]
    ids = [c.provider_id for c in world.calls_in(thread)]
    assert len(set(ids)) == 4
    assert all(ids)
    assert [o["call_id"] for o in world.outputs()] == ids
    assert ["dup 1" in o["output"] or "dup 2" in o["output"] for o in world.outputs()] == [
        True,
        True,
        False,
        False,
    ]
    rows = world.all(Audit, Audit.run_id == world.run_in(thread).id, Audit.event == "call.running")
    assert len({json.loads(row.data)["digest"] for row in rows}) == 4
