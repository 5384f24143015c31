"""Two workspaces in one process, from one seed: each is a world with a record of its own.

Ids of channels, people and messages are the same in both. The product's real dispatcher and its
record of installations choose the workspace from a payload as Slack sends it; the workspace parses
it as the listeners do. The product's host is not used: its threads wait for locks that others hold
while they wait, which threads that take turns cannot do. So a stopped workspace refuses deliveries
here, where the host would start it at once; and signed pages go by the workspace in their path.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from random import Random
from types import SimpleNamespace
from typing import Any

from slack_bolt import BoltRequest, BoltResponse
from slack_sdk import WebClient

from bot.cards.button_codec import add_thread_to_metadata
from bot.slack.listeners import _build_submission_delivery, parse_delivery
from bot.workspaces.dispatcher import WorkspaceDispatcher
from bot.workspaces.hosted import NotServedError
from storage.installations import InstallationRecord
from storage.models import Delivery
from storage.states import DeliveryKind
from tests.proof.simulation.ending import check_end
from tests.proof.simulation.fibers import ProcessEnded, Scheduler
from tests.proof.simulation.process import Process
from tests.proof.simulation.workspace import BOTH, Workspace
from tests.proof.simulation.world import (
    MAX_REDELIVERIES,
    ROUNDS,
    ViolationError,
    World,
    errors_as_violations,
)
from tests.runs.fakes import BOT
from tests.workspaces.builders import installed

Json = dict[str, Any]
SLEEP_CHANCE = 0.0005  # chance at each event that one workspace is stopped for a while
REDELIVERY_SECONDS = 60.0  # seconds until Slack delivers a refused message again
SHARED = "C0FINANCE"  # a channel that Slack says is shared with other companies


class TwoWorlds:
    """Two worlds, and the process that they share."""

    def __init__(self, seed: int, steps: int, *, signed: bool = False) -> None:
        """As for a single world; the steps are those of both together."""
        self.seed, self.most = seed, steps
        self.scheduler = Scheduler(Random(seed))
        self.random = self.scheduler.random
        self.parts = [HostedWorld(self, each, signed=signed) for each in BOTH]
        self._record = InstallationRecord(f"sqlite:///{self.parts[0].folder / 'installations.db'}")
        self.dispatcher = WorkspaceDispatcher(
            self._record, self.use_app, lambda _: None, WebClient(retry_handlers=[])
        )
        self.connection = object()  # the owner of Slack's deliveries, a new one in each life

    @property
    def steps(self) -> int:
        """How many events there were."""
        return self.scheduler.steps

    def run(self) -> None:
        """Run both; raises ViolationError."""
        with ExitStack() as ends:
            for part in self.parts:
                ends.enter_context(part._isolate())
            ends.callback(self._record.close)
            with errors_as_violations():
                self._record.open()
                for part in self.parts:
                    team, bot = part.workspace.team, part.workspace.bot
                    row = installed(team, bot_user=BOT, bot_id=bot)
                    self._record.insert_or_update_installation(row)
                    part._start()
                while self.steps < self.most:
                    self._next()
                self._end()

    def _next(self) -> None:
        """One more event, in either."""
        part = self.random.choice(self.parts)
        part.wake_up_if_due()
        if part.processes and not part.users and self.random.random() < SLEEP_CHANCE:
            part.fall_asleep()
        else:
            part._next()

    def _end(self) -> None:
        for part in self.parts:
            part.wake_up_if_due(at_once=True)
            part._calm()
        for _ in range(ROUNDS):
            self.parts[0]._settle()  # turns belong to both
            if all(part._is_over() for part in self.parts):
                break
            self.scheduler.now += timedelta(hours=1)
        for part in self.parts:
            check_end(part)
        for part in self.parts:
            part.look_for_foreign()

    @contextmanager
    def use_app(self, team: str) -> Iterator[Any]:
        """Yield what the dispatcher needs of a workspace's app; raises NotServedError."""
        found = next(part for part in self.parts if part.workspace.team == team)
        if not found.processes:
            raise NotServedError("it is asleep")
        found.users += 1
        try:
            yield found.processes[0].app
        finally:
            found.users -= 1

    def replace_process(self, *, orderly: bool) -> None:
        """The process ends with both workspaces, and another one starts with both."""
        self.scheduler.kill(self.connection)
        self.connection = object()
        for part in self.parts:
            if part.processes:
                part._crash(orderly=orderly)
        self.scheduler.now += timedelta(minutes=self.random.choice((0, 0, 1, 70)))
        for part in self.parts:
            part.wake_up_if_due(at_once=True)
        for part in self.parts:
            part._deliver_again()

    def find_wrong(self) -> list[str]:
        """What is wrong in either."""
        return [wrong for part in self.parts for wrong in part.find_own_wrong()]

    def tally(self) -> Counter[str]:
        """How often each event happened, in both."""
        return sum((part.tally() for part in self.parts), Counter())

    def report(self) -> str:
        """The last events, and the state of the calls of each."""
        return "\n".join(part.report() for part in reversed(self.parts))


