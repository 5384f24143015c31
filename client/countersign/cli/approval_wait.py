"""How commands ask for approval and wait for it; `countersign outcome`: report how a job went."""

from __future__ import annotations

import argparse
from typing import Any

from countersign.cli import console
from countersign.cli.commands import CommandFunctions
from countersign.cli.process import END_SIGNALS, interrupt_once_on
from countersign.client import Countersign
from countersign.durations import format_duration, parse_duration
from countersign.gated_call import cancel_unwaited_request
from countersign.request import (
    AlreadyTaken,
    CountersignError,
    DidNotWork,
    Does,
    Expired,
    OwnAction,
    Request,
    RequestStatus,
    find_request_error,
)

# For commands that ask for approval: their options, the request, and the wait for the decision.

LINK_WAIT_SECONDS = 2.0  # by then the card usually has its link
ALREADY_CLAIMED_ERROR = (
    "It was already handed out, and no outcome was reported: it is not handed out again."
)


def add_request_options(parser: argparse.ArgumentParser, wait: str, note: str = "") -> None:
    """Add the arguments of a request: how long to wait, its kind of effect, who asks and where."""
    parser.add_argument(
        "--wait", default=wait, help=f"how long people have{note} (default: {wait})"
    )
    parser.add_argument(
        "--does",
        default="",
        choices=[each.value for each in Does],
        help="what kind of effect it has, for the policy's rules (default: destructive)",
    )
    parser.add_argument("--requester", default="", help="in whose name, @handle or U…")
    parser.add_argument("--channel", default="", help="where, #name or C…")


def parse_wait_option(arguments: argparse.Namespace) -> int:
    """Return the seconds of --wait; raises UsageError if it is no duration."""
    found = parse_duration(arguments.wait)
    if not found:
        raise console.UsageError(f"{arguments.wait!r} is not a duration: write 90s, 30m, 4h or 2d")
    return found


def wait_for_approval(
    client: Countersign, what: str | OwnAction, values: dict[str, Any], wait: int, **around: str
) -> Request:
    """Ask, wait, and return the request with the approved arguments; raises CountersignError.

    A tool that Countersign runs itself has ended by then. Ctrl-C, SIGTERM and SIGHUP cancel the
    request.
    """
    interrupt_once_on(*END_SIGNALS)  # a CI runner sends one to a cancelled job
    own = isinstance(what, OwnAction)  # this process runs it, so it waits only for the approval
    request = client.request(what, values, deadline=wait, **around)
    try:
        request = client.wait(request.id, min(LINK_WAIT_SECONDS, wait))
        if not request.is_decided:
            where = f" at {request.link}" if request.link else ""
            print_progress(f"Asked{where}; people have {format_duration(wait)}.")
        elif not own and not request.has_ended and request.status is not RequestStatus.UNKNOWN:
            print_progress("It is approved; waiting until it has ended.")
        request = (client.wait if own else client.ended)(request.id, wait)
    except KeyboardInterrupt:
        cancel_unwaited_request(client, request.id)
        raise
    if not request.is_decided:
        request = client.cancel_if_possible(request.id)
        if request.status is RequestStatus.CANCELLED:
            raise Expired("Nobody approved it in time; it was cancelled.", request)
        if not request.is_decided:
            raise Expired("Nobody approved it in time, and it could not be cancelled.", request)
    if own and request.status is RequestStatus.UNKNOWN:
        raise AlreadyTaken(ALREADY_CLAIMED_ERROR, request)
    if trouble := find_request_error(request):
        raise trouble
    if not own and not request.has_ended:
        raise DidNotWork("It was approved, and has not ended yet.", request)
    return request


def print_progress(sentence: str) -> None:
    """Print a progress message to the standard error, apart from the result."""
    console.print_beside_result(console.escape_control_characters(sentence))


SUCCEEDED, FAILED = "succeeded", "failed"


def _add_report_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("claim", help="the `claim` that `countersign ask` printed")
    parser.add_argument("how", choices=[SUCCEEDED, FAILED], help="how the work ended")
    parser.add_argument("--result", default="", help="in words, for the card and the record")


def _run_report_command(arguments: argparse.Namespace) -> int:
    request_id, _, claimant = arguments.claim.strip().partition(":")
    if not request_id or not claimant:
        raise console.UsageError("a claim is what `countersign ask` printed, ID:…")
    done = arguments.how == SUCCEEDED
    try:
        countersign = Countersign()
    except CountersignError as error:
        raise console.CommandError(error, 2) from None
    try:
        countersign.report(request_id, claimant, succeeded=done, result=arguments.result)
    except CountersignError as error:
        return console.print_error(console.escape_control_characters(str(error)))
    return 0


OUTCOME = CommandFunctions(_add_report_arguments, _run_report_command)


def add_approval_options(parser: argparse.ArgumentParser, of: str = "") -> None:
    """Add --approvers and --passkeys: how many people must have approved, and whether by signature.

    `of`: the beginning of both help texts, which names the option that they need.
    """
    parser.add_argument(
        "--approvers", type=int, default=1, metavar="N", help=f"{of}how many people at least (1)"
    )
    parser.add_argument(
        "--passkeys",
        action="store_true",
        help=f"{of}count only approvals that are signed with a passkey",
    )
