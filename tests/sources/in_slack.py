"""What is asked of the bot itself: in a message, with a form, at the operator's terminal."""

from __future__ import annotations

import re
from contextlib import ExitStack

from bot.cli.terminal.asking import heard
from bot.sandbox.openai.server import Turn
from bot.terminal.wire import Asking, Happens, Wish, socket_path
from storage.models import Run
from storage.states import RUN_OPEN
from tests.sources.place import Place
from tests.sources.source import Asked, End, Heard, Source
from tests.stories.follower import followed
from tests.stories.forms import request
from tests.stories.harness import SUPPORT
from tests.stories.spoken import Reader

ENDED = {
    End.DONE: "succeeded",
    End.REJECTED: "rejected",
    End.EXPIRED: "expired",
    End.CANCELLED: "cancelled",
}
ANSWER = "That is all about"
SAID = (Happens.ANSWER, Happens.NOTICE)


class _InAThread(Asked):
    """A request in one thread of Slack."""

    thread = ""
    channel = SUPPORT

    def outcome(self) -> Heard:
        """As Asked says: the thread says it, in words."""
        run = self._run()
        self.place.wait(lambda: self._run_of(run.id).status not in RUN_OPEN)
        self.place.rest()
        reader, ben = Reader(self.place.slack), self.place.harness.person("ben")
        said = [m for m in ben.messages(self.channel, self.thread) if m.get("bot_id")]
        text = "\n".join(line for m in said for line in reader.message(m)[1:])
        return Heard(self.place.call(self.text).status, re.sub(r"[{}]|:[a-z_]+:", "", text))

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

    def ask(self, text: str) -> Asked:
        """As Source says."""
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

    def ask(self, text: str) -> Asked:
        """As Source says; a form is answered before it is stored, so it is there at once."""
        found = _InAThread(self.place, text)
        found.thread = request(self.place.harness, text)
        return found


class AtTheTerminal(Source):
    """Ben, the operator, writes in `countersign chat`; others decide in Slack."""

    name = "chat"
    hears = ENDED

    def ask(self, text: str) -> Asked:
        """As Source says."""
        calls = [("note", {"text": text})]
        self.place.planner.script(Turn(calls=calls), Turn(text=f"{ANSWER} it."))
        return _AtTheTerminal(self.place, text)


class _AtTheTerminal(Asked):
    def __init__(self, place: Place, text: str) -> None:
        super().__init__(place, text)
        self._run = self._say(Asking(Wish.SAY, "", f"please: {text}"))
        self._following = ExitStack()  # until the bot goes
        self._chat = self._following.enter_context(followed(place.harness, self._run))

    def _say(self, asking: Asking) -> str:
        answer = heard(socket_path(self.place.harness.app.core.store.path), asking)
        assert answer.counted, answer.sentence
        return answer.run

    def take_back(self) -> None:
        """As Asked says."""
        self.place.card(self.text)
        self._say(Asking(Wish.CANCEL, self._run))

    def outcome(self) -> Heard:
        """As Asked says: whoever follows the chat is told how the call stands, and in words."""

        def is_over() -> bool:
            [run] = self.place.all(Run, Run.id == self._run)
            return run.status not in RUN_OPEN

        self.place.wait(is_over)
        self.place.rest()
        status = self.place.call(self.text).status
        with self._following, followed(self.place.harness, self._run) as again:
            again.call(status)
            told = [*self._chat.told, *again.told]
        said = [each.text for each in told if each.kind in SAID]
        return Heard(status, "\n".join(said))
