"""How a chat looks: the port, and plain lines, which need no terminal and no Rich."""

from __future__ import annotations

import os
import re
import select
import sys
import unicodedata
from collections import deque
from collections.abc import Iterator
from typing import Protocol

from bot.cards.call_pieces import FINAL
from bot.terminal.terminal_messages import CallShown, May
from countersign.cli.console import harmless, say
from storage.states import CallStatus

# What a chat says of its own, and which of what happens is worth a word. Pure.

PROMPT = "you> "
HELP = """\
Type what you want; the agent hears it, and Slack keeps it.
/pending           what waits for you, with numbers
/approve 1 [note]  approve 1 as it is shown
/edit 1            change it
/reject 1 why      reject it
/all 1             approve all of the plan it is part of
/send-back 1 what  have its plan made anew, otherwise
/answer 1 words    answer a question
/decline 1         say that you cannot answer it
/done 1            it happened, where nobody knows
/not-done 1        it did not happen
/again 1           it is to run once more
/show 1            how 1 stands now
/cancel            stop your request
/retry             try again what could not go on
/quit              end the chat, not the request
/remember          how an approval is remembered
/delegate          how somebody decides for you"""
GREETING = "Ask for something, or /help. Slack keeps what is said here."
AWAY = "The bot has stopped. The chat goes on once it is there again; Ctrl-D ends it."
NOT_BACK = "The bot is not there yet."
BACK = "The bot is there again."
QUIT = ("/quit", "/q")
YES = ("yes", "y")
NOT_SURE = "It is not approved, and still waits."
LOUD = frozenset({CallStatus.PENDING, CallStatus.UNKNOWN})
QUIET = frozenset({CallStatus.APPROVED, CallStatus.RUNNING})  # steps and lines tell as much
LIKE_THIS = "Say which one, by its number: {example}"
IN_SLACK = {
    "/remember": "In Slack: the card's menu (⋯) has “Details, approve with a note or remember it…”"
    " where the policy offers it. What is remembered is on your Home tab.",
    "/delegate": "In Slack: `/approvals delegate`, or Delegate… on your Home tab.",
}
SHORT = {"/a": "/approve", "/e": "/edit", "/r": "/reject", "/p": "/pending"}


def is_told(call: CallShown) -> bool:
    """Return whether it is drawn how the call stands: where people decide, the thread's lines tell
    what became of it, and steps tell that it runs.
    """
    return call.status in LOUD or not (call.deciders or call.status in QUIET)


# Lines from two sides at once: what is typed, and what the bot says. Each comes whole.

_KEYS = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|O[A-Z]|.)")  # arrows and the like


class Lines:
    """Whole lines of one file descriptor, as bytes without their ends."""

    def __init__(self, source: int) -> None:
        """`source`: a descriptor that can be waited for."""
        self.source = source
        self.is_over = False
        self._rest = b""
        self._ready: deque[bytes] = deque()

    def take(self) -> bytes | None:
        """Return the next line that is there; None where there is none yet."""
        return self._ready.popleft() if self._ready else None

    @property
    def has_line(self) -> bool:
        """Whether `take` returns one."""
        return bool(self._ready)

    def read(self) -> None:
        """Take in what has come; blocks where nothing has."""
        try:
            part = os.read(self.source, 65_536)
        except ConnectionResetError:  # the other side was killed
            part = b""
        if not part:
            self.is_over = True
            if self._rest:  # a last line without an end
                self._ready.append(self._rest)
                self._rest = b""
            return
        *whole, self._rest = (self._rest + part).split(b"\n")
        self._ready += whole


def as_typed(line: bytes) -> str:
    """Return what a person has typed: without keys that are no letters, and blanks around it."""
    text = _KEYS.sub("", line.decode("utf-8", "replace"))
    kept = (each for each in text if each == "\t" or unicodedata.category(each) != "Cc")
    return "".join(kept).strip()


def wait(sides: list[Lines], seconds: float | None = None) -> None:
    """Wait until one of these has a line, or is over."""
    while not any(each.has_line or each.is_over for each in sides):
        readable, _, _ = select.select([each.source for each in sides], [], [], seconds)
        if not readable:
            return
        for each in sides:
            if each.source in readable:
                each.read()


