"""Sums of some calls only: of the same currency or customer, of anyone."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.approvals.call_gates import sum_field_or_count_calls
from bot.policy.condition import Condition, ConditionError, SpendingSum
from storage import call_history
from storage.call_history import CallCountedTowardsLimit
from storage.states import CallStatus
from storage.store import Store
from tests.approvals.test_spending import DAY, Ledger
from tests.runs.fakes import BEN, DAN
from tests.storage.builders import AT, TEAM

C = CallStatus
SAME = SpendingSum("pay", "amount", 86_400, ("currency",))
BOTH = SpendingSum("pay", "amount", 86_400, ("currency", "customer"))


def paid(amount: str, **fields: Any) -> CallCountedTowardsLimit:
    """A payment that counts."""
    return CallCountedTowardsLimit(None, json.dumps({"amount": amount, **fields}))


def judged(**fields: Any) -> str:
    """The arguments of the payment that is judged."""
    return json.dumps({"amount": "1", **fields})


def test_the_words_of_a_sum() -> None:
    """The fields that have to be the same, and whose calls count, are words after the window."""
    found = Condition(
        'spent("pay", "amount", "24h", "same currency", "by anyone", "same customer") > 1 '
        '|| count("pay", "24h", "by anyone") > 1'
    )
    assert found.spent == {
        SpendingSum("pay", "amount", 86_400, ("currency", "customer"), True),
        SpendingSum("pay", "", 86_400, (), True),
    }
    assert found.fields == {"currency", "customer"}  # the judged call needs them too


@pytest.mark.parametrize(
    "words",
    ['"currency"', '"same"', '"same  currency"', '"by all"', '"same currency customer"', '""'],
)
def test_words_that_mean_nothing(words: str) -> None:
    """Any other word is refused when the policy is read, with what could stand there."""
    with pytest.raises(ConditionError, match='write "by anyone" or "same currency"'):
        Condition(f'spent("pay", "amount", "24h", {words}) > 1')
    with pytest.raises(ConditionError, match="words in quotes"):
        Condition('spent("pay", "amount", "24h", args.currency) > 1')


def test_one_sum_for_each_currency() -> None:
    """Euros are added to euros; what is paid to another customer is another sum again."""
    calls = [
        paid("10", currency="EUR", customer=7),
        paid("20", currency="EUR", customer=8),
        paid("400", currency="JPY", customer=7),
    ]
    assert sum_field_or_count_calls(SAME, calls, judged(currency="EUR", customer=7)) == 30
    assert sum_field_or_count_calls(SAME, calls, judged(currency="JPY", customer=9)) == 400
    assert sum_field_or_count_calls(SAME, calls, judged(currency="USD", customer=7)) == 0
    assert sum_field_or_count_calls(BOTH, calls, judged(currency="EUR", customer=7)) == 10
    counts = SpendingSum("pay", "", 86_400, ("customer",))
    assert sum_field_or_count_calls(counts, calls, judged(customer=7)) == 2


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        ({}, {"currency": "EUR"}),
        ({"currency": None}, {"currency": "EUR"}),
        ({"currency": "EUR"}, {}),
        ({"currency": "EUR"}, {"currency": None}),
        ({"currency": "EUR"}, {"currency": ["EUR"]}),
        ({"currency": "EUR"}, {"currency": 978}),
        ({"currency": 1}, {"currency": True}),
        ({"currency": {"code": "EUR"}}, {"currency": {"code": "EUR"}}),
    ],
)
def test_what_cannot_be_compared_is_not_known(mine: Any, theirs: Any) -> None:
    """A call without the field, or with another kind of value, leaves the sum unknown."""
    assert sum_field_or_count_calls(SAME, [paid("5", **theirs)], judged(**mine)) is None


@given(st.lists(st.tuples(st.integers(0, 900), st.sampled_from(["EUR", "USD", "JPY"])), max_size=9))
def test_no_sum_mixes_currencies(made: list[tuple[int, str]]) -> None:
    """The sums of all currencies are what was paid in all, and each is of its own."""
    calls = [paid(str(amount), currency=currency) for amount, currency in made]
    for wanted in ("EUR", "USD", "JPY"):
        expected = sum(amount for amount, currency in made if currency == wanted)
        assert sum_field_or_count_calls(SAME, calls, judged(currency=wanted)) == expected


def test_whose_calls_anyones_are(store: Store) -> None:
    """Anyone's calls are those of all requesters of the workspace, and of no other one."""
    ledger = Ledger(store)
    for requester in (BEN, DAN, "UNEW00001"):
        ledger.call("5.00", requester=requester)
    ledger.call("1000.00", team="T0OTHERCO")
    ledger.call("7.00", C.REJECTED, requester=DAN)
    with store.read() as tx:
        all_, mine = (
            [Decimal(json.loads(each.arguments)["amount"]) for each in found]
            for found in (
                call_history.iterate_calls_counted_towards_limit(tx, TEAM, None, "note"),
                call_history.iterate_calls_counted_towards_limit(tx, TEAM, BEN, "note"),
            )
        )
    assert (sum(all_), sum(mine)) == (15, 5)


def test_what_ended_long_ago_is_not_read(store: Store) -> None:
    """What ended before the window is left out, what is open or ended in it is not."""
    ledger = Ledger(store)
    for amount, status, ended in (
        ("1.00", C.SUCCEEDED, AT - DAY),
        ("10.00", C.SUCCEEDED, AT),
        ("100.00", C.PENDING, None),
        ("1000.00", C.APPROVED, AT - DAY),  # to be run again
    ):
        ledger.call(amount, status, at=AT - 2 * DAY, finished_at=ended)
    with store.read() as tx:
        found = list(
            call_history.iterate_calls_counted_towards_limit(tx, TEAM, None, "note", since=AT - DAY)
        )
    assert sum(Decimal(json.loads(each.arguments)["amount"]) for each in found) == 1110
