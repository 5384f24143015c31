"""Votes signed with passkeys: which signatures count, and which do not."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest

from bot.approvals.signatures import build_page_delivery, compute_challenge, parse_credential
from storage.examination import examine_audit_and_rows
from storage.models import Vote
from storage.passkeys import VoteSignature
from storage.states import CallStatus, CallVerb
from tests.authenticator import PRESENT, Authenticator
from tests.stories.enrolling import make_passkey
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import words
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
    load_outcome,
    passkeys_of,
    post_credential,
    read_link_message,
    sign,
    sign_card,
)
from tests.stories.steps import (
    arrived,
    ask,
    later,
    noted,
    now_at,
    open_modal,
    press,
    reject,
    statuses,
    told,
    typed,
    vote,
)
from tests.stories.test_break_glass import WHY, reason

C = CallStatus
SETTINGS = ADDRESS
POLICY = """
[passkeys]
enrol = "self"
days = 30
alarm = ["UDAN00001"]

[defaults]
approvers = ["@shop-leads"]
deadline = "1h"
signature = "passkey"
break_glass = ["UBEN00001"]

[[rule]]
tool = "put"
verdict = "ask"
stages = [
  {approvers = ["UANA00001"], signature = "none"},
  {approvers = ["UCLEO0001"], signature = "passkey"},
]
any_order = true

[[rule]]
tool = "wipe"
verdict = "ask"
quorum = 2
approvers = ["UANA00001", "UCLEO0001"]
"""


@pytest.fixture(autouse=True)
def _remove_passkeys(harness: Harness) -> Iterator[None]:
    """Remove all passkeys after every story."""
    yield
    forget_passkeys(harness)


def list_votes(harness: Harness, thread: str) -> list[Vote]:
    """Return the votes on the thread's only call."""
    [call] = harness.calls_in(thread)
    return harness.all(Vote, Vote.call_id == call.id)


def list_refusal_reasons(harness: Harness, thread: str) -> list[str]:
    """Return why decisions about the thread's call were refused, from the audit."""
    [call] = harness.calls_in(thread)
    return [data["why"] for data in noted(harness, call.run_id, "decision.refused")]


def test_a_click_is_no_vote_until_it_is_signed(harness: Harness, fakes: FakeTools) -> None:
    """Ana presses Approve, gets a private link and signs; then the call runs once."""
    key = give_passkey(harness, "ana")
    thread, card = ask_with_card(harness, "signed")
    link = ask_to_sign(harness, "ana", card)
    harness.settle()
    assert (statuses(harness, thread), list_votes(harness, thread)) == ([C.PENDING], [])
    assert "This needs your passkey" in read_link_message(harness, "ana")
    assert not links_of(harness, "ben")
    outcome = sign(harness, link, key)
    assert (outcome.is_done, outcome.text.startswith("Signed.")) == (True, True)
    harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("note", "signed") == 1
    assert "Approve with passkey" in words(card)
    harness.settle()
    drawn = words(now_at(harness, SUPPORT, card["ts"]))
    assert f"Approved by <@{PEOPLE['ana']}> (signed by passkey)" in drawn
    [given] = list_votes(harness, thread)
    [mine] = passkeys_of(harness, "ana")
    assert (given.verb, given.person, given.passkey_id) == ("approve", PEOPLE["ana"], mine.id)
    assert (mine.sign_count, mine.last_used_at is not None) == (1, True)
    [call] = harness.calls_in(thread)
    [signature] = harness.all(VoteSignature, VoteSignature.call_id == call.id)
    assert signature.statement == link.statement
    [data] = noted(harness, call.run_id, "call.approved")
    assert (data["passkey"], data["surface"]) == (mine.id, "page")
    [data] = noted(harness, call.run_id, "call.signed")
    assert data["statement"] == compute_challenge(link).hex()
    [data] = noted(harness, call.run_id, "call.shown")
    assert (data["dialog"], noted(harness, call.run_id, "call.revealed")) == ("open_page", [])
    with harness.app.core.store.read() as tx:
        assert not examine_audit_and_rows(tx, tx.chain, None, has_note=False).problems


