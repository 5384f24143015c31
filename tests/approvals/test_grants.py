"""Remembered approvals: the calls they allow, as long as their rule and their giver hold."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from sqlalchemy import select, update
from sqlmodel import col

from bot.approvals import call_state, grants
from bot.approvals.permissions import may_approve_alone
from bot.cards.slack_text import channel_mention, format_local_time, user_mention
from bot.policy.evaluation import parse
from bot.policy.gates import Approvers, Ask, Escalation, GrantOffer, Stage
from storage.grants import Grant
from storage.store import Store
from storage.transaction import fetch_rows
from tests.approvals.world import World, make_gate
from tests.runs.fakes import ANA, BEN, CLEO, DAN
from tests.storage.builders import ALLOWED, AT, TEAM, Seeded

OFFERS = """
[defaults]
approvers = ["@shop-leads"]

[[rule]]
name = "notes"
tool = "note"
verdict = "ask"
remember = [{}, {fields = ["text"], where = "everywhere", lasts = "2h", uses = 1}]

[[rule]]
name = "channel"
tool = "put"
verdict = "ask"
approvers = ["channel"]
remember = [{where = "everywhere", lasts = "2d"}]

[[rule]]
name = "later"
tool = "free"
verdict = "ask"
escalation = [{after = "10m", approvers = ["channel"]}]
remember = [{where = "everywhere"}]
"""


@pytest.fixture
def world(store: Store) -> World:
    """A world in which nothing is remembered."""
    return World(store, OFFERS)


def add_grant(
    world: World,
    tool: str = "note",
    offer: int = 0,
    *,
    person: str = ANA,
    made: Seeded | None = None,
) -> Grant:
    """Remember an approval of a call of that tool."""
    gate = world.get_gate(tool)
    made = made or world.add_calls(gate, tool=tool)
    chosen = grants.get_chosen_or_default_offer(gate, offer)
    assert chosen is not None
    found = save_grant(world, made, chosen, person)
    assert found is not None
    return found


def save_grant(world: World, made: Seeded, offer: GrantOffer, person: str = ANA) -> Grant | None:
    """Save an approval as a grant; None if it cannot be remembered."""
    with world.store.write() as tx:
        policy, call, run = world.core.policy, made.call(), made.run()
        return grants.save_approval_as_grant(tx, policy, run, call, person, offer, now=AT)


def list_candidates(world: World, tool: str = "note", text: str = "note 0") -> list[str]:
    """The ids of the grants that may allow a call of Ben's now."""
    run = world.add_calls(world.get_gate(tool), tool=tool).run()
    arguments, sources = json.dumps({"text": text}), world.core.build_policy_fact_sources()
    with world.store.read() as tx:
        known = world.core.tools.tools[tool]
        found = grants.list_candidate_grants(
            tx, sources, run, known, world.get_gate(tool), arguments
        )
    return [each.id for each in found]


def test_a_grant_is_as_wide_as_its_offer(world: World) -> None:
    """An offer covers all values in one thread, or some fields everywhere."""
    narrow, wide = add_grant(world), add_grant(world, offer=1)
    assert (narrow.pinned, wide.pinned) == ('{"text":"note 0"}',) * 2
    assert (narrow.channel, narrow.thread_ts) == ("C0SUPPORT", "1.0")
    assert (wide.channel, wide.thread_ts) == ("", "")
    assert (narrow.until, narrow.uses) == (AT + timedelta(days=1), 10)
    assert (wide.until, wide.uses) == (AT + timedelta(hours=2), 1)
    assert (narrow.team, narrow.requester, narrow.given_by) == (TEAM, BEN, ANA)
    assert narrow.rule == world.core.policy.policy.find_rule_digest(world.get_gate())


@pytest.mark.parametrize("tool", ["put", "free"])
def test_a_grant_is_bound_to_the_channel_if_its_members_approve(world: World, tool: str) -> None:
    """Other people may approve in another channel, also by escalation."""
    found = add_grant(world, tool)
    assert (found.channel, found.thread_ts) == ("C0SUPPORT", "")