class HostedProcess(Process):
    """One workspace's part of the process."""

    @property
    def app(self) -> Any:
        """What the dispatcher needs of an app."""
        bolt = SimpleNamespace(dispatch=self._dispatch)
        directory = SimpleNamespace(clear_cache=lambda: None)
        return SimpleNamespace(core=self.core, bolt=bolt, directory=directory)

    def _dispatch(self, request: BoltRequest) -> BoltResponse:
        """Store a payload, as the listeners do."""
        body: Json = dict(request.body)
        row = parse_delivery(body, self.team) or _build_submission_delivery(body)
        row.key = body.get("trigger_id") or row.key  # the simulation's own key
        self.scheduler.pause(f"{row.key} arrives")
        self.keep(row)
        self.scheduler.pause(f"{row.key} is acknowledged")
        return BoltResponse(status=200)


class HostedWorld(World):
    """One of the two worlds."""

    process_class = HostedProcess
    processes: list[HostedProcess]  # type: ignore[assignment]  # they are made as `process_class`

    def __init__(self, whole: TwoWorlds, workspace: Workspace, *, signed: bool) -> None:
        self.whole, self._wakes_up = whole, 0
        self.users = 0  # deliveries in its app, during which it is not stopped
        super().__init__(
            whole.seed, whole.most, signed=signed, workspace=workspace, scheduler=whole.scheduler
        )

    def fall_asleep(self) -> None:
        """Stop it while the other one works."""
        self._happen("a workspace falls asleep")
        self._crash(orderly=True)
        self._wakes_up = self.steps + self.random.randrange(300)

    def wake_up_if_due(self, *, at_once: bool = False) -> None:
        """Start it again, if its time has come."""
        if not self.processes and (at_once or self.steps >= self._wakes_up):
            self._start()

    def find_own_wrong(self) -> list[str]:
        """What is wrong in this one."""
        return super()._find_wrong()

    def _find_wrong(self) -> list[str]:
        return self.whole.find_wrong()

    def _replace_process(self, *, orderly: bool) -> None:
        self.whole.replace_process(orderly=orderly)

    def _deliver(self, row: Delivery, late: float, times: int) -> None:
        """Slack delivers it to the process; a message that is refused or cut off comes again."""
        self._happen(f"{row.user} does {row.key}")

        def body() -> None:
            tried = times
            try:
                if late:
                    self.scheduler.rest(late, f"{row.key} is late")
                while not self._is_taken(row):
                    if row.kind is not DeliveryKind.MESSAGE or tried == MAX_REDELIVERIES:
                        return
                    tried += 1
                    self.scheduler.rest(REDELIVERY_SECONDS, f"{row.key} was refused")
                self.acknowledged.add(row.key)
            except ProcessEnded:
                if tried < MAX_REDELIVERIES and row.kind is DeliveryKind.MESSAGE:
                    self._redeliveries.append((row, tried + 1))
                raise

        self.scheduler.spawn(self.whole.connection, row.kind, body)

    def _is_taken(self, row: Delivery) -> bool:
        if row.kind is not DeliveryKind.SIGNATURE:
            payload = build_payload(row, self.workspace)
            sent = BoltRequest(body=payload, mode="socket_mode")
            return self.whole.dispatcher.dispatch(sent).status == 200
        try:
            with self.whole.use_app(self.workspace.team):
                self.processes[0].keep(row)
        except NotServedError:
            return False
        return True

    def look_for_foreign(self) -> None:
        """Check that nothing of the other is here, and that there is something of its own."""
        workspace = self.workspace
        for where, text in (
            ("the record", self.record.read_all()),
            ("Slack", "\n".join(map(repr, self.slack.posts.values()))),
        ):
            if foreign := workspace.find_foreign(text):
                at = text.index(foreign)
                around = text[max(0, at - 300) : at + 100]
                raise ViolationError(f"{where} of {workspace.team} has {foreign!r}: {around}")
            if self.people.said and workspace.mark not in text and where == "the record":
                raise ViolationError(f"nothing in {where} of {workspace.team} says whose it is")


def build_payload(row: Delivery, workspace: Workspace) -> Json:
    """Return a delivery as Slack sends it to an app that is in several workspaces."""
    body: Json = json.loads(row.body)
    if row.kind is DeliveryKind.MESSAGE:
        authorized = {"team_id": workspace.team, "enterprise_id": None, "user_id": BOT}
        return {
            "type": "event_callback",
            "team_id": workspace.team,
            "event_id": row.key.removeprefix("event:"),
            "event": body["event"],
            "is_ext_shared_channel": row.channel == SHARED,
            "authorizations": [{**authorized, "is_bot": True, "is_enterprise_install": False}],
        }
    made = {
        "team": {"id": row.team},  # the workspace of the person
        "user": {"id": row.user, "team_id": row.team},
        "channel": {"id": row.channel},
        "trigger_id": row.key,
    }
    if row.kind is DeliveryKind.ACTION:
        message = {"ts": body["container"]["message_ts"], "thread_ts": row.thread_ts}
        message |= {"bot_id": workspace.bot}
        return {**made, **body, "type": "block_actions", "message": message}
    view = add_thread_to_metadata(body["view"], row.channel, row.thread_ts)
    view |= {"id": "V1", "bot_id": workspace.bot, "app_installed_team_id": workspace.team}
    return {**made, "type": "view_submission", "view": view}
