"""A cluster: a database server, a local Slack, a stand-in for the model, replicas.

Every test ends with `check_all`: nothing lost, nothing twice, every card true.
"""

from __future__ import annotations

import re
import tempfile
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import select

from bench.live import CHANNELS, build_seed
from bot.demo.model_server import Turn
from slack_sandbox.server import Sandbox
from storage.models import Call, Message, Run
from storage.states import CallStatus, MessageStatus, RunStatus
from storage.store import Store
from storage.transaction import fetch_rows
from tests.cluster.proxy import Proxy
from tests.cluster.replica import Replica
from tests.local_slack import build_local_slack
from tests.model_stand_in.planner import StrictPlanner
from tests.postgres_server import Server, binaries, serve
from tests.record_checks import find_first_broken_row
from tests.stories.messages import action_ids, is_card, words
from tests.stories.over_http import is_ready

KEY = "of-the-cluster-tests-and-of-nobody-else"
POLICY = '[defaults]\napprovers = ["@crew"]\n'
C = CallStatus
T = TypeVar("T")


def plan_turn(body: dict[str, Any]) -> Turn:
    """Do once what the last message asks for (a word like w17), then say so."""
    items = body["input"]
    said = [each for each in items if each.get("role") == "user"]
    word = re.findall(r"\bw\d+\b", str(said[-1]["content"]))[-1]
    if items[-1].get("type") == "function_call_output":
        return Turn(text=build_answer(word))
    return Turn(calls=[("once", {"text": word})])


def build_answer(word: str) -> str:
    """The model's last words."""
    return f"It is done now: {word}."


class Threads(ABC):
    """The threads in which words are requested, with messages and effects."""

    folder: Path

    @abstractmethod
    def list_messages(self, word: str) -> list[dict[str, Any]]:
        """The bot's messages in that thread."""

    def card(self, word: str, button: str = "approve") -> dict[str, Any] | None:
        """The bot's message in that thread that has such a button."""
        found = [each for each in self.list_messages(word) if button in action_ids(each)]
        return found[0] if found else None

    def is_answered(self, word: str) -> bool:
        """Whether the thread has its answer."""
        return any(build_answer(word) in words(each) for each in self.list_messages(word))

    def effects(self) -> Counter[str]:
        """How often each word was done."""
        path = self.folder / "effects"
        lines = path.read_text().splitlines() if path.exists() else []
        return Counter(line.split()[1] for line in lines)


