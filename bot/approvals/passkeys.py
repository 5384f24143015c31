"""Passkeys of people: how one is added, approved by others, renamed and revoked.

The `webauthn` library is imported where an authenticator is spoken to, so that an installation
whose policy asks for no signatures does without it.
"""

from __future__ import annotations

import hashlib

from bot.config.connection_settings import PageAddress
from bot.policy.gates import PasskeyTerms
from storage import passkeys
from storage.passkeys import SigningLink
from storage.record import Transaction

APP = "Countersign"  # as a browser's dialog names who asks for a passkey


def build_creation_options(
    tx: Transaction, link: SigningLink, name: str, address: PageAddress, terms: PasskeyTerms
) -> str:
    """Return what a browser is asked to make for this link: PublicKeyCredentialCreationOptions.

    As JSON, for `PublicKeyCredential.parseCreationOptionsFromJSON`. `name`: of the person, as the
    browser shows it.
    """
    import webauthn
    from webauthn.helpers import structs

    here = passkeys.list_passkeys_of_person(tx, link.team, link.person)
    direct, none = (
        structs.AttestationConveyancePreference.DIRECT,
        structs.AttestationConveyancePreference.NONE,
    )
    options = webauthn.generate_registration_options(
        rp_id=address.rp_id,
        rp_name=APP,
        user_id=hashlib.sha256(f"{link.team}:{link.person}".encode()).digest(),
        user_name=name or link.person,
        challenge=hashlib.sha256(link.statement.encode()).digest(),
        timeout=300_000,
        attestation=direct if terms.models else none,
        authenticator_selection=structs.AuthenticatorSelectionCriteria(
            resident_key=structs.ResidentKeyRequirement.PREFERRED,
            user_verification=structs.UserVerificationRequirement.REQUIRED,
        ),
        exclude_credentials=[
            structs.PublicKeyCredentialDescriptor(
                id=webauthn.base64url_to_bytes(each.credential_id)
            )
            for each in here
        ],
    )
    return webauthn.options_to_json(options)
