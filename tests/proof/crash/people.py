"""What people do in a story: they try again after an error, and stop once they were heard.

Between two acts everything comes to rest. If the bot is struck meanwhile, another one starts, and
people go on from what Slack shows them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from bot.config.connection_settings import Transport
from tests.proof.crash.life import Died, Stuck
from tests.proof.crash.world import World
from tests.stories.messages import action_ids, value_of, words

SUPPORT = "C0SUPPORT"
ROUNDS = 8  # rests, a minute apart, in which something waited for must appear
MINUTE = 61
OUT_OF_DATE = "This was out of date"
PATIENCE = 3.0  # seconds that a person waits for a dialog
TOO_LATE = ("errors", "updated")  # outcomes of a dialog that shows why it changed nothing


class Scene:
    """A world with people in it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.thread = ""  # the request's thread
        self._is_dead = False  # the bot died, and no other has taken over yet
        self._looked_again: Counter[str] = Counter()  # times by person

    def play(self, acts: list[Act]) -> None:
        """Perform all acts, then let everything end."""
        for act in [*acts, Over()]:
            while True:
                try:
                    if self._is_dead:  # people wait until another one has taken over
                        self.world.life.outlast()
                        self._is_dead = False
                    act.perform(self)
                    break
                except Died:
                    self.world.record_death()
                    self._is_dead = True

    def settle(self) -> None:
        """Wait until nothing is on its way to the bot, and nothing in progress in it."""
        for _ in range(20):
            self.world.life.settle()
            if not self._has_arrivals():
                return
            self.world.slack.wait(lambda: not self._has_arrivals() or not self._is_connected())
            if not self._is_connected():
                self.world.slack.wait(self._is_connected)
        raise Stuck("deliveries are on their way for ever")

    def _has_arrivals(self) -> bool:
        """Whether Slack is about to send anything, or waits for an acknowledgement."""
        now = self.world.clock.now().timestamp()
        pending = (each for each in self.world.slack.deliveries if each.outcome == "pending")
        return any(each.next_at is None or each.next_at <= now for each in pending)

    def _is_connected(self) -> bool:
        if not self.world.life.process.is_alive():
            raise Died
        return self.world.over is Transport.HTTP or self.world.slack.connections > 0

    def wait_until(self, look: Callable[[], Any], what: str) -> Any:
        """Settle until `look` finds something, advancing a minute each time."""
        for _ in range(ROUNDS):
            self.settle()
            if found := look():
                return found
            if not self.recover():
                self.world.life.outlast()
                self.world.advance(MINUTE)
        raise Stuck(f"nobody sees {what}")

    def list_messages_seen_by(self, who: str) -> list[dict[str, Any]]:
        """The bot's messages that this person sees in the channel, newest last."""
        seen = self.world.slack.person(who).everything(SUPPORT)
        return [message for message in seen if message.get("bot_id")]

    def count_messages(self, who: str, text: str) -> int:
        """How many of them have this text."""
        return sum(text in words(message) for message in self.list_messages_seen_by(who))

    def find_message_with(self, who: str, action: str) -> dict[str, Any] | None:
        """The newest message with such a button."""
        found = [m for m in self.list_messages_seen_by(who) if action in action_ids(m)]
        return found[-1] if found else None

    def click(self, who: str, message: dict[str, Any], action: str, nth: int = 0) -> Any:
        """Click; return the delivery."""
        value = value_of(message, action, nth)
        person = self.world.slack.person(who)
        return person.click(SUPPORT, message["ts"], action, value=value, seen=message)

    def recover(self) -> bool:
        """Do what is only to be done after a failure; returns whether anybody did.

        An approver records truthfully how an unknown call ended. A person whose click came
        to nothing, since the card was out of date, clicks again.
        """
        if asking := self.find_message_with("cleo", "resolve_done"):
            call = value_of(asking, "resolve_done").partition(":")[0]
            done = any(line["call"] == call for line in self.world.ledger.lines())
            self.click("cleo", asking, "resolve_done" if done else "resolve_not_done")
            return True
        for who in ("ana", "cleo"):
            told, card = (
                self.count_messages(who, OUT_OF_DATE),
                self.find_message_with(who, "approve"),
            )
            if card and told > self._looked_again[who]:
                self._looked_again[who] = told
                self.click(who, card, "approve")
                return True
        if failed := self.find_message_with("ben", "retry"):
            self.click("ben", failed, "retry")
            return True
        return False


class Act:
    """Something that a person does; repeated after the bot has died."""

    def perform(self, scene: Scene) -> None:
        """Do it, or what is left to do of it; raises Died and Stuck."""
        raise NotImplementedError


