"""Buttons and dialogs about something that is not in the record, as after a backup was restored."""

from __future__ import annotations

import pytest

from slack_sandbox.workspace.records import Delivery as Sent
from storage.models import Delivery
from storage.states import DeliveryStatus
from tests.stories.harness import SUPPORT, Harness
from tests.stories.steps import arrived
from tests.stories.test_foreign_payloads import About, dump_decisions, list_interactions


def test_nothing_comes_of_a_button_or_dialog_about_something_lost(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    """Each is acknowledged and handled, without an error."""
    place = harness.person("ben").say(SUPPORT, "hello")
    lost = About(place, place, "lost_run", "lost_plan", "lost_call", 99)
    world, before, outcomes = harness.slack.world, dump_decisions(harness), []
    earlier = {each.seq for each in harness.all(Delivery)}
    for name, body in list_interactions(lost, {"team_id": world.team, "enterprise_id": None}):
        if name != "submit new_request":  # asks for something new
            said = {"api_app_id": world.app.id, "token": "t", **body}
            sent = Sent("interactive", said, world.app)
            world.send(sent)
            outcomes.append((name, sent.wait()))
    arrived(harness)
    assert [name for name, outcome in outcomes if outcome != "acked"] == ["options"]
    broken = harness.all(Delivery, Delivery.status == DeliveryStatus.BROKEN)
    assert {each.seq for each in broken} <= earlier
    assert dump_decisions(harness) == before
    assert "Traceback" not in caplog.text
