"""A signature counts by the right for which it was made: of a vote, and to run a call again."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from bot.cards import passkey_views
from storage.delegations import Delegation, give_delegation, revoke_delegation
from storage.states import CallStatus
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.signing import (
    ADDRESS,
    PEOPLE,
    ask_to_sign,
    ask_with_card,
    give_passkey,
    sign,
    sign_card,
)
from tests.stories.steps import statuses

SETTINGS = ADDRESS
POLICY = """
[passkeys]
enrol = "self"

[defaults]
approvers = ["@shop-leads"]
deadline = "1h"
signature = "passkey"
"""


@pytest.fixture(autouse=True)
def _end_delegations(harness: Harness) -> Iterator[None]:
    """End what is delegated after every story."""
    yield
    core = harness.app.core
    with core.store.write() as tx:
        for each in harness.all(Delegation):
            revoke_delegation(tx, each.id, each.giver, core.clock.now())


def delegate_to_dan(harness: Harness, who: str) -> Delegation:
    """Have this person delegate their approvals to Dan."""
    core = harness.app.core
    now = core.clock.now()
    row = Delegation(
        team=core.identity.team,
        giver=PEOPLE[who],
        delegate=PEOPLE["dan"],
        given_at=now,
        until=now + timedelta(days=1),
    )
    with core.store.write() as tx:
        give_delegation(tx, row)
    return row


def test_a_rerun_signed_by_another_right_does_not_count(harness: Harness, fakes: FakeTools) -> None:
    """Dan signed for Ana, who has ended that since; Cleo's right is not what he signed for."""
    ana, dan = give_passkey(harness, "ana"), give_passkey(harness, "dan")
    for_ana, core = delegate_to_dan(harness, "ana"), harness.app.core
    thread, card = ask_with_card(harness, "lost", "lose")
    assert sign_card(harness, "ana", card, ana).is_done
    unknown = harness.card(SUPPORT, thread, having="run_again")
    link = ask_to_sign(harness, "dan", unknown, "run_again")
    with core.store.write() as tx:
        assert revoke_delegation(tx, for_ana.id, PEOPLE["ana"], core.clock.now())
    delegate_to_dan(harness, "cleo")
    outcome = sign(harness, link, dan)
    assert (outcome.is_done, outcome.text) == (False, passkey_views.CHANGED_SINCE_REPLY)
    harness.settle()
    assert statuses(harness, thread) == [CallStatus.UNKNOWN]
    assert fakes.did("lose", "lost") == 1


def test_a_vote_signed_by_another_right_does_not_count(harness: Harness, fakes: FakeTools) -> None:
    """Dan signed for Ana, who has ended that since; what he signs for Cleo counts."""
    dan, core = give_passkey(harness, "dan"), harness.app.core
    for_ana = delegate_to_dan(harness, "ana")
    thread, card = ask_with_card(harness, "by right")
    link = ask_to_sign(harness, "dan", card)
    with core.store.write() as tx:
        assert revoke_delegation(tx, for_ana.id, PEOPLE["ana"], core.clock.now())
    delegate_to_dan(harness, "cleo")
    outcome = sign(harness, link, dan)
    assert (outcome.is_done, outcome.text) == (False, passkey_views.CHANGED_SINCE_REPLY)
    assert statuses(harness, thread) == [CallStatus.PENDING]
    assert sign_card(harness, "dan", card, dan).is_done
    harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("note", "by right") == 1
