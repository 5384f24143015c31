"""What people do in a story, patiently: who gets an error tries again, who was heard does not.

Between two acts everything comes to rest. Where the bot is struck meanwhile, another one is there,
and people go on from what Slack shows them.
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
ROUNDS = 8  # of rest and a minute, until what is waited for is there
MINUTE = 61
OUT_OF_DATE = "This was out of date"
PATIENCE = 3.0  # seconds that somebody waits for a dialog
TOO_LATE = ("errors", "updated")  # of a dialog that shows why it changed nothing


class Scene:
    """A world with people in it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.thread = ""  # of the request
        self._is_dead = False  # the bot died, and nobody has what it had yet
        self._looked_again: Counter[str] = Counter()  # how often people did

    def play(self, acts: list[Act]) -> None:
        """Do all of it, then let everything come to its end."""
        for act in [*acts, Over()]:
            while True:
                try:
                    if self._is_dead:  # people wait until another has what it had
                        self.world.life.outlast()
                        self._is_dead = False
                    act.attempt(self)
                    break
                except Died:
                    self.world.died()
                    self._is_dead = True

    def rest(self) -> None:
        """Until nothing is on its way to the bot, and nothing under way in it."""
        for _ in range(20):
            self.world.life.settle()
            if not self._arriving():
                return
            self.world.slack.wait(lambda: not self._arriving() or not self._connected())
            if not self._connected():
                self.world.slack.wait(self._connected)
        raise Stuck("deliveries are on their way for ever")

    def _arriving(self) -> bool:
        """Whether Slack is about to send anything, or waits for what comes of it."""
        now = self.world.clock.now().timestamp()
        pending = (each for each in self.world.slack.deliveries if each.outcome == "pending")
        return any(each.next_at is None or each.next_at <= now for each in pending)

    def _connected(self) -> bool:
        if not self.world.life.process.is_alive():
            raise Died
        return self.world.over is Transport.HTTP or self.world.slack.connections > 0

    def until(self, look: Callable[[], Any], what: str) -> Any:
        """Rest until `look` finds something, a minute after the other."""
        for _ in range(ROUNDS):
            self.rest()
            if found := look():
                return found
            if not self.tend():
                self.world.life.outlast()
                self.world.advance(MINUTE)
        raise Stuck(f"nobody sees {what}")

    def seen_by(self, who: str) -> list[dict[str, Any]]:
        """The bot's messages that this person sees in the channel, newest last."""
        seen = self.world.slack.person(who).everything(SUPPORT)
        return [message for message in seen if message.get("bot_id")]

    def says(self, who: str, text: str) -> int:
        """How many of them have this text."""
        return sum(text in words(message) for message in self.seen_by(who))

    def having(self, who: str, action: str) -> dict[str, Any] | None:
        """The newest message with such a button."""
        found = [m for m in self.seen_by(who) if action in action_ids(m)]
        return found[-1] if found else None

    def press(self, who: str, message: dict[str, Any], action: str, nth: int = 0) -> Any:
        """Click; return the delivery."""
        value = value_of(message, action, nth)
        person = self.world.slack.person(who)
        return person.click(SUPPORT, message["ts"], action, value=value, seen=message)

    def tend(self) -> bool:
        """Whether somebody has done what is only to be done after a failure.

        An approver says truthfully what became of a call of which nobody knows. Whose click came to
        nothing, as the card was not yet what it says now, looks at it again.
        """
        if asking := self.having("cleo", "resolve_done"):
            call = value_of(asking, "resolve_done").partition(":")[0]
            done = any(line["call"] == call for line in self.world.ledger.lines())
            self.press("cleo", asking, "resolve_done" if done else "resolve_not_done")
            return True
        for who in ("ana", "cleo"):
            told, card = self.says(who, OUT_OF_DATE), self.having(who, "approve")
            if card and told > self._looked_again[who]:
                self._looked_again[who] = told
                self.press(who, card, "approve")
                return True
        if failed := self.having("ben", "retry"):
            self.press("ben", failed, "retry")
            return True
        return False


class Act:
    """Something that a person does; tried again after the bot has died."""

    def attempt(self, scene: Scene) -> None:
        """Do it, or what is left to do of it; raises Died and Stuck."""
        raise NotImplementedError


