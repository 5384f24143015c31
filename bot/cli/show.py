"""`countersign show`: a request's or a call's whole life, to be read. Secrets are masked."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from bot.cards.notices import through
from bot.cards.sentence_words import past
from bot.cards.slack_text import in_utc, unescape, visible
from bot.cli.read_only_core import PlainWords, ReadOnlyCore
from bot.cli.request_views import add_json, as_json, deciders_in_words, look
from bot.terminal.request_reports import CallTold, RunTold, whole_life
from countersign.cli.console import complain, say
from storage.calls import AGENT, FORM
from storage.states import CallStatus

_WRITERS = {AGENT: "the agent", FORM: "whoever asked, in a form"}
_PROGRAMS = {**_WRITERS, FORM: "the program that asked"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what is to be shown, and how."""
    parser.add_argument("id", help="of a call, as `pending` shows it, or of a request")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Show it; returns the exit code."""

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
    """A text behind its label, or below it where it has several lines."""
    lines = visible(text).splitlines()
    if len(lines) == 1:
        yield f"    {visible(label)}: {lines[0]}"
    elif lines:
        yield f"    {visible(label)}:"
        yield from (f"        {line}" for line in lines)


def _on_one_line(text: str) -> str:
    return visible(" ".join(text.split()))
