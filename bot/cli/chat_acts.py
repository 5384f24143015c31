"""The commands with a "/" at the prompt: each sends the bot one command, or prints a sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from bot.cards import call_pieces
from bot.cli import chat_painter
from bot.terminal.terminal_messages import (
    AllowedAction,
    CommandKind,
    CommandResult,
    OperatorCommand,
    TerminalCall,
    TerminalField,
)

CLEAR_FIELD_INPUT = "-"
CANCEL_INPUT = "/"
EDIT_INSTRUCTIONS_TEXT = "Enter keeps the value; type - alone to clear it, or / alone to cancel."


def ask_for_field_values(
    fields: Sequence[TerminalField], ask: AskForLine, painter: chat_painter.Painter
) -> dict[str, str] | None:
    """Ask for each field, and return the typed values by name; None if the person broke off."""
    if not fields:
        painter.draw_program_sentence("There is nothing to fill in here.")
        return None
    painter.draw_program_sentence(EDIT_INSTRUCTIONS_TEXT)
    values: dict[str, str] = {}
    for field in fields:
        typed = ask(format_field_prompt(field))
        if typed is None or typed == CANCEL_INPUT:
            return None
        if typed == CLEAR_FIELD_INPUT:
            values[field.name] = ""
        elif typed:
            values[field.name] = typed.replace("\\n", "\n") if field.lines else typed
    return values


def format_field_prompt(field: TerminalField) -> str:
    """Return the prompt for a field: its label, its choices and its current value."""
    one_of = f" ({' / '.join(field.options)})" if field.options else ""
    several = " (\\n between lines)" if field.lines else ""
    there = f" [{field.text}]" if field.text else ""
    return f"{field.label}{one_of}{several}{there}: "


# sends the bot a command; True: its answer is drawn in any case
SendCommand = Callable[[OperatorCommand, bool], CommandResult]
AskForLine = Callable[[str], str | None]  # asks a question; returns the typed line, None for none


class CallNumbers:
    """The numbers of one chat's calls at its prompt: 1, 2 and so on, in order of arrival."""

    def __init__(self) -> None:
        # by call id without revision, in order of the numbers
        self.latest_calls: dict[str, TerminalCall] = {}

    def assign_number(self, call: TerminalCall) -> int:
        """Remember a call as it is shown, and return its number."""
        name = call.id.rpartition(":")[0]
        self.latest_calls[name] = call
        return list(self.latest_calls).index(name) + 1

    def find_call(self, number: str) -> TerminalCall | None:
        """Return the call with this number; for "" the only one that can be acted on; else None."""
        found = list(self.latest_calls.values())
        if number.isdecimal() and 0 < int(number) <= len(found):
            return found[int(number) - 1]
        open_ = [each for each in found if each.may]
        return open_[0] if not number and len(open_) == 1 else None


# the commands that only name a call: the kind to send, and the words that must follow the number
SIMPLE_CALL_COMMANDS: Mapping[str, tuple[CommandKind, str]] = {
    "/reject": (CommandKind.REJECT, "why you reject it"),
    "/send-back": (CommandKind.SEND_BACK, "what the new plan should do differently"),
    "/decline": (CommandKind.DECLINE, ""),
    "/done": (CommandKind.DONE, ""),
    "/not-done": (CommandKind.NOT_DONE, ""),
    "/again": (CommandKind.AGAIN, ""),
}


