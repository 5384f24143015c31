"""What people are told of passkeys and signatures, in Slack and on the signing page. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from bot.cards import block_kit, button_codec
from bot.cards.action_names import Action, BlockRole, DialogId, InputBlockId
from bot.cards.slack_text import format_local_time, sanitise_for_mrkdwn, shorten_text, user_mention
from storage.states import SigningLinkKind

if TYPE_CHECKING:
    from storage.passkeys import Passkey

MAX_PASSKEYS = 20  # of one person
MAX_NAME_CHARS = 60
UNNAMED_PASSKEY_NAME = "a passkey"  # after its person's data was erased
# names of common authenticators by model id
MODEL_NAME_BY_AAGUID: Mapping[str, str] = {
    "fbfc3007-154e-4ecc-8c0b-6e020557d7bd": "iCloud Keychain",
    "ea9b8d66-4d01-1d21-3ce4-b6b48cb575d4": "Google Password Manager",
    "adce0002-35bc-c60a-648b-0b25f1f05503": "Chrome on a Mac",
    "08987058-cadc-4b81-b6e1-30de50dcbe96": "Windows Hello",
    "9ddd1817-af5a-4672-a2b9-3e3dd95000a9": "Windows Hello",
    "6028b017-b1d4-4c02-b4b3-afcdafc96bb2": "Windows Hello",
    "bada5566-a7aa-401f-bd96-45619a55120d": "1Password",
    "d548826e-79b4-db40-a3d8-11116f7e8349": "Bitwarden",
    "531126d6-e717-415c-9320-3d9aa6981239": "Dashlane",
    "ee882879-721c-4913-9775-3dfcce97072a": "YubiKey 5",
    "2fc0579f-8113-47ea-b116-bb5a8db9202a": "YubiKey 5 NFC",
}
ADD_PASSKEY_REPLY = (
    "Add a passkey with this private link. It works for half an hour, on the device whose "
    "fingerprint, face or PIN you want to approve with. Do not share it."
)
NOT_A_SIGNER_REPLY = (
    "You need no passkey: nothing that you may decide has to be signed. If you think that this is "
    "wrong, ask the people who maintain the policy."
)
PASSKEY_ADDED_REPLY = (
    "Your passkey is added, and you can approve with it from now on. Close this page."
)
PASSKEY_PENDING_REPLY = (
    "Your passkey is added. Others approve it first, and I tell you in Slack once you can use it. "
    "Close this page."
)
INVALID_ATTESTATION_REPLY = (
    "Your device’s answer could not be checked, so no passkey was added. Press Add a passkey on "
    "my Home tab and try again; if that does not help, tell the people who run this app."
)
ALREADY_ADDED_REPLY = "This passkey was added before, so nothing was changed."
WRONG_MODEL_REPLY = (
    "Only certain models of security keys may be used here, and this device did not prove to be "
    "one of them. No passkey was added. Ask the people who run this app which ones."
)
PASSKEY_REVOKED_REPLY = "Revoked: nothing can be signed with this passkey any more."
PASSKEY_DISOWNED_REPLY = (
    "I have revoked this passkey: nothing can be signed with it any more. If you did not add it, "
    "somebody else may be using your Slack account: sign out of all sessions in Slack’s settings, "
    "and tell security."
)
ALREADY_REVOKED_REPLY = "This passkey was revoked already."
LOST_DEVICE_TEXT = (
    "Lost your device? Revoke its passkey here and add a new one. This works even if it was your "
    "only one."
)


def describe_model(aaguid: str, attested: bool) -> str:
    """Return which model an authenticator is of, or says it is of, in words."""
    if not aaguid.strip("0-"):
        return "unknown model"
    name = MODEL_NAME_BY_AAGUID.get(aaguid, f"model {aaguid}")
    return f"{name}, {'confirmed by its maker' if attested else 'as the device reports'}"


def choose_passkey_name(aaguid: str, at: datetime) -> str:
    """Return a name for a passkey that its person has not named."""
    return f"{MODEL_NAME_BY_AAGUID.get(aaguid, 'Passkey')}, {at:%d %B %Y}"


def new_passkey_notice(name: str, model: str, at: datetime, fingerprint: str, counts: bool) -> str:
    """Return the message to a person that a passkey was added in their name."""
    next_step = (
        "You can approve with it from now on."
        if counts
        else "It does not count yet: others are asked to approve it. They see the same "
        "fingerprint of its public key, so you can compare it with them."
    )
    return (
        f"🔑 A new passkey was added for you: “{sanitise_for_mrkdwn(name, MAX_NAME_CHARS)}” "
        f"({sanitise_for_mrkdwn(model)}), {format_local_time(at)}. {next_step}\n"
        f"Fingerprint: `{fingerprint}`\nIf that wasn’t you, say so now: it is revoked at once."
    )


def render_new_passkey_notice(text: str, passkey: str) -> list[block_kit.Json]:
    """Build the message on a new passkey, with the button by which its person disowns it."""
    target = button_codec.PasskeyTarget(passkey)
    ask = block_kit.confirmation_dialog(
        "Wasn’t that you?", "I will revoke this passkey at once and tell security.", "Revoke it"
    )
    button = block_kit.button(
        Action.DISOWN_PASSKEY, "That wasn’t me", target, style="danger", confirm=ask
    )
    return [
        block_kit.section_block("added", block_kit.mrkdwn(text)),
        block_kit.actions_block(button_codec.build_block_id(BlockRole.PASSKEY, target), [button]),
    ]


def disowned_passkey_notice(person: str, name: str, signed: int) -> str:
    """Return the alarm that somebody says a passkey in their name is not theirs.

    `signed`: the number of votes signed with it.
    """
    votes = f"{signed} decision{'s' if signed > 1 else ''}"
    done = f"It has signed {votes}: please look at them" if signed else "It has signed nothing"
    return (
        f"🚨 {user_mention(person)} says that a passkey in their name, "
        f"“{sanitise_for_mrkdwn(name, MAX_NAME_CHARS)}”, is not theirs. I have revoked it. {done}. "
        "Somebody may be using their Slack account: end its sessions."
    )


def revoked_passkey_notice(person: str, name: str) -> str:
    """Return the alarm that the operator has revoked a person's passkey."""
    return (
        f"🔑 The passkey “{sanitise_for_mrkdwn(name, MAX_NAME_CHARS)}” of {user_mention(person)} "
        "was revoked by the people who run this app: nothing can be signed with it any more."
    )


