"""Passkeys: adding, approving, disowning, renaming and revoking them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from urllib.parse import urlsplit

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from sqlalchemy import update
from sqlmodel import col

from bot.approvals.signatures import compute_challenge, find_passkey_problem
from bot.policy.evaluation import CurrentPolicy, parse
from bot.policy.gates import PasskeyTerms
from storage.delegations import Delegation, give_delegation, revoke_delegation
from storage.models import Audit
from storage.passkeys import Passkey, SigningLink
from storage.states import CallStatus
from tests.authenticator import PRESENT, Authenticator
from tests.stories.enrolling import (
    ENROL,
    ask_for_link,
    enrol,
    make_credential,
    make_passkey,
    press_in_dm,
    wait_for_dm,
    wait_for_passkey_card,
)
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import action_ids, words
from tests.stories.signing import (
    ADDRESS,
    PEOPLE,
    add_passkey,
    ask_to_sign,
    ask_with_card,
    find_link,
    forget_passkeys,
    give_passkey,
    links_of,
    passkeys_of,
    post_credential,
    sign,
    sign_card,
)
from tests.stories.steps import arrived, ask, later, now_at, press, statuses, told
from tests.stories.test_home import wait

DAY = 86_400
SETTINGS = ADDRESS
POLICY = """
[passkeys]
days = 30
alarm = ["UDAN00001"]

[defaults]
approvers = ["UANA00001", "UCLEO0001"]
deadline = "1h"
signature = "passkey"

[[rule]]
tool = "add_*"
verdict = "allow"
"""
COUNTS, WAITS = "): counts", "others have to approve it first"


@pytest.fixture(autouse=True)
def _remove_passkeys(harness: Harness) -> Iterator[None]:
    """Remove all passkeys after every story."""
    yield
    forget_passkeys(harness)


def counts(harness: Harness, row: Passkey) -> bool:
    """Whether this passkey counts by now."""
    [now] = harness.all(Passkey, Passkey.id == row.id)
    at, host = harness.app.core.clock.now(), urlsplit(ADDRESS["COUNTERSIGN_URL"]).hostname
    return not find_passkey_problem(now, PasskeyTerms(days=30), at, str(host))


def approve(harness: Harness, who: str, name: str) -> None:
    """Approve the passkey of that name by a plain click."""
    press_in_dm(harness, who, wait_for_passkey_card(harness, who, name), "approve")


def test_a_passkey_counts_once_another_approver_has_approved_it(
    harness: Harness, fakes: FakeTools
) -> None:
    """The first one of an installation: Cleo approves Ana's by a click, and Ana signs with it."""
    key, row = enrol(harness, "ana", "Ana’s phone")
    mine = words(wait_for_dm(harness, "ana", "A new passkey was added for you"))
    theirs = words(wait_for_passkey_card(harness, "cleo", "Ana’s phone"))
    fingerprint = mine.split("Fingerprint: `")[1].split("`")[0]
    assert fingerprint in theirs
    assert "unknown model" in theirs
    assert "Ask this person, not in Slack" in theirs
    assert not counts(harness, row)
    harness.person("ana").open_home()
    wait(harness, "ana", "Passkeys")
    harness.person("ana").click_home("home_passkeys")
    wait(harness, "ana", "Ana’s phone", WAITS)
    thread = ask(harness, ("note", {"text": "signed"}))
    press(harness, "ana", SUPPORT, harness.card(SUPPORT, thread), "approve")
    told(harness, "ana", SUPPORT, thread, "others have to approve it first")
    approve(harness, "cleo", "Ana’s phone")
    wait(harness, "ana", COUNTS)
    assert counts(harness, row)
    wait_for_dm(harness, "ana", "counts from now on")
    assert sign_card(harness, "ana", harness.card(SUPPORT, thread), key).is_done
    harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("note", "signed") == 1


def test_later_passkeys_are_approved_with_a_signature(harness: Harness) -> None:
    """Once somebody can sign, a click alone approves no passkey."""
    key, row = enrol(harness, "ana")
    approve(harness, "cleo", "ana’s phone")
    assert counts(harness, row)
    _, other = enrol(harness, "cleo")
    card = wait_for_passkey_card(harness, "ana", "cleo’s phone")
    before = len(links_of(harness, "ana"))
    press_in_dm(harness, "ana", card, "approve")
    assert not counts(harness, other)
    harness.slack.wait(lambda: len(links_of(harness, "ana")) > before)
    assert sign(harness, find_link(harness, links_of(harness, "ana")[-1]), key).is_done
    arrived(harness)
    assert counts(harness, other)


