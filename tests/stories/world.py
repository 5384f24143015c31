"""The whole product over the real wire: a local Slack, a scripted planner, the shop, and the real
bot.

One connection is shared by all stories; each has its own threads.
`World.restart` starts the bot anew on the same rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sqlalchemy import select
from sqlmodel import col

from bot.app import App, build
from bot.clock import ShiftedClock
from bot.policy.evaluate import parse
from bot.sandbox.openai.server import Planner, Turn
from bot.sandbox.server import Sandbox
from bot.settings import Settings
from bot.tools import Tool
from bot.tools.shop.shop import Shop
from storage import decisions, outbox
from storage.models import Audit, Call, Delivery, Message, Run
from storage.states import RUN_OPEN
from storage.store import rows

POLICY = Path(__file__).parents[2] / "bot" / "sandbox" / "demo_policy.toml"
SUPPORT, FINANCE, GENERAL, PARTNERS = "C0SUPPORT", "C0FINANCE", "C0GENERAL", "C0PARTNER"


class World:
    """Everything a story needs."""

    def __init__(
        self,
        folder: Path,
        tools: Iterable[Tool[Any]] = (),
        policy: str | None = None,
        **settings: str,
    ) -> None:
        self.folder = folder
        self.tools = list(tools)
        self.policy = policy or POLICY.read_text("utf-8")
        self.clock = ShiftedClock()
        self.slack = Sandbox(clock=self.clock)
        self.slack.start()
        self.planner = Planner()
        self.planner.start()
        self.shop = Shop(folder / "shop.db")
        self.shop.create()
        self.extra = settings
        self.app = self._build()
        self.app.start()
        self.since = 0  # how many deliveries there were before this story

    def settings(self) -> Settings:
        policy = self.folder / "policy.toml"
        policy.write_text(self.policy, "utf-8")
        return Settings.load(
            {
                "SLACK_BOT_TOKEN": self.slack.bot_token,
                "SLACK_APP_TOKEN": self.slack.app_token,
                "SLACK_API_URL": self.slack.api_url,
                "OPENAI_API_KEY": "sk-offline-offline-offline",
                "OPENAI_BASE_URL": self.planner.url,
                "DATABASE_URL": f"sqlite:///{self.folder / 'countersign.db'}",
                "COUNTERSIGN_POLICY": str(policy),
                "COUNTERSIGN_SHOP": str(self.folder / "shop.db"),
                "COUNTERSIGN_MODEL_BACKOFF": "0.05",
                "COUNTERSIGN_MAX_ASKED_PER_HOUR": "10000",  # one person asks in all stories
                **self.extra,
            }
        )

    def _build(self, **options: Any) -> App:
        return build(self.settings(), self.clock, parse(self.policy), self.tools, **options)

    def restart(self) -> None:
        """Stop the bot and start it again on the same database."""
        self.app.stop()
        self.start()

    def start(self) -> None:
        """Start the bot on the database there is."""
        self.app = self._build()
        self.app.start()

    def close(self) -> None:
        self.app.stop()
        self.planner.stop()
        self.slack.stop()

    def reset(self) -> None:
        """Leave nothing of one story to the next."""
        self.slack.faults.clear()
        self.planner.clear()
        with self.slack.world.lock:
            self.slack.world.stacks.clear()  # dialogs that are still open
        with self.app.core.store.read() as tx:
            waiting = rows(tx, Run, select(Run).where(Run.status.in_(list(RUN_OPEN))))
        for run in waiting:
            with self.app.core.store.write() as tx:
                decisions.cancel(tx, run, at=self.clock.now(), actor="reset")
        self.app.loop.wake()
        self.settle()
        self.since = len(self.slack.deliveries)

    def settle(self) -> None:
        """Until nothing is under way in the bot."""
        self.app.settle()

    def person(self, name: str) -> Any:
        return self.slack.person(name)

    def all(self, model: type[Any], *where: Any) -> list[Any]:
        with self.app.core.store.read() as tx:
            return rows(tx, model, select(model).where(*where))

    def run_in(self, thread: str) -> Run:
        [*_, run] = self.all(Run, Run.thread_ts == thread)
        return run

    def calls_in(self, thread: str) -> list[Call]:
        ids = [run.id for run in self.all(Run, Run.thread_ts == thread)]
        return sorted(
            (c for c in self.all(Call) if c.run_id in ids), key=lambda c: (c.created_at, c.position)
        )

    def audit_of(self, call: Call) -> list[str]:
        return [row.event for row in self.all(Audit, Audit.call_id == call.id)]

    def outputs(self) -> list[dict[str, Any]]:
        """The function_call_outputs of the last model request."""
        return [
            i for i in self.planner.requests[-1]["input"] if i.get("type") == "function_call_output"
        ]

    def thread(self, channel: str, ts: str, who: str = "ben") -> list[dict[str, Any]]:
        return self.person(who).messages(channel, ts)

    def card(
        self, channel: str, ts: str | None, who: str = "ana", having: str = "approve"
    ) -> dict[str, Any]:
        """The first message with a button of that action id, waited for."""

        def look() -> dict[str, Any] | None:
            return next(
                (m for m in self.person(who).messages(channel, ts) if having in action_ids(m)), None
            )

        return self.slack.wait(look)

    def said(self, channel: str, ts: str, text: str, who: str = "ben") -> dict[str, Any]:
        """The first message of the thread that has this text anywhere, waited for."""
        return self.slack.wait(
            lambda: next((m for m in self.thread(channel, ts, who) if text in words(m)), None)
        )


def elements(message: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        e
        for b in message.get("blocks") or []
        for e in [*b.get("elements", []), b.get("accessory") or {}]
    ]


def action_ids(message: dict[str, Any]) -> list[str]:
    return [e["action_id"] for e in elements(message) if "action_id" in e]


def words(message: dict[str, Any]) -> str:
    return json.dumps([message.get("text"), message.get("blocks")], ensure_ascii=False)


__all__ = [
    "FINANCE",
    "GENERAL",
    "PARTNERS",
    "SUPPORT",
    "Delivery",
    "Message",
    "Turn",
    "World",
    "action_ids",
    "words",
]


def ask(
    world: World,
    *calls: tuple[str, Any],
    who: str = "ben",
    channel: str = SUPPORT,
    answer: str = "That is all.",
) -> str:
    """Someone asks for something, and the scripted model proposes these calls, then answers.

    Returns the thread.
    """
    world.planner.script(Turn(calls=calls), Turn(text=answer))
    thread: str = world.person(who).say(channel, "@bot please")
    return thread


def value_of(message: dict[str, Any], action_id: str, nth: int = 0) -> str:
    """The value of the message's nth button of that action id."""
    return str([e["value"] for e in elements(message) if e.get("action_id") == action_id][nth])


