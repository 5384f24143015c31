"""`countersign export`, `forget`, `purge`: what is held of one person, and how it, or what is old,
is emptied.
"""

from __future__ import annotations

import argparse
import json
import os
import re
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta

from bot.checks.slack import make_client
from bot.cli.bot_connection import BotRefusedError, NoBotError, post
from bot.cli.read_only_core import duration
from bot.clock import SystemClock
from bot.config.settings import LEAST, Settings
from bot.policy.authority import LookupFailedError
from bot.replicas.membership import advance_clock, settings_and_clock
from bot.signing_key import open_store
from bot.slack.directory import SlackDirectory
from bot.tools.names import NamedKind, NameResolver
from bot.upkeep import purge_all
from countersign.cli.commands import CommandFunctions
from countersign.cli.console import DOTENV, UsageError, complain, say
from storage import personal_data
from storage.backend import socket_path
from storage.personal_data import ErasureResult, PersonalData
from storage.sqlite import AlreadyRunningError
from storage.store import ReadOnly, Store

# `countersign export`: all that the record holds of one person, as JSON.

# The person whose data `export` or `forget` is about.

_ID = re.compile(r"[UW][A-Z0-9]{2,30}")


def person_of(settings: Settings, named: str) -> str:
    """Return the Slack user id of a @handle, a full name or an id.

    An id is returned unchecked, even if Slack no longer knows that person. Raises ValueError with a
    sentence if nobody is found.
    """
    if _ID.fullmatch(named):
        return named
    if not settings.slack_bot_token.get_secret_value():
        raise ValueError(
            f"Slack is not configured, so nobody knows who {named} is: give the id, U…"
        )
    directory = SlackDirectory(make_client(settings), SystemClock())
    try:
        return NameResolver(directory, None).id_of(NamedKind.PERSON, named)
    except LookupFailedError as error:
        raise ValueError(f"{error}: give the id, U…") from None


def add_export_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the person."""
    parser.add_argument("person", metavar="@PERSON", help="a @handle, or a Slack user id (U…)")


def run_export(arguments: argparse.Namespace) -> int:
    """Print what is held of one person as a JSON object; returns the exit code.

    Works beside the bot.
    """
    settings = Settings.load(os.environ, DOTENV, reading=True)
    try:
        person = person_of(settings, arguments.person)
    except ValueError as error:
        return complain(f"Nothing was exported: {error}")
    with closing(ReadOnly(settings.database_url)) as store:
        if trouble := store.trouble():
            return complain(f"The record cannot be read: {trouble}.")
        with store.read() as tx:
            found = personal_data.held_data(tx, person)
    about = {"person": person, "at": SystemClock().now().isoformat()}
    say(json.dumps(about | found, ensure_ascii=False, indent=2))
    return 0


EXPORT = CommandFunctions(add_export_arguments, run_export)


PATIENCE = 3600.0  # seconds that a bot may take


def add_forget_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the person, and whether to erase or only to list."""
    parser.add_argument("person", metavar="@PERSON", help="a @handle, or a Slack user id (U…)")
    parser.add_argument(
        "--yes", action="store_true", help="do it; without, what would be done is listed"
    )


def run_forget(arguments: argparse.Namespace) -> int:
    """List what would be erased, or erase it; returns the exit code, 1 if something is left."""
    settings = Settings.load(os.environ, DOTENV, reading=True)
    try:
        person = person_of(settings, arguments.person)
    except ValueError as error:
        return complain(f"Nothing was done: {error}")
    with closing(ReadOnly(settings.database_url)) as store:
        if trouble := store.trouble():
            return complain(f"The record cannot be read: {trouble}.")
        with store.read() as tx:
            found = personal_data.find_held(tx, person)
    if not arguments.yes:
        for line in _listed(person, found):
            say(line)
        return 0
    try:
        done = _done(settings, person)
    except (NoBotError, BotRefusedError) as error:
        return complain(f"Not all was done; do it again. {error}")
    for line in _told(person, done):
        say(line)
    return 1 if done.open else 0


