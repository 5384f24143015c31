"""Receipts: signed statements of what was decided about a call, and of how it ended.

Anybody who has the installation's public keys can check one without the bot, with `countersign
verify` or `countersign.receipts`. A receipt says what the record says; none is made if the record
does not match what people were shown.
"""

from __future__ import annotations

import hmac
import json
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from bot.approvals import call_state
from bot.policy.gates import Ask, load_gate
from bot.tools import Registry, Tool
from countersign import receipts
from storage import calls, digest, runs, trail
from storage.masking import MASK, mask_secrets, replace_values_at_paths
from storage.passkeys import VoteSignature, map_signatures_by_vote
from storage.record import Call, Run, Transaction, Vote
from storage.states import CALL_APPROVED_STATUSES, CallStatus, CallVerb, Surface

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

C = CallStatus
ENDED_STATUSES = (C.SUCCEEDED, C.FAILED, C.UNKNOWN)
SIGNING_KEY_PURPOSE = b"countersign receipts"  # keys derived for it sign only receipts
NOT_SHOWN_ERROR = "Nobody was shown this, so there is nothing to sign."
Json = dict[str, Any]


class NoReceiptError(ValueError):
    """Raised if a call has no receipt; the text is a sentence that says why."""


class ReceiptWriter:
    """Writes receipts with the installation's key; one per process, for any thread."""

    def __init__(self, key: bytes, tools: Registry) -> None:
        """`key` signs the record; the key that signs receipts is derived from it."""
        self._key = key
        self._tools = tools

    @cached_property
    def _private_keys(self) -> list[Ed25519PrivateKey]:
        """The keys that sign receipts: the one in use, then older ones."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        found = digest.list_current_and_older_keys(self._key)
        seeds = (hmac.digest(bytes(each), SIGNING_KEY_PURPOSE, "sha256") for each in found)
        return [Ed25519PrivateKey.from_private_bytes(each) for each in seeds]

    @cached_property
    def _public_keys(self) -> list[dict[str, str]]:
        public = (each.public_key().public_bytes_raw() for each in self._private_keys)
        return [receipts.build_public_jwk(each) for each in public]

    def build_public_keys(self) -> Json:
        """Return the public keys, the one in use first, as a JSON Web Key Set."""
        return {"keys": self._public_keys}

    def write_receipts(self, tx: Transaction, call: Call) -> Json:
        """Return the receipts of a call as {"decision": envelope, "end": envelope or None}.

        The same rows give the same bytes. Raises NoReceiptError.
        """
        run, shown = runs.get_run(tx, call.run_id), calls.find_call_with_votes(tx, call)
        tool = self._tools.find_tool_of_call(call)
        if run.purged_at is not None:
            raise NoReceiptError("What was asked is no longer in the record.")
        if shown is None:
            raise NoReceiptError(NOT_SHOWN_ERROR)
        if tool is None:
            raise NoReceiptError("The tool that this was for is no longer there.")
        if call.status is C.PENDING:
            raise NoReceiptError("This is not decided yet.")
        self._check_digests(run, shown, tool)
        nonce, subject = call_state.compute_receipt_subject(self._key, call, shown.revision)
        decided = self._describe_decision(tx, run, shown, tool, nonce)
        decision = self._sign(receipts.DECISION_KIND, subject, decided)
        if call.status not in ENDED_STATUSES:
            return {"decision": decision, "end": None}
        decision_digest = {"sha256": sha256(b64decode(decision["payload"])).hexdigest()}
        end_fields = {
            "decision": decision_digest,
            "status": str(call.status),
            "endedAt": _format_time(call.finished_at),
            "note": mask_secrets(call.note),
        } | _leave_out_empty(reportedBy=call_state.find_outcome_reporter(tx, call))
        return {"decision": decision, "end": self._sign(receipts.END_KIND, subject, end_fields)}

    def _check_digests(self, run: Run, shown: calls.CallWithVotes, tool: Tool[Any]) -> None:
        """Raise NoReceiptError if the stored call is not, by its digest, what people were shown."""
        call = shown.call
        if not call.digest:
            raise NoReceiptError(NOT_SHOWN_ERROR)
        if call.schema_digest != tool.schema_digest():
            raise NoReceiptError("The tool that this was for has changed since.")
        found = call_state.compute_digest_of_shown_call(self._key, run, tool, shown)
        votes = [vote.digest for vote in shown.votes]
        if {found, shown.revision.digest, *votes} != {call.digest}:
            raise NoReceiptError(
                "The record, or the tool as it is now, does not fit what people were shown."
            )

    def _describe_decision(
        self,
        tx: Transaction,
        run: Run,
        shown: calls.CallWithVotes,
        tool: Tool[Any],
        nonce: str,
    ) -> Json:
        call, gate = shown.call, load_gate(shown.call.gate)
        arguments = digest.load_canonical_json(shown.revision.arguments)
        until = call_state.find_approval_expiry(call)
        granted = call_state.find_grant_author_id(tx, call)
        is_signed = any(vote.passkey_id for vote in shown.votes)
        signed = map_signatures_by_vote(tx, call.id, call.revision) if is_signed else {}
        surfaces = trail.map_surfaces_by_vote(tx, call) if shown.votes else {}
        others = [vote for vote in shown.votes if vote.verb is not CallVerb.APPROVE]
        counted = [*call_state.list_approving_votes(shown.votes), *others]
        decided: Json = {
            "workspace": run.team,
            "request": run.id,
            "call": call.id,
            "revision": call.revision,
            "nonce": nonce,
            "tool": call.tool,
            "effect": call_state.describe_revision_effect(self._tools, call, shown.revision),
            "arguments": tool.mask_arguments(arguments),
            "requester": run.requester,
            "source": str(run.source),
            "rule": getattr(gate, "rule", ""),
            "gate": call_state.compute_gate_digest(call),
            "decision": _describe_status(call, shown.votes, asked=isinstance(gate, Ask)),
            # what was invalidated had been decided before that, if at all
            "decidedAt": _format_time(None if call.status is C.INVALIDATED else call.decided_at),
            "goodUntil": _format_time(until if call.status in CALL_APPROVED_STATUSES else None),
            "votes": [_describe_vote(vote, signed, surfaces) for vote in counted],
        }
        return decided | _leave_out_empty(
            secrets=_hash_secrets(tool, arguments, nonce),
            client=run.client,
            editors=sorted(shown.editors),
            grantedBy=granted,
        )

    def _sign(self, kind: str, subject: str, predicate: Mapping[str, Any]) -> Json:
        """Return a DSSE envelope with an in-toto statement about the subject."""
        statement = {
            "_type": receipts.STATEMENT_TYPE,
            "subject": [{"name": "call", "digest": {"sha256": subject}}],
            "predicateType": kind,
            "predicate": predicate,
        }
        payload = digest.canonical_json(statement).encode()
        signature = self._private_keys[0].sign(receipts.encode_for_signing(payload))
        return {
            "payloadType": receipts.PAYLOAD_TYPE,
            "payload": b64encode(payload).decode(),
            "signatures": [
                {"keyid": self._public_keys[0]["kid"], "sig": b64encode(signature).decode()}
            ],
        }


def _describe_status(call: Call, votes: Sequence[Vote], *, asked: bool) -> str:
    """Return in one word how a call was decided, which docs/receipts.md explains."""
    if call.status not in CALL_APPROVED_STATUSES:
        return str(call.status)
    if not asked:
        return "allowed"
    if call_state.find_break_glass_vote(votes):
        return "break_glass"
    return "granted" if call.grant_id else "approved"


def _describe_vote(
    vote: Vote,
    signatures: Mapping[tuple[str, CallVerb], VoteSignature],
    surfaces: Mapping[tuple[str, str], str],
) -> Json:
    """Return a vote with its evidence; raises NoReceiptError if its signature is gone."""
    word = surfaces.get((vote.person, vote.verb), Surface.SLACK)
    described: Json = {
        "verb": str(vote.verb),
        "person": vote.person,
        "stage": vote.stage,
        "at": _format_time(vote.created_at),
        "evidence": "passkey" if vote.passkey_id else word,
    } | _leave_out_empty(**{"for": vote.for_person})
    if not vote.passkey_id:
        return described
    signature = signatures.get((vote.person, vote.verb))
    if signature is None or signature.passkey_id != vote.passkey_id:
        raise NoReceiptError("The signature of a vote is no longer in the record.")
    return described | {"passkey": _describe_signature(signature)}


def _describe_signature(signature: VoteSignature) -> Json:
    """Return what a check of a vote's signature needs beside the rest of the receipt."""
    statement = json.loads(signature.statement)
    client_data = receipts.decode_base64url(signature.client_data)
    origin = json.loads(client_data).get("origin")
    challenge = sha256(signature.statement.encode()).digest()
    is_usual = (
        client_data == receipts.build_client_data(challenge, origin)
        and receipts.get_host_of_origin(origin) == signature.rp_id
    )
    verbatim = {"clientDataJSON": signature.client_data, "rpId": signature.rp_id}
    # the first 32 bytes are the SHA-256 of the host name, which the receipt contains as well
    rest = receipts.decode_base64url(signature.authenticator_data)[32:]
    return {
        "nonce": statement["nonce"],
        "expires": statement["expires"],
        "authenticator": receipts.encode_base64url(rest),
        **({"origin": origin} if is_usual else verbatim),
        "signature": signature.signature,
        "key": json.loads(signature.public_key),
        **_leave_out_empty(model=signature.aaguid),
    }


