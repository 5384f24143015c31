"""Helpers for stories about signed votes: passkeys, links, and what the page posts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bot.approvals.signatures import (
    build_page_delivery,
    compute_challenge,
    find_outcome,
    parse_credential,
)
from storage import passkeys
from storage.passkeys import Passkey, SigningLink
from tests.authenticator import Authenticator
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import elements, words
from tests.stories.steps import arrived, ask, press

# the pages listen at any port; a proxy would be in front
ADDRESS = {"COUNTERSIGN_URL": "https://approve.example.com", "COUNTERSIGN_HTTP": "127.0.0.1:0"}
PEOPLE = {"ana": "UANA00001", "ben": "UBEN00001", "cleo": "UCLEO0001", "dan": "UDAN00001"}
SIGN = "/sign/"  # the path of links to sign


@dataclass(frozen=True)
class PageOutcome:
    """The outcome of what a person did on the page."""

    text: str  # shown to the person
    is_done: bool  # the link is used up


def give_passkey(harness: Harness, who: str, key: Authenticator | None = None) -> Authenticator:
    """Give this person a passkey that counts."""
    key = key or Authenticator()
    add_passkey(harness, who, key)
    return key


def add_passkey(harness: Harness, who: str, key: Authenticator, **columns: Any) -> Passkey:
    """Store a passkey of this person; by default it counts at once."""
    core = harness.app.core
    at = core.clock.now()
    row = Passkey(
        person=PEOPLE[who],
        credential_id=key.credential_id,
        public_key=key.public_key,
        sign_count=key.count,
        rp_id=key.rp_id,
        name=f"{who}'s phone",
        **{"team": core.identity.team, "created_at": at, "counts_from": at, **columns},
    )
    with core.store.write() as tx:
        assert passkeys.add_passkey(tx, row)
    return row


def passkeys_of(harness: Harness, who: str) -> list[Passkey]:
    """Return this person's passkeys, including revoked ones."""
    return harness.all(Passkey, Passkey.person == PEOPLE[who])


def forget_passkeys(harness: Harness) -> None:
    """Revoke everybody's passkeys, so that no later story uses them."""
    core = harness.app.core
    with core.store.write() as tx:
        for each in passkeys.list_passkeys(tx, core.identity.team):
            passkeys.revoke_passkey(tx, each, "system", core.clock.now())


def links_of(harness: Harness, who: str, part: str = SIGN) -> list[str]:
    """Return the links with this part that the person was sent as buttons, oldest first.

    Only links to the workspace's own pages.
    """
    own = str(harness.app.core.settings.url)
    seen = harness.person(who)
    places = [SUPPORT, seen.dm_channel]
    found = {m["ts"]: m for place in places for m in seen.everything(place)}
    return [
        element["url"]
        for _, message in sorted(found.items())
        for element in elements(message)
        if str(element.get("url", "")).startswith(own) and part in element["url"]
    ]


def ask_with_card(harness: Harness, text: str, tool: str = "note") -> tuple[str, dict[str, Any]]:
    """Have Ben ask for something that has to be signed; return the thread and the card."""
    thread = ask(harness, (tool, {"text": text}))
    return thread, harness.card(SUPPORT, thread)


def ask_to_sign(
    harness: Harness, who: str, card: dict[str, Any], action: str = "approve", nth: int = 0
) -> SigningLink:
    """Press the button as this person, and return the link that they are sent."""
    before = len(links_of(harness, who))
    press(harness, who, SUPPORT, card, action, nth)
    harness.slack.wait(lambda: len(links_of(harness, who)) > before)
    return find_link(harness, links_of(harness, who)[-1])


def find_link(harness: Harness, url: str) -> SigningLink:
    """Return the row of a link by its address."""
    core = harness.app.core
    with core.store.read() as tx:
        link = core.build_signing_links().find_link(tx, url.rpartition("/")[2])
    assert link is not None
    return link


def post_credential(harness: Harness, link: SigningLink, credential: dict[str, Any]) -> PageOutcome:
    """Post an authenticator's credential as the page does, and return the outcome."""
    parsed = parse_credential(link.kind, credential)
    assert parsed is not None
    harness.app.listeners.store_delivery(build_page_delivery(link, parsed))
    arrived(harness)
    return load_outcome(harness, link)


def load_outcome(harness: Harness, link: SigningLink) -> PageOutcome:
    """Return the outcome of what was posted for this link."""
    core = harness.app.core
    with core.store.read() as tx:
        found = passkeys.find_signing_link(tx, link.hash)
        assert found is not None
        text = find_outcome(tx, found)
    assert text, "not decided yet"
    return PageOutcome(text, found.used_at is not None)


def sign(harness: Harness, link: SigningLink, key: Authenticator) -> PageOutcome:
    """Sign for this link with this passkey, and post it."""
    return post_credential(harness, link, key.sign(compute_challenge(link)))


def sign_card(
    harness: Harness,
    who: str,
    card: dict[str, Any],
    key: Authenticator,
    action: str = "approve",
    nth: int = 0,
) -> PageOutcome:
    """Press the button, open the link, and sign."""
    return sign(harness, ask_to_sign(harness, who, card, action, nth), key)


def read_link_message(harness: Harness, who: str) -> str:
    """Return the words of the last message with a link that this person was sent."""
    seen = harness.person(who)
    link = f"{harness.app.core.settings.url}{SIGN}"
    found = [m for m in seen.everything(SUPPORT) if link in words(m)]
    return words(found[-1])
