"""What a gate says about itself: its first stages, its times, and its text as it is stored."""

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


def test_voting_begins_at_the_first_stage_or_at_all_if_unordered() -> None:
    """The approvers are those of all stages either way."""
    assert GATE.initial_stages == (0,)
    assert GATE.model_copy(update={"any_order": True}).initial_stages == (0, 1)
    assert (GATE.required_approvers, GATE.approvers) == (3, ONE | TWO)


def test_the_approvers_of_some_stages_include_escalated_ones() -> None:
    """These are included once their escalation is due."""
    late = Escalation(after=60, approvers=Approvers(users=("U9",)))
    gate = GATE.model_copy(update={"escalation": (late,)})
    assert gate.get_approvers_of_stages([0, 1], timedelta()) == ONE | TWO
    assert gate.get_approvers_of_stages([1], timedelta()) == TWO
    assert gate.get_approvers_of_stages([], timedelta(days=1)) == Approvers()
    assert gate.get_approvers_of_stages([0], timedelta(seconds=60)).users == ("U1", "U9")


def test_due_and_waiting_times_count_all_or_business_hours() -> None:
    """Waiting is never less than none."""
    assert GATE.compute_due_time(MONDAY, 3600) == MONDAY + HOUR
    assert GATE.measure_waiting_time(MONDAY, MONDAY + HOUR) == HOUR
    assert GATE.measure_waiting_time(MONDAY, MONDAY - HOUR) == timedelta()
    hours = BusinessHours(zone="UTC", opens=540, closes=780, days=(1, 2, 3, 4, 5))
    gate = GATE.model_copy(update={"hours": hours})
    assert gate.compute_due_time(MONDAY, 7200) == MONDAY + 22 * HOUR
    assert gate.measure_waiting_time(MONDAY, MONDAY + 5 * HOUR) == HOUR


def test_a_copy_without_offers_remembers_nothing() -> None:
    """Offers and a chosen one are both left out; a gate without any is returned itself."""
    offer = GrantOffer()
    for some in ({"remember": (offer,)}, {"once": offer}, {"remember": (offer,), "once": offer}):
        assert GATE.model_copy(update=some).copy_without_offers() == GATE
    assert GATE.copy_without_offers() is GATE


def test_an_order_or_hours_of_escalation_change_how_votes_count() -> None:
    """Hours matter where somebody may decide after a while, since they say when."""
    hours = BusinessHours(zone="UTC", opens=540, closes=780, days=(1, 2, 3, 4, 5))
    assert not GATE.counts_votes_like(GATE.model_copy(update={"any_order": True}))
    assert GATE.counts_votes_like(GATE.model_copy(update={"hours": hours}))
    late = Escalation(after=60, approvers=ONE)
    waits = GATE.model_copy(update={"escalation": (late,)})
    assert not waits.counts_votes_like(waits.model_copy(update={"hours": hours}))
    assert waits.counts_votes_like(waits)


def test_a_gate_is_stored_as_canonical_json() -> None:
    """So its digest is the same wherever it is made; the same text is read once."""
    for gate in (GATE, Allow(rule="é")):
        text = dump_gate(gate)
        assert text == rfc8785.dumps(json.loads(text)).decode()
        assert load_gate(text) == gate
        assert load_gate(text) is load_gate(text)


def test_fields_left_out_of_a_stored_gate_keep_their_meaning() -> None:
    """No default may change: gates that were stored before would mean something else."""
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


def test_the_defaults_of_a_gate_are_one_approver_and_one_hour() -> None:
    """Nobody approves their own request, and one rejection is enough."""
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
def test_times_and_veto_of_gates_and_additions_are_at_least_one(name: str) -> None:
    """The least is one second, or one person."""
    stages = (Stage(approvers=ONE, quorum=1),)
    for least, good in ((1, True), (0, False)):
        for make in (Ask, GateAddOn):
            given = {"rule": "r", "stages": stages, name: least}
            if good:
                assert getattr(make.model_validate(given), name) == 1
                continue
            with pytest.raises(ValidationError):
                make.model_validate(given)
