"""Who asked has no active account any more: nothing of theirs is approved or run."""

from __future__ import annotations

from storage.states import CallStatus, RunStatus
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import action_ids, words
from tests.stories.steps import arrived, ask, noted, now_at, statuses, told


def test_a_request_of_somebody_who_left_ends(harness: Harness, fakes: FakeTools) -> None:
    """An account is deactivated while people decide: the card says so, and nothing runs."""
    thread = ask(harness, ("note", {"text": "ben leaves"}))
    card = harness.card(SUPPORT, thread)
    harness.settle()
    try:
        harness.slack.deactivate("ben")
        harness.said(
            SUPPORT, thread, "Ben Okafor, who asked for this, no longer has an active", "ana"
        )
        arrived(harness)
        drawn = now_at(harness, SUPPORT, card["ts"])
        assert "approve" not in action_ids(drawn)
        assert "the person who asked no longer has an active account here" in words(drawn)
        assert harness.run_in(thread).status is RunStatus.CANCELLED
        harness.person("ana").click(SUPPORT, card["ts"], "approve", seen=card)
        arrived(harness)
        assert not fakes.did("note", "ben leaves")
    finally:
        harness.slack.people["ben"].deleted = False
        harness.clock.advance(61)  # nobody remembers that he was gone


def test_who_left_unheard_of_is_looked_up(harness: Harness, fakes: FakeTools) -> None:
    """Slack never told of it: an approval finds out, counts for nothing and says why."""
    thread = ask(harness, ("note", {"text": "ben left silently"}))
    card = harness.card(SUPPORT, thread)
    harness.settle()
    try:
        harness.slack.people["ben"].deleted = True
        harness.clock.advance(61)  # what was looked up is old
        harness.person("ana").click(SUPPORT, card["ts"], "approve")
        told(harness, "ana", SUPPORT, thread, "no longer has an active account here")
        run = harness.run_in(thread)
        whys = [each["why"] for each in noted(harness, run.id, "decision.refused")]
        assert whys == ["requester_gone"]
        assert statuses(harness, thread) == [CallStatus.PENDING]
        assert not fakes.did("note", "ben left silently")
    finally:
        harness.slack.people["ben"].deleted = False
        harness.clock.advance(61)  # nobody remembers that he was gone
