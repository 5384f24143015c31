"""Receipts of signed votes, checked by the client and by another WebAuthn library."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import cbor2
import pytest
import rfc8785
from webauthn import verify_authentication_response
from webauthn.helpers import base64url_to_bytes

from bot.approvals.receipts import NoReceiptError, ReceiptWriter
from bot.tools import Effect
from client.tests.test_signed_votes import MAKERS
from countersign import receipts
from storage.delegations import Delegation, give_delegation
from storage.examination import examine_audit_and_rows
from storage.states import CallStatus
from tests.authenticator import Authenticator, encode
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.signing import (
    ADDRESS,
    PEOPLE,
    add_passkey,
    ask_to_sign,
    ask_with_card,
    give_passkey,
    passkeys_of,
    sign,
    sign_card,
)
from tests.stories.steps import ask, statuses
from tests.stories.test_break_glass import break_glass
from tests.stories.test_remember import approve, done

SETTINGS = ADDRESS
POLICY = """
[defaults]
approvers = ["@shop-leads"]
signature = "passkey"
"""
UNAPPROVED_POLICY = """
[defaults]
approvers = ["@shop-leads"]
break_glass = ["UBEN00001"]

[[rule]]
tool = "put"
verdict = "allow"

[[rule]]
tool = "note"
verdict = "ask"
remember = [{where = "everywhere"}]
"""


def write_and_verify_receipt(harness: Harness, thread: str) -> tuple[receipts.Receipt, str]:
    """Write and verify the receipt of the thread's only call; return it and its text."""
    core, [call] = harness.app.core, harness.calls_in(thread)
    writer = ReceiptWriter(core.key, core.tools)
    with core.store.read() as tx:
        text = json.dumps(writer.write_receipts(tx, call)["decision"])
    keys = receipts.read_public_keys(json.dumps(writer.build_public_keys()))
    return receipts.verify_receipt(text, keys), text


def compute_fingerprint(key: dict[str, str]) -> str:
    """Compute the fingerprint of a receipt's public key as docs/receipts.md describes it."""
    x, y, n, e = (base64url_to_bytes(key.get(name, "")) for name in ("x", "y", "n", "e"))
    cose: dict[int, Any] = {
        "EC": {1: 2, 3: -7, -1: 1, -2: x, -3: y},
        "OKP": {1: 1, 3: -8, -1: 6, -2: x},
        "RSA": {1: 3, 3: -257, -1: n, -2: e},
    }[key["kty"]]
    text = hashlib.sha256(encode(cbor2.dumps(cose)).encode()).hexdigest()
    return " ".join(text[at : at + 4] for at in range(0, len(text), 4))


@pytest.mark.parametrize("kind", MAKERS)
def test_a_receipts_signature_can_be_verified(harness: Harness, kind: str) -> None:
    """By the client and by another implementation of WebAuthn, without the bot."""
    key = give_passkey(harness, "ana", Authenticator(key=MAKERS[kind]()))
    thread, card = ask_with_card(harness, f"receipt of {kind}")
    assert sign_card(harness, "ana", card, key).is_done
    harness.said(SUPPORT, thread, "That is all.")
    receipt, _ = write_and_verify_receipt(harness, thread)
    receipts.check_approval(receipt, tool="note", passkeys=True, now=harness.clock.now())
    [vote] = receipt.content["votes"]
    signed, content = vote["passkey"], receipt.content
    [row] = [each for each in passkeys_of(harness, "ana") if each.revoked_at is None]
    assert compute_fingerprint(signed["key"]) == row.fingerprint
    statement = {name: content[name] for name in ("workspace", "call", "revision", "gate")} | {
        "digest": receipt.subject,
        "verb": vote["verb"],
        "approver": vote["person"],
        "right": vote.get("for", ""),
        "nonce": signed["nonce"],
        "expires": signed["expires"],
    }
    challenge = hashlib.sha256(rfc8785.dumps(statement)).digest()
    client = {"type": "webauthn.get", "challenge": encode(challenge), "origin": signed["origin"]}
    client_data = json.dumps({**client, "crossOrigin": False}, separators=(",", ":")).encode()
    site = str(urlsplit(signed["origin"]).hostname)
    rest = base64url_to_bytes(signed["authenticator"])
    seen = verify_authentication_response(
        credential={
            "id": key.credential_id,
            "rawId": key.credential_id,
            "type": "public-key",
            "response": {
                "clientDataJSON": encode(client_data),
                "authenticatorData": encode(hashlib.sha256(site.encode()).digest() + rest),
                "signature": signed["signature"],
            },
        },
        expected_challenge=challenge,
        expected_rp_id=site,
        expected_origin=ADDRESS["COUNTERSIGN_URL"],
        credential_public_key=base64url_to_bytes(key.public_key),
        credential_current_sign_count=0,
        require_user_verification=True,
    )
    assert seen.user_verified


