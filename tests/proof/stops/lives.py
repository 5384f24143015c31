"""One life of a command in which something hangs, and how long its end by signals took."""

from __future__ import annotations

import importlib.abc
import json
import os
import random
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from sqlalchemy import select

from bot.cli.bot_connection import BotRefusedError, BotUnreachableError
from bot.config.connection_settings import Transport
from bot.demo.model_server import Turn
from storage.backend import socket_path
from storage.models import Delivery
from storage.transaction import fetch_rows
from tests.client_keys import make_key
from tests.local_slack import build_local_slack
from tests.model_stand_in.planner import StrictPlanner
from tests.postgres_server import Server
from tests.records import KEY, store_of
from tests.stories.harness import SUPPORT
from tests.stories.process import BotProcess, run_bot
from tests.stories.typist import ROOT, Typist

LONGEST = 15.0  # seconds from the first signal to the end
POST_METHODS = ("chat.postMessage", "chat.update", "assistant.threads.setStatus")
LOOK_UP_METHODS = ("users.info", "users.list", "usergroups.users.list", "conversations.info")
HANGS = ("nothing", "slack", "model", "tool", "look-up", "webhook", "import", "database")
SECONDS_WHEN_UP = 2.0  # a life that is up is struck within so many seconds
SECONDS_AT_START = 6.0  # a life that only starts, within so many


@dataclass(frozen=True, slots=True)
class Stop:
    """One stop, and its result."""

    command: str
    hung: str
    signals: int
    seconds: float
    wrong: str = ""

    def __str__(self) -> str:
        told = f"{self.command}, {self.hung} hung, {self.signals} signals: {self.seconds:.1f} s"
        return f"{told} {self.wrong}".rstrip()


class _Stuck(importlib.abc.MetaPathFinder):
    """Makes the import of the model's client hang."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Hang at its name."""
        if name.partition(".")[0] == "openai":
            threading.Event().wait(3600)
        return None


def run_stuck(command: str, environ: dict[str, str], log: str) -> None:
    """Run the bot with a hanging import of the model's client, which the parent has imported."""
    for name in [each for each in sys.modules if each.partition(".")[0] == "openai"]:
        del sys.modules[name]
    sys.modules.pop("bot.agent.planner", None)
    sys.meta_path.insert(0, _Stuck())
    run_bot(command, environ, log)


