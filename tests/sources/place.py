"""The setting of these tests: one bot, its people, and a ledger of all effects."""

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
from tests.sources.lossy_proxy import LossyProxy
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import action_ids, words
from tests.stories.steps import arrived, open_modal, press, reject, typed

BEN = "UBEN00001"  # the requester of everything
APPROVERS = frozenset({"UANA00001", "UCLEO0001"})
PATIENCE = 40.0  # seconds, enough for a busy machine
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
    """One bot over HTTP, with Ben as its operator; effects of tools and programs are recorded."""

    def __init__(self, folder: Path) -> None:
        self.ledger = Ledger(folder)
        self._effect_reached, self._may_end = threading.Event(), threading.Event()
        self._may_end.set()
        tools = make_tools(self.ledger, self._reached, folder)
        (folder / "shelf").write_text("3")
        more = {"COUNTERSIGN_OPERATOR": BEN}
        self.harness = Harness(folder, tools, POLICY, Transport.HTTP, **more)
        self.ledger.store = self.store()
        self.line = LossyProxy(lambda: f"http://127.0.0.1:{self.harness.port}")
        at = self.harness.app.core.store.path
        self.key = make_key(at, "desk", "@ben", ["*"], per_hour=10_000).key
        self._book = SimpleXMLRPCServer(("127.0.0.1", 0), logRequests=False)
        self._book.register_function(self.did)
        self._writing = threading.Thread(target=self._book.serve_forever, args=(0.02,))
        self._writing.start()
        # the address to which processes report an effect
        self.book = f"http://127.0.0.1:{self._book.server_address[1]}"

    def close(self) -> None:
        """Stop everything."""
        self._book.shutdown()
        self._writing.join()
        self._book.server_close()
        self.line.close()
        self.harness.close()

    # what the checks of the crash matrix need

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
        """The record, opened a second time."""
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

    # effects

    def did(self, text: str) -> str:
        """Record that a program did this, with the state of its call."""
        call = self.call(text)
        self.ledger.note(call.tool, text, call.id)
        return f"wrote {text}"

    def done(self, text: str) -> int:
        """How often this was done."""
        return sum(line["text"] == text for line in self.ledger.lines())

    def call(self, text: str) -> Call:
        """The one call that has this text in its arguments, in any revision."""
        found = {each.call_id for each in self.all(Revision) if _has(each, text)}
        [call] = [each for each in self.all(Call) if each.id in found]
        assert isinstance(call, Call)
        return call

    def wrong_with(self, text: str, needs: int = 1, times: int = 1) -> list[str]:
        """List broken promises: the number of effects, the votes for each, cards and record."""
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
        """Whether no request is open and no message unsent."""
        unsent = self.all(Message, col(Message.status).in_(MESSAGE_OPEN_STATUSES))
        return not unsent and not self.all(Run, col(Run.status).in_(RUN_OPEN_STATUSES))

    # people

    def rest(self) -> None:
        """Wait until nothing is on its way to the bot or being handled."""
        arrived(self.harness)

    def wait(self, look: Any) -> Any:
        """Wait until `look` returns something, and return it."""
        return self.slack.wait(look, PATIENCE)

    def seen_by(self, who: str) -> list[tuple[str, dict[str, Any]]]:
        """The bot's messages that this person sees, each with its channel."""
        person = self.harness.person(who)
        places = (SUPPORT, person.dm_channel)
        return [(at, m) for at in places for m in person.everything(at) if m.get("bot_id")]

    def card(
        self, text: str, who: str = "ana", having: str = "approve"
    ) -> tuple[str, dict[str, Any]]:
        """Wait for the message with this text and such a button; return it with its channel."""

        def look() -> tuple[str, dict[str, Any]] | None:
            for at, message in self.seen_by(who):
                is_there = having in action_ids(message) or f'"{having}:' in words(message)
                if is_there and text in words(message):
                    return at, message
            return None

        found: tuple[str, dict[str, Any]] = self.wait(look)
        return found

    def cards(self, text: str, who: str = "ana") -> int:
        """How many requests have this text."""
        found = {each.call_id for each in self.all(Revision) if _has(each, text)}
        return len(found)

    def approve(self, text: str, who: str = "ana", *, twice: bool = False) -> None:
        """Have somebody approve it; Slack delivers the click once or twice."""
        at, card = self.card(text, who)
        sent = self.harness.person(who).click(at, card["ts"], "approve", seen=card)
        if twice:
            self.redeliver(sent)
        self.rest()

    def _reached(self, what: str) -> None:
        """Note that a tool of the bot got this far; hold it up if a test wants that."""
        if what.startswith("effect of ") and what.endswith("after") and not self._may_end.is_set():
            self._effect_reached.set()
            self._may_end.wait(PATIENCE)

    def restart_during_effect(self, text: str) -> None:
        """Have Ana approve, restart the bot during the tool, and have Ana say that it was done."""
        self._effect_reached.clear()
        self._may_end.clear()
        at, card = self.card(text)
        self.harness.person("ana").click(at, card["ts"], "approve", seen=card)
        self.wait(self._effect_reached.is_set)
        self.harness.restart()
        at, card = self.card(text, having="resolve_done")
        self._may_end.set()  # nobody hears how the tool ends now
        press(self.harness, "ana", at, card, "resolve_done")
        self.rest()

    def redeliver(self, sent: Delivery) -> None:
        """Have Slack deliver it once more; later, as in the same second it would be a replay."""
        self.wait(lambda: sent.outcome != "pending")
        self.harness.clock.advance(2)
        self.slack.redeliver(sent)

    def edit(self, text: str, other: str) -> None:
        """Have Ana replace the text."""
        at, card = self.card(text)
        open_modal(self.harness, "ana", at, card, "edit")
        assert self.harness.person("ana").submit(typed(text=other))["outcome"] == "closed"
        self.rest()

    def reject(self, text: str, why: str) -> None:
        """Have Ana reject it with these words."""
        at, card = self.card(text)
        reject(self.harness, "ana", at, card, why)
        self.rest()

    def take_back(self, text: str) -> None:
        """Have Ben cancel the request in Slack, by its button, or in words if he sees none."""
        [run] = self.all(Run, col(Run.id) == self.call(text).run_id)
        if run.channel == SUPPORT:
            at, card = self.card(text, "ben", "cancel_run")
            press(self.harness, "ben", at, card, "cancel_run")
        else:
            self.harness.person("ben").say(run.channel, "cancel", run.thread_ts)
        self.rest()

    def approve_and_restart(self, text: str) -> None:
        """Have Ana's click stored, and decided by the bot after a restart."""
        at, card = self.card(text)
        self.harness.app.loop.pause()
        sent = self.harness.person("ana").click(at, card["ts"], "approve", seen=card)
        self.wait(lambda: sent.outcome != "pending")
        self.harness.restart()


def new_text(story: str, source: str) -> str:
    """A text that nobody has asked for before."""
    return f"{story} by {source}, number {next(NUMBERS)}"


def _has(revision: Revision, text: str) -> bool:
    """Whether these arguments have exactly this text as a value."""
    if text not in revision.arguments:
        return False
    given = json.loads(revision.arguments)
    return text in given.values()