def test_a_receipt_with_a_large_number_can_be_verified(harness: Harness) -> None:
    """RFC 8785 writes the float 1e17 as a whole number, and Python reads it back as an integer."""
    key = give_passkey(harness, "ana")
    thread = ask(harness, ("top_up", {"amount": 1e17}))
    assert sign_card(harness, "ana", harness.card(SUPPORT, thread), key).is_done
    harness.said(SUPPORT, thread, "That is all.")
    receipt, _ = write_and_verify_receipt(harness, thread)
    assert receipt.content["arguments"] == {"amount": 10**17}
    check = {"passkeys": True, "now": harness.clock.now()}
    receipts.check_approval(receipt, arguments={"amount": 1e17}, **check)
    receipts.check_approval(receipt, arguments={"amount": 10**17}, **check)


def test_client_data_with_more_fields_is_kept_verbatim(harness: Harness) -> None:
    """Chrome adds a field to one signature in five, so that nobody relies on a pattern."""
    key = give_passkey(harness, "ana", Authenticator(more={"other_keys": "are possible"}))
    thread, card = ask_with_card(harness, "more")
    assert sign_card(harness, "ana", card, key).is_done
    harness.said(SUPPORT, thread, "That is all.")
    receipt, _ = write_and_verify_receipt(harness, thread)
    receipts.check_approval(receipt, passkeys=True, now=harness.clock.now())
    [vote] = receipt.content["votes"]
    assert b"are possible" in base64url_to_bytes(vote["passkey"]["clientDataJSON"])


AAGUID = "fbfc3007-154e-4ecc-8c0b-6e020557d7bd"


@pytest.mark.parametrize(("signers", "most"), [(["ana"], 2000), (["ana", "cleo"], 2750)])
def test_a_signed_receipt_is_small(
    own_harness: Callable[..., Harness], signers: list[str], most: int
) -> None:
    """As `countersign receipt` and the API return it for a refund that has not ended."""
    harness = own_harness((), f"{POLICY}quorum = {len(signers)}\n", **SETTINGS)
    keys = {who: Authenticator() for who in signers}
    for who, key in keys.items():
        add_passkey(harness, who, key, aaguid=AAGUID)
    refund = {"order_id": 1042, "amount": "40.00", "reason": "damaged"}
    thread = ask(harness, ("refund_order", refund))
    card = harness.card(SUPPORT, thread)
    assert all(sign_card(harness, who, card, key).is_done for who, key in keys.items())
    harness.said(SUPPORT, thread, "That is all.")
    receipt, text = write_and_verify_receipt(harness, thread)
    receipts.check_approval(receipt, approvers=len(signers), passkeys=True, now=harness.clock.now())
    line = json.dumps({"decision": json.loads(text), "end": None})
    assert len(line) <= most, len(line)


def test_a_receipt_can_be_written_with_a_new_key(
    own_harness: Callable[..., Harness],
) -> None:
    """It is signed with the new key and has the same subject as before."""
    old, new = "o" * 40, "n" * 40
    harness = own_harness(FakeTools().tools, POLICY, COUNTERSIGN_KEY=old, **SETTINGS)
    key = give_passkey(harness, "ana")
    thread, card = ask_with_card(harness, "older key")
    assert sign_card(harness, "ana", card, key).is_done
    harness.said(SUPPORT, thread, "That is all.")
    before, _ = write_and_verify_receipt(harness, thread)
    harness.extra["COUNTERSIGN_KEY"] = f"{new},{old}"
    harness.restart()
    after, _ = write_and_verify_receipt(harness, thread)
    assert (after.subject, after.key_id != before.key_id) == (before.subject, True)


@pytest.mark.parametrize("why", ["has changed since", "no longer there"])
def test_a_changed_or_removed_tool_gives_no_receipt(
    own_harness: Callable[..., Harness], why: str
) -> None:
    """The error says that about the tool, not that the record was altered."""
    tools = FakeTools().tools
    harness = own_harness(tools, POLICY, **SETTINGS)
    key = give_passkey(harness, "ana")
    thread, card = ask_with_card(harness, "as it was")
    assert sign_card(harness, "ana", card, key).is_done
    harness.said(SUPPORT, thread, "That is all.")
    others = [each for each in tools if each.name != "note"]
    changed = [replace(each, does=Effect.DESTRUCTIVE) for each in tools if each.name == "note"]
    harness.tools = others if why == "no longer there" else [*changed, *others]
    harness.restart()
    with pytest.raises(NoReceiptError, match=why):
        write_and_verify_receipt(harness, thread)