def test_calls_no_current_rule_asks_about_cannot_be_remembered(world: World) -> None:
    """Allowed calls cannot be either, nor fields that do not exist."""
    offer = GrantOffer(fields=("text",))
    assert save_grant(world, world.add_calls(make_gate([ANA])), offer) is None
    assert save_grant(world, world.add_calls(ALLOWED), offer) is None
    made = world.add_calls(world.get_gate())
    assert save_grant(world, made, GrantOffer(fields=("text", "more"))) is None
    with world.store.read() as tx:
        assert fetch_rows(tx, Grant, select(Grant)) == []
    assert save_grant(world, made, GrantOffer(fields=())) is not None


def test_a_chosen_offer_must_be_one_of_the_gates(world: World) -> None:
    """Without a choice, the gate's own offer counts."""
    gate, once = world.get_gate(), GrantOffer(uses=3)
    assert [grants.get_chosen_or_default_offer(gate, each) for each in (0, 1, 2, -1)] == [
        *gate.remember,
        None,
        None,
    ]
    assert grants.get_chosen_or_default_offer(gate, None) is None
    assert grants.get_chosen_or_default_offer(gate.model_copy(update={"once": once}), None) == once


def test_a_grant_counts_only_under_its_own_rule(world: World) -> None:
    """Under another rule, or one that does not remember, it is not used up."""
    made = world.add_calls(world.get_gate())
    grant = add_grant(world, made=made)
    assert list_candidates(world) == [grant.id]
    assert list_candidates(world, text="another") == []
    policy, gate = world.core.policy, world.get_gate()
    made = world.add_calls(gate, grant_id=grant.id)
    policy.policy = parse(OFFERS.replace("2h", "3h"))
    assert list_candidates(world) == []
    with world.store.write() as tx:
        assert grants.consume_grant(tx, policy, made.call(), gate, AT) is False
    policy.policy = parse(OFFERS.replace("remember", "#"))
    assert list_candidates(world) == []
    policy.policy = parse(OFFERS)
    with world.store.write() as tx:
        assert grants.consume_grant(tx, policy, made.call(), gate, AT) is True
        assert call_state.find_grant_author_id(tx, made.call()) == ANA


def test_a_grant_of_no_rule_counts_for_no_call(world: World) -> None:
    """Older records have such grants, and a gate may be of a rule that is gone."""
    grant, gate = add_grant(world), world.get_gate()
    made = world.add_calls(gate, grant_id=grant.id)
    with world.store.write() as tx:
        assert tx.update_rows(Grant, {"id": grant.id}, rule="") == 1
        gone = gate.model_copy(update={"rule": "gone"})
        assert world.core.policy.policy.find_rule_digest(gone) == ""
        assert grants.consume_grant(tx, world.core.policy, made.call(), gone, AT) is False


def test_no_grant_counts_for_a_gate_without_offers(world: World) -> None:
    """Such is every gate after a rejection in the same request."""
    add_grant(world)
    run = world.add_calls(world.get_gate()).run()
    gate, sources = world.get_gate().copy_without_offers(), world.core.build_policy_fact_sources()
    with world.store.read() as tx:
        known, same = world.core.tools.tools["note"], json.dumps({"text": "note 0"})
        assert grants.list_candidate_grants(tx, sources, run, known, gate, same) == []


def test_a_call_without_a_grant_uses_none_up(world: World) -> None:
    """Nobody gave it a grant."""
    add_grant(world)
    call, gate = world.add_calls(world.get_gate()).call(), world.get_gate()
    gone = world.add_calls(world.get_gate(), grant_id="gone").call()
    with world.store.write() as tx:
        assert [call_state.find_grant_author_id(tx, each) for each in (call, gone)] == ["", ""]
        assert grants.consume_grant(tx, world.core.policy, call, gate, AT) is False


def test_a_grant_counts_only_while_its_giver_could_approve_alone(world: World) -> None:
    """Of several grants the first with such a giver counts."""
    run, gate = world.add_calls(world.get_gate()).run(), world.get_gate()
    among = [add_grant(world, person=each) for each in (DAN, CLEO, ANA)]
    authority = world.core.authority
    assert grants.find_valid_grant(authority, run, gate, among) == among[1]
    assert grants.find_valid_grant(authority, run, gate, among[:1]) is None
    two = Ask(rule="r", stages=(Stage(approvers=Approvers(users=(ANA,)), quorum=2),))
    assert may_approve_alone(authority, run, two, ANA) is False
    late = Escalation(after=60, approvers=Approvers(users=(DAN,)))
    waiting = make_gate([ANA], escalation=(late,))
    assert [may_approve_alone(authority, run, waiting, each) for each in (ANA, DAN)] == [
        True,
        False,
    ]


