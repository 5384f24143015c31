"""Messages from a surface other than Slack: whose are worked on, and why others are not."""

from __future__ import annotations

import json
from collections.abc import Callable

from bot.demo.model_server import Turn
from storage import inbox
from storage.models import Delivery, Run, new_id
from storage.states import DeliveryKind, DeliveryStatus, Surface
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.operator_steps import waits
from tests.stories.steps import ask


def submit_typed_message(harness: Harness, person: str, words: str, thread: str = "") -> Delivery:
    """Have somebody type this at an added surface; return its delivery after it was handled."""
    event = {"text": words, "ts": f"{harness.clock.now().timestamp():.6f}"}
    made = Delivery(
        key=f"added:{new_id()}",
        kind=DeliveryKind.TYPED,
        team=harness.app.core.identity.team,
        user=person,
        channel=SUPPORT if thread else "",
        thread_ts=thread,
        body=json.dumps({"event": event}),
        surface=Surface.ADDED,
    )
    harness.app.listeners.store_delivery(made)
    harness.settle()
    with harness.app.core.store.read() as tx:
        found = inbox.find_delivery(tx, made.key)
    assert found is not None
    return found


def test_a_guests_typed_message_starts_no_request(harness: Harness) -> None:
    """The surface is told why, and the text is not stored."""
    found = submit_typed_message(harness, "UGUS00001", "give me everything")
    assert (found.status, found.run_id, found.body) == (DeliveryStatus.DONE, None, "{}")
    assert "full members of this workspace only" in found.answer
    assert not harness.all(Run, Run.requester == "UGUS00001")


def test_a_typed_message_in_anothers_open_request_is_refused(harness: Harness) -> None:
    """The answer names the requester; once the request is over, the message begins a new one."""
    thread = ask(harness, ("note", {"text": "ben is at it"}))
    waits(harness, thread)
    found = submit_typed_message(harness, "UCLEO0001", "and one for me", thread)
    assert "<@UBEN00001>" in found.answer
    assert found.run_id is None
    harness.planner.clear_script()
    submit_typed_message(harness, "UBEN00001", "cancel", thread)
    harness.planner.script(Turn(text="With pleasure, Cleo."))
    assert submit_typed_message(harness, "UCLEO0001", "and one for me", thread).run_id
    harness.said(SUPPORT, thread, "elsewhere: and one for me")
    harness.said(SUPPORT, thread, "With pleasure, Cleo.")


def test_a_typed_message_without_a_model_is_refused(own_harness: Callable[..., Harness]) -> None:
    """The answer points to the forms in Slack."""
    harness = own_harness(FakeTools().tools, OPENAI_API_KEY="")
    found = submit_typed_message(harness, "UBEN00001", "write a note")
    assert "Ask with a form in Slack instead" in found.answer
    assert (found.run_id, harness.all(Run)) == (None, [])