class ChatCommands:
    """The "/" commands of one chat, by name."""

    def __init__(
        self,
        painter: chat_painter.Painter,
        numbers: CallNumbers,
        ask: SendCommand,
        line: AskForLine,
    ) -> None:
        """`ask` sends a message to the bot; `line` asks the person for a line."""
        self._painter, self._numbers, self._ask, self._line = painter, numbers, ask, line
        self._acts: Mapping[str, Callable[[str], None]] = {
            "/help": lambda _: painter.draw_program_sentence(chat_painter.HELP_TEXT),
            "/pending": lambda _: self._list_pending_calls(),
            "/approve": partial(self._let_call_run, "/approve", "approve", ""),
            "/break-glass": partial(
                self._let_call_run, "/break-glass", "break_glass", "why it cannot wait"
            ),
            "/answer": self._answer_question,
            "/all": self._approve_plan,
            "/edit": self._edit_call,
            "/show": self._show_call,
            **{
                name: partial(self._send_about_call, name, *what)
                for name, what in SIMPLE_CALL_COMMANDS.items()
            },
        }

    def run_command(self, word: str, rest: str) -> None:
        """Run the command `word` with the text typed behind it."""
        name = chat_painter.COMMAND_BY_ALIAS.get(word, word)
        if act := self._acts.get(name):
            act(rest.strip())
        else:
            self._painter.draw_program_sentence(
                chat_painter.SLACK_HINT_BY_COMMAND.get(name)
                or f"There is no {word}; /help lists the commands."
            )

    def _list_pending_calls(self) -> None:
        answer = self._draw_calls(CommandKind.PENDING)
        if answer.counted and not answer.calls:
            self._painter.draw_program_sentence("Nothing is waiting for you.")

    def _show_call(self, rest: str) -> None:
        if (call := self._find_call(rest, "/show 1")) is not None:
            self._draw_calls(CommandKind.LOOK, call.id)

    def _draw_calls(self, kind: CommandKind, target: str = "") -> CommandResult:
        answer = self._ask(OperatorCommand(kind, target), False)
        for each in answer.calls:
            self._painter.draw_call(self._numbers.assign_number(each), each)
        return answer

    def _send(
        self,
        kind: CommandKind,
        target: str,
        words: str = "",
        values: Mapping[str, str] | None = None,
    ) -> None:
        """Send the bot a command; what came of it is drawn."""
        self._ask(OperatorCommand(kind, target, words, values or {}), True)

    def _send_about_call(self, name: str, kind: CommandKind, needs: str, rest: str) -> None:
        """Send the bot a command about the call with the typed number, and the typed words."""
        number, _, words = rest.partition(" ")
        if (call := self._find_call(number, f"{name} 1")) is None:
            return
        if needs and not words.strip():
            self._painter.draw_program_sentence(f"Say {needs}: {name} {number or 1} …")
            return
        self._send(kind, call.id, words.strip())

    def _let_call_run(self, name: str, wish: str, needs: str, rest: str) -> None:
        """Approve a call, or run it without approval; what cannot be undone is confirmed first."""
        call = self._find_call(rest.partition(" ")[0], f"{name} 1")
        if call is None:
            return
        # if the person may not do this, the bot says so
        asks = call.is_final and AllowedAction(wish) in call.may
        sure = call_pieces.build_approval_confirmation(
            call.effect, call.final or call_pieces.IRREVERSIBLE_TEXT
        )
        if needs:
            sure = replace(sure, title="Run this without approval?", yes="Run it")
        if asks and not self._confirm(sure):
            return
        self._send_about_call(name, CommandKind(wish), needs, rest)

    def _approve_plan(self, rest: str) -> None:
        if (call := self._find_call(rest, "/all 1")) is None:
            return
        if not call.plan:
            self._painter.draw_program_sentence("Nothing else in its plan is waiting.")
            return
        plan = [each for each in self._numbers.latest_calls.values() if each.plan == call.plan]
        known = ("", call_pieces.IRREVERSIBLE_TEXT)
        final = [each.effect for each in plan if each.is_final and each.final in known]
        unsure = [each.effect for each in plan if each.is_final and each.final not in known]
        if not (final or unsure) or self._confirm(
            call_pieces.build_joint_approval_confirmation(final, len(plan), unsure=unsure)
        ):
            self._send(CommandKind.APPROVE_PLAN, call.plan)

    def _confirm(self, sure: call_pieces.ApprovalConfirmation) -> bool:
        self._painter.draw_program_sentence(f"{sure.title}\n{sure.text}")
        typed = self._line(f"{sure.yes}? (yes / no): ")
        is_sure = typed is not None and typed.lower() in chat_painter.YES_ANSWERS
        if not is_sure:
            self._painter.draw_program_sentence(chat_painter.NOT_APPROVED_NOTICE)
        return is_sure

    def _edit_call(self, rest: str) -> None:
        if (call := self._find_call(rest, "/edit 1")) is None:
            return
        values = ask_for_field_values(call.fields, self._line, self._painter)
        if values:
            self._send(CommandKind.EDIT, call.id, values=values)
        elif values is not None:
            self._painter.draw_program_sentence("Nothing was changed.")

    def _answer_question(self, rest: str) -> None:
        number, _, words = rest.partition(" ")
        if (call := self._find_call(number, "/answer 1 words")) is None:
            return
        words = words.strip() if len(call.fields) == 1 else ""
        values = None if words else ask_for_field_values(call.fields, self._line, self._painter)
        if words or values:
            self._send(CommandKind.ANSWER, call.id, words, values)

    def _find_call(self, number: str, example: str) -> TerminalCall | None:
        found = self._numbers.find_call(number)
        if found is None:
            self._painter.draw_program_sentence(
                chat_painter.NUMBER_MISSING_ERROR.format(example=example)
            )
        return found
