"""Sums over some calls only: with the same currency or customer, or of all requesters."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.approvals.call_gates import sum_field_or_count_calls
from bot.policy.condition import Condition, ConditionError
from bot.policy.condition_values import SpendingSum
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


def make_payment(amount: str, **fields: Any) -> CallCountedTowardsLimit:
    """A payment that counts."""
    return CallCountedTowardsLimit(None, json.dumps({"amount": amount, **fields}))


def make_arguments(**fields: Any) -> str:
    """The arguments of the payment that is judged."""
    return json.dumps({"amount": "1", **fields})


def test_sums_may_name_same_fields_and_all_requesters() -> None:
    """These words stand after the window."""
    found = Condition(
        'spent("pay", "amount", "24h", "same currency", "by anyone", "same customer") > 1 '
        '|| count("pay", "24h", "by anyone") > 1'
    )
    assert found.spent == {
        SpendingSum("pay", "amount", 86_400, ("currency", "customer"), True),
        SpendingSum("pay", "", 86_400, (), True),
    }
    assert found.fields == {"currency", "customer"}  # the judged call needs them as well


@pytest.mark.parametrize(
    "words",
    ['"currency"', '"same"', '"same  currency"', '"by all"', '"same currency customer"', '""'],
)
def test_unknown_words_in_a_sum_are_refused(words: str) -> None:
    """The policy is refused when it is read, with what could stand there."""
    with pytest.raises(ConditionError, match='write "by anyone" or "same currency"'):
        Condition(f'spent("pay", "amount", "24h", {words}) > 1')
    with pytest.raises(ConditionError, match="words in quotes"):
        Condition('spent("pay", "amount", "24h", args.currency) > 1')


def test_each_currency_and_customer_has_its_own_sum() -> None:
    """A sum may distinguish both."""
    calls = [
        make_payment("10", currency="EUR", customer=7),
        make_payment("20", currency="EUR", customer=8),
        make_payment("400", currency="JPY", customer=7),
    ]
    assert sum_field_or_count_calls(SAME, calls, make_arguments(currency="EUR", customer=7)) == 30
    assert sum_field_or_count_calls(SAME, calls, make_arguments(currency="JPY", customer=9)) == 400
    assert sum_field_or_count_calls(SAME, calls, make_arguments(currency="USD", customer=7)) == 0
    assert sum_field_or_count_calls(BOTH, calls, make_arguments(currency="EUR", customer=7)) == 10
    counts = SpendingSum("pay", "", 86_400, ("customer",))
    assert sum_field_or_count_calls(counts, calls, make_arguments(customer=7)) == 2


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
def test_a_sum_is_unknown_if_a_field_cannot_be_compared(mine: Any, theirs: Any) -> None:
    """The field is missing in a call, or has another type."""
    assert (
        sum_field_or_count_calls(SAME, [make_payment("5", **theirs)], make_arguments(**mine))
        is None
    )


def test_a_sum_is_unknown_if_one_of_two_fields_cannot_be_compared() -> None:
    """Neither is that field then left out."""
    fields = {"currency": "EUR", "customer": None}
    assert (
        sum_field_or_count_calls(BOTH, [make_payment("5", **fields)], make_arguments(**fields))
        is None
    )


@given(st.lists(st.tuples(st.integers(0, 900), st.sampled_from(["EUR", "USD", "JPY"])), max_size=9))
def test_no_sum_mixes_currencies(made: list[tuple[int, str]]) -> None:
    """Each is the sum of its own payments."""
    calls = [make_payment(str(amount), currency=currency) for amount, currency in made]
    for wanted in ("EUR", "USD", "JPY"):
        expected = sum(amount for amount, currency in made if currency == wanted)
        assert sum_field_or_count_calls(SAME, calls, make_arguments(currency=wanted)) == expected


def test_by_anyone_counts_all_requesters_of_the_workspace(store: Store) -> None:
    """Calls of other workspaces do not count."""
    ledger = Ledger(store)
    for requester in (BEN, DAN, "UNEW00001"):
        ledger.add_call("5.00", requester=requester)
    ledger.add_call("1000.00", team="T0OTHERCO")
    ledger.add_call("7.00", C.REJECTED, requester=DAN)
    with store.read() as tx:
        all_, mine = (
            [Decimal(json.loads(each.arguments)["amount"]) for each in found]
            for found in (
                call_history.iterate_calls_counted_towards_limit(tx, TEAM, None, "note"),
                call_history.iterate_calls_counted_towards_limit(tx, TEAM, BEN, "note"),
            )
        )
    assert (sum(all_), sum(mine)) == (15, 5)


def test_calls_that_ended_before_the_window_are_not_read(store: Store) -> None:
    """Open calls and later ends are."""
    ledger = Ledger(store)
    for amount, status, ended in (
        ("1.00", C.SUCCEEDED, AT - DAY),
        ("10.00", C.SUCCEEDED, AT),
        ("100.00", C.PENDING, None),
        ("1000.00", C.APPROVED, AT - DAY),  # to be run a second time
    ):
        ledger.add_call(amount, status, at=AT - 2 * DAY, finished_at=ended)
    with store.read() as tx:
        found = list(
            call_history.iterate_calls_counted_towards_limit(tx, TEAM, None, "note", since=AT - DAY)
        )
    assert sum(Decimal(json.loads(each.arguments)["amount"]) for each in found) == 1110
