"""`countersign ask`: a script or a CI job waits for people, and goes on as they say."""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

from countersign.cli import approval_wait, console
from countersign.cli.process import END_SIGNALS, handle_signals
from countersign.client import Countersign
from countersign.decorated import humanize_identifier as name_in_words
from countersign.durations import format_duration
from countersign.gated_call import ClaimedGatedCall
from countersign.request import (
    CountersignError,
    DidNotWork,
    Does,
    Expired,
    OwnAction,
    Rejected,
    Request,
    RequestStatus,
    escape_braces,
)
from countersign.schema import infer_schema_from_values

# Finds placeholders whose value would be read as code: by a shell, by an interpreter, or by a
# program that passes its arguments to one. Pure.

PLACEHOLDER_PATTERN = re.compile(r"\{(\w+)\}")


def _split_words(text: str) -> frozenset[str]:
    return frozenset(text.split())


SHELLS = _split_words(
    "ash bash csh dash elvish fish ksh mksh nu oksh osh rbash rksh sh tcsh xonsh yash zsh"
)
PYTHONS = frozenset({"ipython", "pypy", "python", "pythonw"})
INTERPRETERS = _split_words(
    "bun deno elixir erl ghc groovy guile jruby julia lua luajit node nodejs osascript perl php r"
    " racket raku rscript ruby scala swift tsx ts-node"
)
# programs that read arguments as code or commands, or join them for a shell, here or elsewhere
CODE_READING_PROGRAMS = _split_words(
    "adb ansible ansible-playbook awk bmake clickhouse clickhouse-client cmd clush dbclient dsh"
    " duckdb emacs eval ex expect fab gawk gdb gmake heroku hyperfine just less lldb m4 make man"
    " mariadb mawk mongo mongosh more mosh mysql nawk ncat nc nvim octave parallel parallel-ssh"
    " pdsh plink powershell pssh pwsh rsh runuser salt screen sed socat sqlcmd sqlite sqlite3 ssh"
    " su systemd-run tclsh tmux vi view vim watch wsl xterm"
)
# options whose value is code or a command
CODE_OPTION_BY_PROGRAM: Mapping[str, re.Pattern[str]] = {
    "apt-get": re.compile(r"-o|--option"),
    "docker": re.compile(r"--(entrypoint|health-cmd)"),
    "find": re.compile(r"-(exec|execdir|ok|okdir)"),
    "flock": re.compile(r"-c|--command"),
    "git": re.compile(r"-c|--config-env|--exec|--upload-pack|--receive-pack|-u|-x|foreach|run"),
    "nix": re.compile(r"-c|--command|--run|--expr"),
    "nix-shell": re.compile(r"--command|--run|-E|--expr"),
    "npm": re.compile(r"-c|--call"),
    "npx": re.compile(r"-c|--call"),
    "psql": re.compile(r"-c|--command"),
    "rg": re.compile(r"--pre"),
    "rsync": re.compile(r"-[a-zA-Z]*e|--rsh|--rsync-path"),
    "scp": re.compile(r"-S|-o"),
    "script": re.compile(r"-[a-zA-Z]*c|--command"),
    "sftp": re.compile(r"-S|-o|-b"),
    "tar": re.compile(r"-I|--to-command|--use-compress-program|--checkpoint-action|--rsh-command"),
    "zip": re.compile(r"-TT|--unzip-command"),
}
# programs that start a command, which must be fixed; and their options that start a shell instead
LAUNCHERS = _split_words(
    "busybox chroot command doas env exec ionice nice nohup nsenter pkexec setsid stdbuf sudo time"
    " timeout toybox unshare xargs"
)
SHELL_OPTION_BY_LAUNCHER: Mapping[str, re.Pattern[str]] = {
    "doas": re.compile(r"-[a-zA-Z]*s"),
    "env": re.compile(r"-[a-zA-Z0]*S.*|--split-string.*"),
    "sudo": re.compile(r"-[a-zA-Z]*[si]|--shell|--login"),
}
_SHELL_VALUE_OPTION_PATTERN = re.compile(r"[-+][a-zA-Z]*[oO]|--rcfile|--init-file")
_COMMAND_OPTION_PATTERN = re.compile(r"-[a-zA-Z]*c[a-zA-Z]*")
_PYTHON_VALUE_OPTION_PATTERN = re.compile(r"-[WX]")
# options of INTERPRETERS that may take a value
_CODE_OPTION_PATTERN = re.compile(r"-[a-zA-Z]*[eErRBFpdIlMjx]|--[a-z-]+")
_ASSIGNMENT_PATTERN = re.compile(r"[A-Za-z_]\w*=")


