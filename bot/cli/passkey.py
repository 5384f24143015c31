"""`countersign passkeys`: the passkeys that people sign with are listed and revoked.

The running bot revokes them; the list is read beside it.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator

from bot.approvals.passkeys import build_passkey_view
from bot.cards.slack_text import format_in_utc
from bot.cli.bot_connection import BotRefusedError, BotUnreachableError, post_to_bot
from bot.cli.read_only_core import PlainMentionStyle, ReadOnlyCore
from bot.cli.request_views import run_with_read_only_core
from bot.config.settings import Settings
from bot.policy.authority import LookupFailedError
from countersign.cli import console
from storage.backend import socket_path
from storage.passkeys import Passkey, list_passkeys_of_team

LIST, REVOKE = "list", "revoke"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the action, and which passkey it is about."""
    parser.add_argument("what", choices=[LIST, REVOKE])
    parser.add_argument("id", nargs="?", default="", help="revoke: of the passkey, as listed")


def run(arguments: argparse.Namespace) -> int:
    """List passkeys or revoke one; returns the exit code."""
    if bool(arguments.id) == (arguments.what == LIST):
        raise console.UsageError("`passkeys list` takes no id, `passkeys revoke` that of a passkey")
    if arguments.what == LIST:
        return run_with_read_only_core(_print_passkeys)
    settings = Settings.load(os.environ, console.DOTENV, reading=True)
    bot = socket_path(settings.database_path)
    try:
        done = post_to_bot(bot, "/v1/passkeys/revoke", {"id": arguments.id})
    except BotUnreachableError as error:
        return console.print_error(f"The bot has to run for that. {error}")
    except BotRefusedError as error:
        return console.print_error(console.escape_control_characters(f"Nothing was done: {error}"))
    said = f"The passkey “{done['name']}” of {done['person']} is revoked; they are told."
    console.print_line(console.escape_control_characters(said))
    return 0


def _print_passkeys(found: ReadOnlyCore, words: PlainMentionStyle) -> int:
    with found.store.read() as tx:
        rows = list_passkeys_of_team(tx, found.authority.team)
    for person in sorted({each.person for each in rows}):
        left = "" if _is_here(found, person) else ": is no longer here, so nothing counts"
        lines = [f"{words.format_person(person)}{left}"]
        lines += _format_lines(found, [each for each in rows if each.person == person])
        for line in lines:
            console.print_line(console.escape_control_characters(line))
    if not rows:
        console.print_line("There are no passkeys; people add theirs on the Home tab of the app.")
    return 0


def _is_here(found: ReadOnlyCore, person: str) -> bool:
    """Return whether this person has an account that counts; True where Slack cannot be asked."""
    try:
        return found.authority.is_active_colleague(person)
    except LookupFailedError:
        return True


def _format_lines(found: ReadOnlyCore, rows: list[Passkey]) -> Iterator[str]:
    terms, now = found.policy.policy.passkeys, found.clock.now()
    for row in rows:
        with found.store.read() as tx:
            each = build_passkey_view(tx, row, terms, now)
        used = format_in_utc(each.last_used_at) if each.last_used_at else "never"
        yield f"    {each.id}  {each.name} ({each.model}): {each.state}"
        yield f"        added {format_in_utc(each.added_at)}, last used {used}"