def test_only_the_passkey_that_was_approved_counts(harness: Harness) -> None:
    """Two of Ana's wait; the one made first may be somebody else's who had her link."""
    _, first = enrol(harness, "ana", "on a laptop")
    _, second = enrol(harness, "ana", "on a phone")
    wait_for_passkey_card(harness, "cleo", "on a laptop")
    approve(harness, "cleo", "on a phone")
    harness.slack.wait(lambda: counts(harness, first) or counts(harness, second))
    assert (counts(harness, first), counts(harness, second)) == (False, True)


def test_nobody_can_approve_their_own_passkey(harness: Harness) -> None:
    """The card goes to others, and a click by the passkey's owner does not count."""
    _, row = enrol(harness, "ana")
    cleo = harness.person("cleo")
    card = wait_for_passkey_card(harness, "cleo", "ana’s phone")
    assert not [m for m in harness.person("ana").everything(SUPPORT) if "ana’s phone" in words(m)]
    press(harness, "ana", cleo.dm_channel, card, "approve")
    arrived(harness)
    assert not counts(harness, row)


@pytest.mark.parametrize("end", ["rejected", "expired"])
def test_a_passkey_that_is_not_approved_never_counts(harness: Harness, end: str) -> None:
    """Home says that nobody approved it, and its owner is sent a link to add another."""
    key, row = enrol(harness, "ana", f"Ana’s {end}")
    card = wait_for_passkey_card(harness, "cleo", f"Ana’s {end}")
    if end == "rejected":
        cleo = harness.person("cleo")
        press(harness, "cleo", cleo.dm_channel, card, "reject")
        harness.slack.wait(cleo.view)
        options = next(
            b["element"]["options"] for b in cleo.view()["blocks"] if b.get("block_id") == "reason"
        )
        cleo.submit({"reason": {"preset": {"selected_option": options[0]}}})
        arrived(harness)
    else:
        later(harness, 7 * DAY + 60)
    harness.settle()
    harness.person("ana").open_home()
    harness.slack.wait(lambda: "home_passkeys" in str(harness.person("ana").home()))
    harness.person("ana").click_home("home_passkeys")
    wait(harness, "ana", "nobody approved it")
    assert not counts(harness, row)
    thread = ask(harness, ("note", {"text": f"{end} key"}))
    link = ask_for_link_by_voting(harness, "ana", thread)
    assert ENROL in link
    assert key.credential_id == row.credential_id


def ask_for_link_by_voting(harness: Harness, who: str, thread: str) -> str:
    """Press Approve without a passkey that counts; return the link that is sent."""
    before = len(links_of(harness, who, ADDRESS["COUNTERSIGN_URL"]))
    press(harness, who, SUPPORT, harness.card(SUPPORT, thread), "approve")
    harness.slack.wait(lambda: len(links_of(harness, who, ADDRESS["COUNTERSIGN_URL"])) > before)
    return links_of(harness, who, ADDRESS["COUNTERSIGN_URL"])[-1]


def test_a_passkey_disowned_by_its_person_is_revoked(harness: Harness) -> None:
    """After “That wasn't me” it cannot be approved any more, and security is told once."""
    key, row = enrol(harness, "ana", "A stranger’s phone")
    card = wait_for_passkey_card(harness, "cleo", "A stranger’s phone")
    message = wait_for_dm(harness, "ana", "A new passkey was added", "A stranger’s phone")
    press_in_dm(harness, "ana", message, "disown_passkey")
    wait_for_dm(harness, "dan", "is not theirs", "It has signed nothing")
    wait_for_dm(harness, "ana", "I have revoked this passkey")
    cleo = harness.person("cleo")
    harness.slack.wait(
        lambda: "approve" not in action_ids(now_at(harness, cleo.dm_channel, card["ts"], "cleo"))
    )
    press(harness, "cleo", cleo.dm_channel, card, "approve")
    arrived(harness)
    assert not counts(harness, row)
    press_in_dm(harness, "ana", message, "disown_passkey")
    wait_for_dm(harness, "ana", "was revoked already")
    assert (
        len([m for m in list_direct_messages(harness, "dan") if "A stranger’s phone" in words(m)])
        == 1
    )
    assert key.credential_id == row.credential_id


def list_direct_messages(harness: Harness, who: str) -> list[dict[str, object]]:
    """Return all direct messages of this person."""
    seen = harness.person(who)
    return list(seen.everything(seen.dm_channel))


