"""One life of a process that serves two workspaces, which is really killed."""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

from bot.app import App, build
from bot.config.settings import Settings
from bot.workspaces.host import WorkspaceHost
from bot.workspaces.hosted import AppSource
from slack_sandbox.workspace.clock import ShiftedClock
from tests.proof.crash.life import MAX_SECONDS, Orders, settle_app
from tests.proof.crash.steps import Steps
from tests.proof.crash.tools import Ledger, make_tools

NEVER_QUIET_SECONDS = 1e9  # seconds: no app is stopped
WORKSPACES = 2
CHECK_SECONDS = 0.05  # seconds between two checks whether they are awake


def serve(orders: Orders, line: Connection) -> None:
    """The process: it follows the messages on its pipe, as in `tests.proof.crash.life`."""
    with (orders.folder / "log").open("ab") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    try:
        clock = ShiftedClock()
        clock.advance(orders.shift)
        steps = Steps(orders.at, partial(os.kill, os.getpid(), signal.SIGKILL), lambda: None)
        host = _begin(orders, clock, steps)
        line.send(("", None))
        while True:
            match line.recv():
                case ("settle",):
                    line.send((_settle(host), None))
                case ("outlast",):  # a file has only one process: none has to be outlasted
                    line.send(("", None))
                case ("advance", seconds):
                    clock.advance(seconds)
                    line.send(("", None))
                case ("stop",):
                    host.stop()
                    line.send(("", (steps.found, steps.struck)))
                    break
    except BaseException:
        traceback.print_exc()
        line.send((traceback.format_exc(), None))
        raise
    finally:
        sys.stderr.flush()
        os._exit(0)


def _begin(orders: Orders, clock: ShiftedClock, steps: Steps) -> WorkspaceHost:
    settings = Settings.load(orders.settings, transport=orders.over)

    def build_traced(own: Settings, *given: Any, **more: Any) -> App:
        """Return the app of a workspace, whose tools note in its folder what they do."""
        policy = given[1]
        ledger = Ledger(settings.workspaces / str(own.workspace))
        tools = make_tools(ledger, steps.reached, ledger.path.parent)
        app = build(own, clock, policy, tools, **more)
        ledger.store = app.core.store
        app.core.store.trace = steps
        return app

    steps.watch_wires()
    host = WorkspaceHost(
        settings, clock, AppSource(build_traced, orders.settings), NEVER_QUIET_SECONDS
    )
    host.start()
    return host


def _settle(host: WorkspaceHost) -> str:
    """Wait until both are awake, by themselves, and nothing is in progress in either."""
    if not _wait_until_awake(host):
        return "a workspace was not started again"
    for _ in range(20):
        for app in _list_apps(host):
            if wrong := settle_app(app):
                return wrong
        if all(app.is_idle() for app in _list_apps(host)):
            return ""
    return "they did not come to rest together"


def _wait_until_awake(host: WorkspaceHost) -> bool:
    pause, left = threading.Event(), int(MAX_SECONDS / 2 / CHECK_SECONDS)
    while len([*_list_apps(host)]) < WORKSPACES and left:
        pause.wait(CHECK_SECONDS)
        left -= 1
    return left > 0


def _list_apps(host: WorkspaceHost) -> Iterator[App]:
    for each in host.list_hosted():
        if each.is_awake:
            with each.use_app() as app:
                yield app
