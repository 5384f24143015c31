"""One chat: what is typed goes to the bot, what happens is drawn, each as it comes.

It decides nothing, and nothing that is typed without a "/" is anything but words for the agent.
"""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from time import monotonic

from bot.cli.bot_connection import NoBotError, follow, send
from bot.cli.chat_acts import Numbers, TypedActs
from bot.cli.chat_editor import editor
from bot.cli.chat_painter import (
    AWAY,
    BACK,
    GREETING,
    NOT_BACK,
    PROMPT,
    QUIT,
    Lines,
    Painter,
    as_typed,
    is_told,
    wait,
)
from bot.terminal.terminal_messages import (
    Answering,
    Asking,
    CallShown,
    GarbledError,
    Happening,
    Happens,
    Wish,
    read_happening,
)
from countersign.cli.console import harmless
from storage.states import RUN_OPEN, RunStatus

# What the bot tells of one chat, each thing once, also where the bot was away in between.


class Feed:
    """The line at which one chat is followed; closed by `close`."""

    def __init__(self, bot: Path) -> None:
        """`bot`: where it listens. Nothing is followed yet."""
        self.run = ""  # the newest request of the chat
        self.is_away = False  # the bot has hung up
        self.lines: Lines | None = None
        self._bot = bot
        self._line: socket.socket | None = None
        self._told: set[str] = set()
        self._calls: dict[str, CallShown] = {}

    def follow(self, run: str) -> None:
        """Hear what happens in the chat of this request, unless that is heard already.

        Raises NoBotError.
        """
        self.run = run
        if self._line is None:
            self._open()

    def _open(self) -> None:
        self._line = follow(self._bot, self.run)
        self.lines, self.is_away = Lines(self._line.fileno()), False

    def take(self) -> Happening | None:
        """Return the next thing that was not told before; None where there is none yet.

        Notices that the bot has hung up. Raises NoBotError for what is not understood.
        """
        while self.lines is not None and (line := self.lines.take()) is not None:
            found = _understood(line)
            if self._is_new(found):
                return found
        if self.lines is not None and self.lines.is_over:
            self.close()
            self.is_away = True
        return None

    def again(self) -> bool:
        """Return whether the bot is there again, and is heard from now on."""
        try:
            self._open()
        except NoBotError:
            return False
        return True

    def close(self) -> None:
        """Hear nothing any more."""
        if self._line is not None:
            self._line.close()
        self._line, self.lines = None, None

    def _is_new(self, found: Happening) -> bool:
        """Return whether this was not told before: whoever follows anew is told all from the
        beginning of the request.
        """
        if found.kind is Happens.STATE:
            self.run = found.run
        if found.call is not None:
            name = found.call.id.rpartition(":")[0]
            before, self._calls[name] = self._calls.get(name), found.call
            return before != found.call
        if not found.id:
            return True
        is_new = found.id not in self._told
        self._told.add(found.id)
        return is_new


def _understood(line: bytes) -> Happening:
    """Return what the bot says that happened; raises NoBotError where it says something else."""
    try:
        return read_happening(line)
    except GarbledError:
        raise NoBotError("The bot said something that is not understood.") from None


PAUSE = 0.4  # seconds for what comes of what was typed, before there is a prompt again
AGAIN = 1.0  # seconds between two looks whether the bot is there again
PATIENCE = 60.0  # seconds for which a pipe waits for it


