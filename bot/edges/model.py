"""The edge to the model: the planner that the settings name."""

from __future__ import annotations

from bot.agent.late_planner import NoModel
from bot.agent.turn import ModelTurns
from bot.config.settings import Settings
from bot.signals import Signals


def make_planner(settings: Settings, signals: Signals) -> ModelTurns:
    """Make the planner that the settings name; without a key it is none."""
    if not settings.has_model:
        return NoModel()
    # here: the library takes a third of the start, and only a turn needs it
    import openai

    from bot.agent.planner import Planner

    client = openai.OpenAI(
        api_key=settings.openai_api_key.get_secret_value(),
        base_url=settings.openai_base_url,
        timeout=settings.model_timeout,
    )
    return Planner(
        client,
        model=settings.openai_model,
        reasoning_effort=settings.reasoning_effort,
        retries=settings.model_retries,
        backoff=settings.model_backoff,
        stopping=signals.stopping,
        watch=signals.watch,
    )