def list_words_read_as_code(words: Sequence[str]) -> Iterator[str]:
    """Yield each word with a placeholder whose value would, or might, be read as code."""
    for number, word in enumerate(words):
        if PLACEHOLDER_PATTERN.search(word) and (
            re.search(r"\s", word) or _is_read_as_code(words, number)
        ):
            yield word


def extract_program_name(word: str) -> str:
    """Return the program that a word names, without its folder, its version and .exe."""
    plain = os.path.basename(word.replace("\\", "/")).lower().removesuffix(".exe")
    return plain if plain in CODE_READING_PROGRAMS else re.sub(r"[-.\d]+$", "", plain)


def _is_read_as_code(words: Sequence[str], place: int) -> bool:
    """Return whether a program named earlier in the command reads the word at `place` as code."""
    names = {_find_script_name_index(words, at) for at in range(place)}
    return any(
        _is_last_word_read_as_code(extract_program_name(words[at]), words[at + 1 : place + 1])
        for at in range(place)
        if at not in names
    )


def _find_script_name_index(words: Sequence[str], shell: int) -> int | None:
    """Return the index of the word that a shell's inline script gets as $0; None if there is none.

    That word is only a name, and starts no program.
    """
    if extract_program_name(words[shell]) not in SHELLS:
        return None
    for at in range(shell + 1, len(words)):
        if _has_script_before(words[shell + 1 : at], _SHELL_VALUE_OPTION_PATTERN):
            options = words[shell + 1 : at - 1]
            return at if any(_COMMAND_OPTION_PATTERN.fullmatch(each) for each in options) else None
    return None


def _is_last_word_read_as_code(name: str, given: Sequence[str]) -> bool:
    """Return whether a program reads the last of the words `given` to it as code.

    That word is the one with the placeholder.
    """
    if name in CODE_READING_PROGRAMS or name.endswith((".bat", ".cmd")):  # Windows starts cmd
        return True
    if name in SHELLS or name in PYTHONS:
        values = _SHELL_VALUE_OPTION_PATTERN if name in SHELLS else _PYTHON_VALUE_OPTION_PATTERN
        return not _has_script_before(given[:-1], values)
    if name in INTERPRETERS:
        return not _has_script_before(given[:-1], _CODE_OPTION_PATTERN)
    if name in LAUNCHERS and _may_be_launched_command(name, given):
        return True
    option = CODE_OPTION_BY_PROGRAM.get(name)
    if option is None:
        return False
    attached = option.match(PLACEHOLDER_PATTERN.split(given[-1])[0]) is not None
    return attached or (len(given) > 1 and option.fullmatch(given[-2]) is not None)


def _has_script_before(before: Sequence[str], values: re.Pattern[str]) -> bool:
    """Return whether an interpreter has its script in these words, so that no later word is code.

    `values`: the interpreter's options that take a value, which is no script by itself.
    """
    is_value = has_code = False
    for each in before:
        if is_value:
            is_value, has_code = False, True
        elif each == "--" and has_code:
            return True
        elif values.fullmatch(each):
            is_value = True
        elif not each.startswith(("-", "+")):
            return True
    return False


