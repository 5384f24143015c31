"""Slack calls that a token for a whole organisation has to make workspace by workspace.

Slack's reference has an argument `team_id` for these methods, "required if org token is used". Each
is asked in every workspace that the bot was given access to, and the answers are joined.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from slack_sdk.errors import SlackApiError
from slack_sdk.web import SlackResponse

from bot import slack_codes
from bot.policy.authority import Directory, LookupFailedError
from storage.record import Run

Json = dict[str, Any]
# by method: the list or object in its answer; callers of conversations.create give a workspace
RESULT_KEY_BY_METHOD = {
    "bots.info": "bot",
    "conversations.list": "channels",
    "dnd.teamInfo": "users",
    "usergroups.list": "usergroups",
    "users.conversations": "channels",
    "users.list": "members",
}
_NOT_FOUND_SUFFIXES = ("_not_found", "_not_visible")
# errors for a user of another workspace; users.conversations returns the first
_OTHER_WORKSPACE_CODES = ("invalid_arguments", "team_access_not_granted")


def call_in_workspaces(
    call: Callable[..., SlackResponse], method: str, arguments: Json, workspaces: Sequence[str]
) -> SlackResponse:
    """Make one call in each workspace, and return all pages of all answers joined into one.

    A workspace that refuses is left out: the person or channel is not in it, or access to it has
    just ended. Raises SlackApiError if all of them refuse, and for any other error.
    """
    name, parameters = RESULT_KEY_BY_METHOD[method], arguments.get("params") or {}
    page_contents: list[Any] = []
    answer: SlackResponse | None = None
    refused: SlackApiError | None = None
    for workspace in workspaces:
        try:
            first = call(**arguments | {"params": {**parameters, "team_id": workspace}})
            page_contents += [page[name] for page in first]
        except SlackApiError as error:
            code = slack_codes.extract_error_code(error)
            if not code.endswith(_NOT_FOUND_SUFFIXES) and code not in _OTHER_WORKSPACE_CODES:
                raise
            refused = error
        else:
            answer = answer or first
    if answer is None:
        if refused is not None:
            raise refused
        return call(**arguments)  # without any workspace: Slack says why it refuses
    joined = {name: _join(name, page_contents), "response_metadata": {"next_cursor": ""}}
    return SlackResponse(
        client=None,
        http_verb=answer.http_verb,
        api_url=answer.api_url,
        req_args=answer.req_args,
        data={"ok": True, **joined},
        headers=answer.headers,
        status_code=answer.status_code,
    )


def _join(name: str, page_contents: Sequence[Any]) -> Any:
    if not isinstance(page_contents[0], list):
        return {key: value for each in page_contents for key, value in each.items()}
    record_by_id: dict[str, Json] = {}
    for each in (record for records in page_contents for record in records):
        old = record_by_id.get(each["id"])
        if old is None:
            record_by_id[each["id"]] = each
        elif name == "members":  # active if active anywhere; of those, a guest if a guest in one
            record_by_id[each["id"]] = min(old, each, key=_rank_person)
        elif name == "usergroups":
            users = {*(old.get("users") or ()), *(each.get("users") or ())}
            record_by_id[each["id"]] = {**old, "users": sorted(users)}
    return list(record_by_id.values())


def _rank_person(found: Json) -> tuple[bool, bool]:
    is_guest = found.get("is_restricted") or found.get("is_ultra_restricted")
    return bool(found.get("deleted")), not is_guest


def find_recipient_team(directory: Directory, run: Run) -> str:
    """Return the workspace of a run's requester; in an organisation, one of those they are in."""
    if run.team.startswith("T"):
        return run.team
    try:
        person = directory.find_person(run.requester)
    except LookupFailedError:
        person = None
    teams = {person.team, *person.teams} if person else set()
    return min((each for each in teams if each.startswith("T")), default=run.team)
