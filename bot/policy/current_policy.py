"""The policy in force, which a reload of its file replaces while the bot works."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # whoever holds a policy need not read policy files
    from bot.policy.condition_values import Needs
    from bot.policy.evaluation import Policy


@dataclass(slots=True)
class CurrentPolicy:
    """Holds the policy in force. Read `policy` where it is used, and keep no copy of it."""

    policy: Policy
    _digested: tuple[Policy, str] | None = field(default=None, repr=False, compare=False)
    _needed: dict[tuple[str, str, str], tuple[Policy, Needs]] = field(
        default_factory=dict, repr=False, compare=False
    )

    @property
    def digest(self) -> str:
        """The digest of the policy in force, worked out once for each."""
        policy, found = self.policy, self._digested
        if found is None or found[0] is not policy:
            found = self._digested = (policy, policy.digest)
        return found[1]

    def needs(self, tool: str, effect: str, risk: str) -> Needs:
        """What the policy in force has to know of such calls, worked out once for each kind."""
        policy, kind = self.policy, (tool, effect, risk)
        found = self._needed.get(kind)
        if found is None or found[0] is not policy:
            found = self._needed[kind] = (policy, policy.needs(*kind))
        return found[1]
