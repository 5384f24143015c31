"""A person who adds a passkey, and another who approves it, with as many attempts as needed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from bot.app import App
from storage.passkeys import Passkey
from storage.record import Delivery
from storage.states import DeliveryKind
from tests.authenticator import Authenticator
from tests.proof.crash.life import Stuck
from tests.proof.crash.people import ROUNDS, Act, Scene
from tests.proof.crash.signing import IDS, find_challenge, post_credential
from tests.stories.enrolling import make_credential
from tests.stories.messages import action_ids


def issue_link(app: App, person: str) -> str:
    """Create a link for this person, as the button on Home does; returns its token."""
    core, links = app.core, app.core.build_signing_links()
    at, kind = core.clock.now(), DeliveryKind.ACTION
    click = Delivery(key="", kind=kind, team=core.identity.team, user=person, received_at=at)
    with core.store.write() as tx:
        made = links.issue_enrolment_link(tx, click)
    return links.build_url(made.kind, made.nonce).rpartition("/")[2]


@dataclass
class Enrol(Act):
    """Opens a link and makes a passkey; again if that failed."""

    who: str
    key: Authenticator = field(default_factory=Authenticator)
    _token: str = ""

    def perform(self, scene: Scene) -> None:
        """See Act."""
        life = scene.world.life
        for _ in range(ROUNDS):
            scene.settle()
            if any(each.person == IDS[self.who] for each in scene.world.all(Passkey)):
                return
            self._token = self._token or life.do(issue_link, IDS[self.who])
            challenge = life.do(find_challenge, self._token)
            if challenge is None:
                self._token = ""
                continue
            life.do(
                post_credential, self._token, make_credential(self.key, challenge, name="Phone")
            )
        raise Stuck(f"{self.who} cannot add a passkey")


@dataclass
class Countersign(Act):
    """Approves the passkey on the card in their direct messages, until it counts."""

    who: str
    whose: str

    def perform(self, scene: Scene) -> None:
        """See Act."""
        for _ in range(ROUNDS):
            card = scene.wait_until(
                lambda: self._find_card(scene) or self._is_over(scene), "the card"
            )
            if card is True:
                return
            person = scene.world.slack.person(self.who)
            person.click(person.dm_channel, card["ts"], "approve", seen=card)
            scene.settle()
        raise Stuck(f"{self.who} cannot approve the passkey")

    def _is_over(self, scene: Scene) -> bool:
        found: list[Passkey] = scene.world.all(Passkey)
        return any(each.person == IDS[self.whose] and each.counts_from for each in found)

    def _find_card(self, scene: Scene) -> dict[str, Any] | None:
        if self._is_over(scene):
            return None
        person = scene.world.slack.person(self.who)
        found = [m for m in person.everything(person.dm_channel) if "approve" in action_ids(m)]
        return found[-1] if found else None
