"""Reads what Claude Code sends to its hooks, and builds the answers. Pure."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bot.cards.field_values import is_same_json
from bot.http.api_bodies import ActionSent, RequestShown
from countersign import hook_formats, request
from countersign.hook_formats import (
    APPROVAL_EVENTS,
    HookEventKind,
    build_hook_answer,
    build_hook_deny_answer,
)
from countersign.schema import infer_schema_from_values, replace_unstorable_characters

MAX_TITLE_CHARS = 80
MAX_ERROR_CHARS = 200
MAIN_INPUT_FIELDS = ("command", "file_path", "notebook_path", "url", "query")
_EVENT_NAME_PATTERN = re.compile(rb'"hook_event_name"\s{0,20}:\s{0,20}"([A-Za-z]{1,40})"')
_MAX_EVENT_NAME_BYTES = 100  # together with its key
UNKNOWN_EVENT_ERROR = "That is not what Claude Code sends before or after a tool."
USED_DIFFERENTLY_TEXT = "Claude Code used the tool with another input than the approved one."
RUNS_IN_BACKGROUND_TEXT = "It continues in the background, and its end is not seen."


@dataclass(frozen=True, slots=True)
class ToolUse:
    """One use of a tool by Claude Code, before or after it, as a hook reports it."""

    event: HookEventKind
    tool: str
    tool_input: dict[str, Any]
    session: str
    id: str
    folder: str
    payload: Mapping[str, Any]  # the whole JSON of the hook

    @property
    def idempotency_key(self) -> str:
        """Return the idempotency key with which people are asked about this use only once."""
        return f"claude-code:{self._hash_ids()}"

    def build_claimant_id(self, key_id: str) -> str:
        """Return the claimant's id for this use and this API key; the same in every process."""
        return self._hash_ids(key_id)

    @property
    def gets_outcome_report_later(self) -> bool:
        """Return whether Claude Code will report the outcome of this tool use."""
        return not self.id.startswith(hook_formats.OWN_ID_PREFIX)

    def _hash_ids(self, *more: str) -> str:
        return hashlib.sha256(json.dumps([self.session, self.id, *more]).encode()).hexdigest()

    def build_action(self, does: str) -> ActionSent:
        """Return the action that describes this use to people; raises pydantic.ValidationError."""
        field = next((each for each in MAIN_INPUT_FIELDS if each in self.tool_input), "")
        effect = request.escape_braces(f"Use {self.tool}") + (f": {{{field}}}" if field else "")
        return ActionSent.model_validate(
            {
                "name": hook_formats.build_action_name(self.tool),
                "title": f"Claude Code: {self.tool}"[:MAX_TITLE_CHARS],
                "effect": effect,
                "does": does or None,
                "schema": infer_schema_from_values(self.tool_input),
            }
        )

    @property
    def reason(self) -> str:
        """Return where Claude Code works, for the approver; what a use is for is an argument."""
        return f"Claude Code works in {self.folder}." if self.folder else ""

    def describe_outcome(self, approved: dict[str, Any]) -> tuple[bool | None, str]:
        """Return whether the approved use succeeded (None: not known), and a sentence about it.

        For a failure, the sentence is the first line of its error; it never has the tool's output.
        Claude Code may ignore an edited input, or take that of another hook.
        """
        if self.event is HookEventKind.DENIED:
            return False, "Claude Code's own auto mode did not let it be used."
        if not is_same_json(approved, self.tool_input):
            return None, USED_DIFFERENTLY_TEXT
        if self.event is HookEventKind.FAILED:
            lines = str(self.payload.get("error", "")).strip().splitlines()
            return False, lines[0][:MAX_ERROR_CHARS] if lines else "It failed."
        if self._is_in_background():
            return None, RUNS_IN_BACKGROUND_TEXT
        spent = self.payload.get("duration_ms")
        return True, f"done in {spent / 1000:.1f} s" if isinstance(spent, int | float) else "done"

    def _is_in_background(self) -> bool:
        response = self.payload.get("tool_response")
        launched = isinstance(response, dict) and (
            response.get(hook_formats.STATUS_FIELD) == "async_launched"
            or hook_formats.BACKGROUND_TASK_FIELD in response
        )
        return launched or self.tool_input.get("run_in_background") is True


