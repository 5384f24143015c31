"""One world from one seed: people, Slack, the model and some lives of the product on a database.

The seed chooses what happens next; the same seed does the same again.
"""

from __future__ import annotations

import json
import logging
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from bot.policy.evaluation import parse
from bot.tools.person_question import ASK_PERSON
from storage.models import Delivery
from storage.states import DeliveryKind
from tests.proof.simulation.directory import SimDirectory
from tests.proof.simulation.effects import Complaints, Effects
from tests.proof.simulation.ending import check_end
from tests.proof.simulation.fibers import NEVER, ProcessEnded, Scheduler
from tests.proof.simulation.model import SimModel
from tests.proof.simulation.people import People
from tests.proof.simulation.policies import POLICIES
from tests.proof.simulation.process import Process
from tests.proof.simulation.record import Record
from tests.proof.simulation.waiting import in_virtual_time
from tests.proof.simulation.wire import Slack, Weather
from tests.proof.simulation.workspace import ALONE, Workspace
from tests.records import drop, new_record
from tests.runs.fakes import ANA, CLEO, DAN, make_tools

MEMORY_DISK = Path("/dev/shm")  # a disk in memory
MAX_REDELIVERIES = 3  # by Slack
LEADS = (*[{ANA, CLEO}] * 4, *[{ANA, CLEO, DAN}] * 4, {ANA}, set[str]())
ROUNDS = 200  # an hour each, in which everything must end


class ViolationError(AssertionError):
    """A promise was broken."""


@contextmanager
def errors_as_violations() -> Iterator[None]:
    """Turn any error into a violation."""
    try:
        yield
    except ViolationError:
        raise
    except Exception as error:
        raise ViolationError(f"{type(error).__name__}: {error}") from error