def test_a_receipt_says_what_decided_if_nobody_approved_that_call(
    own_harness: Callable[..., Harness],
) -> None:
    """Policy may allow it, a saved approval hold for it, or one person run it without approval."""
    harness = own_harness(FakeTools().tools, UNAPPROVED_POLICY)
    allowed = ask(harness, ("put", {"text": "as usual"}))
    harness.said(SUPPORT, allowed, "That is all.")
    alone = ask(harness, ("note", {"text": "urgent"}))
    break_glass(harness, "ben", harness.card(SUPPORT, alone))
    harness.said(SUPPORT, alone, "That is all.")
    approved = ask(harness, ("note", {"text": "the board"}))
    assert approve(harness, approved, offer=0)["outcome"] == "closed"
    harness.said(SUPPORT, approved, "That is all.")
    granted, _ = done(harness, ("note", {"text": "the board"}))
    found = [
        write_and_verify_receipt(harness, each)[0].content
        for each in (allowed, alone, approved, granted)
    ]
    decided = [each["decision"] for each in found]
    assert decided == ["allowed", "break_glass", "approved", "granted"]
    assert [each.get("grantedBy") for each in found] == [None, None, None, PEOPLE["ana"]]


def test_a_receipt_of_a_vote_under_a_denying_policy_has_no_decision_time(
    own_harness: Callable[..., Harness],
) -> None:
    """The policy denies the call by then: the receipt has the vote, but no times."""
    harness = own_harness(FakeTools().tools, POLICY, **SETTINGS)
    key = give_passkey(harness, "ana")
    thread, card = ask_with_card(harness, "forbidden")
    link = ask_to_sign(harness, "ana", card)
    harness.policy = f'{POLICY}\n[[rule]]\ntool = "note"\nverdict = "deny"\nreason = "no notes"\n'
    harness.restart()
    assert sign(harness, link, key).is_done
    harness.said(SUPPORT, thread, "That is all.")
    receipt, _ = write_and_verify_receipt(harness, thread)
    said = [receipt.content[name] for name in ("decision", "decidedAt", "goodUntil")]
    assert said == ["invalidated", None, None]
    assert receipts.list_approvers(receipt, passkeys=True) == [PEOPLE["ana"]]


def test_a_missing_signature_gives_no_receipt(harness: Harness) -> None:
    """A signed vote is never written without its signature; the audit check reports it as well."""
    key = give_passkey(harness, "ana")
    thread, card = ask_with_card(harness, "gone")
    assert sign_card(harness, "ana", card, key).is_done
    harness.said(SUPPORT, thread, "That is all.")
    [call] = harness.calls_in(thread)
    harness.was_tampered_with = True
    with harness.app.core.store.write() as tx:
        for statement in harness.app.core.store.database.list_drop_trigger_statements():
            tx.exec_driver_sql(statement)
        tx.exec_driver_sql(f"DELETE FROM signature WHERE call_id = '{call.id}'")
        for statement in harness.app.core.store.database.list_create_trigger_statements():
            tx.exec_driver_sql(statement)
    with harness.app.core.store.read() as tx:
        [problem] = examine_audit_and_rows(tx, tx.chain, None, has_note=False).problems
    assert problem == f"the signature of UANA00001's vote on call {call.id} is missing"
    with pytest.raises(NoReceiptError, match="signature of a vote is no longer"):
        write_and_verify_receipt(harness, thread)


def test_a_signature_by_a_delegate_is_for_one_person(
    own_harness: Callable[..., Harness],
) -> None:
    """Dan's link is for Ana, who then signs herself: his signature does not count for Cleo."""
    harness = own_harness(FakeTools().tools, POLICY + "quorum = 2\n", **SETTINGS)
    core, ana, dan = harness.app.core, give_passkey(harness, "ana"), give_passkey(harness, "dan")
    at = core.clock.now()
    with core.store.write() as tx:
        for number, who in enumerate(("ana", "cleo")):
            row = Delegation(team=core.identity.team, giver=PEOPLE[who], delegate=PEOPLE["dan"])
            row.given_at, row.until = at + timedelta(microseconds=number), at + timedelta(days=1)
            give_delegation(tx, row)
    thread, card = ask_with_card(harness, "for whom")
    link = ask_to_sign(harness, "dan", card)
    assert json.loads(link.statement)["right"] == PEOPLE["ana"]
    assert sign_card(harness, "ana", card, ana).is_done
    late = sign(harness, link, dan)
    assert (late.is_done, "has changed since" in late.text) == (False, True)
    assert statuses(harness, thread) == [CallStatus.PENDING]
    assert sign_card(harness, "dan", card, dan).is_done
    harness.said(SUPPORT, thread, "That is all.")
    receipt, _ = write_and_verify_receipt(harness, thread)
    receipts.check_approval(receipt, approvers=2, passkeys=True, now=core.clock.now())
    assert receipts.list_approvers(receipt) == [PEOPLE["ana"], PEOPLE["cleo"]]
