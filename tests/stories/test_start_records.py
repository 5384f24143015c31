"""What the bot records at its start."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

import bot
from bot import version
from bot.version import describe_version
from storage import trail
from storage.models import Audit
from storage.transaction import iterate_rows
from tests.stories.harness import Harness


def test_each_start_is_in_the_audit_and_the_log(
    own_harness: Callable[..., Harness], caplog: pytest.LogCaptureFixture
) -> None:
    """With the version and commit that wrote the rows after it."""
    caplog.set_level(logging.INFO, "countersign")
    harness = own_harness()
    harness.restart()
    with harness.app.core.store.read() as tx:
        rows = [each for each in iterate_rows(tx, Audit) if each.event == "bot.started"]
    assert len(rows) == 2
    assert {trail.get_audit_row_data(each)["version"] for each in rows} == {bot.__version__}
    assert {trail.get_audit_row_data(each)["commit"] for each in rows} == {version.commit_id()}
    begun = [each.getMessage() for each in caplog.records if "is at work" in each.getMessage()]
    assert begun[-1].endswith(f": {describe_version()}")