class Conversation:
    """Holds one chat with the bot; one per process."""

    def __init__(self, bot: Path, painter: Painter, run: str = "") -> None:
        """`bot`: where it listens; `run`: a request of the chat that goes on, "" for a new one."""
        self._bot = bot
        self._painter = painter
        self._feed = Feed(bot)
        self._feed.run = run
        self._typed = Lines(sys.stdin.fileno())
        self._is_at_terminal = sys.stdin.isatty()
        self._editor = editor()
        self._numbers = Numbers()
        self._acts = TypedActs(painter, self._numbers, self._ask, self._line)
        self._state: RunStatus | None = None
        self._met = False
        self._prompted = False
        self._ended = False

    def hold(self) -> int:
        """Talk until there is nothing more to hear or to type; returns the exit code.

        Raises NoBotError.
        """
        if self._feed.run:
            self._follow(self._feed.run)
        elif self._is_at_terminal:
            self._painter.say(GREETING)
        try:
            while not self._ended:
                self._step()
        finally:
            self._feed.close()
        return 0

    @property
    def _works(self) -> bool:
        """Whether something is still to come that nobody has to type for."""
        if self._feed.lines is None:
            return False
        return self._state is None or self._state in RUN_OPEN - {RunStatus.WAITING}

    def _step(self) -> None:
        """Take one thing that happened, or one line that was typed."""
        news = self._feed.lines
        if news and news.has_line:
            self._happened()
            return
        waits = self._is_at_terminal or not self._works  # a pipe's next line waits for its turn
        if not self._works and not self._prompted and waits:
            if news:
                wait([news], PAUSE)
                if news.has_line or news.is_over:
                    self._happened()
                    return
            if self._editor and not self._typed_ahead():
                self._edit_line(news)
                return
            self._painter.prompt(PROMPT)
            self._prompted = True
        if not self._works and self._typed.is_over and not self._typed.has_line:
            self._ended = True
            return
        sides = [news] if news else []
        if waits and (self._typed.has_line or not self._typed.is_over):
            sides.append(self._typed)
        wait(sides)
        if news and self._happened():
            return
        if waits and (line := self._typed.take()) is not None:
            self._prompted = False
            self._take(as_typed(line))

    def _typed_ahead(self) -> bool:
        """Return whether a line, or the end, was typed while there was no prompt."""
        if not self._typed.is_over:
            wait([self._typed], 0)
        return self._typed.has_line or self._typed.is_over

    def _edit_line(self, news: Lines | None) -> None:
        """Take a line that is typed with the keys of an editor, unless something comes first."""
        assert self._editor is not None
        self._painter.still()
        try:
            line = self._editor.ask(
                PROMPT, self._painter.prompt_style, news=news.source if news else None, kept=True
            )
        except EOFError:
            self._painter.say("")
            self._ended = True
            return
        if line is not None:
            self._take(as_typed(line.encode("utf-8", "replace")))
        elif news:
            wait([news])
            self._happened()

    def _happened(self) -> bool:
        """Draw the next thing that happened; return whether there was one."""
        if (found := self._feed.take()) is not None:
            self._draw(found)
        elif self._feed.is_away:
            self._await_the_bot()
        else:
            return False
        return True

    def _await_the_bot(self) -> None:
        """Say that the bot has stopped, and go on once it is there again."""
        self._begin_line()
        self._painter.say(AWAY if self._is_at_terminal else NOT_BACK)
        since = monotonic()
        while not self._feed.again():
            if not self._is_at_terminal:
                if monotonic() - since > PATIENCE:
                    again = f"`countersign chat --go-on {self._feed.run}` goes on with it"
                    raise NoBotError(f"The bot has not come back. Once it is there, {again}.")
                wait([], AGAIN)
                continue
            wait([self._typed], AGAIN)
            line = self._typed.take()
            if self._typed.is_over or (line is not None and as_typed(line) in QUIT):
                self._ended = True
                return
            if line is not None:
                self._painter.say(NOT_BACK)
        self._painter.say(BACK)

    def _draw(self, found: Happening) -> None:
        """Draw one thing; above the prompt, which is asked for again."""
        painter, number = self._painter, self._numbers.of(found.call) if found.call else 0
        if found.call and not is_told(found.call):
            return
        if found.kind is not Happens.STATE:
            self._begin_line()
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
            case Happening(Happens.STATE, text=text):
                self._state = RunStatus(text)
                if self._state is RunStatus.FAILED:
                    painter.say("It could not go on; /retry tries again.")

    def _begin_line(self) -> None:
        """Leave the prompt that stands there; it is asked for again."""
        if self._prompted:
            self._prompted = False
            self._painter.say("")

    def _take(self, line: str) -> None:
        """Do what was typed."""
        word, _, rest = line.partition(" ")
        if word in QUIT:
            self._ended = True
        elif word in ("/cancel", "/retry"):
            self._about_request(Wish.CANCEL if word == "/cancel" else Wish.RETRY)
        elif word.startswith("/"):
            self._acts.take(word, rest)
        elif line:
            self._say(line)

    def _say(self, words: str) -> None:
        """Have the agent hear it, and follow what comes of it."""
        answer = self._ask(Asking(Wish.SAY, self._feed.run, words))
        if answer.counted and answer.run:
            self._state = None
            self._follow(answer.run)

    def _follow(self, run: str) -> None:
        self._feed.follow(run)
        self._met = True

    def _about_request(self, wish: Wish) -> None:
        if self._feed.run:
            self._ask(Asking(wish, self._feed.run), aloud=True)
        else:
            self._painter.say("There is no request yet.")

    def _line(self, question: str) -> str | None:
        """Ask for a line; None at the end of what is typed."""
        if self._editor and not self._typed_ahead():
            self._painter.still()
            try:
                typed = self._editor.ask(harmless(question), self._painter.prompt_style)
            except EOFError:
                return None
            return None if typed is None else as_typed(typed.encode("utf-8", "replace"))
        self._painter.prompt(question)
        wait([self._typed])
        line = self._typed.take()
        return None if line is None else as_typed(line)

    def _ask(self, asking: Asking, aloud: bool = False) -> Answering:
        """Say it to the bot; what went wrong is drawn, and what came of it where that is wanted.

        Raises NoBotError where the bot was never there, or nobody sits at a terminal.
        """
        try:
            answer = send(self._bot, asking)
        except NoBotError as error:
            if not self._met or not self._is_at_terminal:
                raise
            answer = Answering(False, str(error))
        self._met = True
        if answer.sentence and (aloud or not answer.counted):
            self._painter.say(answer.sentence)
        return answer