class Cluster(Threads):
    """The database, the local Slack, the model and the replicas of a test."""

    def __init__(
        self, folder: Path, server: Server, slack: Sandbox, planner: StrictPlanner
    ) -> None:
        self.folder, self.server, self.slack, self.planner = folder, server, slack, planner
        server.fresh("cluster")
        self.policy = folder / "policy.toml"
        self.policy.write_text(POLICY)
        self.store = Store(server.url("cluster", "owner"), key=KEY.encode()).open()
        self.replicas: list[Replica] = []
        self.threads: dict[str, tuple[str, str]] = {}  # each word's channel and thread
        self._proxies: list[Proxy] = []

    def create_proxy(self) -> Proxy:
        """A network to the database that can be cut."""
        folder = Path(tempfile.mkdtemp(prefix="cspx", dir="/tmp"))
        made = Proxy(folder, self.server.folder)
        self._proxies.append(made)
        return made

    def start_replica(
        self, *, proxy: Proxy | None = None, ahead: float = 0.0, **more: str
    ) -> Replica:
        """Start one more replica, and wait until it is connected."""
        there = proxy.folder if proxy else self.server.folder
        environ = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "XDG_RUNTIME_DIR": str(self.folder),  # where the sockets are
            "SLACK_BOT_TOKEN": self.slack.bot_token,
            "SLACK_APP_TOKEN": self.slack.app_token,
            "SLACK_API_URL": self.slack.api_url,
            "OPENAI_API_KEY": "sk-offline-offline-offline",
            "OPENAI_BASE_URL": self.planner.url,
            "DATABASE_URL": f"postgresql://owner@/cluster?host={there}",
            "COUNTERSIGN_KEY": KEY,
            "COUNTERSIGN_POLICY": str(self.policy),
            "COUNTERSIGN_TOOLS": "tests.stories.crash_tools",
            "COUNTERSIGN_MODEL_BACKOFF": "0.05",
            "COUNTERSIGN_MAX_ASKED_PER_HOUR": "10000",
            "COUNTERSIGN_MAX_PENDING": "10000",
            "COUNTERSIGN_MAX_TOKENS_PER_DAY": "1000000000",
            "CRASH_FOLDER": str(self.folder),
            **more,
        }
        made = Replica(len(self.replicas), self.folder, environ)
        made.ahead = ahead
        self.replicas.append(made)
        self.begin(made)
        return made

    def begin(self, replica: Replica) -> None:
        """Start a replica, and wait until it is connected."""
        before, address = self.slack.connections, replica.environ.get("COUNTERSIGN_HTTP")
        replica.start()
        if address:
            self.wait(lambda: is_ready(address), 30)
        else:
            self.wait(lambda: self.slack.connections > before, 30)

    def wait(self, look: Callable[[], T], timeout: float = 60.0) -> T:
        """Return the first truthy value; if there is none, fail with the replicas' logs."""
        try:
            return self.slack.wait(look, timeout)
        except TimeoutError:
            logs = "\n".join(f"--- {each.number}\n{each.threads()}" for each in self.replicas)
            raise AssertionError(f"not within {timeout} s\n{logs}\n{self._left()}") from None

    # people

    def ask(self, *words: str) -> None:
        """Ask for each of these words, each in its own thread."""
        for word in words:
            channel = f"C{len(self.threads) % CHANNELS:08}"
            self.threads[word] = channel, self.slack.person("ben").say(channel, f"@bot do {word}")

    def approve(self, *words: str, button: str = "approve") -> None:
        """Click on each card, once it is there; again if Slack shows an error."""
        left = list(words)
        for _ in range(10):
            clicked = {word: self.click(word, button) for word in left}
            for done in clicked.values():
                done.settled.wait(15)
            left = [word for word, done in clicked.items() if not done.ok]
            if not left:
                return
        raise AssertionError(f"clicks on {left} were never acknowledged")

    def click(self, word: str, button: str = "approve") -> Any:
        """Click on the card, once it is there; return the delivery, still on its way."""
        shown = self.wait(lambda: self.card(word, button))
        return self.slack.person("p0").click(self.threads[word][0], shown["ts"], button)

    def list_messages(self, word: str) -> list[dict[str, Any]]:
        """The bot's messages in that thread."""
        there = self.slack.person("p0").messages(*self.threads[word])
        return [each for each in there if each.get("bot_id")]

    # outcomes

    def all(self, model: type[Any]) -> list[Any]:
        """Every row."""
        with self.store.read() as tx:
            return fetch_rows(tx, model, select(model))

    def wait_until_settled(self, timeout: float = 90.0) -> None:
        """Wait until every request is answered; unknown calls are resolved as done."""
        told: set[str] = set()

        def look() -> bool:
            unknown = {call.id: call for call in self.all(Call) if call.status is C.UNKNOWN}
            for call in unknown.values():
                word = self._word_of(call)
                if call.id not in told and self.card(word, "resolve_done"):
                    self.approve(word, button="resolve_done")
                    told.add(call.id)
            ended = [run for run in self.all(Run) if run.status is RunStatus.COMPLETED]
            return len(ended) == len(self.threads)

        self.wait(look, timeout)

    def check_all(self) -> None:
        """Check that nothing is lost or done twice, every card is true, and the record intact."""
        self.wait_until_settled()
        self.wait(lambda: not self._left(), 30)
        known = {call.id: call for call in self.all(Call)}
        assert {call.status for call in known.values()} == {C.SUCCEEDED}
        assert len(known) == len(self.threads)
        assert max(self.effects().values()) == 1, "an effect twice"
        assert set(self.effects()) == set(self.threads), "an effect lost"
        for word in self.threads:
            said = self.list_messages(word)
            assert sum(build_answer(word) in words(each) for each in said) == 1, word
            assert sum(map(is_card, said)) == 1, word
            assert not [each for each in said if "approve" in action_ids(each)], word
        with self.store.read() as tx:
            assert find_first_broken_row(tx) is None

    def _word_of(self, call: Call) -> str:
        [run] = [each for each in self.all(Run) if each.id == call.run_id]
        places = {place: word for word, place in self.threads.items()}
        return places[run.channel, run.thread_ts]

    def _left(self) -> list[str]:
        """What has not ended yet."""
        try:
            open_runs = [run for run in self.all(Run) if run.status is not RunStatus.COMPLETED]
            unsent = [row for row in self.all(Message) if row.status is not MessageStatus.SENT]
        except Exception as error:  # noqa: BLE001 - the database may be away
            return [str(error)]
        return [f"{run.id} {run.status} {run.lease_until}" for run in open_runs] + [
            f"{row.seq} {row.kind} {row.channel} {row.status} {row.error}" for row in unsent
        ]

    def close(self) -> None:
        """Stop everything."""
        for each in self.replicas:
            each.kill()
        for proxy in self._proxies:
            proxy.close()
        self.store.close()


@contextmanager
def cluster_in(folder: Path) -> Iterator[Cluster]:
    """Run a cluster without replicas, on a server of its own, until the block ends."""
    programs = binaries()
    assert programs is not None
    with (
        serve(programs) as server,
        build_local_slack(seed=build_seed(5)) as slack,
        StrictPlanner(mind=plan_turn) as planner,
    ):
        made = Cluster(folder, server, slack, planner)
        try:
            yield made
        finally:
            made.close()


def measure_seconds(work: Callable[[], object]) -> float:
    """How long the work takes."""
    began = time.monotonic()
    work()
    return time.monotonic() - began
