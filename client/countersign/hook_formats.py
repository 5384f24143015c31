"""What Claude Code sends to its hooks about the use of a tool, and the answers to it. Pure.

Its formats: https://code.claude.com/docs/en/hooks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any
from uuid import uuid4

MAX_NAME_CHARS = 64
OUTPUT_FIELD = "hookSpecificOutput"
NO_WORKAROUND_TEXT = "Do not try to get it done in another way."
OWN_ID_PREFIX = "countersign-"  # of the id we make if Claude Code gives none
# of a tool's response: its status and background task; the rest is not sent
RESPONSE_FIELDS = STATUS_FIELD, BACKGROUND_TASK_FIELD = "status", "backgroundTaskId"


class HookEventKind(StrEnum):
    """The kinds of Claude Code hooks that are answered."""

    BEFORE = "PreToolUse"
    PERMISSION = "PermissionRequest"  # when Claude Code would ask its user
    DONE = "PostToolUse"
    FAILED = "PostToolUseFailure"
    DENIED = "PermissionDenied"  # by Claude Code's auto mode, after our hook had allowed it


APPROVAL_EVENTS = (HookEventKind.BEFORE, HookEventKind.PERMISSION)


# of an answer: what decides about the use, the decision itself first
DECISION_FIELDS = {
    HookEventKind.BEFORE: ("permissionDecision", "permissionDecisionReason", "updatedInput"),
    HookEventKind.PERMISSION: ("behavior", "message", "updatedInput"),
}


def get_use_id(said: Mapping[str, Any]) -> Any:
    """Return the id of a use; a new one for a request for permission that has none."""
    is_permission = said["hook_event_name"] == HookEventKind.PERMISSION
    return said.get("tool_use_id") or (f"{OWN_ID_PREFIX}{uuid4().hex}" if is_permission else None)


def build_action_name(tool: str) -> str:
    """Return the name by which the policy and receipts know a tool of Claude Code."""
    return re.sub(r"\W", "_", f"claude_{tool}", flags=re.ASCII)[:MAX_NAME_CHARS]


def drop_tool_output(said: Mapping[str, Any]) -> dict[str, Any]:
    """Return a hook's input after a use, without the tool's output."""
    response = said.get("tool_response")
    kept = response if isinstance(response, dict) else {}
    short = {name: kept[name] for name in RESPONSE_FIELDS if name in kept}
    return {**said, "tool_response": short}


def build_hook_deny_answer(why: str, event: HookEventKind = HookEventKind.BEFORE) -> dict[str, Any]:
    """Return the hook's answer that denies a tool use; Claude reads the sentence `why`."""
    said = f"{why.rstrip('.')}. {NO_WORKAROUND_TEXT}"
    if event is HookEventKind.PERMISSION:
        return build_hook_answer(event, {"decision": {"behavior": "deny", "message": said}})
    decided = {"permissionDecision": "deny", "permissionDecisionReason": said}
    return build_hook_answer(HookEventKind.BEFORE, decided)


def build_decision_answer(event: HookEventKind, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer to a hook before a use with the fields that decide about it."""
    decides = dict(fields) if event is HookEventKind.BEFORE else {"decision": dict(fields)}
    return build_hook_answer(event, decides)


def build_hook_answer(event: HookEventKind, decided: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer to this hook with what was decided."""
    return {OUTPUT_FIELD: {"hookEventName": event.value, **decided}}
