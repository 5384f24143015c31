"""A person asks the bot in a thread, and a real model answers: what is waited for, who decides, and
what must be true after it, whatever the model says.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from bot.agent.chat_completions import build_chat_messages
from bot.config.connection_settings import ModelApi
from storage.models import Run
from storage.states import RunStatus
from tests.model_stand_in.chat_checks import check_chat_request
from tests.record_checks import list_transcript_items
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import action_ids, words
from tests.stories.steps import press, reject

OFFERED = {"note", "put", "wipe", "peek", "books", "empty"}
LEFT_OUT = "look_up_order,search_orders,refund_order,change_address,cancel_order,ask_person"
PATIENCE = 120.0  # seconds until the model has said something


@contextmanager
def asking(
    folder: Path, url: str, api: ModelApi, offered: Collection[str] = OFFERED, turns: int = 4
) -> Iterator[tuple[Harness, FakeTools]]:
    """The bot, whose model is at that address: with tools of these names, and so many turns for
    one request.
    """
    fakes = FakeTools()
    tools = [each for each in fakes.tools if each.name in offered]
    harness = Harness(
        folder,
        tools,
        OPENAI_BASE_URL=url,
        OPENAI_API=api,
        COUNTERSIGN_SLACK_TOOLS="off",
        COUNTERSIGN_WITHOUT_TOOLS=LEFT_OUT,
        COUNTERSIGN_MAX_TURNS=str(turns),
        COUNTERSIGN_MODEL_RETRIES="1",
    )
    try:
        yield harness, fakes
    finally:
        harness.close()


def at_rest(harness: Harness, thread: str) -> Run:
    """The thread's request, once the model has said what it has to say for now."""

    def look() -> Run | None:
        [*_, run] = harness.all(Run, Run.thread_ts == thread) or [None]
        resting = (RunStatus.WAITING, RunStatus.COMPLETED, RunStatus.FAILED)
        return run if run and run.status in resting and harness.app.is_idle() else None

    return harness.slack.wait(look, PATIENCE)


def decided(harness: Harness, thread: str, number: int) -> None:
    """Ana approves what the model proposes, or rejects it, until it proposes no more."""
    while at_rest(harness, thread).status is RunStatus.WAITING:
        seen = harness.thread(SUPPORT, thread, "ana")
        [card, *_] = [m for m in seen if {"approve", "review"} & {*action_ids(m)}]
        if number % 3 == 2 or "approve" not in action_ids(card):  # or it is too long for a card
            reject(harness, "ana", SUPPORT, card, "not this")
        else:
            press(harness, "ana", SUPPORT, card, "approve")
        number += 1
        heard(harness)


def heard(harness: Harness) -> None:
    """Wait until Slack knows that the bot has all clicks: each is stored before it is
    acknowledged.
    """
    harness.slack.wait(lambda: all(d.outcome != "pending" for d in harness.slack.deliveries))


def is_valid(harness: Harness, thread: str) -> None:
    """Check that each call of the transcript has one output, and that a strict server takes it."""
    with harness.app.core.store.read() as tx:
        items = list_transcript_items(tx, harness.run_in(thread))
    calls = Counter(i["call_id"] for i in items if i.get("type") == "function_call")
    outputs = Counter(i["call_id"] for i in items if i.get("type") == "function_call_output")
    assert max(calls.values(), default=1) == 1
    assert outputs == calls
    check_chat_request({"model": "gpt-5", "messages": build_chat_messages("Be brief.", items)})


def nothing_ran_unasked(harness: Harness, fakes: FakeTools, thread: str) -> None:
    """Check that what took effect was approved by Ana, or is a look-up, and took effect once."""
    done = Counter(fakes.keys)
    for call in harness.calls_in(thread):
        events = harness.audit_of(call)
        approved = "call.approved" in events or call.tool in ("peek", "books")
        assert done[call.id] <= int(approved), (call.tool, events)


def was_answered(harness: Harness, thread: str) -> str:
    """The bot's last message in the thread, which says something, and nothing that is not meant for
    people.
    """
    [*_, last] = [m for m in harness.thread(SUPPORT, thread) if m.get("bot_id")]
    assert str(last.get("text") or "").strip()
    assert not re.search("Traceback|validation error|internal_server_error", words(last))
    return words(last)
