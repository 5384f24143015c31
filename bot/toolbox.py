"""Which tools there are, as the settings say: for the bot, and for the commands that only look."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any, NoReturn, cast

from slack_sdk import WebClient

from bot.config.settings import Settings
from bot.tools import Registry, Tool, ToolError
from bot.tools.people.question import ASK_PERSON
from bot.tools.shop.shop import Shop
from bot.tools.shop.tools import order_tools
from bot.tools.slack.lookup import Names
from bot.tools.slack.tools import slack_tools


class ToolsError(ValueError):
    """The tools cannot be used; says why, for who set them up."""

    def __init__(self, why: str) -> None:
        super().__init__(f"the tools cannot be used: {why}; see COUNTERSIGN_TOOLS")


class _NoClient:
    """What stands in the place of Slack's client where nothing is to be called."""

    def __getattr__(self, method: str) -> NoReturn:
        """Refuse the call in the tool's own way."""
        raise ToolError(f"Slack is not configured, so there is no {method}.")


def toolbox(
    settings: Settings,
    posting: WebClient | None,
    directory: Names,
    extra: Iterable[Tool[Any]] = (),
) -> Registry:
    """Return every tool that is on, `extra` among them; calls none.

    Without a client in `posting` the Slack tools are there to be described, and refuse to run.
    Raises ToolsError for a module of the operator's own that cannot be imported or defines none,
    and for tools that cannot be registered.
    """
    registry = Registry()
    try:
        _fill(registry, settings, posting, directory, extra)
    except ValueError as error:
        raise ToolsError(str(error)) from error
    return registry


def _fill(
    registry: Registry,
    settings: Settings,
    posting: WebClient | None,
    directory: Names,
    extra: Iterable[Tool[Any]],
) -> None:
    if settings.shop_path:
        registry.add(*order_tools(Shop(settings.shop_path)))
    if settings.databases:
        # only now: its parser and driver take memory and a moment
        from bot.tools.database.child.tools import database_tools

        registry.add(*database_tools(settings.databases, settings.database_path))
    for name in settings.tool_modules:
        registry.add(*_own(name))
    registry.add(*extra)
    if settings.slack_tools:
        # the tools keep the client for their calls, and a description makes none
        client = posting or cast(WebClient, _NoClient())
        registry.add(*slack_tools(client, directory))
    registry.add(ASK_PERSON)


def _own(name: str) -> list[Tool[Any]]:
    """The tools that a module of the operator's own defines."""
    try:
        module = importlib.import_module(name)
    except Exception as error:  # whatever a module does when it is imported
        why = f"{name} cannot be imported ({type(error).__name__}: {error})"
        raise ValueError(why) from error
    found = [each for each in vars(module).values() if isinstance(each, Tool)]
    if not found:
        raise ValueError(f"the module {name} defines no tool")
    return found
