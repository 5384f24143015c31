"""`countersign policy` and `countersign explain`: test a policy, and explain it for one call.

It is tested by cases, checked without Slack, or replayed over the calls on record; rules are
suggested by what people decided. Nothing is changed.
"""

from __future__ import annotations

import argparse
import re
from datetime import timedelta
from pathlib import Path

from bot.approvals.call_gates import get_lookups_needed_by_rules
from bot.cli import read_only_core
from bot.cli.policy_cases import CaseSlackDirectory, PolicyCaseRunner, parse_case_file
from bot.clock import SystemClock
from bot.config.startup import read_policy_text
from bot.explain.explanation import explain_call
from bot.explain.replay import FixedClock, PolicyReplay
from bot.explain.rule_report import AmountReader
from bot.explain.suggestions import PolicySuggester, render_suggestions
from bot.explain.typed_call import TypedCallError, parse_typed_call
from bot.policy.authority import Directory, LookupFailedError
from bot.policy.evaluation import load_policy_content
from bot.toml_file import FileProblems, unreadable_file_sentence
from bot.tools.names import SlackIdKind, SlackIdResolver
from bot.tools.slack_lookup import CachedDirectory
from countersign.cli.commands import CommandFunctions
from countersign.cli.console import CommandError, UsageError, print_line, print_lines
from storage import call_history
from storage.models import Run

BAD_INPUT_EXIT_CODE = 2


def _run_test(arguments: argparse.Namespace) -> int:
    path = Path(arguments.file)
    try:
        file, problems = parse_case_file(path.read_text("utf-8-sig"), str(path))
        directory = CaseSlackDirectory(file)
        core = read_only_core.build_read_only_core(arguments.policy, SystemClock(), directory)
        trial = PolicyCaseRunner(file, core, directory)
        results = []
        for index, case in enumerate(file.case):
            try:
                results.append((index, case, trial.list_unmet_expectations(case)))
            except TypedCallError as error:
                problems.add(("case", index, "tool"), str(error))
        if problems:
            raise TypedCallError("\n".join(problems.list_sentences()))
    except (OSError, UnicodeDecodeError) as error:
        why = unreadable_file_sentence(str(path), error)
        raise CommandError(why, BAD_INPUT_EXIT_CODE) from None
    except TypedCallError as error:
        raise CommandError(error, BAD_INPUT_EXIT_CODE) from None
    for index, case, lines in results:
        place = f" ({path}:{problems.get_line(('case', index))})" if lines else ""
        print_line(f"{'WRONG' if lines else 'ok   '} {case.name}{place}")
        print_lines(f"      {line}" for line in lines)
    wrong = sum(bool(lines) for *_, lines in results)
    policy = core.policy.policy
    print_line(f"{len(results) - wrong} ok, {wrong} wrong; {policy.source}, {policy.digest[:8]}")
    return 1 if wrong else 0


def _run_check(arguments: argparse.Namespace) -> int:
    # here, since these imports take a moment and the other actions need none of them
    from bot.checks.check import CheckSubject, print_checks
    from bot.checks.inspection import check_freezes_and_business_hours
    from bot.checks.people_checks import check_signing_setup
    from bot.cli.doctor.checks import check_rules_against_tools, check_tools_can_be_built

    nobody = read_only_core.FailingSlackDirectory("a policy is checked without Slack")
    core = read_only_core.build_read_only_core(arguments.policy, SystemClock(), nobody)
    policy = core.policy.policy
    text = f"{policy.source}: {len(policy.rules)} rules, digest {policy.digest[:8]}"

    checks = (
        CheckSubject("policy").confirm(text),
        *check_tools_can_be_built(core.settings),
        *check_rules_against_tools(core.settings, policy),
        *check_signing_setup(core.settings, policy),
        *check_freezes_and_business_hours(policy, core.clock.now()),
    )
    return print_checks(checks, print_line)


