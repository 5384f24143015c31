"""How a chat looks: the port, and plain lines, which need no terminal and no Rich."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Protocol

from bot.messages.pieces import FINAL
from bot.terminal.terminal_messages import CallShown, May
from countersign.cli.console import harmless, say
from storage.states import CallStatus

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
