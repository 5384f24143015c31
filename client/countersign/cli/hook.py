"""`countersign hook`: Claude Code asks people before it uses a tool, and says how it went.

Claude Code's input is passed to Countersign, which knows its formats, and the answer is passed
back. If anything goes wrong before a tool is used, the use is denied, since Claude Code would let
the tool run after a hook that failed.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

from countersign import hook_formats
from countersign.cli import approval_wait
from countersign.cli.console import escape_control_characters, print_error, print_line
from countersign.client import MAX_LOOK_SECONDS, Countersign
from countersign.gated_call import cancel_unwaited_request
from countersign.hook_formats import HookEventKind
from countersign.request import CountersignError, Expired, NotVerified, Unreachable

BLOCKED_EXIT_CODE = 2  # Claude Code takes it for a no
DEADLINE_GRACE_SECONDS = 10.0  # after the deadline, so that the bot itself can expire the request
INPUT_TIMEOUT_SECONDS = 20.0  # to read Claude Code's input
PROCESSING_TIMEOUT_SECONDS = 15.0  # for everything besides the wait for people
GIVE_UP_REPEAT_SECONDS = 10.0  # raise the timeout again, in case the first was swallowed


class HookTimeoutError(Exception):
    """Raised when the hook's own time is nearly over."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of a request: how long to wait, its kind of effect, who asks and where."""
    approval_wait.add_request_options(parser, "9m", "; less than the hook's own timeout, 10m")


def run(arguments: argparse.Namespace) -> int:
    """Read a Claude Code hook's input from stdin and print the answer; returns the exit code."""
    wait = approval_wait.parse_wait_option(arguments)
    if sys.stdout is None:  # stdout is closed, so a JSON denial could not be read
        return BLOCKED_EXIT_CODE
    try:
        with _time_limit(INPUT_TIMEOUT_SECONDS):
            # bytes: Claude Code writes UTF-8, whatever the locale is
            hook_input = json.load(getattr(sys.stdin, "buffer", sys.stdin))
        event = HookEventKind(hook_input["hook_event_name"])
    except Exception:  # noqa: BLE001 # nested without end, or no input at all: the same
        named = " or ".join(hook_formats.APPROVAL_EVENTS)
        print_error(f"The input is not what Claude Code sends a {named} hook.")
        return BLOCKED_EXIT_CODE
    if event not in hook_formats.APPROVAL_EVENTS:
        return _report_tool_use(hook_input)
    # one id for all attempts, so that each finds the same request
    hook_input["tool_use_id"] = hook_formats.get_use_id(hook_input)
    try:
        with _time_limit(wait + DEADLINE_GRACE_SECONDS + PROCESSING_TIMEOUT_SECONDS):
            answer: Mapping[str, Any] = _wait_for_decision(hook_input, wait, arguments)
    except CountersignError as error:
        answer = hook_formats.build_hook_deny_answer(str(error), event)
    except HookTimeoutError:
        why = "Countersign did not answer in time."
        answer = hook_formats.build_hook_deny_answer(why, event)
    except KeyboardInterrupt:
        return BLOCKED_EXIT_CODE
    except Exception as error:  # noqa: BLE001 # a hook that fails lets the tool be used
        why = f"Countersign could not ask ({type(error).__name__})."
        answer = hook_formats.build_hook_deny_answer(why, event)
    print_line(json.dumps(answer))
    return 0


def _report_tool_use(said: Mapping[str, Any]) -> int:
    """Report how the use of a tool went, for the record only; returns the exit code."""
    try:
        Countersign().send_hook_input(hook_formats.drop_tool_output(said))
    except CountersignError as error:
        problem = f"Countersign was not told how it went: {error}"
        return print_error(escape_control_characters(problem))
    return 0


def _wait_for_decision(
    hook_input: Mapping[str, Any], wait: int, arguments: argparse.Namespace
) -> dict[str, Any]:
    """Return the answer for Claude Code once people have decided; raises CountersignError."""
    client, request_id = Countersign(), ""
    event = HookEventKind(hook_input["hook_event_name"])
    names = ("does", "requester", "channel")
    terms = {name: getattr(arguments, name) for name in names if getattr(arguments, name)}
    # popped from the end: first to learn the id, for a cancellation; then for the card's link
    looks = [approval_wait.LINK_WAIT_SECONDS, 0.0]
    until = time.monotonic() + wait + DEADLINE_GRACE_SECONDS
    try:
        while time.monotonic() < until:
            look = looks.pop() if looks else MAX_LOOK_SECONDS
            answer = client.send_hook_input(hook_input, look=look, wait=f"{wait}s", **terms)
            if hook_formats.OUTPUT_FIELD in answer:
                allows, fields = _read_answer(answer, event)
                edited = {"tool_input": fields["updatedInput"]} if "updatedInput" in fields else {}
                if allows and client.verifies_receipts:
                    _verify_receipt(client, request_id, {**hook_input, **edited})
                return hook_formats.build_decision_answer(event, fields)
            request_id = str(answer["id"])
            if look == approval_wait.LINK_WAIT_SECONDS:
                approval_wait.print_progress(
                    f"Asked at {answer['link']}." if answer["link"] else "Asked."
                )
        raise Expired("Nobody approved it in time.")
    except BaseException:
        if request_id:
            cancel_unwaited_request(client, request_id)
        raise


def _read_answer(found: Mapping[str, Any], event: HookEventKind) -> tuple[bool, dict[str, Any]]:
    """Return whether an answer allows the tool, and the fields that decide; raises Unreachable."""
    said = found[hook_formats.OUTPUT_FIELD]
    said = said if isinstance(said, dict) else {}
    decided = said if event is HookEventKind.BEFORE else said.get("decision")
    decided = decided if isinstance(decided, dict) else {}
    name = hook_formats.DECISION_FIELDS[event][0]
    if decided.get(name) not in ("allow", "deny") or said.get("hookEventName") != event:
        raise Unreachable("What answers there is not Countersign: it answers neither yes nor no.")
    fields = {key: decided[key] for key in hook_formats.DECISION_FIELDS[event] if key in decided}
    return decided[name] == "allow", fields


def _verify_receipt(client: Countersign, request_id: str, used: Mapping[str, Any]) -> None:
    """Check the receipt of the tool use that `used` describes, as Claude Code reports it.

    Raises NotVerified, after it was reported that the tool is not used.
    """
    try:
        if not request_id:
            raise NotVerified("Not run: nobody was asked, so there is no approval to verify.")
        name = hook_formats.build_action_name(used["tool_name"])
        client.verify_approval(request_id, name, used["tool_input"])
    except NotVerified as error:
        failed = {"hook_event_name": HookEventKind.FAILED.value, "error": str(error)}
        with suppress(CountersignError):
            client.send_hook_input({**used, **failed})
        raise


@contextmanager
def _time_limit(limit: float) -> Iterator[None]:
    """Raise HookTimeoutError if the block takes longer; Claude Code takes a late hook for a yes.

    On Windows the process ends, which is a no.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # Python delivers signals to the main thread only
        return
    if not hasattr(signal, "setitimer"):  # on Windows nothing else ends a wait
        watchdog = threading.Timer(limit, os._exit, (BLOCKED_EXIT_CODE,))
        watchdog.daemon = True
        watchdog.start()
        try:
            yield
        finally:
            watchdog.cancel()
        return
    before = signal.signal(signal.SIGALRM, _raise_out_of_time)
    signal.setitimer(signal.ITIMER_REAL, limit, GIVE_UP_REPEAT_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _raise_out_of_time(_signal: int, _frame: object) -> NoReturn:
    raise HookTimeoutError("it took too long")
