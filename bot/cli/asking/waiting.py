"""Asks, waits and takes what was approved, for a command that only passes it on."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from contextlib import suppress
from dataclasses import replace
from typing import Any, NoReturn

from bot.cli.console import UsageError, harmless
from bot.client.countersign import Countersign, new_claimant
from bot.client.request import Does, OwnAction, Request, RequestStatus
from bot.client.troubles import CountersignError, DidNotWork, Expired, trouble_of
from bot.durations import in_words, seconds

AT_ONCE = 2.0  # seconds after which a card has its link
BRIEF = 5.0  # seconds to take back what nobody waits for any more


def add_circumstances(parser: argparse.ArgumentParser, wait: str, note: str = "") -> None:
    """Add for how long, in whose name, where, and what a call does to the world."""
    parser.add_argument(
        "--wait", default=wait, help=f"how long people have{note} (default: {wait})"
    )
    parser.add_argument(
        "--does",
        default=Does.DESTRUCTIVE,
        choices=[each.value for each in Does],
        help="to the world, for the policy's rules",
    )
    parser.add_argument("--requester", default="", help="in whose name, @handle or U…")
    parser.add_argument("--channel", default="", help="where, #name or C…")


def time_to_wait(arguments: argparse.Namespace) -> int:
    """Return the seconds of --wait; raises UsageError."""
    found = seconds(arguments.wait)
    if not found:
        raise UsageError(f"{arguments.wait!r} is no duration: 90s, 30m, 4h, 2d")
    return found


def approved(
    client: Countersign,
    what: str | OwnAction,
    values: dict[str, Any],
    wait: int,
    passed_on: str,
    **around: str,
) -> Request:
    """Return what people approved, with the arguments as they did; raises CountersignError.

    What Countersign runs itself has ended then; what it hands over is claimed and reported at
    once, with the words `passed_on`. Who interrupts (Ctrl-C, SIGTERM) takes the request back.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _end)  # as a runner ends a job that was cancelled
    request = client.request(what, values, deadline=wait, **around)
    try:
        request = client.wait(request.id, min(AT_ONCE, wait))
        if not request.is_decided:
            where = f" at {request.link}" if request.link else ""
            _tell(f"Asked{where}; people have {in_words(wait)}.")
        request = (client.wait if request.handed_over else client.ended)(request.id, wait)
    except KeyboardInterrupt:
        with suppress(CountersignError):
            client.cancel(request.id, patience=BRIEF)
        raise
    if not request.is_decided:
        request = client.withdraw(request.id)
        if request.status is RequestStatus.CANCELLED:
            raise Expired("Nobody approved it in time; it was taken back.", request)
    if trouble := trouble_of(request):
        raise trouble
    if not request.handed_over:
        if request.has_ended:
            return request
        raise DidNotWork("It was approved, and has not ended yet.", request)
    return _handed_out(client, request, passed_on)


def _handed_out(client: Countersign, request: Request, passed_on: str) -> Request:
    """The request with the arguments that were handed out."""
    claimant = new_claimant()
    handout = client.claim(request.id, claimant)
    with suppress(CountersignError):  # who asked goes on; people are then asked how it ended
        client.report(request.id, claimant, succeeded=True, result=passed_on)
    return replace(request, arguments=handout.arguments)


def _tell(sentence: str) -> None:
    """Say how it goes on, beside the result."""
    sys.stderr.write(f"{harmless(sentence)}\n")
    sys.stderr.flush()


def _end(_signal: int, _frame: object) -> NoReturn:
    """End as on Ctrl-C."""
    raise KeyboardInterrupt
