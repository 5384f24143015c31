"""Where these stories are told: one bot, its people, and a ledger of what was done for anybody."""

from __future__ import annotations

import itertools
import json
import threading
from pathlib import Path
from typing import Any
from xmlrpc.server import SimpleXMLRPCServer

from sqlalchemy import select
from sqlmodel import col

from bot.config.connection_settings import Transport
from slack_sandbox.server import Sandbox
from slack_sandbox.workspace.records import Delivery
from storage.digest import key_file_path, load_or_create_signing_key
from storage.models import Call, Message, Revision, Run
from storage.states import MESSAGE_OPEN_STATUSES, RUN_OPEN_STATUSES
from storage.store import Store
from storage.transaction import fetch_rows
from tests.client_keys import make_key
from tests.model_stand_in.planner import StrictPlanner
from tests.proof.crash.checks import of_slack, of_the_record
from tests.proof.crash.tools import Ledger, make_tools
from tests.records import ON_A_SERVER, settings_of, store_of
from tests.sources.line import Line
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import action_ids, words
from tests.stories.steps import arrived, open_modal, press, reject, typed

BEN = "UBEN00001"  # in whose name all is asked
APPROVERS = frozenset({"UANA00001", "UCLEO0001"})
PATIENCE = 40.0  # seconds that anything may take on a machine with much to do
POLICY = """
[defaults]
approvers = ["UANA00001", "UCLEO0001"]
deadline = "1h"

[[rule]]
name = "what takes both"
when = 'args.text.startsWith("both")'
verdict = "ask"
quorum = 2
"""
NUMBERS = itertools.count(1)