def test_a_stolen_slack_session_cannot_sign(harness: Harness, fakes: FakeTools) -> None:
    """The thief can click as Ana and add a passkey: Ana is told, and others are asked about it."""
    ana, own = enrol(harness, "ana", "Ana’s own")
    approve(harness, "cleo", "Ana’s own")
    thread = ask(harness, ("note", {"text": "stolen"}))
    card = harness.card(SUPPORT, thread)
    link = ask_to_sign(harness, "ana", card)
    thief = Authenticator()
    assert not sign(harness, link, thief).is_done
    enrolled = make_passkey(harness, ask_for_link(harness, "ana"), thief, "Ana’s other phone")
    assert enrolled.is_done
    outcome = sign_card(harness, "ana", card, thief)
    assert "does not count yet" in outcome.text
    stolen = passkeys_of(harness, "ana")[-1]
    press(harness, "ana", harness.person("cleo").dm_channel, card, "approve")
    arrived(harness)
    wait_for_dm(harness, "ana", "A new passkey was added for you", "Ana’s other phone")
    assert wait_for_passkey_card(harness, "cleo", "Ana’s other phone")
    assert (counts(harness, own), counts(harness, stolen)) == (True, False)
    assert statuses(harness, thread) == [CallStatus.PENDING]
    assert not fakes.did("note", "stolen")
    assert ana.count == 0


def test_home_renames_and_revokes_a_passkey(harness: Harness, fakes: FakeTools) -> None:
    """A revoked passkey cannot sign, even with a link that was sent before."""
    key, row = enrol(harness, "ana", "Old name")
    approve(harness, "cleo", "Old name")
    ana = harness.person("ana")
    ana.open_home()
    wait(harness, "ana", "home_passkeys")
    ana.click_home("home_passkeys")
    wait(harness, "ana", "Old name", COUNTS)
    ana.click_home("rename_passkey")
    view = harness.slack.wait(ana.view)
    assert "Old name" in str(view)
    assert ana.submit({"words": {"text": {"value": "  New \n name "}}})["outcome"] == "closed"
    wait(harness, "ana", "New name", without="Old name")
    thread = ask(harness, ("note", {"text": "revoked key"}))
    link = ask_to_sign(harness, "ana", harness.card(SUPPORT, thread))
    ana.click_home("revoke_passkey")
    arrived(harness)
    wait(harness, "ana", "You have none", without="New name")
    outcome = sign(harness, link, key)
    assert "was revoked" in outcome.text
    assert not fakes.did("note", "revoked key")
    events = [each.event for each in harness.all(Audit) if row.id in each.data]
    assert events == ["passkey.added", "passkey.counts", "passkey.renamed", "passkey.revoked"]


def test_home_changes_only_the_passkey_it_is_asked_to(harness: Harness) -> None:
    """Without a name it keeps the old one; a revoked one is not renamed, and nobody is alarmed."""
    first, second = (add_passkey(harness, "ana", Authenticator()) for _ in range(2))
    ana = harness.person("ana")
    ana.open_home()
    wait(harness, "ana", "home_passkeys")
    ana.click_home("home_passkeys")
    wait(harness, "ana", first.id, second.id)
    for name in (" \n ", "The second"):
        ana.click_home("rename_passkey", value=second.id)
        harness.slack.wait(ana.view)
        assert ana.submit({"words": {"text": {"value": name}}})["outcome"] == "closed"
        arrived(harness)
        names = {each.id: each.name for each in passkeys_of(harness, "ana")}
        assert (names[first.id], names[second.id]) == (first.name, name.strip() or second.name)
    ana.click_home("rename_passkey", value=second.id)
    harness.slack.wait(ana.view)
    ana.click_home("revoke_passkey", value=second.id)
    arrived(harness)  # an earlier story may have left the same words
    wait_for_dm(harness, "ana", "Revoked: nothing can be signed with this passkey any more.")
    assert ana.submit({"words": {"text": {"value": "Too late"}}})["outcome"] == "closed"
    wait_for_dm(harness, "ana", "This passkey was revoked already.")
    rows = {each.id: each for each in passkeys_of(harness, "ana")}
    assert (rows[first.id].revoked_at, rows[second.id].name) == (None, "The second")
    assert rows[second.id].revoked_at
    assert not [m for m in list_direct_messages(harness, "dan") if "The second" in words(m)]