class World:
    """Everything, from a seed."""

    process_class = Process

    def __init__(
        self,
        seed: int,
        steps: int,
        *,
        signed: bool = False,
        workspace: Workspace = ALONE,
        scheduler: Scheduler | None = None,
    ) -> None:
        """Run about so many steps before nothing more is started.

        `signed`: all approvals have to be signed. `scheduler`: another world's, for a
        workspace in the same process.
        """
        self.seed, self.most, self.workspace = seed, steps, workspace
        self.scheduler = scheduler or Scheduler(Random(seed))
        self.random = self.scheduler.random
        parent = MEMORY_DISK if MEMORY_DISK.is_dir() else None
        self.folder = Path(tempfile.mkdtemp(prefix="simulation-", dir=parent))
        self.path = self.folder / "db"
        self.weather = Weather()
        self.slack = Slack(self.scheduler, self.weather, workspace)
        self.directory = SimDirectory(self.scheduler, self.weather, workspace.team)
        self.model = SimModel(self.scheduler, workspace)
        # otherwise two processes share the database
        self.alone = scheduler is not None or self.random.random() < 0.7
        self.processes: list[Process] = []
        self.complaints = Complaints()
        self.acknowledged: set[str] = set()
        self.happened: Counter[str] = Counter()
        self._redeliveries: list[tuple[Delivery, int]] = []  # deliveries that Slack will repeat
        self._policies = [each for each in POLICIES if each.signed or not signed]
        terms = {parse(each.text).digest: each for each in POLICIES}
        new_record(self.path)
        self._set_policy(self.random.choice(self._policies).text)
        self.record = Record(self.path, self.directory, terms)
        newest = "SELECT * FROM signing_link WHERE kind = 'sign' ORDER BY issued_at DESC LIMIT 4"
        links = partial(self.record.all, newest)
        self.people = People(self.random, self.slack, self.record.is_open, links)
        self.effects = Effects(self.scheduler, self.record, workspace, strict=self.alone)
        self.tools = [*make_tools(self.effects.act), ASK_PERSON]

    @property
    def steps(self) -> int:
        """How many events there were."""
        return self.scheduler.steps

    def run(self) -> None:
        """Run it; raises ViolationError."""
        with self._isolate(), errors_as_violations():
            self._start()
            while self.steps < self.most:
                self._next()
            self._end()

    @contextmanager
    def _isolate(self) -> Iterator[None]:
        log = logging.getLogger("countersign")
        levels = {name: logging.getLogger(name).level for name in ("countersign", "bot")}
        for name in levels:
            logging.getLogger(name).addHandler(self.complaints)
            logging.getLogger(name).setLevel(logging.WARNING)
        propagates, log.propagate = log.propagate, False
        try:
            with in_virtual_time(self.scheduler):
                try:
                    yield
                finally:
                    with suppress(Exception):
                        while self.processes:
                            self._crash(orderly=False)
                        self.scheduler.close()
        finally:
            log.propagate = propagates
            for name, level in levels.items():
                logging.getLogger(name).removeHandler(self.complaints)
                logging.getLogger(name).setLevel(level)
            self.record.close()
            drop(self.path)
            shutil.rmtree(self.folder, ignore_errors=True)

    # what happens

    def _next(self) -> None:
        """One more event."""
        chance = self.random.random()
        if chance < 0.93:
            able = self.scheduler.list_ready_fibers()
            if able:
                self._turn(able)
                return
            if self.random.random() < 0.15:
                self._pass_time()
                return
        elif chance < 0.9302:
            self._happen("the clock jumps")
            self.scheduler.now += timedelta(minutes=self.random.choice((1, 1, 10, 40, 90)))
            return
        elif chance < 0.9304:
            self._happen("a deadline is near")
            self.scheduler.now = self.record.choose_time_before_deadline(
                self.scheduler.now, self.random
            )
            return
        elif chance < 0.9312:
            self._happen("a process ends")
            self._replace_process(orderly=self.random.random() < 0.3)
            return
        elif chance < 0.9318:
            self._happen("the policy changes")
            self._set_policy(self.random.choice(self._policies).text)
            return
        elif chance < 0.9324:
            self._happen("the group changes")
            self.directory.change(frozenset(self.random.choice(LEADS)))
            return
        elif chance < 0.9327:
            self._lose_a_card()
            return
        elif chance < 0.975:
            able = self.scheduler.list_ready_fibers()
            if able:
                self._turn(able)
                return
        for delivery in self.people.act():
            late = self.random.choice((0.0, 0.0, 0.2, 1.0, 30.0))
            self._deliver(delivery, late, 0)

    def _turn(self, able: list[Any]) -> None:
        self.scheduler.run_turn(self.random.choice(able))
        self.scheduler.now += timedelta(microseconds=self.random.randrange(50, 200_000))
        if wrong := self._find_wrong():
            raise ViolationError("; ".join(wrong))

    def _find_wrong(self) -> list[str]:
        found = [*self.record.wrong, *self.slack.wrong, *self.model.wrong]
        return [*found, *self.complaints.heard]

    def _pass_time(self) -> None:
        moment = self.scheduler.next_moment()
        if moment is not NEVER and moment > self.scheduler.now:
            self.scheduler.now = moment

    def _happen(self, what: str) -> None:
        self.scheduler.steps += 1
        self.happened["things that people do" if " does " in what else what] += 1
        self.scheduler.recent_events.append(f"{self.scheduler.now:%d %H:%M:%S.%f} {what}")

    def _set_policy(self, text: str) -> None:
        (self.folder / "policy.toml").write_text(text, "utf-8")

    def _lose_a_card(self) -> None:
        """Somebody deletes a message of the bot's."""
        if self.slack.posts:
            self._happen("a message of ours is deleted")
            del self.slack.posts[self.random.choice(list(self.slack.posts))]

    # processes

    def _start(self) -> None:
        count = 1 if self.alone else 2
        while len(self.processes) < count:
            first = not any(each.first for each in self.processes)
            process = self.process_class(
                self.path,
                self.scheduler,
                self.slack,
                self.directory,
                self.model,
                self.tools,
                self._committed,
                alone=self.alone,
                first=first,
            )
            self.processes.append(process)
            process.start()

    def _replace_process(self, *, orderly: bool) -> None:
        """One process ends anywhere, and another starts, at once or after a while."""
        self._crash(orderly=orderly)
        self.scheduler.now += timedelta(minutes=self.random.choice((0, 0, 1, 70)))
        self._start()
        self._deliver_again()

    def _deliver_again(self) -> None:
        while self._redeliveries:
            row, times = self._redeliveries.pop()
            self._deliver(row, self.random.choice((1.0, 60.0)), times)

    def _crash(self, *, orderly: bool) -> None:
        process = self.random.choice(self.processes)
        self.processes.remove(process)
        process.end(orderly=orderly)

    def _committed(self, process: Process) -> None:
        self.record.check_new_rows(process.policy.digest, self.scheduler.now)

    # deliveries

    def _deliver(self, row: Delivery, late: float, times: int) -> None:
        """Slack delivers it to a process; only clicks are not repeated until acknowledged."""
        self._happen(f"{row.user} does {row.key}")
        process = self.random.choice(self.processes)

        def body() -> None:
            try:
                if late:
                    self.scheduler.rest(late, f"{row.key} is late")
                with process.signals.arrivals.track_unacknowledged_delivery():
                    self.scheduler.pause(f"{row.key} arrives")
                    process.keep(row)
                    self.scheduler.pause(f"{row.key} is acknowledged")
                self.acknowledged.add(row.key)
            except ProcessEnded:
                if times < MAX_REDELIVERIES and row.kind is DeliveryKind.MESSAGE:
                    self._redeliveries.append((row, times + 1))
                raise

        self.scheduler.spawn(process, row.kind, body)

    # the end

    def _calm(self) -> None:
        """Nothing goes wrong any more."""
        self.effects.calm = self.model.calm = True
        self.weather.calm()

    def _end(self) -> None:
        """Nobody does anything more, and nothing goes wrong: everything ends."""
        self._calm()
        for _ in range(ROUNDS):
            self._settle()
            if self._is_over():
                break
            self.scheduler.now += timedelta(hours=1)
        check_end(self)

    def _settle(self) -> None:
        """Do all that can be done within the next two minutes."""
        until = self.scheduler.now + timedelta(minutes=2)
        for _ in range(20_000):
            able = self.scheduler.list_ready_fibers()
            if able:
                self._turn(able)
            elif self.scheduler.next_moment() <= until:
                self._pass_time()
            else:
                return
        raise ViolationError("it never comes to rest")

    def _is_over(self) -> bool:
        runs = self.record.all("SELECT id FROM run WHERE status IN ('ready','running','waiting')")
        left = self.record.all(
            "SELECT seq FROM message WHERE status NOT IN ('sent', 'failed')"
            " UNION SELECT seq FROM delivery WHERE status = 'new'"
        )
        return not runs and not left

    def tally(self) -> Counter[str]:
        """How often each event happened, by its name in the record."""
        found = Counter(self.happened)
        found["turns of the model"] = self.model.turns
        found["effects"] = sum(self.record.effects.values())
        found["messages in Slack"] = len(self.slack.posts)
        for each in self.record.calls.values():
            found[f"calls {each.status}"] += 1
        found.update(f"requests {each}" for each in self.record.runs.values())
        found.update(self.record.votes)
        for (event, _), count in self.record.grants.items():
            found[f"{event}, times"] += count
        return found

    def report(self) -> str:
        """The last events, and the state of the calls."""
        lines = [
            f"seed {self.seed}, {self.steps} steps of {self.most}",
            *self.scheduler.recent_events,
        ]
        lines += [json.dumps({id: vars(each)}) for id, each in self.record.calls.items()]
        return "\n".join(lines)
