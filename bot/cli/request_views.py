"""`countersign pending` and `show`: what waits for people, and the history of one request or call.

Secrets are masked.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from datetime import datetime
from functools import cache, partial
from typing import Any

from bot.cards.notices import through
from bot.cards.sentence_words import past
from bot.cards.slack_text import in_utc, unescape, visible
from bot.cli.read_only_core import PlainWords, ReadOnlyCore, opened
from bot.policy.authority import LookupFailedError
from bot.policy.gates import Approvers
from bot.terminal.request_reports import CallTold, RunTold, WaitingHere, waiting, whole_life
from bot.tools.slack_lookup import CachedDirectory
from countersign.cli.commands import CommandFunctions
from countersign.cli.console import DOTENV, complain, say
from countersign.durations import roughly
from storage.calls import AGENT, FORM
from storage.states import CallStatus

# What `pending` and `show` share: the record, opened to be read, and how things are written.


class NamedPlaces(PlainWords):
    """Plain words in which channels have their names, if Slack can be asked."""

    def __init__(self, directory: CachedDirectory) -> None:
        """Use `directory`; the list of channels is fetched once, when the first one is named."""
        super().__init__(directory)
        self._channels = cache(partial(_names, directory))

    def channel(self, channel: str) -> str:
        """Return a channel's name and id; "a direct message" and the id for one of those."""
        if channel.startswith("D"):
            return f"a direct message ({channel})"
        name = self._channels().get(channel)
        return f"#{visible(name)} ({channel})" if name else channel


def _names(directory: CachedDirectory) -> dict[str, str]:
    try:
        return {each: str(found["name"]) for each, found in directory.channels().items()}
    except LookupFailedError:
        return {}


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add the option --json."""
    parser.add_argument("--json", action="store_true", help="as JSON, for programs")


def look(see: Callable[[ReadOnlyCore, PlainWords], int]) -> int:
    """Open the record for reading and pass it to `see`; returns the exit code.

    Works beside the bot, and without Slack: people are shown by their ids then.
    """
    found = opened("The record cannot be read", DOTENV, complain)
    return found if isinstance(found, int) else see(found, NamedPlaces(found.directory))


def as_json(told: Any) -> str:
    """Return a dataclass, or a list of them, as JSON; times look like 2026-11-24T22:00:00+00:00."""
    plain = [asdict(each) for each in told] if isinstance(told, list) else asdict(told)
    return json.dumps(plain, ensure_ascii=False, indent=2, default=_plain)


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Approvers):
        return value.model_dump(mode="json")
    raise TypeError(f"{type(value).__name__} has no JSON")


def deciders_in_words(who: Approvers | None, words: PlainWords, channel: str) -> str:
    """Return the approvers that the policy names, people with their names; "nobody" for none."""
    if who is None:
        return "nobody"
    named = [*map(words.group, who.groups), *map(words.person, who.users)]
    named += [f"the members of {words.channel(channel)}"] if who.channel else []
    named += ["whoever asked"] if who.requester else []
    return ", ".join(named) or "nobody"


def add_pending_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the option --json."""
    add_json(parser)


def run_pending(arguments: argparse.Namespace) -> int:
    """Print the calls and questions that wait for people; returns the exit code."""

    def see(found: ReadOnlyCore, words: PlainWords) -> int:
        if not found.authority.team:
            return complain("Without Slack it is not known which workspace is meant.")
        now = found.clock.now()
        with found.store.read() as tx:
            listed = waiting(tx, found.tools, found.authority.team, now)
        if arguments.json:
            say(as_json(listed))
            return 0
        for each in listed:
            for line in _lines(each, words, now):
                say(line)
        if not listed:
            say("Nothing waits.")
        return 0

    return look(see)


def _lines(each: WaitingHere, words: PlainWords, now: datetime) -> Iterator[str]:
    yield f"{each.id}  {visible(' '.join(each.effect.split()))}"
    due = (
        f"; decide by {in_utc(each.deadline)} ({roughly(each.deadline - now)} left)"
        if each.deadline
        else ""
    )
    place, by = words.channel(each.channel), unescape(through(each.client))
    yield f"    asked by {words.person(each.requester)}{by} in {place}{due}"
    if each.status is CallStatus.UNKNOWN:
        yield "    nobody knows whether it happened: `countersign resolve` says so, or its card"
        return
    if each.question:
        asked = deciders_in_words(each.deciders, words, each.channel)
        yield f"    a question, to be answered by {asked}"
        return
    many = "" if each.needed == 1 else f"{each.needed} of "
    yield f"    who decides: {many}{deciders_in_words(each.deciders, words, each.channel)}"
    if each.plan:
        yield f"    of plan {each.plan}, of which more waits"
    if each.approved_by:
        yield f"    approved by {', '.join(map(words.person, each.approved_by))}"


