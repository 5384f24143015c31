"""A run's thread: held messages become items of the transcript, with what was said before them."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable

from slack_sdk import WebClient

from bot.agent import prompt
from bot.clock import Clock
from bot.messages.incoming import message_text
from bot.messages.text import visible
from bot.policy.directory import Directory, LookupFailedError
from storage import inbox, runs
from storage.models import Delivery, Run
from storage.store import Store

log = logging.getLogger("countersign.thread")
MOST_MESSAGES = 30
MOST_CHARACTERS = 8_000
LONGEST = 20_000  # characters of one message that the model is given


class _ChangedError(Exception):
    """A message does not say any more what it said when it was read."""


class SlackThread:
    """Reads a run's thread for the worker."""

    def __init__(
        self, store: Store, clock: Clock, directory: Directory, bot_user: str, client: WebClient
    ) -> None:
        """`client` only reads."""
        self._store = store
        self._clock = clock
        self._directory = directory
        self._bot_user = bot_user
        self._client = client

    def take_in(self, run: Run) -> None:
        """Turn the run's held messages into items, in order.

        Raises moves.FencedError when the run was taken away.
        """
        while waiting := self._held(run):
            try:
                self._append(run, waiting, self._items(run, waiting))
                return
            except _ChangedError:  # by its author, while the rest was looked up
                continue

    def _held(self, run: Run) -> list[Delivery]:
        with self._store.read() as tx:
            return inbox.held(tx, run.id)

    def _items(self, run: Run, waiting: list[Delivery]) -> list[dict[str, object]]:
        """Return what the model is told of these messages, and of what was said before them."""
        events = [json.loads(each.body)["event"] for each in waiting]
        items: list[dict[str, object]] = []
        ours = {event["ts"] for event in events}
        if overheard := self._overheard(run, waiting[0], ours, events[0]["ts"]):
            items.append(overheard)
        for each, event in zip(waiting, events, strict=True):
            text = message_text(event, self._bot_user)
            if len(text) > LONGEST:
                text = f"{text[:LONGEST]}\n[… {len(text) - LONGEST} more characters were left out]"
            name = self._name(each.user)
            items.append(prompt.request(each.user, name, text, each.received_at))
        return items

    def _append(self, run: Run, waiting: list[Delivery], items: list[dict[str, object]]) -> None:
        """Store them; raises _ChangedError where one of the messages has been changed meanwhile."""
        with self._store.write(durable=False) as tx:  # lost, it would be taken in again
            held = runs.held_by(tx, run.id, run.fence)
            for item in items:
                runs.append(tx, held, item, at=self._clock.now())
            if not all(inbox.heard(tx, each) for each in waiting):
                raise _ChangedError

    def _name(self, user: str) -> str:
        """Return what the person is called, on one line and with nothing hidden in it."""
        try:
            person = self._directory.person(user)
        except LookupFailedError:
            person = None
        return visible(" ".join(person.name.split())) if person else user

    def _overheard(
        self, run: Run, first: Delivery, ours: set[str], until: str
    ) -> dict[str, object] | None:
        """Return the messages before `until` that the transcript does not have; None for none.

        They are those of the thread in which the `first` was written, also where the request goes
        on elsewhere.
        """
        thread = first.thread_ts
        if not thread or thread >= until:
            return None  # the request is the thread's first message, or was typed elsewhere before
        with self._store.read() as tx:
            since = inbox.newest_taken(tx, run, first)
        try:
            found = self._client.conversations_replies(
                channel=first.channel, ts=thread, oldest=since or "0", latest=until, limit=200
            )["messages"]
        except Exception as error:  # noqa: BLE001 - the request goes on without context
            log.warning("run %s: the thread could not be read: %s", run.id, error)
            return prompt.overheard(
                [("Countersign", "(earlier messages could not be read)")], left_out=0
            )
        lines = [
            (self._name(message.get("user", "")), message_text(message, ""))
            for message in found
            if since < message["ts"] < until
            and message["ts"] not in ours
            and not message.get("bot_id")
        ]
        return _bounded(lines, prompt.overheard) if lines else None


def _bounded(
    lines: list[tuple[str, str]], make: Callable[..., dict[str, object]]
) -> dict[str, object]:
    """Keep the newest messages that fit, oldest first, and say how many were left out."""
    kept: list[tuple[str, str]] = []
    room = MOST_CHARACTERS
    for name, text in reversed(lines[-MOST_MESSAGES:]):
        if room <= 0:
            break
        kept.append((name, text if len(text) <= room else text[:room] + " […]"))
        room -= len(text)
    cut = sum(text.endswith(" […]") for _, text in kept)
    return make(list(reversed(kept)), left_out=len(lines) - len(kept) + cut)
