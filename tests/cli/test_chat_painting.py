"""How the chat is drawn, in frames and in plain lines; foreign text stays text."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from bot.cli import chat
from bot.cli.chat_acts import ask_for_field_values
from bot.cli.chat_painter import Painter, clean_typed_text
from bot.cli.chat_rich_painter import RichPainter
from bot.terminal.terminal_messages import AllowedAction, TerminalCall, TerminalField
from storage.states import CallStatus
from tests.missing import missing

EVIL = "\x1b[2J\x1b]0;owned\x07[red]x[/red] \u202egnp \x9b31m"
WAITS = TerminalCall(
    id="call:1",
    plan="plan:1",
    run="run",
    status=CallStatus.PENDING,
    effect=f"Refund {EVIL}",
    requester=EVIL,
    values=(("Amount", "30.00", "40.00"), (EVIL, EVIL, "")),
    is_final=True,
    preview=EVIL,
    reason=EVIL,
    deciders=f"@shop-leads {EVIL}",
    deadline="22 Nov 2026, 16:25 UTC",
    note=EVIL,
    covered=(EVIL,),
    may=(AllowedAction.APPROVE, AllowedAction.EDIT, AllowedAction.REJECT),
)


def draw_everything(painter: Painter) -> None:
    """Draw one of everything."""
    painter.draw_program_sentence(EVIL)
    painter.draw_step(EVIL)
    painter.draw_partial_answer(EVIL)
    painter.discard_partial_answer()
    painter.draw_partial_answer(EVIL)
    painter.draw_answer(EVIL)
    painter.draw_thread_line(EVIL)
    painter.draw_call(1, WAITS)
    painter.draw_call(2, TerminalCall("c:1", "", "r", CallStatus.FAILED, EVIL, EVIL, (), note=EVIL))


def draw_framed() -> str:
    """Draw everything with Rich on a terminal of 80 columns."""
    paper = StringIO()
    console = Console(
        file=paper, force_terminal=True, width=80, markup=False, emoji=False, highlight=False
    )
    draw_everything(RichPainter(console))
    return paper.getvalue()


def draw_plain(capsys: pytest.CaptureFixture[str]) -> str:
    """Draw everything in plain lines."""
    draw_everything(Painter())
    return capsys.readouterr().out


@pytest.mark.parametrize("how", ["frames", "plain"])
def test_foreign_text_cannot_control_the_terminal(
    how: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Escape sequences are written out; Rich's own markup stays text."""
    seen = draw_framed() if how == "frames" else draw_plain(capsys)
    for acting in ("\x1b[2J", "\x1b]", "\x07", "\x9b", "\u202e"):
        assert acting not in seen
    assert "⟨U+001B⟩[2J" in seen
    assert "[red]x[/red]" in seen


def test_a_call_lists_the_commands_that_can_be_typed(capsys: pytest.CaptureFixture[str]) -> None:
    """The commands have the call's number. An edited value is beside the old one."""
    for seen in (draw_framed(), draw_plain(capsys)):
        assert "40.00 → 30.00" in seen
        assert "This cannot be undone." in seen
        assert "/approve 1   /edit 1   /reject 1 why   /all 1" in seen
        assert "22 Nov 2026, 16:25 UTC" in seen


def test_no_word_of_a_call_is_cut(capsys: pytest.CaptureFixture[str]) -> None:
    """The terminal is narrow, and the texts are long."""
    long = [f"{part}{number:02}" for part in ("word", "label", "value") for number in range(60)]
    shown = replace(
        WAITS,
        effect=" ".join(long[:60]),
        values=((" ".join(long[60:120]), " ".join(long[120:]), ""),),
    )
    paper = StringIO()
    RichPainter(Console(file=paper, width=40, markup=False)).draw_call(1, shown)
    Painter().draw_call(1, shown)
    for seen in (paper.getvalue(), capsys.readouterr().out):
        assert [each for each in long if each not in seen] == []


def test_a_call_with_an_unknown_outcome_lists_its_commands(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """People can say what became of it."""
    lost = replace(WAITS, status=CallStatus.UNKNOWN, may=(AllowedAction.RESOLVE,))
    paper = StringIO()
    RichPainter(Console(file=paper, width=90, markup=False)).draw_call(3, lost)
    Painter().draw_call(3, lost)
    for seen in (paper.getvalue(), capsys.readouterr().out):
        assert "outcome unknown: started, never confirmed" in seen
        assert "/done 3, /not-done 3, /again 3" in seen


def test_without_rich_the_chat_is_plain_and_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The extra draws the frames."""
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert isinstance(chat.build_painter(plain=False), RichPainter)
    assert type(chat.build_painter(plain=True)) is Painter
    missing(monkeypatch, "rich", "bot.cli.chat_rich_painter")
    assert type(chat.build_painter(plain=False)) is Painter
    assert "pip install 'countersign-bot[chat]'" in capsys.readouterr().out


def test_arrow_keys_are_removed_from_typed_text() -> None:
    """A plain prompt would pass them on to the agent."""
    typed = "\x1b[A\x1b[1;5Drefund\x1bOP €5\t\x07now".encode() + b" \xff"
    assert clean_typed_text(typed) == "refund €5\tnow \ufffd"


def test_a_form_is_filled_in_field_by_field(capsys: pytest.CaptureFixture[str]) -> None:
    """Enter keeps a value, - empties it, and / cancels the form."""
    fields = (
        TerminalField("amount", "Amount", "40.00"),
        TerminalField("reason", "Reason", "late", ("late", "damaged")),
        TerminalField("note", "Note", "x"),
        TerminalField("tags", "Tags", "a", lines=True),
    )
    asked: list[str] = []

    def answers(*lines: str) -> dict[str, str] | None:
        typed = iter(lines)

        def ask(question: str) -> str | None:
            asked.append(question)
            return next(typed, None)

        return ask_for_field_values(fields, ask, Painter())

    assert answers("", "damaged", "-", "a\\nb") == {"reason": "damaged", "note": "", "tags": "a\nb"}
    assert asked[1] == "Reason (late / damaged) [late]: "
    assert answers("30", "/") is None
    assert answers("30") is None
