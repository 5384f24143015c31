"""The bot as a process ends at the first signal, whatever hangs, and however often it is told."""

from __future__ import annotations

import os
import random
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from sqlalchemy import select

from bot.sandbox.openai.server import Planner, Turn
from bot.sandbox.server import Sandbox
from storage.models import Delivery
from storage.store import Store
from storage.transaction import rows
from tests.records import store_of
from tests.stories.harness import SUPPORT
from tests.stories.process import BotProcess

LONGEST = 15.0  # seconds from the first signal to the end
POSTS = ("chat.postMessage", "chat.update", "assistant.threads.setStatus", "users.info")


@pytest.fixture
def silence() -> Iterator[str]:
    """The address of a server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/v1"


def stopped_at_random(folder: Path, seed: int, silence: str) -> float:
    """One life, in which things hang, and its end by signals; returns how long the end took."""
    chance = random.Random(seed)
    hangs = chance.choice(["nothing", "slack", "model", "both"])
    asks = {"OPENAI_BASE_URL": silence} if hangs in ("model", "both") else {}
    with Sandbox() as slack, Planner() as planner:
        bot = BotProcess(folder, slack, planner, **asks)
        is_up = chance.random() < 0.8
        bot.start(wait=is_up)
        process = bot.process
        assert process is not None
        assert process.pid is not None
        if is_up:
            if hangs in ("slack", "both"):
                for method in POSTS:
                    slack.faults.hang(method, times=100)
            for _ in range(chance.randint(0, 3)):
                planner.script(Turn(text="Here you are."))
                slack.person("ben").say(SUPPORT, "@bot please")
        # any moment: of the start, of a request, of the rest after it
        process.join(chance.random() * (0.5 if is_up else 2.0))
        begun = time.monotonic()
        for _ in range(chance.randint(1, 3)):
            with suppress(ProcessLookupError):
                os.kill(process.pid, chance.choice([signal.SIGTERM, signal.SIGINT]))
            process.join(chance.choice([0.0, 0.001, 0.05, 0.5]))
        process.join(LONGEST + 5)
        took = time.monotonic() - begun
        if process.is_alive():
            process.kill()
            process.join(5)
        heard = [each.event for each in slack.deliveries if each.ok]
    acked = {each["ts"] for each in heard if each.get("user") == "UBEN00001"}
    if acked:
        store: Store = store_of(folder / "countersign.db")
        with store.read() as tx:
            keys = " ".join(each.key for each in rows(tx, Delivery, select(Delivery)))
        assert not [ts for ts in acked if ts not in keys], "an acknowledged one is lost"
        store.close()
    return took


@pytest.mark.socket
@pytest.mark.parametrize(
    "seeds",
    [range(4), pytest.param(range(4, 500), marks=pytest.mark.long)],
    ids=["a few", "500"],
)
def test_no_stop_takes_longer(
    seeds: range, tmp_path: Path, silence: str, subtests: pytest.Subtests
) -> None:
    """Signalled one to three times at any moment, with Slack or the model hung, it ends in time.

    What Slack was told is stored, is stored.
    """
    for seed in seeds:
        with subtests.test(seed=seed):
            folder = tmp_path / str(seed)
            folder.mkdir()
            assert stopped_at_random(folder, seed, silence) < LONGEST
