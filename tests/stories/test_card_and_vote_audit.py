"""What the audit says beside decisions: what was shown where, and why a vote counted."""

from __future__ import annotations

from tests.stories.harness import SUPPORT, Harness
from tests.stories.steps import ask, noted, open_modal, typed


def test_the_audit_says_what_was_shown_and_why_a_vote_counted(harness: Harness) -> None:
    """A row for the card's first revision and one for its edited one, and the vote's reason.

    Drawing the card again after the decision shows no new revision and makes no row.
    """
    thread = ask(harness, ("note", {"text": "to be shown"}))
    card = harness.card(SUPPORT, thread)
    [call] = harness.calls_in(thread)
    open_modal(harness, "ana", SUPPORT, card, "edit")
    harness.person("ana").submit(typed(text="shown again"))
    harness.said(SUPPORT, thread, "edited")
    harness.settle()
    card = harness.card(SUPPORT, thread)
    harness.person("cleo").click(SUPPORT, card["ts"], "approve")
    harness.said(SUPPORT, thread, "That is all.")
    harness.settle()
    shown = noted(harness, call.run_id, "card.shown")
    assert [each["calls"] for each in shown] == [{call.id: 1}, {call.id: 2}]
    assert {(each["channel"], each["ts"]) for each in shown} == {(SUPPORT, card["ts"])}
    [vote] = noted(harness, call.run_id, "call.approved")
    assert vote["counts_as"] == "member of @shop-leads"
    assert {"policy", "model", "version"} <= set(vote["under"])
    digest = harness.app.core.policy.digest
    assert len(vote["under"]["policy"]) >= 16
    assert digest.startswith(vote["under"]["policy"])
