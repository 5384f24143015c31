"""What a requester's calls add up to: which ones count, from when on, and what is not known."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import insert, update
from sqlmodel import col

from bot.approvals.call_gates import add_spending_sums_to_facts, load_policy_facts
from bot.core import Core
from bot.policy.condition_values import Facts, SpendingSum
from bot.policy.evaluation import parse
from bot.policy.gates import Ask
from storage import call_history
from storage.columns import get_column_values
from storage.models import Call, Plan, Run
from storage.states import CallStatus, RunStatus
from storage.store import Store
from tests.runs.fakes import BEN, DAN, FakeDirectory, Note, StillClock, make_core, make_tools
from tests.runs.harness import approved
from tests.storage.builders import AT, TEAM, add_revision

C = CallStatus
DAY = timedelta(days=1)
AMOUNT, COUNT = SpendingSum("note", "amount", 86_400), SpendingSum("note", "", 86_400)
POLICY = """
[defaults]
approvers = ["@shop-leads"]

[[rule]]
tool = "note"
when = '''
spent("note", "amount", "24h") > 500.0 || count("note", "24h") > 9
|| spent("put", "amount", "24h") > 500.0
'''
verdict = "ask"

[[rule]]
verdict = "allow"
"""
COUNTED = {C.PENDING, C.APPROVED, C.RUNNING, C.ENTRUSTED, C.SUCCEEDED, C.UNKNOWN}


class Ledger:
    """Calls of one requester, and what they add up to."""

    def __init__(self, store: Store) -> None:
        self.store, self.clock = store, StillClock()
        self.tools = make_tools(lambda *_: "")
        self.core: Core = make_core(store, self.clock, FakeDirectory(), self.tools, POLICY)

    def call(
        self,
        amount: object,
        status: CallStatus = C.SUCCEEDED,
        *,
        tool: str = "note",
        requester: str = BEN,
        at: datetime = AT,
        team: str = TEAM,
        **columns: Any,
    ) -> Call:
        """Store one call.

        `amount` as it stands in its arguments, None for arguments without one.
        """
        run = Run(
            team=team,
            channel="C0SUPPORT",
            thread_ts="1.0",
            requester=requester,
            status=RunStatus.WAITING,
            created_at=at,
            updated_at=at,
        )
        plan = Plan(run_id=run.id, turn=1, created_at=at)
        if status is C.SUCCEEDED:  # as whatever ends a call so says when
            columns.setdefault("finished_at", columns.get("decided_at", at))
        row = Call(
            run_id=run.id,
            plan_id=plan.id,
            position=0,
            provider_id="p",
            tool=tool,
            does="write",
            status=status,
            digest="d",
            created_at=at,
            **columns,
        )
        with self.store.write() as tx:
            for model, each in ((Run, run), (Plan, plan), (Call, row)):
                tx.execute(insert(model).values(get_column_values(each)))
            add_revision(tx, row, json.dumps({} if amount is None else {"amount": amount}))
        return row

    def facts(self, beside: Call | None = None, siblings: Any = ()) -> Facts:
        """The facts of a note that Ben is about to have written."""
        run = Run(team=TEAM, channel="C0SUPPORT", thread_ts="2.0", requester=BEN)
        run.created_at = run.updated_at = AT
        note = self.tools[0]
        sources = self.core.build_policy_fact_sources()
        facts = load_policy_facts(sources, run, note, Note(text="x"))
        with self.store.read() as tx:
            return add_spending_sums_to_facts(
                tx, sources, run, note, facts, judged_call=beside, siblings=siblings
            )

    def sum(self, wanted: SpendingSum = AMOUNT, **how: Any) -> Decimal | None:
        """What they add up to now."""
        spent = self.facts(**how).spent
        assert spent is not None
        return spent[wanted]


@pytest.fixture
def ledger(store: Store) -> Ledger:
    """No call yet."""
    return Ledger(store)


@pytest.mark.parametrize("status", list(CallStatus))
def test_which_calls_count(ledger: Ledger, status: CallStatus) -> None:
    """What waits, runs, ran or may have run counts; what came to nothing does not."""
    ledger.call("200.00", status)
    assert (ledger.sum(), ledger.sum(COUNT)) == ((200, 1) if status in COUNTED else (0, 0))


def test_whose_calls_count(ledger: Ledger) -> None:
    """The same requester, workspace and tool; nobody else's."""
    ledger.call("1.00")
    ledger.call("10.00", requester=DAN)
    ledger.call("100.00", tool="put")
    ledger.call("1000.00", team="T0OTHERCO")
    assert (ledger.sum(), ledger.sum(SpendingSum("put", "amount", 86_400))) == (1, 100)


@pytest.mark.parametrize("status", [C.PENDING, C.APPROVED, C.RUNNING, C.ENTRUSTED])
def test_what_is_open_counts_however_old_it_is(ledger: Ledger, status: CallStatus) -> None:
    """It was asked days ago and may be paid today."""
    ledger.call("300.00", status, at=AT - 20 * DAY, decided_at=AT - 19 * DAY)
    assert ledger.sum() == 300


@pytest.mark.parametrize("status", [C.SUCCEEDED, C.UNKNOWN])
def test_the_window_is_one_day(ledger: Ledger, status: CallStatus) -> None:
    """It counts from when it ended, or was decided where no end is known.

    Exactly a day later it counts no more.
    """
    ledger.call(
        "1.00",
        status,
        at=AT - 5 * DAY,
        decided_at=AT - 5 * DAY,
        finished_at=AT - DAY + timedelta(seconds=1),
    )
    ledger.call("10.00", status, at=AT - 5 * DAY, decided_at=AT - timedelta(hours=1))
    ledger.call("100.00", status, at=AT - DAY)
    assert ledger.sum() == 11
    ledger.clock.at = AT + timedelta(seconds=1)
    assert ledger.sum() == 10


