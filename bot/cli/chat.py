"""`countersign chat`: ask the agent at the terminal, and decide there what waits."""

from __future__ import annotations

import argparse
import sys

from bot.cli.bot_connection import BotUnreachableError, get_bot_socket_path
from bot.cli.chat_conversation import Conversation
from bot.cli.chat_painter import Painter
from countersign.cli.console import print_error, print_line

WITHOUT_RICH = "Plain lines: for frames and colours, pip install 'countersign-bot[chat]'."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add how the chat is drawn, and which chat is continued."""
    parser.add_argument("--plain", action="store_true", help="plain lines, without frames")
    parser.add_argument("--go-on", default="", metavar="ID", help="with this request of yours")


def run(arguments: argparse.Namespace) -> int:
    """Run the chat until Ctrl-D or /quit; returns the exit code."""
    try:
        conversation = Conversation(
            get_bot_socket_path(), build_painter(plain=arguments.plain), arguments.go_on
        )
        return conversation.run_chat()
    except BotUnreachableError as error:
        return print_error(error)


def build_painter(*, plain: bool) -> Painter:
    """Return the painter for a chat: plain lines without a terminal or without Rich."""
    if plain or not sys.stdout.isatty():
        return Painter()
    try:
        # here, since Rich may be missing: it comes with the extra `chat` only
        from bot.cli.chat_rich_painter import RichPainter
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("rich"):
            raise
        print_line(WITHOUT_RICH)
        return Painter()
    return RichPainter()
