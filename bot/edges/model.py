"""The edge to the model: the planner that the settings name."""

from __future__ import annotations

import functools
import ssl
from typing import TYPE_CHECKING

from bot.agent.late_planner import NoModel
from bot.agent.turn import ModelTurns
from bot.config.environment import split
from bot.config.model import ModelApi
from bot.config.settings import Settings
from bot.signals import Signals

if TYPE_CHECKING:
    from bot.agent.dialect import Dialect

OPENAI = "https://api.openai.com/v1"  # where the model is unless a setting says otherwise


def make_planner(settings: Settings, signals: Signals) -> ModelTurns:
    """Make the planner that the settings name; without a key it is none."""
    if not settings.has_model:
        return NoModel()
    # here: the library takes a third of the start, and only a turn needs it
    import openai

    from bot.agent.client import ModelClient
    from bot.agent.planner import Planner

    client = ModelClient(
        api_key=settings.openai_api_key.get_secret_value(),
        base_url=settings.openai_base_url,
        timeout=settings.model_timeout,
        http_client=openai.DefaultHttpxClient(verify=_usual_context()),
    )
    return Planner(
        client,
        model=settings.openai_model,
        dialects=dialects(settings),
        reasoning_effort=settings.reasoning_effort,
        retries=settings.model_retries,
        backoff=settings.model_backoff,
        stopping=signals.stopping,
        watch=signals.watch,
    )


@functools.cache
def _usual_context() -> ssl.SSLContext:
    """The context that the library makes for each client, made once: it reads all certificates."""
    import httpx2  # here, as above: the library brings it

    return httpx2.create_ssl_context()


def dialects(settings: Settings) -> tuple[Dialect, ...]:
    """Return what the model's server may speak, in the order in which it is tried."""
    from bot.agent.chat import CHAT, CHAT_AT_OPENAI
    from bot.agent.responses import RESPONSES

    host = split(settings.openai_base_url or OPENAI).hostname or ""
    chat = CHAT_AT_OPENAI if host.endswith(split(OPENAI).hostname or "") else CHAT
    match settings.openai_api:
        case ModelApi.RESPONSES:
            return (RESPONSES,)
        case ModelApi.CHAT:
            return (chat,)
        case ModelApi.AUTO:
            return (RESPONSES, chat)
