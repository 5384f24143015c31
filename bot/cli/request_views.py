"""What `pending` and `show` share: the record, opened to be read, and how things are written."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime
from functools import cache, partial
from typing import Any

from bot.cards.slack_text import visible
from bot.cli.read_only_core import PlainWords, ReadOnlyCore, opened
from bot.policy.directory import LookupFailedError
from bot.policy.gates import Approvers
from bot.tools.slack_lookup import CachedDirectory
from countersign.cli.console import DOTENV, complain


class NamedPlaces(PlainWords):
    """The same, with the names of channels, where Slack tells."""

    def __init__(self, directory: CachedDirectory) -> None:
        """The list of channels is asked for once, when the first one is named."""
        super().__init__(directory)
        self._channels = cache(partial(_names, directory))

    def channel(self, channel: str) -> str:
        """Name and id; a direct message by its kind."""
        if channel.startswith("D"):
            return f"a direct message ({channel})"
        name = self._channels().get(channel)
        return f"#{visible(name)} ({channel})" if name else channel


def _names(directory: CachedDirectory) -> dict[str, str]:
    try:
        return {each: str(found["name"]) for each, found in directory.channels().items()}
    except LookupFailedError:
        return {}


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add the option for what programs read."""
    parser.add_argument("--json", action="store_true", help="as JSON, for programs")


def look(see: Callable[[ReadOnlyCore, PlainWords], int]) -> int:
    """Open the record for reading and let `see` tell of it; returns its exit code, or a problem's.

    Works beside the bot, and without Slack: then people are told by their ids.
    """
    found = opened("The record cannot be read", DOTENV, complain)
    return found if isinstance(found, int) else see(found, NamedPlaces(found.directory))


def as_json(told: Any) -> str:
    """A dataclass, or a list of them, as JSON; moments as in 2026-11-24T22:00:00+00:00."""
    plain = [asdict(each) for each in told] if isinstance(told, list) else asdict(told)
    return json.dumps(plain, ensure_ascii=False, indent=2, default=_plain)


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Approvers):
        return value.model_dump(mode="json")
    raise TypeError(f"{type(value).__name__} has no JSON")


def deciders_in_words(who: Approvers | None, words: PlainWords, channel: str) -> str:
    """The approvers as the policy names them, people with their names."""
    if who is None:
        return "nobody"
    named = [*map(words.group, who.groups), *map(words.person, who.users)]
    named += [f"the members of {words.channel(channel)}"] if who.channel else []
    named += ["whoever asked"] if who.requester else []
    return ", ".join(named) or "nobody"
