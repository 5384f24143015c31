"""All pairs of the five transition tables against a second table, written by hand."""

from __future__ import annotations

from itertools import product

import pytest

from storage import states
from storage.states import CallStatus, IllegalStatusChangeError, RunStatus

# One row for each status, in the order of the columns; x marks a transition.
CALL_COLUMNS = (
    "PENDING APPROVED REFUSED ANSWERED REJECTED EXPIRED CANCELLED "
    "SUPERSEDED INVALIDATED RUNNING SUCCEEDED FAILED UNKNOWN ENTRUSTED"
)
CALL_TABLE = """
    PENDING      . x . x x x x x x . . . . .
    APPROVED     x . . . . . x x x x . . x .
    REFUSED      . . . . . . . . . . . . . .
    ANSWERED     . . . . . . . . . . . . . .
    REJECTED     . . . . . . . . . . . . . .
    EXPIRED      . . . . . . . . . . . . . .
    CANCELLED    . . . . . . . . . . . . . .
    SUPERSEDED   . . . . . . . . . . . . . .
    INVALIDATED  . . . . . . . . . . . . . .
    RUNNING      x . . . . . . . . . x x x x
    SUCCEEDED    . . . . . . . . . . . . . .
    FAILED       . . . . . . . . . . . . . .
    UNKNOWN      . x . . . . . . . . x x . .
    ENTRUSTED    . . . . . . x x . . x x . .
"""
RUN_COLUMNS = "READY RUNNING WAITING COMPLETED FAILED CANCELLED"
RUN_TABLE = """
    READY        . x . . . x
    RUNNING      x . x x x x
    WAITING      x . . . . x
    COMPLETED    . . . . . .
    FAILED       x . . . . .
    CANCELLED    . . . . . .
"""
MESSAGE_COLUMNS = "PENDING SENDING STREAMING CLOSING SENT STALE FAILED"
MESSAGE_TABLE = """
    PENDING      . x . . x x x
    SENDING      x . . . x x x
    STREAMING    . . . x . . .
    CLOSING      x . . . x x x
    SENT         . . . . . x .
    STALE        x . . . x . x
    FAILED       . . . x . x .
"""
INSTALLATION_COLUMNS = "ACTIVE PAUSED REMOVED"
INSTALLATION_TABLE = """
    ACTIVE       . x x
    PAUSED       x . x
    REMOVED      x x .
"""
DELIVERY_COLUMNS = "NEW HELD DONE BROKEN"
DELIVERY_TABLE = """
    NEW          . x x x
    HELD         . . x .
    DONE         . . . .
    BROKEN       . . . .
"""


def parse_table(columns: str, table: str) -> dict[tuple[str, str], bool]:
    """Each (from, to) of a drawn table, and whether it is marked."""
    rows = [line.split() for line in table.strip().splitlines()]
    return {
        (name, to): mark == "x"
        for name, *marks in rows
        for to, mark in zip(columns.split(), marks, strict=True)
    }


CALL_CELLS = parse_table(CALL_COLUMNS, CALL_TABLE)
RUN_CELLS = parse_table(RUN_COLUMNS, RUN_TABLE)
MESSAGE_CELLS = parse_table(MESSAGE_COLUMNS, MESSAGE_TABLE)
DELIVERY_CELLS = parse_table(DELIVERY_COLUMNS, DELIVERY_TABLE)
INSTALLATION_CELLS = parse_table(INSTALLATION_COLUMNS, INSTALLATION_TABLE)


def test_the_drawn_tables_are_complete() -> None:
    """They have a cell for every pair of statuses."""
    assert set(CALL_CELLS) == set(product(CallStatus.__members__, repeat=2))
    assert set(RUN_CELLS) == set(product(RunStatus.__members__, repeat=2))
    assert set(states.CALL_TRANSITIONS) == set(CallStatus)
    assert set(states.RUN_TRANSITIONS) == set(RunStatus)


