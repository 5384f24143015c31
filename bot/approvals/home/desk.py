"""What shows people what is theirs to see, put together for one workspace."""

from __future__ import annotations

from dataclasses import dataclass

from bot.approvals.delegation.delegations import Delegations
from bot.approvals.home.home_view import HomeViews
from bot.approvals.overview.decidable import Decidable
from bot.approvals.overview.life import Lives
from bot.approvals.overview.overview import Overview
from bot.approvals.overview.rows import Lister
from bot.approvals.permissions import Permissions
from bot.approvals.terms.grants import GrantList
from bot.identity import Identity
from bot.policy.authority import Authority
from bot.policy.current import CurrentPolicy


@dataclass(frozen=True, slots=True)
class Desk:
    """Makes the lists, the Home tab's views, and what has one person decide for another."""

    identity: Identity
    authority: Authority
    permissions: Permissions
    policy: CurrentPolicy
    grants: GrantList

    def delegations(self) -> Delegations:
        """Return what has one person decide for another."""
        return Delegations(self.grants.store, self.grants.clock, self.authority)

    def overview(self) -> Overview:
        """Return what lists what is on record, to those who may read it."""
        store, clock, lister = self.grants.store, self.grants.clock, self._lister()
        lives = Lives(store, clock, self.authority, self.permissions, self.policy, lister)
        return Overview(store, clock, self.identity.team, self._decidable(), lister, lives)

    def homes(self) -> HomeViews:
        """Return what makes the views of the Home tab."""
        return HomeViews(
            bot=self.identity.user,
            authority=self.authority,
            decidable=self._decidable(),
            lister=self._lister(),
            grants=self.grants,
            delegations=self.delegations(),
        )

    def _decidable(self) -> Decidable:
        return Decidable(self.grants.store, self.permissions)

    def _lister(self) -> Lister:
        return Lister(self.grants.tools, self.identity.workspace)