def test_a_signature_counts_once(harness: Harness, fakes: FakeTools) -> None:
    """It is posted twice on one link, and signed again on a second one."""
    key = give_passkey(harness, "ana")
    thread, card = ask_with_card(harness, "twice")
    first, second = (ask_to_sign(harness, "ana", card) for _ in range(2))
    credential = key.sign(compute_challenge(first))
    assert post_credential(harness, first, credential).is_done
    assert post_credential(harness, first, credential).is_done
    again = sign(harness, second, key)
    assert not again.is_done
    assert "already approved" in again.text
    harness.said(SUPPORT, thread, "That is all.")
    assert (fakes.did("note", "twice"), len(list_votes(harness, thread))) == (1, 1)


def test_rejecting_needs_no_passkey(harness: Harness, fakes: FakeTools) -> None:
    """Ana has no passkey, and her rejection counts."""
    thread, card = ask_with_card(harness, "no")
    reject(harness, "ana", SUPPORT, card, "not today")
    arrived(harness)
    assert (statuses(harness, thread), fakes.did("note", "no")) == ([C.REJECTED], 0)


def test_an_approver_without_a_passkey_is_told_how_to_add_one(harness: Harness) -> None:
    """It counts at once, as the policy says. People who may not decide are refused as usual."""
    thread, card = ask_with_card(harness, "none")
    press(harness, "ana", SUPPORT, card, "approve")
    told(harness, "ana", SUPPORT, thread, "you have none that counts")
    [url] = links_of(harness, "ana", "/passkeys/")
    made = make_passkey(harness, find_link(harness, url), Authenticator())
    assert "you can approve with it from now on" in made.text
    press(harness, "dan", SUPPORT, card, "approve")
    told(harness, "dan", SUPPORT, thread, "You cannot decide this")
    arrived(harness)
    assert not links_of(harness, "dan", ADDRESS["COUNTERSIGN_URL"])
    assert statuses(harness, thread) == [C.PENDING]


def test_a_quorum_needs_a_signature_of_each_person(harness: Harness, fakes: FakeTools) -> None:
    """Two people sign, and the call runs after the second."""
    ana, cleo = give_passkey(harness, "ana"), give_passkey(harness, "cleo")
    thread, card = ask_with_card(harness, "both", "wipe")
    assert sign_card(harness, "ana", card, ana).is_done
    assert statuses(harness, thread) == [C.PENDING]
    half = words(now_at(harness, SUPPORT, card["ts"]))
    assert f"✅ <@{PEOPLE['ana']}> (signed by passkey)" in half
    assert sign_card(harness, "cleo", card, cleo).is_done
    harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("wipe", "both") == 1


def test_only_one_of_two_stages_may_need_a_signature(harness: Harness, fakes: FakeTools) -> None:
    """Two stages in any order: Ana clicks, and Cleo signs."""
    cleo = give_passkey(harness, "cleo")
    thread = ask(harness, ("put", {"text": "mixed"}))
    card = harness.card(SUPPORT, thread)
    vote(harness, "ana", card)
    assert [each.passkey_id for each in list_votes(harness, thread)] == [""]
    assert sign_card(harness, "cleo", card, cleo).is_done
    harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("put", "mixed") == 1


BAD = {
    "unverified": ({"flags": PRESENT}, "did not check that it is you", "unverified"),
    "not present": ({"flags": 0x04}, "does not match", "signature"),
    "another origin": ({"origin": "https://evil.example"}, "different address", "address"),
    "another port": (
        {"origin": "https://approve.example.com:8443"},
        "different address",
        "address",
    ),
    "in a frame": ({"cross_origin": True}, "different address", "address"),
    "another site": ({"rp_id": "evil.example"}, "different address", "address"),
    "a new passkey": ({"kind": "webauthn.create"}, "does not match", "signature"),
    "another key": ({"key": Authenticator().key}, "does not match", "signature"),
    # the receipt's verification would refuse these
    "perhaps in a frame": ({"more": {"crossOrigin": []}}, "does not match", "signature"),
    "not quite JSON": ({"more": {"odd": math.nan}}, "does not match", "signature"),
}


@pytest.mark.parametrize("name", BAD)
def test_an_invalid_signature_does_not_count(harness: Harness, name: str) -> None:
    """The page says why, the audit has it, and there is no vote."""
    changed, sentence, why = BAD[name]
    key = give_passkey(harness, "ana")
    thread, card = ask_with_card(harness, name)
    link = ask_to_sign(harness, "ana", card)
    for field, value in changed.items():
        setattr(key, field, value)
    outcome = sign(harness, link, key)
    assert not outcome.is_done
    assert sentence in outcome.text
    assert list_refusal_reasons(harness, thread) == [f"signature:{why}"]
    assert (statuses(harness, thread), list_votes(harness, thread)) == ([C.PENDING], [])
    [mine] = [each for each in passkeys_of(harness, "ana") if each.revoked_at is None]
    assert mine.sign_count == 0