def test_a_link_adds_one_passkey(harness: Harness) -> None:
    """Posting again on the same link adds nothing, and no passkey can be added twice."""
    link = ask_for_link(harness, "ana")
    key = Authenticator()
    credential = make_credential(key, compute_challenge(link), name="Once")
    assert post_credential(harness, link, credential).is_done
    assert post_credential(harness, link, credential).is_done
    other = make_credential(Authenticator(), compute_challenge(link), name="Twice")
    assert post_credential(harness, link, other).is_done
    assert [each.name for each in passkeys_of(harness, "ana") if not each.revoked_at] == ["Once"]
    again = make_passkey(harness, ask_for_link(harness, "ana"), key, "The same")
    assert (again.is_done, "added before" in again.text) == (False, True)


def test_a_link_adds_passkeys_only_for_its_person(harness: Harness) -> None:
    """A passkey made by anyone with the link is its person's, who is told of it.

    One made for another link is refused.
    """
    mine, theirs = ask_for_link(harness, "ana"), ask_for_link(harness, "cleo")
    key = Authenticator()
    outcome = post_credential(
        harness, mine, make_credential(key, compute_challenge(theirs), name="Mixed")
    )
    assert not outcome.is_done
    assert not [each for each in passkeys_of(harness, "ana") if each.name == "Mixed"]
    assert make_passkey(harness, theirs, key, "Whoever’s").is_done
    wait_for_dm(harness, "cleo", "A new passkey was added for you", "Whoever’s")


def test_another_workspaces_link_adds_nothing(harness: Harness) -> None:
    """The link is in the same record, but belongs to another workspace."""
    link = ask_for_link(harness, "ana")
    where = col(SigningLink.hash) == link.hash
    with harness.app.core.store.write() as tx:
        tx.execute(update(SigningLink).where(where).values(team="TELSEWHERE"))
    outcome = make_passkey(harness, link, Authenticator(), "Elsewhere")
    assert not outcome.is_done
    assert not [each for each in passkeys_of(harness, "ana") if each.name == "Elsewhere"]


@pytest.mark.parametrize(
    ("changed", "part", "why"),
    [
        ({"flags": PRESENT}, "did not check that it is you", "unverified"),
        ({"origin": "https://approve.example.org"}, "different address", "address"),
        ({"cross_origin": True}, "different address", "address"),
        ({"rp_id": "example.com"}, "could not be checked", "attestation"),
        ({"key": rsa.generate_private_key(65537, 1024)}, "could not be checked", "attestation"),
    ],
)
def test_a_passkey_that_cannot_be_verified_is_not_added(
    harness: Harness, changed: dict[str, object], part: str, why: str
) -> None:
    """Another site, an unverified person or a weak key; the page and the audit say why."""
    key = Authenticator(**changed)  # type: ignore[arg-type] # the fields' types differ
    outcome = make_passkey(harness, ask_for_link(harness, "ana"), key, "Odd")
    assert (outcome.is_done, part in outcome.text) == (False, True)
    assert not [each for each in passkeys_of(harness, "ana") if each.name == "Odd"]
    refused = harness.all(Audit, Audit.event == "passkey.refused")[-1]
    assert (refused.actor, refused.data) == (PEOPLE["ana"], f'{{"why":"{why}"}}')


def test_a_link_to_add_a_passkey_expires(harness: Harness) -> None:
    """After half an hour it adds nothing."""
    link = ask_for_link(harness, "ana")
    later(harness, 1801)
    outcome = make_passkey(harness, link, Authenticator(), "Late")
    assert (outcome.is_done, "has expired" in outcome.text) == (False, True)


def test_people_who_decide_nothing_cannot_add_a_passkey(harness: Harness) -> None:
    """Ben may decide nothing, so his Home does not offer passkeys."""
    ben = harness.person("ben")
    thread = ask(harness, ("note", {"text": "ben asks"}))
    harness.card(SUPPORT, thread)
    ben.open_home()
    wait(harness, "ben", "ben asks", without="home_passkeys")
    assert not harness.app.core.build_passkey_manager().may_enrol(PEOPLE["ben"])


@pytest.mark.parametrize("approver", ["channel", "requester", "owner of args.text"])
def test_whoever_may_have_to_sign_a_call_can_add_a_passkey(harness: Harness, approver: str) -> None:
    """Anybody may be in a channel, a requester, or an owner that a function finds."""
    owners = '[owners.text]\nfunction = "shop.owners:find"\n' if "owner" in approver else ""
    policy = f'''
[defaults]
approvers = ["UANA00001"]

{owners}
[[rule]]
tool = "note"
verdict = "ask"
signature = "passkey"
approvers = ["{approver}"]
'''
    manager = harness.app.core.build_passkey_manager()
    manager = replace(manager, policy=CurrentPolicy(parse(policy)))
    assert manager.may_enrol(PEOPLE["ben"])
    assert not manager.may_enrol("UNOBODY01")


