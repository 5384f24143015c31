"""Receipts over HTTP, which say how a call was decided and ended; the client checks them."""

from __future__ import annotations

import base64
import hashlib
import json
from copy import deepcopy
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from securesystemslib.dsse import Envelope
from securesystemslib.signer import SSlibKey
from sqlalchemy import text

from countersign import receipts
from countersign.cli.commands import main
from countersign.request import parse_handout
from tests.stories.harness import Harness
from tests.stories.steps import open_modal, reject, typed, vote
from tests.web.api.conftest import NewProgram
from tests.web.api.program import ACTION, SUPPORT, Program

MISFIT = "The record, or the tool as it is now, does not fit what people were shown."
PAY: dict[str, Any] = ACTION | {
    "name": "pay",
    "effect": "Pay {amount} to {to}",
    "schema": {
        "type": "object",
        "properties": {"amount": {"type": "number"}, "to": {"type": "string"}},
        "required": ["amount", "to"],
    },
}


def get_receipt_keys(program: Program) -> dict[str, Any]:
    status, found = program.ask("GET", "/v1/receipt-keys")
    assert status == 200
    return found


def get_receipt(program: Program, asked: dict[str, Any]) -> dict[str, Any]:
    status, found = program.ask("GET", f"/v1/requests/{asked['id']}/receipt")
    assert status == 200, found
    return found


def open_envelope(envelope: dict[str, Any]) -> dict[str, Any]:
    """Decode the statement in an envelope."""
    statement: dict[str, Any] = json.loads(base64.b64decode(envelope["payload"]))
    return statement


def check_signature(envelope: dict[str, Any], keys: dict[str, Any]) -> None:
    """Check DSSE and JWK by their specifications, and with another implementation of DSSE."""
    [signature] = envelope["signatures"]
    [x] = [each["x"] for each in keys["keys"] if each["kid"] == signature["keyid"]]
    public = Ed25519PublicKey.from_public_bytes(base64.urlsafe_b64decode(x + "="))
    kind, payload = envelope["payloadType"].encode(), base64.b64decode(envelope["payload"])
    signed = b" ".join(
        [b"DSSEv1", str(len(kind)).encode(), kind, str(len(payload)).encode(), payload]
    )
    public.verify(base64.b64decode(signature["sig"]), signed)
    raw = public.public_bytes_raw().hex()
    other = SSlibKey(signature["keyid"], "ed25519", "ed25519", {"public": raw})
    assert Envelope.from_dict(deepcopy(envelope)).verify([other], 1)


def test_an_edited_and_approved_call_has_a_receipt(bot: Harness, new_program: NewProgram) -> None:
    """It names the call, and who asked, edited and approved. The claim returns the same one."""
    program = new_program()
    asked = program.deploy("3.1.0")
    card = program.card("3.1.0")
    status, early = program.ask("GET", f"/v1/requests/{asked['id']}/receipt")
    assert (status, early["detail"]) == (409, "This is not decided yet.")
    open_modal(bot, "ana", SUPPORT, card, "edit")
    bot.person("ana").submit(typed(version="3.1.1"))
    vote(bot, "cleo", program.card("3.1.1", "cleo"))
    program.look(asked, 30)
    found, keys = get_receipt(program, asked), get_receipt_keys(program)
    assert found["end"] is None
    check_signature(found["decision"], keys)
    statement = open_envelope(found["decision"])
    said = statement["predicate"]
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert (said["tool"], said["decision"], said["revision"]) == ("deploy", "approved", 2)
    assert said["arguments"] == {"version": "3.1.1", "env": "prod"}
    assert said["effect"] == "Deploy 3.1.1 to prod"
    assert [(each["verb"], each["person"]) for each in said["votes"]] == [("approve", "UCLEO0001")]
    assert said["editors"] == ["UANA00001"]
    whole = {"arguments": said["arguments"], "nonce": said["nonce"], "tool": "deploy"}
    canonical = json.dumps(whole, sort_keys=True, separators=(",", ":"))
    digest = statement["subject"][0]["digest"]["sha256"]
    assert digest == hashlib.sha256(canonical.encode()).hexdigest()
    status, claimed = program.claim(asked)
    assert (status, claimed["receipt"]) == (200, found["decision"])
    program.report(asked, "rolled out")
    after = get_receipt(program, asked)
    assert after["decision"] == found["decision"]
    check_signature(after["end"], keys)
    end = open_envelope(after["end"])["predicate"]
    assert (end["status"], end["note"]) == ("succeeded", "rolled out")
    payload = base64.b64decode(found["decision"]["payload"])
    assert end["decision"] == {"sha256": hashlib.sha256(payload).hexdigest()}
    assert len(json.dumps(found["decision"])) <= 2048


def test_a_rejection_has_a_receipt_that_approves_nothing(
    bot: Harness, new_program: NewProgram
) -> None:
    """The check for an approval refuses it."""
    program = new_program()
    asked = program.note("not this")
    reject(bot, "ana", SUPPORT, program.card("not this"), "no")
    program.look(asked, 30)
    found = get_receipt(program, asked)
    receipt = receipts.verify_receipt(
        json.dumps(found["decision"]),
        receipts.read_public_keys(json.dumps(get_receipt_keys(program))),
    )
    assert receipt.content["decision"] == "rejected"
    with pytest.raises(receipts.ReceiptError, match="does not say that the call was approved"):
        receipts.check_approval(receipt, now=bot.clock.now())


