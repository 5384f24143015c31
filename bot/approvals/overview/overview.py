"""What `/approvals` lists for a person. Looks people up: for threads that may wait."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from bot.approvals.overview.decidable import Decidable
from bot.approvals.overview.life import Lives
from bot.approvals.overview.rows import Lister
from bot.approvals.questions.addressed import waiting_for
from bot.clock import Clock
from bot.messages.overview import draw
from bot.messages.overview.view import Answered
from storage import request_lists, runs
from storage.store import Store


@dataclass(frozen=True, slots=True)
class Overview:
    """Lists what is on record for the people of one workspace; holds no state of its own."""

    store: Store
    clock: Clock
    team: str
    decidable: Decidable
    lister: Lister
    lives: Lives

    def waiting(self, person: str) -> Answered:
        """Return what this person may decide now, the first deadline first."""
        now = self.clock.now()
        say = self.decidable.of(person, now)
        questions = len(waiting_for(self.store, self.lives.authority, person, now))
        with self.store.read() as tx:
            found = [self.lister.call(tx, *each, person) for each in say.calls[: draw.MOST]]
        more = len(say.calls) - len(found)
        return draw.waiting(
            found, more=more, unsure=say.unsure, unread=say.unread, questions=questions
        )

    def requests(self, person: str) -> Answered:
        """Return this person's own requests, the newest first."""
        with self.store.read() as tx:
            late = request_lists.recent_requests(tx, self.team, person, draw.MOST + 1)
            now = self.clock.now()
            found = [self.lister.run(tx, run, now) for run in late[: draw.MOST]]
        return draw.requests(found, more=len(late) > draw.MOST)

    def history(self, person: str, days: int) -> Answered:
        """Return what this person decided in so many days, and what was on their requests."""
        since = self.clock.now() - timedelta(days=days)
        with self.store.read() as tx:
            late = request_lists.decided(tx, self.team, person, since, draw.MOST + 1)
            pairs = [(call, runs.get(tx, call.run_id)) for call in late[: draw.MOST]]
            found = [
                self.lister.call(tx, call, run, person) for call, run in pairs if run is not None
            ]
        return draw.history(found, days, more=len(late) > draw.MOST)

    def show(self, person: str, reference: str) -> Answered | None:
        """Return a request's whole life, by its link or an id of it or of one of its calls.

        None where there is none that this person may read. Raises LookupFailedError.
        """
        life = self.lives.of(person, reference)
        return draw.life(life) if life else None
