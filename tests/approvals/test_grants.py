"""What is remembered: for which calls it stands, as long as its rule and its giver do."""

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
from tests.approvals.world import World, gate_of
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
    """Nothing is remembered."""
    return World(store, OFFERS)


def remembered(
    world: World,
    tool: str = "note",
    offer: int = 0,
    *,
    person: str = ANA,
    made: Seeded | None = None,
) -> Grant:
    """Remember an approval of a call of that tool."""
    gate = world.gate(tool)
    made = made or world.asked(gate, tool=tool)
    chosen = grants.get_chosen_or_default_offer(gate, offer)
    assert chosen is not None
    found = given(world, made, chosen, person)
    assert found is not None
    return found


def given(world: World, made: Seeded, offer: GrantOffer, person: str = ANA) -> Grant | None:
    """What comes of having it remembered."""
    with world.store.write() as tx:
        policy, call, run = world.core.policy, made.call(), made.run()
        return grants.save_approval_as_grant(tx, policy, run, call, person, offer, now=AT)


def candidates(world: World, tool: str = "note", text: str = "note 0") -> list[str]:
    """The ids of what a call of Ben's might run on now."""
    run = world.asked(world.gate(tool), tool=tool).run()
    arguments, sources = json.dumps({"text": text}), world.core.build_policy_fact_sources()
    with world.store.read() as tx:
        known = world.core.tools.tools[tool]
        found = grants.list_candidate_grants(tx, sources, run, known, world.gate(tool), arguments)
    return [each.id for each in found]


def test_how_wide_it_is(world: World) -> None:
    """As wide as the offer: all values and the thread, or some fields, anywhere."""
    narrow, wide = remembered(world), remembered(world, offer=1)
    assert (narrow.pinned, wide.pinned) == ('{"text":"note 0"}',) * 2
    assert (narrow.channel, narrow.thread_ts) == ("C0SUPPORT", "1.0")
    assert (wide.channel, wide.thread_ts) == ("", "")
    assert (narrow.until, narrow.uses) == (AT + timedelta(days=1), 10)
    assert (wide.until, wide.uses) == (AT + timedelta(hours=2), 1)
    assert (narrow.team, narrow.requester, narrow.given_by) == (TEAM, BEN, ANA)
    assert narrow.rule == world.core.policy.policy.find_rule_digest(world.gate())


@pytest.mark.parametrize("tool", ["put", "free"])
def test_where_the_channel_decides_it_is_bound_to_it(world: World, tool: str) -> None:
    """Who may approve is another in another channel, also where its members come in later."""
    found = remembered(world, tool)
    assert (found.channel, found.thread_ts) == ("C0SUPPORT", "")


def test_what_cannot_be_remembered(world: World) -> None:
    """What no rule in force asks, what is not asked at all, and a field that is not there."""
    offer = GrantOffer(fields=("text",))
    assert given(world, world.asked(gate_of([ANA])), offer) is None
    assert given(world, world.asked(ALLOWED), offer) is None
    made = world.asked(world.gate())
    assert given(world, made, GrantOffer(fields=("text", "more"))) is None
    with world.store.read() as tx:
        assert fetch_rows(tx, Grant, select(Grant)) == []
    assert given(world, made, GrantOffer(fields=())) is not None


def test_which_offer_was_chosen(world: World) -> None:
    """One of those there are; without a choice what the gate remembers by itself."""
    gate, once = world.gate(), GrantOffer(uses=3)
    assert [grants.get_chosen_or_default_offer(gate, each) for each in (0, 1, 2, -1)] == [
        *gate.remember,
        None,
        None,
    ]
    assert grants.get_chosen_or_default_offer(gate, None) is None
    assert grants.get_chosen_or_default_offer(gate.model_copy(update={"once": once}), None) == once


