"""Words that another surface than Slack hands in: whose are heard, and who is told why not."""

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


def typed(harness: Harness, person: str, words: str, thread: str = "") -> Delivery:
    """Somebody types this at such a surface; returns what became of it."""
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


def test_guests_are_not_heard(harness: Harness) -> None:
    """The surface is told why; no request begins, and the words are not kept."""
    found = typed(harness, "UGUS00001", "give me everything")
    assert (found.status, found.run_id, found.body) == (DeliveryStatus.DONE, None, "{}")
    assert "full members of this workspace only" in found.answer
    assert not harness.all(Run, Run.requester == "UGUS00001")


def test_nobody_speaks_in_the_open_request_of_another(harness: Harness) -> None:
    """Whose it is is told; once it is over, the thread is free."""
    thread = ask(harness, ("note", {"text": "ben is at it"}))
    waits(harness, thread)
    found = typed(harness, "UCLEO0001", "and one for me", thread)
    assert "<@UBEN00001>" in found.answer
    assert found.run_id is None
    harness.planner.clear_script()
    typed(harness, "UBEN00001", "cancel", thread)
    harness.planner.script(Turn(text="With pleasure, Cleo."))
    assert typed(harness, "UCLEO0001", "and one for me", thread).run_id
    harness.said(SUPPORT, thread, "elsewhere: and one for me")
    harness.said(SUPPORT, thread, "With pleasure, Cleo.")


def test_without_a_model_nobody_hears_it(own_harness: Callable[..., Harness]) -> None:
    """It says so, and what to do instead."""
    harness = own_harness(FakeTools().tools, OPENAI_API_KEY="")
    found = typed(harness, "UBEN00001", "write a note")
    assert "Ask with a form in Slack instead" in found.answer
    assert (found.run_id, harness.all(Run)) == (None, [])
