"""What the bot is doing, shown by Slack: the thread's status, the session's state.

Best effort, not waited for.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError

from storage.models import Run

log = logging.getLogger("countersign.presence")
# Answers that say this workspace or app does not have the feature; it is not asked for again.
ABSENT = {
    "unknown_method",
    "feature_disabled",
    "not_agent_app",
    "missing_scope",
    "not_allowed_token_type",
    "no_permission",
}
PROMPTS = [
    {"title": "Refund a broken order", "message": "Refund 40 EUR of order 1042, it arrived broken"},
    {"title": "Look up an order", "message": "Look up order 1042"},
    {"title": "Cancel and tell the team", "message": "Cancel order 1043 and tell #support"},
]


class SlackPresence:
    """Sends statuses on its own thread, in order; failures are logged and forgotten."""

    def __init__(self, client: WebClient, prompts: list[dict[str, str]]) -> None:
        """`prompts`: at most four {title, message} to suggest in direct messages.

        None when empty.
        """
        self._client = client
        self._prompts = prompts
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="presence")
        self._absent: set[str] = set()

    def working(self, run: Run) -> None:
        """It thinks or acts."""
        self._do(
            "status",
            self._client.assistant_threads_setStatus,
            **_at(run),
            status="is working on it…",
        )
        self._session(run, "processing")

    def waiting(self, run: Run) -> None:
        """It waits for people."""
        self._do("status", self._client.assistant_threads_setStatus, **_at(run), status="")
        self._session(run, "suspended")

    def done(self, run: Run) -> None:
        """It is over."""
        self._do("status", self._client.assistant_threads_setStatus, **_at(run), status="")
        self._session(run, "active")

    def suggest(self, channel: str) -> None:
        """Show the suggested prompts in a direct message."""
        if self._prompts:
            self._do(
                "prompts",
                self._client.assistant_threads_setSuggestedPrompts,
                channel_id=channel,
                prompts=self._prompts,
            )

    def close(self) -> None:
        """Stop sending."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _session(self, run: Run, status: str) -> None:
        arguments = {**_at(run), "status": status, "initiator_user_id": run.requester}
        self._do("session", self._client.api_call, "agents.sessions.setStatus", json=arguments)

    def _do(self, feature: str, method: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        def send() -> None:
            if feature in self._absent:
                return
            try:
                method(*args, **kwargs)
            except SlackApiError as error:
                if error.response.get("error") in ABSENT:
                    self._absent.add(feature)
                log.debug("%s: %s", feature, error.response.get("error"))
            except Exception as error:  # noqa: BLE001 - a status is a comfort
                log.debug("%s: %s", feature, error)

        try:
            self._pool.submit(send)
        except RuntimeError:
            log.debug("%s: stopping", feature)


def _at(run: Run) -> dict[str, str]:
    return {"channel_id": run.channel, "thread_ts": run.thread_ts}
