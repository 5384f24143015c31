"""Receipts are checked strictly: none holds with anything changed in it."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from decimal import localcontext
from pathlib import Path
from typing import Any

import pytest
import rfc8785
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from countersign import receipts

AT = datetime(2026, 11, 26, 12, 0, tzinfo=UTC)
PRIVATE = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
RAW = PRIVATE.public_key().public_bytes_raw()
JWK = receipts.build_public_jwk(RAW)
KEYS = receipts.read_public_keys(json.dumps(JWK))
ARGUMENTS = {"amount": "40.00", "order_id": 1042, "reason": "damaged", "tags": [1, 0.5, None]}
VOTE = {"verb": "approve", "person": "UANA00001", "for": "", "stage": 0, "at": AT.isoformat()}
CONTENT: dict[str, Any] = {
    "nonce": "0" * 32,
    "tool": "refund_order",
    "effect": "Refund 40.00 EUR of order 1042",
    "arguments": ARGUMENTS,
    "secrets": {},
    "decision": "approved",
    "decidedAt": AT.isoformat(),
    "goodUntil": (AT + timedelta(days=1)).isoformat(),
    "votes": [VOTE],
}


def build_statement(**content: Any) -> dict[str, Any]:
    made = deepcopy(CONTENT) | content
    digest = receipts.compute_subject_digest("refund_order", ARGUMENTS, CONTENT["nonce"])
    return {
        "_type": receipts.STATEMENT_TYPE,
        "subject": [{"name": "call", "digest": {"sha256": digest}}],
        "predicateType": receipts.DECISION_KIND,
        "predicate": made,
    }


def sign_statement(whole: Any, key: Ed25519PrivateKey = PRIVATE) -> dict[str, Any]:
    payload = whole if isinstance(whole, bytes) else json.dumps(whole).encode()
    signature = key.sign(receipts.encode_for_signing(payload))
    raw = key.public_key().public_bytes_raw()
    return {
        "payloadType": receipts.PAYLOAD_TYPE,
        "payload": base64.b64encode(payload).decode(),
        "signatures": [
            {
                "keyid": receipts.build_public_jwk(raw)["kid"],
                "sig": base64.b64encode(signature).decode(),
            }
        ],
    }


@pytest.mark.parametrize("odd", [None, 7, "x", [], {}, [None], "gone"])
@pytest.mark.parametrize(
    "place", [*((each,) for each in CONTENT), *(("votes", 0, each) for each in VOTE)], ids=str
)
def test_a_signed_receipt_of_another_form_is_no_approval(place: tuple[Any, ...], odd: Any) -> None:
    """The receipt is signed; it ends in a ReceiptError or in no approval."""
    whole = build_statement()
    inner = whole["predicate"]
    for each in place[:-1]:
        inner = inner[each]
    if odd == "gone":
        del inner[place[-1]]
    else:
        inner[place[-1]] = odd
    try:
        receipt = receipts.verify_receipt(json.dumps(sign_statement(whole)), KEYS)
        receipts.check_approval(receipt, tool="refund_order", now=AT)
        approvers = receipts.list_approvers(receipt)
        receipts.get_decision_time(receipt)
    except receipts.ReceiptError:
        return
    assert place[-1] not in ("tool", "arguments", "nonce", "decision", "votes", "verb", "goodUntil")
    assert len(approvers) == 1


def test_a_valid_receipt_is_accepted() -> None:
    """For its arguments, its tool and one approver, until its time."""
    receipt = receipts.verify_receipt(json.dumps(sign_statement(build_statement())), KEYS)
    receipts.check_approval(receipt, tool="refund_order", arguments=ARGUMENTS, now=AT)
    receipts.check_approval(receipt, now=AT + timedelta(days=1))
    assert receipts.list_approvers(receipt) == ["UANA00001"]


def list_text_paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all strings in JSON."""
    if isinstance(value, str):
        yield path
    parts = value.items() if isinstance(value, dict) else enumerate(value or ())
    if isinstance(value, dict | list):
        for key, each in parts:
            yield from list_text_paths(each, (*path, key))