def test_it_holds_while_its_rule_does(world: World) -> None:
    """Under another rule, or none that remembers, it stands for nothing and is not used up."""
    made = world.asked(world.gate())
    grant = remembered(world, made=made)
    assert candidates(world) == [grant.id]
    assert candidates(world, text="another") == []
    policy, gate = world.core.policy, world.gate()
    made = world.asked(gate, grant_id=grant.id)
    policy.policy = parse(OFFERS.replace("2h", "3h"))
    assert candidates(world) == []
    with world.store.write() as tx:
        assert grants.consume_grant(tx, policy, made.call(), gate, AT) is False
    policy.policy = parse(OFFERS.replace("remember", "#"))
    assert candidates(world) == []
    policy.policy = parse(OFFERS)
    with world.store.write() as tx:
        assert grants.consume_grant(tx, policy, made.call(), gate, AT) is True
        assert call_state.find_grant_author_id(tx, made.call()) == ANA


def test_a_call_without_one(world: World) -> None:
    """A call that runs on no grant uses none up, and nobody gave it."""
    remembered(world)
    call, gate = world.asked(world.gate()).call(), world.gate()
    gone = world.asked(world.gate(), grant_id="gone").call()
    with world.store.write() as tx:
        assert [call_state.find_grant_author_id(tx, each) for each in (call, gone)] == ["", ""]
        assert grants.consume_grant(tx, world.core.policy, call, gate, AT) is False


def test_who_gave_it_must_be_able_to_still(world: World) -> None:
    """The first whose giver could decide now; of several grants not always the first."""
    run, gate = world.asked(world.gate()).run(), world.gate()
    among = [remembered(world, person=each) for each in (DAN, CLEO, ANA)]
    authority = world.core.authority
    assert grants.find_valid_grant(authority, run, gate, among) == among[1]
    assert grants.find_valid_grant(authority, run, gate, among[:1]) is None
    two = Ask(rule="r", stages=(Stage(approvers=Approvers(users=(ANA,)), quorum=2),))
    assert may_approve_alone(authority, run, two, ANA) is False
    late = Escalation(after=60, approvers=Approvers(users=(DAN,)))
    waiting = gate_of([ANA], escalation=(late,))
    assert [may_approve_alone(authority, run, waiting, each) for each in (ANA, DAN)] == [
        True,
        False,
    ]


def test_what_it_is_for_in_words(world: World) -> None:
    """By what people call the fields; of a tool that is gone no value is shown."""
    grant = remembered(world)
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


def test_each_sees_what_is_theirs(world: World) -> None:
    """Who asked and who gave it see it, with where, until when and how often; nobody else does."""
    thread, anywhere = remembered(world), remembered(world, offer=1)
    channel = remembered(world, "put")
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


def test_whoever_has_a_part_ends_it(world: World) -> None:
    """Who asked or gave it, of this workspace, once."""
    listed = world.core.build_grant_manager()
    grants_of = {person: remembered(world) for person in (ANA, BEN, CLEO)}
    other = remembered(world)
    with world.store.write() as tx:
        tx.execute(update(Grant).where(col(Grant.id) == other.id).values(team="T0OTHERCO"))
    for person in (ANA, BEN):
        said = listed.revoke_grant(grants_of[person].id, person)
        assert said.startswith("Revoked: Do note (Text note 0)")
        assert listed.revoke_grant(grants_of[person].id, person) == "That was revoked already."
    for person, grant in ((DAN, grants_of[CLEO]), (ANA, other)):
        assert "no saved approval with that id" in listed.revoke_grant(grant.id, person)
    assert "no saved approval with that id" in listed.revoke_grant("nothing", ANA)


def test_what_one_approval_gave_is_ended_by_its_card(world: World) -> None:
    """That of this call, and of no other, by who has a part in it."""
    made, other = world.asked(world.gate()), remembered(world)
    grant = remembered(world, made=made)
    listed = world.core.build_grant_manager()
    with world.store.write() as tx:
        assert listed.revoke_grants_given_with_call(tx, made.ids[0], CLEO, AT) is False
        assert listed.revoke_grants_given_with_call(tx, made.ids[0], ANA, AT) is True
        assert listed.revoke_grants_given_with_call(tx, made.ids[0], ANA, AT) is False
    assert [each.id for each, _ in listed.list_revocable_grants(ANA)] == [other.id]
    assert grant.id != other.id


def test_runs_are_told_apart(world: World) -> None:
    """A remembered approval of one requester is none of another's."""
    remembered(world, made=world.asked(world.gate(), requester=DAN))
    assert candidates(world) == []
