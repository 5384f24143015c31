"""Plays requests of the days before the demo begins, and makes API keys for its programs.

The programs ask over HTTP, as any program does; with the file that is written beside the demo, a
program at another terminal can ask, too.
"""

from __future__ import annotations

import logging
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from countersign.client import Countersign, generate_claimant_id
from countersign.request import Does, OwnAction
from countersign.wire import ApiTransport, build_bot_socket_address
from slack_sandbox.spec.slack_error import Json
from slack_sandbox.workspace.seed import Seed, default_seed

if TYPE_CHECKING:
    from slack_sandbox.client.actor import Actor
    from slack_sandbox.server import Sandbox


# The demo's history before its first visitor: two days of requests and decisions.

log = logging.getLogger("countersign.demo")
MINUTES_PER_HOUR = 60
STEP_TIMEOUT_SECONDS = 10.0
ORDERS_CHANNEL = "orders"  # the channel of all past requests


@dataclass(frozen=True, slots=True)
class PastMessageRequest:
    """A request that a person made `minutes_ago`, and the buttons that people then pressed.

    `button_presses`: who, which button, and the card's channel ("" for that of the request).
    """

    minutes_ago: int
    requester: str
    text: str
    channel: str = ORDERS_CHANNEL
    button_presses: Sequence[tuple[str, str, str]] = ()

    def play(self, sandbox: Sandbox, settle: Callable[[], None]) -> None:
        """Post the request and press the buttons, minutes apart."""
        person = sandbox.person(self.requester)
        channel = get_channel_id(sandbox, self.channel)
        thread = person.say(channel, f"<@{sandbox.bot_user_id}> {self.text}")
        sandbox.wait(lambda: len(person.messages(channel, thread)) > 1, STEP_TIMEOUT_SECONDS)
        settle()
        for who, action, where in self.button_presses:
            sandbox.clock.advance(4 * 60)
            place = get_channel_id(sandbox, where) if where else channel
            at = None if where else thread
            decider = sandbox.person(who)
            card = sandbox.wait(
                partial(find_card_with_button, decider, place, at, action), STEP_TIMEOUT_SECONDS
            )
            press_button(sandbox, decider, place, card, action, settle)


PAST_REQUESTS = (
    PastMessageRequest(46 * MINUTES_PER_HOUR, "ben", "look up order 1041"),
    PastMessageRequest(
        45 * MINUTES_PER_HOUR,
        "ben",
        "refund 18 EUR of order 1039, one towel had a hole",
        button_presses=[("ana", "approve", "")],
    ),
    PastMessageRequest(
        44 * MINUTES_PER_HOUR,
        "dan",
        "cancel order 1044, the customer wants another colour",
        button_presses=[("cleo", "reject_now", "finance-approvals")],
    ),
    PastMessageRequest(
        27 * MINUTES_PER_HOUR,
        "ben",
        "refund 119 EUR of order 1031, the blanket came torn",
        button_presses=[("ana", "approve", ""), ("cleo", "approve", "")],
    ),
    PastMessageRequest(
        26 * MINUTES_PER_HOUR, "dan", "refund 5 EUR of order 1037, the tea was late"
    ),  # expired, as nobody decided
    PastMessageRequest(
        3 * MINUTES_PER_HOUR,
        "ben",
        "run `UPDATE product SET price_cents = 1600 WHERE sku = 'MUG'` on shop",
        button_presses=[("ana", "approve", ""), ("cleo", "approve", "")],
    ),
    PastMessageRequest(40, "dan", "refund 9.50 EUR of order 1036, a candle came broken"),
    PastMessageRequest(12, "dan", "run `UPDATE product SET stock = 60 WHERE sku = 'MUG'` on shop"),
)


def build_workspace() -> Seed:
    """Return the sandbox's usual workspace with one more channel, for the demo's history."""
    seed = default_seed()
    general = next(each for each in seed.channels if each.name == "general")
    seed.channels.append(
        replace(general, id="C0ORDERS", name=ORDERS_CHANNEL, members=[*general.members])
    )
    return seed


def play_history(
    sandbox: Sandbox,
    now: Callable[[], datetime],
    settle: Callable[[], None],
    past: Iterable[PastMessageRequest | PastProgramRequest],
) -> None:
    """Play all past requests, oldest first, and leave the sandbox's clock at `now`.

    The clock must be earlier than the first scene. `settle` waits until the bot is idle. A scene
    that fails is logged and left out: the demo works without it.
    """
    for each in sorted(past, key=lambda scene: -scene.minutes_ago):
        _advance_clock_to(sandbox, now() - timedelta(minutes=each.minutes_ago), settle)
        try:
            each.play(sandbox, settle)
        except Exception as error:  # noqa: BLE001 - the demo goes on without it
            log.warning(
                "not in the demo's past: what began %s min ago: %s", each.minutes_ago, error
            )
    _advance_clock_to(sandbox, now(), settle)