def test_a_grants_scope_is_described_by_field_titles(world: World) -> None:
    """No value is shown if its tool is gone."""
    grant = add_grant(world)
    tools = world.core.tools
    assert grants.describe_grant_scope(tools, grant) == "Text note 0"
    for value, shown in (
        (None, "no value"),
        ("None", "None"),
        (True, "yes"),
        ("", "empty"),
        ("a ", '"a "'),
    ):
        grant.pinned = json.dumps({"text": value})
        assert grants.describe_grant_scope(tools, grant) == f"Text {shown}"
    grant.pinned = '{"text":"note 0"}'
    grant.tool = "gone"
    assert grants.describe_grant_scope(tools, grant) == "text ••••••••"
    grant.pinned = "{}"
    assert grants.describe_grant_scope(tools, grant) == "whatever the values"


def test_requester_and_giver_see_their_grants(world: World) -> None:
    """They see where, until when and how often each counts; nobody else does."""
    thread, anywhere = add_grant(world), add_grant(world, offer=1)
    channel = add_grant(world, "put")
    listed = world.core.build_grant_manager()
    assert [each.id for each, _ in listed.list_revocable_grants(BEN)] == [
        anywhere.id,
        thread.id,
        channel.id,
    ]
    assert listed.list_revocable_grants(CLEO) == []
    assert "You have no saved approvals" in listed.describe_grants(CLEO)
    about, until = f"for {user_mention(BEN)}", f"given by {user_mention(ANA)}"
    for grant, where, often in (
        (thread, "in one thread", "10 more times"),
        (anywhere, "everywhere", "once more"),
        (channel, f"in {channel_mention('C0SUPPORT')}", "10 more times"),
    ):
        what = "Do put" if grant is channel else "Do note"
        line = (
            f"{what} (Text note 0) {about}, {where}, until {format_local_time(grant.until)}, "
            f"{often}; {until}"
        )
        assert line in listed.describe_grants(ANA)
        assert f"“/approvals revoke {grant.id}” ends it" in listed.describe_grants(ANA)


def test_requester_or_giver_may_revoke_a_grant_once(world: World) -> None:
    """Nobody else may, nor people of another workspace."""
    listed = world.core.build_grant_manager()
    grants_of = {person: add_grant(world) for person in (ANA, BEN, CLEO)}
    other = add_grant(world)
    with world.store.write() as tx:
        tx.execute(update(Grant).where(col(Grant.id) == other.id).values(team="T0OTHERCO"))
    for person in (ANA, BEN):
        said = listed.revoke_grant(grants_of[person].id, person)
        assert said.startswith("Revoked: Do note (Text note 0)")
        assert listed.revoke_grant(grants_of[person].id, person) == "That was revoked already."
    for person, grant in ((DAN, grants_of[CLEO]), (ANA, other)):
        assert "no saved approval with that id" in listed.revoke_grant(grant.id, person)
    assert "no saved approval with that id" in listed.revoke_grant("nothing", ANA)


def test_a_card_revokes_only_the_grants_given_with_its_call(world: World) -> None:
    """The same people may do so."""
    made, other = world.add_calls(world.get_gate()), add_grant(world)
    grant = add_grant(world, made=made)
    listed = world.core.build_grant_manager()
    with world.store.write() as tx:
        assert listed.revoke_grants_given_with_call(tx, made.ids[0], CLEO, AT) is False
        assert listed.revoke_grants_given_with_call(tx, made.ids[0], ANA, AT) is True
        assert listed.revoke_grants_given_with_call(tx, made.ids[0], ANA, AT) is False
    assert [each.id for each, _ in listed.list_revocable_grants(ANA)] == [other.id]
    assert grant.id != other.id


def test_a_grant_does_not_count_for_another_requester(world: World) -> None:
    """Dan's grant allows no call of Ben's."""
    add_grant(world, made=world.add_calls(world.get_gate(), requester=DAN))
    assert list_candidates(world) == []
