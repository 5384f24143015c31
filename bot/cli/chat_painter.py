"""The chat's texts and typed lines, and a painter of plain lines that needs no terminal or Rich."""

from __future__ import annotations

import fcntl
import os
import re
import select
import shutil
import signal
import sys
import unicodedata
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import ModuleType

from bot.cards.call_pieces import IRREVERSIBLE_TEXT
from bot.terminal.terminal_messages import AllowedAction, TerminalCall
from countersign.cli.console import escape_control_characters, print_line
from storage.states import CallStatus

# An event from the bot interrupts the line being typed; the next prompt has its text again. Lines
# are remembered while the chat runs, and never written to disk.

ANSI_RESET = "\x1b[0m"


class _LineInterruptedError(Exception):
    """Raised when the bot sends something while a line is typed."""


class LineEditor:
    """The editor of typed lines, made of `readline`; one per process, on its main thread."""

    def __init__(self, readline: ModuleType) -> None:
        self._readline = readline
        self._typed = ""  # the text typed when an event interrupted the line
        self._asks = False
        signal.signal(signal.SIGIO, self._handle_sigio)

    def read_line(
        self, prompt: str, style: str = "", *, news: int | None = None, add_to_history: bool = False
    ) -> str | None:
        """Return the line that is typed; None if something arrived at the descriptor `news` first.

        `style`: the escape sequence before the prompt; `add_to_history`: the arrow keys
        bring the line back later. Raises EOFError at the end of input.
        """
        self._readline.set_auto_history(add_to_history)
        before = self._readline.get_current_history_length()
        # \x01 and \x02 enclose what takes no room on the screen
        styled_prompt = f"\x01{style}\x02{prompt}\x01{ANSI_RESET}\x02" if style else prompt
        try:
            with self._interrupt_on_input(news):
                if news is not None and select.select([news], [], [], 0)[0]:
                    return None
                line = self._read_prefilled_line(
                    styled_prompt, self._typed if add_to_history else ""
                )
        except _LineInterruptedError:
            now = self._readline.get_current_history_length()
            if now == before:
                self._erase_prompt(prompt)
                return None
            line = self._readline.get_history_item(now) or ""  # the line was finished before
        if add_to_history:
            self._typed = ""
        return line

    def _read_prefilled_line(self, asked: str, typed: str) -> str:
        self._readline.set_startup_hook(lambda: self._readline.insert_text(typed))
        try:
            self._asks = True
            return input(asked)
        finally:
            self._asks = False
            self._readline.set_startup_hook(None)

    @contextmanager
    def _interrupt_on_input(self, news: int | None) -> Iterator[None]:
        """Have input at the descriptor `news` interrupt the line that is typed in this block."""
        if news is None:
            yield
            return
        flags = fcntl.fcntl(news, fcntl.F_GETFL)
        fcntl.fcntl(news, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(news, fcntl.F_SETFL, flags | os.O_ASYNC)
        try:
            yield
        finally:
            fcntl.fcntl(news, fcntl.F_SETFL, flags)

    def _handle_sigio(self, *_: object) -> None:
        if self._asks:
            self._typed = self._readline.get_line_buffer()
            raise _LineInterruptedError

    def _erase_prompt(self, prompt: str) -> None:
        rows = len(prompt + self._typed) // max(1, shutil.get_terminal_size().columns)
        up = f"\x1b[{rows}A" if rows else ""
        sys.stdout.write(f"\r{up}\x1b[J")
        sys.stdout.flush()


def build_line_editor() -> LineEditor | None:
    """Return a line editor; None without a terminal, or if Python has no readline."""
    if not sys.stdin.isatty() or not sys.stdout.isatty():
        return None
    with suppress(ImportError):  # Python may have been built without it
        import readline

        return LineEditor(readline)
    return None


PROMPT = "you> "
HELP_TEXT = """\
Type what you want: the agent reads it, and it is posted in Slack.
/pending           what is waiting for you, with numbers
/approve 1 [note]  approve 1 as it is shown
/edit 1            change it
/reject 1 why      reject it
/break-glass 1 why run it at once without approval, where the policy lets you
/all 1             approve all of the plan it is part of
/send-back 1 what  have the agent plan again, and say what to do differently
/answer 1 words    answer a question
/decline 1         say that you cannot answer it
/done 1            record that it happened, if its outcome is unknown
/not-done 1        record that it did not happen
/again 1           run it once more
/show 1            show 1 as it is now
/cancel            stop your request
/retry             continue a request that failed
/quit              end the chat, not the request
/remember          how to save an approval for the next time
/delegate          how to have somebody decide for you"""
GREETING_TEXT = "Ask for something, or type /help. What is said here is posted in Slack."
BOT_STOPPED_NOTICE = "The bot has stopped. The chat continues when it runs again; Ctrl-D ends it."
BOT_NOT_BACK_NOTICE = "The bot is not running yet."
BOT_BACK_NOTICE = "The bot is running again."
QUIT_COMMANDS = ("/quit", "/q")
YES_ANSWERS = ("yes", "y")
NOT_APPROVED_NOTICE = "It was not approved, and is still waiting."
ALWAYS_DRAWN_STATUSES = frozenset({CallStatus.PENDING, CallStatus.UNKNOWN})
NEVER_DRAWN_STATUSES = frozenset({CallStatus.APPROVED, CallStatus.RUNNING})  # the steps show these
NUMBER_MISSING_ERROR = "Say which one, by its number: {example}"
SLACK_HINT_BY_COMMAND = {
    "/remember": "In Slack: the card's menu (⋯) has “Details, approve with a note or remember it…”"
    " where the policy offers it. What is remembered is on your Home tab.",
    "/delegate": "In Slack: `/approvals delegate`, or Delegate… on your Home tab.",
}
COMMAND_BY_ALIAS = {"/a": "/approve", "/e": "/edit", "/r": "/reject", "/p": "/pending"}


def should_draw_call(call: TerminalCall) -> bool:
    """Return whether the chat draws this call, or other lines already tell enough of it.

    If people decide about a call, the thread's lines say how it ended, and steps say that it runs.
    """
    return call.status in ALWAYS_DRAWN_STATUSES or not (
        call.deciders or call.status in NEVER_DRAWN_STATUSES
    )


_ESCAPE_SEQUENCE_PATTERN = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|O[A-Z]|.)")