def passkey_withdrawn_line(name: str) -> str:
    """Return the line that the request to approve a passkey is cancelled, as it was revoked."""
    shown = sanitise_for_mrkdwn(name, MAX_NAME_CHARS)
    return f"The passkey “{shown}” was revoked, so this is cancelled."


def passkey_line(row: Passkey, state: str) -> str:
    """Return a passkey's name, model, state and dates in two lines of mrkdwn."""
    used = (
        f"last used {format_local_time(row.last_used_at)}" if row.last_used_at else "not used yet"
    )
    name = sanitise_for_mrkdwn(row.name or UNNAMED_PASSKEY_NAME, MAX_NAME_CHARS)
    model = sanitise_for_mrkdwn(describe_model(row.aaguid, row.attested))
    return f"🔑 *{name}* ({model}): {state}\nAdded {format_local_time(row.created_at)}, {used}"


def render_passkeys(passkeys: Sequence[tuple[Passkey, str]]) -> list[block_kit.Json]:
    """Build the page of Home that lists a person's passkeys with their states, and buttons."""
    blocks = [block_kit.header_block(f"{BlockRole.PASSKEY}:title", "Your passkeys")]
    ask = block_kit.confirmation_dialog(
        "Revoke this passkey?", "Nothing can be signed with it any more.", "Revoke"
    )
    for row, state in passkeys[:MAX_PASSKEYS]:
        target = button_codec.PasskeyTarget(row.id)
        block_id = button_codec.build_block_id(BlockRole.PASSKEY, target)
        buttons = [
            block_kit.button(Action.RENAME_PASSKEY, "Rename…", target),
            block_kit.button(Action.REVOKE_PASSKEY, "Revoke", target, confirm=ask),
        ]
        blocks += [
            block_kit.section_block(block_id, block_kit.mrkdwn(passkey_line(row, state))),
            block_kit.actions_block(f"{block_id}:buttons", buttons),
        ]
    if not passkeys:
        text = "You have none. Some decisions here have to be signed with one."
        blocks.append(block_kit.section_block(f"{BlockRole.PASSKEY}:none", block_kit.mrkdwn(text)))
    more = len(passkeys) - MAX_PASSKEYS
    small = f"and {more} more, shown once you have revoked some.\n" if more > 0 else ""
    lost = block_kit.mrkdwn(f"{small}{LOST_DEVICE_TEXT}")
    return [*blocks, block_kit.context_block(f"{BlockRole.PASSKEY}:lost", [lost])]