@pytest.mark.parametrize("amount", [None, True, "", "ten", "NaN", "Infinity", [1], {"a": 1}])
def test_what_is_no_number(ledger: Ledger, amount: object) -> None:
    """One call without a number in that field leaves the sum unknown, which asks.

    Calls are counted all the same.
    """
    ledger.call("1.00")
    ledger.call(amount)
    assert (ledger.sum(), ledger.sum(COUNT)) == (None, 2)
    assert isinstance(ledger.core.policy.policy.get_gate(ledger.facts()), Ask)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ledger]:
    """No call, for all examples."""
    store = Store(f"sqlite:///{tmp_path_factory.mktemp('sums')}/db").open()
    yield Ledger(store)
    store.close()


@given(amounts=st.lists(st.decimals(-1_000_000, 1_000_000, places=2), max_size=8))
def test_sums_are_exact(shared: Ledger, amounts: list[Decimal]) -> None:
    """Money adds up to the cent, written as text or as numbers."""
    ledger = shared
    with_text = [json.dumps({"amount": str(each)}) for each in amounts]
    assert ledger.sum(siblings=[("note", each) for each in with_text]) == sum(amounts)
    whole = [json.dumps({"amount": int(each)}) for each in amounts]
    assert ledger.sum(siblings=[("note", each) for each in whole]) == sum(map(int, amounts))


def test_calls_proposed_together_count(ledger: Ledger) -> None:
    """Calls proposed together count one after the other before any of them is stored.

    Other tools' do not.
    """
    ledger.call("1.00")
    siblings = [
        ("note", '{"amount":"2.00"}'),
        ("put", '{"amount":"4.00"}'),
        ("note", '{"amount":"8.00"}'),
    ]
    assert (ledger.sum(siblings=siblings), ledger.sum(COUNT, siblings=siblings)) == (11, 3)
    assert ledger.sum(SpendingSum("put", "amount", 86_400), siblings=iter(siblings)) == 4


@pytest.mark.parametrize(
    ("status", "earlier", "later"),
    [
        (C.PENDING, 1, 0),
        (C.APPROVED, 1, 0),
        (C.RUNNING, 1, 1),
        (C.ENTRUSTED, 1, 1),
        (C.SUCCEEDED, 1, 1),
        (C.UNKNOWN, 1, 1),
        (C.FAILED, 0, 0),
    ],
)
def test_of_two_that_are_open_the_later_gives_way(
    ledger: Ledger, status: CallStatus, earlier: int, later: int
) -> None:
    """Beside a call about to run counts what was there before, and of what came after the begun."""
    ledger.call("1.00", status, at=AT - timedelta(minutes=1))
    call = ledger.call("10.00", C.APPROVED)
    ledger.call("100.00", status, at=AT + timedelta(minutes=1))
    assert ledger.sum(beside=call) == earlier + 100 * later


def test_two_born_at_the_same_moment(ledger: Ledger) -> None:
    """Exactly one of them gives way, so that neither both wait nor both slip under."""
    one, two = ledger.call("1.00", C.APPROVED), ledger.call("10.00", C.APPROVED)
    assert {(ledger.sum(beside=one), ledger.sum(beside=two))} <= {(10, 0), (0, 1)}


def test_an_edit_counts_with_its_new_amount(ledger: Ledger) -> None:
    """What counts is the revision that is shown now."""
    row = ledger.call("1.00", C.PENDING)
    with ledger.store.write() as tx:
        tx.execute(update(Call).where(col(Call.id) == row.id).values(revision=2))
        row.revision = 2
        add_revision(tx, row, '{"amount":"400.00"}')
        assert [
            each.arguments
            for each in call_history.iterate_calls_counted_towards_limit(tx, TEAM, BEN, "note")
        ] == ['{"amount":"400.00"}']
    assert ledger.sum() == 400


def test_nothing_is_added_up_that_no_rule_asks_for(ledger: Ledger) -> None:
    """Facts for a tool without limits stay without sums."""
    run = Run(
        team=TEAM, channel="C0SUPPORT", thread_ts="2.0", requester=BEN, created_at=AT, updated_at=AT
    )
    facts = load_policy_facts(
        ledger.core.build_policy_fact_sources(), run, ledger.tools[1], Note(text="x")
    )
    with ledger.store.read() as tx:
        assert (
            add_spending_sums_to_facts(
                tx, ledger.core.build_policy_fact_sources(), run, ledger.tools[1], facts
            ).spent
            is None
        )


ONE_A_DAY = """
[[rule]]
tool = "note"
when = 'count("note", "24h") >= 1'
verdict = "deny"
reason = "One a day."

[[rule]]
verdict = "ask"
approvers = ["UANA00001"]
"""


def test_the_limit_is_read_in_the_transaction_that_starts_a_call(tmp_path: Path) -> None:
    """Another call succeeds between the policy's answer and the start: this one does not start."""
    harness = approved(tmp_path / "db")
    harness.core.policy.policy = parse(ONE_A_DAY)  # other terms than shown: Ana is looked up
    ledger = Ledger(harness.store)
    look_up, meanwhile = harness.directory.find_person, []

    def person(user: str) -> Any:
        if not meanwhile:
            meanwhile.append(ledger.call(None))
        return look_up(user)

    harness.directory.find_person = person  # type: ignore[method-assign] # the directory stands in for the wire
    harness.work()
    [other] = meanwhile
    [call] = [each for each in harness.all()[1] if each.id != other.id]
    assert (call.status, harness.effects[call.id]) == (C.INVALIDATED, 0)
    assert "One a day." in call.output
    harness.stop()
