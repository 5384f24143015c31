"""`countersign pending` and `show`: what waits for people, and the history of one request or call.

Secrets are masked.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import cached_property
from typing import Any

from bot.cards import slack_text
from bot.cards.notices import through_program_suffix
from bot.cli.read_only_core import PlainMentionStyle, ReadOnlyCore, open_core
from bot.explain.explanation import describe_approvers
from bot.policy.authority import LookupFailedError
from bot.policy.gates import Approvers
from bot.terminal import request_reports
from bot.tools.slack_lookup import CachedDirectory
from countersign.cli.commands import CommandFunctions
from countersign.cli.console import print_error, print_line, print_lines
from countersign.durations import format_rough_duration
from storage.calls import AGENT_AUTHOR, FORM_AUTHOR
from storage.states import CallStatus


class NamedChannelMentionStyle(PlainMentionStyle):
    """Names of people and groups as plain text, and of channels too if Slack can be asked."""

    _directory: CachedDirectory

    @cached_property
    def _channels(self) -> Mapping[str, Mapping[str, Any]]:
        try:
            return self._directory.list_channels()
        except LookupFailedError:
            return {}

    def format_channel(self, channel: str) -> str:
        """Return a channel's name and id; "a direct message" and the id for one of those."""
        if channel.startswith("D"):
            return f"a direct message ({channel})"
        name = str(self._channels.get(channel, {}).get("name", ""))
        return f"#{slack_text.show_hidden_characters(name)} ({channel})" if name else channel


def add_json_option(parser: argparse._ActionsContainer) -> None:
    """Add the option --json."""
    parser.add_argument("--json", action="store_true", help="as JSON, for programs")


def open_core_with_names() -> tuple[ReadOnlyCore, PlainMentionStyle]:
    """Open the record for reading, and return with it how people and channels are named.

    The bot may be running. Without Slack, people are shown by their ids.
    """
    found = open_core()
    return found, NamedChannelMentionStyle(found.directory)


def format_json(value: Any) -> str:
    """Return a dataclass, a list of them, or a map as JSON.

    Times look like 2026-11-24T22:00:00+00:00; durations are seconds.
    """
    listed = [asdict(each) for each in value] if isinstance(value, list) else value
    plain = listed if isinstance(listed, list | dict) else asdict(listed)
    return json.dumps(plain, ensure_ascii=False, indent=2, default=_encode_json_value)


def _encode_json_value(value: object) -> object:
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, Approvers):
        return value.model_dump(mode="json")
    raise TypeError(f"{type(value).__name__} has no JSON")


def _run_pending(arguments: argparse.Namespace) -> int:
    found, words = open_core_with_names()
    team, now = found.authority.team, found.clock.now()
    if not team:
        return print_error("Without Slack it is unknown which workspace this is.")
    with found.store.read() as tx:
        listed = request_reports.list_waiting_call_reports(tx, found.tools, team, now)
    if arguments.json:
        print_line(format_json(listed))
        return 0
    for each in listed:
        print_lines(_format_waiting_call(each, words, now))
    if not listed:
        print_line("Nothing is waiting.")
    return 0


def _format_waiting_call(
    each: request_reports.WaitingCallReport, words: PlainMentionStyle, now: datetime
) -> Iterator[str]:
    yield f"{each.id}  {words.quote_text(each.effect)}"
    until = "starts" if each.starts_at else "decide by"
    due = (
        f"; {until} {slack_text.format_in_utc(each.deadline)} "
        f"({format_rough_duration(each.deadline - now)} left)"
        if each.deadline
        else ""
    )
    place = words.format_channel(each.channel)
    by = slack_text.unescape_mrkdwn(through_program_suffix(each.client))
    yield f"    asked by {words.format_person(each.requester)}{by} in {place}{due}"
    if each.status is CallStatus.UNKNOWN:
        yield "    outcome unknown: started, never confirmed; record the outcome with"
        yield "    `countersign resolve` or on its card"
        return
    who = describe_approvers(each.deciders or Approvers(), words, each.channel)
    if each.question:
        yield f"    a question, to be answered by {who}"
        return
    if each.starts_at:
        yield f"    who can stop it until then: {who}"
    else:
        many = "" if each.needed == 1 else f"{each.needed} of "
        yield f"    who decides: {many}{who}"
    if each.plan:
        yield f"    part of plan {each.plan}, in which more is waiting"
    if each.approved_by:
        yield f"    approved by {', '.join(map(words.format_person, each.approved_by))}"


PENDING = CommandFunctions(add_json_option, _run_pending)


