"""`countersign hook`: Claude Code asks people before it uses a tool (a PreToolUse hook).

Whatever goes wrong, the tool is not used: a hook that fails would let it through.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bot.cli.asking.waiting import (
    add_circumstances,
    approved,
    hand_on,
    take,
    time_to_wait,
)
from bot.cli.console import complain, say
from bot.client.countersign import Countersign
from bot.client.decorated import as_effect
from bot.client.request import Does, OwnAction
from bot.client.schema import schema_of_values
from bot.client.troubles import CountersignError

EVENT = "PreToolUse"
BLOCKED = 2  # the exit code that Claude Code takes for a no
MOST_NAME, MOST_TITLE = 64, 80  # characters
TELLING = ("command", "file_path", "notebook_path", "url", "query")  # what says most of a call
HANDED = "Claude Code was told to go on."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add for how long, and how it is asked."""
    add_circumstances(parser, "9m", "; less than the hook's own timeout, 10m")


def run(arguments: argparse.Namespace) -> int:
    """Read what Claude Code is about to do, and answer whether it may; returns the exit code."""
    wait = time_to_wait(arguments)
    try:
        use = _use_of(json.load(sys.stdin))
    except (ValueError, KeyError, TypeError, AttributeError):
        complain(f"What came in is not what Claude Code gives a {EVENT} hook.")
        return BLOCKED
    try:
        answer = _decided(use, wait, arguments)
    except CountersignError as error:
        answer = _denied(f"{str(error).rstrip('.')}. Do not try to get it done in another way.")
    except KeyboardInterrupt:
        return BLOCKED
    except Exception as error:  # noqa: BLE001 # a hook that fails lets the tool be used
        answer = _denied(f"Countersign could not ask ({type(error).__name__}).")
    say(json.dumps({"hookSpecificOutput": {"hookEventName": EVENT, **answer}}))
    return 0


@dataclass(frozen=True, slots=True)
class _Use:
    """A tool that is to be used."""

    tool: str
    given: dict[str, Any]
    session: str
    id: str
    folder: str

    def action(self, does: Does) -> OwnAction:
        """What people are told of it."""
        name = re.sub(r"\W", "_", f"claude_{self.tool}", flags=re.ASCII)[:MOST_NAME]
        field = next((each for each in TELLING if each in self.given), "")
        effect = as_effect(f"Use {self.tool}") + (f": {{{field}}}" if field else "")
        title = f"Claude Code: {self.tool}"[:MOST_TITLE]
        return OwnAction(name, title, effect, does, schema_of_values(self.given))


def _use_of(said: Mapping[str, Any]) -> _Use:
    """Raises KeyError, TypeError and ValueError for anything else."""
    if said["hook_event_name"] != EVENT:
        raise ValueError(said["hook_event_name"])
    return _Use(
        said["tool_name"],
        dict(said["tool_input"]),
        said["session_id"],
        said.get("tool_use_id", ""),
        said.get("cwd", ""),
    )


def _decided(use: _Use, wait: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """What Claude Code is answered; raises CountersignError where it may not."""
    client = Countersign()
    request = approved(
        client,
        use.action(Does(arguments.does)),
        use.given,
        wait,
        run=f"{use.session} {use.id}" if use.id else "",
        requester=arguments.requester,
        channel=arguments.channel,
        reason=f"Claude Code works in {use.folder}." if use.folder else "",
    )
    taken = take(client, request)
    hand_on(client, taken, HANDED)
    request = taken.request
    by = f" by {', '.join(request.decided_by)}" if request.decided_by else ""
    found = {"permissionDecision": "allow", "permissionDecisionReason": f"Approved{by}."}
    if request.arguments == use.given:
        return found
    return {**found, "updatedInput": request.arguments}  # all of it: it replaces what was given


def _denied(why: str) -> dict[str, Any]:
    return {"permissionDecision": "deny", "permissionDecisionReason": why}
