"""Statements on the driver's cursor: text, values and errors are those of SQLAlchemy."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from sqlalchemy import bindparam, insert, select, update
from sqlalchemy.exc import IntegrityError, OperationalError, StatementError
from sqlmodel import col

from storage import transaction
from storage.columns import get_column_values
from storage.inbox import GreetedPerson
from storage.models import Call, Delivery, Run
from storage.states import RunStatus
from storage.store import Store
from storage.transaction import Trace, Transaction, fetch_rows
from tests.storage.builders import AT, Seeded, seed

ALL = [
    select(Run),
    select(Run).where(col(Run.status).in_((RunStatus.READY, RunStatus.WAITING))).limit(1),
    select(Call).where(col(Call.deadline) > AT, col(Call.status) != "failed"),
    select(col(Call.id), col(Call.deadline)).order_by(col(Call.id)),
    select(col(Run.status)).distinct(),
]


@pytest.fixture
def seeded(store: Store) -> Seeded:
    """A database with a run that waits."""
    return seed(store)


@pytest.mark.parametrize("chosen", range(len(ALL)))
def test_rows_are_those_that_sqlalchemy_reads(store: Store, seeded: Seeded, chosen: int) -> None:
    """Their types are the same as well."""
    with store.engine.connect() as connection:
        expected = [tuple(row) for row in connection.execute(ALL[chosen])]
    with store.read() as tx:
        assert list(tx.execute(ALL[chosen])) == expected
    assert expected or chosen == 1


def test_a_missing_parameter_is_named(store: Store) -> None:
    """The statement does not reach the database."""
    with store.read() as tx, pytest.raises(StatementError, match="required for 'id_'"):
        tx.execute(select(Run).where(col(Run.id) == bindparam("id_")))


def test_an_insert_fills_in_column_defaults(store: Store) -> None:
    """SQLAlchemy would do the same."""
    row = get_column_values(Delivery(key="k", kind="event", team="T1", user="U1", received_at=AT))
    del row["attempts"]
    with store.write() as tx:
        tx.execute(insert(Delivery), row)
    with store.read() as tx:
        [found] = fetch_rows(tx, Delivery, select(Delivery))
    assert found.attempts == 0


def insert_twice(tx: transaction.Transaction, row: dict[str, object]) -> None:
    """Insert a person whom the database may hold once."""
    for _ in range(2):
        tx.execute(insert(GreetedPerson), row)


def test_database_errors_are_raised_as_sqlalchemys(store: Store) -> None:
    """The driver has other names for them."""
    row = get_column_values(GreetedPerson(team="T1", person="U1", greeted_at=datetime.now(UTC)))
    with pytest.raises(IntegrityError), store.write() as tx:
        insert_twice(tx, row)
    with store.read() as tx:
        assert tx.scalars(select(col(GreetedPerson.person))) == []
        with pytest.raises(OperationalError, match="no such table"):
            tx.exec_driver_sql("SELECT 1 FROM nowhere")


def test_a_bounded_number_of_compiled_statements_is_kept(store: Store) -> None:
    """Each statement here is a new one."""
    with store.read() as tx:
        for _ in range(transaction.MAX_COMPILED_STATEMENTS + 10):
            tx.execute(select(col(Run.id)))
    assert len(transaction.known) <= transaction.MAX_COMPILED_STATEMENTS


def test_a_trace_sees_statements_and_commits(store: Store, seeded: Seeded) -> None:
    """Without a trace nothing is reported."""
    told: list[object] = []

    class Seen(Trace):
        def before_statement(self, sql: str, values: object) -> None:
            told.append((sql.split()[0], values))

        def after_commit(self, tx: Transaction) -> None:
            told.append((tx.writes, tx.durable))

    store.trace = Seen()
    with store.write() as tx:
        tx.execute(update(Run).where(col(Run.id) == bindparam("id_")).values(turns=3), {"id_": "x"})
    with store.read():
        pass
    store.trace = None
    with store.read():
        pass
    assert told == [("UPDATE", [3, "x"]), (True, True), (False, False)]
