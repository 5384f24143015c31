"""The live check's steps in one person's direct messages, and the removal of what they made.

If a step fails, the next is still tried, if it can be. Messages are found by the key in
their metadata, even if Slack's answer was lost.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeVar

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError
from slack_sdk.web import SlackResponse

from bot.clock import SystemClock
from bot.slack.client import get_retry_after_seconds, is_permanent_refusal, is_rate_limited
from bot.slack_codes import extract_error_code
from countersign.cli.console import print_error

P = ParamSpec("P")
T = TypeVar("T")
OK = "ok"
SKIPPED_LABEL = "left out"
_SCOPES_PATTERN = re.compile(r"[a-z_.:,]{1,200}")


@dataclass(frozen=True, slots=True)
class LiveStep:
    """One step of the live check: the Slack method, the result, and how long it took."""

    step: str  # what was tried, for people
    method: str  # Slack's
    result: str  # `ok`, Slack's error code, or the kind of another error
    seconds: float | None = None  # None: not tried
    is_refused: bool = False  # Slack itself refused, so nothing was changed

    @property
    def is_ok(self) -> bool:
        """Whether the step succeeded."""
        return self.result == OK


@dataclass(slots=True)
class LiveStepRunner:
    """Runs the live check's steps and keeps the result of each; used by one thread."""

    on_step: Callable[[LiveStep], object] = lambda _: None  # called after each step
    all_steps: list[LiveStep] = field(default_factory=list)
    retry_after: float = 0.0  # the last Retry-After from Slack, in seconds

    def run_step(
        self, step: str, method: str, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> T | None:
        """Run `call` as a step and note the result; return what it gave, None if it failed."""
        begun = time.perf_counter()
        try:
            result = call(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - whatever it is is told, and the rest goes on
            refused = isinstance(error, SlackApiError) and is_permanent_refusal(error)
            took = time.perf_counter() - begun
            if isinstance(error, SlackApiError) and is_rate_limited(error):
                self.retry_after = get_retry_after_seconds(error)
            self.record_step(step, method, describe_step_error(error), took, is_refused=refused)
            return None
        self.record_step(step, method, OK, time.perf_counter() - begun)
        return result

    def may_have_taken_effect(self) -> bool:
        """Return whether the last step may have had an effect, even if it failed."""
        return not self.all_steps[-1].is_refused

    def record_skipped_step(self, step: str, method: str, why: str) -> None:
        """Note that a step could not be tried, and why."""
        self.record_step(step, method, f"{SKIPPED_LABEL}: {why}")

    def record_step(
        self,
        step: str,
        method: str,
        result: str,
        seconds: float | None = None,
        *,
        is_refused: bool = False,
    ) -> None:
        """Record a step that its caller ran and timed; see `LiveStep`."""
        self.all_steps.append(LiveStep(step, method, result, seconds, is_refused))
        self.on_step(self.all_steps[-1])


def describe_step_error(error: Exception) -> str:
    """Return Slack's error code, with the missing scope or the wait; else the error's class name.

    "HTTP" and the status stand for an answer without a code.
    """
    if not isinstance(error, SlackApiError):
        return type(error).__name__
    code = extract_error_code(error)
    if not code:
        return f"HTTP {getattr(error.response, 'status_code', '?')}"
    if is_rate_limited(error):
        return f"{code} (Slack allows it again in {get_retry_after_seconds(error):.0f} s)"
    needed = error.response.get("needed") if hasattr(error.response, "get") else None
    is_scope = isinstance(needed, str) and _SCOPES_PATTERN.fullmatch(needed)
    return f"{code} (needs {needed})" if is_scope else code


def render_live_report(steps: Sequence[LiveStep], facts: Sequence[str], cut_short: bool) -> str:
    """Return the steps as a Markdown report, to be pasted into an issue."""
    wrong = [each for each in steps if not each.is_ok]
    lines = ["## Countersign, tried live", "", *(f"- {each}" for each in facts)]
    lines.append(f"- {len(steps) - len(wrong)} of {len(steps)} steps succeeded")
    if cut_short:
        lines.append("- It was interrupted; what it had created was deleted.")
    lines += ["", "| step | method | result | ms |", "|---|---|---|---|"]
    for each in steps:
        took = "" if each.seconds is None else f"{each.seconds * 1000:.0f}"
        lines.append(f"| {each.step} | `{each.method}` | {each.result} | {took} |")
    return "\n".join(lines)


METADATA_EVENT_TYPE = "countersign_live"
MAX_CLOCK_DRIFT_SECONDS = 600.0  # between this machine's clock and Slack's
BUSY_STATUS_TEXT = "is testing…"
EMPTY_STATUS_TEXT = ""
MAX_MESSAGES_PER_PAGE = 100
MAX_WAIT_SECONDS = 60.0  # after that, Slack's limits per minute allow calls again
GONE_ERROR_CODES = (
    "message_not_found",
    "file_not_found",
    "file_deleted",
    "message_not_in_streaming_state",
)
TRIAL_MESSAGE_TEXT = "Countersign is testing this workspace; this message is deleted in a moment."


class MessageNotFoundError(Exception):
    """Raised when a message that was posted is not found in its channel."""


class UploadTrackingClient(WebClient):
    """A WebClient that remembers the files it began to upload, even if an upload failed."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.started_uploads: set[str] = set()

    def files_getUploadURLExternal(self, **arguments: Any) -> SlackResponse:
        """Call WebClient's method, and remember the id of the file."""
        found = super().files_getUploadURLExternal(**arguments)
        self.started_uploads.add(str(found["file_id"]))
        return found


@dataclass(slots=True)
class LiveTrial:
    """A trial of Slack's methods in one person's direct messages, and what it made there."""

    client: UploadTrackingClient
    steps: LiveStepRunner
    user: str
    team: str
    key: str  # an unguessable text in everything that is made
    channel: str = ""
    root_ts: str = ""  # the message in whose thread the rest is tried
    stream_ts: str = ""  # a stream that may still be open
    posted_ts: set[str] = field(default_factory=set)  # messages known to exist
    unknown_posts: int = 0  # messages that may exist, with unknown ts
    has_status: bool = False
    has_session: bool = False
    has_home: bool = False
    started_at: float = field(default_factory=lambda: SystemClock().now().timestamp())

    def call_method(self, step: str, method: str, **arguments: Any) -> SlackResponse | None:
        """Call a method of Slack's as a step; return the answer, None if it failed."""
        call = getattr(self.client, method.replace(".", "_"), None)
        if call is None:  # slack_sdk does not have it yet
            return self.steps.run_step(step, method, self.client.api_call, method, json=arguments)
        answer: SlackResponse | None = self.steps.run_step(step, method, call, **arguments)
        return answer

    def run_message_steps(self) -> None:
        """Open the direct messages; post, find by metadata, change and mark a message there."""
        take = self.call_method
        opened = take("open the direct messages", "conversations.open", users=self.user)
        self.channel = str(opened["channel"]["id"]) if opened else ""
        if not self.channel:
            self.steps.record_skipped_step(
                "all that stands in messages", "chat.*", "no direct messages"
            )
            return
        self.root_ts = self.post_message("post a message", TRIAL_MESSAGE_TEXT)
        message_ts = self.steps.run_step(
            "find it by its metadata", "conversations.history", self._get_message_ts
        )
        if message_ts and not self.root_ts:  # Slack's answer to the post was lost
            self.root_ts, self.unknown_posts = str(message_ts), 0
        self.root_ts = self.root_ts or self.post_message(
            "post one more, for the next steps", TRIAL_MESSAGE_TEXT
        )
        if not self.root_ts:
            self.steps.record_skipped_step("change it, react to it", "chat.update", "no message")
            return
        at: dict[str, Any] = {"channel": self.channel, "ts": self.root_ts}
        changed = f"{TRIAL_MESSAGE_TEXT} (changed)"
        take("change it", "chat.update", **at, text=changed)
        mark: dict[str, Any] = {"channel": self.channel, "timestamp": self.root_ts, "name": "eyes"}
        if take("react to it", "reactions.add", **mark) is not None:
            take("remove the reaction", "reactions.remove", **mark)

    def post_message(self, step: str, text: str, blocks: list[dict[str, Any]] | None = None) -> str:
        """Post a message with the trial's key in its metadata; return its ts, "" if that failed."""
        options: dict[str, Any] = {"blocks": blocks} if blocks else {}
        options["metadata"] = {
            "event_type": METADATA_EVENT_TYPE,
            "event_payload": {"key": self.key},
        }
        self.unknown_posts += 1
        posted = self.call_method(
            step, "chat.postMessage", channel=self.channel, text=text, **options
        )
        message_ts = str(posted["ts"]) if posted else ""
        self.posted_ts |= {message_ts} - {""}
        if message_ts or not self.steps.may_have_taken_effect():
            self.unknown_posts -= 1
        return message_ts

    def show_status_and_stream(self) -> None:
        """Try a status, an agent session and a streamed message in the posted message's thread."""
        take = self.call_method
        if not self.root_ts:
            self.steps.record_skipped_step(
                "status, session and stream", "assistant.*", "no message"
            )
            return
        self._set_thread_status("show a status", BUSY_STATUS_TEXT)
        self.has_status = self.steps.may_have_taken_effect()
        self._set_session_status("start a session", "processing")
        self.has_session = self.steps.may_have_taken_effect()
        place: dict[str, Any] = {"channel": self.channel, "thread_ts": self.root_ts}
        whose: dict[str, Any] = {"recipient_user_id": self.user, "recipient_team_id": self.team}
        begun = take("start a stream", "chat.startStream", **place, **whose, markdown_text="One, ")
        self.stream_ts = str(begun["ts"]) if begun else ""
        self.posted_ts |= {self.stream_ts} - {""}
        if not self.stream_ts:
            self.steps.record_skipped_step("continue and end it", "chat.stopStream", "no stream")
            return
        of: dict[str, Any] = {"channel": self.channel, "ts": self.stream_ts}
        take("continue it", "chat.appendStream", **of, markdown_text="two.")
        if take("end it", "chat.stopStream", **of) is not None:
            self.stream_ts = ""

    def upload_file(self) -> None:
        """Upload a small file into the thread of the posted message."""
        method = "files.completeUploadExternal"
        if not self.root_ts:
            self.steps.record_skipped_step("upload a file", method, "no message")
            return
        self.steps.run_step(
            "upload a file",
            method,
            self.client.files_upload_v2,
            channel=self.channel,
            thread_ts=self.root_ts,
            filename=f"{self.key}.txt",
            content="Countersign is testing an upload.\n",
            title="Countersign is testing an upload",
        )

    def publish_home(self) -> None:
        """Publish the person's Home tab; the bot redraws the tab when it is opened next."""
        self._publish_home_text("publish Home", TRIAL_MESSAGE_TEXT)
        self.has_home = self.steps.may_have_taken_effect()

    def remove_everything(self) -> None:
        """Remove all that the trial made in Slack, including messages whose ts was lost."""
        if self.has_status:
            self._set_thread_status("clear the status", EMPTY_STATUS_TEXT)
        if self.has_session:
            self._set_session_status("end the session", "active")
        if self.has_home:
            text = "Countersign fills this page when you open it again."
            self._publish_home_text("clear Home", text)
        if not self.channel:
            return
        self.steps.retry_after = 0.0
        if not self._delete_everything():
            if wait := min(self.steps.retry_after, MAX_WAIT_SECONDS):
                print_error(
                    f"Slack limits how often it can be called: the rest is deleted in {wait:.0f} s."
                )
                time.sleep(wait)
            self._delete_everything()

    def _delete_everything(self) -> bool:
        """Delete the messages and files that were made; return whether each step succeeded."""
        before = len(self.steps.all_steps)
        if self.stream_ts:
            at = {"channel": self.channel, "ts": self.stream_ts}
            self._remove("end the stream", "chat.stopStream", at)
        messages = (
            self.steps.run_step(
                "find what was created", "conversations.replies", self._list_made_messages
            )
            or {}
        )
        for file in sorted(self.client.started_uploads.union(*messages.values())):
            self._remove("delete the file", "files.delete", {"file": file})
        # newest first, so that replies are deleted before the message that starts their thread
        for ts in sorted(self.posted_ts | messages.keys(), reverse=True):
            at = {"channel": self.channel, "ts": ts}
            if self._remove("delete a message", "chat.delete", at):
                self.posted_ts.discard(ts)
        return all(each.is_ok for each in self.steps.all_steps[before:])

    def _get_message_ts(self) -> str:
        """Return the ts of the message with the trial's key; raises MessageNotFoundError."""
        found = [
            str(each["ts"]) for each in self._load_history() if _get_trial_key(each) == self.key
        ]
        if not found:
            raise MessageNotFoundError
        return found[-1]

    def _load_history(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.client.conversations_history(
            channel=self.channel,
            oldest=f"{self.started_at - MAX_CLOCK_DRIFT_SECONDS:.6f}",
            include_all_metadata=True,
            limit=MAX_MESSAGES_PER_PAGE,
        )["messages"]
        return found

    def _list_made_messages(self) -> dict[str, set[str]]:
        """Return the ts of the messages that were made, each with the ids of its files.

        What stands outside the thread is searched for only if need be: some apps may read their
        direct messages once a minute, and have done so.
        """
        tops = {
            str(each["ts"]): each
            for each in (self._load_history() if self.unknown_posts else ())
            if _get_trial_key(each) == self.key
        }
        messages = {ts: _list_trial_files(each, self.key) for ts, each in tops.items()}
        for ts in {*tops, *filter(None, [self.root_ts])}:
            pages = self.client.conversations_replies(
                channel=self.channel, ts=ts, limit=MAX_MESSAGES_PER_PAGE
            )
            for each in pages["messages"]:
                if each.get("bot_id") or _list_trial_files(each, self.key):
                    messages[str(each["ts"])] = _list_trial_files(each, self.key)
        return messages

    def _remove(self, step: str, method: str, arguments: dict[str, Any]) -> bool:
        """Call a Slack method that ends or deletes something; return whether that is gone."""

        def end() -> bool:
            try:
                self.client.api_call(method, json=arguments)
            except SlackApiError as error:
                if extract_error_code(error) not in GONE_ERROR_CODES:
                    raise
            return True

        return self.steps.run_step(step, method, end) is not None

    def _set_thread_status(self, step: str, status: str) -> None:
        place = {"channel_id": self.channel, "thread_ts": self.root_ts}
        self.call_method(step, "assistant.threads.setStatus", **place, status=status)

    def _set_session_status(self, step: str, state: str) -> None:
        place = {"channel_id": self.channel, "thread_ts": self.root_ts}
        whose = {"status": state, "initiator_user_id": self.user}
        self.call_method(step, "agents.sessions.setStatus", **place, **whose)

    def _publish_home_text(self, step: str, text: str) -> None:
        section = {"type": "section", "text": {"type": "plain_text", "text": text}}
        view = {"type": "home", "blocks": [section]}
        self.call_method(step, "views.publish", user_id=self.user, view=view)


def _get_trial_key(message: dict[str, Any]) -> str:
    payload = (message.get("metadata") or {}).get("event_payload") or {}
    return str(payload.get("key") or "")


def _list_trial_files(message: dict[str, Any], key: str) -> set[str]:
    found = message.get("files") or ()
    return {str(each["id"]) for each in found if str(each.get("name")) == f"{key}.txt"}
