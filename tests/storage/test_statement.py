"""Statements on the driver's cursor: the same text, values and errors as SQLAlchemy's own way."""

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
    """A database with two runs that wait."""
    return seed(store)


@pytest.mark.parametrize("chosen", range(len(ALL)))
def test_it_reads_what_sqlalchemy_reads(store: Store, seeded: Seeded, chosen: int) -> None:
    """Each kind of statement returns the same rows, of the same types, as through SQLAlchemy."""
    with store.engine.connect() as connection:
        expected = [tuple(row) for row in connection.execute(ALL[chosen])]
    with store.read() as tx:
        assert list(tx.execute(ALL[chosen])) == expected
    assert expected or chosen == 1


def test_a_value_that_is_missing_is_named(store: Store) -> None:
    """A statement that was not given all it needs is refused before it reaches the database."""
    with store.read() as tx, pytest.raises(StatementError, match="required for 'id_'"):
        tx.execute(select(Run).where(col(Run.id) == bindparam("id_")))


def test_a_column_that_was_left_out_gets_its_default(store: Store) -> None:
    """An insert of some columns fills in the others' defaults, as SQLAlchemy would."""
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


def test_the_databases_errors_are_sqlalchemys(store: Store) -> None:
    """What the database refuses is raised as SQLAlchemy's error, whatever the driver calls it."""
    row = get_column_values(GreetedPerson(team="T1", person="U1", greeted_at=datetime.now(UTC)))
    with pytest.raises(IntegrityError), store.write() as tx:
        insert_twice(tx, row)
    with store.read() as tx:
        assert tx.scalars(select(col(GreetedPerson.person))) == []
        with pytest.raises(OperationalError, match="no such table"):
            tx.exec_driver_sql("SELECT 1 FROM nowhere")


def test_statements_made_on_the_spot_fill_no_memory(store: Store) -> None:
    """However many different statements are run, a bounded number of them is kept."""
    with store.read() as tx:
        for _ in range(transaction.MAX_COMPILED_STATEMENTS + 10):
            tx.execute(select(col(Run.id)))
    assert len(transaction.known) <= transaction.MAX_COMPILED_STATEMENTS


def test_a_trace_sees_what_is_run_and_committed(store: Store, seeded: Seeded) -> None:
    """A trace is told every text with its values, and every commit; without one nothing is told."""
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