def _advance_clock_to(sandbox: Sandbox, moment: datetime, settle: Callable[[], None]) -> None:
    """Advance the clock to `moment`, an hour at a time: what falls due happens at its time."""
    while (left := (moment - sandbox.clock.now()).total_seconds()) > 0:
        sandbox.clock.advance(min(left, 3600.0))
        settle()


def press_button(
    sandbox: Sandbox,
    person: Actor,
    channel: str,
    card: Json,
    action: str,
    settle: Callable[[], None],
) -> None:
    """Let a person press this button of a card, and wait until the bot is idle again."""
    person.click(channel, card["ts"], action)
    sandbox.wait(lambda: all(each.outcome != "pending" for each in sandbox.deliveries))
    settle()


def get_channel_id(sandbox: Sandbox, name: str) -> str:
    """Return the id of the channel with this name; StopIteration if there is none."""
    return next(
        each.id for each in sandbox.world.channels.values() if each.name.lstrip("#") == name
    )


def find_card_with_button(person: Actor, channel: str, thread: str | None, action: str) -> Json:
    """Return the newest message with this button; {} if there is none."""
    for message in reversed(person.messages(channel, thread)):
        for block in message.get("blocks") or ():
            if any(each.get("action_id") == action for each in block.get("elements") or ()):
                return message
    return {}


def get_history_start() -> datetime:
    """Return the time five minutes before the oldest request of PAST_REQUESTS, in UTC."""
    return datetime.now(UTC) - timedelta(
        minutes=max(each.minutes_ago for each in PAST_REQUESTS) + 5
    )


VARIABLES_FILE_NAME = (
    "program.sh"  # the shell variables that a program at another terminal needs to ask
)
DEPLOY_ACTION = OwnAction(
    "deploy_shop",
    "Deploy the shop",
    "Deploy {version} to {env}",
    Does.WRITE,
    {
        "type": "object",
        "properties": {
            "version": {"type": "string", "title": "Version"},
            "env": {"enum": ["staging", "prod"], "title": "Where"},
        },
        "required": ["version", "env"],
    },
)


@dataclass(frozen=True, slots=True)
class PastProgramRequest:
    """A program's request in #orders, `minutes_ago`; approved by Cleo if it has a `result`."""

    client: Countersign
    minutes_ago: int
    action: str | OwnAction
    arguments: Mapping[str, Any]
    reason: str
    result: str = ""  # the outcome, if the program executed it itself

    def play(self, sandbox: Sandbox, settle: Callable[[], None]) -> None:
        """Send the request; if it has a `result`, get it approved, claim it and report."""
        request = self.client.request(
            self.action, self.arguments, channel=f"#{ORDERS_CHANNEL}", reason=self.reason
        )
        settle()
        if not self.result:
            return
        cleo, orders = sandbox.person("cleo"), get_channel_id(sandbox, ORDERS_CHANNEL)
        thread = cleo.messages(orders)[-1]["ts"]
        card = sandbox.wait(partial(find_card_with_button, cleo, orders, thread, "approve"))
        sandbox.clock.advance(4 * 60)
        press_button(sandbox, cleo, orders, card, "approve", settle)
        claimant = generate_claimant_id()
        self.client.claim(request.id, claimant)
        self.client.report(request.id, claimant, succeeded=True, result=self.result)
        settle()


def build_past_program_requests(url: str, record: Path) -> list[PastProgramRequest]:
    """Return the programs' requests: a release job this morning, a help desk's agent just now."""
    release = Countersign(url, create_api_key("ci", "@ben", ["deploy_*"], record))
    desk = Countersign(url, create_api_key("help-desk", "@dan", ["refund_order"], record))
    refund = {"order_id": 1046, "amount": "12.00", "reason": "damaged"}
    return [
        PastProgramRequest(
            release,
            5 * MINUTES_PER_HOUR,
            DEPLOY_ACTION,
            {"version": "2.7.1", "env": "prod"},
            "All tests are green.",
            "deployed in 41 s",
        ),
        PastProgramRequest(
            desk, 6, "refund_order", refund, "The customer sent a picture of the broken lid."
        ),
    ]


def create_api_key(name: str, person: str, tools: list[str], database: Path) -> str:
    """Return a new API key for a program, made by the bot whose database file this is."""
    wanted = {"name": name, "person": person, "tools": tools}
    return str(ApiTransport(build_bot_socket_address(database), "").post("/v1/keys", wanted)["key"])


def write_terminal_shell_file(folder: Path, record: Path, variables: Mapping[str, str]) -> None:
    """Write a shell file for programs at another terminal: an API key for Ben, and `variables`."""
    given = {"COUNTERSIGN_API_KEY": create_api_key("terminal", "@ben", ["*"], record), **variables}
    file = folder / VARIABLES_FILE_NAME
    file.touch(0o600)
    file.write_text("".join(f"export {name}={shlex.quote(given[name])}\n" for name in given))
