"""What an explanation is made from."""

from __future__ import annotations

from dataclasses import dataclass

from bot.approvals.call_checks import Allowance
from bot.approvals.facts import Sources
from bot.policy.authority import Authority


@dataclass(frozen=True, slots=True)
class Grounds:
    """The policy with its facts, who may decide, and the limits."""

    sources: Sources
    authority: Authority
    limits: Allowance
