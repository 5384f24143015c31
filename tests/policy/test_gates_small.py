"""What a gate says of itself: who begins, when something is due, what is kept of it as text."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
import rfc8785
from pydantic import ValidationError

from bot.policy.business_hours import BusinessHours
from bot.policy.gates import (
    Allow,
    Approvers,
    Ask,
    Escalation,
    GateAddOn,
    GrantOffer,
    Stage,
    dump_gate,
    load_gate,
)

ONE, TWO = Approvers(users=("U1",)), Approvers(groups=("ops",), channel=True)
GATE = Ask(rule="Größe", stages=(Stage(approvers=ONE), Stage(approvers=TWO, quorum=2)))
MONDAY = datetime(2026, 3, 2, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def test_where_it_begins() -> None:
    """At its first stage, or at all of them where they have no order."""
    assert GATE.initial_stages == (0,)
    assert GATE.model_copy(update={"any_order": True}).initial_stages == (0, 1)
    assert (GATE.required_approvers, GATE.approvers) == (3, ONE | TWO)


def test_who_counts_in_some_stages() -> None:
    """Everybody of any of them, with those who come in later once they have."""
    late = Escalation(after=60, approvers=Approvers(users=("U9",)))
    gate = GATE.model_copy(update={"escalation": (late,)})
    assert gate.get_approvers_of_stages([0, 1], timedelta()) == ONE | TWO
    assert gate.get_approvers_of_stages([1], timedelta()) == TWO
    assert gate.get_approvers_of_stages([], timedelta(days=1)) == Approvers()
    assert gate.get_approvers_of_stages([0], timedelta(seconds=60)).users == ("U1", "U9")


def test_how_time_is_counted() -> None:
    """All hours are counted, or those of business alone; it is never less than none."""
    assert GATE.compute_due_time(MONDAY, 3600) == MONDAY + HOUR
    assert GATE.measure_waiting_time(MONDAY, MONDAY + HOUR) == HOUR
    assert GATE.measure_waiting_time(MONDAY, MONDAY - HOUR) == timedelta()
    hours = BusinessHours(zone="UTC", opens=540, closes=780, days=(1, 2, 3, 4, 5))
    gate = GATE.model_copy(update={"hours": hours})
    assert gate.compute_due_time(MONDAY, 7200) == MONDAY + 22 * HOUR
    assert gate.measure_waiting_time(MONDAY, MONDAY + 5 * HOUR) == HOUR


def test_a_gate_that_forgets() -> None:
    """Nothing is left to be remembered, chosen or not; what has nothing is itself."""
    offer = GrantOffer()
    for some in ({"remember": (offer,)}, {"once": offer}, {"remember": (offer,), "once": offer}):
        assert GATE.model_copy(update=some).copy_without_offers() == GATE
    assert GATE.copy_without_offers() is GATE


def test_what_are_other_terms() -> None:
    """An order is one; hours are where somebody comes in after a while, for they say when."""
    hours = BusinessHours(zone="UTC", opens=540, closes=780, days=(1, 2, 3, 4, 5))
    assert not GATE.counts_votes_like(GATE.model_copy(update={"any_order": True}))
    assert GATE.counts_votes_like(GATE.model_copy(update={"hours": hours}))
    late = Escalation(after=60, approvers=ONE)
    waits = GATE.model_copy(update={"escalation": (late,)})
    assert not waits.counts_votes_like(waits.model_copy(update={"hours": hours}))
    assert waits.counts_votes_like(waits)


def test_the_text_of_a_gate() -> None:
    """It is canonical, so that its digest is the same wherever it is made, and read once."""
    for gate in (GATE, Allow(rule="é")):
        text = dump_gate(gate)
        assert text == rfc8785.dumps(json.loads(text)).decode()
        assert load_gate(text) == gate
        assert load_gate(text) is load_gate(text)


def test_what_a_stored_gate_does_not_say() -> None:
    """What is left out of the text means what it meant when it was written: no default changes."""
    hours = {"zone": "UTC", "opens": 540, "closes": 780, "days": [1]}
    short = {
        "verdict": "ask",
        "rule": "r",
        "stages": [{"approvers": {"users": ["U1"]}}],
        "escalation": [{"after": 60, "approvers": {"groups": ["g"]}}],
        "remember": [{}],
        "hours": hours,
    }
    nobody = {"users": [], "groups": [], "channel": False, "requester": False}
    long = short | {
        "added": [],
        "stages": [{"approvers": nobody | {"users": ["U1"]}, "quorum": 1}],
        "escalation": [{"after": 60, "approvers": nobody | {"groups": ["g"]}}],
        "remember": [{"fields": None, "where": "thread", "lasts": 86_400, "uses": 10}],
        "hours": hours | {"holidays": [], "calendar": ""},
        "any_order": False,
        "post_to": "thread",
        "deadline": 3600,
        "self_approval": False,
        "editors": "approvers_and_requester",
        "editor_counts": False,
        "editable": None,
        "veto": 1,
        "reasons": "never",
        "reminders": [],
        "once": None,
        "good_for": 86_400,
        "would_allow": False,
    }
    gate = load_gate(json.dumps(short))
    assert gate.model_dump(mode="json") == long
    assert load_gate(json.dumps(long)) == gate
    assert json.loads(dump_gate(gate)) == short
    assert dump_gate(load_gate(json.dumps(long))) == dump_gate(gate)
    allow = load_gate('{"verdict":"allow","rule":"r"}').model_dump(mode="json")
    assert allow == {"verdict": "allow", "rule": "r", "after_rejection": "ask"}


def test_what_a_gate_is_unless_it_is_said() -> None:
    """One person within an hour, by nobody's own word, and a no of one ends it."""
    given = Ask(rule="r", stages=(Stage(approvers=ONE),))
    assert (given.required_approvers, given.veto, given.any_order, given.would_allow) == (
        1,
        1,
        False,
        False,
    )
    assert (given.deadline, given.good_for) == (3600, 86_400)
    assert (given.self_approval, given.editor_counts) == (False, False)
    assert (GrantOffer().lasts, GrantOffer().uses) == (86_400, 10)
    assert (Approvers().channel, Approvers().requester) == (False, False)
    with pytest.raises(ValidationError):
        given.rule = "another"


@pytest.mark.parametrize("name", ["deadline", "good_for", "veto"])
def test_there_is_no_time_and_no_veto_of_nothing(name: str) -> None:
    """One second and one person are the least, of a gate and of what adds to it."""
    stages = (Stage(approvers=ONE, quorum=1),)
    for least, good in ((1, True), (0, False)):
        for make in (Ask, GateAddOn):
            given = {"rule": "r", "stages": stages, name: least}
            if good:
                assert getattr(make.model_validate(given), name) == 1
                continue
            with pytest.raises(ValidationError):
                make.model_validate(given)
