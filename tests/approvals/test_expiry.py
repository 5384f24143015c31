"""Deadlines that fall: not where somebody clicked in time, and never one because of another."""

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
from storage import calls, inbox, outbox
from storage.models import Call, Delivery, Vote
from storage.states import CallStatus, CallVerb
from storage.store import Store
from tests.approvals.world import World, gate_of
from tests.runs.fakes import ANA, BEN
from tests.storage.builders import AT, HOUR, Seeded, add_revision, click, delivery

C = CallStatus
GATE = gate_of([ANA])
TICK = timedelta(microseconds=1)


class Clockwork:
    """The clock stands at the deadline of whatever is asked here."""

    def __init__(self, store: Store) -> None:
        self.world = World(store)
        self.store = store
        self.world.clock.at = AT + HOUR
        self.expiry = CallExpirer(store, self.world.clock, self.world.core.tools)

    def falls(self, *statuses: CallStatus, **columns: object) -> Seeded:
        """Calls whose deadline is now."""
        return self.world.asked(GATE, *statuses, **columns)

    def store_click(self, row: Delivery) -> None:
        """It has been clicked."""
        with self.store.write() as tx:
            assert inbox.insert_delivery(tx, row)

    def said(self, made: Seeded, index: int = 0, kind: str = "expired") -> str:
        """What the thread was told of what fell."""
        with self.store.read() as tx:
            row = outbox.find_message_by_key(tx, f"{kind}:{made.ids[index]}:1")
        return str(outbox.parse_message_body(row)["text"]) if row else ""


@pytest.fixture
def clockwork(store: Store) -> Clockwork:
    """Nothing is due."""
    return Clockwork(store)


def line(*effects: str) -> str:
    """What the thread is told of these."""
    return notices.nobody_decided_in_time_line(effects, AT + HOUR, BEN)


def test_what_is_due_falls_once(clockwork: Clockwork) -> None:
    """One line for all of a plan; what is known of no end is given up without one."""
    assert clockwork.expiry.expire_due_calls() is False
    made = clockwork.falls(C.PENDING, C.UNKNOWN, C.PENDING)
    other = clockwork.falls(C.UNKNOWN)
    assert clockwork.expiry.expire_due_calls() is True
    assert [made.call(each).status for each in range(3)] == [C.EXPIRED, C.UNKNOWN, C.EXPIRED]
    assert (made.call(1).deadline, other.call().deadline) == (None, None)
    assert clockwork.said(made) == line("note “note 0”", "note “note 2”")
    assert clockwork.said(other) == ""
    assert clockwork.expiry.expire_due_calls() is False


def about(made: Seeded, what: str) -> CallTarget | CardTarget | RunTarget:
    """The call, its plan, or its request."""
    targets = {
        "call": CallTarget(made.ids[0], 1),
        "plan": CardTarget(made.plan_id, 1, 1),
        "run": RunTarget(made.run_id),
    }
    return targets[what]


ACTIONS = {"call": Action.APPROVE, "plan": Action.APPROVE_ALL, "run": Action.CANCEL_RUN}


@pytest.mark.parametrize("what", ACTIONS)
def test_a_click_in_time_keeps_it(clockwork: Clockwork, what: str) -> None:
    """A stored click on the call, its card or its request, before the deadline and not at it."""
    early, late, other = (clockwork.falls() for _ in range(3))
    for made, before in ((early, TICK), (late, timedelta())):
        value, at = encode_button_value(about(made, what)), AT + HOUR - before
        clockwork.store_click(click(made.run_id, ACTIONS[what], value, ANA, at=at))
    clockwork.expiry.expire_due_calls()
    assert [made.call().status for made in (early, late, other)] == [
        C.PENDING,
        C.EXPIRED,
        C.EXPIRED,
    ]


def approve(clockwork: Clockwork, made: Seeded) -> None:
    """Ana has approved the first call."""
    vote = Vote(
        call_id=made.ids[0],
        revision=1,
        person=ANA,
        verb=CallVerb.APPROVE,
        digest=made.call().digest,
        created_at=AT,
    )
    with clockwork.store.write() as tx:
        calls.insert_vote(tx, vote)