@pytest.mark.parametrize(("source", "target"), CALL_CELLS)
def test_a_call_makes_only_marked_moves(source: str, target: str) -> None:
    """Any other raises and names both statuses."""
    if CALL_CELLS[source, target]:
        states.require_allowed_status_change(
            states.CALL_TRANSITIONS, CallStatus[source], CallStatus[target]
        )
    else:
        with pytest.raises(IllegalStatusChangeError, match=f"{source.lower()} -> {target.lower()}"):
            states.require_allowed_status_change(
                states.CALL_TRANSITIONS, CallStatus[source], CallStatus[target]
            )


@pytest.mark.parametrize(("source", "target"), RUN_CELLS)
def test_a_run_makes_only_marked_moves(source: str, target: str) -> None:
    """Any other raises and names both statuses."""
    if RUN_CELLS[source, target]:
        states.require_allowed_status_change(
            states.RUN_TRANSITIONS, RunStatus[source], RunStatus[target]
        )
    else:
        with pytest.raises(IllegalStatusChangeError, match=f"{source.lower()} -> {target.lower()}"):
            states.require_allowed_status_change(
                states.RUN_TRANSITIONS, RunStatus[source], RunStatus[target]
            )


def test_messages_and_deliveries_make_only_marked_moves() -> None:
    """Installations are compared, too; each table has all of its statuses."""
    for moves, found in (
        (states.MESSAGE_TRANSITIONS, MESSAGE_CELLS),
        (states.DELIVERY_TRANSITIONS, DELIVERY_CELLS),
        (states.INSTALLATION_TRANSITIONS, INSTALLATION_CELLS),
    ):
        drawn = {
            source: {to for (begun, to), marked in found.items() if marked and begun == source}
            for source, _ in found
        }
        assert {a.name: {b.name for b in to} for a, to in moves.items()} == drawn


def test_the_initial_statuses_are_as_listed() -> None:
    """They are those of calls, runs, deliveries and messages."""
    assert {status.name for status in states.MESSAGE_INITIAL_STATUSES} == {"PENDING", "STREAMING"}
    assert {status.name for status in states.DELIVERY_INITIAL_STATUSES} == {"NEW"}
    assert {status.name for status in states.CALL_INITIAL_STATUSES} == {
        "PENDING",
        "APPROVED",
        "REFUSED",
    }
    assert {status.name for status in states.RUN_INITIAL_STATUSES} == {"READY"}


def test_final_statuses_have_no_move_and_open_runs_are_as_listed() -> None:
    """An open run is one that somebody works on or waits for."""
    dead = {
        source
        for source, _ in CALL_CELLS
        if not any(CALL_CELLS[source, to] for to in CALL_COLUMNS.split())
    }
    assert {status.name for status in states.CALL_FINAL_STATUSES} == dead
    assert {status.name for status in states.RUN_OPEN_STATUSES} == {"READY", "RUNNING", "WAITING"}


def list_reachable(table: dict[tuple[str, str], bool], births: set[str]) -> set[str]:
    """The statuses that `births` lead to by marked moves."""
    found, before = set(births), set[str]()
    while found != before:
        before = set(found)
        found |= {
            target for (source, target), marked in table.items() if marked and source in before
        }
    return found


def test_every_status_can_be_reached() -> None:
    """Calls and runs have no status that nothing leads to."""
    assert list_reachable(
        CALL_CELLS, {status.name for status in states.CALL_INITIAL_STATUSES}
    ) == set(CallStatus.__members__)
    assert list_reachable(
        RUN_CELLS, {status.name for status in states.RUN_INITIAL_STATUSES}
    ) == set(RunStatus.__members__)


def test_nothing_runs_unless_approved() -> None:
    """RUNNING comes from APPROVED alone; refused, rejected and expired calls are final."""
    assert {
        source for source in CallStatus if CallStatus.RUNNING in states.CALL_TRANSITIONS[source]
    } == {CallStatus.APPROVED}
    assert {
        each for each in CallStatus if CallStatus.ENTRUSTED in states.CALL_TRANSITIONS[each]
    } == {CallStatus.RUNNING}
    for status in (CallStatus.REFUSED, CallStatus.REJECTED, CallStatus.EXPIRED):
        assert status in states.CALL_FINAL_STATUSES


def test_statuses_are_stored_as_their_names_in_lower_case() -> None:
    """Rows read like the design."""
    assert all(
        status.value == status.name.lower()
        for machine in (CallStatus, RunStatus)
        for status in machine
    )
