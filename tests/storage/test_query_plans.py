"""No step of a request reads a whole table, or everybody's rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from storage import call_history, calls, grants, inbox, moves, outbox, request_lists, runs, trail
from storage.examination import examine_audit_and_rows
from storage.schedule import count_backlog
from storage.store import Store
from storage.transaction import Trace, Transaction, known
from tests.record_checks import list_transcript_items
from tests.runs.fakes import ANA, BEN
from tests.runs.harness import LoopHarness
from tests.storage.builders import AT, TEAM, C, click, seed, set_message


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[LoopHarness]:
    """The product without its edges."""
    made = LoopHarness(tmp_path / "countersign.db")
    yield made
    made.stop()


class StatementRecorder(Trace):
    """The statements that the database was given, with values."""

    def __init__(self) -> None:
        self.found: dict[str, Any] = {}

    def before_statement(self, sql: str, values: Any) -> None:
        """Keep the newest values of each statement."""
        if sql.startswith(("SELECT", "UPDATE", "DELETE")):
            self.found[sql] = values


def list_table_scans(tx: Transaction, found: dict[str, Any]) -> list[tuple[str, str]]:
    """The statements that read a whole table, and the step in which they do."""
    return [
        (statement, step)
        for statement, values in found.items()
        for (*_, step) in tx.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values)
        if step.startswith("SCAN") and "INDEX" not in step
    ]


def record_request_statements(harness: LoopHarness) -> dict[str, Any]:
    """The statements of a whole request with values, from message to answer in the outbox."""
    harness.store.trace = seen = StatementRecorder()
    found = seen.found
    harness.model.script = [[("note", "a"), ("peek", "b")], "answer", [("note", "c")]]
    for words in ("please", "and again"):
        harness.say(words)
        harness.loop.tick()
        harness.work()
        kept = dict(found)
        call = next(call for call in harness.all()[1] if call.status is C.PENDING)
        found.clear()  # without the statements of `all` above
        found |= kept
        harness.arrive(partial(click, action="approve", value=f"{call.id}:1", person=ANA))
        harness.loop.tick()
        harness.work()
    with harness.store.read() as tx:
        now = harness.clock.now()
        due = outbox.list_due_messages(tx, now, "C0SUPPORT")
        assert outbox.list_channels_with_due_messages(tx, now)
        outbox.find_next_message_retry_time(tx, now)
        outbox.list_cards_of_plan(tx, call.plan_id)
    with harness.store.write() as tx:
        moves.record_message_version_in_slack(tx, due[0], ts="9.9", version=1)
    harness.store.trace = None
    return found


def test_every_statement_of_a_request_uses_an_index(harness: LoopHarness) -> None:
    """No statement reads all calls of a tool or of a status."""
    found = record_request_statements(harness)
    assert len(found) > 30
    with harness.store.read() as tx:
        # this one begins at the end
        assert [
            each for each in list_table_scans(tx, found) if "ORDER BY audit.seq DESC" not in each[0]
        ] == []
        for statement, values in found.items():
            steps = str(list(tx.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values)))
            # all calls of a tool by all requesters
            assert "ix_call_tool" not in steps, statement
    [counting] = [statement for statement in found if "count(*) FILTER" in statement]
    with harness.store.read() as tx:
        steps = str(tx.exec_driver_sql(f"EXPLAIN QUERY PLAN {counting}", found[counting]))
    # the index on status would read everybody's pending calls
    assert "ix_run_requester" in steps
    assert "ix_call_due" not in steps
    [times] = [statement for statement in found if statement.startswith("SELECT call.asked_at")]
    with harness.store.read() as tx:
        steps = str(tx.exec_driver_sql(f"EXPLAIN QUERY PLAN {times}", found[times]))
    # no row of a call is read, and of a long request only the calls asked about lately are visited
    assert "COVERING INDEX ix_call_asked (run_id=? AND asked_at>?)" in steps
    [tokens] = [statement for statement in found if statement.startswith("SELECT sum(run.tokens)")]
    with harness.store.read() as tx:
        steps += str(tx.exec_driver_sql(f"EXPLAIN QUERY PLAN {tokens}", found[tokens]))
    # of all requests of a person only open ones and those that changed since are visited
    assert steps.count("ix_run_lately (team=? AND requester=? AND updated_at>?)") == 2
    assert steps.count("ix_run_requester (team=? AND requester=? AND status=?)") == 2


def test_a_request_is_found_by_an_index(store: Store) -> None:
    """It is found by its card, its thread, and the digest or the id of a call."""
    mine = seed(store, C.PENDING)
    digest, card = "1a2b3c4d" * 8, mine.card()
    with store.write() as tx:
        tx.exec_driver_sql("UPDATE call SET digest = ?", (digest,))
        set_message(tx, card, ts="7.5")
    store.trace = seen = StatementRecorder()
    with store.read() as tx:
        found = [
            request_lists.find_request_of_message(tx, TEAM, card.channel, "7.5", "7.5"),
            request_lists.find_request_of_message(tx, TEAM, "C0SUPPORT", "1.0", "1.0"),
            request_lists.find_request_by_id_or_digest(tx, TEAM, f"#{digest[:8]}"),
            request_lists.find_request_by_id_or_digest(tx, TEAM, mine.ids[0]),
        ]
        assert outbox.was_posted_by_bot(tx, "7.5")
    store.trace = None
    assert [run.id for run in found if run] == [mine.run_id] * 4
    with store.read() as tx:
        assert list_table_scans(tx, seen.found) == []
        [by_digest] = [each for each in seen.found if "call.digest >=" in each]
        planned = tx.exec_driver_sql(f"EXPLAIN QUERY PLAN {by_digest}", seen.found[by_digest])
        steps = str(list(planned))
    assert "ix_call_digest" in steps  # not everybody's runs


def test_a_request_that_moved_to_another_thread_is_found_by_an_index(store: Store) -> None:
    """It is found by the thread in which it was made, and its first message by the request."""
    mine = seed(store, C.PENDING)
    one = click("asked", action="approve", value="x", person=BEN)
    with store.write() as tx:
        inbox.insert_delivery(tx, one)
        [stored] = inbox.list_new_deliveries(tx)
        inbox.hold_message_until_next_turn(tx, stored, mine.run_id)
    store.trace = seen = StatementRecorder()
    with store.read() as tx:
        run = runs.find_newest_run_of_person_in_thread(tx, TEAM, one.channel, one.thread_ts, BEN)
        [held] = inbox.list_messages_held_for_run(tx, mine.run_id)
        assert inbox.is_first_delivery_of_run(tx, held)
        assert inbox.find_first_delivery_thread(tx, mine.run_id) == (one.channel, one.thread_ts)
        assert inbox.get_newest_transcript_message_ts(tx, mine.run(), held) == ""
    store.trace = None
    assert run is not None
    assert run.id == mine.run_id
    with store.read() as tx:
        assert list_table_scans(tx, seen.found) == []


def test_pending_calls_are_counted_by_requester(store: Store) -> None:
    """Those of others do not count, nor decided ones."""
    mine = seed(store, C.PENDING, C.PENDING, C.APPROVED)
    with store.read() as tx:
        assert runs.count_pending_calls_of_requester(tx, TEAM, BEN) == 2
        assert runs.count_pending_calls_of_requester(tx, TEAM, ANA) == 0
        assert runs.count_pending_calls_of_requester(tx, "T0OTHERCO", BEN) == 0
    assert mine.run().requester == BEN


def test_a_call_with_an_unknown_status_is_not_counted_as_pending(store: Store) -> None:
    """It does not stop other requests of its requester."""
    mine = seed(store, C.PENDING, C.PENDING)
    with store.write() as tx:
        tx.exec_driver_sql("UPDATE call SET status = 'nonsense' WHERE id = ?", (mine.ids[0],))
        assert runs.count_pending_calls_of_requester(tx, TEAM, BEN) == 1


def test_a_transcript_is_read_as_it_was_stored(store: Store) -> None:
    """Its items come in order with all their characters."""
    mine = seed(store)
    items = [
        {"content": text} for text in ('", "', "]", "line\nline", "\u2028 \U0001f600", "[", "")
    ]
    with store.write() as tx:
        run = runs.find_run(tx, mine.run().id)
        assert run is not None
        assert list_transcript_items(tx, run) == []
        for item in items:
            runs.append_transcript_item(tx, run, item, at=run.created_at)
        assert list_transcript_items(tx, run) == items


def test_the_backlog_is_counted_in_indexes_alone(store: Store) -> None:
    """No row of an ended request is visited."""
    seed(store, C.PENDING, C.SUCCEEDED)
    store.trace = seen = StatementRecorder()
    with store.read() as tx:
        assert count_backlog(tx).pending == 1
    store.trace = None
    with store.read() as tx:
        assert list_table_scans(tx, seen.found) == []
        steps = {
            statement: str(tx.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values))
            for statement, values in seen.found.items()
        }
    assert len(steps) == 4
    # new deliveries are few, and are read
    told = [step for statement, step in steps.items() if "FROM delivery" not in statement]
    assert all("USING COVERING INDEX" in step for step in told), told


def test_ended_requests_are_not_visited(store: Store) -> None:
    """After years many rows have a final status, and many private messages have no timestamp in
    Slack.
    """
    mine = seed(store, C.REJECTED)
    for asked, indexes in (
        (
            lambda tx: call_history.find_gate_of_last_rejected_call(tx, mine.run_id),
            {"ix_call_asked", "ix_run_root_id"},
        ),
        (
            lambda tx: moves.list_cancelled_runs_with_running_calls(tx),
            {"sqlite_autoindex_run_1", "ix_call_due"},
        ),
        (
            lambda tx: calls.is_question_being_posted(tx, "ask_person", "C0SUPPORT"),
            {"ix_message_status", "ix_call_plan_id"},
        ),
        (
            lambda tx: outbox.find_newest_card_of_thread(tx, TEAM, "C0SUPPORT", "1.0"),
            {"ix_run_thread", "ix_message_ts", "ix_message_run_id"},
        ),
        (
            lambda tx: trail.list_audit_rows_of_request(tx, mine.run_id),
            {"ix_audit_run_id", "sqlite_autoindex_call_1", "sqlite_autoindex_run_1"},
        ),
    ):
        assert list_used_indexes(store, asked) == indexes


def test_a_limit_visits_only_calls_in_its_window(store: Store) -> None:
    """Of all calls of a tool these are the open ones and those that ended lately."""
    mine = seed(store, C.SUCCEEDED)
    store.trace = seen = StatementRecorder()
    with store.read() as tx:
        for person in (None, BEN):
            list(
                call_history.iterate_calls_counted_towards_limit(
                    tx, TEAM, person, "note", since=mine.run().created_at
                )
            )
    store.trace = None
    with store.read() as tx:
        for statement, values in seen.found.items():
            if "JOIN" in statement:
                steps = str(list(tx.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values)))
                assert "ix_call_tool (tool=? AND finished_at>?)" in steps or "attempt" in steps
                assert "ix_call_tool (tool=?)" not in steps
                assert "ix_run" not in steps, "all that the team, or a person, ever asked"


def list_used_indexes(store: Store, ask: Callable[[Transaction], object]) -> set[str]:
    """The names of the indexes that SQLite uses for the statements of `ask`."""
    store.trace = seen = StatementRecorder()
    with store.read() as tx:
        ask(tx)
    store.trace = None
    with store.read() as tx:
        assert list_table_scans(tx, seen.found) == []
        return {
            name
            for statement, values in seen.found.items()
            for (*_, step) in tx.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values)
            for name in re.findall(r"USING (?:COVERING )?INDEX (\w+)", step)
        }


def test_the_record_is_examined_in_parts(store: Store) -> None:
    """Rows with texts are read some at a time, so memory does not grow with them."""
    seed(store, C.PENDING, C.SUCCEEDED)
    store.trace = seen = StatementRecorder()
    with store.read() as tx:
        examine_audit_and_rows(tx, tx.chain, None, has_note=False)
    store.trace = None
    with_texts = [each for each in seen.found if "arguments" in each or "audit.data" in each]
    assert len(with_texts) == 2
    assert all("LIMIT" in each for each in with_texts)


def test_frequent_queries_are_compiled_once(store: Store) -> None:
    """Home's query is the same statement each time, so others stay in the cache."""
    with store.read() as tx:
        counts = set()
        for _ in range(2):
            grants.list_usable_grants_involving_person(tx, TEAM, BEN, AT)
            counts.add(len(known))
    assert len(counts) == 1