class Place:
    """One bot over HTTP, whose operator is Ben; the tools' effects and the programs' are noted."""

    def __init__(self, folder: Path) -> None:
        self.ledger = Ledger(folder)
        self._amid, self._may_end = threading.Event(), threading.Event()
        self._may_end.set()
        tools = make_tools(self.ledger, self._reached, folder)
        (folder / "shelf").write_text("3")
        more = {"COUNTERSIGN_OPERATOR": BEN}
        self.harness = Harness(folder, tools, POLICY, Transport.HTTP, **more)
        self.ledger.store = self.store()
        self.line = Line(lambda: f"http://127.0.0.1:{self.harness.port}")
        at = self.harness.app.core.store.path
        self.key = make_key(at, "desk", "@ben", ["*"], per_hour=10_000).key
        self._book = SimpleXMLRPCServer(("127.0.0.1", 0), logRequests=False)
        self._book.register_function(self.did)
        self._writing = threading.Thread(target=self._book.serve_forever, args=(0.02,))
        self._writing.start()
        # where processes say what they do, before they go on
        self.book = f"http://127.0.0.1:{self._book.server_address[1]}"

    def close(self) -> None:
        """End it all."""
        self._book.shutdown()
        self._writing.join()
        self._book.server_close()
        self.line.close()
        self.harness.close()

    # as the checks of the crash matrix look at a world

    @property
    def slack(self) -> Sandbox:
        """The local Slack."""
        return self.harness.slack

    @property
    def planner(self) -> StrictPlanner:
        """The stand-in for the model."""
        return self.harness.planner

    @property
    def database(self) -> Path:
        """The bot's file."""
        return self.harness.folder / "countersign.db"

    def store(self) -> Store:
        """The record, read from outside."""
        if ON_A_SERVER:
            return store_of(self.database)
        url = settings_of(self.database)["DATABASE_URL"]
        return Store(url, key=load_or_create_signing_key(key_file_path(self.database)))

    def all(self, model: type[Any], *where: Any) -> list[Any]:
        """Every row of a table."""
        store = self.store()
        try:
            with store.read() as tx:
                return fetch_rows(tx, model, select(model).where(*where))
        finally:
            store.close()

    # what was done

    def did(self, text: str) -> str:
        """Note that a program did this; what the record says of the call is noted with it."""
        call = self.call(text)
        self.ledger.note(call.tool, text, call.id)
        return f"wrote {text}"

    def done(self, text: str) -> int:
        """How often anybody did this."""
        return sum(line["text"] == text for line in self.ledger.lines())

    def call(self, text: str) -> Call:
        """The one call whose arguments have this text, in any revision."""
        found = {each.call_id for each in self.all(Revision) if _has(each, text)}
        [call] = [each for each in self.all(Call) if each.id in found]
        assert isinstance(call, Call)
        return call

    def wrong_with(self, text: str, needs: int = 1, times: int = 1) -> list[str]:
        """What is not as it was promised: this many effects, with so many votes; cards, record."""
        found: list[str] = []
        lines = [line for line in self.ledger.lines() if line["text"] == text]
        if len(lines) != times:
            found.append(f"“{text}” was done {len(lines)} times")
        for line in lines:
            record = line["record"]
            if record["arguments"]["text"] != text:
                found.append(f"“{text}” was done, and {record['arguments']} was approved")
            if len(APPROVERS & set(record["agreed"])) < needs:
                found.append(f"“{text}” was done by the votes of {record['agreed']} alone")
        self.wait(self.is_over)
        self.rest()
        store = self.store()
        try:
            return [*found, *of_slack(self), *of_the_record(store, self)]
        finally:
            store.close()

    def is_over(self) -> bool:
        """Whether no request is open, and Slack knows all of it."""
        unsent = self.all(Message, col(Message.status).in_(MESSAGE_OPEN_STATUSES))
        return not unsent and not self.all(Run, col(Run.status).in_(RUN_OPEN_STATUSES))

    # what people do

    def rest(self) -> None:
        """Until nothing is on its way to the bot, and nothing under way in it."""
        arrived(self.harness)

    def wait(self, look: Any) -> Any:
        """What `look` finds, waited for."""
        return self.slack.wait(look, PATIENCE)

    def seen_by(self, who: str) -> list[tuple[str, dict[str, Any]]]:
        """The bot's messages that this person sees, each with its channel."""
        person = self.harness.person(who)
        places = (SUPPORT, person.dm_channel)
        return [(at, m) for at in places for m in person.everything(at) if m.get("bot_id")]

    def card(
        self, text: str, who: str = "ana", having: str = "approve"
    ) -> tuple[str, dict[str, Any]]:
        """The message about this with such a button, waited for, and where it is."""

        def look() -> tuple[str, dict[str, Any]] | None:
            for at, message in self.seen_by(who):
                is_there = having in action_ids(message) or f'"{having}:' in words(message)
                if is_there and text in words(message):
                    return at, message
            return None

        found: tuple[str, dict[str, Any]] = self.wait(look)
        return found

    def cards(self, text: str, who: str = "ana") -> int:
        """How many requests about this text there are."""
        found = {each.call_id for each in self.all(Revision) if _has(each, text)}
        return len(found)

    def approve(self, text: str, who: str = "ana", *, twice: bool = False) -> None:
        """Somebody approves it; Slack delivers the click once, or twice."""
        at, card = self.card(text, who)
        sent = self.harness.person(who).click(at, card["ts"], "approve", seen=card)
        if twice:
            self.redeliver(sent)
        self.rest()

    def _reached(self, what: str) -> None:
        """Note that a tool of the bot's own is that far; hold it up while that is wanted."""
        if what.startswith("effect of ") and what.endswith("after") and not self._may_end.is_set():
            self._amid.set()
            self._may_end.wait(PATIENCE)

    def restart_amid(self, text: str) -> None:
        """Ana approves, and the bot ends while its tool works on it; she says that it was done."""
        self._amid.clear()
        self._may_end.clear()
        at, card = self.card(text)
        self.harness.person("ana").click(at, card["ts"], "approve", seen=card)
        self.wait(self._amid.is_set)
        self.harness.restart()
        at, card = self.card(text, having="resolve_done")
        self._may_end.set()  # what comes of it now, nobody hears
        press(self.harness, "ana", at, card, "resolve_done")
        self.rest()

    def redeliver(self, sent: Delivery) -> None:
        """Have Slack deliver it once more, later: in the same second it would be a replay."""
        self.wait(lambda: sent.outcome != "pending")
        self.harness.clock.advance(2)
        self.slack.redeliver(sent)

    def edit(self, text: str, other: str) -> None:
        """Ana puts another text in its place."""
        at, card = self.card(text)
        open_modal(self.harness, "ana", at, card, "edit")
        assert self.harness.person("ana").submit(typed(text=other))["outcome"] == "closed"
        self.rest()

    def reject(self, text: str, why: str) -> None:
        """Ana rejects it in these words."""
        at, card = self.card(text)
        reject(self.harness, "ana", at, card, why)
        self.rest()

    def take_back(self, text: str) -> None:
        """Ben takes the request back in Slack, by its button, or in words where he sees none."""
        [run] = self.all(Run, col(Run.id) == self.call(text).run_id)
        if run.channel == SUPPORT:
            at, card = self.card(text, "ben", "cancel_run")
            press(self.harness, "ben", at, card, "cancel_run")
        else:
            self.harness.person("ben").say(run.channel, "cancel", run.thread_ts)
        self.rest()

    def approve_and_restart(self, text: str) -> None:
        """Ana's click is stored, and the next life of the bot decides it."""
        at, card = self.card(text)
        self.harness.app.loop.pause()
        sent = self.harness.person("ana").click(at, card["ts"], "approve", seen=card)
        self.wait(lambda: sent.outcome != "pending")
        self.harness.restart()


def new_text(story: str, source: str) -> str:
    """What nobody has asked for before."""
    return f"{story} by {source}, number {next(NUMBERS)}"


def _has(revision: Revision, text: str) -> bool:
    """Whether these arguments have that very text, whatever it is the beginning of."""
    if text not in revision.arguments:
        return False
    given = json.loads(revision.arguments)
    return text in given.values()
