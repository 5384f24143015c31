"""`countersign pending`: what waits for people, the first deadline first."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from datetime import datetime

from bot.cards.notices import through
from bot.cards.slack_text import in_utc, unescape, visible
from bot.cli.read_only_core import PlainWords, ReadOnlyCore
from bot.cli.request_views import add_json, as_json, deciders_in_words, look
from bot.terminal.request_reports import WaitingHere, waiting
from countersign.cli.console import complain, say
from countersign.durations import roughly
from storage.states import CallStatus


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add how it is written."""
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """List what waits; returns the exit code."""

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
