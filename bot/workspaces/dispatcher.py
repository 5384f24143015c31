"""Hands Slack's payloads to the app of the workspace that each is for.

Socket Mode and the HTTP endpoint use it as they use a Bolt app; each workspace has one of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from slack_bolt import BoltRequest, BoltResponse
from slack_sdk import WebClient

from bot.cards.field_layout import WHOLE_FORM
from bot.slack.client import is_own_event
from bot.slack.dialogs import build_refusal_of_submission
from bot.workspaces import payloads, removals
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
        if not payloads.is_well_formed(payload):
            log.warning("refused a payload that does not name its workspace as Slack does")
            return BoltResponse(status=HTTPStatus.OK)
        try:
            workspace = payloads.find_installation(payload, self._record, self._has_thread)
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
            payloads.write_installation_id(payload, installation.workspace)
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