def _run_replay(arguments: argparse.Namespace) -> int:
    core = read_only_core.open_core(arguments.policy)
    since = core.clock.now() - (arguments.since or timedelta(days=30))
    written = core.policy.policy.model_copy(update={"asking": frozenset()})
    print_line(f"{written.source}, digest {written.digest[:8]}")
    words = read_only_core.PlainMentionStyle(core.directory)
    replay = PolicyReplay(core.sources, core.authority, core.tools, words)
    print_lines(replay.build_report_lines(since))
    print_line("")
    print_line(
        f"{core.slack_problem}: no people, groups or channels were looked up."
        if core.slack_problem
        else "Groups and channels are as they are now;"
        " sums are of the calls that were on record then."
    )
    return 0


def _run_suggest(arguments: argparse.Namespace) -> int:
    core = read_only_core.open_core(arguments.policy)
    until = core.clock.now() + timedelta(seconds=1)
    since = until - (arguments.since or timedelta(days=90))
    with core.store.read() as tx:
        decided_calls = call_history.list_calls_people_had_to_decide(
            tx, core.authority.team, since, until
        )
    policy = core.policy.policy
    text = read_policy_text(core.settings.policy_path)
    written = load_policy_content(text, policy.source, FileProblems(policy.source, text))
    words = read_only_core.PlainMentionStyle(core.directory)
    suggester = PolicySuggester(written, core.sources, AmountReader(core.tools), words)
    suggester.suggest_rules(decided_calls)
    print_line(f"# Rules that the decisions since {since:%Y-%m-%d} suggest for {policy.source}.")
    print_line("# Nothing is applied. Try them with `countersign policy check` and `policy test`.")
    if core.slack_problem:
        print_line(f"# {core.slack_problem}: no people, groups or channels were looked up.")
    print_lines(render_suggestions(written, suggester))
    return 0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments: the action, the file of cases, how far back, the policy."""
    parser.add_argument(
        "what",
        choices=["test", "check", "replay", "suggest"],
        help="test: try the cases in a file; check: check it against the tools; replay: try it on"
        " recorded calls; suggest: rules from what people decided",
    )
    parser.add_argument("file", nargs="?", metavar="FILE", help="test: the file of cases")
    parser.add_argument(
        "--since",
        type=read_only_core.parse_duration_option,
        metavar="30d",
        help="how far back: 12h, 30d (default: replay 30d, suggest 90d)",
    )
    parser.add_argument(
        "--policy", type=Path, metavar="FILE", help="use this policy instead of COUNTERSIGN_POLICY"
    )


def run(arguments: argparse.Namespace) -> int:
    """Test, check or replay a policy, or suggest rules; returns the exit code."""
    if (arguments.file is not None) != (arguments.what == "test"):
        raise UsageError("test needs a FILE of cases; the others take none")
    acts = {"test": _run_test, "check": _run_check, "replay": _run_replay, "suggest": _run_suggest}
    if arguments.since is not None and arguments.what not in ("replay", "suggest"):
        raise UsageError("--since is for replay and suggest")
    return acts[arguments.what](arguments)


_PERSON_PATTERN = re.compile(r"[UW][A-Z0-9]{2,30}|@.{1,80}")
_CHANNEL_PATTERN = re.compile(r"[CGD][A-Z0-9]{2,30}|#[^\s#A-Z<>|&,]{1,80}")


def _add_explain_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("tool", help="the tool's name")
    parser.add_argument("values", nargs="*", default=[], metavar="key=value", help="its arguments")
    parser.add_argument(
        "--as", dest="person", default="", metavar="U0123", help="who asks for it: an id or @name"
    )
    parser.add_argument(
        "--in", dest="channel", default="", metavar="C0123", help="where: an id or #name"
    )
    parser.add_argument(
        "--at",
        type=read_only_core.parse_time_option,
        metavar="TIME",
        help="pretend it is this time: 2026-11-24T22:00, in UTC unless it says otherwise",
    )
    parser.add_argument(
        "--policy", type=Path, metavar="FILE", help="use this policy instead of COUNTERSIGN_POLICY"
    )


def _run_explain(arguments: argparse.Namespace) -> int:
    try:
        _check_person_channel_and_time(arguments)
        clock = FixedClock(arguments.at) if arguments.at else SystemClock()
        core = read_only_core.build_read_only_core(arguments.policy, clock)
        typed = [arguments.tool, *arguments.values]
        tool, args = parse_typed_call(core.tools, typed, core.directory, None)
        arguments.person = _resolve_person_id(core.directory, arguments.person)
        channel = _resolve_channel_id(core.directory, arguments.channel)
    except TypedCallError as error:
        raise CommandError(error, BAD_INPUT_EXIT_CODE) from None
    now = core.clock.now()
    request = Run(
        team=core.authority.team,
        channel=channel,
        thread_ts="",
        requester=arguments.person,
        created_at=now,
        updated_at=now,
    )
    readable = not core.record_problem and bool(core.authority.team)
    words = read_only_core.PlainMentionStyle(core.directory)
    sources = core.explanation_sources
    print_lines(explain_call(sources, words, request, tool, args, sums=readable))
    sums = bool(get_lookups_needed_by_rules(core.policy, tool).spent)
    print_lines(_format_unread_notes(core, arguments, sums))
    return 0


def _check_person_channel_and_time(arguments: argparse.Namespace) -> None:
    """Raise TypedCallError for a person or a channel that is neither an id nor a name.

    Also for a time at either end of the calendar.
    """
    if arguments.person and not _PERSON_PATTERN.fullmatch(arguments.person):
        raise TypedCallError(
            f"--as takes a user id such as U0123 or an @name, not {arguments.person!r}."
        )
    try:
        read_only_core.check_imagined_time(arguments.at or SystemClock().now())
    except ValueError as error:
        raise TypedCallError(f"--at {error}.") from None
    if arguments.channel and not _CHANNEL_PATTERN.fullmatch(arguments.channel):
        raise TypedCallError(
            f"--in takes a channel id such as C0123 or a #name, not {arguments.channel!r}."
        )


def _resolve_person_id(directory: CachedDirectory, person: str) -> str:
    if not person.startswith("@"):
        return person
    try:
        return SlackIdResolver(directory, None).resolve_id(SlackIdKind.PERSON, person)
    except LookupFailedError as error:
        raise TypedCallError(f"{person} cannot be looked up ({error}); give an id.") from None
    except ValueError as error:
        raise TypedCallError(error) from None


def _resolve_channel_id(directory: Directory, channel: str) -> str:
    """Return the id of a channel given by id or #name; the name if Slack cannot be asked."""
    if not channel.startswith("#"):
        return channel
    try:
        found = directory.find_channel_id(channel)
    except LookupFailedError:
        return channel
    if found is None:
        raise TypedCallError(f"There is no channel {channel} that the bot can see.")
    return found


def _format_unread_notes(
    found: read_only_core.ReadOnlyCore, arguments: argparse.Namespace, sums: bool
) -> list[str]:
    """Return lines that say what `explain` did not look at, and why.

    A record that is not there is mentioned only if the policy needs `sums` from it.
    """
    lines = []
    if found.slack_problem:
        lines.append(f"{found.slack_problem}: no people, groups or channels were looked up.")
    if found.record_problem and (sums or found.store.has_database()):
        lines.append(f"The record was not read: {found.record_problem}.")
    elif not (found.record_problem or found.authority.team):
        lines.append("The record was not read: without Slack the workspace is unknown.")
    if not arguments.person:
        lines.append("No --as was given: this is for a person whom no rule names.")
    if not arguments.channel:
        lines.append("No --in was given: no channel is assumed.")
    return ["", *lines] if lines else []


EXPLAIN = CommandFunctions(_add_explain_arguments, _run_explain)