def test_a_signature_with_base64_padding_does_not_count(harness: Harness) -> None:
    """In receipts base64 has one form, so its receipt could not be verified."""
    key = give_passkey(harness, "ana")
    thread, card = ask_with_card(harness, "padded")
    link = ask_to_sign(harness, "ana", card)
    credential = key.sign(compute_challenge(link))
    credential["response"]["signature"] += "="
    outcome = post_credential(harness, link, credential)
    assert (outcome.is_done, "does not match" in outcome.text) == (False, True)
    assert (statuses(harness, thread), list_votes(harness, thread)) == ([C.PENDING], [])


def test_a_signature_counts_only_for_its_own_link(harness: Harness) -> None:
    """Neither for another link of the same person nor for another person's."""
    key = give_passkey(harness, "ana")
    give_passkey(harness, "cleo")
    thread, card = ask_with_card(harness, "one")
    first, second = (ask_to_sign(harness, "ana", card) for _ in range(2))
    replayed = post_credential(harness, second, key.sign(compute_challenge(first)))
    assert not replayed.is_done
    assert "does not match" in replayed.text
    other = ask_to_sign(harness, "cleo", card)
    outcome = sign(harness, other, key)
    assert not outcome.is_done
    assert f"made for <@{PEOPLE['cleo']}> alone" in outcome.text
    assert list_refusal_reasons(harness, thread) == [
        "signature:signature",
        "signature:other_person",
    ]
    assert statuses(harness, thread) == [C.PENDING]


def test_a_signing_link_expires_after_five_minutes(harness: Harness) -> None:
    """A signature that is posted then does not count."""
    key = give_passkey(harness, "ana")
    thread, card = ask_with_card(harness, "late")
    link = ask_to_sign(harness, "ana", card)
    later(harness, 300)
    outcome = sign(harness, link, key)
    assert not outcome.is_done
    assert "has expired" in outcome.text
    assert statuses(harness, thread) == [C.PENDING]


def test_a_signature_for_an_edited_call_does_not_count(harness: Harness) -> None:
    """The link is for the revision that Ana was shown, before Cleo's edit."""
    key = give_passkey(harness, "ana")
    thread, card = ask_with_card(harness, "first")
    link = ask_to_sign(harness, "ana", card)
    open_modal(harness, "cleo", SUPPORT, card, "edit")
    harness.person("cleo").submit(typed(text="second"))
    arrived(harness)
    outcome = sign(harness, link, key)
    assert not outcome.is_done
    assert "has changed since" in outcome.text
    assert statuses(harness, thread) == [C.PENDING]


def test_a_signature_for_a_decided_call_does_not_count(harness: Harness) -> None:
    """Cleo rejects the call first; the page says so."""
    key = give_passkey(harness, "ana")
    thread, card = ask_with_card(harness, "decided")
    link = ask_to_sign(harness, "ana", card)
    reject(harness, "cleo", SUPPORT, card, "no")
    arrived(harness)
    outcome = sign(harness, link, key)
    assert not outcome.is_done
    assert f"<@{PEOPLE['cleo']}> already rejected this" in outcome.text
    assert statuses(harness, thread) == [C.REJECTED]


def test_a_signature_with_a_revoked_passkey_does_not_count(harness: Harness) -> None:
    """It is revoked between the link and the signature."""
    key = give_passkey(harness, "ana")
    thread, card = ask_with_card(harness, "revoked")
    link = ask_to_sign(harness, "ana", card)
    forget_passkeys(harness)
    outcome = sign(harness, link, key)
    assert not outcome.is_done
    assert "was revoked" in outcome.text
    assert list_refusal_reasons(harness, thread) == ["signature:revoked"]