@dataclass
class Say(Act):
    """Writes a message, once: Slack delivers it until somebody has it."""

    text: str
    who: str = "ben"
    beside: bool = False  # in the request's thread
    _said: bool = False

    def attempt(self, scene: Scene) -> None:
        """As Act says."""
        if not self._said:
            thread = scene.thread if self.beside else None
            ts = scene.world.slack.person(self.who).say(SUPPORT, self.text, thread)
            scene.thread = scene.thread or ts
            self._said = True
        scene.rest()


@dataclass
class Press(Act):
    """Clicks a button once it is there; again, if Slack shows an error and the button is left."""

    who: str
    action: str
    nth: int = 0
    unless: str = ""  # the thread says this: it went another way, as people had to decide
    _sent: Any = None

    def attempt(self, scene: Scene) -> None:
        """As Act says."""
        while True:
            scene.rest()
            if self._sent is not None and (self._sent.ok or not self._button(scene)):
                return  # heard, though Slack may have shown an error
            found = scene.until(partial(self._look, scene), f"{self.action} for {self.who}")
            if found is True:
                return
            self._sent = scene.press(self.who, found, self.action, self.nth)

    def _look(self, scene: Scene) -> Any:
        over = bool(self.unless) and scene.says(self.who, self.unless) > 0
        return self._button(scene) or over

    def _button(self, scene: Scene) -> dict[str, Any] | None:
        return scene.having(self.who, self.action)


@dataclass
class Fill(Act):
    """Opens a dialog by a button or a command, and submits it; again after an error."""

    who: str
    opener: str  # a button's action id, or a command line
    make: Callable[[dict[str, Any]], dict[str, Any]]  # the states to type in, from the view
    _failed: bool = False  # Slack has shown an error: it was heard, or it was not
    _heard: bool = False

    def attempt(self, scene: Scene) -> None:
        """As Act says."""
        person = scene.world.slack.person(self.who)
        for _ in range(ROUNDS):
            scene.rest()
            if self._heard:
                return
            if not person.view():
                if self._failed and not self.opener.startswith("/") and not self._opener(scene):
                    return  # it was heard
                self._open(scene)
                continue
            outcome = self._submit(person)
            self._heard = outcome == "closed" or (outcome in TOO_LATE and self._failed)
            self._failed = True
        raise Stuck(f"{self.who} cannot submit what {self.opener} opens")

    def _submit(self, person: Any) -> str:
        outcome: str = person.submit(self.make(person.view()))["outcome"]
        if outcome in TOO_LATE and self._failed:
            person.close_view(everything=True)  # it was heard: the dialog says that it is decided
        return outcome

    def _opener(self, scene: Scene) -> dict[str, Any] | None:
        for message in reversed(scene.seen_by(self.who)):
            if self.opener in action_ids(message) or f'"{self.opener}:' in words(message):
                return message
        return None

    def _open(self, scene: Scene) -> None:
        person, life = scene.world.slack.person(self.who), scene.world.life
        if self.opener.startswith("/"):
            person.command(SUPPORT, self.opener)
        else:
            message = scene.until(lambda: self._opener(scene), f"{self.opener} for {self.who}")
            if self.opener in action_ids(message):
                person.click(SUPPORT, message["ts"], self.opener, seen=message)
            else:
                _choose(person, message, self.opener)
        with suppress(TimeoutError):  # a dialog comes by itself, a moment later
            scene.world.slack.wait(lambda: person.view() or not life.process.is_alive(), PATIENCE)
        scene.rest()


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
    unless: str = ""  # or this

    def attempt(self, scene: Scene) -> None:
        """As Act says."""

        def said() -> bool:
            over = bool(self.unless) and scene.says(self.who, self.unless) > 0
            return over or scene.says(self.who, self.text) >= self.times

        scene.until(said, f"“{self.text}”")


class Over(Act):
    """Waits until everything has come to its end, and ends the bot."""

    def attempt(self, scene: Scene) -> None:
        """As Act says."""
        scene.until(scene.world.is_over, "the end of it")
        scene.world.stop()
