"""A Slack that keeps messages, and loses answers, limits and fails as its weather has it.

It is behind slack_sdk's client, in place of HTTP.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.error import URLError

from slack_sdk.web import SlackResponse

from bot.slack.client import SlackClient
from tests.proof.simulation.fibers import Scheduler
from tests.proof.simulation.workspace import ALONE, Workspace
from tests.runs.fakes import BOT

Json = dict[str, Any]
MAX_EARLIER_STATES = 4  # earlier states of a message that somebody may still see
PERIOD = 86_400  # seconds in which the n-th messages of two workspaces have the same time
READS = ("conversations.replies", "conversations.history", "chat.getPermalink")


@dataclass
class Weather:
    """How often things go wrong, for each call."""

    limited: float = 0.02
    broken: float = 0.02  # the connection breaks before Slack has the call
    lost: float = 0.03  # it breaks afterwards
    failing: float = 0.02  # a 500, whether or not Slack has the call
    down: float = 0.03  # a look-up fails

    def calm(self) -> None:
        """Nothing goes wrong any more."""
        self.limited = self.broken = self.lost = self.failing = self.down = 0.0


@dataclass
class Post:
    """One message as it is in Slack."""

    channel: str
    ts: str
    thread_ts: str
    text: str
    blocks: list[Json]
    bot: str
    key: str = ""  # the outbox's key, in its metadata
    streaming: str = ""
    before: list[list[Json]] = field(default_factory=list)  # its earlier blocks

    def show(self, text: str, blocks: list[Json]) -> None:
        """Show this from now on."""
        if blocks != self.blocks:
            self.before = [*self.before, self.blocks][-MAX_EARLIER_STATES:]
        self.text, self.blocks = text, blocks

    def as_json(self) -> Json:
        """The message as Slack returns it."""
        made: Json = {"type": "message", "ts": self.ts, "text": self.text, "user": BOT}
        made |= {"bot_id": self.bot, "blocks": self.blocks, "thread_ts": self.thread_ts}
        if self.key:
            payload = {"event_type": "countersign", "event_payload": {"key": self.key}}
            made["metadata"] = payload
        if self.streaming:
            made["streaming_state"] = self.streaming
        return made


class SlackRefusal(Exception):
    """Slack answers with this error."""


class Slack:
    """All messages in a workspace's Slack, over all lives of processes."""

    def __init__(
        self, scheduler: Scheduler, weather: Weather, workspace: Workspace = ALONE
    ) -> None:
        self._scheduler, self.weather, self.workspace = scheduler, weather, workspace
        self.posts: dict[tuple[str, str], Post] = {}
        self.wrong: list[str] = []
        self._number = 0
        self._times: Counter[tuple[int, bool]] = Counter()
        self._methods: dict[str, Callable[[Json], Json]] = {
            "chat.postMessage": self._post,
            "chat.update": self._update,
            "chat.postEphemeral": self._whisper,
            "chat.getPermalink": lambda _: {"permalink": "https://example.com/archives/x"},
            "chat.startStream": self._start_stream,
            "chat.appendStream": self._append_stream,
            "chat.stopStream": self._stop_stream,
            "conversations.open": lambda given: {"channel": {"id": "D" + given["users"][1:]}},
            "conversations.replies": self._replies,
            "conversations.history": self._replies,
            "reactions.add": lambda _: {},
            "reactions.remove": lambda _: {},
        }

    def new_ts(self, *, said: bool = False) -> str:
        """The timestamp of the next message; `said`: a person writes it."""
        second = int(self._scheduler.now.timestamp())
        if not self.workspace.has_times_of_other:
            self._number += 1
            return f"{second}.{self._number:06d}"
        second += PERIOD - second % PERIOD
        self._times[second, said] += 1
        return f"{second}.{said:d}{self._times[second, said]:05d}"

    def answer(self, method: str, given: Json) -> tuple[int, Json, Json]:
        """Return status, headers and answer; raises URLError if there is none."""
        chance, weather = self._scheduler.random.random, self.weather
        self._scheduler.pause(f"asks {method}")
        if chance() < weather.limited:
            seconds = self._scheduler.random.choice((1, 1, 5, 20))
            return 429, {"Retry-After": str(seconds)}, {"ok": False, "error": "ratelimited"}
        if chance() < weather.broken:
            raise URLError(ConnectionRefusedError("simulated"))
        if chance() < weather.failing and chance() < 0.5:
            return 500, {}, {"ok": False, "error": "internal_error"}
        try:
            told = {"ok": True, **self._methods[method](given)}
        except SlackRefusal as error:
            told = {"ok": False, "error": str(error)}
        self._scheduler.pause(f"awaits {method}")
        if chance() < weather.failing:
            return 500, {}, {"ok": False, "error": "internal_error"}
        if chance() < weather.lost:
            raise URLError(ConnectionResetError("simulated"))
        return 200, {}, told

    def _add_post(self, given: Json, text: str, streaming: str = "") -> Post:
        channel, thread = given["channel"], given.get("thread_ts") or ""
        metadata = given.get("metadata") or {}
        key = (metadata.get("event_payload") or {}).get("key", "")
        blocks, bot = given.get("blocks") or [], self.workspace.bot
        post = Post(channel, self.new_ts(), thread, text, blocks, bot, key, streaming)
        if key and any(each.key == key for each in self.posts.values()):
            self.wrong.append(f"{key} stands in Slack twice")
        self.posts[channel, post.ts] = post
        return post

    def _post(self, given: Json) -> Json:
        return {"ts": self._add_post(given, given["text"]).ts}

    def _whisper(self, given: Json) -> Json:
        return {"message_ts": self.new_ts()}

    def _find_post(self, given: Json) -> Post:
        found = self.posts.get((given["channel"], given["ts"]))
        if found is None:
            raise SlackRefusal("message_not_found")
        return found

    def _update(self, given: Json) -> Json:
        post = self._find_post(given)
        if post.streaming == "in_progress":
            raise SlackRefusal("streaming_state_conflict")
        post.show(given["text"], given.get("blocks") or [])
        return {"ts": post.ts}

    def _start_stream(self, given: Json) -> Json:
        return {"ts": self._add_post(given, _get_streamed_text(given), "in_progress").ts}

    def _append_stream(self, given: Json) -> Json:
        post = self._find_post(given)
        if post.streaming != "in_progress":
            raise SlackRefusal("message_not_in_streaming_state")
        post.text += _get_streamed_text(given)
        return {"ts": post.ts}

    def _stop_stream(self, given: Json) -> Json:
        self._append_stream(given)
        post = self._find_post(given)
        post.streaming = "completed"
        post.show(post.text, given.get("blocks") or [])
        return {"ts": post.ts}

    def _replies(self, given: Json) -> Json:
        channel, thread = given["channel"], given.get("ts") or ""
        oldest = float(given.get("oldest") or 0)
        found = [
            each.as_json()
            for each in self.posts.values()
            if each.channel == channel
            and (not thread or thread in (each.thread_ts, each.ts))
            and float(each.ts) >= oldest
        ]
        return {"messages": found}


def _get_streamed_text(given: Json) -> str:
    chunks = [each.get("text") or "" for each in given.get("chunks") or []]
    return (given.get("markdown_text") or "") + "".join(chunks)


class SimClient(SlackClient):
    """The product's client, with this Slack in place of HTTP."""

    def __init__(self, slack: Slack, **options: Any) -> None:
        super().__init__("xoxb-1", retry_handlers=[], **options)
        self._slack = slack

    def _sync_send(self, api_url: str, req_args: Json) -> SlackResponse:
        given: Json = {}
        for each in ("params", "data", "json"):
            given |= req_args.get(each) or {}
        for each in ("blocks", "metadata", "chunks"):
            if isinstance(given.get(each), str):
                given[each] = json.loads(given[each])
        method = api_url.rsplit("/", 1)[1]
        status, headers, data = self._slack.answer(method, given)
        response = SlackResponse(
            client=self,
            http_verb="POST",
            api_url=api_url,
            req_args=req_args,
            data=data,
            headers=headers,
            status_code=status,
        )
        return response.validate()  # type: ignore[no-untyped-call]  # slack_sdk's own