_LABEL_BY_AUTHOR = {AGENT_AUTHOR: "the agent", FORM_AUTHOR: "the requester, in a form"}
_LABEL_BY_PROGRAM_AUTHOR = {**_LABEL_BY_AUTHOR, FORM_AUTHOR: "the program that asked"}


def _add_show_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", help="id of a call, as `pending` shows it, or of a request")
    add_json_option(parser)


def _run_show(arguments: argparse.Namespace) -> int:
    found, words = open_core_with_names()
    now = found.clock.now()
    with found.store.read() as tx:
        report = request_reports.find_request_report(tx, found.tools, arguments.id, now)
    if report is None:
        return print_error(f"No request or call has the id {arguments.id}.")
    if arguments.json:
        print_line(format_json(report))
        return 0
    print_lines(_format_request(report, words))
    for call in report.calls:
        print_line("")
        print_lines(_format_call(call, words, report))
    return 0


def _format_request(
    report: request_reports.RequestReport, words: PlainMentionStyle
) -> Iterator[str]:
    yield f"Request {report.id}: {report.status}"
    place = words.format_channel(report.channel)
    by = slack_text.unescape_mrkdwn(through_program_suffix(report.client))
    who = f"{words.format_person(report.requester)}{by}"
    yield f"    by {who} in {place}, {slack_text.format_in_utc(report.created_at)}"
    for each in report.asked:
        yield f"    “{slack_text.show_hidden_characters(each)}”"


def _describe_due_time(call: request_reports.CallReport, at: datetime) -> str:
    label = "Approved, starts" if call.is_scheduled else "Decide by"
    return f"{label} {slack_text.format_in_utc(at)}"


def _format_call(
    call: request_reports.CallReport, words: PlainMentionStyle, of: request_reports.RequestReport
) -> Iterator[str]:
    yield f"{call.id}  {words.quote_text(call.effect)}: {call.status}"
    for label, text in call.arguments.items():
        yield from _format_labelled_text(label, text)
    yield from _format_labelled_text("Preview", call.preview)
    for line in call.chain:
        yield f"    {slack_text.show_hidden_characters(line)}"
    is_from_form = any(each.author == FORM_AUTHOR for each in call.revisions)
    yield from _format_labelled_text("Why" if is_from_form else "The agent says", call.agent_reason)
    if call.rule:
        yield f"    Rule: {slack_text.show_hidden_characters(call.rule)}"
    if call.asked_at and call.deciders:
        yield f"    Who decides: {describe_approvers(call.deciders, words, of.channel)}"
    if call.deadline and call.status is CallStatus.PENDING:
        yield f"    {_describe_due_time(call, call.deadline)}"
    for each in call.revisions:
        writers = _LABEL_BY_PROGRAM_AUTHOR if of.client else _LABEL_BY_AUTHOR
        by = writers.get(each.author) or words.format_person(each.author)
        effect = f": {words.quote_text(each.effect)}" if len(call.revisions) > 1 else ""
        yield (
            f"    Revision {each.number} by {by}, {slack_text.format_in_utc(each.at)}, "
            f"#{each.digest[:8]}{effect}"
        )
    for vote in call.votes:
        said = f": “{words.quote_text(vote.words)}”" if vote.words else ""
        whose = vote.represented_person
        by = f" for {words.format_person(whose)}" if whose else ""
        on = f" revision {vote.revision}" if len(call.revisions) > 1 else ""
        yield (
            f"    {words.format_person(vote.person)} "
            f"{slack_text.format_past_tense(vote.verb)}{on}{by}, "
            f"{slack_text.format_in_utc(vote.voted_at)}{said}"
        )
    if call.answer:
        said = "declined: they cannot say" if call.answer.declined else "answered"
        yield (
            f"    {words.format_person(call.answer.person)} {said}, "
            f"{slack_text.format_in_utc(call.answer.at)}"
        )
        for label, text in call.answer.values.items():
            yield from _format_labelled_text(label, text)
    if call.finished_at:
        yield f"    Ended {slack_text.format_in_utc(call.finished_at)}"
    yield from _format_labelled_text("Outcome", call.note)
    yield f"    Digest {call.digest}"


def _format_labelled_text(label: str, text: str) -> Iterator[str]:
    """Yield a text behind its label, or below the label if it has several lines."""
    lines = slack_text.show_hidden_characters(text).splitlines()
    if len(lines) == 1:
        yield f"    {slack_text.show_hidden_characters(label)}: {lines[0]}"
    elif lines:
        yield f"    {slack_text.show_hidden_characters(label)}:"
        yield from (f"        {line}" for line in lines)


SHOW = CommandFunctions(_add_show_arguments, _run_show)