class LineReader:
    """Reader of whole lines from one file descriptor, as bytes without line ends."""

    def __init__(self, source: int) -> None:
        """Read from the descriptor `source`, which `select` has to support."""
        self.source = source
        self.is_over = False
        self._rest = b""
        self._ready: deque[bytes] = deque()

    def pop_line(self) -> bytes | None:
        """Return the next whole line; None if there is none yet."""
        return self._ready.popleft() if self._ready else None

    @property
    def has_line(self) -> bool:
        """Whether a whole line is there."""
        return bool(self._ready)

    def read_available(self) -> None:
        """Read what has arrived; block until something has."""
        try:
            part = os.read(self.source, 65_536)
        except ConnectionResetError:  # the bot was killed
            part = b""
        if not part:
            self.is_over = True
            if self._rest:  # a last line without a newline
                self._ready.append(self._rest)
                self._rest = b""
            return
        *whole, self._rest = (self._rest + part).split(b"\n")
        self._ready += whole


def clean_typed_text(line: bytes) -> str:
    """Return typed text, without escape sequences, control characters and outer blanks."""
    text = _ESCAPE_SEQUENCE_PATTERN.sub("", line.decode("utf-8", "replace"))
    kept = (each for each in text if each == "\t" or unicodedata.category(each) != "Cc")
    return "".join(kept).strip()


def wait_for_lines(sides: list[LineReader], seconds: float | None = None) -> None:
    """Wait until one of these readers has a line or has ended, or nothing comes for `seconds`."""
    while not any(each.has_line or each.is_over for each in sides):
        readable, _, _ = select.select([each.source for each in sides], [], [], seconds)
        if not readable:
            return
        for each in sides:
            if each.source in readable:
                each.read_available()


