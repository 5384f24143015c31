"""One chat at the terminal: typed lines go to the bot, and events are drawn as they come.

It decides nothing, and a typed line without a "/" is only words for the agent.
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

# The bot's events of one chat, each taken once, even if the bot was away in between.


class Feed:
    """The connection that delivers the events of one chat; closed by `close`."""

    def __init__(self, bot: Path) -> None:
        """`bot`: the path of the bot's socket. Nothing is connected yet."""
        self.run = ""  # the newest request of the chat
        self.is_away = False  # the bot has hung up
        self.lines: Lines | None = None
        self._bot = bot
        self._line: socket.socket | None = None
        self._told: set[str] = set()
        self._calls: dict[str, CallShown] = {}

    def follow(self, run: str) -> None:
        """Connect to the events of this request's chat, unless already connected.

        Raises NoBotError.
        """
        self.run = run
        if self._line is None:
            self._open()

    def _open(self) -> None:
        self._line = follow(self._bot, self.run)
        self.lines, self.is_away = Lines(self._line.fileno()), False

    def take(self) -> Happening | None:
        """Return the next event that is new; None if there is none yet.

        Sets `is_away` if the bot has hung up. Raises NoBotError for an event that cannot be read.
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
        """Try to connect again; return whether the bot is there."""
        try:
            self._open()
        except NoBotError:
            return False
        return True

    def close(self) -> None:
        """Close the connection."""
        if self._line is not None:
            self._line.close()
        self._line, self.lines = None, None

    def _is_new(self, found: Happening) -> bool:
        """Return whether an event is new.

        After a new connection the bot sends all events from the beginning of the request.
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
    """Parse an event of the bot; raises NoBotError if it is malformed."""
    try:
        return read_happening(line)
    except GarbledError:
        raise NoBotError("The bot said something that is not understood.") from None


PAUSE = 0.4  # seconds for what comes of what was typed, before there is a prompt again
AGAIN = 1.0  # seconds between two looks whether the bot is there again
PATIENCE = 60.0  # seconds for which a pipe waits for it


class Conversation:
    """One chat with the bot at the terminal; one per process."""

    def __init__(self, bot: Path, painter: Painter, run: str = "") -> None:
        """`bot`: the path of its socket; `run`: a request whose chat goes on, "" for a new chat."""
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
        """Run the chat until nothing more can happen or be typed; returns the exit code.

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
        """Whether more events will come without anything being typed."""
        if self._feed.lines is None:
            return False
        return self._state is None or self._state in RUN_OPEN - {RunStatus.WAITING}

    def _step(self) -> None:
        """Handle one event, or one typed line."""
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
        """Return whether a line, or the end of input, came before the prompt was drawn."""
        if not self._typed.is_over:
            wait([self._typed], 0)
        return self._typed.has_line or self._typed.is_over

    def _edit_line(self, news: Lines | None) -> None:
        """Read a line with the line editor and handle it, unless an event comes first."""
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
        """Draw the next event, or wait for a bot that has stopped; return whether it did either."""
        if (found := self._feed.take()) is not None:
            self._draw(found)
        elif self._feed.is_away:
            self._await_the_bot()
        else:
            return False
        return True

    def _await_the_bot(self) -> None:
        """Say that the bot has stopped, and return once it is back or the person has quit."""
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
        """Draw one event; a prompt that was drawn before is drawn again later."""
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
        """Start a new line if a prompt was drawn; the prompt is drawn again later."""
        if self._prompted:
            self._prompted = False
            self._painter.say("")

    def _take(self, line: str) -> None:
        """Handle a typed line."""
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
        """Send words to the agent, and follow the request that they belong to."""
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
        """Ask the person for a line; None at the end of input."""
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
        """Send a message to the bot; draw an answer without effect, and any other if `aloud`.

        Raises NoBotError if the bot was never reached, or nobody sits at a terminal.
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
