"""One world: a local Slack, a stand-in for the model, a database, and the bot's lives in it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import select

from bot.config.connection_settings import Transport
from slack_sandbox.workspace.clock import ShiftedClock
from storage.digest import key_file_path, load_or_create_signing_key
from storage.models import Call, Delivery, Message, Run
from storage.states import MESSAGE_OPEN_STATUSES, RUN_OPEN_STATUSES
from storage.store import Store
from storage.transaction import fetch_rows
from tests.local_slack import build_local_slack
from tests.model_stand_in.planner import StrictPlanner
from tests.proof.crash.disk import Power
from tests.proof.crash.life import Died, Life, Orders, Stuck
from tests.proof.crash.minds import Mind
from tests.proof.crash.steps import ANY, Step
from tests.proof.crash.tools import Ledger
from tests.proof.crash.troubles import LASTS, Trouble
from tests.records import ON_A_SERVER, drop, settings_of, store_of
from tests.stories.over_http import asked_at, free_port

ROOM = "4m"  # size of the small disk that can be made full
MAX_LIVES = 5
# seconds until a process on a server takes over from a dead one; a file has only one process
LEASE = "2" if ON_A_SERVER else "60"
# columns of a row to print after a failure
TOLD = ("key", "kind", "status", "revision", "lease_until", "wanted", "shown", "note", "body")
EARLY_STEPS = 24  # a second life may be struck within this many steps


class World:
    """What remains when the bot dies."""

    def __init__(
        self,
        folder: Path,
        mind: Mind,
        policy: str,
        strike: tuple[Trouble, Step] | None = None,
        *,
        over: Transport = Transport.SOCKET,
        served: bool = False,
    ) -> None:
        """The first life is struck by that trouble at that step.

        With `over` HTTP the bot listens to Slack and to programs, as `countersign serve`
        does. `served`: it has the tool of an MCP server, which asks somebody during the
        call.
        """
        self.folder, self.policy, self.over = folder, policy, over
        self.address = ""  # where the bot listens, if it does
        self.served, self._ends = served, ExitStack()
        self.clock = ShiftedClock()
        self.slack = build_local_slack(clock=self.clock)
        self.slack.world.ack_seconds = 1.5  # seconds that people wait for a dead process
        self.planner = StrictPlanner(mind=mind)
        self.ledger = Ledger(folder)
        self.trouble, self.at = strike or (Trouble.KILLED, None)
        self.database = folder / "disk" / "countersign.db"
        self.where: dict[str, str] = {}  # the settings that say where the record is
        self.lasts = LASTS
        self.shifted = 0.0
        self.lives = 0
        self.struck = False
        self.steps: list[Step] = []  # of the first life, if it ended properly
        self._life: Life | None = None

    def begin(self) -> None:
        """Start everything but the bot."""
        self.database.parent.mkdir(parents=True)
        if self.trouble is Trouble.FULL:
            mount(self.database.parent)
        self.where = settings_of(self.database)
        (self.folder / "shelf").write_text("3")
        self.write_policy(self.policy)
        self.slack.start()
        self.planner.start()
        if self.served:
            from tests.proof.crash.asking_server import serve_asking_server  # loads much

            file = self._ends.enter_context(serve_asking_server(self.folder, self.note))
            self.where |= {"COUNTERSIGN_SERVERS": str(file)}
        if self.over is Transport.HTTP:
            self.address = f"127.0.0.1:{free_port()}"
            asked_at(self.slack.world.app.manifest, f"http://{self.address}")

    def end(self) -> None:
        """End everything, and remove the record."""
        if self._life is not None:
            self._life.kill()
        self._ends.close()
        self.planner.stop()
        self.slack.stop()
        if self.trouble is Trouble.FULL:
            unmount(self.database.parent)
        drop(self.database)

    def write_policy(self, text: str) -> None:
        """Write the policy file, which the bot reads again while it works."""
        self.policy = text
        (self.folder / "policy.toml").write_text(text, "utf-8")

    @property
    def life(self) -> Life:
        """The bot, which is started if it is not alive."""
        while self._life is None:
            if self.lives == MAX_LIVES:
                raise Stuck("the bot dies again and again")
            self.lives += 1
            try:
                self._life = Life(self._orders())
            except Died:
                self.record_death()
        return self._life

    def record_death(self) -> None:
        """The process has died; people go on once there is another one."""
        if self._life is not None:
            self._life.kill()
        self._life, self.struck = None, True
        self.slack.wait(lambda: self.slack.connections == 0)
        if self.trouble is Trouble.POWER:
            Power(self.folder, self.where["DATABASE_URL"]).fail()

    def stop(self) -> None:
        """End the bot properly."""
        steps, struck = self.life.stop()
        self._life = None
        if self.lives == 1:
            self.steps, self.struck = steps, struck

    def advance(self, seconds: float) -> None:
        """Let time pass for everybody."""
        self.shifted += seconds
        self.clock.advance(seconds)
        self.life.advance(seconds)

    def store(self) -> Store:
        """The record, read from outside."""
        if ON_A_SERVER:
            return store_of(self.database)
        return Store(
            self.where["DATABASE_URL"], key=load_or_create_signing_key(key_file_path(self.database))
        )

    def all(self, model: type[Any], *where: Any) -> list[Any]:
        """Every row of a table."""
        store = self.store()
        try:
            with store.read() as tx:
                return fetch_rows(tx, model, select(model).where(*where))
        finally:
            store.close()

    def note(self, tool: str, text: str) -> None:
        """Note in the ledger that somebody outside the bot did the one call of that tool."""
        [call] = self.all(Call, Call.tool == tool)
        self.ledger.store = store = self.store()
        try:
            self.ledger.note(tool, text, call.id)
        finally:
            store.close()

    def is_over(self) -> bool:
        """Whether no request is open and no message is left to send."""
        unsent = self.all(Message, Message.status.in_(MESSAGE_OPEN_STATUSES))
        return not unsent and not self.all(Run, Run.status.in_(list(RUN_OPEN_STATUSES)))

    def _orders(self) -> Orders:
        return Orders(
            {
                "SLACK_BOT_TOKEN": self.slack.bot_token,
                "SLACK_APP_TOKEN": self.slack.app_token,
                "SLACK_API_URL": self.slack.api_url,
                "OPENAI_API_KEY": "sk-offline-offline-offline",
                "OPENAI_BASE_URL": self.planner.url,
                **self.where,
                "COUNTERSIGN_POLICY": str(self.folder / "policy.toml"),
                "COUNTERSIGN_MODEL_BACKOFF": "0.05",
                "COUNTERSIGN_LEASE": LEASE,
                "COUNTERSIGN_URL": "https://approve.example.com",
                **self._listening(),
            },
            self.policy,
            self.folder,
            self.shifted,
            self._strike(),
            self.trouble,
            self.lasts,
            self.over,
        )

    def _listening(self) -> dict[str, str]:
        if not self.address:
            signs = "passkey" in self.policy  # the bot has a page then, at any port
            return {"COUNTERSIGN_HTTP": "127.0.0.1:0"} if signs else {}
        secret = self.slack.world.app.signing_secret
        return {"SLACK_SIGNING_SECRET": secret, "COUNTERSIGN_HTTP": self.address}

    def _strike(self) -> Step | None:
        if self.lives == 1:
            return self.at
        if self.lives == 2 and self.at and self.trouble is Trouble.TWICE:
            return Step(ANY, 1 + sum(str(self.at).encode()) % EARLY_STEPS)
        return None


@contextmanager
def open_world(
    folder: Path,
    mind: Mind,
    policy: str,
    strike: tuple[Trouble, Step] | None = None,
    *,
    over: Transport = Transport.SOCKET,
    served: bool = False,
) -> Iterator[World]:
    """A world in that folder, which is removed at the end."""
    folder.mkdir(parents=True)
    made = World(folder, mind, policy, strike, over=over, served=served)
    try:
        made.begin()
        yield made
    finally:
        made.end()
        shutil.rmtree(folder)


def describe_world(made: World) -> list[str]:
    """What the record, the ledger and the local Slack contain, in lines; for a failure."""
    found = [f"{made.lives} lives, struck: {made.struck}, {made.shifted:.0f} s ahead"]
    for model in (Run, Call, Delivery, Message):
        for row in made.all(model):
            told = {name: getattr(row, name, None) for name in TOLD}
            said = ", ".join(f"{name} {value}" for name, value in told.items() if value)
            found.append(f"{model.__name__}: {said}")
    found += [f"ledger: {line}" for line in made.ledger.lines()]
    for each in made.slack.deliveries:
        what = each.event.get("type") or each.payload.get("type") or each.kind
        found.append(f"delivered: {what}, attempt {each.attempts}, {each.outcome}, ok: {each.ok}")
    return found


def mount(folder: Path) -> None:
    """Make `folder` a small disk; raises CalledProcessError if this user may not."""
    kind = ("-t", "tmpfs", "-o", f"size={ROOM}", "none", str(folder))
    subprocess.run(["mount", *kind], check=True, capture_output=True)


def unmount(folder: Path) -> None:
    """Remove that disk."""
    subprocess.run(["umount", "-l", str(folder)], check=True, capture_output=True)


def can_mount(folder: Path) -> bool:
    """Whether this user may have a small disk."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        mount(folder)
    except (OSError, subprocess.CalledProcessError):
        return False
    unmount(folder)
    return True
