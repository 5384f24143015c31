"""Which tools there are, as the settings say: the bot's, and those that the commands that only look
speak of.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any

from slack_sdk import WebClient

from bot.settings import Settings
from bot.slack.directory import SlackDirectory
from bot.tools import Registry, Tool
from bot.tools.shop.shop import Shop
from bot.tools.shop.tools import order_tools
from bot.tools.slack.tools import slack_tools


def toolbox(
    settings: Settings,
    posting: WebClient,
    directory: SlackDirectory,
    extra: Iterable[Tool[Any]] = (),
) -> Registry:
    """Every tool that is on, `extra` among them; calls none. Raises ValueError for tools that
    cannot be registered, and whatever importing the operator's own modules raises.
    """
    registry = Registry()
    if settings.shop_path:
        registry.add(*order_tools(Shop(settings.shop_path)))
    if settings.databases:
        # only now: its parser and driver take memory and a moment
        from bot.tools.database.tools import database_tools

        registry.add(*database_tools(settings.databases, settings.database_path))
    for name in settings.tool_modules:
        module = importlib.import_module(name)
        found = [each for each in vars(module).values() if isinstance(each, Tool)]
        if not found:
            raise ValueError(f"COUNTERSIGN_TOOLS: the module {name} defines no tool")
        registry.add(*found)
    registry.add(*extra)
    if settings.slack_tools:
        registry.add(*slack_tools(posting, directory))
    return registry