def test_no_character_of_a_receipt_may_change() -> None:
    """Each character of each string of the envelope is replaced."""
    whole = sign_statement(build_statement())
    for path in list_text_paths(whole):
        *parents, last = path
        for place in range(len(whole["payload"]) if path == ("payload",) else 200):
            changed = deepcopy(whole)
            at: Any = changed
            for each in parents:
                at = at[each]
            if place >= len(at[last]):
                break
            other = "A" if at[last][place] != "A" else "B"
            at[last] = at[last][:place] + other + at[last][place + 1 :]
            with pytest.raises(receipts.ReceiptError):
                receipts.verify_receipt(json.dumps(changed), KEYS)


def repeat_name(name: str) -> str:
    text = json.dumps(sign_statement(build_statement()))
    return f'{{"{name}": 1, {text[1:]}'


def drop_name(name: str) -> str:
    made = sign_statement(build_statement())
    del made[name]
    return json.dumps(made)


def change_envelope(change: Callable[[dict[str, Any]], Any]) -> str:
    made = sign_statement(build_statement())
    change(made)
    return json.dumps(made)


OTHER = Ed25519PrivateKey.from_private_bytes(bytes(32))
NOT_A_RECEIPT = {
    "nothing": "",
    "no JSON": "{",
    "a list": "[]",
    "null": "null",
    "too long": json.dumps(sign_statement(build_statement())) + " " * 1_000_001,
    "deep": "[" * 100_000,
    "without a payload": drop_name("payload"),
    "without signatures": drop_name("signatures"),
    "with more": change_envelope(lambda made: made.update(more=1)),
    "a name twice": repeat_name("payload"),
    "two signatures": change_envelope(
        lambda made: made["signatures"].append(made["signatures"][0])
    ),
    "no signature": change_envelope(lambda made: made["signatures"].clear()),
    "another's signature": json.dumps(sign_statement(build_statement(), OTHER)),
    "another's under our name": change_envelope(
        lambda made: made["signatures"][0].update(
            sig=sign_statement(build_statement(), OTHER)["signatures"][0]["sig"]
        )
    ),
    "unpadded": change_envelope(lambda made: made.update(payload=made["payload"] + "====")),
    "with a line break": change_envelope(lambda made: made.update(payload=made["payload"] + "\n")),
    "signatures that are no list": change_envelope(
        lambda made: made.update(signatures={"0": made["signatures"][0]})
    ),
    "more beside the signature": change_envelope(lambda made: made["signatures"][0].update(more=1)),
    "a key's id that is no text": change_envelope(
        lambda made: made["signatures"][0].update(keyid=[1])
    ),
    "a signature of numbers": change_envelope(lambda made: made["signatures"][0].update(sig=7)),
    "another type": json.dumps(
        sign_statement(build_statement() | {"_type": "https://in-toto.io/Statement/v0.1"})
    ),
    "another predicate": json.dumps(
        sign_statement(build_statement() | {"predicateType": "urn:other"})
    ),
    "two subjects": json.dumps(
        sign_statement(build_statement() | {"subject": build_statement()["subject"] * 2})
    ),
    "no subject": json.dumps(sign_statement(build_statement() | {"subject": []})),
    "subjects that are no list": json.dumps(
        sign_statement(build_statement() | {"subject": {"0": build_statement()["subject"][0]}})
    ),
    "no predicate": json.dumps(sign_statement(build_statement() | {"predicate": None})),
    "signed nonsense": json.dumps(sign_statement(b"\xff\xfe")),
}


@pytest.mark.parametrize("what", NOT_A_RECEIPT)
def test_text_that_is_no_receipt_is_refused(what: str) -> None:
    """With a sentence."""
    with pytest.raises(receipts.ReceiptError, match=r"^[A-Z].*\.$"):
        receipts.verify_receipt(NOT_A_RECEIPT[what], KEYS)


