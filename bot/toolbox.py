"""Creates the tools that the settings turn on, for the bot and for commands that only read."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NoReturn, cast

from slack_sdk import WebClient

from bot.config.entry_points import EntryPointError, LoadedEntryPoint, load_entry_points
from bot.config.settings import Settings
from bot.config.startup import StartupError
from bot.tools import Registry, Tool, ToolError
from bot.tools.handed_over import load_action_tool
from bot.tools.passkey_approval import add_passkey
from bot.tools.person_question import ASK_PERSON
from bot.tools.slack_lookup import CachedDirectory
from bot.tools.slack_tools import build_slack_tools


class ToolsError(ValueError):
    """Raised when the tools cannot be used; its message tells the operator why."""

    def __init__(self, why: str, see: str = "; see COUNTERSIGN_TOOLS") -> None:
        super().__init__(f"the tools cannot be used: {why}{see}")


@dataclass(frozen=True, slots=True)
class ToolDependencies:
    """The settings, Slack client and directory with which an entry point creates its tools."""

    settings: Settings
    slack: WebClient  # for the tools' calls; refuses all if tools are only described
    directory: CachedDirectory  # of the people, groups and channels in Slack


# functions from ToolDependencies to a list of tools; each is called once, at the start
ENTRY_POINT_GROUP = "countersign.tools"
LAST_ENTRY_POINTS = ("slack", "people")  # their tools are listed after all others
_FIRST_ENTRY_POINTS = ("shop", "databases", "modules", "servers")
BUILT_IN_ENTRY_POINTS = tuple(
    (name, f"bot.toolbox:build_tools_for_{name}")
    for name in (*_FIRST_ENTRY_POINTS, *LAST_ENTRY_POINTS)
)


class _RefusingClient:
    def __getattr__(self, method: str) -> NoReturn:
        raise ToolError(f"Slack is not configured, so there is no {method}.")


def build_tool_registry(
    settings: Settings,
    posting: WebClient | None,
    directory: CachedDirectory,
    extra: Iterable[Tool[Any]] = (),
) -> Registry:
    """Return a registry of the tools that the settings turn on, created here, and of `extra`.

    Without a client in `posting` the Slack tools can be described, and refuse to run. Raises
    ToolsError for a module of the operator's that cannot be imported or defines no tool, for an
    entry point that cannot be used, for tools that cannot be registered, and for a tool to be left
    out that does not exist; also if Python has removed the docstrings, which describe the tools.
    """
    if sys.flags.optimize > 1:
        raise ToolsError("PYTHONOPTIMIZE=2 and -OO remove their descriptions", see="; use neither")
    registry = Registry(
        internal_tools={add_passkey.name: add_passkey}, find_action_tool=load_action_tool
    )
    try:
        _add_tools(registry, settings, posting, directory, extra)
    except EntryPointError as error:  # its message names the entry point
        raise ToolsError(str(error), see="") from error
    except ToolsError:
        raise
    except ValueError as error:
        raise ToolsError(str(error)) from error
    return registry


def _add_tools(
    registry: Registry,
    settings: Settings,
    posting: WebClient | None,
    directory: CachedDirectory,
    extra: Iterable[Tool[Any]],
) -> None:
    # tools use the client only in calls, so a refusing one will do to describe them
    deps = ToolDependencies(settings, posting or cast(WebClient, _RefusingClient()), directory)
    families = load_tool_families()
    for each in families:
        if each.name not in LAST_ENTRY_POINTS:
            registry.add(*_create_family_tools(each, deps))
    registry.add(*extra)
    for each in families:
        if each.name in LAST_ENTRY_POINTS:
            registry.add(*_create_family_tools(each, deps))
    _remove_left_out_tools(registry, settings.without_tools)
    registry.check_sub_agent_tools()


def _remove_left_out_tools(registry: Registry, names: Iterable[str]) -> None:
    """Remove the tools that the settings leave out; raise ToolsError for unknown names."""
    if unknown := ", ".join(sorted(set(names) - set(registry.tools))):
        raise ToolsError(f"COUNTERSIGN_WITHOUT_TOOLS: there is no tool {unknown}", see="")
    for name in names:
        registry.excluded_tools[name] = registry.tools.pop(name)


def load_tool_families() -> list[LoadedEntryPoint]:
    """Return the entry points that create tools: the bot's own, then those of other packages.

    Raises EntryPointError for one that cannot be loaded.
    """
    return load_entry_points(ENTRY_POINT_GROUP, BUILT_IN_ENTRY_POINTS)


def _create_family_tools(family: LoadedEntryPoint, deps: ToolDependencies) -> list[Tool[Any]]:
    """Return the tools of one entry point; EntryPointError if another package's fails."""
    if family.is_ours:
        return list(family.value(deps))
    try:
        found = list(family.value(deps))
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        raise EntryPointError(f"{family.name} of {family.source} makes no tools ({why})") from error
    if odd := next((each for each in found if not isinstance(each, Tool)), None):
        what = f"makes {type(odd).__name__}, which is not a tool"
        raise EntryPointError(f"{family.name} of {family.source} {what}")
    return found


