"""A local Slack and a record for the tests of the outbox, shared by the tests of a file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.local_slack import build_local_slack
from tests.records import store_of
from tests.slack.sender_harness import SenderHarness


@pytest.fixture(scope="module")
def shared_harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SenderHarness]:
    """A sender, its record and its Slack."""
    store = store_of(tmp_path_factory.mktemp("office") / "countersign.db").open()
    with build_local_slack() as slack:
        yield SenderHarness(store, slack)
    store.close()


@pytest.fixture
def harness(shared_harness: SenderHarness) -> Iterator[SenderHarness]:
    """The shared one, with no requests counted yet and no fault left behind."""
    shared_harness.take_requests()
    shared_harness.signals.work.clear()
    yield shared_harness
    shared_harness.slack.faults.clear()
