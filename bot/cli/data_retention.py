"""`countersign export`, `forget`, `purge`: print or erase a person's data, erase old requests."""

from __future__ import annotations

import argparse
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from datetime import timedelta
from typing import TypeVar

from bot.checks.slack import build_retrying_client
from bot.cli.bot_connection import BotRefusedError, BotUnreachableError, post_to_bot
from bot.cli.read_only_core import parse_duration_option
from bot.clock import SystemClock
from bot.config.settings import MIN_KEEP_DAYS, Settings
from bot.policy.authority import LookupFailedError
from bot.replicas.membership import adapt_settings_and_clock, advance_clock_past_stored_times
from bot.signing_key import open_store
from bot.slack.directory import SlackDirectory
from bot.tools.names import SlackIdKind, SlackIdResolver
from bot.upkeep import purge_old_requests
from countersign.cli import console
from countersign.cli.commands import CommandFunctions
from countersign.durations import format_count
from storage import personal_data
from storage.backend import socket_path
from storage.record import ReadOnlyStore, Store, Transaction
from storage.sqlite import AlreadyRunningError

T = TypeVar("T")
_USER_ID_PATTERN = re.compile(r"[UW][A-Z0-9]{2,30}")


def resolve_person_id(settings: Settings, named: str) -> str:
    """Return the Slack user id of a @handle, a full name or an id.

    An id is returned unchecked, even if Slack no longer knows that person. Raises ValueError with a
    sentence if nobody is found.
    """
    if _USER_ID_PATTERN.fullmatch(named):
        return named
    if not settings.slack_bot_token.get_secret_value():
        raise ValueError(
            f"Slack is not configured, so {named} cannot be looked up: give the id, U…"
        )
    directory = SlackDirectory(build_retrying_client(settings), SystemClock())
    try:
        return SlackIdResolver(directory, None).resolve_id(SlackIdKind.PERSON, named)
    except LookupFailedError as error:
        raise ValueError(f"{error}: give the id, U…") from None


def _read_about_person(
    named: str, read: Callable[[Transaction, str], T]
) -> tuple[Settings, str, T]:
    """Return the settings, the person's id, and what `read` finds of them; raises CommandError."""
    settings = Settings.load(os.environ, console.DOTENV, reading=True)
    try:
        person = resolve_person_id(settings, named)
    except ValueError as error:
        raise console.CommandError(f"Nothing was done: {error}") from None
    with closing(ReadOnlyStore(settings.database_url)) as store:
        if trouble := store.describe_read_problem():
            raise console.CommandError(f"The record cannot be read: {trouble}.")
        with store.read() as tx:
            return settings, person, read(tx, person)


def _add_person_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("person", metavar="@PERSON", help="a @handle, or a Slack user id (U…)")


def _run_export(arguments: argparse.Namespace) -> int:
    _, person, found = _read_about_person(arguments.person, personal_data.export_personal_data)
    about = {"person": person, "at": SystemClock().now().isoformat()}
    console.print_line(json.dumps(about | found, ensure_ascii=False, indent=2))
    return 0


EXPORT = CommandFunctions(_add_person_argument, _run_export)


FORGET_TIMEOUT_SECONDS = 3600.0


def _add_forget_arguments(parser: argparse.ArgumentParser) -> None:
    _add_person_argument(parser)
    parser.add_argument(
        "--yes",
        action="store_true",
        help="do it; without --yes, what would be erased is only listed",
    )


def _run_forget(arguments: argparse.Namespace) -> int:
    """List what would be erased of a person, or erase it; return 1 if something is left."""
    settings, person, requests = _read_about_person(
        arguments.person, personal_data.find_requests_of_person
    )
    if not arguments.yes:
        console.print_lines(_format_erasure_preview(person, requests))
        return 0
    try:
        done = _erase_person(settings, person)
    except (BotUnreachableError, BotRefusedError) as error:
        return console.print_error(f"Not everything was erased; run this again. {error}")
    console.print_lines(_format_erasure_result(person, done))
    return 1 if done.open_requests else 0


