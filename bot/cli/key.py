"""`countersign key` and `passkeys`: manage the API keys of programs, and people's passkeys.

The running bot makes all changes; lists are read from the database, also while it runs.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bot.approvals.passkeys import describe_passkey_state
from bot.cards.passkey_views import UNNAMED_PASSKEY_NAME, describe_model
from bot.cards.slack_text import format_in_utc
from bot.cli.bot_connection import BotRefusedError, BotUnreachableError, post_to_bot
from bot.cli.read_only_core import PlainMentionStyle, ReadOnlyCore
from bot.cli.request_views import open_core_with_names
from bot.config.settings import Settings
from bot.policy.authority import LookupFailedError
from countersign.cli import console
from countersign.cli.commands import CommandFunctions
from storage import programs
from storage.backend import socket_path
from storage.passkeys import Passkey, list_passkeys

NEW, RENEW, LIST, REVOKE = "new", "renew", "list", "revoke"
DEFAULT_REQUESTS_PER_HOUR = 60


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments: the action, the program's name, and what a new key may do."""
    parser.add_argument("what", choices=[NEW, RENEW, LIST, REVOKE])
    parser.add_argument(
        "name", nargs="?", default="", help="name of the program; revoke: or of one key, csk_…"
    )
    parser.add_argument(
        "--for",
        dest="person",
        metavar="@HANDLE",
        help="new: who is responsible for what the program asks; it asks in their name",
    )
    parser.add_argument(
        "--tools",
        metavar="'deploy_*,note'",
        help="new: tools and actions it may ask for; * matches anything",
    )
    parser.add_argument(
        "--service",
        action="store_true",
        help="new: it may ask in the name of any colleague; each request names one",
    )
    parser.add_argument(
        "--per-hour",
        type=int,
        metavar="N",
        help=f"new: how many requests an hour it may make (default: {DEFAULT_REQUESTS_PER_HOUR})",
    )
    parser.add_argument(
        "--webhook",
        metavar="URL",
        help="new: the address to call when a request is decided, and when it has ended",
    )


def run(arguments: argparse.Namespace) -> int:
    """Make, renew, list or revoke the API keys of programs; returns the exit code."""
    if bool(arguments.name) == (arguments.what == LIST):
        raise console.UsageError("`key list` takes no name; the others need the name of a program")
    options = (arguments.person, arguments.tools, arguments.per_hour, arguments.webhook)
    if arguments.what != NEW and (any(options) or arguments.service):
        raise console.UsageError("only `key new` takes options")
    if arguments.what == LIST:
        return _print_keys()
    if arguments.what == NEW and not (arguments.person and arguments.tools):
        raise console.UsageError("`key new` needs --for and --tools")
    console.print_lines(_change_keys(arguments))
    return 0


def _have_bot_do(route: str, body: Mapping[str, Any]) -> Any:
    """Post `body` to a route of the running bot and return its answer; raises CommandError."""
    settings = Settings.load(os.environ, console.DOTENV, reading=True)
    try:
        return post_to_bot(socket_path(settings.database_path), route, body)
    except BotUnreachableError as error:
        raise console.CommandError(f"The bot must be running for that. {error}") from None
    except BotRefusedError as error:
        why = console.escape_control_characters(f"Nothing was done: {error}")
        raise console.CommandError(why) from None


def _change_keys(arguments: argparse.Namespace) -> Iterator[str]:
    """Make, renew or revoke a key; yield the lines to print, with any secret (shown only now)."""
    name = arguments.name
    if arguments.what == REVOKE:
        _have_bot_do("/v1/keys/revoke", {"name": name})
        yield f"The key of {name} is revoked: requests with it are refused from now on."
        return
    if arguments.what == RENEW:
        new_key = _have_bot_do("/v1/keys/renew", {"name": name})
    else:
        new_key = _have_bot_do("/v1/keys", _build_key_request(arguments))
    yield f"The key of {name}; it is not shown again:"
    yield ""
    yield f"    {new_key['key']}"
    if new_key["webhook_secret"]:
        yield ""
        yield "Messages to its address are signed with this secret:"
        yield ""
        yield f"    {new_key['webhook_secret']}"


