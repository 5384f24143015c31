"""What requests without the agent are made with, put together for the threads that need it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bot.approvals.forms.entries import Entries
from bot.approvals.forms.offers import Offers
from bot.approvals.forms.places import StartingPlaces
from bot.approvals.terms.facts import Sources
from bot.identity import Identity
from bot.policy.authority import Authority
from bot.tools import Registry
from bot.tools.preview import Previews


@dataclass(frozen=True, slots=True)
class FormParts:
    """The parts from which the others are made; `wake` has the loop look again."""

    sources: Sources
    authority: Authority
    tools: Registry
    identity: Identity
    previews: Previews
    wake: Callable[[], None]

    def offers(self) -> Offers:
        """Return what says what people may ask for."""
        return Offers(self.sources, self.authority, self.tools)

    def entries(self) -> Entries:
        """Return what reads filled-in forms."""
        team, previews = self.identity.team, self.previews
        return Entries(
            self.sources, self.authority, self.offers(), team, previews=previews, wake=self.wake
        )

    def places(self) -> StartingPlaces:
        """Return what says where requests begin."""
        return StartingPlaces(self.sources.directory, self.sources.policy, self.identity.user)
