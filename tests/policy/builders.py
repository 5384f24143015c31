"""Facts, conditions and policies to ask about them, and random gates and ballots."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import strategies as st

from bot.policy.business_hours import StartTime
from bot.policy.condition import Condition, ConditionError
from bot.policy.condition_values import Facts, SpendingSum
from bot.policy.evaluation import PolicyError, parse
from bot.policy.gates import Approvers, Ask, Escalation, GrantOffer, Stage
from bot.policy.tally import Ballot

DAY = 86_400
ARGS: dict[str, Any] = {
    "amount": Decimal("40.00"),
    "order": "A-100",
    "count": 3,
    "share": 0.1,
    "note": None,
    "urgent": True,
    "codes": [1, 2, 3],
    "names": ["ann", "bob"],
    "nothing": [],
    "address": {"city": "Ulm", "floor": 2},
    "due": datetime(2026, 3, 2, 9, 30, tzinfo=UTC),
    "secret": b"raw",
}


def make_facts(**changed: Any) -> Facts:
    """The facts of a refund of 40.00; `changed` replaces some of them."""
    known: dict[str, Any] = {
        "tool": "refund_order",
        "effect": "write",
        "requester": "U1",
        "args": ARGS,
        "channel": "C1",
        "now": datetime(2026, 3, 1, 12, 5, tzinfo=UTC),
        "groups": {"finance": frozenset({"U1", "U2"}), "gone": None},
        "spent": {
            SpendingSum("refund_order", "amount", DAY): Decimal("459.99"),
            SpendingSum("refund_order", "", DAY): Decimal(7),
            SpendingSum("lost", "amount", DAY): None,
        },
    }
    return Facts(**{**known, **changed})


def is_true(source: str, **changed: Any) -> bool:
    """Whether the condition is true for these facts."""
    return Condition(source).is_true_for(make_facts(**changed))


def get_evaluation_error(source: str, **changed: Any) -> str:
    """Why a condition that can be read could not be evaluated; fails if it could be."""
    condition = Condition(source)
    with pytest.raises(ConditionError) as found:
        condition.is_true_for(make_facts(**changed))
    return str(found.value)


def get_parse_error(source: str) -> str:
    """Why a condition was refused when it was read."""
    with pytest.raises(ConditionError) as found:
        Condition(source)
    return str(found.value)


def list_problems(text: str) -> list[str]:
    """What is wrong with a policy, line by line."""
    with pytest.raises(PolicyError) as caught:
        parse(text, "p.toml")
    return str(caught.value).splitlines()[1:]


ASKED = datetime(2026, 3, 1, 12, tzinfo=UTC)
PEOPLE = "ABCDEFGH"
_groups = [
    Approvers(users=("U1", "U2")),
    Approvers(users=("U2", "U1")),
    Approvers(groups=("finance",)),
    Approvers(groups=("finance", "ops")),
    Approvers(channel=True),
    Approvers(requester=True),
]
approvers = st.sampled_from(_groups)
stages = st.lists(
    st.builds(Stage, approvers=approvers, quorum=st.integers(1, 3)), min_size=1, max_size=4
).map(tuple)
_steps = st.builds(Escalation, after=st.sampled_from([60, 600, 3600]), approvers=approvers)
_offers = st.builds(
    GrantOffer, fields=st.sampled_from([None, ("a",), ("a", "b")]), uses=st.integers(1, 2)
)
_fields = st.lists(st.sampled_from("abc"), unique=True).map(tuple)

starts = st.builds(
    StartTime,
    zone=st.sampled_from(["Europe/Berlin", "America/New_York", "Pacific/Chatham"]),
    minutes=st.integers(0, 24 * 60 - 1),
    day=st.integers(0, 7),
)
asks = st.builds(
    Ask,
    rule=st.sampled_from(["refunds", "*"]),
    stages=stages,
    post_to=st.sampled_from(["thread", "approvers", "C1"]),
    deadline=st.sampled_from([60, 600, 3600, 7200]),
    good_for=st.sampled_from([60, 600]),
    run_at=st.none() | starts,
    self_approval=st.booleans(),
    editors=st.sampled_from(["approvers", "approvers_and_requester", "nobody"]),
    editor_counts=st.booleans(),
    editable=st.none() | _fields,
    veto=st.integers(1, 3),
    reasons=st.sampled_from(["never", "approve", "reject", "always"]),
    reminders=st.lists(st.sampled_from([30, 60, 600, 7200]), max_size=3).map(tuple),
    escalation=st.lists(_steps, max_size=2).map(tuple),
    remember=st.lists(_offers, max_size=2).map(tuple),
    once=st.none() | _offers,
)


def make_ballot(person: str, stage: int, verb: str = "approve", after: int = 0) -> Ballot:
    """One vote, `after` seconds after the call was asked about."""
    return Ballot(person, verb, stage, ASKED + timedelta(seconds=after))


_one = st.builds(
    make_ballot,
    st.sampled_from(PEOPLE),
    st.integers(0, 3),
    st.sampled_from(["approve"] * 4 + ["reject"]),
)
ballots = st.lists(_one, max_size=16)  # one person may vote several times
# as they are stored: one row for each person
votes = st.lists(_one, max_size=8, unique_by=lambda each: each.person)