NO_APPROVAL: dict[str, dict[str, Any]] = {
    "rejected": {"decision": "rejected"},
    "allowed by policy": {"decision": "allowed"},
    "no decision": {"decision": None},
    "no votes": {"votes": []},
    "only rejections": {"votes": [VOTE | {"verb": "reject"}]},
    "votes of no form": {"votes": "UANA00001"},
    "no end of its time": {"goodUntil": None},
    "a time without a zone": {"goodUntil": "2027-01-01T00:00:00"},
    "an earlier time": {"goodUntil": (AT - timedelta(seconds=1)).isoformat()},
    "other arguments": {"arguments": ARGUMENTS | {"amount": "400.00"}},
    "another tool": {"tool": "cancel_order"},
    "another nonce": {"nonce": "1" * 32},
}


@pytest.mark.parametrize("what", NO_APPROVAL)
def test_a_receipt_that_approves_nothing_is_refused(what: str) -> None:
    """Though the installation signed it."""
    receipt = receipts.verify_receipt(
        json.dumps(sign_statement(build_statement(**NO_APPROVAL[what]))), KEYS
    )
    with pytest.raises(receipts.ReceiptError, match=r"^[A-Z0-9].*\.$"):
        receipts.check_approval(receipt, tool="refund_order", now=AT)


def test_two_votes_of_one_person_are_one_approver() -> None:
    """Even if a delegate gave one of them."""
    votes = [VOTE, VOTE | {"person": "UDAN00001", "for": "UANA00001"}]
    receipt = receipts.verify_receipt(
        json.dumps(sign_statement(build_statement(votes=votes))), KEYS
    )
    receipts.check_approval(receipt, approvers=1, now=AT)
    with pytest.raises(receipts.ReceiptError, match="1 person has approved it, but it takes 2"):
        receipts.check_approval(receipt, approvers=2, now=AT)


def test_secret_arguments_need_not_be_given() -> None:
    """A receipt that masks them is checked with the real ones, or without any."""
    masked = {"arguments": ARGUMENTS | {"reason": "•••"}, "secrets": {"/reason": "0" * 64}}
    receipt = receipts.verify_receipt(json.dumps(sign_statement(build_statement(**masked))), KEYS)
    receipts.check_approval(receipt, tool="refund_order", now=AT)
    receipts.check_approval(receipt, arguments=ARGUMENTS, now=AT)
    with pytest.raises(receipts.ReceiptError, match="are not the ones that were approved"):
        receipts.check_approval(receipt, arguments=masked["arguments"], now=AT)


def end_of(decision: receipts.Receipt, **changed: Any) -> receipts.Receipt:
    """The receipt of how the call of that decision ended."""
    predicate = {"decision": {"sha256": decision.digest}, "status": "succeeded"}
    whole = (
        build_statement() | {"predicateType": receipts.END_KIND, "predicate": predicate} | changed
    )
    return receipts.verify_receipt(json.dumps(sign_statement(whole)), KEYS)


OTHER_ENDS: dict[str, dict[str, Any]] = {
    "of another decision": {"predicate": {"decision": {"sha256": "0" * 64}}},
    "of a decision that is no digest": {"predicate": {"decision": "approved"}},
    "of another call": {"subject": [{"name": "call", "digest": {"sha256": "0" * 64}}]},
    "no end": {"predicateType": receipts.DECISION_KIND},
}


@pytest.mark.parametrize("what", OTHER_ENDS)
def test_an_end_belongs_to_its_own_decision(what: str) -> None:
    """The outcome of one call says nothing of another, though both are signed."""
    decision = receipts.verify_receipt(json.dumps(sign_statement(build_statement())), KEYS)
    receipts.check_end(end_of(decision), decision)
    with pytest.raises(receipts.ReceiptError, match="belongs to another decision"):
        receipts.check_end(end_of(decision, **OTHER_ENDS[what]), decision)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        '{"keys": []}',
        '{"keys": [1]}',
        '{"kty": "RSA", "n": "AQAB"}',
        '{"kty": "OKP", "crv": "Ed25519", "x": "AAAA"}',
        json.dumps({"kty": "OKP", "crv": "X25519", "x": JWK["x"]}),
        json.dumps(JWK | {"kid": "another"}),
        json.dumps(JWK | {"x": JWK["x"] + "="}),
    ],
)
def test_text_that_is_no_key_is_refused(text: str) -> None:
    """A key of another kind or length, or under another key's id."""
    with pytest.raises(receipts.ReceiptError):
        receipts.read_public_keys(text)


