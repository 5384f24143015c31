"""The words of a sub-agent's turn: no person reads them, and its last go to who asked it."""

from __future__ import annotations

from bot.messages.answers import NOTHING_BELOW, Below
from storage.transaction import Transaction


class Unheard:
    """An Answer that nobody hears while it comes."""

    def write(self, text: str) -> None:
        """Say nothing; what was taken away meanwhile is found out when the turn is stored."""

    def restart(self) -> None:
        """Have nothing to take back."""

    def finish(
        self, tx: Transaction, text: str, *, last: bool, record: Below = NOTHING_BELOW
    ) -> None:
        """Post nothing."""

    def abandon(self) -> None:
        """Have nothing to close."""
