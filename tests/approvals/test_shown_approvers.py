"""Whoever is named as somebody who may approve may approve, and nobody who may is left out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bot.approvals.card_views import build_card_view, describe_people_in_review
from bot.cards.slack_text import user_mention
from bot.policy.authority import Denial, Permission
from bot.policy.gates import Approvers, Ask, Escalation, Stage
from bot.terminal.request_reports import find_deciders
from storage.columns import copy_row_with_changes
from storage.states import CallVerb
from storage.store import Store
from tests.approvals.world import World, make_gate, make_vote
from tests.records import store_of
from tests.runs.fakes import ANA, BEN, CLEO, DAN, EVE, GUS
from tests.storage.builders import AT, Seeded

COLLEAGUES = {ANA, BEN, CLEO, DAN}  # Ben asks
CHANNEL = "C0SUPPORT"  # all of them are members


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """One database for all tests of this file."""
    opened = store_of(tmp_path_factory.mktemp("shown") / "countersign.db").open()
    yield opened
    opened.close()


@st.composite
def lists(draw: Any) -> Approvers:
    """People of any kind, some of them silent."""
    person = st.sampled_from([ANA, BEN, CLEO, DAN, GUS, EVE])
    told, silent = (
        draw(st.lists(person, min_size=1, max_size=2)),
        draw(st.lists(person, max_size=2)),
    )
    return Approvers(
        users=tuple(dict.fromkeys((*told, *silent))),
        silent=tuple(dict.fromkeys(each for each in silent if each not in told)),
        channel=draw(st.sampled_from([False, False, True])),
        requester=draw(st.sampled_from([False, False, True])),
    )


gates = st.builds(
    Ask,
    rule=st.just("r"),
    stages=st.lists(st.builds(Stage, approvers=lists()), min_size=1, max_size=3).map(tuple),
    any_order=st.booleans(),
    veto=st.integers(1, 2),
    self_approval=st.booleans(),
    editor_counts=st.booleans(),
    escalation=st.lists(
        st.builds(Escalation, after=st.just(60), approvers=lists()), max_size=1
    ).map(tuple),
)
EDITORS = st.sampled_from([(), (ANA,), (BEN,), (ANA, DAN)])


def list_able_people(world: World, made: Seeded, at: datetime) -> set[str]:
    """Those whose approval would count now."""
    judge = world.permissions.judge_action
    call, run = made.call(), made.run()
    verdicts = {each: judge(CallVerb.APPROVE, call, run, each, at=at) for each in COLLEAGUES}
    return {each for each, found in verdicts.items() if isinstance(found, Permission)}


def check_named(
    able: set[str], users: set[str], silent: set[str], editors: tuple[str, ...], *, channel: bool
) -> None:
    """Assert that these are exactly the able ones; members of a channel are named as such."""
    named = (users | silent) & COLLEAGUES
    assert BEN not in named - silent or BEN in able
    unsure = {BEN, *(editors if channel else ())}
    assert (named | (COLLEAGUES if channel else set())) - unsure == able - unsure
    assert BEN not in able or BEN in named or channel


def find_mentions(text: str) -> set[str]:
    """The people mentioned in a text."""
    return set(re.findall(r"<@(\w+)>", text))


LATER = (Escalation(after=60, approvers=Approvers(users=(DAN,))),)
ONLY_SILENT = Approvers(users=(BEN, CLEO), silent=(CLEO,))


ANA_OR_DAN = make_gate([ANA, DAN], [CLEO], any_order=True)


@example(gate=make_gate([ANA], [BEN, CLEO], any_order=True), minutes=0, editors=())
@example(gate=make_gate([ANA], [CLEO], any_order=True, escalation=LATER), minutes=2, editors=())
@example(gate=make_gate(ONLY_SILENT), minutes=0, editors=())
@example(gate=make_gate(ONLY_SILENT, [ANA], any_order=True), minutes=0, editors=())
@example(gate=ANA_OR_DAN, minutes=0, editors=(ANA,))
@example(gate=make_gate(Approvers(users=(ANA,), requester=True)), minutes=0, editors=(BEN,))
@given(gate=gates, minutes=st.sampled_from([0, 2]), editors=EDITORS)
def test_those_named_as_approvers_are_those_who_may_approve(
    record: Store, gate: Ask, minutes: int, editors: tuple[str, ...]
) -> None:
    """On the card, also step by step where steps have no order, in Review and in the terminal."""
    world, now = World(record), AT + timedelta(minutes=minutes)
    made = world.add_calls(gate, editors=editors, revision=1)
    able, call, run = list_able_people(world, made, now), made.call(), made.run()
    body = {**json.loads(made.card().body), "groups": {}, "part": 1, "parts": 1}
    shown = copy_row_with_changes(made.card(), body=json.dumps(body))
    with record.read() as tx:
        card = build_card_view(world.core.tools, tx, shown, now)
        _, review = describe_people_in_review(tx, run, call, now)
        who = find_deciders(tx, call, now)
    assert card is not None
    assert who is not None
    silent, users = set(who.silent), set(card.approver_users)
    check_named(able, users, silent, editors, channel=bool(card.approver_channel))
    assert users or card.approver_channel or not able
    mentions = find_mentions(review)
    check_named(able, mentions, set(), editors, channel="members of" in review)
    deciders = {*who.users, *([BEN] if who.requester else [])}
    check_named(able, deciders, set(), editors, channel=who.channel)
    progress = card.calls[0].progress
    if gate.any_order and progress:
        missing = {user for each in progress.missing for user in each.users}
        in_channel = any(each.channel for each in progress.missing)
        check_named(able, missing, silent, editors, channel=in_channel)


@example(gate=make_gate(ONLY_SILENT), editors=(), counts=False)
@example(gate=make_gate([ANA, CLEO]), editors=(ANA,), counts=False)
@given(gate=gates, editors=st.sampled_from([(), (ANA,)]), counts=st.booleans())
def test_a_refusal_names_only_people_who_may_approve(
    record: Store, gate: Ask, editors: tuple[str, ...], counts: bool
) -> None:
    """Nobody is named who has edited it, unless that counts; it says so if there is nobody."""
    world = World(record)
    made = world.add_calls(
        gate.model_copy(update={"editor_counts": counts}), editors=editors, revision=1
    )
    named = find_mentions(world.permissions.describe_approvers(made.call()))
    able = list_able_people(world, made, AT)
    text = world.permissions.describe_approvers(made.call())
    if "members of" not in text:
        assert named <= able
        assert bool(named) == bool(able)


def test_somebody_whose_delegate_has_approved_is_not_named(record: Store) -> None:
    """Ana and Dan, who decided for her, count as one; Cleo is still missing."""
    world = World(record)
    gate = make_gate([ANA, CLEO])
    two = gate.model_copy(update={"stages": (gate.stages[0].model_copy(update={"quorum": 2}),)})
    made = world.add_calls(two, votes=[make_vote(DAN, for_person=ANA)])
    said = world.permissions.refusal_sentence(Denial.NOT_APPROVER, made.call(), CallVerb.APPROVE)
    assert said == f"You cannot decide this one. These people can: {user_mention(CLEO)}."
