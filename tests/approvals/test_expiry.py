"""Deadlines apply, but not to calls that somebody clicked in time, nor one because of another."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy import update
from sqlmodel import col

from bot.agent import outputs
from bot.approvals.deadlines import CallExpirer
from bot.cards import notices
from bot.cards.action_names import Action, DialogId
from bot.cards.button_codec import (
    CallTarget,
    CardTarget,
    DialogSubject,
    RunTarget,
    encode_button_value,
    encode_dialog_metadata,
)
from storage import call_outputs, calls, inbox, outbox
from storage.models import Call, Delivery, Vote
from storage.states import CallStatus, CallVerb
from storage.store import Store
from tests.approvals.world import World, make_gate
from tests.runs.fakes import ANA, BEN
from tests.storage.builders import AT, HOUR, Seeded, add_revision, click, delivery

C = CallStatus
GATE = make_gate([ANA])
TICK = timedelta(microseconds=1)


class ExpiryWorld:
    """A world whose clock is at the deadline of every call in it."""

    def __init__(self, store: Store) -> None:
        self.world = World(store)
        self.store = store
        self.world.clock.at = AT + HOUR
        self.expiry = CallExpirer(store, self.world.clock, self.world.core.tools)

    def add_due_calls(self, *statuses: CallStatus, **columns: object) -> Seeded:
        """Calls whose deadline is now."""
        return self.world.add_calls(GATE, *statuses, **columns)

    def store_click(self, row: Delivery) -> None:
        """Store a click."""
        with self.store.write() as tx:
            assert inbox.insert_delivery(tx, row)

    def get_notice(self, made: Seeded, index: int = 0, kind: str = "expired") -> str:
        """What the thread was told about an expired call."""
        with self.store.read() as tx:
            row = outbox.find_message_by_key(tx, f"{kind}:{made.ids[index]}:1")
        return str(outbox.parse_message_body(row)["text"]) if row else ""


@pytest.fixture
def expiring(store: Store) -> ExpiryWorld:
    """A world without calls."""
    return ExpiryWorld(store)


def make_expired_line(*effects: str) -> str:
    """What the thread is told about these calls."""
    return notices.nobody_decided_in_time_line(effects, AT + HOUR, BEN)


def test_due_calls_expire_once_with_one_line_for_each_plan(expiring: ExpiryWorld) -> None:
    """A call of unknown outcome only loses its deadline, without a line."""
    assert expiring.expiry.expire_due_calls() is False
    made = expiring.add_due_calls(C.PENDING, C.UNKNOWN, C.PENDING)
    other = expiring.add_due_calls(C.UNKNOWN)
    assert expiring.expiry.expire_due_calls() is True
    assert [made.call(each).status for each in range(3)] == [C.EXPIRED, C.UNKNOWN, C.EXPIRED]
    assert (made.call(1).deadline, other.call().deadline) == (None, None)
    assert made.call().output == call_outputs.EXPIRED
    assert expiring.get_notice(made) == make_expired_line("note “note 0”", "note “note 2”")
    assert expiring.get_notice(other) == ""
    assert expiring.expiry.expire_due_calls() is False


def make_target(made: Seeded, what: str) -> CallTarget | CardTarget | RunTarget:
    """What a button of the call, its plan or its request is about."""
    targets = {
        "call": CallTarget(made.ids[0], 1),
        "plan": CardTarget(made.plan_id, 1, 1),
        "run": RunTarget(made.run_id),
    }
    return targets[what]


ACTIONS = {"call": Action.APPROVE, "plan": Action.APPROVE_ALL, "run": Action.CANCEL_RUN}


@pytest.mark.parametrize("what", ACTIONS)
def test_a_stored_click_before_the_deadline_keeps_a_call(expiring: ExpiryWorld, what: str) -> None:
    """The click may be about the call, its card or its request; one at the deadline is late."""
    early, late, other = (expiring.add_due_calls() for _ in range(3))
    for made, before in ((early, TICK), (late, timedelta())):
        value, at = encode_button_value(make_target(made, what)), AT + HOUR - before
        expiring.store_click(click(made.run_id, ACTIONS[what], value, ANA, at=at))
    expiring.expiry.expire_due_calls()
    assert [made.call().status for made in (early, late, other)] == [
        C.PENDING,
        C.EXPIRED,
        C.EXPIRED,
    ]


def add_approval(expiring: ExpiryWorld, made: Seeded) -> None:
    """Store Ana's approval of the first call."""
    vote = Vote(
        call_id=made.ids[0],
        revision=1,
        person=ANA,
        verb=CallVerb.APPROVE,
        digest=made.call().digest,
        created_at=AT,
    )
    with expiring.store.write() as tx:
        calls.insert_vote(tx, vote)