def test_a_delegate_of_a_signer_can_add_a_passkey(harness: Harness) -> None:
    """Cleo's delegate has to sign for her, and only as long as the delegation holds."""
    core = harness.app.core
    at = core.clock.now()
    row = Delegation(
        team=core.identity.team,
        giver=PEOPLE["cleo"],
        delegate=PEOPLE["ben"],
        given_at=at,
        until=at + timedelta(days=1),
    )
    manager = core.build_passkey_manager()
    with core.store.write() as tx:
        give_delegation(tx, row)
    assert manager.may_enrol(PEOPLE["ben"])
    with core.store.write() as tx:
        assert revoke_delegation(tx, row.id, PEOPLE["cleo"], core.clock.now())
    assert not manager.may_enrol(PEOPLE["ben"])


def test_a_click_to_add_a_passkey_is_refused_once_a_person_decides_nothing(
    harness: Harness,
) -> None:
    """Their Home still shows the button; they get no link, and are told why."""
    ana = harness.person("ana")
    ana.open_home()
    for button in ("home_passkeys", "add_passkey"):
        harness.slack.wait(lambda each=button: each in str(ana.home()))
        if button == "home_passkeys":
            ana.click_home(button)
    before = len(links_of(harness, "ana", ENROL))
    policy = harness.app.core.policy
    old = policy.policy
    try:
        policy.policy = parse('[defaults]\napprovers = ["UCLEO0001"]\nsignature = "passkey"\n')
        ana.click_home("add_passkey")
        wait_for_dm(harness, "ana", "You need no passkey")
    finally:
        policy.policy = old
    assert len(links_of(harness, "ana", ENROL)) == before


def test_a_deactivated_person_cannot_sign_or_add_a_passkey(harness: Harness) -> None:
    """Links to do so were sent before the person was deactivated."""
    key = give_passkey(harness, "ana")
    thread = ask(harness, ("note", {"text": "by who left"}))
    to_add = ask_for_link(harness, "ana")
    to_sign = ask_to_sign(harness, "ana", harness.card(SUPPORT, thread))
    try:
        harness.slack.people["ana"].deleted = True
        harness.clock.advance(61)
        assert not make_passkey(harness, to_add, Authenticator(), "Gone").is_done
        assert not sign(harness, to_sign, key).is_done
        assert statuses(harness, thread) == [CallStatus.PENDING]
    finally:
        harness.slack.people["ana"].deleted = False
        harness.clock.advance(61)


def test_another_address_needs_new_passkeys(
    own_harness: Callable[..., Harness],
) -> None:
    """Browsers sign for one address only, so old passkeys cannot even approve new ones."""
    harness = own_harness(FakeTools().tools, POLICY, **SETTINGS)
    for who in ("ana", "cleo"):
        give_passkey(harness, who)
    harness.extra["COUNTERSIGN_URL"] = "https://sign.example.org"
    harness.restart()
    thread, card = ask_with_card(harness, "moved")
    press(harness, "ana", SUPPORT, card, "approve")
    told(harness, "ana", SUPPORT, thread, "you have none that counts")
    [url] = links_of(harness, "ana", ENROL)
    key = Authenticator(rp_id="sign.example.org", origin="https://sign.example.org")
    assert make_passkey(harness, find_link(harness, url), key, "Moved").is_done
    approve(harness, "cleo", "Moved")
    assert sign_card(harness, "ana", card, key).is_done
    harness.said(SUPPORT, thread, "That is all.")


def test_a_lost_passkey_can_be_replaced(harness: Harness, fakes: FakeTools) -> None:
    """Ana revokes her only passkey; a new one, approved by Cleo, signs."""
    _, row = enrol(harness, "ana", "Lost")
    approve(harness, "cleo", "Lost")
    ana = harness.person("ana")
    ana.open_home()
    wait(harness, "ana", "home_passkeys")
    ana.click_home("home_passkeys")
    wait(harness, "ana", "Lost your device?", COUNTS)
    ana.click_home("revoke_passkey")
    arrived(harness)
    key, _ = enrol(harness, "ana", "Found")
    approve(harness, "cleo", "Found")
    thread = ask(harness, ("note", {"text": "found again"}))
    assert sign_card(harness, "ana", harness.card(SUPPORT, thread), key).is_done
    harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("note", "found again") == 1
    assert not counts(harness, row)
