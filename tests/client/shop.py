"""What these stories are told in: a program that deploys, and the people who decide about it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, ParamSpec, Self, TypeVar

from countersign import Countersign, OwnAction, Request
from storage.models import Call, Revision
from tests.client_keys import make_key
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import action_ids, words
from tests.stories.steps import arrived, open_modal, reject, typed, vote

P = ParamSpec("P")
R = TypeVar("R")
PATIENCE = 30  # seconds for what needs no second
DEPLOY = OwnAction(
    "deploy",
    "Deploy",
    "Deploy {version} to {env}",
    schema={
        "type": "object",
        "properties": {"version": {"type": "string"}, "env": {"type": "string"}},
        "required": ["version", "env"],
        "additionalProperties": False,
    },
)


def key_for(harness: Harness, name: str, tools: str) -> str:
    """A key of that name, for which Ben answers."""
    record = harness.settings().database_path
    return make_key(record, name, "@ben", tools.split(","), per_hour=10_000).key


class Shop:
    """Ben's program, which asks in #support, and Ana and Cleo, who decide."""

    def __init__(self, harness: Harness, client: Countersign, patience: float = 10.0) -> None:
        """`patience`: seconds that a card may take to appear."""
        self.harness = harness
        self.patience = patience
        self.client = client
        self._pool = ThreadPoolExecutor(8)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def begin(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """Call it on a thread of its own, in the context of here."""
        return self._pool.submit(copy_context().run, function, *args, **kwargs)

    def ask(self, version: str, **more: Any) -> Request:
        """The program asks without the decorator."""
        around = {"channel": SUPPORT, **more}
        return self.client.request(DEPLOY, {"version": version, "env": "prod"}, **around)

    def card(self, text: str, having: str = "approve") -> dict[str, Any]:
        """The card about this, at which Ana can decide."""

        def look() -> dict[str, Any] | None:
            seen = self.harness.person("ana").everything(SUPPORT)
            return next((m for m in seen if having in action_ids(m) and text in words(m)), None)

        found: dict[str, Any] = self.harness.slack.wait(look, self.patience)
        return found

    def cards(self, text: str) -> int:
        """How many cards are about this."""
        seen = self.harness.person("ana").everything(SUPPORT)
        return sum("more" in action_ids(m) and text in words(m) for m in seen)

    def calls(self, text: str) -> list[Call]:
        """The calls with this in their arguments, as they were in any revision."""
        with_it = {each.call_id for each in self.harness.all(Revision) if text in each.arguments}
        return [each for each in self.harness.all(Call) if each.id in with_it]

    def approve(self, text: str, who: str = "ana") -> None:
        """Somebody approves it."""
        vote(self.harness, who, self.card(text))

    def edit(self, text: str, **fields: str) -> None:
        """Ana edits it."""
        open_modal(self.harness, "ana", SUPPORT, self.card(text), "edit")
        self.harness.person("ana").submit(typed(**fields))
        arrived(self.harness)

    def reject(self, text: str, why: str) -> None:
        """Ana rejects it in these words."""
        reject(self.harness, "ana", SUPPORT, self.card(text), why)
        arrived(self.harness)

    def told(self, text: str) -> str:
        """The first message of #support that says this, waited for."""

        def look() -> str | None:
            seen = self.harness.person("ana").everything(SUPPORT)
            return next((words(m) for m in seen if text in words(m)), None)

        return str(self.harness.slack.wait(look))


def ended(future: Future[R]) -> R:
    """What came of it."""
    return future.result(PATIENCE)
