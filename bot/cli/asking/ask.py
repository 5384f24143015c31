"""`countersign ask`: a script or a CI job waits for people, and goes on as they say."""

from __future__ import annotations

import argparse
import json
from enum import IntEnum
from pathlib import Path
from typing import Any

from bot.cli.asking.waiting import add_circumstances, approved, time_to_wait
from bot.cli.console import UsageError, complain, harmless, say
from bot.cli.terminal.asking import assignments
from bot.client.countersign import Countersign
from bot.client.decorated import as_effect, in_words
from bot.client.request import Does, OwnAction, Request
from bot.client.schema import schema_of_values
from bot.client.troubles import CountersignError, DidNotWork, Expired, Rejected

HANDED = "The arguments were handed to the job."


class Exit(IntEnum):
    """What the exit code says."""

    APPROVED = 0
    DECLINED = 1  # rejected, refused by policy, or cancelled
    EXPIRED = 2  # nobody decided, or not within --wait
    NOT_ASKED = 3  # it could not be asked, or was handed out before
    FAILED = 4  # with --registered: it was approved, and did not work or has not ended


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what is asked, of whom it comes, and for how long."""
    parser.add_argument("name", help="what is to be done: letters, digits and underscores")
    parser.add_argument(
        "values",
        nargs="*",
        metavar="name=value",
        help="with what; name:=value for what is JSON (amount:=40)",
    )
    parser.add_argument("--title", default="", help="the same for people (default: the name)")
    parser.add_argument(
        "--effect", default="", help='what it does, with its values: "Deploy {version} to {env}"'
    )
    parser.add_argument("--schema", type=Path, help="a file with the JSON Schema of the values")
    parser.add_argument(
        "--registered",
        action="store_true",
        help="it is a tool of Countersign's own, which then runs it",
    )
    parser.add_argument("--reason", default="", help="why, for whoever decides")
    parser.add_argument(
        "--run", default="", help="what this job is called: asked again, it is not asked twice"
    )
    add_circumstances(parser, "30m")


def run(arguments: argparse.Namespace) -> int:
    """Ask, wait, and print what was decided as JSON; returns the exit code, one of `Exit`."""
    what, values = _read(arguments)
    wait = time_to_wait(arguments)
    around = {name: getattr(arguments, name) for name in ("run", "requester", "channel", "reason")}
    try:
        request = approved(Countersign(), what, values, wait, HANDED, **around)
    except CountersignError as error:
        if error.request is not None:
            _print(error.request)
        complain(harmless(str(error)))
        return _exit_of(error)
    _print(request)
    return Exit.APPROVED


def _read(arguments: argparse.Namespace) -> tuple[str | OwnAction, dict[str, Any]]:
    """What was typed; raises UsageError."""
    values = dict(_value(*each) for each in assignments(arguments.values).items())
    if arguments.registered:
        if arguments.title or arguments.effect or arguments.schema:
            raise UsageError("a registered tool has a title, an effect and a schema of its own")
        return arguments.name, values
    title = arguments.title or in_words(arguments.name)
    schema = _schema(arguments.schema) if arguments.schema else schema_of_values(values)
    effect = arguments.effect or as_effect(title)
    return OwnAction(arguments.name, title, effect, Does(arguments.does), schema), values


def _value(name: str, value: str) -> tuple[str, Any]:
    if not name.endswith(":"):
        return name, value
    try:
        return name.removesuffix(":"), json.loads(value)
    except ValueError:
        raise UsageError(f"{name}={value} is no JSON") from None


def _schema(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} is no JSON Schema ({error})") from None
    if not isinstance(found, dict):
        raise UsageError(f"{path} is no JSON Schema of an object")
    return found


def _exit_of(error: CountersignError) -> Exit:
    match error:
        case Rejected():
            return Exit.DECLINED
        case Expired():
            return Exit.EXPIRED
        case DidNotWork():
            return Exit.FAILED
    return Exit.NOT_ASKED


def _print(request: Request) -> None:
    found = {
        "status": request.status.value,
        "arguments": request.arguments,
        "decided_by": list(request.decided_by),
        "edited_by": list(request.edited_by),
        "id": request.id,
        "link": request.link,
        "note": request.note,
        "result": request.result,
    }
    say(json.dumps(found))