KEYS = {
    May.APPROVE: "/approve {n}",
    May.EDIT: "/edit {n}",
    May.REJECT: "/reject {n} why",
    May.ANSWER: "/answer {n} words, /decline {n}",
    May.RESOLVE: "/done {n}, /not-done {n}, /again {n}",
}
DECLINED = "declined: they cannot say"
STANDS = {
    CallStatus.PENDING: "waits",
    CallStatus.APPROVED: "approved",
    CallStatus.RUNNING: "runs",
    CallStatus.SUCCEEDED: "done",
    CallStatus.FAILED: "failed",
    CallStatus.UNKNOWN: "nobody knows whether it happened",
    CallStatus.REFUSED: "not allowed",
}


class Painter(Protocol):
    """Draws what happens. All that is not ours comes as it is; it draws nothing of it as markup."""

    def say(self, sentence: str) -> None:
        """A sentence of ours."""
        ...

    def step(self, doing: str) -> None:
        """What the agent does."""
        ...

    def words(self, text: str) -> None:
        """More of an answer."""
        ...

    def void(self) -> None:
        """The words so far do not count."""
        ...

    def answer(self, markdown: str) -> None:
        """The whole of an answer."""
        ...

    def notice(self, line: str) -> None:
        """A line of the thread."""
        ...

    def call(self, number: int, call: CallShown) -> None:
        """How a call stands now; `number`: as it is called here."""
        ...

    def prompt(self, text: str) -> None:
        """Ask for a line."""
        ...

    @property
    def prompt_style(self) -> str:
        """The escape sequence before a prompt, where another one draws that; "" for none."""
        ...

    def still(self) -> None:
        """Draw nothing over what is there, until something happens."""
        ...


def stands(call: CallShown) -> str:
    """How a call stands, in words."""
    return DECLINED if call.declined else STANDS.get(call.status, str(call.status))


def details(call: CallShown) -> Iterator[tuple[str, str]]:
    """What is to be known of a call that waits, as label and text."""
    for label, text, before in call.values:
        yield label, f"{before} → {text}" if before else text
    yield "On the way", "\n".join(call.chain)
    yield "Preview", call.preview
    yield "Why", call.reason
    yield "Asked by", call.requester
    yield "To be answered by" if call.question else "Who decides", call.deciders
    yield "Approved by", call.approved_by
    yield "Until", call.deadline
    yield "What came of it", call.note
    if call.covered:
        yield "In Slack only", ", ".join(call.covered)


def keys(number: int, call: CallShown) -> str:
    """What can be typed about a call; "" for nothing."""
    found = [KEYS[each].format(n=number) for each in call.may]
    if call.plan and May.APPROVE in call.may:
        found.append(f"/all {number}")
    return "   ".join(found)


class PlainPainter:
    """One line after the other, and no more: for pipes, logs and readers that speak."""

    def say(self, sentence: str) -> None:
        """A sentence of ours."""
        say(harmless(sentence))

    def step(self, doing: str) -> None:
        """What the agent does."""
        say(f"… {harmless(doing)}")

    def words(self, text: str) -> None:
        """Nothing: the whole answer comes in a moment."""

    def void(self) -> None:
        """Nothing was drawn."""

    def answer(self, markdown: str) -> None:
        """The answer as it was written."""
        say(harmless(markdown))

    def notice(self, line: str) -> None:
        """A line of the thread."""
        say(harmless(line))

    def call(self, number: int, call: CallShown) -> None:
        """A head, what is to be known of it while it waits, and what can be typed."""
        note = f" ({harmless(call.note)})" if call.note else ""
        say(f"[{number}] {harmless(call.effect)}: {stands(call)}{note}")
        if call.status is CallStatus.PENDING:
            self._details(call)
        if found := keys(number, call):
            say(f"    {found}")

    def _details(self, call: CallShown) -> None:
        if call.is_final:
            say(f"    {call.final or FINAL}")
        for label, text in details(call):
            for line in harmless(text).splitlines():
                say(f"    {harmless(label)}: {line}")

    def prompt(self, text: str) -> None:
        """Ask, where somebody sits there."""
        if sys.stdin.isatty():
            sys.stdout.write(harmless(text))
            sys.stdout.flush()

    @property
    def prompt_style(self) -> str:
        """None: readers that speak would read it out."""
        return ""

    def still(self) -> None:
        """Nothing moves here."""
