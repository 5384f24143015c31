"""`countersign chat`: ask the agent at the terminal, and decide there what waits.

Typed lines go to the bot, and events are drawn as they come. Nothing is decided here, and a line
without a "/" is only words for the agent.
"""

from __future__ import annotations

import argparse
import socket
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

from pydantic import ValidationError

from bot.cli import bot_connection, chat_painter
from bot.cli.chat_acts import CallNumbers, ChatCommands
from bot.terminal import terminal_messages
from countersign.cli.console import escape_control_characters, print_line
from storage.states import RUN_OPEN_STATUSES, RunStatus


@dataclass(slots=True)
class ChatEventFeed:
    """The connection that delivers the events of one chat; closed by `close`."""

    _bot: Path  # of the bot's socket
    run_id: str  # the newest request of the chat; "" before there is one
    is_bot_gone: bool = False  # the bot has closed the connection
    lines: chat_painter.LineReader | None = None
    _socket: socket.socket | None = None
    _reported: set[str] = field(default_factory=set)
    _calls: dict[str, terminal_messages.TerminalCall] = field(default_factory=dict)

    def follow_request(self, run: str) -> None:
        """Connect to the events of this request's chat, unless already connected.

        Raises BotUnreachableError.
        """
        self.run_id = run
        if self._socket is None:
            self._connect()

    def _connect(self) -> None:
        self._socket = bot_connection.open_chat_event_socket(self._bot, self.run_id)
        self.lines, self.is_bot_gone = chat_painter.LineReader(self._socket.fileno()), False

    def read_event(self) -> terminal_messages.ChatEvent | None:
        """Return the next event that is new; None if there is none yet.

        Sets `is_bot_gone` if the bot has hung up. Raises BotUnreachableError for an event that
        cannot be read.
        """
        while self.lines is not None and (line := self.lines.pop_line()) is not None:
            event = _parse_event(line)
            if self._is_new(event):
                return event
        if self.lines is not None and self.lines.is_over:
            self.close()
            self.is_bot_gone = True
        return None

    def try_reconnect(self) -> bool:
        """Try to connect again; return whether the bot is there."""
        try:
            self._connect()
        except bot_connection.BotUnreachableError:
            return False
        return True

    def close(self) -> None:
        """Close the connection."""
        if self._socket is not None:
            self._socket.close()
        self._socket, self.lines = None, None

    def _is_new(self, found: terminal_messages.ChatEvent) -> bool:
        """Return whether an event is new.

        After a new connection the bot sends all events from the beginning of the request.
        """
        if found.kind is terminal_messages.ChatEventKind.STATE:
            self.run_id = found.run
        if found.call is not None:
            name = found.call.id.rpartition(":")[0]
            before, self._calls[name] = self._calls.get(name), found.call
            return before != found.call
        if not found.id:
            return True
        is_new = found.id not in self._reported
        self._reported.add(found.id)
        return is_new


def _parse_event(line: bytes) -> terminal_messages.ChatEvent:
    """Parse an event of the bot; raises BotUnreachableError if it is malformed."""
    try:
        return terminal_messages.parse_chat_event(line)
    except ValidationError:
        raise bot_connection.BotUnreachableError(
            "The bot sent something that this command does not understand."
        ) from None


PROMPT_DELAY_SECONDS = 0.4  # so that the bot's answer to a typed line appears before the prompt
RECONNECT_INTERVAL_SECONDS = 1.0
RECONNECT_TIMEOUT_SECONDS = 60.0  # for piped input only: at a terminal, a person can end the chat


