"""A form at the prompt: one field after the other, with what stands there."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bot.cli.chat.painter import Painter
from bot.terminal.terminal_messages import FieldShown

EMPTY = "-"  # typed to empty a field
OFF = "/"  # typed to break it off
HOW = "Enter keeps what stands there; a lone - empties it, a lone / breaks off."


def fill_in(
    fields: Sequence[FieldShown], ask: Callable[[str], str | None], painter: Painter
) -> dict[str, str] | None:
    """Return what was typed into the fields, by name; None where it was broken off.

    `ask` shows a question and returns the line that is typed, None at the end of what is typed.
    """
    if not fields:
        painter.say("There is nothing to fill in here.")
        return None
    painter.say(HOW)
    found: dict[str, str] = {}
    for field in fields:
        typed = ask(question(field))
        if typed is None or typed == OFF:
            return None
        if typed == EMPTY:
            found[field.name] = ""
        elif typed:
            found[field.name] = typed.replace("\\n", "\n") if field.lines else typed
    return found


def question(field: FieldShown) -> str:
    """What is asked: the label, what may be chosen, what stands there."""
    one_of = f" ({' / '.join(field.options)})" if field.options else ""
    several = " (\\n between lines)" if field.lines else ""
    there = f" [{field.text}]" if field.text else ""
    return f"{field.label}{one_of}{several}{there}: "