def parse_tool_use(event: Any) -> ToolUse:
    """Return the use that a hook's JSON describes; if none, raises ValueError with a sentence."""
    try:
        tool_use = ToolUse(
            HookEventKind(event["hook_event_name"]),
            event["tool_name"],
            dict(event["tool_input"]),
            event["session_id"],
            hook_formats.get_use_id(event),
            event.get("cwd", ""),
            event,
        )
    except (AttributeError, KeyError, TypeError, ValueError):
        raise ValueError(UNKNOWN_EVENT_ERROR) from None
    texts = (tool_use.tool, tool_use.session, tool_use.id, tool_use.folder)
    if not all(isinstance(each, str) for each in texts) or not (tool_use.session and tool_use.id):
        raise ValueError(UNKNOWN_EVENT_ERROR)
    return tool_use


def drop_tool_output(body: bytes) -> bytes:
    """Return the body of a hook request, without the tool's output if it is sent after a use.

    The output is never stored, and might hold what no database accepts: half a character, U+0000.
    """
    try:
        event = json.loads(body)
        if event["hook_event_name"] in APPROVAL_EVENTS:
            return body
        short = hook_formats.drop_tool_output(event)
        return json.dumps(replace_unstorable_characters(short)).encode()
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        return body


def build_hook_allow_answer(
    use: ToolUse, found: RequestShown, arguments: dict[str, Any]
) -> dict[str, Any]:
    """Return the hook's answer that allows the use, with the arguments people approved."""
    by = f" by {', '.join(found.decided_by)}" if found.decided_by else ""
    # not by ==, for which true is 1; all fields, because they replace those given
    edited = {} if is_same_json(arguments, use.tool_input) else {"updatedInput": arguments}
    if use.event is HookEventKind.PERMISSION:
        return build_hook_answer(use.event, {"decision": {"behavior": "allow", **edited}})
    how = "Run without approval" if found.break_glass else "Approved"
    said = {"permissionDecision": "allow", "permissionDecisionReason": f"{how}{by}."}
    return build_hook_answer(use.event, {**said, **edited})


def describe_denial(found: RequestShown) -> str:
    """Return why a request that is not approved was not carried out."""
    if found.status is request.RequestStatus.CANCELLED:
        return "Nobody approved it in time."
    trouble = request.find_request_error(request.parse_request(found.model_dump(mode="json")))
    return str(trouble) if trouble else "It was done before, and is not done again."


class HookEventDetector:
    """Finds out which hook sent a body from the parts read so far, even of invalid JSON.

    Since a tool's input may name a hook, too, the hook is PermissionRequest only if the whole body
    names no other.
    """

    def __init__(self) -> None:
        self._last, self._named = b"", set[bytes]()
        self.is_whole = False

    def add_body_part(self, part: bytes, *, is_last: bool) -> None:
        """Add the next part of the hook request's body."""
        text = self._last + part
        self._named.update(found[1] for found in _EVENT_NAME_PATTERN.finditer(text))
        self._last, self.is_whole = text[-_MAX_EVENT_NAME_BYTES:], is_last

    @property
    def event(self) -> HookEventKind:
        """Return PermissionRequest if the whole body names only that hook, else PreToolUse."""
        is_it = self.is_whole and self._named == {HookEventKind.PERMISSION.encode()}
        return HookEventKind.PERMISSION if is_it else HookEventKind.BEFORE


HOOKS_PATH = "/v1/hooks"
CLAUDE_CODE_PATH = "/v1/hooks/claude-code"
UNREADABLE_REQUEST_ERROR = "The request could not be read."
_WORKSPACE_PREFIX_PATTERN = re.compile("/w/[te][a-z0-9]+(?=/)")  # if it serves many workspaces
_HOOK_PATH_WORDS = ("hook", "claude")  # in an address that may be a mistyped hook address
# paths that coding agents do not use; the random ids below them may contain such a word
_OTHER_PATHS = ("/v1/requests", "/v1/questions", "/slack", "/mcp", "/sign", "/passkeys")


def is_hook_request(method: str, path: str) -> bool:
    """Return whether a request is for the hook of a coding agent, or was meant to be.

    That is: any method at or below the hooks' address, or a POST to a similar address.
    """
    found = _WORKSPACE_PREFIX_PATTERN.sub("", re.sub("/+", "/", path.lower()))
    if found == HOOKS_PATH or found.startswith(f"{HOOKS_PATH}/"):
        return True
    other = any(found == each or found.startswith(f"{each}/") for each in _OTHER_PATHS)
    return method == "POST" and not other and any(each in found for each in _HOOK_PATH_WORDS)


def build_hook_denial_body(why: str, event: HookEventKind = HookEventKind.BEFORE) -> bytes:
    """Return the JSON body of a hook answer that denies a tool use."""
    return json.dumps(build_hook_deny_answer(why, event)).encode()
