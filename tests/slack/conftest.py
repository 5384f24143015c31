"""For the tests of the outbox: a local Slack and a record, shared by the tests of a file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.local_slack import build_local_slack
from tests.records import store_of
from tests.slack.post_office import PostOffice


@pytest.fixture(scope="module")
def shared_office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostOffice]:
    """A sender, its record and its Slack."""
    store = store_of(tmp_path_factory.mktemp("office") / "countersign.db").open()
    with build_local_slack() as slack:
        yield PostOffice(store, slack)
    store.close()


@pytest.fixture
def office(shared_office: PostOffice) -> Iterator[PostOffice]:
    """The same, with nothing asked of Slack yet, and no fault left behind."""
    shared_office.asked()
    shared_office.signals.work.clear()
    yield shared_office
    shared_office.slack.faults.clear()