@contextmanager
def open_silent_server() -> Iterator[str]:
    """The address of a server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/v1"


def send_signals(
    chance: random.Random, kill: Callable[[int], None], wait: Callable[[float], bool]
) -> tuple[int, float]:
    """Send one to ten signals of both kinds, at once and with pauses; returns how many, and the
    time until the end. `wait` returns whether it has ended within so many seconds.
    """
    number = chance.choice([1, 2, 2, 3, 3, 10])
    begun = time.monotonic()
    for _ in range(number):
        with suppress(ProcessLookupError):
            kill(chance.choice([signal.SIGTERM, signal.SIGINT]))
        wait(chance.choice([0.0, 0.001, 0.05, 0.3]))
    wait(LONGEST + 5 - (time.monotonic() - begun))
    return number, time.monotonic() - begun


def stop_bot(
    folder: Path, chance: random.Random, over: Transport, hung: str, server: Server | None = None
) -> Stop:
    """Stop the bot over Socket Mode or HTTP, or as a replica on that server."""
    with ExitStack() as stack:
        silence = stack.enter_context(open_silent_server())
        slack, planner = (
            stack.enter_context(build_local_slack()),
            stack.enter_context(StrictPlanner()),
        )
        bot = BotProcess(
            folder, slack, planner, over=over, **_build_settings(hung, silence, server)
        )
        if hung == "import":
            bot.target = run_stuck
        is_up = hung in ("tool", "look-up", "webhook") or chance.random() < 0.7
        try:
            bot.start(wait=is_up)
        except TimeoutError:  # the machine is busy: it is struck while it starts
            is_up = False
        process = bot.process
        assert process is not None
        if is_up:
            _make_it_hang(bot, hung, silence, stack)
            for _ in range(chance.randint(1, 3)):
                planner.script(Turn(calls=[("look", {"text": "x"})]), Turn(text="Here you are."))
                slack.person("ben").say(SUPPORT, "@bot please")
        # at any moment: during the start, a request, or afterwards
        process.join(chance.random() * (SECONDS_WHEN_UP if is_up else SECONDS_AT_START))
        pid = process.pid or 0

        def ended(seconds: float) -> bool:
            process.join(max(seconds, 0.0))
            return not process.is_alive()

        number, took = send_signals(chance, lambda what: os.kill(pid, what), ended)
        if process.is_alive():
            process.kill()
            process.join(5)
        said = (each.event for each in slack.deliveries if each.ok)
        heard = {each["ts"] for each in said if each.get("user") == "UBEN00001" and "ts" in each}
    name = {Transport.SOCKET: "run", Transport.HTTP: "serve"}[over]
    wrong = "" if server is not None or hung == "database" else _describe_lost(folder, heard)
    return Stop("replica" if server else name, hung, number, took, _describe_delay(took) or wrong)


def _build_settings(hung: str, silence: str, server: Server | None) -> dict[str, str]:
    asks = {"OPENAI_BASE_URL": silence} if hung == "model" else {}
    if server is not None:
        asks |= {"DATABASE_URL": server.url("stops", "owner"), "COUNTERSIGN_KEY": KEY}
        asks["XDG_RUNTIME_DIR"] = str(server.folder)  # a killed process leaves its socket there
    return asks


def _make_it_hang(bot: BotProcess, hung: str, silence: str, stack: ExitStack) -> None:
    match hung:
        case "slack" | "look-up":
            for method in POST_METHODS if hung == "slack" else LOOK_UP_METHODS:
                bot.slack.faults.hang(method, times=100)
        case "tool":
            os.mkfifo(bot.folder / "hang")
        case "webhook":
            _ask_by_program(bot, silence)
        case "database":
            other = sqlite3.connect(bot.folder / "countersign.db", isolation_level=None, timeout=5)
            stack.callback(other.close)
            with suppress(sqlite3.OperationalError):
                other.execute("BEGIN IMMEDIATE")


def _ask_by_program(bot: BotProcess, silence: str) -> None:
    """A program requests a call that runs at once, with a webhook that never answers."""
    record = bot.folder / "countersign.db"
    try:
        key = make_key(record, "program", "@ben", ["look"], webhook=silence).key
    except (BotUnreachableError, BotRefusedError):
        return
    line = HTTPConnection(bot.address, timeout=5)
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    body = {"tool": "look", "arguments": {"text": "x"}, "channel": "#support"}
    with suppress(OSError, HTTPException):
        line.request("POST", "/v1/requests", json.dumps(body), headers)
        line.getresponse().read()
    line.close()


def _describe_lost(folder: Path, heard: set[str]) -> str:
    """Messages acknowledged to Slack that are not stored; "" for none."""
    store = store_of(folder / "countersign.db")
    if not store.path.exists():
        return ""
    with store.read() as tx:
        keys = " ".join(each.key for each in fetch_rows(tx, Delivery, select(Delivery)))
    store.close()
    lost = [ts for ts in heard if ts not in keys]
    return f"an acknowledged message is lost: {lost}" if lost else ""


def _describe_delay(took: float) -> str:
    return "TOO LONG" if took >= LONGEST else ""


def stop_command(
    folder: Path, chance: random.Random, name: str, *words: str, **environ: Any
) -> Stop:
    """Stop another command, as a process of its own, at any moment of its start and after it."""
    given = {"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": str(ROOT), **environ}
    with subprocess.Popen(
        [sys.executable, "-m", "bot", *words],
        cwd=folder,
        env=given,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:

        def ended(seconds: float) -> bool:
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(seconds, 0.0))
            return process.returncode is not None

        ended(chance.random() * SECONDS_AT_START)
        number, took = send_signals(chance, process.send_signal, ended)
        process.kill()
    return Stop(
        name, "all behind it" if environ else "nothing", number, took, _describe_delay(took)
    )


def stop_demo(folder: Path, chance: random.Random) -> Stop:
    """Stop the demo, at any moment."""
    return stop_command(folder, chance, "demo", "demo", "--port", "0")


def stop_proxy(folder: Path, chance: random.Random) -> Stop:
    """Stop `mcp-proxy`, whose server does not answer, nor does the bot."""
    (folder / "server.py").write_text("import time\nwhile True: time.sleep(9)\n")
    behind = ("mcp-proxy", "--", sys.executable, str(folder / "server.py"))
    with open_silent_server() as silence:
        named = {"COUNTERSIGN_URL": silence.removesuffix("/v1"), "COUNTERSIGN_API_KEY": "x" * 43}
        return stop_command(folder, chance, "mcp-proxy", *behind, **named)


def stop_chat(folder: Path, chance: random.Random) -> Stop:
    """Stop `countersign chat` at a terminal, with a bot that does not answer."""
    database = folder / "countersign.db"
    store_of(database).open().close()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as bot:
        bot.bind(str(socket_path(database)))
        bot.listen()
        typist = Typist(folder, {"DATABASE_URL": f"sqlite:///{database}"}, "chat")
        process = typist.process

        def ended(seconds: float) -> bool:
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(seconds, 0.0))
            return process.returncode is not None

        ended(chance.random() * SECONDS_AT_START)
        number, took = send_signals(chance, process.send_signal, ended)
        process.kill()
        process.wait()
        typist.close()
    return Stop("chat", "the bot", number, took, _describe_delay(took))


def stopped_at_random(folder: Path, seed: int, server: Server | None) -> Stop:
    """The stop of that seed; `server` is for replicas, if there is one."""
    chance = random.Random(seed)
    what = chance.choice(["run"] * 5 + ["serve"] * 4 + ["replica"] * 2 + ["demo", "proxy", "chat"])
    match what:
        case "demo":
            return stop_demo(folder, chance)
        case "proxy":
            return stop_proxy(folder, chance)
        case "chat":
            return stop_chat(folder, chance)
    over = Transport.HTTP if what == "serve" else Transport.SOCKET
    on = server if what == "replica" else None
    possible = [
        each
        for each in HANGS
        if (each != "webhook" or what == "serve") and (each != "database" or on is None)
    ]
    return stop_bot(folder, chance, over, chance.choice(possible), on)