def told(world: World, who: str, channel: str, thread: str, text: str) -> str:
    """The sentence with this text that only this person sees in the thread, waited for."""

    def look() -> str | None:
        mine = [m for m in world.thread(channel, thread, who) if m.get("is_ephemeral")]
        return next((words(m) for m in mine if text in words(m)), None)

    return str(world.slack.wait(look))


def open_modal(
    world: World, who: str, channel: str, card: dict[str, Any], action: str, nth: int = 0
) -> dict[str, Any]:
    """Click a card's nth button of that action id as it was drawn in `card`.

    Returns the dialog, waited for.
    """
    person = world.person(who)
    person.click(channel, card["ts"], action, value=value_of(card, action, nth), seen=card)
    view: dict[str, Any] = world.slack.wait(person.view)
    return view


def reject(
    world: World, who: str, channel: str, card: dict[str, Any], why: str, nth: int = 0
) -> dict[str, Any]:
    """Reject one call of a card in these words; returns the outcome of the dialog."""
    view = open_modal(world, who, channel, card, "reject", nth)
    options = next(b["element"]["options"] for b in view["blocks"] if b.get("block_id") == "reason")
    other = next(option for option in options if option["value"] == "other")
    typed = {"reason": {"preset": {"selected_option": other}}, "words": {"text": {"value": why}}}
    outcome: dict[str, Any] = world.person(who).submit(typed)
    return outcome


def typed(**fields: str) -> dict[str, Any]:
    """Element states for the Edit dialog: one text for each field."""
    return {f"f:{name}": {"v": {"value": text}} for name, text in fields.items()}


def now_at(world: World, channel: str, ts: str, who: str = "ana") -> dict[str, Any]:
    """A message as it stands now, wherever it is in the channel."""
    return next(m for m in world.person(who).everything(channel) if m["ts"] == ts)


def arrived(world: World) -> None:
    """Wait until the bot has acknowledged, and so stored, all that Slack has sent.

    Then until it is at rest.
    """
    world.slack.wait(
        lambda: all(each.outcome != "pending" for each in world.slack.deliveries[world.since :])
    )
    world.settle()


def chat(world: World, answer: str, channel: str = SUPPORT, who: str = "ben") -> str:
    """Someone asks and the model just answers; returns the thread."""
    world.planner.script(Turn(text=answer))
    thread: str = world.person(who).say(channel, "@bot tell me")
    return thread


def showing(world: World, channel: str, thread: str | None, part: str) -> list[dict[str, Any]]:
    """The bot's messages with this text."""
    return [
        m
        for m in world.person("ana").messages(channel, thread)
        if m.get("bot_id") and part in words(m)
    ]


def all_sent(world: World) -> None:
    """Wait until nothing waits in the outbox any more, moving the clock over its pauses."""

    def unsent() -> list[Message]:
        return world.all(Message, col(Message.status).in_(outbox.WORK))

    for _ in range(6):
        world.settle()
        if not unsent():
            return
        world.clock.advance(61)
    raise AssertionError([(m.kind, m.status, m.error) for m in unsent()])


def menu(world: World, who: str, card: dict[str, Any], choice: str) -> None:
    """Choose from the card's menu, by the beginning of the option's value."""
    options = next(e["options"] for e in elements(card) if e.get("action_id") == "more")
    option = next(each for each in options if each["value"].startswith(choice))
    world.person(who).click(SUPPORT, card["ts"], "more", selected=option, seen=card)
