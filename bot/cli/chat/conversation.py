"""One chat: what is typed goes to the bot, what happens is drawn, each as it comes.

It decides nothing, and nothing that is typed without a "/" is anything but words for the agent.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from bot.cli.chat.filling_in import fill_in
from bot.cli.chat.lines import Lines, as_typed, wait
from bot.cli.chat.painter import Painter
from bot.cli.chat.words import HELP, LIKE_THIS, PROMPT, SHORT, is_told
from bot.cli.terminal.asking import NoBotError, connected, heard
from bot.surfaces.private_socket import GarbledError
from bot.terminal.shown import CallShown
from bot.terminal.wire import (
    Answering,
    Asking,
    Happening,
    Happens,
    Wish,
    read_answering,
    read_happening,
    write_line,
)
from storage.states import RUN_OPEN, RunStatus

PAUSE = 0.4  # seconds for what comes of what was typed, before there is a prompt again


class Conversation:
    """Holds one chat with the bot; one per process."""

    def __init__(self, bot: Path, painter: Painter, run: str = "") -> None:
        """`bot`: where it listens; `run`: a request of the chat that goes on, "" for a new one."""
        self._bot = bot
        self._painter = painter
        self._run = run
        self._typed = Lines(sys.stdin.fileno())
        self._following: socket.socket | None = None
        self._news: Lines | None = None
        self._state: RunStatus | None = None
        self._numbers: list[str] = []  # ids of calls without their revisions, as they came
        self._shown: dict[str, CallShown] = {}
        self._prompted = False
        self._ended = False

    def hold(self) -> int:
        """Talk until there is nothing more to hear or to type; returns the exit code.

        Raises NoBotError.
        """
        if self._run:
            self._follow(self._run)
        elif sys.stdin.isatty():
            self._painter.say("Ask for something, or /help. Slack keeps what is said here.")
        try:
            while not self._ended:
                self._step()
        finally:
            if self._following is not None:
                self._following.close()
        return 0

    @property
    def _works(self) -> bool:
        """Whether something is still to come that nobody has to type for."""
        if self._news is None:
            return False
        return self._state is None or self._state in RUN_OPEN - {RunStatus.WAITING}

    def _step(self) -> None:
        """Take one thing that happened, or one line that was typed."""
        if self._news and self._news.has_line:
            self._happened(self._news)
            return
        waits = sys.stdin.isatty() or not self._works  # a pipe's next line waits for its turn
        sides = [self._news] if self._news else []
        if waits and (self._typed.has_line or not self._typed.is_over):
            sides.append(self._typed)
        if not self._works and not self._prompted and waits:
            if self._news:
                wait([self._news], PAUSE)
                if self._news.has_line:
                    return
            self._painter.prompt(PROMPT)
            self._prompted = True
        if not self._works and self._typed.is_over and not self._typed.has_line:
            self._ended = True
            return
        wait(sides)
        if self._news and self._happened(self._news):
            return
        if waits and (line := self._typed.take()) is not None:
            self._prompted = False
            self._take(as_typed(line))

    def _happened(self, news: Lines) -> bool:
        """Draw the next thing that happened; return whether there was one."""
        line = news.take()
        if line is None:
            if news.is_over:
                again = f"`countersign chat --go-on {self._run}` goes on with it"
                raise NoBotError(f"The bot has ended the chat; once it is there again, {again}.")
            return False
        self._draw(_understood(line))
        return True

    def _draw(self, found: Happening) -> None:
        """Draw one thing; above the prompt, which is asked for again."""
        painter, number = self._painter, self._number(found.call) if found.call else 0
        if found.call and not is_told(found.call):
            return
        if self._prompted and found.kind is not Happens.STATE:
            self._prompted = False
            painter.say("")
        match found:
            case Happening(Happens.WORDS, text=text):
                painter.words(text)
            case Happening(Happens.VOID):
                painter.void()
            case Happening(Happens.STEP, text=text):
                painter.step(text)
            case Happening(Happens.ANSWER, text=text):
                painter.answer(text)
            case Happening(Happens.NOTICE, text=text):
                painter.notice(text)
            case Happening(Happens.CALL, call=call) if call is not None:
                painter.call(number, call)
            case Happening(Happens.STATE, run=run, text=text):
                self._run, self._state = run, RunStatus(text)
                if self._state is RunStatus.FAILED:
                    painter.say("It could not go on; /retry tries again.")

    def _number(self, call: CallShown) -> int:
        """Remember a call as it is shown, and return what it is called here."""
        name = call.id.rpartition(":")[0]
        if name not in self._numbers:
            self._numbers.append(name)
        self._shown[name] = call
        return self._numbers.index(name) + 1

    def _take(self, line: str) -> None:
        """Do what was typed."""
        word, _, rest = line.partition(" ")
        if not line:
            return
        if not line.startswith("/"):
            self._say(line)
        elif act := self._acts().get(SHORT.get(word, word)):
            act(rest.strip())
        else:
            self._painter.say(f"There is no {word}; /help tells what there is.")

    def _acts(self) -> Mapping[str, Callable[[str], None]]:
        return {
            "/help": lambda _: self._painter.say(HELP),
            "/quit": lambda _: self._quit(),
            "/pending": lambda _: self._pending(),
            "/approve": lambda rest: self._about("/approve", Wish.APPROVE, rest),
            "/reject": lambda rest: self._about("/reject", Wish.REJECT, rest, needs="why not"),
            "/answer": self._answer,
            "/decline": lambda rest: self._about("/decline", Wish.DECLINE, rest),
            "/done": lambda rest: self._about("/done", Wish.DONE, rest),
            "/not-done": lambda rest: self._about("/not-done", Wish.NOT_DONE, rest),
            "/again": lambda rest: self._about("/again", Wish.AGAIN, rest),
            "/all": self._all,
            "/edit": self._edit,
            "/show": self._show,
            "/cancel": lambda _: self._about_request(Wish.CANCEL),
            "/retry": lambda _: self._about_request(Wish.RETRY),
        }

    def _quit(self) -> None:
        self._ended = True

    def _say(self, words: str) -> None:
        """Have the agent hear it, and follow what comes of it."""
        answer = self._ask(Asking(Wish.SAY, self._run, words))
        if answer.counted and answer.run:
            self._state = None
            self._follow(answer.run)

    def _follow(self, run: str) -> None:
        """Hear what happens in the chat of this request, unless that is heard already."""
        self._run = run
        if self._following is not None:
            return
        with connected(self._bot) as line:
            line.sendall(write_line(Asking(Wish.FOLLOW, run)))
            line.settimeout(None)
            self._following = line.dup()
        self._news = Lines(self._following.fileno())

    def _pending(self) -> None:
        found = self._ask(Asking(Wish.PENDING)).calls
        for each in found:
            self._painter.call(self._number(each), each)
        if not found:
            self._painter.say("Nothing waits for you.")

    def _show(self, rest: str) -> None:
        if (call := self._named(rest, "/show 1")) is None:
            return
        for each in self._ask(Asking(Wish.LOOK, call.id)).calls:
            self._painter.call(self._number(each), each)

    def _about(self, name: str, wish: Wish, rest: str, needs: str = "") -> None:
        """Do this to the call of that number, as it was shown; words come behind it."""
        number, _, words = rest.partition(" ")
        if (call := self._named(number, f"{name} 1")) is None:
            return
        if needs and not words.strip():
            self._painter.say(f"Say {needs}: {name} {number} …")
            return
        self._ask(Asking(wish, call.id, words.strip()), aloud=True)

    def _all(self, rest: str) -> None:
        if (call := self._named(rest, "/all 1")) is None:
            return
        if not call.plan:
            self._painter.say("Nothing else of its plan waits.")
            return
        self._ask(Asking(Wish.APPROVE_PLAN, call.plan), aloud=True)

    def _edit(self, rest: str) -> None:
        if (call := self._named(rest, "/edit 1")) is None:
            return
        values = fill_in(call.fields, self._line, self._painter)
        if values:
            self._ask(Asking(Wish.EDIT, call.id, values=values), aloud=True)
        elif values is not None:
            self._painter.say("Nothing is changed.")

    def _answer(self, rest: str) -> None:
        number, _, words = rest.partition(" ")
        if (call := self._named(number, "/answer 1 words")) is None:
            return
        if words.strip() and len(call.fields) == 1:
            self._ask(Asking(Wish.ANSWER, call.id, words.strip()), aloud=True)
        elif values := fill_in(call.fields, self._line, self._painter):
            self._ask(Asking(Wish.ANSWER, call.id, values=values), aloud=True)

    def _about_request(self, wish: Wish) -> None:
        if self._run:
            self._ask(Asking(wish, self._run), aloud=True)
        else:
            self._painter.say("There is no request yet.")

    def _named(self, number: str, example: str) -> CallShown | None:
        """Return the call of that number; without a number, the only one that waits for them."""
        if number.isdecimal() and 0 < int(number) <= len(self._numbers):
            return self._shown[self._numbers[int(number) - 1]]
        open_ = [each for each in self._shown.values() if each.may]
        if not number and len(open_) == 1:
            return open_[0]
        self._painter.say(LIKE_THIS.format(example=example))
        return None

    def _line(self, question: str) -> str | None:
        """Ask for a line; None at the end of what is typed."""
        self._painter.prompt(question)
        wait([self._typed])
        line = self._typed.take()
        return None if line is None else as_typed(line)

    def _ask(self, asking: Asking, *, aloud: bool = False) -> Answering:
        """Say it to the bot; what went wrong is drawn, and what came of it where that is wanted."""
        answer = heard(self._bot, asking)
        if answer.sentence and (aloud or not answer.counted):
            self._painter.say(answer.sentence)
        return answer


def _understood(line: bytes) -> Happening:
    """Return what the bot says that happened; raises NoBotError where it says something else."""
    try:
        return read_happening(line)
    except GarbledError:
        pass
    try:  # that it tells nothing, and why
        raise NoBotError(read_answering(line).sentence)
    except GarbledError:
        raise NoBotError("The bot said something that is not understood.") from None