def _erase_person(settings: Settings, person: str) -> personal_data.ErasureResult:
    """Erase the person's data here, or have the running bot do so if it holds the record."""
    settings, clock = adapt_settings_and_clock(settings, SystemClock())
    actor = settings.operator or "system"
    try:
        store = open_store(settings, clock.now(), lambda: "", exclusive=not settings.is_shared)
    except AlreadyRunningError:
        answer = post_to_bot(
            socket_path(settings.database_path),
            "/v1/forget",
            {"person": person},
            FORGET_TIMEOUT_SECONDS,
        )
        return personal_data.ErasureResult(**answer)
    with closing(store):
        _require_own_rows(store)
        advance_clock_past_stored_times(store, clock)
        done = personal_data.erase_personal_data(store, person, at=clock.now(), actor=actor)
        store.vacuum_database()
    return done


def _require_own_rows(store: Store) -> None:
    """Raise CommandError if the database is not as the bot left it when it last stopped."""
    if why := store.mismatch_reason:
        raise console.CommandError(
            f"No bot has been started on this record yet ({why}): start it once, then stop it."
        )


def _format_erasure_preview(person: str, found: personal_data.RequestsOfPerson) -> Iterator[str]:
    yield f"With --yes, this is erased of {person}:"
    others = found.erasable_count_of_others
    closed = format_count(found.erasable_count, "request")
    yield f"  {closed}: what they asked and wrote, all that was said in these threads"
    if others:
        yield f"  ({others} of them by other people, in threads where this person asked or wrote)"
    yield "  the words of their votes, answers, notes and delegations; clicks, private lines, files"
    yield "Kept: their id, when they asked, when and how they decided, digests, seals, the chain."
    yield from _format_erasure_leftovers(
        [each[0] for each in found.open_threads], found.sealed_row_count
    )


def _format_erasure_result(person: str, done: personal_data.ErasureResult) -> Iterator[str]:
    requests = format_count(done.emptied_requests, "request")
    votes = format_count(done.emptied_votes, "vote")
    yield f"Erased: what {person} asked and wrote, in {requests} and {votes}."
    yield "Not touched: backups, copies, logs, and the messages in Slack."
    yield from _format_erasure_leftovers(done.open_requests, done.sealed_row_count)


def _format_erasure_leftovers(opened: Sequence[str], sealed: int) -> Iterator[str]:
    for run_id in opened:
        yield (
            f"Left: request {run_id} is open or not fully reported; run this again once it has"
            " ended."
        )
    if sealed:
        rows = format_count(sealed, "row")
        yield f"Left: {rows} of the audit that an earlier version sealed with their words."


FORGET = CommandFunctions(_add_forget_arguments, _run_forget)


def _add_purge_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--older-than",
        type=parse_duration_option,
        required=True,
        metavar="365d",
        help=f"purge requests that have been quiet for this long, at least {MIN_KEEP_DAYS}d",
    )


def _run_purge(arguments: argparse.Namespace) -> int:
    """Erase what was said in old requests. Raises AlreadyRunningError: a bot purges by itself."""
    if arguments.older_than < timedelta(days=MIN_KEEP_DAYS):
        raise console.UsageError(
            f"--older-than must be {MIN_KEEP_DAYS}d or more: rules may count calls that are that"
            " old"
        )
    settings, clock = adapt_settings_and_clock(
        Settings.load(os.environ, console.DOTENV, reading=True), SystemClock()
    )
    if not (settings.is_shared or settings.database_path.is_file()):
        return console.print_error(
            f"There is nothing to purge: no database at {settings.database_path}."
        )
    with closing(open_store(settings, clock.now(), lambda: "")) as store:
        _require_own_rows(store)
        advance_clock_past_stored_times(store, clock)
        before = get_record_file_bytes(store)
        done = purge_old_requests(store, clock, arguments.older_than)
        console.print_line(f"Purged what was said in {format_count(done, 'request')}.")
        if why := store.vacuum_database():
            console.print_line(f"Note: the file could not be shrunk fully: {why}.")
        freed = before - get_record_file_bytes(store)
    if freed > 0:
        console.print_line(f"The file is {freed:,} bytes smaller.")
    return 0


def get_record_file_bytes(store: Store) -> int:
    """Return the size of the record's file in bytes; 0 for a record on a server."""
    return 0 if store.is_multi_process else store.path.stat().st_size


PURGE = CommandFunctions(_add_purge_arguments, _run_purge)