def test_a_new_old_or_unknown_passkey_cannot_sign(harness: Harness) -> None:
    """One not approved yet, one too old, one not in the record, and one of another workspace."""
    give_passkey(harness, "ana")
    new, old, unknown, foreign = (Authenticator() for _ in range(4))
    add_passkey(harness, "ana", foreign, team="TELSEWHERE")
    add_passkey(harness, "ana", new, counts_from=None)
    then = harness.clock.now() - timedelta(days=31)
    add_passkey(harness, "ana", old, created_at=then, counts_from=then)
    thread, card = ask_with_card(harness, "which")
    said = [sign_card(harness, "ana", card, key).text for key in (new, old, unknown, foreign)]
    parts = ("does not count yet", "is older", "is not known", "is not known")
    for text, part in zip(said, parts, strict=True):
        assert part in text
    whys = [
        f"signature:{why}"
        for why in ("not_counted_yet", "too_old", "unknown_passkey", "unknown_passkey")
    ]
    assert (list_refusal_reasons(harness, thread), statuses(harness, thread)) == (whys, [C.PENDING])


@pytest.mark.parametrize("count", [-1, 5, 6])
def test_a_copied_passkey_is_revoked_and_people_are_told(harness: Harness, count: int) -> None:
    """Its counter is gone, goes back or stays where it was, so somebody may have a copy."""
    key = give_passkey(harness, "ana")
    thread, card = ask_with_card(harness, "first signature")
    key.count = 6
    assert sign_card(harness, "ana", card, key).is_done
    harness.said(SUPPORT, thread, "That is all.")
    thread, card = ask_with_card(harness, "second signature")
    key.count = count
    outcome = sign_card(harness, "ana", card, key)
    assert not outcome.is_done
    assert "may have been copied" in outcome.text
    assert list_refusal_reasons(harness, thread) == ["signature:cloned"]
    [mine] = passkeys_of(harness, "ana")[-1:]
    assert (mine.revoked_by, mine.sign_count) == ("system", 7)
    harness.settle()
    for who in ("ana", "dan"):
        person = harness.person(who)
        assert any("counter went back" in words(m) for m in person.messages(person.dm_channel))


def test_a_passkey_whose_counter_stays_at_zero_can_sign(harness: Harness, fakes: FakeTools) -> None:
    """Passkeys that are synchronised by an account do not count their uses."""
    key = give_passkey(harness, "ana", Authenticator(step=0))
    for text in ("zero", "zero again"):
        thread, card = ask_with_card(harness, text)
        assert sign_card(harness, "ana", card, key).is_done
        harness.said(SUPPORT, thread, "That is all.")
        assert fakes.did("note", text) == 1


def test_a_break_glass_vote_is_signed(harness: Harness, fakes: FakeTools) -> None:
    """The reason is typed in Slack; the call runs once the person has signed."""
    key = give_passkey(harness, "ben")
    thread, card = ask_with_card(harness, "alone")
    open_modal(harness, "ben", SUPPORT, card, "break_glass")
    harness.person("ben").submit(reason())
    harness.slack.wait(lambda: links_of(harness, "ben"))
    harness.settle()
    assert (statuses(harness, thread), fakes.did("note", "alone")) == ([C.PENDING], 0)
    link = find_link(harness, links_of(harness, "ben")[-1])
    assert sign(harness, link, key).is_done
    harness.said(SUPPORT, thread, "That is all.")
    [given] = list_votes(harness, thread)
    assert (given.verb, given.reason, bool(given.passkey_id)) == (CallVerb.BREAK_GLASS, WHY, True)
    assert fakes.did("note", "alone") == 1
    harness.settle()
    assert "(signed by passkey)" in words(now_at(harness, SUPPORT, card["ts"]))


def test_an_edit_with_approval_is_stored_before_it_is_signed(
    own_harness: Callable[..., Harness],
) -> None:
    """The link is for the edited revision."""
    fakes, counts = FakeTools(), 'signature = "passkey"\neditor_counts = true'
    policy = POLICY.replace('signature = "passkey"', counts, 1)
    harness = own_harness(fakes.tools, policy, **SETTINGS)
    key = give_passkey(harness, "ana")
    thread, card = ask_with_card(harness, "draft")
    view = open_modal(harness, "ana", SUPPORT, card, "edit")
    [box] = [b["element"] for b in view["blocks"] if b.get("block_id") == "then"]
    chosen = {"then": {"v": {"selected_options": box["options"]}}}
    harness.person("ana").submit(typed(text="final") | chosen)
    url = harness.slack.wait(lambda: next(iter(links_of(harness, "ana")), ""))
    harness.settle()
    link = find_link(harness, url)
    assert (link.revision, statuses(harness, thread)) == (2, [C.PENDING])
    assert sign(harness, link, key).is_done
    harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("note", "final") == 1


