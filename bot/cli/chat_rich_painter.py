"""A painter that draws a chat with Rich: import this only where Rich is installed.

Text of others is drawn as text, never as Rich's markup, and without control characters; links
cannot be clicked.
"""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markdown import Markdown
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from bot.cards.call_pieces import IRREVERSIBLE_TEXT
from bot.cli import chat_painter
from bot.terminal.terminal_messages import TerminalCall
from countersign.cli.console import escape_control_characters
from storage.states import CallStatus

MAX_COLUMNS = 100  # longer lines are hard to read
FRAME_COLUMNS = 12  # used by a frame's first line beside its title
COLOUR_BY_STATUS = {
    CallStatus.PENDING: "yellow",
    CallStatus.APPROVED: "cyan",
    CallStatus.RUNNING: "cyan",
    CallStatus.SUCCEEDED: "green",
    CallStatus.ANSWERED: "green",
    CallStatus.FAILED: "red",
    CallStatus.REJECTED: "red",
    CallStatus.UNKNOWN: "magenta",
}


class RichPainter(chat_painter.Painter):
    """Draws a chat with colours and frames; one per chat."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(markup=False, emoji=False, highlight=False)
        self._width = min(self._console.width, MAX_COLUMNS)
        self._live: Live | None = None
        self._said = ""

    def draw_program_sentence(self, sentence: str) -> None:
        self._print_block(Text(escape_control_characters(sentence), style="bold"))

    def draw_step(self, doing: str) -> None:
        self._print_block(Text(f"… {escape_control_characters(doing)}", style="dim italic"))

    def draw_partial_answer(self, text: str) -> None:
        self._said += text
        if self._live is None:
            self._live = Live(
                console=self._console,
                auto_refresh=False,
                transient=True,  # the complete answer replaces it
                vertical_overflow="ellipsis",
            )
            self._live.start()
        self._live.update(self._build_markdown(self._said), refresh=True)

    def discard_partial_answer(self) -> None:
        if self._live is not None:
            self._live.stop()
        self._live, self._said = None, ""

    def draw_answer(self, markdown: str) -> None:
        """Draw the agent's whole answer in place of the part that was drawn so far."""
        self.discard_partial_answer()
        self._print_block(self._build_markdown(markdown))

    def draw_thread_line(self, line: str) -> None:
        self._print_block(Text(escape_control_characters(line), style="dim"))

    def draw_call(self, number: int, call: TerminalCall) -> None:
        """Draw a call: in a frame while something can be done or decided, else as a line."""
        colour = COLOUR_BY_STATUS.get(call.status, "white")
        commands = chat_painter.format_call_commands(number, call)
        effect = Text(escape_control_characters(call.effect), style=f"bold {colour}")
        head = Text(f"{number} ", style="bold")
        status = chat_painter.describe_chat_call_status(call)
        if call.status is not CallStatus.PENDING and not commands:
            note = f"  {escape_control_characters(call.note)}" if call.note else ""
            head.append_text(effect).append(f"  {status}", style=colour)
            self._print_block(head.append(note, style="dim"))
            return
        parts: list[RenderableType] = [self._build_details_table(call)]
        if call.status is not CallStatus.PENDING:
            parts.insert(0, Text(status, style=colour))
        elif call.is_final:
            parts.insert(0, Text(call.final or IRREVERSIBLE_TEXT, style="bold red"))
        if effect.cell_len + FRAME_COLUMNS > self._width:  # a frame's title takes one line only
            parts.insert(0, effect)
        else:
            head.append_text(effect)
        parts += [Text(commands, style="bold")] if commands else []
        frame = "red" if call.is_final else colour
        self._print_block(Panel(Group(*parts), title=head, title_align="left", border_style=frame))

    def draw_prompt(self, text: str) -> None:
        self.freeze_partial_answer()
        self._console.print(Text(escape_control_characters(text), style="bold cyan"), end="")

    @property
    def prompt_escape_sequence(self) -> str:
        return "\x1b[1;36m" if self._console.color_system else ""

    def _build_details_table(self, call: TerminalCall) -> Table:
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(style="dim", max_width=24)
        table.add_column(overflow="fold")
        for label, text in chat_painter.list_call_details(call):
            if text:
                table.add_row(
                    Text(escape_control_characters(label)), Text(escape_control_characters(text))
                )
        return table

    def _build_markdown(self, text: str) -> Markdown:
        return Markdown(escape_control_characters(text), hyperlinks=False, code_theme="ansi_dark")

    def freeze_partial_answer(self) -> None:
        """Stop redrawing an answer that grows, so that something else can be drawn below it."""
        if self._live is not None:
            self._live.transient = False
        self.discard_partial_answer()

    def _print_block(self, what: RenderableType) -> None:
        self.freeze_partial_answer()
        self._console.print(what, width=self._width)
