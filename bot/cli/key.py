"""`countersign key`: the keys by which programs ask over HTTP are made, listed and revoked.

The running bot makes and revokes them; the list is read beside it.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator

from bot.cards.slack_text import in_utc
from bot.cli.read_only_core import PlainWords, ReadOnlyCore
from bot.cli.request_views import look
from bot.config.settings import Settings
from bot.programs.program_client import (
    KeyRenewed,
    KeyUnwanted,
    KeyWanted,
    NotRunningError,
    Told,
    TurnedAwayError,
    say_to_the_bot,
)
from countersign.cli.console import DOTENV, UsageError, complain, harmless, say
from storage import programs
from storage.programs import ClientKey

NEW, RENEW, LIST, REVOKE = "new", "renew", "list", "revoke"
PER_HOUR = 60


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what is to be done, and what a new key may do."""
    parser.add_argument("what", choices=[NEW, RENEW, LIST, REVOKE])
    parser.add_argument(
        "name", nargs="?", default="", help="of the program; revoke: or of one key, csk_…"
    )
    parser.add_argument(
        "--for",
        dest="person",
        metavar="@HANDLE",
        help="new: who answers for what the program asks; it asks in their name",
    )
    parser.add_argument(
        "--tools",
        metavar="'deploy_*,note'",
        help="new: the tools and actions it may ask for; * stands for any letters",
    )
    parser.add_argument(
        "--service",
        action="store_true",
        help="new: it may ask in the name of any colleague, whom it says each time",
    )
    parser.add_argument(
        "--per-hour",
        type=int,
        metavar="N",
        help=f"new: how many requests an hour it may make (default: {PER_HOUR})",
    )
    parser.add_argument(
        "--webhook",
        metavar="URL",
        help="new: an address that is told when a request is decided, and when it has ended",
    )


def run(arguments: argparse.Namespace) -> int:
    """Make, list or revoke; returns the exit code."""
    if bool(arguments.name) == (arguments.what == LIST):
        raise UsageError("`key list` takes no name, the others that of a program")
    options = (arguments.person, arguments.tools, arguments.per_hour, arguments.webhook)
    if arguments.what != NEW and (any(options) or arguments.service):
        raise UsageError("only `key new` takes options")
    if arguments.what == LIST:
        return look(_list)
    wish: KeyWanted | KeyRenewed | KeyUnwanted = KeyUnwanted(arguments.name)
    if arguments.what == NEW:
        wish = _wanted(arguments)
    elif arguments.what == RENEW:
        wish = KeyRenewed(arguments.name)
    settings = Settings.load(os.environ, DOTENV, reading=True)
    try:
        told = say_to_the_bot(wish, settings.database_path)
    except NotRunningError as error:
        return complain(f"The bot has to run for that: {error}.")
    except TurnedAwayError as error:
        return complain(harmless(f"Nothing was done: {error}."))
    for line in _done(wish, told):
        say(line)
    return 0


def _wanted(arguments: argparse.Namespace) -> KeyWanted:
    if not arguments.person or not arguments.tools:
        raise UsageError("`key new` needs --for and --tools")
    per_hour = PER_HOUR if arguments.per_hour is None else arguments.per_hour
    tools = tuple(each.strip() for each in arguments.tools.split(","))
    person, webhook = arguments.person, arguments.webhook or ""
    return KeyWanted(arguments.name, person, tools, arguments.service, per_hour, webhook)


def _done(wish: KeyWanted | KeyRenewed | KeyUnwanted, told: Told) -> Iterator[str]:
    """What was done, with the secrets that are shown this once."""
    if isinstance(wish, KeyUnwanted):
        yield f"The key of {wish.revoked_key} is revoked: whoever has it is refused from now on."
        return
    name = wish.renewed_key if isinstance(wish, KeyRenewed) else wish.new_key
    yield f"The key of {name}, which is not shown again:"
    yield ""
    yield f"    {told.key}"
    if told.webhook_secret:
        yield ""
        yield "What is told to its address is signed with this:"
        yield ""
        yield f"    {told.webhook_secret}"


def _list(found: ReadOnlyCore, words: PlainWords) -> int:
    with found.store.read() as tx:
        listed = programs.all_keys(tx)
    for each in listed:
        for line in _lines(each, words):
            say(harmless(line))
    if not listed:
        say("There are no keys; `countersign key new` makes one.")
    return 0


def _lines(each: ClientKey, words: PlainWords) -> Iterator[str]:
    made = f"made {in_utc(each.made_at)}"
    ended = f"; revoked {in_utc(each.revoked_at)}" if each.revoked_at else ""
    yield f"{each.name}  csk_{each.id}_…  {made}{ended}"
    service = ", in the name of any colleague" if each.is_service else ""
    many = f"{each.per_hour} an hour"
    yield f"    {words.person(each.person)} answers for it{service}; at most {many}"
    yield f"    may ask for {', '.join(each.patterns)}"
    if each.webhook:
        yield f"    tells {each.webhook}"