def _may_be_launched_command(name: str, given: Sequence[str]) -> bool:
    """Return whether the last of the words given to a launcher may name the command it starts."""
    before, word = given[:-1], given[-1]
    shell = SHELL_OPTION_BY_LAUNCHER.get(name)
    if shell and any(map(shell.fullmatch, given)):
        return True
    if any(not each.startswith("-") and not _ASSIGNMENT_PATTERN.match(each) for each in before):
        return False  # the earlier word is the command it starts, or an option's value
    is_value = bool(before) and before[-1].startswith("-") and before[-1] != "--"
    return not _ASSIGNMENT_PATTERN.match(word) and not word.startswith("-") and not is_value


# The command that a job runs after approval, with the approved values.

ARGUMENTS_VARIABLE = (
    "COUNTERSIGN_ARGUMENTS"  # the environment variable that holds all values as JSON
)


@dataclass(frozen=True, slots=True)
class CommandTemplate:
    """A command with a placeholder {name} for each approved value."""

    words: tuple[str, ...]
    is_unsafe: bool = False  # the author allows values where they may be read as code

    def __str__(self) -> str:
        return shlex.join(self.words)

    def validate(self, names: Collection[str]) -> None:
        """Raise UsageError for no command, unsafe words, or a placeholder not in `names`."""
        if not self.words:
            raise console.UsageError("the command to run goes after --")
        for place in PLACEHOLDER_PATTERN.findall(" ".join(self.words)):
            if place not in names:
                raise console.UsageError(
                    f"{{{place}}} is not one of the values that people approve"
                )
        code = None if self.is_unsafe else next(list_words_read_as_code(self.words), None)
        if code is not None:
            raise console.UsageError(
                f"a shell or a program might read a value as code in {code!r};"
                """ pass it as an argument: sh -c './deploy.sh "$1"' sh {env}"""
                " (or say --unsafe-template)"
            )
        first = self.words[0]
        if PLACEHOLDER_PATTERN.search(first):
            raise console.UsageError("the command itself must be fixed, not a value")
        if not shutil.which(first):
            raise console.UsageError(f"there is no command {first}")

    def fill_placeholders(self, values: Mapping[str, Any]) -> list[str]:
        """Return the words with the values filled in; raises KeyError for a missing value."""
        return [
            PLACEHOLDER_PATTERN.sub(lambda found: _format_value(values[found.group(1)]), each)
            for each in self.words
        ]


def run_approved_command(words: Sequence[str], values: Mapping[str, Any]) -> int:
    """Run a command to its end, and return its exit code; -15 if signal 15 ended it.

    Its environment has the `values` as JSON. END_SIGNALS are passed on to it and end no wait.
    Raises OSError and ValueError if it cannot be started.
    """
    environment = {**os.environ, ARGUMENTS_VARIABLE: json.dumps(values)}
    child = subprocess.Popen(words, env=environment)  # noqa: S603 # what people have approved
    handlers: dict[signal.Signals, Callable[..., object]] = {
        each: lambda number, _: child.send_signal(number) for each in END_SIGNALS
    }
    handlers[signal.SIGINT] = lambda *_: None  # Ctrl-C reaches the child directly
    with child, handle_signals(handlers):
        return child.wait()


def _format_value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


ARGUMENTS_HANDED_OVER_TEXT = "Its arguments were already given to the job that asked."
CLAIM_NOT_PRINTED_ERROR = "It was approved, but its claim could not be printed: nothing was done."
ALREADY_DONE_NOTICE = "It was done before, and is not done again."