COMMAND_HINT_BY_ACTION = {
    AllowedAction.APPROVE: "/approve {n}",
    AllowedAction.EDIT: "/edit {n}",
    AllowedAction.REJECT: "/reject {n} why",
    AllowedAction.BREAK_GLASS: "/break-glass {n} why",
    AllowedAction.ANSWER: "/answer {n} words, /decline {n}",
    AllowedAction.RESOLVE: "/done {n}, /not-done {n}, /again {n}",
}
DECLINED_LABEL = "declined: they cannot say"
LABEL_BY_STATUS = {
    CallStatus.PENDING: "waiting",
    CallStatus.APPROVED: "approved",
    CallStatus.RUNNING: "runs",
    CallStatus.SUCCEEDED: "done",
    CallStatus.FAILED: "failed",
    CallStatus.UNKNOWN: "outcome unknown: started, never confirmed",
    CallStatus.REFUSED: "not allowed",
}


def describe_chat_call_status(call: TerminalCall) -> str:
    """Return the status of a call in words."""
    return DECLINED_LABEL if call.declined else LABEL_BY_STATUS.get(call.status, str(call.status))


def list_call_details(call: TerminalCall) -> Iterator[tuple[str, str]]:
    """Yield what people should know of a waiting call, as label and text."""
    for label, text, before in call.values:
        yield label, f"{before} → {text}" if before else text
    yield "Sub-agents", "\n".join(call.chain)
    yield "Preview", call.preview
    yield "Why", call.reason
    yield "Asked by", call.requester
    yield "To be answered by" if call.question else "Who decides", call.deciders
    yield "Approved by", call.approved_by
    yield "Until", call.deadline
    yield "Outcome", call.note
    if call.covered:
        yield "In Slack only", ", ".join(call.covered)


def format_call_commands(number: int, call: TerminalCall) -> str:
    """Return the commands that can be typed about a call; "" for none."""
    found = [COMMAND_HINT_BY_ACTION[each].format(n=number) for each in call.may]
    if call.plan and AllowedAction.APPROVE in call.may:
        found.append(f"/all {number}")
    return "   ".join(found)


class Painter:
    """Draws a chat as plain lines: for pipes, logs and screen readers.

    Text of others is passed as it came, and never drawn as markup.
    """

    def draw_program_sentence(self, sentence: str) -> None:
        """Print a sentence by the chat program itself."""
        print_line(escape_control_characters(sentence))

    def draw_step(self, doing: str) -> None:
        """Print what the agent is doing."""
        print_line(f"… {escape_control_characters(doing)}")

    def draw_partial_answer(self, text: str) -> None:
        """Draw nothing: in plain lines, an answer is printed once it is whole."""

    def discard_partial_answer(self) -> None:
        """Do nothing: in plain lines, no part of an answer was drawn that could be discarded."""

    def draw_answer(self, markdown: str) -> None:
        """Print the agent's answer, with its Markdown as it was written."""
        print_line(escape_control_characters(markdown))

    def draw_thread_line(self, line: str) -> None:
        """Print a notice from the request's thread."""
        print_line(escape_control_characters(line))

    def draw_call(self, number: int, call: TerminalCall) -> None:
        """Print the call's status, its details while it waits, and what can be typed about it.

        `number`: the call's number in this chat.
        """
        note = f" ({escape_control_characters(call.note)})" if call.note else ""
        print_line(
            f"[{number}] {escape_control_characters(call.effect)}: "
            f"{describe_chat_call_status(call)}{note}"
        )
        if call.status is CallStatus.PENDING:
            self._print_details(call)
        if commands := format_call_commands(number, call):
            print_line(f"    {commands}")

    def _print_details(self, call: TerminalCall) -> None:
        if call.is_final:
            print_line(f"    {call.final or IRREVERSIBLE_TEXT}")
        for label, text in list_call_details(call):
            for line in escape_control_characters(text).splitlines():
                print_line(f"    {escape_control_characters(label)}: {line}")

    def draw_prompt(self, text: str) -> None:
        """Print a prompt if somebody types at a terminal."""
        if sys.stdin.isatty():
            sys.stdout.write(escape_control_characters(text))
            sys.stdout.flush()

    @property
    def prompt_escape_sequence(self) -> str:
        """The escape sequence that styles a prompt drawn by the line editor; "" for none.

        Here always "", since a screen reader would read the escape sequence out.
        """
        return ""

    def freeze_partial_answer(self) -> None:
        """Do nothing: in plain lines, no answer is redrawn while it grows."""
