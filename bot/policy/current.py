"""The policy in force, which a reload of its file replaces while the bot works."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # whoever holds a policy need not read policy files
    from bot.policy.evaluate import Policy


@dataclass(slots=True)
class CurrentPolicy:
    """Holds the policy in force. Read `policy` where it is used, and keep no copy of it."""

    policy: Policy