PENDING = CommandFunctions(add_pending_arguments, run_pending)


# `countersign show`: the history of a request or a call. Secrets are masked.

_WRITERS = {AGENT: "the agent", FORM: "whoever asked, in a form"}
_PROGRAMS = {**_WRITERS, FORM: "the program that asked"}


def add_show_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the id to show, and the option --json."""
    parser.add_argument("id", help="of a call, as `pending` shows it, or of a request")
    add_json(parser)


def run_show(arguments: argparse.Namespace) -> int:
    """Print the history of the request or call with this id; returns the exit code."""

    def see(found: ReadOnlyCore, words: PlainWords) -> int:
        with found.store.read() as tx:
            told = whole_life(tx, found.tools, arguments.id, found.clock.now())
        if told is None:
            return complain(f"Nothing goes by the id {arguments.id}.")
        if arguments.json:
            say(as_json(told))
            return 0
        for line in _request(told, words):
            say(line)
        for call in told.calls:
            say("")
            for line in _call(call, words, told):
                say(line)
        return 0

    return look(see)


def _request(told: RunTold, words: PlainWords) -> Iterator[str]:
    yield f"Request {told.id}: {told.status}"
    place = words.channel(told.channel)
    by = f"{words.person(told.requester)}{unescape(through(told.client))}"
    yield f"    by {by} in {place}, {in_utc(told.created_at)}"
    for each in told.asked:
        yield f"    “{visible(each)}”"


def _call(call: CallTold, words: PlainWords, of: RunTold) -> Iterator[str]:
    yield f"{call.id}  {_on_one_line(call.effect)}: {call.status}"
    for label, text in call.arguments.items():
        yield from _long(label, text)
    yield from _long("Preview", call.preview)
    for line in call.chain:
        yield f"    {visible(line)}"
    asked = any(each.author == FORM for each in call.revisions)
    yield from _long("Why" if asked else "The agent says", call.agent_reason)
    if call.rule:
        yield f"    Rule: {visible(call.rule)}"
    if call.asked_at and call.deciders:
        yield f"    Who decides: {deciders_in_words(call.deciders, words, of.channel)}"
    if call.deadline and call.status is CallStatus.PENDING:
        yield f"    Decide by {in_utc(call.deadline)}"
    for each in call.revisions:
        writers = _PROGRAMS if of.client else _WRITERS
        by = writers.get(each.author) or words.person(each.author)
        effect = f": {_on_one_line(each.effect)}" if len(call.revisions) > 1 else ""
        yield f"    Revision {each.number} by {by}, {in_utc(each.at)}, #{each.digest[:8]}{effect}"
    for vote in call.votes:
        said = f": “{_on_one_line(vote.words)}”" if vote.words else ""
        by = f" for {words.person(vote.for_person)}" if vote.for_person else ""
        on = f" revision {vote.revision}" if len(call.revisions) > 1 else ""
        yield f"    {words.person(vote.person)} {past(vote.verb)}{on}{by}, {in_utc(vote.at)}{said}"
    if call.answer:
        said = "declined: they cannot say" if call.answer.declined else "answered"
        yield f"    {words.person(call.answer.person)} {said}, {in_utc(call.answer.at)}"
        for label, text in call.answer.values.items():
            yield from _long(label, text)
    if call.finished_at:
        yield f"    Ended {in_utc(call.finished_at)}"
    yield from _long("What came of it", call.note)
    yield f"    Digest {call.digest}"


def _long(label: str, text: str) -> Iterator[str]:
    """Yield a text behind its label, or below the label if it has several lines."""
    lines = visible(text).splitlines()
    if len(lines) == 1:
        yield f"    {visible(label)}: {lines[0]}"
    elif lines:
        yield f"    {visible(label)}:"
        yield from (f"        {line}" for line in lines)


def _on_one_line(text: str) -> str:
    return visible(" ".join(text.split()))


SHOW = CommandFunctions(add_show_arguments, run_show)
