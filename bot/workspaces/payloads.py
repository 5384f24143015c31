"""Finds the installation that a Slack payload is for, if one app is installed in many workspaces.

Slack's reference has the fields: `authorizations` of events, `team`, `enterprise` and
`is_enterprise_install` of interactions and commands.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from bot.workspaces import removals
from storage.installations import InstallationRecord

HasThread = Callable[[str, str, str], bool]  # whether a thread belongs to an installation's request
_MENTION_PATTERN = re.compile(r"<@([UW][A-Z0-9]+)")
_SLACK_ID_PATTERN = re.compile("[A-Z0-9]{0,40}")
_ID_FIELDS = (
    *("team_id", "enterprise_id", "context_team_id", "context_enterprise_id"),
    *("app_installed_team_id", "bot_id"),
)


def is_well_formed(payload: Mapping[str, Any]) -> bool:
    """Return whether the fields that say which workspace a payload is for have Slack's form."""
    authorizations = payload.get("authorizations") or []
    if not isinstance(authorizations, list):
        return False
    if payload.get("type") == "event_callback" and not isinstance(payload.get("event"), Mapping):
        return False
    named = ("team", "enterprise", "view", "message", "user")
    parts = [payload, *authorizations, *(payload.get(name) or {} for name in named)]
    if not all(isinstance(part, Mapping) for part in parts):
        return False
    ids = [part.get(name) for part in parts for name in _ID_FIELDS]
    ids += [(payload.get(name) or {}).get("id") for name in ("team", "enterprise")]
    return all(map(_is_id, ids))


def _is_id(value: object) -> bool:
    return value is None or (
        isinstance(value, str) and _SLACK_ID_PATTERN.fullmatch(value) is not None
    )


def find_installation(
    payload: Mapping[str, Any], record: InstallationRecord, has_thread: HasThread
) -> str | None:
    """Return the id of the installation that a payload is for; None if there is none.

    The payload has to be well-formed. In a channel that two of them share, a message belongs to
    the one whose bot it mentions, or whose request the thread is of, and a click to the one that
    posted the card.
    """
    is_event = payload.get("type") == "event_callback"
    teams = _list_event_teams(payload) if is_event else _list_sender_teams(payload)
    named = [each for each in (record.find_workspace_of(*team) for team in teams) if each]
    workspace = None
    if not is_event:
        if bot := _get_posting_bot(payload):
            workspace = _choose(record.list_workspaces_of_bot(bot), named)
    elif payload.get("is_ext_shared_channel") and "text" in payload["event"]:
        workspace = _find_by_shared_thread(payload, named, record, has_thread)
    return workspace or next(iter(named), None)


def _choose(owners: Sequence[str], named: Sequence[str]) -> str | None:
    """Return the first of `named` that is an owner, else the first owner; None without owners."""
    return next((each for each in (*named, *owners) if each in owners), None)


def _find_by_shared_thread(
    payload: Mapping[str, Any],
    named: Sequence[str],
    record: InstallationRecord,
    has_thread: HasThread,
) -> str | None:
    """Return the installation that a message in a shared channel is for; None if it says of none.

    That is the one whose bot the message mentions, or whose request its thread is about.
    """
    event = payload["event"]
    for each in _MENTION_PATTERN.findall(str(event["text"])):
        if mentioned := _choose(record.list_workspaces_of_bot(each), named):
            return mentioned
    thread = event.get("thread_ts")
    if not isinstance(thread, str) or not _is_id(event.get("channel")):
        return None
    authors = [event.get(each) for each in ("team", "user_team", "source_team")]
    author_workspaces = (
        record.find_workspace_of(each) for each in authors if each and _is_id(each)
    )
    for candidate in (*named, *author_workspaces):
        if candidate and has_thread(candidate, str(event.get("channel")), thread):
            return candidate
    return None


def _list_event_teams(payload: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the (team, enterprise) that an event is for, the likeliest first.

    An event is for a whole organisation only if it names no workspace, or is about the installation
    itself: the organisation may not have let the bot into the workspace that it names.
    """
    for each in payload.get("authorizations") or ():
        team, enterprise = each.get("team_id") or "", each.get("enterprise_id") or ""
        yield team if team.startswith("T") else "", enterprise
        if enterprise and payload["event"].get("type") in removals.REMOVAL_EVENTS:
            yield "", enterprise
    enterprise = payload.get("context_enterprise_id") or payload.get("enterprise_id") or ""
    for name in ("context_team_id", "team_id"):
        if team := payload.get(name):
            yield str(team), str(enterprise)


def _list_sender_teams(payload: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the (team, enterprise) that an interaction or a command comes from."""
    enterprise = (payload.get("enterprise") or {}).get("id") or payload.get("enterprise_id") or ""
    view, user = payload.get("view") or {}, payload.get("user") or {}
    teams = (
        view.get("app_installed_team_id"),
        (payload.get("team") or {}).get("id") or payload.get("team_id"),
        user.get("team_id"),
    )
    for team in teams:
        if team:
            yield ("", team) if str(team).startswith("E") else (team, enterprise)
    if enterprise and "command" not in payload:  # whoever clicks may be in any of its workspaces
        yield "", enterprise


def _get_posting_bot(payload: Mapping[str, Any]) -> str:
    """Return the id of the bot that posted the message or opened the view of an interaction."""
    shown = (payload.get(each) or {} for each in ("message", "view"))
    return next((str(each["bot_id"]) for each in shown if each.get("bot_id")), "")


def write_installation_id(payload: dict[str, Any], workspace: str) -> None:
    """Write the id of the installation that a payload is for where it names a workspace.

    To its app, an organisation-wide installation is one workspace: the whole organisation. And for
    a message in a channel that several installations share, Slack may name any of them.
    """
    if payload.get("type") == "event_callback":
        payload["team_id"] = payload["context_team_id"] = workspace
        payload["authorizations"] = [
            {**each, "team_id": workspace} for each in payload.get("authorizations") or ()
        ]
    elif "command" in payload:
        payload["team_id"] = workspace
    else:
        payload["team"] = {**(payload.get("team") or {}), "id": workspace}
