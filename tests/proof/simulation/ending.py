"""What must be true once everything has ended."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from bot.cards.action_names import Action
from bot.cards.button_codec import CallTarget, Click, decode_click
from storage.models import Message
from storage.states import DRAWN_MESSAGE_KINDS, MessageStatus
from storage.store import Store
from storage.transaction import fetch_rows
from tests.proof.simulation.people import iterate_buttons
from tests.record_checks import find_first_broken_row

if TYPE_CHECKING:
    from tests.proof.simulation.world import World

DECIDES = (Action.APPROVE, Action.APPROVE_ALL, Action.REJECT_NOW)
ENDED_STATUSES = ("completed", "failed", "cancelled")


def check_end(world: World) -> None:
    """Check all of it; raises AssertionError."""
    check_everything_ended(world)
    check_outputs(world)
    check_output_texts(world)
    check_deliveries(world)
    check_requests(world)
    check_messages(world)
    check_buttons(world)
    check_unapproved_calls(world)
    store: Store = world.processes[0].store
    with Store.read(store) as tx:
        assert find_first_broken_row(tx) is None, "the chain is broken"
    assert world.record.is_sound()


def check_everything_ended(world: World) -> None:
    """No request may be open, and no call may wait or run."""
    open_ = world.record.all(
        "SELECT id, status FROM run WHERE status NOT IN (?, ?, ?)", *ENDED_STATUSES
    )
    assert not open_, [tuple(each) for each in open_]
    waiting = world.record.all(
        "SELECT id, status FROM call WHERE status IN ('pending', 'running', 'entrusted')"
    )
    assert not waiting, [tuple(each) for each in waiting]
    for id_, status in world.record.all("SELECT id, status FROM run"):
        assert world.record.runs[id_] == status, f"{id_} is {status} without a word of the audit"
    for id_, status in world.record.all("SELECT id, status FROM call"):
        assert world.record.calls[id_].status == status, f"{id_} is {status} unsaid"


def _list_outputs(world: World, run: str) -> list[dict[str, Any]]:
    found = world.record.all("SELECT body FROM item WHERE run_id = ?", run)
    items = [json.loads(each["body"]) for each in found]
    return [each for each in items if each.get("type") == "function_call_output"]


def check_outputs(world: World) -> None:
    """The transcript of a request that has not failed must have one output for each call."""
    for run in world.record.all("SELECT id FROM run WHERE status != 'failed'"):
        told = Counter(each["call_id"] for each in _list_outputs(world, run["id"]))
        proposed = world.record.all("SELECT * FROM call WHERE run_id = ?", run["id"])
        for call in proposed:
            assert told[call["provider_id"]] == 1, f"{call['id']} {call['status']}: {told}"


def check_output_texts(world: World) -> None:
    """Nothing may be reported as done that did not happen, nor the other way round."""
    for call in world.record.all("SELECT * FROM call"):
        done, effects = f"did {call['id']}", world.record.effects[call["id"]]
        outputs = [
            each["output"]
            for each in _list_outputs(world, call["run_id"])
            if each["call_id"] == call["provider_id"]
        ]
        for each in outputs:
            assert done not in each or effects, f"{call['id']} is told as done, and was not"
        if call["status"] in ("rejected", "expired", "refused", "answered"):
            again = world.record.calls[call["id"]].starts
            assert not effects or again, f"{call['id']} {call['status']} has happened"
        if call["status"] == "succeeded" and call["tool"] != "desk":
            by_tool = any(done in each for each in outputs)
            assert effects or not by_tool, f"{call['id']} succeeded without its effect"


def check_deliveries(world: World) -> None:
    """Each acknowledged delivery must be in the inbox and handled."""
    rows_ = world.record.all("SELECT key, status, run_id FROM delivery")
    stored = {each["key"]: each["status"] for each in rows_}
    lost = world.acknowledged - set(stored)
    assert not lost, f"acknowledged and lost: {lost}"
    left = [key for key, status in stored.items() if status == "new"]
    assert not left, f"never taken in: {left}"
    held = world.record.all(
        "SELECT delivery.key FROM delivery JOIN run ON run.id = delivery.run_id"
        " WHERE delivery.status = 'held' AND run.status = 'completed'"
    )
    assert not held, f"never heard: {[each[0] for each in held]}"


def check_requests(world: World) -> None:
    """An answered request must be in the transcript in its person's words."""
    for run in world.record.all("SELECT id FROM run WHERE status = 'completed'"):
        found = world.record.all("SELECT body FROM item WHERE run_id = ?", run["id"])
        said = [each for each in found if json.loads(each["body"]).get("role") == "user"]
        assert said, f"{run['id']} was answered, and nobody heard what it was"


def check_messages(world: World) -> None:
    """Each message must be in Slack as it would be drawn now, or have failed for a reason."""
    process = next(each for each in world.processes if each.first)
    with Store.read(process.store) as tx:
        found = fetch_rows(tx, Message, select(Message))
    for row in found:
        assert row.status in (MessageStatus.SENT, MessageStatus.FAILED), (row.key, row.status)
        if row.kind not in DRAWN_MESSAGE_KINDS or row.status is not MessageStatus.SENT:
            continue
        post = world.slack.posts.get((row.channel, row.ts))
        if post is None:  # somebody deleted it, and nothing has changed since
            continue
        drawn, _, _ = process.renderer.render_message(row)
        shown = sorted(iterate_buttons(post.blocks))
        assert shown == sorted(iterate_buttons(drawn.blocks)), f"{row.key} shows {shown}"
        named, _, _ = process.renderer.render_new_message(row)  # as it is until a change
        right = (drawn.text, named.text)
        assert post.text in right, f"{row.key} says {post.text!r}, not {drawn.text!r}"


def check_buttons(world: World) -> None:
    """No message in Slack may have a button that decides about a call; all are decided."""
    for post in world.slack.posts.values():
        for action, value in iterate_buttons(post.blocks):
            meant = decode_click(action, value)
            live = isinstance(meant, Click) and meant.action in DECIDES
            assert not live, f"{post.key or post.ts} still offers {action} {value}"
            if isinstance(meant, Click) and isinstance(meant.target, CallTarget):
                assert meant.target.call in world.record.calls


def check_unapproved_calls(world: World) -> None:
    """Somebody has looked at them, or was asked to and will be again; nothing else is to be looked
    at.
    """
    record = world.record
    for call in record.all("SELECT * FROM call"):
        votes = record.all(
            "SELECT verb FROM vote WHERE call_id = ? AND revision = ?", call["id"], call["revision"]
        )
        verbs = {vote["verb"] for vote in votes}
        looked = bool(verbs & {"look", "object"})
        due = call["look_due_at"] is not None
        assert not due or "break_glass" in verbs, f"{call['id']} is to be looked at for nothing"
        ran = "break_glass" in verbs and call["status"] in ("succeeded", "failed", "unknown")
        assert not ran or looked != due, f"{call['id']}: looked at {looked}, to be looked at {due}"
        told = record.all(
            "SELECT data FROM audit WHERE call_id = ? AND event = 'call.told'", call["id"]
        )
        asked = any(json.loads(each["data"])["what"] == "look" for each in told)
        assert not ran or looked or asked, f"nobody was asked to look at {call['id']}"
