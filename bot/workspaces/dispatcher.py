"""Hands Slack's payloads to the app of the workspace that each is for.

Socket Mode and the HTTP endpoint use it as they use a Bolt app; each workspace has one of its own.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from slack_bolt import BoltRequest, BoltResponse
from slack_sdk import WebClient

from bot.cards.field_layout import WHOLE_FORM
from bot.slack.client import is_own_event
from bot.slack.dialogs import build_refusal_of_submission
from bot.workspaces import removals
from bot.workspaces.hosted import NotServedError, NotSettledError, StoppingError
from storage import runs
from storage.installations import InstallationRecord
from storage.states import InstallationState

if TYPE_CHECKING:
    from bot.app import App

log = logging.getLogger("countersign.workspaces")
PAUSED_NOTICE = "The people who run Countersign paused it in this workspace. Nothing was done."
UNAVAILABLE_NOTICE = (
    "Countersign cannot work in this workspace at the moment. Nothing was done; try again later."
)
UseApp = Callable[[str], AbstractContextManager["App"]]


@dataclass(frozen=True, slots=True)
class WorkspaceDispatcher:
    """Passes each of Slack's payloads to the app of the installation it is for; for any thread."""

    _record: InstallationRecord
    _use_app: UseApp  # gives a workspace's app, started if need be
    # gets the events that end an installation or change its workspaces
    _handle_lifecycle_event: Callable[[dict[str, Any]], None]
    # Bolt's Socket Mode handler reads these two from its Bolt app
    client: WebClient  # without a token
    logger: logging.Logger = field(default=logging.getLogger("slack_bolt"), init=False)

    def dispatch(self, request: BoltRequest) -> BoltResponse:
        """Return the response to one payload; a status of 500 or more has Slack send it again."""
        payload = request.body
        if payload.get("type") == "url_verification":  # sent when the app's request URL is set
            return BoltResponse(status=HTTPStatus.OK, body=str(payload.get("challenge") or ""))
        if not is_well_formed(payload):
            log.warning("refused a payload that does not name its workspace as Slack does")
            return BoltResponse(status=HTTPStatus.OK)
        try:
            workspace = find_installation(payload, self._record, self._has_thread)
        except NotSettledError as error:
            log.warning("put off a delivery until its workspace is known: %s", error)
            return BoltResponse(status=HTTPStatus.BAD_GATEWAY)
        installation = workspace and self._record.get(workspace)
        if not installation:
            log.warning("refused a payload of a workspace where the bot is not installed")
            return BoltResponse(status=HTTPStatus.OK)
        is_event = payload.get("type") == "event_callback"
        event_type = payload["event"].get("type") if is_event else None
        if event_type in removals.REMOVAL_EVENTS:
            self._handle_lifecycle_event(payload)
        ends = event_type in removals.REMOVAL_EVENTS - removals.ACCESS_EVENTS
        if ends or installation.state is not InstallationState.ACTIVE:
            notice = _build_notice(payload, PAUSED_NOTICE)
            # for a click, Slack must say that it did not work
            status = HTTPStatus.OK if is_event else HTTPStatus.BAD_GATEWAY
            return notice or BoltResponse(status=status)
        if is_own_event(payload, {installation.bot_user, installation.bot_id} - {""}):
            return BoltResponse(status=HTTPStatus.OK)
        # not in other interactions: the app must see whether they come from another company
        if installation.is_org_wide or is_event:
            write_installation_id(payload, installation.workspace)
        return self._dispatch_to_app(
            installation.workspace, request, forget=event_type in removals.ACCESS_EVENTS
        )

    def _dispatch_to_app(
        self, workspace: str, request: BoltRequest, *, forget: bool
    ) -> BoltResponse:
        """Have a workspace's app handle a payload; `forget`: clear its cached look-ups first."""
        # built anew, as the first one read the team and the like before they were rewritten
        sent = BoltRequest(body=request.body, headers=request.headers, mode="socket_mode")
        try:
            with (
                self._use_app(workspace) as app,
                app.core.signals.arrivals.track_unacknowledged_delivery(),
            ):
                if forget:
                    app.directory.clear_cache()
                return app.bolt.dispatch(sent)
        except NotServedError as error:
            log.error("refused a delivery of the workspace %s: %s", workspace, error)
            if notice := _build_notice(request.body, UNAVAILABLE_NOTICE):
                return notice
            # after a 503, a balancer sends this process nothing more, for no workspace
            is_stopping = isinstance(error, StoppingError)
            status = HTTPStatus.SERVICE_UNAVAILABLE if is_stopping else HTTPStatus.BAD_GATEWAY
            return BoltResponse(status=status)

    def _has_thread(self, workspace: str, channel: str, thread_ts: str) -> bool:
        """Return whether this Slack thread is that of a request in this workspace."""
        try:
            with self._use_app(workspace) as app, app.core.store.read() as tx:
                team = app.core.identity.team
                return runs.find_newest_run_in_thread(tx, team, channel, thread_ts) is not None
        except NotSettledError:
            raise  # the process that has the workspace can tell
        except NotServedError:
            return False


def _build_notice(payload: dict[str, Any], text: str) -> BoltResponse | None:
    """Return a response that shows this text to the sender of a command or dialog, else None.

    A dialog stays open and keeps its input.
    """
    said: dict[str, Any] = {"response_type": "ephemeral", "text": text}
    if payload.get("type") == "view_submission" and (payload.get("view") or {}).get("blocks"):
        said = build_refusal_of_submission(payload["view"], {WHOLE_FORM: text})
    elif "command" not in payload:
        return None
    return BoltResponse(status=HTTPStatus.OK, body=said)


# The installation that a payload is for, if one app is installed in many workspaces. Slack's
# reference has the fields: `authorizations` of events, `team`, `enterprise` and
# `is_enterprise_install` of interactions and commands.

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
