"""What people are told about passkeys and signatures, and the buttons that open the page. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bot.cards import block_kit, button_codec
from bot.cards.action_names import Action, BlockRole
from bot.cards.slack_text import sanitise_for_mrkdwn, shorten_text, user_mention
from storage.states import SigningLinkKind

SIGN_REPLY = (
    "This needs your passkey. The link is yours alone and works for five minutes; it shows what "
    "you sign."
)
SIGN_IN_SLACK_REPLY = (
    "This needs your passkey, and no vote was cast. Press the button on its card in Slack: you get "
    "a private link there, by which you can sign."
)
ENROL_FIRST_REPLY = (
    "This needs your passkey, and you have none yet, so no vote was cast. Add one, then press the "
    "button on the card again."
)
NOT_COUNTED_YET_REPLY = (
    "This needs your passkey, and yours does not count yet: others have to approve it first. No "
    "vote was cast."
)
SIGNED_REPLY = "Signed. Your decision is recorded; you can close this page."
FAILED_PAGE_REPLY = (
    "Something went wrong here, and nothing was signed or added. Please tell whoever runs this app."
)
EXPIRED_LINK_REPLY = (
    "This link has expired, so nothing was signed or added. Press the button in Slack again to get "
    "another one."
)
USED_LINK_REPLY = "This link was used already. Press the button in Slack to get another one."
DECIDED_SINCE_REPLY = (
    "This has been decided in the meantime, so there is nothing to sign any more. The card shows "
    "how."
)
CHANGED_SINCE_REPLY = (
    "What this link was made for has changed since, so your signature changed nothing. Look at the "
    "card again: it shows how things stand now."
)
UNKNOWN_PASSKEY_REPLY = (
    "This passkey is not known here, so nothing was signed. You can add it on the Home tab of the "
    "app."
)
REVOKED_PASSKEY_REPLY = "This passkey was revoked, so nothing was signed. Use another one."
EARLY_PASSKEY_REPLY = (
    "This passkey does not count yet: others have to approve it first. Nothing was signed."
)
OLD_PASSKEY_REPLY = (
    "This passkey is older than the policy lets it be, so nothing was signed. Add a new one on the "
    "Home tab of the app."
)
MODEL_PASSKEY_REPLY = (
    "The policy takes other models of authenticators than this one, so nothing was signed."
)
OTHER_ADDRESS_REPLY = (
    "This was signed at another address than ours, so it does not count. Open the link from Slack "
    "and sign there; if you did, tell whoever runs this app."
)
UNVERIFIED_PERSON_REPLY = (
    "Your device did not check that it is you, by fingerprint, face or PIN, so nothing was signed "
    "or added. Turn that on, and try again."
)
WRONG_SIGNATURE_REPLY = (
    "The signature does not fit what was to be signed, so it does not count. Press the button on "
    "the card again; if that does not help, tell whoever runs this app."
)


def other_persons_link_reply(person: str) -> str:
    """Return the reply to a passkey of somebody else than the person the link was made for."""
    return (
        f"This link was made for {user_mention(person)} alone, and this passkey is somebody "
        "else’s. Nothing was signed. Press the button on the card yourself to get your own."
    )


def not_set_up_reply(why: str) -> str:
    """Return the reply where a signature is needed and nobody can sign here; `why`: a sentence."""
    return (
        "This needs a passkey, and nobody can sign here at the moment, so no vote was cast. Please "
        f"tell whoever runs this app: {sanitise_for_mrkdwn(why)}"
    )


def cloned_passkey_notice(person: str, name: str) -> str:
    """Return the alarm that a passkey may have been copied, and was revoked for that."""
    return (
        f"⚠️ A passkey of {user_mention(person)} (“{sanitise_for_mrkdwn(name)}”) may have been "
        "copied: its counter went back. I have revoked it, and its last signature did not count. "
        f"{user_mention(person)}, if you have this device, add it again; if not, tell security."
    )


@dataclass(frozen=True, slots=True)
class LinkButton:
    """A button of a private message that opens the page; its address is made when it is sent."""

    kind: SigningLinkKind
    nonce: str  # from which, with a key, the link's token is made
    label: str
    about: str  # what the link is for, in a sentence


def render_link_buttons(text: str, links: Sequence[tuple[LinkButton, str]]) -> list[block_kit.Json]:
    """Build a message of `text` (mrkdwn) and one button for each link, given with its address."""
    blocks = [block_kit.section_block("signing", block_kit.mrkdwn(text))]
    for number, (link, url) in enumerate(links):
        button = block_kit.button(Action.OPEN_PAGE, link.label, button_codec.NoTarget()) | {
            "url": url,
            "style": "primary",
        }
        about = block_kit.plain_text(shorten_text(link.about, 300))
        block_id = button_codec.build_block_id(BlockRole.SIGNING, button_codec.NoTarget(), number)
        blocks.append({**block_kit.section_block(block_id, about), "accessory": button})
    return blocks