@dataclass
class Say(Act):
    """Writes a message, once: Slack delivers it until it is acknowledged."""

    text: str
    who: str = "ben"
    beside: bool = False  # in the request's thread
    _said: bool = False

    def perform(self, scene: Scene) -> None:
        """See Act."""
        if not self._said:
            thread = scene.thread if self.beside else None
            ts = scene.world.slack.person(self.who).say(SUPPORT, self.text, thread)
            scene.thread = scene.thread or ts
            self._said = True
        scene.settle()


@dataclass
class Press(Act):
    """Clicks a button once it is there; again if Slack shows an error and the button is left."""

    who: str
    action: str
    nth: int = 0
    unless: str = ""  # done if the thread says this: the story took another course
    _sent: Any = None

    def perform(self, scene: Scene) -> None:
        """See Act."""
        while True:
            scene.settle()
            if self._sent is not None and (self._sent.ok or not self._find_button(scene)):
                return  # heard, though Slack may have shown an error
            found = scene.wait_until(partial(self._look, scene), f"{self.action} for {self.who}")
            if found is True:
                return
            self._sent = scene.click(self.who, found, self.action, self.nth)

    def _look(self, scene: Scene) -> Any:
        over = bool(self.unless) and scene.count_messages(self.who, self.unless) > 0
        return self._find_button(scene) or over

    def _find_button(self, scene: Scene) -> dict[str, Any] | None:
        return scene.find_message_with(self.who, self.action)


@dataclass
class Fill(Act):
    """Opens a dialog by a button or a command, and submits it; again after an error."""

    who: str
    opener: str  # a button's action id, or a command line
    make: Callable[[dict[str, Any]], dict[str, Any]]  # the states to type in, from the view
    _failed: bool = False  # Slack has shown an error: the dialog may or may not have been heard
    _heard: bool = False

    def perform(self, scene: Scene) -> None:
        """See Act."""
        person = scene.world.slack.person(self.who)
        for _ in range(ROUNDS):
            scene.settle()
            if self._heard:
                return
            if not person.view():
                if (
                    self._failed
                    and not self.opener.startswith("/")
                    and not self._find_opener(scene)
                ):
                    return  # heard
                self._open(scene)
                continue
            outcome = self._submit(person)
            self._heard = outcome == "closed" or (outcome in TOO_LATE and self._failed)
            self._failed = True
        raise Stuck(f"{self.who} cannot submit what {self.opener} opens")

    def _submit(self, person: Any) -> str:
        outcome: str = person.submit(self.make(person.view()))["outcome"]
        if outcome in TOO_LATE and self._failed:
            person.close_view(everything=True)  # heard: the dialog says that it is decided
        return outcome

    def _find_opener(self, scene: Scene) -> dict[str, Any] | None:
        for message in reversed(scene.list_messages_seen_by(self.who)):
            if self.opener in action_ids(message) or f'"{self.opener}:' in words(message):
                return message
        return None

    def _open(self, scene: Scene) -> None:
        person, life = scene.world.slack.person(self.who), scene.world.life
        if self.opener.startswith("/"):
            person.command(SUPPORT, self.opener)
        else:
            message = scene.wait_until(
                lambda: self._find_opener(scene), f"{self.opener} for {self.who}"
            )
            if self.opener in action_ids(message):
                person.click(SUPPORT, message["ts"], self.opener, seen=message)
            else:
                _choose(person, message, self.opener)
        with suppress(TimeoutError):  # a dialog may come a moment later
            scene.world.slack.wait(lambda: person.view() or not life.process.is_alive(), PATIENCE)
        scene.settle()


def _choose(person: Any, message: dict[str, Any], choice: str) -> None:
    """Choose from a card's menu."""
    for block in message["blocks"]:
        for element in [*block.get("elements", []), block.get("accessory") or {}]:
            if element.get("action_id") == "more":
                for option in element["options"]:
                    if option["value"].startswith(f"{choice}:"):
                        place = (SUPPORT, message["ts"], "more", block["block_id"])
                        person.click(*place, selected=option, seen=message)
                        return


@dataclass
class Hear(Act):
    """Waits until the thread says something."""

    text: str
    who: str = "ben"
    times: int = 1
    unless: str = ""  # this text is enough, too

    def perform(self, scene: Scene) -> None:
        """See Act."""

        def said() -> bool:
            over = bool(self.unless) and scene.count_messages(self.who, self.unless) > 0
            return over or scene.count_messages(self.who, self.text) >= self.times

        scene.wait_until(said, f"“{self.text}”")


class Over(Act):
    """Waits until everything has ended, and ends the bot."""

    def perform(self, scene: Scene) -> None:
        """See Act."""
        scene.wait_until(scene.world.is_over, "the end of it")
        scene.world.stop()
