"""The records of the local Slack: payloads, calls, messages, streams, statuses, triggers, views.

Plain data; what happens to them is decided elsewhere, under the world's lock.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slack_sandbox.spec.slack_error import Json
    from slack_sandbox.workspace.apps import App


@dataclass(slots=True, eq=False)
class Delivery:
    """One payload on its way to an app, over all its attempts.

    Times are `time.monotonic()` seconds.
    """

    kind: str  # events_api | interactive | slash_commands | url_verification
    payload: Json
    app: App
    accepts_response_payload: bool = False
    envelope_id: str = ""  # of the latest attempt
    envelope_ids: list[str] = field(default_factory=list)
    socket_id: int | None = None
    attempts: int = 0
    sent_at: float | None = None
    acked_at: float | None = None
    acked_by: int | None = None  # number of the socket on which the acknowledgement came
    ack: Json | None = None  # the payload of the acknowledgement
    outcome: str = "pending"  # pending | acked | timeout | no_socket | unreachable | http_error
    next_at: float | None = None  # sandbox seconds; when the next retry is due
    retry_reason: str = ""  # why the latest attempt failed, for the next one's retry_reason
    settled: threading.Event = field(default_factory=threading.Event)
    on_settled: Callable[[Delivery], None] | None = None  # runs once, under the world's lock

    @property
    def event(self) -> Json:
        """The inner event of an events_api delivery, else {}."""
        event: Json = self.payload.get("event", {})
        return event

    @property
    def ok(self) -> bool:
        """Whether the app acknowledged it in time."""
        return self.outcome == "acked"

    def settle(self, outcome: str) -> None:
        """Store how it ended; call this with the world's lock held."""
        self.outcome = outcome
        if self.on_settled:
            self.on_settled(self)
        self.settled.set()

    def wait(self, timeout: float = 20.0) -> str:
        """The outcome, once there is one; TimeoutError after `timeout` seconds."""
        if not self.settled.wait(timeout):
            raise TimeoutError(f"no outcome of {self.kind} {self.envelope_id} within {timeout} s")
        return self.outcome


@dataclass(slots=True)
class ApiCall:
    """One call of the Web API, as it was answered.

    `response` is None if the connection was cut.
    """

    method: str
    args: Json
    response: Json | None
    status: int
    at: datetime
    app_id: str = ""  # the calling app, if the token was an app's
    team: str = ""  # the token's workspace
    ms: float = 0.0  # from the request to the answer


STREAM_TIMEOUT_SECONDS = 600  # without an append, after which a stream is abandoned


@dataclass(slots=True)
class Stream:
    """A message that is being streamed."""

    state: str  # in_progress | completed | stopped_by_user | abandoned
    touched: float  # sandbox seconds of the last append
    display: str = "timeline"
    mode: str = ""  # text | chunks, by its first content; "" while it is empty
    text: str = ""  # its whole text so far
    title: str = ""  # the plan's title
    # each task's state after its updates, by id
    tasks: dict[str, Json] = field(default_factory=dict)
    # in order: blocks, and where tasks and the plan are
    parts: list[Json] = field(default_factory=list)

    def state_at(self, now: float) -> str:
        """The state at a moment of the sandbox's time: one that nobody adds to is abandoned."""
        return (
            "abandoned"
            if self.state == "in_progress" and now - self.touched > STREAM_TIMEOUT_SECONDS
            else self.state
        )


@dataclass(slots=True, eq=False)
class Message:
    """One message; `body` is what the API shows, without metadata and thread counters."""

    channel: str
    body: Json
    metadata: Json | None = None
    only_for: str = ""  # user id of an ephemeral message's reader; no method can address it
    stream: Stream | None = None
    app_id: str = ""  # the app that posted it

    @property
    def ts(self) -> str:
        """The message's id within its channel."""
        return str(self.body["ts"])

    @property
    def root(self) -> str:
        """The ts of the thread it stands in, which is its own for a top-level message."""
        return str(self.body.get("thread_ts") or self.body["ts"])


@dataclass(slots=True)
class Status:
    """ "… is thinking": shown in one thread until the next message or for two minutes."""

    channel: str
    thread_ts: str
    status: str
    until: float  # sandbox seconds
    app_id: str
    loading: list[str] = field(default_factory=list)  # texts shown in turn meanwhile


@dataclass(slots=True)
class Trigger:
    """Permission to open one modal, within three seconds."""

    user: str
    app_id: str
    born: float  # time.monotonic()
    view_id: str = ""  # the view it was created from
    channel_id: str = ""  # the conversation the person was looking at
    team: str = ""  # the workspace they were in
    teams: tuple[str, ...] = ()  # workspaces whose tokens may use it: that one, and the app's
    used: bool = False


@dataclass(slots=True, eq=False)
class View:
    """One open modal or a Home tab: its JSON, and what its viewer typed so far."""

    user: str
    body: Json
    values: Json  # block_id -> action_id -> element state
    app_id: str
    channel_id: str = ""  # the conversation its viewer was looking at

    @property
    def id(self) -> str:
        """The view's id."""
        return str(self.body["id"])

    def with_state(self) -> Json:
        """The view's JSON as interaction payloads carry it, with the values of its inputs."""
        return copy.deepcopy(self.body) | {"state": {"values": copy.deepcopy(self.values)}}


@dataclass(slots=True)
class OAuthCode:
    """A person's consent, to be exchanged for a token once, within ten minutes."""

    app_id: str
    scopes: frozenset[str]
    redirect_uri: str  # as the app sent it; "" if it did not
    user: str
    until: float  # sandbox seconds
    team: str  # the workspace that consents, or the org of an org-wide install
    grants: tuple[str, ...] = ()  # workspaces to which an org-wide install is to be added
    used: bool = False


@dataclass(slots=True)
class ResponseUrl:
    """Permission to answer an interaction: five times within thirty minutes."""

    channel: str
    ts: str
    user: str
    app_id: str
    until: float  # sandbox seconds
    team: str  # only this workspace's installation of the app may answer
    uses: int = 0
