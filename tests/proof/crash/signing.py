"""People who sign with a passkey, with as many attempts as needed, each with a new link."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from bot.app import App
from bot.approvals.signatures import (
    build_page_delivery,
    compute_challenge,
    describe_link_problem,
    parse_credential,
)
from storage import passkeys
from storage.passkeys import Passkey
from tests.authenticator import Authenticator
from tests.proof.crash.life import Stuck
from tests.proof.crash.people import ROUNDS, Act, Scene
from tests.stories.messages import elements

ADDRESS = "https://approve.example.com"
IDS = {"ana": "UANA00001", "cleo": "UCLEO0001"}


# What the process does for the signing page, which is not served here.


def add_passkey(app: App, person: str, credential_id: str, public_key: str) -> None:
    """Have this person own the passkey, once."""
    core, at = app.core, app.core.clock.now()
    row = Passkey(
        team=core.identity.team,
        person=person,
        credential_id=credential_id,
        public_key=public_key,
        rp_id=ADDRESS.removeprefix("https://"),
        created_at=at,
        counts_from=at,
    )
    with core.store.write() as tx:
        passkeys.add_passkey(tx, row)


def find_challenge(app: App, token: str) -> bytes | None:
    """The challenge of this link; None if the link cannot be used any more."""
    core = app.core
    with core.store.read() as tx:
        link = core.build_signing_links().find_link(tx, token)
        usable = link and not describe_link_problem(tx, link, core.clock.now())
    return compute_challenge(link) if link and usable else None


def post_credential(app: App, token: str, credential: dict[str, Any]) -> None:
    """Store the authenticator's answer, as the page does."""
    with app.core.store.read() as tx:
        link = app.core.build_signing_links().find_link(tx, token)
    assert link is not None
    parsed = parse_credential(link.kind, credential)
    assert parsed is not None
    app.listeners.store_delivery(build_page_delivery(link, parsed))


@dataclass
class Sign(Act):
    """Clicks Approve, opens the link and signs; again if that failed."""

    who: str
    key: Authenticator = field(default_factory=Authenticator)
    _opened: set[str] = field(default_factory=set)

    def perform(self, scene: Scene) -> None:
        """See Act."""
        life = scene.world.life
        life.do(add_passkey, IDS[self.who], self.key.credential_id, self.key.public_key)
        for _ in range(ROUNDS):
            scene.wait_until(
                lambda: scene.find_message_with(self.who, "approve") or self._is_over(scene), "it"
            )
            if self._is_over(scene):
                return
            token = self._find_link(scene)
            if token is None:
                card = scene.find_message_with(self.who, "approve")
                assert card is not None
                scene.click(self.who, card, "approve")
                scene.settle()
                if self._find_link(scene) is None:  # a dead process may still own the channel
                    scene.world.life.outlast()
                continue
            self._opened.add(token)
            if challenge := scene.world.life.do(find_challenge, token):
                scene.world.life.do(post_credential, token, self.key.sign(challenge))
                scene.settle()
        raise Stuck(f"{self.who} cannot sign")

    def _is_over(self, scene: Scene) -> bool:
        """Whether the record has this person's signature."""
        signed = scene.world.all(passkeys.VoteSignature)
        return any(each.person == IDS[self.who] for each in signed)

    def _find_link(self, scene: Scene) -> str | None:
        """The newest link that this person was sent and has not opened."""
        found = [
            str(element["url"]).rpartition("/")[2]
            for message in scene.list_messages_seen_by(self.who)
            for element in elements(message)
            if str(element.get("url", "")).startswith(f"{ADDRESS}/sign/")
        ]
        return next((each for each in reversed(found) if each not in self._opened), None)