def build_tools_for_shop(deps: ToolDependencies) -> list[Tool[Any]]:
    """Return the demo shop's tools if the settings name its file, else none."""
    path = deps.settings.shop_path
    if path is None:
        return []
    # here, since importing these takes a hundredth of the start
    from bot.tools.shop_tools import build_order_tools
    from bot.tools.web_shop import Shop

    return build_order_tools(Shop(path))


def build_tools_for_databases(deps: ToolDependencies) -> list[Tool[Any]]:
    """Return the tools for the databases that the settings name."""
    if not deps.settings.databases:
        return []
    # here, since the SQL parser and driver take time and memory
    from bot.tools.database.child_tools import build_database_tools

    return build_database_tools(deps.settings.databases, deps.settings.database_path)


def build_tools_for_modules(deps: ToolDependencies) -> list[Tool[Any]]:
    """Return the tools of the operator's own modules, in the order the settings name them."""
    return [each for name in deps.settings.tool_modules for each in _load_module_tools(name)]


def build_tools_for_servers(deps: ToolDependencies) -> list[Tool[Any]]:
    """Return the accepted tools of the MCP servers that the settings name."""
    if deps.settings.servers is None:
        return []
    # here, since JSON Schema validation takes a moment to import
    from bot.mcp.server_tools import load_server_tools

    try:
        return load_server_tools(deps.settings.servers)
    except ValueError as error:
        raise ToolsError(str(error), see="; see COUNTERSIGN_SERVERS") from error


def build_tools_for_slack(deps: ToolDependencies) -> list[Tool[Any]]:
    """Return the Slack tools, or none if the settings turn them off."""
    return build_slack_tools(deps.slack, deps.directory) if deps.settings.slack_tools else []


def build_tools_for_people(_deps: ToolDependencies) -> list[Tool[Any]]:
    """Return the tool that asks a person for information."""
    return [ASK_PERSON]


def _load_module_tools(name: str) -> list[Tool[Any]]:
    """Return the tools that a module of the operator's defines; ValueError if there are none."""
    try:
        module = importlib.import_module(name)
    except Exception as error:  # importing a module may raise anything
        why = f"{name} cannot be imported ({type(error).__name__}: {error})"
        raise ValueError(why) from error
    found = [each for each in vars(module).values() if isinstance(each, Tool)]
    if not found:
        raise ValueError(f"the module {name} defines no tool")
    return found


def require_limited_database_roles(settings: Settings) -> None:
    """Raise StartupError for a database role with too many rights, with SQL that corrects them."""
    if not settings.databases:
        return
    # here, since database drivers take time and memory
    from bot.tools.database.sources import list_role_rights_errors

    problems = [
        "\n    ".join([f"database {name}: {error}. Run as its owner:", *error.remedy])
        for name, error in list_role_rights_errors(settings.databases, settings.database_path)
    ]
    if problems:
        raise StartupError(problems, ())
