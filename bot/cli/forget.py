"""`countersign forget`: empties what one person asked and wrote, beside the bot or without it."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import closing

from bot.cli.export import person_of
from bot.clock import SystemClock
from bot.config.settings import Settings
from bot.programs.program_client import (
    NotRunningError,
    PersonUnwanted,
    TurnedAwayError,
    say_to_the_bot,
)
from bot.signing_key import open_store
from countersign.cli.console import DOTENV, complain, say
from storage import personal_data
from storage.personal_data import ErasureResult, PersonalData
from storage.sqlite import AlreadyRunningError
from storage.store import ReadOnly

PATIENCE = 3600.0  # seconds that a bot may take


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add whom, and whether it is meant."""
    parser.add_argument("person", metavar="@PERSON", help="a @handle, or a Slack user id (U…)")
    parser.add_argument(
        "--yes", action="store_true", help="do it; without, what would be done is listed"
    )


def run(arguments: argparse.Namespace) -> int:
    """List what would go, or have it go; 1 where something is left."""
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
    except (NotRunningError, TurnedAwayError) as error:
        return complain(f"Not all was done; do it again: {error}.")
    for line in _told(person, done):
        say(line)
    return 1 if done.open else 0


def _done(settings: Settings, person: str) -> ErasureResult:
    """Do it here, or have the bot do it that has the record to itself."""
    clock = SystemClock()
    actor = settings.operator or "system"
    try:
        store = open_store(settings, clock.now(), lambda: "", exclusive=not settings.is_shared)
    except AlreadyRunningError:
        wish = PersonUnwanted(person)
        told = say_to_the_bot(wish, settings.database_path, patience=PATIENCE)
        return ErasureResult(**{**told.arguments, "open": tuple(told.arguments["open"])})
    with closing(store):
        if store.astray:
            raise TurnedAwayError(
                f"the record is not the one of its last life ({store.astray}); start the bot on it"
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