class ExitCode(IntEnum):
    """The exit codes of `countersign ask`."""

    APPROVED = 0
    DECLINED = 1  # rejected, refused by policy, or cancelled
    EXPIRED = 2  # no decision in time, or not within --wait
    NOT_ASKED = 3  # the request could not be made, or was handed out before; also after a bug
    FAILED = 4  # approved, but the work failed; with --registered: or has not ended


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments: what to ask for, who asks, and how long to wait."""
    parser.add_argument("name", help="name of the action: letters, digits and underscores")
    parser.add_argument(
        "values",
        nargs="*",
        default=[],
        metavar="name=value",
        help="its values; name:=value for JSON (amount:=40)",
    )
    parser.add_argument(
        "--title", default="", help="what people call it (default: the name in words)"
    )
    parser.add_argument(
        "--effect", default="", help='what it does, with its values: "Deploy {version} to {env}"'
    )
    parser.add_argument("--schema", type=Path, help="a file with the JSON Schema of the values")
    parser.add_argument(
        "--registered",
        action="store_true",
        help="it is one of Countersign's own tools, and Countersign runs it",
    )
    parser.add_argument("--reason", default="", help="why, for the people who decide")
    parser.add_argument(
        "--run",
        default="",
        help="a name for this job: the same call with the same name is asked only once",
    )
    parser.add_argument(
        "--unsafe-template",
        action="store_true",
        help="let the command after -- read a value as code: anyone who edits it can run anything",
    )
    parser.add_argument(
        "--verify",
        default="",
        metavar="FILE",
        help="go on only if the receipt holds, by the installation's public keys in this file",
    )
    approval_wait.add_approval_options(parser, "with --verify: ")
    approval_wait.add_request_options(parser, "30m")
    parser.set_defaults(behind=None)
    parser.epilog = (
        "The command after -- runs once people have approved it, with the values as approved:"
        " -- ./deploy.sh {env} {version}"
    )


def run(arguments: argparse.Namespace) -> int:
    """Ask, wait, and print the decision as JSON, or run the command that was given behind `--`.

    Returns the exit code, one of `ExitCode`.
    """
    what, values = _parse_request(arguments)
    command = _parse_job_command(arguments, what, values)
    wait = approval_wait.parse_wait_option(arguments)
    circumstances = {
        name: getattr(arguments, name) for name in ("run", "requester", "channel", "reason")
    }
    if command is not None and not circumstances["reason"]:
        circumstances["reason"] = f"It runs: {command}"
    demanded = {"approvers": arguments.approvers, "passkeys": arguments.passkeys}
    try:
        client = Countersign(verify=arguments.verify, **demanded)
    except CountersignError as error:
        console.print_error(console.escape_control_characters(str(error)))
        return _get_exit_code(error)
    try:
        request = approval_wait.wait_for_approval(client, what, values, wait, **circumstances)
        with console.exit_on_crash(ExitCode.FAILED):
            if command is not None:
                return _claim_and_run_command(client, request, arguments.name, command)
            _claim_and_print_request(client, request, arguments.name)
    except CountersignError as error:
        if error.request is not None and command is None:
            with suppress(OSError):  # the exit code reports the failure too
                _print_request(error.request)
        console.print_error(console.escape_control_characters(str(error)))
        return _get_exit_code(error)
    return ExitCode.APPROVED


def _parse_job_command(
    arguments: argparse.Namespace, what: str | OwnAction, values: dict[str, Any]
) -> CommandTemplate | None:
    """Return the command behind `--`, None if there is none; raises UsageError if unusable."""
    if arguments.behind is None:
        if arguments.unsafe_template:
            raise console.UsageError("--unsafe-template needs a command after --")
        return None
    if not isinstance(what, OwnAction):
        raise console.UsageError(
            "Countersign runs a registered tool itself: give no command after --"
        )
    command = CommandTemplate(tuple(arguments.behind), arguments.unsafe_template)
    command.validate({*values, *what.schema.get("properties", ())})
    return command


def _claim_and_print_request(client: Countersign, request: Request, name: str) -> None:
    """Print the request; if the job itself does the work, claim it first and add the claim."""
    if not request.handed_over:
        _print_request(request)
        return
    claimed = ClaimedGatedCall(client, request, name)
    with suppress(CountersignError):  # the job goes on; people are then asked for the outcome
        client.report(
            request.id, claimed.claimant, succeeded=None, result=ARGUMENTS_HANDED_OVER_TEXT
        )
    try:
        _print_request(claimed.request, claim=claimed.claim_text)
    except OSError as error:  # disk full or pipe closed: nobody has received the claim
        with suppress(CountersignError):
            client.report(
                request.id, claimed.claimant, succeeded=False, result=CLAIM_NOT_PRINTED_ERROR
            )
        raise console.CommandError(
            f"{CLAIM_NOT_PRINTED_ERROR} ({error.strerror})", ExitCode.FAILED
        ) from error


def _claim_and_run_command(
    client: Countersign, request: Request, name: str, command: CommandTemplate
) -> ExitCode:
    if request.status is RequestStatus.SUCCEEDED:
        approval_wait.print_progress(ALREADY_DONE_NOTICE)
        return ExitCode.APPROVED
    claimed = ClaimedGatedCall(client, request, name)
    began = time.monotonic()
    with claimed.renew_lease_during_block():
        code, how = _run_job_command(command, claimed.request.arguments)
    spent = format_duration(max(1, round(time.monotonic() - began)))
    result = f"{how} after {spent}."
    try:
        client.report(request.id, claimed.claimant, succeeded=code == 0, result=result)
    except CountersignError as error:
        console.print_error(console.escape_control_characters(f"It could not be reported: {error}"))
    approval_wait.print_progress(f"{how}.")
    return ExitCode.APPROVED if code == 0 else ExitCode.FAILED


def _run_job_command(command: CommandTemplate, values: dict[str, Any]) -> tuple[int | None, str]:
    """Run the command; return its exit code, None if it did not start, and its end in words."""
    try:
        words = command.fill_placeholders(values)
    except KeyError as error:
        return None, f"It was not started: the value {error.args[0]} is missing"
    approval_wait.print_progress(f"Approved; running {shlex.join(words)}")
    try:
        code = run_approved_command(words, values)
    except (OSError, ValueError) as error:
        return None, f"It could not be started ({error})"
    return code, f"It ended with exit code {code}" if code >= 0 else f"Signal {-code} ended it"


def _parse_request(arguments: argparse.Namespace) -> tuple[str | OwnAction, dict[str, Any]]:
    """Return what is asked for and its values, as they were typed; raises UsageError."""
    assignments = console.parse_assignments(arguments.values)
    values = dict(_parse_value(*each) for each in assignments.items())
    if len(values) < len(assignments):
        raise console.UsageError("a name is given twice, with = and with :=")
    if arguments.registered:
        if arguments.title or arguments.effect or arguments.schema:
            raise console.UsageError(
                "a registered tool has a title, an effect and a schema of its own"
            )
        return arguments.name, values
    title = arguments.title or name_in_words(arguments.name)
    file = arguments.schema
    schema = _read_schema_file(file) if file else infer_schema_from_values(values)
    effect = arguments.effect or escape_braces(title)
    does = Does(arguments.does) if arguments.does else None
    return OwnAction(arguments.name, title, effect, does, schema), values


def _parse_value(name: str, value: str) -> tuple[str, Any]:
    if not name.endswith(":"):
        return name, value
    try:
        found = json.loads(value)
        json.dumps(found, allow_nan=False)
    except (ValueError, RecursionError):
        raise console.UsageError(f"{name}={value} is not JSON") from None
    return name.removesuffix(":"), found


def _read_schema_file(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text("utf-8-sig"))
    except (OSError, ValueError) as error:
        raise console.UsageError(f"{path} is not a JSON Schema ({error})") from None
    if not isinstance(found, dict):
        raise console.UsageError(f"{path} is not a JSON Schema of an object")
    return found


def _get_exit_code(error: CountersignError) -> ExitCode:
    match error:
        case Rejected():
            return ExitCode.DECLINED
        case Expired():
            return ExitCode.EXPIRED
        case DidNotWork():
            return ExitCode.FAILED
    return ExitCode.NOT_ASKED


def _print_request(request: Request, claim: str = "") -> None:
    found: dict[str, Any] = {
        "status": request.status.value,
        "arguments": request.arguments,
        "decided_by": list(request.decided_by),
        "edited_by": list(request.edited_by),
        "id": request.id,
        "link": request.link,
        "note": request.note,
        "result": request.result,
        **({"claim": claim} if claim else {}),
    }
    console.print_line(json.dumps(found))