def test_what_is_to_start_now_is_not_denied(clockwork: Clockwork) -> None:
    """Approved for that time it goes ahead; not where somebody has clicked, nor without votes."""
    early, ready, unapproved = (clockwork.falls(starts_at=AT + HOUR) for _ in range(3))
    for made in (early, ready):
        approve(clockwork, made)
    value = encode_button_value(CallTarget(early.ids[0], 1))
    clockwork.store_click(click("stop", Action.REJECT_NOW, value, ANA, at=AT + HOUR - TICK))
    clockwork.expiry.expire_due_calls()
    found = [made.call().status for made in (early, ready, unapproved)]
    assert found == [C.PENDING, C.APPROVED, C.EXPIRED]
    assert ready.call().decided_at == AT + HOUR
    assert clockwork.said(ready) == ""


def test_the_first_click_is_what_counts(clockwork: Clockwork) -> None:
    """Somebody's late click takes nothing from the one that came in time."""
    made = clockwork.falls()
    for number, at in enumerate((AT, AT + 2 * HOUR)):
        value = encode_button_value(about(made, "call"))
        clockwork.store_click(click(f"click {number}", Action.APPROVE, value, ANA, at=at))
    clockwork.expiry.expire_due_calls()
    assert made.call().status is C.PENDING


def test_a_dialog_in_time_keeps_it(clockwork: Clockwork) -> None:
    """What was submitted counts as a click; an event, and what cannot be read, do not."""
    kept, lost = clockwork.falls(), clockwork.falls()
    subject = encode_dialog_metadata(DialogSubject(DialogId.REJECT, about(kept, "call")))
    view = {"view": {"callback_id": DialogId.REJECT, "private_metadata": subject}}
    for number, (kind, body) in enumerate(
        (("submission", view), ("submission", {}), ("action", {"actions": [{}]}))
    ):
        clockwork.store_click(delivery(f"{number}", kind, body=outbox.dump_message_body(body)))
    value = encode_button_value(about(lost, "call"))
    event = {"actions": [{"action_id": Action.APPROVE, "value": value}]}
    clockwork.store_click(delivery("event", "event", body=outbox.dump_message_body(event)))
    clockwork.expiry.expire_due_calls()
    assert (kept.call().status, lost.call().status) == (C.PENDING, C.EXPIRED)


def test_a_question_that_nobody_answered(clockwork: Clockwork) -> None:
    """The model and the thread are told so in other words than of a decision."""
    made = clockwork.falls(tool="ask_person", revision=2)
    row = made.call()
    with clockwork.store.write() as tx:
        add_revision(tx, row, '{"kind":"text","question":"Which one?"}')
    clockwork.expiry.expire_due_calls()
    assert (made.call().status, made.call().output) == (C.EXPIRED, outputs.QUESTION_EXPIRED)
    with clockwork.store.read() as tx:
        assert outbox.find_message_by_key(tx, f"expired:{row.id}:2") is None
        assert outbox.find_message_by_key(tx, f"unanswered:{row.id}:2") is not None


def test_a_deadline_falls_without_its_words(clockwork: Clockwork) -> None:
    """Where it cannot be said what a call would have done, its tool is named."""
    made = clockwork.falls(names="{")
    clockwork.expiry.expire_due_calls()
    assert (made.call().status, clockwork.said(made)) == (C.EXPIRED, line("note"))


@pytest.mark.file
def test_a_broken_row_holds_up_no_other(clockwork: Clockwork) -> None:
    """What cannot be read of a plan is left, and the rest of it falls, each by itself."""
    made = clockwork.falls(C.PENDING, C.PENDING, C.PENDING)
    with clockwork.store.write() as tx:
        tx.exec_driver_sql("UPDATE call SET created_at = 'x' WHERE position = 1")
    assert clockwork.expiry.expire_due_calls() is True
    assert [made.call(each).status for each in (0, 2)] == [C.EXPIRED] * 2
    with clockwork.store.write() as tx:
        tx.execute(update(Call).where(col(Call.id) == made.ids[1]).values(created_at=AT))
    assert made.call(1).status is C.PENDING
    assert clockwork.said(made, 2) == line("note “note 2”")