def _done(settings: Settings, person: str) -> ErasureResult:
    """Erase the person's data here, or have the running bot do so if it holds the record."""
    clock = SystemClock()
    actor = settings.operator or "system"
    try:
        store = open_store(settings, clock.now(), lambda: "", exclusive=not settings.is_shared)
    except AlreadyRunningError:
        told = post(socket_path(settings.database_path), "/v1/forget", {"person": person}, PATIENCE)
        return ErasureResult(**{**told, "open": tuple(told["open"])})
    with closing(store):
        if store.astray:
            raise BotRefusedError(
                f"The record is not the one of its last life ({store.astray}); start the bot on it."
            )
        done = personal_data.forget(store, person, at=clock.now(), actor=actor)
        store.rewrite()
    return done


def _listed(person: str, found: PersonalData) -> Iterator[str]:
    yield f"Of {person} would be emptied, with --yes:"
    others = found.many + sum(map(len, found.open)) - found.asked
    yield f"  {found.many} requests: what they asked and wrote, all that was said in these threads"
    if others > 0:
        yield f"  ({others} of them others asked, in threads where this person asked or wrote)"
    yield "  the words of their votes, answers, notes and delegations; clicks, private lines, files"
    yield "What stays: their id, when they asked and decided and how, digests, seals, the chain."
    yield from _left([each[0] for each in found.open], found.sealed)


def _told(person: str, done: ErasureResult) -> Iterator[str]:
    where = f"in {done.requests} requests and {done.votes} votes"
    yield f"Forgotten: what {person} asked and wrote, {where}."
    yield "Not touched: backups, copies, logs, and what stands in Slack."
    yield from _left(done.open, done.sealed)


def _left(opened: list[str] | tuple[str, ...], sealed: int) -> Iterator[str]:
    for run_id in opened:
        yield f"Left: request {run_id} is open, or still to be told of; do it again after that."
    if sealed:
        yield f"Left: {sealed} rows of the audit that an earlier build sealed with their words."


FORGET = CommandFunctions(add_forget_arguments, run_forget)


# `countersign purge`: empties what was said in old requests, while the bot is stopped.


def add_purge_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the age from which requests are purged."""
    parser.add_argument(
        "--older-than",
        type=duration,
        required=True,
        metavar="365d",
        help=f"requests in which nothing has moved for so long: at least {LEAST}d",
    )


def run_purge(arguments: argparse.Namespace) -> int:
    """Erase what was said in old requests, and print how many; returns the exit code.

    Raises AlreadyRunningError if the bot is running; it purges by itself.
    """
    if arguments.older_than < timedelta(days=LEAST):
        raise UsageError(
            f"--older-than is {LEAST}d or more: rules may count what was done that long ago"
        )
    settings, clock = settings_and_clock(
        Settings.load(os.environ, DOTENV, reading=True), SystemClock()
    )
    if not (settings.is_shared or settings.database_path.is_file()):
        return complain(f"There is nothing to purge: no database at {settings.database_path}.")
    store = open_store(settings, clock.now(), lambda: "")
    try:
        if store.astray:
            return complain(
                f"The record is not the one of its last life ({store.astray}): start the bot on it"
                " first."
            )
        advance_clock(store, clock)
        before = size_of(store)
        done = purge_all(store, clock, arguments.older_than)
        say(f"Purged what was said in {done} {'request' if done == 1 else 'requests'}.")
        if why := store.rewrite():
            say(f"Note: not all of the file was given back: {why}.")
        freed = before - size_of(store)
    finally:
        store.close()
    if freed > 0:
        say(f"The file is {freed:,} bytes smaller.")
    return 0


def size_of(store: Store) -> int:
    """Return the size of the record's file in bytes; 0 for a record on a server."""
    return 0 if store.shared else store.path.stat().st_size


PURGE = CommandFunctions(add_purge_arguments, run_purge)
