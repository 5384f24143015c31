"""Requests to the bot itself: in a message, with a form, at the operator's terminal."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

from bot.cli.bot_connection import BotUnreachableError, send_command
from bot.demo.model_server import Turn
from bot.terminal.terminal_messages import (
    ChatEventKind,
    CommandKind,
    CommandResult,
    OperatorCommand,
)
from storage.backend import socket_path
from storage.models import Delivery, Run
from storage.states import RUN_OPEN_STATUSES
from tests.sources.place import PATIENCE, Place
from tests.sources.source import Asked, End, ReportedEnd, Source, Stage
from tests.stories.follower import followed
from tests.stories.forms import form, root
from tests.stories.harness import SUPPORT
from tests.stories.spoken import Reader
from tests.stories.steps import typed

ENDED = {
    End.DONE: "succeeded",
    End.REJECTED: "rejected",
    End.EXPIRED: "expired",
    End.CANCELLED: "cancelled",
}
ANSWER = "That is all about"
SAID = (ChatEventKind.ANSWER, ChatEventKind.NOTICE)


class _InAThread(Asked):
    """A request in one thread of Slack."""

    thread = ""
    channel = SUPPORT

    def outcome(self) -> ReportedEnd:
        """See Asked; the thread has the words."""
        run = self._run()
        self.place.wait(lambda: self._run_of(run.id).status not in RUN_OPEN_STATUSES)
        self.place.rest()
        reader, ben = Reader(self.place.slack), self.place.harness.person("ben")
        said = [m for m in ben.messages(self.channel, self.thread) if m.get("bot_id")]
        text = "\n".join(line for m in said for line in reader.message(m)[1:])
        return ReportedEnd(self.place.call(self.text).status, re.sub(r"[{}]|:[a-z_]+:", "", text))

    def _run(self) -> Run:
        run: Run = self.place.wait(self._begun)
        return run

    def _begun(self) -> Run | None:
        found = self.place.all(Run, Run.thread_ts == self.thread)
        return found[0] if found else None

    def _run_of(self, run_id: str) -> Run:
        [run] = self.place.all(Run, Run.id == run_id)
        assert isinstance(run, Run)
        return run


class InAMessage(Source):
    """Ben writes to the bot, and the model proposes it."""

    name = "message"
    hears = ENDED

    def losing(self, stage: Stage, text: str) -> Callable[[], bool]:
        """See Source; Slack gets no acknowledgement, and sends it again in a minute."""
        del stage
        slack = self.place.slack
        slack.faults.lose_ack("events_api", 100, match=lambda body: text in str(body["event"]))

        def is_lost() -> bool:
            about = [each for each in slack.deliveries if text in str(each.event)]
            found = bool(about) and all(each.attempts > 1 and each.next_at for each in about)
            if found:
                slack.faults.clear()
            return found

        return is_lost

    def ask(self, text: str) -> Asked:
        """See Source."""
        found = _InAThread(self.place, text)
        calls = [("note", {"text": text})]
        self.place.planner.script(Turn(calls=calls), Turn(text=f"{ANSWER} it."))
        harness = self.place.harness
        found.thread = harness.person("ben").say(SUPPORT, f"@bot please: {text}")
        if self.place.line.twice:
            about = [each for each in harness.slack.deliveries if text in str(each.event)]
            for each in about:
                self.place.redeliver(each)
        return found


class WithAForm(Source):
    """Ben fills in a form."""

    name = "form"
    hears = ENDED

    def losing(self, stage: Stage, text: str) -> Callable[[], bool]:
        """See Source; Ben sees Slack's error, and the form stays open."""
        del stage, text
        faults = self.place.slack.faults
        faults.lose_ack("interactive", match=lambda body: body.get("type") == "view_submission")
        return lambda: True  # submitting waits for the answer

    def ask(self, text: str) -> Asked:
        """See Source."""
        return _WithAForm(self.place, text)


class _WithAForm(_InAThread):
    def __init__(self, place: Place, text: str) -> None:
        super().__init__(place, text)
        form(place.harness, "note")
        self._is_closed = self._submit() == "closed"
        if self._is_closed:
            self.thread = root(place.harness, text)

    def _submit(self) -> str:
        entered = typed(text=self.text) | {"why": {"text": {"value": ""}}}
        outcome: str = self.place.harness.person("ben").submit(entered)["outcome"]
        return outcome

    def come_back(self) -> None:
        """See Asked; if Slack showed an error, Ben submits the open form again."""
        if not self._is_closed:
            assert self._submit() == "closed"
            self.thread = root(self.place.harness, self.text)


class AtTheTerminal(Source):
    """Ben, the operator, writes in `countersign chat`; others decide in Slack."""

    name = "chat"
    hears = ENDED

    def losing(self, stage: Stage, text: str) -> Callable[[], bool]:
        """See Source; nothing begins before the bot stops, so the chat is told nothing."""
        del stage
        place = self.place
        place.harness.app.loop.pause()
        return lambda: any(text in each.body for each in place.all(Delivery))

    def ask(self, text: str) -> Asked:
        """See Source."""
        calls = [("note", {"text": text})]
        self.place.planner.script(Turn(calls=calls), Turn(text=f"{ANSWER} it."))
        return _AtTheTerminal(self.place, text)


class _AtTheTerminal(Asked):
    def __init__(self, place: Place, text: str) -> None:
        super().__init__(place, text)
        self._pool = ThreadPoolExecutor(1)
        self._following = ExitStack()  # until the bot stops
        self._chat: Any = None
        self._type()

    def _type(self) -> None:
        """Type it; the answer is awaited on a thread."""
        asking = OperatorCommand(CommandKind.SAY, "", f"please: {self.text}")
        self._answer = self._pool.submit(self._say, asking)
        self._pool.submit(self._follow)

    def _say(self, asking: OperatorCommand) -> CommandResult | None:
        """Send the command; None if no bot is there, as the chat says then."""
        try:
            return send_command(socket_path(self.place.harness.app.core.store.path), asking)
        except BotUnreachableError:
            self.place.line.cut.set()
            return None

    def _follow(self) -> None:
        answer = self._answer.result()
        if answer and answer.run:
            following = followed(self.place.harness, answer.run)
            self._chat = self._following.enter_context(following)

    def come_back(self) -> None:
        """See Asked; a person who was told that no bot is there types it again."""
        if self._answer.result(PATIENCE) is None:
            self._type()

    def take_back(self) -> None:
        """See Asked."""
        self.place.card(self.text)
        answer = self._say(OperatorCommand(CommandKind.CANCEL, self._run()))
        assert answer is not None
        assert answer.counted, answer.sentence

    def _run(self) -> str:
        """The request's id, as seen in Slack, as the chat may not know it."""
        return self.place.call(self.text).run_id

    def outcome(self) -> ReportedEnd:
        """See Asked; the chat shows the call's status, and words."""
        run_id = self._run()

        def is_over() -> bool:
            [run] = self.place.all(Run, Run.id == run_id)
            return run.status not in RUN_OPEN_STATUSES

        self._pool.shutdown()
        self.place.wait(is_over)
        self.place.rest()
        status = self.place.call(self.text).status
        with self._following, followed(self.place.harness, run_id) as again:
            again.call(status)
            told = [*(self._chat.told if self._chat else ()), *again.told]
        said = [each.text for each in told if each.kind in SAID]
        return ReportedEnd(status, "\n".join(said))