def check_evidence(found: VoteSignature) -> None:
    """Raise ReceiptError unless a receipt with this signature of a vote would hold."""
    said = json.loads(found.statement)
    vote = {"verb": said["verb"], "person": said["approver"], "for": said["right"]}
    vote |= {"at": _format_time(found.created_at), "passkey": _describe_signature(found)}
    about = receipts.Receipt(receipts.DECISION_KIND, "", said["digest"], said, "")
    receipts.check_vote_signature(about, vote)


def _leave_out_empty(**named: Any) -> Json:
    return {name: value for name, value in named.items() if value}


def _format_time(at: datetime | None) -> str | None:
    return at.isoformat().replace("+00:00", "Z") if at else None


def _hash_secrets(tool: Tool[Any], arguments: Mapping[str, Any], nonce: str) -> dict[str, str]:
    """Return, by JSON Pointer, the SHA-256 of each secret argument, salted with the nonce."""
    found: dict[str, str] = {}

    def note(path: Any, value: Any) -> str:
        pointer = "".join(f"/{str(each).replace('~', '~0').replace('/', '~1')}" for each in path)
        found[pointer] = sha256(f"{nonce}:{digest.canonical_json(value)}".encode()).hexdigest()
        return MASK

    replace_values_at_paths(arguments, tool.list_secret_paths(arguments), note)
    return found
