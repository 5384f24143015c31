"""One life of the bot, in a process that is really killed, and the pipe to it.

The process is the whole product, over the wires of the local Slack and the stand-in for the model.
It follows messages on its pipe: come to rest, move its clock, end.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from sqlalchemy import select
from sqlmodel import col

from bot.app import App, build
from bot.config.connection_settings import Transport
from bot.config.settings import Settings
from bot.policy.evaluation import parse
from slack_sandbox.workspace.clock import ShiftedClock
from storage import replicas
from storage.models import Run
from storage.schedule import count_backlog
from storage.states import RunSource, RunStatus
from storage.transaction import fetch_rows
from tests.proof.crash.disk import Power
from tests.proof.crash.steps import Step, Steps
from tests.proof.crash.tools import Ledger, make_tools
from tests.proof.crash.troubles import ENDS, LASTS, Trouble, start_trouble
from tests.stories.process import FORKS, PRELOADED

LATE_IMPORTS = (
    *(
        "bot.agent.chat_completions",
        "bot.http.local_api",
        "bot.mcp.server_connection",
        "bot.terminal.terminal",
    ),
    *("storage.sqlite", "tzdata", "webauthn"),
)
FORKS.set_forkserver_preload(
    [*PRELOADED, *LATE_IMPORTS, "tests.proof.crash.life", "tests.proof.crash.warm"]
)
TAKE_OVER_SECONDS = 15  # seconds to wait for what a dead process had received, or was about to send
MAX_SECONDS = 120  # seconds that anything may take


class Died(Exception):
    """The process has died."""


class Stuck(Exception):
    """Nothing is in progress, and what people wait for is missing; or the bot does not come to
    rest.
    """


@dataclass(frozen=True)
class Orders:
    """What one life is told at its start."""

    settings: dict[str, str]
    policy: str
    folder: Path
    shift: float = 0.0  # seconds by which its clock is ahead
    at: Step | None = None  # the step at which it is struck, if any
    trouble: Trouble = Trouble.KILLED
    lasts: float = LASTS  # seconds until the disk works again
    over: Transport = Transport.SOCKET  # how Slack reaches it


class Life:
    """The pipe to a process; each method raises Died once it has died."""

    def __init__(
        self, orders: Orders, live: Callable[[Orders, Connection], None] | None = None
    ) -> None:
        """Start it, and wait until it works; `live` is the process (None: a single bot)."""
        self._line, theirs = FORKS.Pipe()
        self.process = FORKS.Process(target=live or _run_bot, args=(orders, theirs))
        self.process.start()
        theirs.close()
        try:
            self._answer()
        except BaseException:
            self.kill()
            raise

    def settle(self) -> None:
        """Wait until nothing is in progress in it."""
        self._ask("settle")

    def outlast(self) -> None:
        """Wait until it takes over from dead processes: on a server its leases say which are."""
        self._ask("outlast")

    def advance(self, seconds: float) -> None:
        """Move its clock."""
        self._ask("advance", seconds)

    def do(self, what: Callable[..., Any], *given: Any) -> Any:
        """Have it call this with its app and the arguments; returns the result."""
        return self._ask("do", what, *given)

    def stop(self) -> tuple[list[Step], bool]:
        """End it properly; return its steps, and whether it was struck."""
        found: tuple[list[Step], bool] = self._ask("stop")
        self.process.join(10)
        self._line.close()
        return found

    def kill(self) -> None:
        """Kill it, and wait until it is gone."""
        self.process.kill()
        self.process.join(10)
        self._line.close()

    def _ask(self, *words: Any) -> Any:
        try:
            self._line.send(words)
        except OSError:
            raise Died from None
        return self._answer()

    def _answer(self) -> Any:
        try:
            if not self._line.poll(MAX_SECONDS):
                raise Stuck("the bot does not answer")
            error, found = self._line.recv()
        except (EOFError, ConnectionResetError):
            raise Died from None
        if error:
            raise Stuck(error)
        return found


def _run_bot(orders: Orders, line: Connection) -> None:
    """The process: the product, controlled by its pipe."""
    with (orders.folder / "log").open("ab") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    try:
        well = threading.Event()  # set while the disk works
        well.set()
        clock = ShiftedClock()
        clock.advance(orders.shift)
        app, steps = _begin(orders, clock, well)
        line.send(("", None))
        while True:
            match line.recv():
                case ("settle",):
                    well.wait(MAX_SECONDS)
                    line.send((settle_app(app), None))
                case ("outlast",):
                    rest = app.core.signals.rest
                    outlasts = rest.wait_for(app.replicas.may_reclaim_lapsed_runs, MAX_SECONDS / 2)
                    rest.wait_for(partial(_has_taken_over, app), TAKE_OVER_SECONDS)
                    line.send(("" if outlasts else "nobody counts as dead", None))
                case ("advance", seconds):
                    clock.advance(seconds)
                    line.send(("", None))
                case ("do", what, *given):
                    line.send(("", what(app, *given)))
                case ("stop",):
                    app.stop()
                    line.send(("", (steps.found, steps.struck)))
                    break
    except BaseException:
        traceback.print_exc()
        line.send((traceback.format_exc(), None))
        raise
    finally:
        sys.stderr.flush()
        os._exit(0)


def settle_app(app: App) -> str:
    """Wait until nothing is in progress in it; returns what is wrong, or ""."""
    is_quiet = app.core.signals.rest.wait_for(partial(_is_quiet, app), MAX_SECONDS / 2)
    return "" if is_quiet else "Countersign did not become idle"


def _is_quiet(app: App) -> bool:
    """Whether nothing is in progress except a call during which somebody is asked."""
    if app.is_idle():
        return True
    with app.core.store.read() as tx:
        amid = (col(Run.source) == RunSource.SERVER, col(Run.status) == RunStatus.WAITING)
        asking = fetch_rows(tx, Run, select(Run).where(*amid))
        left = count_backlog(tx)
    is_told = left.unread == left.unsent == 0
    return bool(asking) and is_told and not app.loop.busy and app.outbox.is_idle()


def _has_taken_over(app: App) -> bool:
    """Whether nothing is left that a dead process had received or was about to send, and none of
    its channels.
    """
    with app.core.store.read() as tx:
        found, heartbeats = count_backlog(tx), replicas.get_heartbeat_expiry_by_replica(tx)
    living = [until for until in heartbeats.values() if until > app.core.clock.now()]
    return found.unread == found.unsent == 0 and len(living) <= 1


def _begin(orders: Orders, clock: ShiftedClock, well: threading.Event) -> tuple[App, Steps]:
    folder = orders.folder
    settings = Settings.load(orders.settings, transport=orders.over)
    ledger = Ledger(folder)
    made: list[App] = []
    power = Power(folder, settings.database_url)
    strike = partial(_strike, orders, made, power, well)
    steps = Steps(orders.at, strike, power.keep)
    tools = make_tools(ledger, steps.reached, folder)
    app = build(settings, clock, parse(orders.policy), tools)
    made.append(app)
    ledger.store = app.core.store
    if orders.trouble is Trouble.POWER:
        power.watch()
    steps.watch_wires()
    app.core.store.trace = steps
    app.start()
    return app, steps


def _strike(orders: Orders, made: list[App], power: Power, well: threading.Event) -> None:
    if orders.trouble in ENDS:
        with power.lock:  # so the copy is complete
            os.kill(os.getpid(), signal.SIGKILL)
    start_trouble(orders.trouble, made[0].core.store, orders.lasts, well)