def _build_key_request(arguments: argparse.Namespace) -> dict[str, Any]:
    return {
        "name": arguments.name,
        "person": arguments.person,
        "tools": [each.strip() for each in arguments.tools.split(",")],
        "service": arguments.service,
        "per_hour": DEFAULT_REQUESTS_PER_HOUR if arguments.per_hour is None else arguments.per_hour,
        "webhook": arguments.webhook or "",
    }


def _print_keys() -> int:
    found, words = open_core_with_names()
    with found.store.read() as tx:
        listed = programs.list_api_keys(tx)
    lines = [line for each in listed for line in _format_key_lines(each, words)]
    return _print_list(lines, "There are no keys; `countersign key new` makes one.")


def _print_list(lines: Sequence[str], nothing: str) -> int:
    console.print_lines(map(console.escape_control_characters, lines or [nothing]))
    return 0


def _format_key_lines(each: programs.ProgramApiKey, words: PlainMentionStyle) -> Iterator[str]:
    made = f"made {format_in_utc(each.made_at)}"
    ended = f"; revoked {format_in_utc(each.revoked_at)}" if each.revoked_at else ""
    yield f"{each.name}  csk_{each.id}_…  {made}{ended}"
    service = ", in the name of any colleague" if each.is_service else ""
    many = f"{each.per_hour} an hour"
    yield f"    {words.format_person(each.person)} is responsible{service}; at most {many}"
    yield f"    may ask for {', '.join(each.tool_patterns)}"
    if each.webhook:
        yield f"    posts to {each.webhook}"


def _add_passkey_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", choices=[LIST, REVOKE])
    parser.add_argument("id", nargs="?", default="", help="revoke: id of the passkey, as listed")


def _run_passkeys(arguments: argparse.Namespace) -> int:
    if bool(arguments.id) == (arguments.what == LIST):
        raise console.UsageError(
            "`passkeys list` takes no id; `passkeys revoke` needs the id of a passkey"
        )
    if arguments.what == LIST:
        return _print_passkeys()
    done = _have_bot_do("/v1/passkeys/revoke", {"id": arguments.id})
    said = f"The passkey “{done['name']}” of {done['person']} is revoked, and they are notified."
    console.print_line(console.escape_control_characters(said))
    return 0


def _print_passkeys() -> int:
    found, words = open_core_with_names()
    terms, now, host = found.policy.policy.passkeys, found.clock.now(), found.sources.host
    passkeys: dict[str, list[tuple[Passkey, str]]] = {}
    with found.store.read() as tx:
        for row in list_passkeys(tx, found.authority.team):
            state = describe_passkey_state(tx, row, terms, now, host)
            passkeys.setdefault(row.person, []).append((row, state))
    lines = []
    for person in sorted(passkeys):
        left = "" if _is_here(found, person) else ": no longer an active member, so none counts"
        lines.append(f"{words.format_person(person)}{left}")
        lines += [line for each in passkeys[person] for line in _format_passkey_lines(*each)]
    return _print_list(lines, "There are no passkeys; people add theirs on the app's Home tab.")


def _is_here(found: ReadOnlyCore, person: str) -> bool:
    """Return whether this person is still an active colleague; True if Slack cannot be asked."""
    try:
        return found.authority.is_active_colleague(person)
    except LookupFailedError:
        return True


def _format_passkey_lines(row: Passkey, state: str) -> Iterator[str]:
    used = f"last used {format_in_utc(row.last_used_at)}" if row.last_used_at else "not used yet"
    model = describe_model(row.aaguid, row.attested)
    yield f"    {row.id}  {row.name or UNNAMED_PASSKEY_NAME} ({model}): {state}"
    yield f"        added {format_in_utc(row.created_at)}, {used}"


PASSKEYS = CommandFunctions(_add_passkey_arguments, _run_passkeys)
