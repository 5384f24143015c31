"""Who has a waiting call open in a dialog now: its card says so, and others need not read it too.

A comfort, in memory only: lost at a restart, and known to this process alone. Each opening costs
two updates of one card.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from datetime import datetime, timedelta

LOOKING = timedelta(minutes=2)  # for which the card says that somebody looks
BETWEEN = timedelta(seconds=2)  # two updates for this alone, whatever the cards


@dataclass(frozen=True, slots=True)
class ViewedCard:
    """A card, by its message's key, and the channel that it is in."""

    key: str
    channel: str


class CardViewers:
    """Who looks at which card in a dialog, and what the cards say of it; any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # by person, as they have one dialog at a time, with when they opened it
        self._views: dict[str, tuple[ViewedCard, datetime]] = {}
        self._drawn: dict[str, tuple[str, ...]] = {}  # by a card's key: whom it names
        self._channels: dict[str, str] = {}  # by a card's key, while it names anybody or should
        self._next_update: datetime | None = None

    def start_viewing(self, person: str, card: ViewedCard, now: datetime) -> None:
        """Note that a person has opened a dialog about a call on this card."""
        with self._lock:
            self._views[person] = card, now
            self._channels[card.key] = card.channel

    def end_viewing(self, person: str, now: datetime) -> bool:
        """Note that a person has decided or closed their dialog; return whether they looked."""
        with self._lock:
            if self._views.pop(person, None) is None:
                return False
            # a decision redraws the card anyway: then it needs no update for this alone
            self._next_update = max(now + BETWEEN, self._next_update or now)
            return True

    def list_viewers(self, key: str, now: datetime) -> tuple[tuple[str, ...], datetime]:
        """Return who looks at the card with that key, and since when; it is drawn with them now."""
        with self._lock:
            found = self._find_viewers(key, now)
            self._drawn[key] = tuple(found)
            if not found:
                self._forget_card(key)
            return tuple(found), min(found.values(), default=now)

    def pop_outdated_card(self, now: datetime) -> ViewedCard | None:
        """Return a card that is to be updated now, as others look at it than it names; or None."""
        with self._lock:
            if self._next_update is not None and now < self._next_update:
                return None
            for card in self._list_outdated_cards(now):
                self._next_update = now + BETWEEN
                return card
            return None

    def find_next_update_time(self, now: datetime) -> datetime | None:
        """Return when a card may next have to be updated; None if none names anybody."""
        with self._lock:
            if self._list_outdated_cards(now):
                return self._next_update or now
            ends = (since + LOOKING for _, since in self._views.values())
            return min((end for end in ends if end > now), default=None)

    def forget_card(self, key: str) -> None:
        """Forget a card that could not be updated, so that this is not tried again."""
        with self._lock:
            self._forget_card(key)

    def _list_outdated_cards(self, now: datetime) -> list[ViewedCard]:
        return [
            ViewedCard(key, channel)
            for key, channel in self._channels.items()
            if tuple(self._find_viewers(key, now)) != self._drawn.get(key, ())
        ]

    def _find_viewers(self, key: str, now: datetime) -> dict[str, datetime]:
        return {
            person: since
            for person, (card, since) in self._views.items()
            if card.key == key and now < since + LOOKING
        }

    def _forget_card(self, key: str) -> None:
        self._views = {who: view for who, view in self._views.items() if view[0].key != key}
        self._drawn.pop(key, None)
        self._channels.pop(key, None)
