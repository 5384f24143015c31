"""Fakes for the wire: people in a directory, a clock that is set, tools; and a Core with them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from bot.clock import Clock
from bot.config.settings import Settings
from bot.core import Core
from bot.identity import Identity
from bot.policy.authority import Authority, Group, LookupFailedError, Person, QuietHours
from bot.policy.evaluation import CurrentPolicy, parse
from bot.tools import Effect, Registry, Tool, ToolContext, agent_tool, tool
from storage.store import Store
from tests.storage.builders import AT, TEAM

ANA, BEN, CLEO, DAN = "UANA00001", "UBEN00001", "UCLEO0001", "UDAN00001"
GUS, EVE, ZOE, BOT = "UGUS00001", "UEVE00001", "UZOE00001", "UBOT00001"
LIMITS = ("max_cards", "max_calls", "max_pending", "max_asked_per_hour", "max_turns")
POLICY = """
[defaults]
approvers = ["@shop-leads"]
deadline = "1h"

[[rule]]
tool = "free"
verdict = "allow"
"""


class FakeDirectory:
    """All people; `down` makes every look-up fail, `asked` counts the look-ups."""

    def __init__(self) -> None:
        self.known = {
            each.id: each
            for each in (
                Person(ANA, TEAM, "Ana Ruiz"),
                Person(BEN, TEAM, "Ben Okafor"),
                Person(CLEO, TEAM, "Cleo Martin"),
                Person(DAN, TEAM, "Dan Weber"),
                Person(GUS, TEAM, "Gus Hall", is_guest=True),
                Person(EVE, "T0OTHERCO", "Eve Stone"),
                Person(ZOE, TEAM, "Zoe Lind", deleted=True),
                Person(BOT, TEAM, "Countersign", is_bot=True),
            )
        }
        self.groups = {
            "shop-leads": frozenset({ANA, CLEO}),
            "finance": frozenset({CLEO}),
            "nobody": frozenset[str](),
        }
        self.channels = {
            "C0SUPPORT": frozenset({ANA, BEN, CLEO, DAN, GUS, BOT}),
            "C0FINANCE": frozenset({ANA, CLEO}),
        }
        self.down = False
        self.asked: Counter[str] = Counter()

    def _require_up(self, what: str) -> None:
        self.asked[what] += 1
        if self.down:
            raise LookupFailedError("ratelimited")

    def find_person(self, user: str) -> Person | None:
        """See `bot.policy.authority.Directory`."""
        self._require_up(user)
        return self.known.get(user)

    def find_people(self, users: Collection[str]) -> dict[str, Person]:
        """See there."""
        self._require_up("people")
        return {user: self.known[user] for user in users if user in self.known}

    def find_people_by_name(self, name: str) -> dict[str, str]:
        """See there."""
        return {user: each.name for user, each in self.known.items() if each.name == name}

    def find_quiet_hours(self, users: Collection[str]) -> dict[str, QuietHours]:
        """Nobody has any."""
        return {}

    def find_group(self, handle: str) -> Group | None:
        """See there."""
        self._require_up(handle)
        return Group(f"S{handle.upper()}", self.groups[handle]) if handle in self.groups else None

    def list_channel_members(self, channel: str) -> frozenset[str]:
        """See there."""
        self._require_up(channel)
        return self.channels.get(channel, frozenset())

    def find_channel_id(self, name: str) -> str | None:
        """See there."""
        self._require_up(name)
        return name if name in self.channels else None

    def can_see_channel(self, user: str, channel: str) -> bool:
        """No channel is private."""
        return channel in self.channels

    def find_public_channel_name(self, channel: str) -> str:
        """A channel is called by its id."""
        return f"#{channel}"

    def is_externally_shared_channel(self, channel: str) -> bool:
        """No channel is shared."""
        return False

    def find_owners(self, field: str, function: str, value: str | int) -> tuple[str, ...]:
        """No value has owners."""
        return ()


class Note(BaseModel):
    text: str = Field(title="Text", max_length=500)


class StillClock:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        self.at = AT

    def now(self) -> datetime:
        """The time that was set."""
        return self.at


def make_tools(do: Any) -> list[Tool[Any]]:
    """Return tools whose every effect is `do(name, args, context)`.

    Two ask, one is idempotent, and two do not ask; one is a sub-agent that has some of them.
    """

    def make(name: str, does: Effect, *, idempotent: bool | None = None) -> Tool[Any]:
        @tool(
            title=f"Do {name}",
            effect=name + " “{text}”",
            does=does,
            name=name,
            idempotent=idempotent,
        )
        def act(args: Note, context: ToolContext) -> str:
            return str(do(name, args, context))

        return act

    @agent_tool(
        title="Desk",
        effect="{text}",
        prompt="You do it.",
        tools=("note", "put", "free", "peek", "desk"),
    )
    def desk(args: Note, context: ToolContext) -> str:
        return args.text

    return [
        make("note", Effect.WRITE),
        make("wipe", Effect.DESTRUCTIVE),
        make("put", Effect.WRITE, idempotent=True),
        make("free", Effect.WRITE),
        make("peek", Effect.READ),
        desk,
    ]


def make_core(
    store: Store,
    clock: Clock,
    directory: FakeDirectory,
    tools: list[Tool[Any]],
    policy: str = POLICY,
    **limits: int,
) -> Core:
    """Everything that the loop and the worker share; `limits` have the names of the settings."""
    registry = Registry()
    registry.add(*tools)
    settings = Settings(
        slack_bot_token="xoxb-1",
        slack_app_token="xapp-1",
        openai_api_key="k",
        policy_path=Path("policy.toml"),
        **{**dict.fromkeys(LIMITS, 1000), **limits},
    )
    return Core(
        settings=settings,
        store=store,
        clock=clock,
        policy=CurrentPolicy(parse(policy)),
        tools=registry,
        authority=Authority(directory, TEAM),
        directory=directory,
        identity=Identity(TEAM, BOT, "BBOT00001"),
        key=b"k" * 32,
    )
