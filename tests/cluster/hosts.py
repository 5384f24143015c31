"""Several processes that share many workspaces, on one database server, with a local Slack.

Every test ends with `check_all`: in each workspace nothing is lost, nothing happens twice, and
every card is true. A word (w17) is requested in one workspace only, so an effect in another would
show.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

from bot.app import build
from bot.cards.sentences import LOOKUP_FAILED_REPLY
from bot.config.workspace_settings import get_schema_name
from bot.workspaces.host import WorkspaceHost
from bot.workspaces.hosted import QUIET_TIMEOUT_SECONDS, AppSource
from slack_sandbox.client.actor import Actor
from slack_sandbox.server import Sandbox
from storage.installations import InstallationRecord
from tests.cluster.cluster import KEY, POLICY, Threads, build_answer, plan_turn
from tests.cluster.proxy import Proxy
from tests.cluster.replica import Replica, WrongClock, begin_process
from tests.model_stand_in.planner import StrictPlanner
from tests.postgres_server import Server, binaries, serve
from tests.stories.messages import action_ids, is_card, words
from tests.stories.over_http import asked_at, free_port, is_ready
from tests.workspaces.many import CHANNELS, TOKEN_KEYS, build_slack, install_everywhere

T = TypeVar("T")
RELUCTANCE = 0.5  # seconds after which a person clicks again after an error


def _run(environ: dict[str, str], log: str, ahead: float) -> None:
    """Run `countersign serve`, for many workspaces, on a machine whose clock is so far ahead."""
    settings, _ = begin_process(environ, log)
    quiet = float(os.environ.get("QUIET", QUIET_TIMEOUT_SECONDS))
    clock = WrongClock(timedelta(seconds=ahead))
    host = WorkspaceHost(settings, clock, AppSource(build, dict(os.environ)), quiet)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        host.start()
        host.wait()
    finally:
        host.stop()


class HostProcess(Replica):
    """A process that serves workspaces."""

    body = staticmethod(_run)

    @property
    def address(self) -> str:
        """The address where it listens."""
        return self.environ["COUNTERSIGN_HTTP"]


class Hosts(Threads):
    """The database, the local Slack, the model and the processes of a test."""

    def __init__(
        self, folder: Path, server: Server, slack: Sandbox, planner: StrictPlanner
    ) -> None:
        self.folder, self.server, self.slack, self.planner = folder, server, slack, planner
        server.fresh("hosts")
        (folder / "policy.toml").write_text(POLICY)
        self.record = InstallationRecord(server.url("hosts", "owner")).open()
        install_everywhere(slack, self.record)
        self.teams = list(slack.world.worlds)
        self.processes: list[HostProcess] = []
        self.threads: dict[str, tuple[str, str, str]] = {}  # each word's team, channel and thread
        self._proxies: list[Proxy] = []

    def create_proxy(self) -> Proxy:
        """A network to the database that can be cut."""
        there = Path(tempfile.mkdtemp(prefix="cspx", dir="/tmp"))
        self._proxies.append(Proxy(there, self.server.folder))
        return self._proxies[-1]

    def start_process(
        self, port: int = 0, *, proxy: Proxy | None = None, ahead: float = 0.0, **more: str
    ) -> HostProcess:
        """Start one more process, and wait until it is ready.

        Slack sends to the first one by default.
        """
        address = f"127.0.0.1:{port or free_port()}"
        there = proxy.folder if proxy else self.server.folder
        environ = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "XDG_RUNTIME_DIR": str(self.folder),  # where the sockets are
            "SLACK_SIGNING_SECRET": self.slack.world.app.signing_secret,
            "SLACK_API_URL": self.slack.api_url,
            "OPENAI_API_KEY": "sk-offline-offline-offline",
            "OPENAI_BASE_URL": self.planner.url,
            "DATABASE_URL": f"postgresql://owner@/hosts?host={there}",
            "COUNTERSIGN_CLIENT_ID": self.slack.world.app.client_id,
            "COUNTERSIGN_CLIENT_SECRET": self.slack.world.app.client_secret,
            "COUNTERSIGN_TOKEN_KEYS": TOKEN_KEYS,
            "COUNTERSIGN_WORKSPACES": str(self.folder / "workspaces"),
            "COUNTERSIGN_URL": "https://approve.example.com",
            "COUNTERSIGN_HTTP": address,
            "COUNTERSIGN_KEY": KEY,
            "COUNTERSIGN_POLICY": str(self.folder / "policy.toml"),
            "COUNTERSIGN_TOOLS": "tests.stories.crash_tools",
            "COUNTERSIGN_MODEL_BACKOFF": "0.05",
            "COUNTERSIGN_MAX_ASKED_PER_HOUR": "10000",
            "COUNTERSIGN_MAX_PENDING": "10000",
            "COUNTERSIGN_MAX_TOKENS_PER_DAY": "1000000000",
            "CRASH_FOLDER": str(self.folder),
            **more,
        }
        made = HostProcess(len(self.processes), self.folder, environ)
        made.ahead = ahead
        self.processes.append(made)
        if len(self.processes) == 1 and not self.slack.world.app.events_url:
            self.send_to(address)
        self.begin(made)
        return made

    def begin(self, process: HostProcess) -> None:
        """Start a process, and wait until it is ready."""
        process.start()
        self.wait(lambda: is_ready(process.address), 30)

    def send_to(self, address: str) -> None:
        """Have Slack send everything to this address from now on."""
        for world in self.slack.world.worlds.values():
            asked_at(world.app.manifest, f"http://{address}")

    def wait(self, look: Callable[[], T], timeout: float = 30.0) -> T:
        """Return the first truthy value; if there is none, fail with the processes' logs."""
        try:
            return self.slack.wait(look, timeout)
        except TimeoutError:
            logs = "\n".join(f"--- {each.number}\n{each.threads()}" for each in self.processes)
            raise AssertionError(f"not within {timeout} s\n{logs}\n{self.left()}") from None

    # owners

    def owners(self) -> dict[str, str]:
        """The address of the process that owns each workspace."""
        rows = self.record.list()
        return {row.workspace: row.owner_url.rpartition("//")[2] for row in rows if row.owner}

    def has_all(self, *processes: HostProcess) -> bool:
        """Whether these processes together own all the workspaces."""
        addresses = {each.address for each in processes}
        found = self.owners()
        return len(found) == len(self.teams) and set(found.values()) <= addresses

    # people

    def person(self, team: str, name: str = "p0") -> Actor:
        """A person in a workspace."""
        return self.slack.workspace(team).person(name)

    def ask(self, team: str, *given: str) -> None:
        """Ask there for each of these words, each in its own thread."""
        for word in given:
            channel = f"C{team[3:]}{len(self.threads) % CHANNELS}"
            thread = self.person(team, "ben").say(channel, f"@bot do {word}")
            self.threads[word] = team, channel, thread

    def list_messages(self, word: str) -> list[dict[str, Any]]:
        """The bot's messages in that thread."""
        team, *place = self.threads[word]
        return [each for each in self.person(team).messages(*place) if each.get("bot_id")]

    def click(self, word: str, button: str = "approve", timeout: float = 30.0) -> Any:
        """Click on the card, once it is there; return the delivery, still on its way."""
        return self._press(word, self.wait(lambda: self.card(word, button), timeout), button)

    def _press(self, word: str, shown: dict[str, Any], button: str) -> Any:
        team, channel, _ = self.threads[word]
        return self.person(team).click(channel, shown["ts"], button)

    def approve(self, *given: str, button: str = "approve", timeout: float = 30.0) -> None:
        """Click on each card; again if Slack shows an error, while there is a button."""
        until = time.monotonic() + timeout
        sent = {word: self.click(word, button, timeout) for word in given}
        while sent and time.monotonic() < until:
            for each in sent.values():
                each.settled.wait(15)
            # a click with an error may have been stored all the same
            failed = [word for word, each in sent.items() if not each.ok]
            if failed:
                threading.Event().wait(RELUCTANCE)
            sent = {}
            for word in failed:
                with suppress(ValueError):  # it was decided before the click
                    if card := self.card(word, button):
                        sent[word] = self._press(word, card, button)
        assert not sent, f"clicks on {[*sent]} were never acknowledged"

    def find_retry_notice(self, word: str) -> str:
        """The newest private message to try again, as Slack could not be asked; "" for none."""
        team, channel, thread = self.threads[word]
        seen = self.person(team).everything(channel)
        mine = [each for each in seen if each.get("thread_ts") == thread and self.card(word)]
        found = [str(each["ts"]) for each in mine if LOOKUP_FAILED_REPLY in words(each)]
        return max(found, default="")

    # outcomes

    def rows(self, team: str, query: str) -> list[tuple[Any, ...]]:
        """The rows that a query finds in a workspace's schema."""
        with self.server.connect("hosts") as owner:
            owner.execute(f"SET search_path TO {get_schema_name(team)}")
            return list(owner.execute(query))  # type: ignore[arg-type]  # the tests' own words

    def check_all(self, timeout: float = 90.0) -> None:
        """Check that nothing is lost or done twice, and no workspace has anything of another."""
        told: set[str] = set()
        undone: set[str] = set()  # killed between the start and the effect

        def settled() -> bool:
            """Whether each thread is answered; people try again if asked, and say what was done."""
            left = [word for word in self.threads if not self.is_answered(word)]
            for word in left:
                if (ts := self.find_retry_notice(word)) and ts not in told:
                    self.approve(word)
                    told.add(ts)
                if word not in told and self.card(word, "resolve_done"):
                    is_done = word in self.effects()
                    button = "resolve_done" if is_done else "resolve_not_done"
                    self.approve(word, button=button)
                    told.add(word)
                    undone.update(() if is_done else (word,))
            return not left

        self.wait(settled, timeout)
        self.wait(lambda: not self.left(), 30)
        assert max(self.effects().values()) == 1, "an effect twice"
        assert set(self.effects()) == set(self.threads) - undone, "an effect lost"
        for word in self.threads:
            said = self.list_messages(word)
            assert sum(build_answer(word) in words(each) for each in said) == 1, word
            assert sum(map(is_card, said)) == 1, word
            assert not [each for each in said if "approve" in action_ids(each)], word
        for team in {team for team, *_ in self.threads.values()}:
            mine = [word for word, (there, *_) in self.threads.items() if there == team]
            found = self.rows(
                team, "SELECT arguments, status FROM call JOIN revision ON call_id = call.id"
            )
            assert set(re.findall(r"\bw\d+\b", str(found))) == set(mine), team
            assert len(found) == len(mine), team
            done = {"succeeded"} if undone.isdisjoint(mine) else {"succeeded", "failed"}
            assert {status for _, status in found} <= done, (team, undone)

    def left(self) -> list[str]:
        """What has not ended yet."""
        found = []
        for team in dict.fromkeys(team for team, *_ in self.threads.values()):
            try:
                found += self.rows(
                    team,
                    "SELECT 'run', id, status FROM run WHERE status <> 'completed' UNION ALL SELECT"
                    " 'message', kind, status FROM message WHERE status <> 'sent'",
                )
            except Exception as error:  # noqa: BLE001 - the database may be away
                return [str(error)]
        return [str(each) for each in found]

    def close(self) -> None:
        """Stop everything."""
        for each in self.processes:
            each.kill()
        for proxy in self._proxies:
            proxy.close()
        self.record.close()


@contextmanager
def hosts_in(folder: Path, workspaces: int) -> Iterator[Hosts]:
    """Run so many workspaces without a process, on a server of their own, until the block ends."""
    programs = binaries()
    assert programs is not None
    with (
        serve(programs) as server,
        build_slack(workspaces) as slack,
        StrictPlanner(mind=plan_turn) as planner,
    ):
        made = Hosts(folder, server, slack, planner)
        try:
            yield made
        finally:
            made.close()
