"""Which models of authenticators are accepted: those that their makers have attested."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from bot.approvals.passkeys import verify_new_passkey
from bot.approvals.signatures import PasskeyRefusedError, compute_challenge
from bot.config.connection_settings import parse_page_address
from bot.policy.gates import PasskeyTerms
from storage.passkeys import Passkey, SigningLink
from storage.states import SigningLinkKind
from tests.authenticator import Authenticator
from tests.stories.enrolling import make_credential

AT = datetime.now(UTC)
ADDRESS = parse_page_address("https://approve.example.com")
MODEL, OTHER = "2fc0579f-8113-47ea-b116-bb5a8db9202a", "ee882879-721c-4913-9775-3dfcce97072a"


class Maker:
    """A maker of authenticators: its root, and the key in the devices of one batch."""

    def __init__(self, name: str) -> None:
        self.root_key, self.key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
        self.root = _make_certificate(name, self.root_key, name, self.root_key)
        self.leaf = _make_certificate(f"{name} device", self.key, name, self.root_key)

    @property
    def pem(self) -> str:
        """The root, as a policy has it."""
        return self.root.public_bytes(Encoding.PEM).decode()

    def attest(self, what: bytes) -> dict[str, Any]:
        """The attestation of a new key by one of the maker's devices."""
        signature = self.key.sign(what, ec.ECDSA(hashes.SHA256()))
        return {"alg": -7, "sig": signature, "x5c": [self.leaf.public_bytes(Encoding.DER)]}


def _make_certificate(
    name: str, key: ec.EllipticCurvePrivateKey, issuer: str, by: ec.EllipticCurvePrivateKey
) -> x509.Certificate:
    def named(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    made = x509.CertificateBuilder().subject_name(named(name)).issuer_name(named(issuer))
    made = made.public_key(key.public_key()).serial_number(x509.random_serial_number())
    made = made.not_valid_before(AT - timedelta(days=1)).not_valid_after(AT + timedelta(days=9))
    is_root = x509.BasicConstraints(ca=key is by, path_length=None)
    return made.add_extension(is_root, critical=True).sign(by, hashes.SHA256())


def make_self_attestation(key: Authenticator) -> Callable[[bytes], dict[str, Any]]:
    """A device's attestation of itself, without a maker."""
    assert isinstance(key.key, ec.EllipticCurvePrivateKey)
    own = key.key
    return lambda what: {"alg": -7, "sig": own.sign(what, ec.ECDSA(hashes.SHA256()))}


def test_only_a_makers_attestation_proves_a_named_model() -> None:
    """Other models are refused, and devices that merely claim a named one."""
    maker, stranger, key = Maker("Maker"), Maker("Maker"), Authenticator()
    terms = PasskeyTerms(models=(MODEL,), roots=maker.pem + Maker("Another").pem)

    def verify_passkey(aaguid: str, attest: Callable[[bytes], dict[str, Any]] | None) -> Passkey:
        made = make_credential(key, compute_challenge(LINK), aaguid=aaguid, attest=attest)
        return verify_new_passkey(made, LINK, ADDRESS, terms, AT)

    found = verify_passkey(MODEL, maker.attest)
    assert (found.aaguid, found.attested, found.counts_from) == (MODEL, True, None)
    assert terms.allows_model(found.aaguid, attested=found.attested)
    for aaguid, attest, why in (
        (OTHER, maker.attest, "model"),
        (MODEL, None, "model"),
        (MODEL, make_self_attestation(key), "model"),
        (MODEL, stranger.attest, "attestation"),
    ):
        with pytest.raises(PasskeyRefusedError) as refused:
            verify_passkey(aaguid, attest)
        assert refused.value.why == why


@pytest.mark.parametrize("has_maker", [False, True], ids=["self", "unknown maker"])
@pytest.mark.parametrize("enrol", ["self", "countersigned"])
def test_any_authenticator_is_accepted_if_no_model_is_named(enrol: Any, has_maker: bool) -> None:
    """The model is what the device says, and does not count as attested."""
    key, maker = Authenticator(), Maker("Unknown")
    attest = maker.attest if has_maker else make_self_attestation(key)
    made = make_credential(key, compute_challenge(LINK), aaguid=MODEL, attest=attest)
    found = verify_new_passkey(made, LINK, ADDRESS, PasskeyTerms(enrol=enrol), AT)
    assert (found.aaguid, found.attested) == (MODEL, False)
    assert (found.counts_from == AT) == (enrol == "self")
    assert found.name.startswith("YubiKey 5 NFC, ")


def test_an_unreadable_passkey_is_refused() -> None:
    """Whatever the library raises."""
    made = make_credential(Authenticator(), compute_challenge(LINK))
    for part in ("clientDataJSON", "attestationObject"):
        for text in ("", "A", "AAAA", "____"):
            odd = {**made, "response": {**made["response"], part: text}}
            with pytest.raises(PasskeyRefusedError):
                verify_new_passkey(odd, LINK, ADDRESS, PasskeyTerms(), AT)


LINK = SigningLink(
    hash="h",
    kind=SigningLinkKind.ENROL,
    team="T",
    person="UANA00001",
    statement='{"enrol":"UANA00001"}',
    issued_at=AT,
    expires_at=AT + timedelta(minutes=30),
)