class Conversation:
    """One chat with the bot at the terminal; one per process."""

    def __init__(self, bot: Path, painter: chat_painter.Painter, run: str = "") -> None:
        """`bot`: the path of its socket; `run`: a request whose chat goes on, "" for a new chat."""
        self._bot = bot
        self._painter = painter
        self._feed = ChatEventFeed(bot, run)
        self._input = chat_painter.LineReader(sys.stdin.fileno())
        self._is_at_terminal = sys.stdin.isatty()
        self._editor = chat_painter.build_line_editor()
        self._numbers = CallNumbers()
        self._acts = ChatCommands(painter, self._numbers, self._send_command, self._ask_for_line)
        self._state: RunStatus | None = None
        self._is_greeted = False
        self._is_prompt_shown = False
        self._ended = False

    def run_chat(self) -> int:
        """Run the chat until nothing more can happen or be typed; returns the exit code.

        Raises BotUnreachableError.
        """
        if self._feed.run_id:
            self._feed.follow_request(self._feed.run_id)
            self._is_greeted = True
        elif self._is_at_terminal:
            self._painter.draw_program_sentence(chat_painter.GREETING_TEXT)
        try:
            while not self._ended:
                self._handle_next_input()
        finally:
            self._feed.close()
        return 0

    @property
    def _expects_events(self) -> bool:
        """Whether more events will come without anything being typed."""
        if self._feed.lines is None:
            return False
        return self._state is None or self._state in RUN_OPEN_STATUSES - {RunStatus.WAITING}

    def _handle_next_input(self) -> None:
        news = self._feed.lines
        if news and news.has_line:
            self._handle_bot_event()
            return
        # the next line of piped input waits until the request is done or waits for people
        waits = self._is_at_terminal or not self._expects_events
        if not self._expects_events and not self._is_prompt_shown and waits:
            if news:
                chat_painter.wait_for_lines([news], PROMPT_DELAY_SECONDS)
                if news.has_line or news.is_over:
                    self._handle_bot_event()
                    return
            if self._editor and not self._has_typed_ahead():
                self._read_edited_line(news)
                return
            self._painter.draw_prompt(chat_painter.PROMPT)
            self._is_prompt_shown = True
        if not self._expects_events and self._input.is_over and not self._input.has_line:
            self._ended = True
            return
        sides = [news] if news else []
        if waits and (self._input.has_line or not self._input.is_over):
            sides.append(self._input)
        chat_painter.wait_for_lines(sides)
        if news and self._handle_bot_event():
            return
        if waits and (line := self._input.pop_line()) is not None:
            self._is_prompt_shown = False
            self._handle_typed_line(chat_painter.clean_typed_text(line))

    def _has_typed_ahead(self) -> bool:
        """Return whether a line, or the end of input, came before the prompt was drawn."""
        if not self._input.is_over:
            chat_painter.wait_for_lines([self._input], 0)
        return self._input.has_line or self._input.is_over

    def _read_edited_line(self, news: chat_painter.LineReader | None) -> None:
        """Read a line with the line editor and handle it, unless an event comes first."""
        assert self._editor is not None
        self._painter.freeze_partial_answer()
        try:
            line = self._editor.read_line(
                chat_painter.PROMPT,
                self._painter.prompt_escape_sequence,
                news=news.source if news else None,
                add_to_history=True,
            )
        except EOFError:
            self._painter.draw_program_sentence("")
            self._ended = True
            return
        if line is not None:
            self._handle_typed_line(chat_painter.clean_typed_text(line.encode("utf-8", "replace")))
        elif news:
            chat_painter.wait_for_lines([news])
            self._handle_bot_event()

    def _handle_bot_event(self) -> bool:
        """Draw the next event, or wait for a bot that has stopped; return whether it did either."""
        if (found := self._feed.read_event()) is not None:
            self._draw_event(found)
        elif self._feed.is_bot_gone:
            self._wait_for_bot()
        else:
            return False
        return True

    def _wait_for_bot(self) -> None:
        """Say that the bot has stopped, and return once it is back or the person has quit."""
        self._start_new_line()
        self._painter.draw_program_sentence(
            chat_painter.BOT_STOPPED_NOTICE
            if self._is_at_terminal
            else chat_painter.BOT_NOT_BACK_NOTICE
        )
        since = monotonic()
        while not self._feed.try_reconnect():
            if not self._is_at_terminal:
                if monotonic() - since > RECONNECT_TIMEOUT_SECONDS:
                    again = f"`countersign chat --go-on {self._feed.run_id}` continues it"
                    raise bot_connection.BotUnreachableError(
                        f"The bot has not come back. Once it runs again, {again}."
                    )
                chat_painter.wait_for_lines([], RECONNECT_INTERVAL_SECONDS)
                continue
            chat_painter.wait_for_lines([self._input], RECONNECT_INTERVAL_SECONDS)
            line = self._input.pop_line()
            if self._input.is_over or (
                line is not None
                and chat_painter.clean_typed_text(line) in chat_painter.QUIT_COMMANDS
            ):
                self._ended = True
                return
            if line is not None:
                self._painter.draw_program_sentence(chat_painter.BOT_NOT_BACK_NOTICE)
        self._painter.draw_program_sentence(chat_painter.BOT_BACK_NOTICE)

    def _draw_event(self, found: terminal_messages.ChatEvent) -> None:
        """Draw one event; a prompt that was drawn before is drawn again later."""
        painter = self._painter
        number = self._numbers.assign_number(found.call) if found.call else 0
        if found.call and not chat_painter.should_draw_call(found.call):
            return
        if found.kind is not terminal_messages.ChatEventKind.STATE:
            self._start_new_line()
        match found:
            case terminal_messages.ChatEvent(terminal_messages.ChatEventKind.WORDS, text=text):
                painter.draw_partial_answer(text)
            case terminal_messages.ChatEvent(terminal_messages.ChatEventKind.VOID):
                painter.discard_partial_answer()
            case terminal_messages.ChatEvent(terminal_messages.ChatEventKind.STEP, text=text):
                painter.draw_step(text)
            case terminal_messages.ChatEvent(terminal_messages.ChatEventKind.ANSWER, text=text):
                painter.draw_answer(text)
            case terminal_messages.ChatEvent(terminal_messages.ChatEventKind.NOTICE, text=text):
                painter.draw_thread_line(text)
            case terminal_messages.ChatEvent(terminal_messages.ChatEventKind.CALL, call=call) if (
                call is not None
            ):
                painter.draw_call(number, call)
            case terminal_messages.ChatEvent(terminal_messages.ChatEventKind.STATE, text=text):
                self._state = RunStatus(text)
                if self._state is RunStatus.FAILED:
                    painter.draw_program_sentence(
                        "The agent could not continue; /retry tries again."
                    )

    def _start_new_line(self) -> None:
        """Start a new line if a prompt was drawn; the prompt is drawn again later."""
        if self._is_prompt_shown:
            self._is_prompt_shown = False
            self._painter.draw_program_sentence("")

    def _handle_typed_line(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        if word in chat_painter.QUIT_COMMANDS:
            self._ended = True
        elif word in ("/cancel", "/retry"):
            self._send_about_request(
                terminal_messages.CommandKind.CANCEL
                if word == "/cancel"
                else terminal_messages.CommandKind.RETRY
            )
        elif word.startswith("/"):
            self._acts.run_command(word, rest)
        elif line:
            self._send_words(line)

    def _send_words(self, words: str) -> None:
        answer = self._send_command(
            terminal_messages.OperatorCommand(
                terminal_messages.CommandKind.SAY, self._feed.run_id, words
            )
        )
        if answer.counted and answer.run:
            self._state = None
            self._feed.follow_request(answer.run)

    def _send_about_request(self, kind: terminal_messages.CommandKind) -> None:
        if self._feed.run_id:
            self._send_command(
                terminal_messages.OperatorCommand(kind, self._feed.run_id), aloud=True
            )
        else:
            self._painter.draw_program_sentence("There is no request yet.")

    def _ask_for_line(self, question: str) -> str | None:
        """Ask the person for a line; None at the end of input."""
        if self._editor and not self._has_typed_ahead():
            self._painter.freeze_partial_answer()
            typed = None
            with suppress(EOFError):
                typed = self._editor.read_line(
                    escape_control_characters(question), self._painter.prompt_escape_sequence
                )
            line = None if typed is None else typed.encode("utf-8", "replace")
        else:
            self._painter.draw_prompt(question)
            chat_painter.wait_for_lines([self._input])
            line = self._input.pop_line()
        return None if line is None else chat_painter.clean_typed_text(line)

    def _send_command(
        self, asking: terminal_messages.OperatorCommand, aloud: bool = False
    ) -> terminal_messages.CommandResult:
        """Send the bot a command; draw its answer if nothing was done, or always if `aloud`.

        Raises BotUnreachableError if the bot was never reached, or nobody sits at a terminal.
        """
        try:
            answer = bot_connection.send_command(self._bot, asking)
        except bot_connection.BotUnreachableError as error:
            if not self._is_greeted or not self._is_at_terminal:
                raise
            answer = terminal_messages.CommandResult(False, str(error))
        self._is_greeted = True
        if answer.sentence and (aloud or not answer.counted):
            self._painter.draw_program_sentence(answer.sentence)
        return answer


RICH_MISSING_NOTICE = "Plain lines: for frames and colours, pip install 'countersign-bot[chat]'."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments: how the chat is drawn, and which chat is continued."""
    parser.add_argument("--plain", action="store_true", help="plain lines, without frames")
    parser.add_argument("--go-on", default="", metavar="ID", help="continue this request of yours")


def run(arguments: argparse.Namespace) -> int:
    """Run the chat until Ctrl-D or /quit; returns the exit code."""
    bot, painter = bot_connection.get_bot_socket_path(), build_painter(plain=arguments.plain)
    return Conversation(bot, painter, arguments.go_on).run_chat()


def build_painter(*, plain: bool) -> chat_painter.Painter:
    """Return the painter for a chat: plain lines without a terminal or without Rich."""
    if plain or not sys.stdout.isatty():
        return chat_painter.Painter()
    try:
        # here, since Rich may be missing: only the extra `chat` brings it
        from bot.cli.chat_rich_painter import RichPainter
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("rich"):
            raise
        print_line(RICH_MISSING_NOTICE)
        return chat_painter.Painter()
    return RichPainter()
