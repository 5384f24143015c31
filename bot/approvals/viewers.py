"""Who has a waiting call open in a dialog now: its card says so, and others need not read it too.

A comfort, in memory only: known to this process alone. An opening costs two updates of one card.
"""

from __future__ import annotations

import threading
from datetime import datetime, timedelta

LOOKING = timedelta(minutes=2)  # for which the card says that somebody looks
SOON = timedelta(seconds=1)  # until it is updated: by then a decision has redrawn it anyway
ViewedCard = tuple[str, str]  # the channel that a card is in, and its message's key


class CardViewers:
    """Who looks at which card in a dialog, and when cards are to be drawn for that; any thread."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        # by person, as they have one dialog at a time, with when they opened it
        self._views: dict[str, tuple[ViewedCard, datetime]] = {}
        self._due: dict[ViewedCard, datetime] = {}  # when a card is drawn, unless it is before

    def start_viewing(self, person: str, card: ViewedCard, now: datetime) -> None:
        """Note that a person has opened a dialog about a call on this card."""
        with self._lock:
            self._views[person] = card, now
            self._due[card] = min(now + SOON, self._due.get(card, now + SOON))

    def end_viewing(self, person: str, now: datetime) -> bool:
        """Note that a person has decided or closed their dialog; return whether they looked."""
        with self._lock:
            card, _ = self._views.pop(person, (None, now))
            if card:
                self._due[card] = now + SOON
            return card is not None

    def list_viewers(self, card: ViewedCard, now: datetime) -> dict[str, datetime]:
        """Return who looks at the card, and since when; it is drawn with them now."""
        with self._lock:
            of_card = {who: since for who, (each, since) in self._views.items() if each == card}
            found = {who: since for who, since in of_card.items() if now < since + LOOKING}
            if found:
                self._due[card] = min(found.values()) + LOOKING
            else:
                self.forget_card(card)
            return found

    def forget_card(self, card: ViewedCard) -> None:
        """Forget who looks at a card, as it names nobody any more."""
        with self._lock:
            self._views = {who: each for who, each in self._views.items() if each[0] != card}
            self._due.pop(card, None)

    def list_due_channels(self, now: datetime) -> set[str]:
        """Return the channels that have cards to be drawn now."""
        with self._lock:
            return {channel for (channel, _), at in self._due.items() if at <= now}

    def pop_due_keys(self, channel: str, now: datetime) -> list[str]:
        """Return the keys of the channel's cards that are to be drawn now, once."""
        with self._lock:
            due = [card for card, at in self._due.items() if card[0] == channel and at <= now]
            for card in due:
                self._due.pop(card)
            return [key for _, key in due]

    def find_next_due_time(self, now: datetime) -> datetime | None:
        """Return when the next card is to be drawn; None if none is to be later than `now`."""
        with self._lock:
            return min((at for at in self._due.values() if at > now), default=None)
