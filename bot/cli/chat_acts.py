"""The commands with a "/" at the prompt: each sends the bot one wish, or prints a sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from bot.cards.call_pieces import FINAL, Confirmation, confirmation_of, confirmation_of_all
from bot.cli.chat_painter import (
    HELP,
    IN_SLACK,
    LIKE_THIS,
    NOT_SURE,
    SHORT,
    YES,
    Painter,
)
from bot.terminal.terminal_messages import (
    Answering,
    Asking,
    CallShown,
    FieldShown,
    May,
    Wish,
)

# A form at the prompt: one field after the other, with its current value.

EMPTY = "-"  # typed to empty a field
OFF = "/"  # typed to break it off
HOW = "Enter keeps what stands there; a lone - empties it, a lone / breaks off."


def fill_in(
    fields: Sequence[FieldShown], ask: Callable[[str], str | None], painter: Painter
) -> dict[str, str] | None:
    """Ask for each field, and return the typed values by name; None if the person broke off.

    `ask` shows a question and returns the line that is typed, None at the end of input.
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
    """Return the prompt for a field: its label, its choices and its current value."""
    one_of = f" ({' / '.join(field.options)})" if field.options else ""
    several = " (\\n between lines)" if field.lines else ""
    there = f" [{field.text}]" if field.text else ""
    return f"{field.label}{one_of}{several}{there}: "


Ask = Callable[[Asking, bool], Answering]  # says it to the bot; True: what came of it is drawn
Line = Callable[[str], str | None]  # shows a question; the line that is typed, None for none


class Numbers:
    """The numbers of one chat's calls at its prompt: 1, 2 and so on, in order of arrival."""

    def __init__(self) -> None:
        """Start without any call."""
        self._names: list[str] = []  # ids of calls without their revisions
        self.shown: dict[str, CallShown] = {}

    def of(self, call: CallShown) -> int:
        """Remember a call as it is shown, and return its number."""
        name = call.id.rpartition(":")[0]
        if name not in self._names:
            self._names.append(name)
        self.shown[name] = call
        return self._names.index(name) + 1

    def named(self, number: str) -> CallShown | None:
        """Return the call with this number; for "" the only one that can be acted on; else None."""
        if number.isdecimal() and 0 < int(number) <= len(self._names):
            return self.shown[self._names[int(number) - 1]]
        open_ = [each for each in self.shown.values() if each.may]
        return open_[0] if not number and len(open_) == 1 else None


class TypedActs:
    """The "/" commands of one chat, by name."""

    def __init__(self, painter: Painter, numbers: Numbers, ask: Ask, line: Line) -> None:
        """`ask` sends a message to the bot; `line` asks the person for a line."""
        self._painter, self._numbers, self._ask, self._line = painter, numbers, ask, line
        self._acts: Mapping[str, Callable[[str], None]] = {
            "/help": lambda _: painter.say(HELP),
            "/pending": lambda _: self._pending(),
            "/approve": self._approve,
            "/reject": lambda rest: self._about("/reject", Wish.REJECT, rest, needs="why not"),
            "/send-back": lambda rest: self._about(
                "/send-back", Wish.SEND_BACK, rest, needs="what the new plan should do otherwise"
            ),
            "/answer": self._answer,
            "/decline": lambda rest: self._about("/decline", Wish.DECLINE, rest),
            "/done": lambda rest: self._about("/done", Wish.DONE, rest),
            "/not-done": lambda rest: self._about("/not-done", Wish.NOT_DONE, rest),
            "/again": lambda rest: self._about("/again", Wish.AGAIN, rest),
            "/all": self._all,
            "/edit": self._edit,
            "/show": self._show,
        }

    def take(self, word: str, rest: str) -> None:
        """Run the command `word` with the text typed behind it."""
        name = SHORT.get(word, word)
        if act := self._acts.get(name):
            act(rest.strip())
        else:
            self._painter.say(
                IN_SLACK.get(name) or f"There is no {word}; /help tells what there is."
            )

    def _pending(self) -> None:
        answer = self._ask(Asking(Wish.PENDING), False)
        for each in answer.calls:
            self._painter.call(self._numbers.of(each), each)
        if answer.counted and not answer.calls:
            self._painter.say("Nothing waits for you.")

    def _show(self, rest: str) -> None:
        if (call := self._named(rest, "/show 1")) is None:
            return
        for each in self._ask(Asking(Wish.LOOK, call.id), False).calls:
            self._painter.call(self._numbers.of(each), each)

    def _about(self, name: str, wish: Wish, rest: str, needs: str = "") -> None:
        """Send the bot a wish about the call with the typed number, and the words behind that."""
        number, _, words = rest.partition(" ")
        if (call := self._named(number, f"{name} 1")) is None:
            return
        if needs and not words.strip():
            self._painter.say(f"Say {needs}: {name} {number or 1} …")
            return
        self._ask(Asking(wish, call.id, words.strip()), True)

    def _approve(self, rest: str) -> None:
        call = self._named(rest.partition(" ")[0], "/approve 1")
        if call is None:
            return
        # who may not is told so by the bot
        asks = call.is_final and May.APPROVE in call.may
        if asks and not self._sure(confirmation_of(call.effect, call.final or FINAL)):
            return
        self._about("/approve", Wish.APPROVE, rest)

    def _all(self, rest: str) -> None:
        if (call := self._named(rest, "/all 1")) is None:
            return
        if not call.plan:
            self._painter.say("Nothing else of its plan waits.")
            return
        plan = [each for each in self._numbers.shown.values() if each.plan == call.plan]
        final = [each.effect for each in plan if each.is_final and each.final in ("", FINAL)]
        unsure = [each.effect for each in plan if each.is_final and each.final not in ("", FINAL)]
        asks = bool(final or unsure)
        if not asks or self._sure(confirmation_of_all(final, len(plan), unsure=unsure)):
            self._ask(Asking(Wish.APPROVE_PLAN, call.plan), True)

    def _sure(self, sure: Confirmation) -> bool:
        """Ask the person to confirm; return whether the answer was yes."""
        self._painter.say(f"{sure.title}\n{sure.text}")
        typed = self._line(f"{sure.yes}? (yes / no): ")
        is_sure = typed is not None and typed.lower() in YES
        if not is_sure:
            self._painter.say(NOT_SURE)
        return is_sure

    def _edit(self, rest: str) -> None:
        if (call := self._named(rest, "/edit 1")) is None:
            return
        values = fill_in(call.fields, self._line, self._painter)
        if values:
            self._ask(Asking(Wish.EDIT, call.id, values=values), True)
        elif values is not None:
            self._painter.say("Nothing is changed.")

    def _answer(self, rest: str) -> None:
        number, _, words = rest.partition(" ")
        if (call := self._named(number, "/answer 1 words")) is None:
            return
        if words.strip() and len(call.fields) == 1:
            self._ask(Asking(Wish.ANSWER, call.id, words.strip()), True)
        elif values := fill_in(call.fields, self._line, self._painter):
            self._ask(Asking(Wish.ANSWER, call.id, values=values), True)

    def _named(self, number: str, example: str) -> CallShown | None:
        found = self._numbers.named(number)
        if found is None:
            self._painter.say(LIKE_THIS.format(example=example))
        return found
