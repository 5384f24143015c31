"""A program that deploys, and the people who decide about it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, ParamSpec, Self, TypeVar

from countersign import Countersign, OwnAction, Request
from storage.models import Call, Revision
from tests.client_keys import make_key
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import action_ids, is_card, words
from tests.stories.steps import arrived, open_modal, reject, typed, vote

P = ParamSpec("P")
R = TypeVar("R")
PATIENCE = 30  # seconds, for results that take less than one
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
    """Make a key of that name, for which Ben is responsible."""
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

    def start(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """Call the function on a thread of its own, with a copy of this context."""
        return self._pool.submit(copy_context().run, function, *args, **kwargs)

    def ask(self, version: str, **more: Any) -> Request:
        """Ask without the decorator."""
        around = {"channel": SUPPORT, **more}
        return self.client.request(DEPLOY, {"version": version, "env": "prod"}, **around)

    def wait_for_card(self, text: str, having: str = "approve") -> dict[str, Any]:
        """Return the card with this text on which Ana can decide."""

        def look() -> dict[str, Any] | None:
            seen = self.harness.person("ana").everything(SUPPORT)
            return next((m for m in seen if having in action_ids(m) and text in words(m)), None)

        found: dict[str, Any] = self.harness.slack.wait(look, self.patience)
        return found

    def count_cards(self, text: str) -> int:
        """How many cards have this text."""
        seen = self.harness.person("ana").everything(SUPPORT)
        return sum(is_card(m) and text in words(m) for m in seen)

    def list_calls(self, text: str) -> list[Call]:
        """The calls that have this text in the arguments of any revision."""
        with_it = {each.call_id for each in self.harness.all(Revision) if text in each.arguments}
        return [each for each in self.harness.all(Call) if each.id in with_it]

    def approve(self, text: str, who: str = "ana") -> None:
        """Approve its card."""
        vote(self.harness, who, self.wait_for_card(text))

    def edit(self, text: str, **fields: str) -> None:
        """Have Ana edit it."""
        open_modal(self.harness, "ana", SUPPORT, self.wait_for_card(text), "edit")
        self.harness.person("ana").submit(typed(**fields))
        arrived(self.harness)

    def reject(self, text: str, why: str) -> None:
        """Have Ana reject it with these words."""
        reject(self.harness, "ana", SUPPORT, self.wait_for_card(text), why)
        arrived(self.harness)


def get_result(future: Future[R]) -> R:
    """Return or raise what the function did."""
    return future.result(PATIENCE)