def test_an_approved_call_with_a_start_time_starts_at_its_deadline(expiring: ExpiryWorld) -> None:
    """It does not if somebody has clicked before, nor without approvals."""
    early, ready, unapproved = (expiring.add_due_calls(starts_at=AT + HOUR) for _ in range(3))
    for made in (early, ready):
        add_approval(expiring, made)
    value = encode_button_value(CallTarget(early.ids[0], 1))
    expiring.store_click(click("stop", Action.REJECT_NOW, value, ANA, at=AT + HOUR - TICK))
    expiring.expiry.expire_due_calls()
    found = [made.call().status for made in (early, ready, unapproved)]
    assert found == [C.PENDING, C.APPROVED, C.EXPIRED]
    assert ready.call().decided_at == AT + HOUR
    assert expiring.get_notice(ready) == ""


@pytest.mark.parametrize("what", ["call", "plan"])
def test_a_later_click_takes_nothing_from_one_in_time(expiring: ExpiryWorld, what: str) -> None:
    """The first click counts, whether the later one is about the call too or about its card."""
    made = expiring.add_due_calls()
    for number, (subject, at) in enumerate((("call", AT), (what, AT + 2 * HOUR))):
        value = encode_button_value(make_target(made, subject))
        expiring.store_click(click(f"click {number}", ACTIONS[subject], value, ANA, at=at))
    expiring.expiry.expire_due_calls()
    assert made.call().status is C.PENDING


def test_a_dialog_submitted_in_time_keeps_its_call(expiring: ExpiryWorld) -> None:
    """Events do not, nor payloads that cannot be read."""
    kept, lost = expiring.add_due_calls(), expiring.add_due_calls()
    subject = encode_dialog_metadata(DialogSubject(DialogId.REJECT, make_target(kept, "call")))
    view = {"view": {"callback_id": DialogId.REJECT, "private_metadata": subject}}
    for number, (kind, body) in enumerate(
        (("submission", view), ("submission", {}), ("action", {"actions": [{}]}))
    ):
        expiring.store_click(delivery(f"{number}", kind, body=outbox.dump_message_body(body)))
    value = encode_button_value(make_target(lost, "call"))
    event = {"actions": [{"action_id": Action.APPROVE, "value": value}]}
    expiring.store_click(delivery("event", "event", body=outbox.dump_message_body(event)))
    expiring.expiry.expire_due_calls()
    assert (kept.call().status, lost.call().status) == (C.PENDING, C.EXPIRED)


def test_an_unanswered_question_is_told_in_other_words(expiring: ExpiryWorld) -> None:
    """The model and the thread hear that nobody answered, not that nobody decided."""
    made = expiring.add_due_calls(tool="ask_person", revision=2)
    row = made.call()
    with expiring.store.write() as tx:
        add_revision(tx, row, '{"kind":"text","question":"Which one?"}')
    expiring.expiry.expire_due_calls()
    assert (made.call().status, made.call().output) == (C.EXPIRED, outputs.QUESTION_EXPIRED)
    with expiring.store.read() as tx:
        assert outbox.find_message_by_key(tx, f"expired:{row.id}:2") is None
        assert outbox.find_message_by_key(tx, f"unanswered:{row.id}:2") is not None


def test_an_expired_call_without_an_effect_sentence_names_its_tool(expiring: ExpiryWorld) -> None:
    """Its arguments cannot be read."""
    made = expiring.add_due_calls(names="{")
    expiring.expiry.expire_due_calls()
    assert (made.call().status, expiring.get_notice(made)) == (C.EXPIRED, make_expired_line("note"))


@pytest.mark.file
def test_a_call_that_cannot_be_read_does_not_keep_others_from_expiring(
    expiring: ExpiryWorld,
) -> None:
    """It is left as it is; the rest of its plan expires call by call."""
    made = expiring.add_due_calls(C.PENDING, C.PENDING, C.PENDING)
    with expiring.store.write() as tx:
        tx.exec_driver_sql("UPDATE call SET created_at = 'x' WHERE position = 1")
    assert expiring.expiry.expire_due_calls() is True
    assert [made.call(each).status for each in (0, 2)] == [C.EXPIRED] * 2
    with expiring.store.write() as tx:
        tx.execute(update(Call).where(col(Call.id) == made.ids[1]).values(created_at=AT))
    assert made.call(1).status is C.PENDING
    assert expiring.get_notice(made, 2) == make_expired_line("note “note 2”")
