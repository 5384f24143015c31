"""Makes the client of the model (the planner) that the settings name, when it is first needed."""

from __future__ import annotations

import functools
import logging
import ssl
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from bot.agent.turn import AnswerSink, CompactedItems, ModelPlanner, PlannerError, Proposal, Reply
from bot.config.connection_settings import ModelApi
from bot.config.environment import split_url
from bot.config.settings import Settings
from bot.signals import Signals

if TYPE_CHECKING:
    from bot.agent.turn import Dialect


log = logging.getLogger("countersign.planner")


class LazyPlanner:
    """Makes the client of the model (the planner) when first needed, and forwards to it.

    Thread-safe.
    """

    def __init__(self, make: Callable[[], ModelPlanner]) -> None:
        """`make` is called once, by the first thread that needs the planner."""
        self._create_planner = make
        self._planner: ModelPlanner | None = None
        self._closed = False
        self._lock = threading.Lock()

    def prepare(self) -> None:
        """Make the planner now, so that the first turn does not wait for it; log errors."""
        try:
            self._get_planner()
        except PlannerError as error:
            log.warning("no model: %s", error)

    def take_turn(
        self,
        transcript: Sequence[dict[str, Any]],
        tools: Sequence[dict[str, Any]],
        instructions: str,
        sink: AnswerSink,
    ) -> Reply | Proposal:
        """Take one model turn. Raises PlannerError; whatever `sink` raises passes through."""
        return self._get_planner().take_turn(transcript, tools, instructions, sink)

    @property
    def compaction_server_id(self) -> str:
        """Return the id of the model's server, which alone can read transcripts that it compacts.

        "" if it compacts none. Raises PlannerError.
        """
        return self._get_planner().compaction_server_id

    def compact_items(
        self, items: Sequence[dict[str, Any]], instructions: str
    ) -> CompactedItems | None:
        """Have the model's server compact these items; None if it does not. Raises PlannerError."""
        return self._get_planner().compact_items(items, instructions)

    def close(self) -> None:
        """Close the planner if it was made; a turn under way fails, and no new one begins."""
        self._closed = True  # a thread that is making one now, which takes long, closes it itself
        made = self._planner
        if made is not None:
            made.close()

    def _get_planner(self) -> ModelPlanner:
        """Return the planner, after making it if needed; raises PlannerError if that fails."""
        with self._lock:
            if self._closed:
                raise PlannerError("Countersign is stopping.")
            if self._planner is None:
                try:
                    self._planner = self._create_planner()
                except PlannerError:
                    raise
                except Exception as error:  # for example, a proxy's package is not installed
                    text = f"The model's client cannot be made: {error}."
                    raise PlannerError(text) from error
                if self._closed:
                    self._planner.close()
                    raise PlannerError("Countersign is stopping.")
            return self._planner


OPENAI_BASE_URL = "https://api.openai.com/v1"  # the model's server unless a setting names another


def create_planner(settings: Settings, signals: Signals) -> ModelPlanner:
    """Make the planner that the settings name; raise PlannerError if they name no model."""
    if not settings.has_model:
        raise PlannerError("There is no model here to continue with this.")
    # imported here: the library takes a third of the start-up time, and only a turn needs it
    import openai

    from bot.agent.planner import ModelClient, Planner

    client = ModelClient(
        api_key=settings.openai_api_key.get_secret_value(),
        base_url=settings.openai_base_url,
        timeout=settings.model_timeout,
        http_client=openai.DefaultHttpxClient(verify=_get_tls_context()),
    )
    return Planner(
        client,
        model=settings.openai_model,
        dialects=list_api_dialects(settings),
        reasoning_effort=settings.reasoning_effort,
        retries=settings.model_retries,
        backoff=settings.model_backoff,
        stopping=signals.stopping,
        tracer=signals.tracer,
    )


@functools.cache
def _get_tls_context() -> ssl.SSLContext:
    """Return the TLS context that OpenAI's client uses by default, created only once.

    Creating it reads all certificates.
    """
    import httpx2  # imported here for the same reason; comes with openai

    return httpx2.create_ssl_context()


def list_api_dialects(settings: Settings) -> tuple[Dialect, ...]:
    """Return the dialects that the model's server may speak, in the order of trying them."""
    from bot.agent.chat_completions import CHAT_DIALECT, OPENAI_CHAT_DIALECT
    from bot.agent.responses import RESPONSES_DIALECT

    host = split_url(settings.openai_base_url or OPENAI_BASE_URL).hostname or ""
    chat = (
        OPENAI_CHAT_DIALECT
        if host.endswith(split_url(OPENAI_BASE_URL).hostname or "")
        else CHAT_DIALECT
    )
    match settings.openai_api:
        case ModelApi.RESPONSES:
            return (RESPONSES_DIALECT,)
        case ModelApi.CHAT:
            return (chat,)
        case ModelApi.AUTO:
            return (RESPONSES_DIALECT, chat)