def test_a_call_changed_in_the_database_has_no_receipt(
    bot: Harness, new_program: NewProgram
) -> None:
    """The bot signs only what people were shown."""
    program = new_program()
    asked = program.deploy("3.2.0")
    vote(bot, "ana", program.card("3.2.0"))
    program.look(asked, 30)
    get_receipt(program, asked)
    gate = "UPDATE call SET gate = replace(gate, 'shop-leads', 'finance') WHERE run_id = :id"
    with bot.app.core.store.write() as tx:
        tx.execute(text(gate), {"id": asked["id"]})
    status, refused = program.ask("GET", f"/v1/requests/{asked['id']}/receipt")
    assert (status, refused["detail"]) == (409, MISFIT)


def test_secrets_are_not_in_a_receipt(bot: Harness, new_program: NewProgram) -> None:
    """Their digest with the nonce is, so that a client with the arguments can check them."""
    program = new_program()
    given = {"account": "ops", "password": "correct horse"}
    body = {"tool": "login", "arguments": given, "channel": "#support"}
    status, asked = program.ask("POST", "/v1/requests", body)
    assert status == 201, asked
    vote(bot, "ana", program.card("ops"))
    program.look(asked, 30)
    found = get_receipt(program, asked)["decision"]
    said = open_envelope(found)["predicate"]
    assert "correct horse" not in base64.b64decode(found["payload"]).decode()
    digest = hashlib.sha256(f'{said["nonce"]}:"correct horse"'.encode()).hexdigest()
    assert said["secrets"] == {"/password": digest}
    receipt = receipts.verify_receipt(
        json.dumps(found), receipts.read_public_keys(json.dumps(get_receipt_keys(program)))
    )
    now = bot.clock.now()
    receipts.check_approval(receipt, arguments=given, now=now)
    with pytest.raises(receipts.ReceiptError, match="not the ones that were approved"):
        receipts.check_approval(receipt, arguments=given | {"password": "another"}, now=now)


@pytest.mark.parametrize("amount", [2**53, -(10**17), 1e20, 2**60, 1e21, 12345678901234567890.0])
def test_large_numbers_are_handed_out_with_a_receipt(
    bot: Harness, new_program: NewProgram, amount: float
) -> None:
    """RFC 8785 writes large floats as whole numbers, which Python reads as integers."""
    program = new_program()
    given = {"amount": amount, "to": f"account {amount!r}"}
    body = {"action": PAY, "arguments": given, "channel": "#support"}
    status, asked = program.ask("POST", "/v1/requests", body)
    assert status == 201, asked
    vote(bot, "ana", program.card(given["to"]))
    program.look(asked, 30)
    status, claimed = program.claim(asked)
    assert (status, claimed["arguments"]) == (200, asked["arguments"])
    found = get_receipt(program, asked)["decision"]
    assert open_envelope(found)["predicate"]["arguments"] == asked["arguments"]
    keys = receipts.read_public_keys(json.dumps(get_receipt_keys(program)))
    handout = parse_handout(claimed)
    receipts.ReceiptVerifier(keys, approvers=1).check_claim(asked["id"], "pay", handout)
    other = parse_handout(claimed | {"arguments": {**given, "amount": amount + 4096 * 1024}})
    with pytest.raises(receipts.ReceiptError):
        receipts.ReceiptVerifier(keys, approvers=1).check_claim(asked["id"], "pay", other)


def test_the_verify_command_checks_a_receipt(
    bot: Harness, new_program: NewProgram, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It checks the keys, the arguments and the number of approvers."""
    program = new_program()
    body = {"tool": "wipe", "arguments": {"text": "two of us"}, "channel": "#support"}
    _, asked = program.ask("POST", "/v1/requests", body)
    vote(bot, "ana", program.card("two of us"))
    vote(bot, "cleo", program.card("two of us", "cleo"))
    program.look(asked, 30)
    files = {name: tmp_path / name for name in ("receipt", "keys", "right", "wrong")}
    files["receipt"].write_text(json.dumps(get_receipt(program, asked)))
    files["keys"].write_text(json.dumps(get_receipt_keys(program)))
    files["right"].write_text('{"text": "two of us"}')
    files["wrong"].write_text('{"text": "all of us"}')
    line = ["verify", str(files["receipt"]), "--key", str(files["keys"]), "--tool", "wipe"]
    assert main([*line, "--arguments", str(files["right"]), "--approvers", "2"]) == 0
    told = capsys.readouterr().out
    assert "Approved by UANA00001 and UCLEO0001" in told
    assert "It ended on" in told
    for more, why in (
        (["--arguments", str(files["wrong"])], "The arguments are not the ones"),
        (["--approvers", "3"], "2 people have approved it, but it takes 3."),
    ):
        assert main([*line, *more]) == 1
        assert why in capsys.readouterr().err
    for option in ("--key", "--arguments"):  # it says nothing of the receipt
        assert main([*line, option, __file__]) == 2
        assert "is not JSON" in capsys.readouterr().err


def test_a_receipt_is_too_old_after_a_day(bot: Harness, new_program: NewProgram) -> None:
    """The receipt has the time of the decision."""
    program = new_program()
    asked = program.deploy("3.3.0")
    vote(bot, "ana", program.card("3.3.0"))
    program.look(asked, 30)
    keys = receipts.read_public_keys(json.dumps(get_receipt_keys(program)))
    receipt = receipts.verify_receipt(json.dumps(get_receipt(program, asked)["decision"]), keys)
    receipts.check_approval(receipt, now=bot.clock.now())
    with pytest.raises(receipts.ReceiptError, match="too old"):
        receipts.check_approval(receipt, now=bot.clock.now() + timedelta(hours=25))


def test_the_receipt_of_another_programs_request_is_not_found(
    bot: Harness, new_program: NewProgram
) -> None:
    """The status is 404, as for the request itself."""
    asked = new_program().note("mine alone")
    assert new_program().ask("GET", f"/v1/requests/{asked['id']}/receipt")[0] == 404