TEXT = st.text(st.characters(exclude_categories=["Cs"]))
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
)


@given(JSON)
def test_canonical_json_follows_rfc_8785(value: Any) -> None:
    """Compared with another implementation."""
    assert receipts.encode_canonical_json(value).encode() == rfc8785.dumps(value)


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (1e-7, "1e-7"),
        (1.5e-7, "1.5e-7"),
        (1e-6, "0.000001"),
        (1e20, "100000000000000000000"),
        (1e21, "1e+21"),
        (2**53, "9007199254740992"),
    ],
)
def test_a_number_changes_its_form_where_rfc_8785_says(value: float, written: str) -> None:
    """From the sixth place after the point on, and from 22 figures on, with an exponent."""
    assert receipts.encode_canonical_json(value) == written


def test_a_number_is_written_in_full_whatever_a_program_does_with_decimals() -> None:
    """Its context for decimals may have few figures; the digest is of all of them."""
    with localcontext(prec=3):
        assert receipts.encode_canonical_json([1234.5678, 123456789e9]) == (
            "[1234.5678,123456789000000000]"
        )


@given(st.floats(allow_nan=False, allow_infinity=False) | st.floats(2**53, 1e21))
def test_a_canonical_number_survives_reading_back(value: float) -> None:
    """Even a large one, which is written as a whole number."""
    written = rfc8785.dumps(value).decode()
    assert receipts.encode_canonical_json(json.loads(written)) == written


@pytest.mark.parametrize("value", [2**53 + 1, 2**60, 10**21, 10**400, "\ud800", math.inf])
def test_values_without_a_canonical_form_are_refused(value: Any) -> None:
    """Whole numbers beyond what a float holds exactly, half a surrogate pair, infinity."""
    with pytest.raises(receipts.ReceiptError):
        receipts.compute_subject_digest("refund_order", {"a": value}, "0")


DOCS = Path(__file__).parents[2] / "docs"
PAGE, VECTORS = DOCS / "receipts.md", DOCS / "receipt-vectors.json"


def test_published_examples_pass_and_fail_as_stated() -> None:
    """For authors of checkers in other languages: one good receipt, and bad ones."""
    found = json.loads(VECTORS.read_text("utf-8"))
    keys = receipts.read_public_keys(json.dumps(found["keys"]))
    now = datetime.fromisoformat(found["now"])

    def check(text: str) -> None:
        receipt = receipts.verify_receipt(text, keys)
        receipts.check_approval(receipt, tool=found["tool"], arguments=found["arguments"], now=now)

    check(found["good"])
    assert len(found["bad"]) >= 20
    for each in found["bad"]:
        with pytest.raises(receipts.ReceiptError, match="^" + re.escape(each["why"])):
            check(each["receipt"])


def test_the_pages_program_checks_what_the_command_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Python of docs/receipts.md accepts an approval, and refuses it for other arguments."""
    [program] = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.S)
    monkeypatch.chdir(tmp_path)
    Path("keys.json").write_text(json.dumps({"keys": [JWK]}))
    wanted = {"version": "2.8.0"}
    content = {
        "tool": "deploy",
        "arguments": wanted,
        "votes": [VOTE, VOTE | {"person": "UCLEO0001"}],
        "goodUntil": "9999-12-31T00:00:00Z",
    }
    whole = build_statement(**content)
    digest = receipts.compute_subject_digest("deploy", wanted, CONTENT["nonce"])
    whole["subject"][0]["digest"]["sha256"] = digest
    Path("receipt.json").write_text(json.dumps({"decision": sign_statement(whole), "end": None}))
    exec(program, {})
    with pytest.raises(receipts.ReceiptError, match="not the ones"):
        exec(program.replace("2.8.0", "2.8.1"), {})
