"""Measures how the record's size slows the bot down.

Each step of a request and each view of a person is measured with a million decided and a hundred
thousand pending requests, and with two hundred. Both records are open at once and take turns, in a
file and on a PostgreSQL server (without fsync). All of it is wall time: a server's work is outside
this process.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

from bench.copies import Copies
from bench.fakes import APPROVER, ASKER, FixedDirectory
from bench.figures import Figure, Setup, build_figure
from bench.offline import Bench
from bench.payloads import build_approval, build_mention
from bench.resume import check_completed, find_waiting_call, run_full
from bot.cards.button_codec import DEFAULT_HOME_TARGET
from bot.runs.loop import MainLoop
from bot.runs.worker_pool import WorkerPool
from bot.slack.posting import MessageRenderer
from storage import calls, moves, outbox, runs
from storage.models import Call, Run
from storage.states import RunStatus

FEW, MANY = (100, 100), (1_000_000, 100_000)  # decided and pending
GROWN = 1.5  # times as long, at most


def measure(setup: Setup) -> Iterator[Figure]:
    """Measure in a file, then on a server if PostgreSQL is installed."""
    yield from _measured(setup, "file", "in a file", ("", ""))
    # imported here because the rest of the benchmark does not need it
    from tests.postgres_server import binaries, serve

    programs = binaries()
    if programs is None:
        return
    with serve(programs) as server:
        for name in ("few", "many"):
            server.fresh(name)
        urls = server.url("few", "owner"), server.url("many", "owner")
        yield from _measured(setup, "server", "on PostgreSQL", urls)


def _measured(setup: Setup, name: str, words: str, urls: tuple[str, str]) -> Iterator[Figure]:
    rounds, times = (1, 2) if setup.quick else (3, 15)
    many = (400, 200) if setup.quick else MANY
    took: dict[str, tuple[list[float], list[float]]] = {}
    with ExitStack() as ends:
        records = [
            Years(setup.make_folder(f"{name}-{size}"), url, counts)
            for size, url, counts in (("few", urls[0], FEW), ("many", urls[1], many))
        ]
        for each in records:
            ends.callback(each.close)
            each.measure_steps()  # warms the caches
        for _ in range(rounds):
            found = [{what: list[float]() for what in STEPS} for _ in records]
            for _ in range(times):
                for record, kept in zip(records, found, strict=True):
                    for what, milliseconds in record.measure_steps().items():
                        kept[what].append(milliseconds)
            for what in STEPS:
                both = took.setdefault(what, ([], []))
                for lists, kept in zip(both, found, strict=True):
                    lists.append(statistics.median(kept[what]))
    for what, (few, grown) in took.items():
        figure, size = f"growth.{name}.{what}", f"{many[0]:,} decided, {many[1]:,} pending"
        yield build_figure(figure, f"{STEPS[what]}, {words}, {size}", grown, "ms")
        ratios = [b / a for a, b in zip(few, grown, strict=True)]
        yield build_figure(f"{figure}.ratio", "… beside 100 and 100", ratios, "×", GROWN)


STEPS = {
    "tick": "idle tick",
    "claim": "finding and claiming what is ready",
    "card": "a message to its card, drawn",
    "decision": "an approval to the end of its request",
    "list": "what somebody may decide, asked for and decided, as lists",
    "home": "Home",
}


class Years:
    """A record with so many requests, and the product without its edges on it."""

    def __init__(self, folder: Path, url: str, counts: tuple[int, int]) -> None:
        """`counts`: decided and pending requests."""
        self._bench, self._asked = Bench(folder, url), 0
        run_full(self._bench, self._thread())
        [over] = self._runs()
        self._ask()
        [waiting] = self._runs() - {over}
        Copies(self._bench, over, waiting).make(*counts)
        self._bench = self._bench.reopen()  # it knew the old end of the audit
        core = self._bench.core
        workers = WorkerPool(lambda *_: None, 1, core.signals)
        self._loop: MainLoop = core.build_loop(self._bench.intake, workers, lambda _: None)
        self._desk = core.build_person_view_factory()
        self._renderer = MessageRenderer(core.store, core.clock, core.tools, FixedDirectory())

    def close(self) -> None:
        """Close the record."""
        self._loop.stop(1)
        self._bench.close()

    def measure_steps(self) -> dict[str, float]:
        """Return the milliseconds of each step, in a new request."""
        took: dict[str, float] = {"tick": _seconds(self._loop.tick), "claim": self._claim()}
        run_ids: list[str] = []
        took["card"] = _seconds(lambda: run_ids.append(self._card()))
        call = find_waiting_call(self._bench, run_ids[0])
        took["decision"] = _seconds(lambda: self._decide(call))
        check_completed(self._bench, run_ids[0])
        took["list"], took["home"] = _seconds(self.open_lists), _seconds(self.open_home)
        return {what: each * 1000 for what, each in took.items()}

    def _thread(self) -> str:
        self._asked += 1
        return f"1800000000.{self._asked:06}"

    def _runs(self) -> set[str]:
        with self._bench.store.read() as tx:
            return {row[0] for row in tx.exec_driver_sql("SELECT id FROM run")}

    def _ask(self) -> str:
        self._bench.store_delivery(build_mention(self._thread(), ASKER))
        self._bench.add_messages_to_transcript()
        return self._bench.advance_ready()

    def _claim(self) -> float:
        store = self._bench.store
        self._bench.store_delivery(build_mention(self._thread(), ASKER))
        self._bench.add_messages_to_transcript()

        def claim() -> None:
            with store.read() as tx:
                [run_id] = (each.run_id for each in runs.list_ready_runs(tx))
            now = self._bench.clock.now()
            with store.write() as tx:
                claimed.append(moves.claim_run(tx, run_id, at=now, lease_until=now))

        claimed: list[Run | None] = []
        took = _seconds(claim)
        [found] = claimed
        assert found is not None
        with store.write() as tx:
            moves.change_run_status(tx, found, RunStatus.CANCELLED, at=self._bench.clock.now())
        return took

    def _card(self) -> str:
        run_id = self._ask()
        with self._bench.store.read() as tx:
            plan = calls.find_open_plan(tx, run_id)
            assert plan is not None
            [card] = outbox.list_cards_of_plan(tx, plan.id)
        assert self._renderer.render_message(card)[0].blocks
        return run_id

    def _decide(self, call: Call) -> None:
        self._bench.store_delivery(build_approval(call))
        self._bench.add_messages_to_transcript()
        self._bench.advance_ready()

    def open_lists(self) -> None:
        """Open three lists."""
        lists = self._desk.build_overview()
        assert lists.render_decidable_calls(APPROVER)
        assert lists.render_own_requests(ASKER)
        assert lists.render_decisions(APPROVER, 30)

    def open_home(self) -> None:
        """Open Home as the approver and as the requester."""
        assert self._desk.build_home_view_builder().build_home_view(APPROVER, DEFAULT_HOME_TARGET)
        assert self._desk.build_home_view_builder().build_home_view(ASKER, DEFAULT_HOME_TARGET)


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