def render_rename_dialog(passkey: str, name: str) -> block_kit.Json:
    """Build the dialog in which a person names their passkey; `name`: the one it has."""
    text = {**block_kit.build_text_input(), "max_length": MAX_NAME_CHARS, "min_length": 1}
    text |= {"multiline": False} | ({"initial_value": name} if name else {})
    about = button_codec.DialogSubject(DialogId.RENAME_PASSKEY, button_codec.PasskeyTarget(passkey))
    blocks = [block_kit.build_input_block(InputBlockId.WORDS, "Name", text)]
    return block_kit.dialog_view(about, "Rename a passkey", blocks, submit="Save", close="Back")


def parse_passkey_name(state_values: Mapping[str, Any]) -> str:
    """Return the name entered in the dialog that renames a passkey, on one line; "" for none."""
    return " ".join(block_kit.get_entered_text(state_values, InputBlockId.WORDS).split())[
        :MAX_NAME_CHARS
    ]


SIGNING_LINK_REPLY = (
    "This needs your passkey. The link is only for you and works for five minutes; it shows "
    "what you are signing."
)
SIGN_IN_SLACK_REPLY = (
    "This needs your passkey, and no vote was cast. Press the button on its card in Slack: you get "
    "a private link there to sign with."
)
ENROL_FIRST_REPLY = (
    "This needs your passkey, and you have none that counts, so no vote was cast. Add one, then "
    "press the button on the card again."
)
NOT_COUNTED_YET_REPLY = (
    "This needs your passkey, and yours does not count yet: others have to approve it first. No "
    "vote was cast."
)
SIGNED_REPLY = "Signed. Your decision is recorded; you can close this page."
PAGE_FAILED_REPLY = (
    "Something went wrong here, and nothing was signed or added. Please tell the people who "
    "run this app."
)
EXPIRED_LINK_REPLY = (
    "This link has expired, so nothing was signed or added. Press the button in Slack again to get "
    "another one."
)
USED_LINK_REPLY = "This link was used already. Press the button in Slack to get another one."
ALREADY_DECIDED_REPLY = (
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
TEXT_BY_PASSKEY_PROBLEM = {  # why the passkey cannot sign
    "revoked": "was revoked",
    "not_counted_yet": "does not count yet: others have to approve it first",
    "too_old": "no longer counts: it is older than the policy lets it be",
    "address": "does not count: it was made at another address of this app",
    "model": "does not count: the policy asks for other models",
}
WRONG_ORIGIN_REPLY = (
    "This was signed at a different address, so it does not count. Open the link from Slack "
    "and sign there; if you did, tell the people who run this app."
)
UNVERIFIED_PERSON_REPLY = (
    "Your device did not check that it is you, by fingerprint, face or PIN, so nothing was signed "
    "or added. Turn that on, and try again."
)
WRONG_SIGNATURE_REPLY = (
    "The signature does not match what was to be signed, so it does not count. Press the button on "
    "the card again; if that does not help, tell the people who run this app."
)


def unusable_passkey_reply(problem: str) -> str:
    """Return the reply to a person whose passkey cannot sign, such as a revoked one."""
    return (
        f"This passkey {TEXT_BY_PASSKEY_PROBLEM[problem]}. Nothing was signed: use another one, or "
        "add one on the Home tab of the app."
    )


def other_persons_link_reply(person: str) -> str:
    """Return the reply to a person who signs by a link that was made for another, `person`."""
    return (
        f"This link was made for {user_mention(person)} alone, and this passkey is somebody "
        "else’s. Nothing was signed. Press the button on the card yourself to get your own."
    )


def not_set_up_reply(why: str) -> str:
    """Return the reply if a signature is needed and nobody can sign here; `why`: a sentence."""
    return (
        "This needs a passkey, and nobody can sign here at the moment, so no vote was cast. Please "
        f"tell the people who run this app: {sanitise_for_mrkdwn(why)}"
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
    """A button in a private message that opens the signing page; its URL is made on sending."""

    kind: SigningLinkKind
    nonce: str  # the link's token is derived from this, with a key
    label: str
    about: str  # what the link is for, in a sentence


def render_link_buttons(text: str, links: Sequence[tuple[LinkButton, str]]) -> list[block_kit.Json]:
    """Build a message of `text` (mrkdwn) and one button for each link, given with its address."""
    blocks = [block_kit.section_block("signing", block_kit.mrkdwn(text))]
    for number, (link, url) in enumerate(links):
        to = button_codec.NoTarget()
        button = block_kit.button(Action.OPEN_PAGE, link.label, to, style="primary") | {"url": url}
        about = block_kit.plain_text(shorten_text(link.about, 300))
        block_id = button_codec.build_block_id(BlockRole.SIGNING, to, number)
        blocks.append({**block_kit.section_block(block_id, about), "accessory": button})
    return blocks