def test_running_an_unknown_call_again_is_signed(harness: Harness, fakes: FakeTools) -> None:
    """It is a signed vote on the call's next revision."""
    key = give_passkey(harness, "ana")
    thread, card = ask_with_card(harness, "lost", "lose")
    assert sign_card(harness, "ana", card, key).is_done
    unknown = harness.card(SUPPORT, thread, having="run_again")
    link = ask_to_sign(harness, "ana", unknown, "run_again")
    harness.settle()
    assert statuses(harness, thread) == [C.UNKNOWN]
    assert sign(harness, link, key).is_done
    first, second = list_votes(harness, thread)
    assert (first.revision, second.revision, second.verb) == (1, 2, CallVerb.APPROVE)
    assert first.passkey_id == second.passkey_id != ""
    harness.settle()
    assert fakes.did("lose", "lost") == 2


def test_approve_all_asks_for_a_signature_for_each_call(harness: Harness, fakes: FakeTools) -> None:
    """One click brings a link for each call."""
    key = give_passkey(harness, "ana")
    thread = ask(harness, ("note", {"text": "one of two"}), ("note", {"text": "two of two"}))
    card = harness.card(SUPPORT, thread)
    before = len(links_of(harness, "ana"))
    press(harness, "ana", SUPPORT, card, "approve_all")
    urls = harness.slack.wait(lambda: links_of(harness, "ana")[before:])
    assert len(urls) == 2
    for url in urls:
        assert sign(harness, find_link(harness, url), key).is_done
    harness.said(SUPPORT, thread, "That is all.")
    assert [fakes.did("note", f"{each} of two") for each in ("one", "two")] == [1, 1]


def test_a_signature_posted_before_the_deadline_counts(harness: Harness, fakes: FakeTools) -> None:
    """The loop was paused, and the deadline passed before the signature was decided."""
    key = give_passkey(harness, "ana")
    thread, card = ask_with_card(harness, "in time")
    later(harness, 3400)
    link = ask_to_sign(harness, "ana", card)
    harness.app.loop.pause()
    parsed = parse_credential(link.kind, key.sign(compute_challenge(link)))
    assert parsed is not None
    harness.app.listeners.store_delivery(build_page_delivery(link, parsed))
    harness.clock.advance(3600)
    harness.app.loop.resume()
    harness.said(SUPPORT, thread, "That is all.")
    assert load_outcome(harness, link).is_done
    assert fakes.did("note", "in time") == 1


def test_a_plain_approval_is_asked_again_if_the_policy_wants_a_signature(
    own_harness: Callable[..., Harness],
) -> None:
    """The policy changes between the approval and the run."""
    fakes = FakeTools()
    lax = POLICY.replace('"1h"\nsignature = "passkey"', '"1h"')
    harness = own_harness(fakes.tools, lax, **SETTINGS)
    key = give_passkey(harness, "ana")
    thread = ask(harness, ("note", {"text": "changed"}), ("wipe", {"text": "beside"}))
    card = harness.card(SUPPORT, thread)
    vote(harness, "ana", card)
    assert statuses(harness, thread) == [C.APPROVED, C.PENDING]
    harness.policy = POLICY
    harness.restart()
    reject(harness, "cleo", SUPPORT, harness.card(SUPPORT, thread), "no")
    harness.slack.wait(lambda: statuses(harness, thread)[0] is C.PENDING)
    harness.settle()  # wait until the rejected call's card is updated
    new_card = harness.card(SUPPORT, thread)
    assert sign_card(harness, "ana", new_card, key).is_done
    harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("note", "changed") == 1


def test_without_an_address_people_are_told_why_they_cannot_sign(
    own_harness: Callable[..., Harness],
) -> None:
    """`COUNTERSIGN_URL` is not set; no vote is cast."""
    harness = own_harness(FakeTools().tools, POLICY)
    give_passkey(harness, "ana")
    thread, card = ask_with_card(harness, "nowhere")
    press(harness, "ana", SUPPORT, card, "approve")
    told(harness, "ana", SUPPORT, thread, "COUNTERSIGN_URL is not set")
    assert statuses(harness, thread) == [C.PENDING]
