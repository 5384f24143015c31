"""Requests begin that were made with a form: a run without a model, and the message it begins with.

Called by the loop. The run waits for that message to stand in Slack, which is its thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bot.approvals.forms.entries import Declined, FilledForm
from bot.approvals.modes.narrowing import strictest
from bot.approvals.replies import Replies
from bot.messages.actions.codec import Click, Subject
from bot.messages.actions.targets import FormTarget
from bot.messages.forms.layout import FieldErrors
from bot.messages.requests.root import root_message
from bot.messages.sentences import requests
from storage import channel_modes, inbox, moves, outbox
from storage.models import Delivery, Run
from storage.states import RunSource

if TYPE_CHECKING:
    from bot.approvals.forms.parts import FormParts


class Beginnings:
    """One per process; called by `bot.approvals.clicks` only."""

    def __init__(self, parts: FormParts) -> None:
        """`parts` read what was filled in, and say where it begins."""
        self._store = parts.sources.store
        self._clock = parts.sources.clock
        self._entries = parts.entries()
        self._places = parts.places()
        self._replies = Replies(self._store)

    def begin(self, delivery: Delivery, about: Click | Subject, payload: dict[str, Any]) -> None:
        """Begin the request of a submitted form, or tell its requester why not. Looks people up."""
        target = about.target
        assert isinstance(target, FormTarget)
        state = payload["view"]["state"]["values"]
        match self._entries.read(target, delivery.user, state):
            case Declined(sentence=sentence):
                self._replies.refuse(delivery, sentence)
            case FieldErrors(errors=errors):  # something has changed since the form was checked
                why = next(iter(errors.values()), "")
                self._replies.refuse(
                    delivery, requests.not_begun(why) if why else requests.form_changed()
                )
            case FilledForm() as entry:
                self._start(delivery, target, entry)

    def _start(self, delivery: Delivery, target: FormTarget, entry: FilledForm) -> None:
        setting = target.setting
        place = self._places.of(setting.channel, delivery.user)
        asked_in = "" if place else setting.asked_in or setting.channel
        now = self._clock.now()
        run = Run(
            team=delivery.team,
            channel=place or delivery.user,
            thread_ts="",
            requester=delivery.user,
            source=RunSource.FORM,
            asked_in=asked_in,
            created_at=now,
            updated_at=now,
        )
        with self._store.write() as tx:
            if not inbox.is_new(tx, delivery):
                return
            moves.started(tx, run, at=now)
            inbox.hold(tx, delivery, run.id, asked_in=asked_in)
            mode = strictest(channel_modes.of_run(tx, run))
            text, blocks = root_message(delivery.user, entry.effect, setting.link, mode)
            outbox.root(tx, run, text, blocks)
