"""The bot with a real model: running requests, deciding, and what must hold whatever the model
says.
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
PATIENCE = 120.0  # seconds for the model's answer


@contextmanager
def run_bot(
    folder: Path, url: str, api: ModelApi, offered: Collection[str] = OFFERED, turns: int = 4
) -> Iterator[tuple[Harness, FakeTools]]:
    """Run the bot with the model at that address, tools of these names, and so many turns a
    request.
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


def wait_until_at_rest(harness: Harness, thread: str) -> Run:
    """Return the thread's request once the model has nothing more to say for now."""

    def look() -> Run | None:
        [*_, run] = harness.all(Run, Run.thread_ts == thread) or [None]
        resting = (RunStatus.WAITING, RunStatus.COMPLETED, RunStatus.FAILED)
        return run if run and run.status in resting and harness.app.is_idle() else None

    return harness.slack.wait(look, PATIENCE)


def decide_all(harness: Harness, thread: str, number: int) -> None:
    """Have Ana approve or reject what the model proposes, until it proposes no more."""
    while wait_until_at_rest(harness, thread).status is RunStatus.WAITING:
        seen = harness.thread(SUPPORT, thread, "ana")
        [card, *_] = [m for m in seen if {"approve", "review"} & {*action_ids(m)}]
        if number % 3 == 2 or "approve" not in action_ids(card):  # some are too long for a card
            reject(harness, "ana", SUPPORT, card, "not this")
        else:
            press(harness, "ana", SUPPORT, card, "approve")
        number += 1
        wait_for_acknowledgements(harness)


def wait_for_acknowledgements(harness: Harness) -> None:
    """Wait until Slack knows that the bot has stored all clicks."""
    harness.slack.wait(lambda: all(d.outcome != "pending" for d in harness.slack.deliveries))


def check_transcript(harness: Harness, thread: str) -> None:
    """Check that each call has one output, and that a strict server accepts the transcript."""
    with harness.app.core.store.read() as tx:
        items = list_transcript_items(tx, harness.run_in(thread))
    calls = Counter(i["call_id"] for i in items if i.get("type") == "function_call")
    outputs = Counter(i["call_id"] for i in items if i.get("type") == "function_call_output")
    assert max(calls.values(), default=1) == 1
    assert outputs == calls
    check_chat_request({"model": "gpt-5", "messages": build_chat_messages("Be brief.", items)})


def check_effects_were_approved(harness: Harness, fakes: FakeTools, thread: str) -> None:
    """Check that each effect was approved by Ana or is a look-up, and happened once."""
    done = Counter(fakes.keys)
    for call in harness.calls_in(thread):
        events = harness.audit_of(call)
        approved = "call.approved" in events or call.tool in ("peek", "books")
        assert done[call.id] <= int(approved), (call.tool, events)


def get_answer(harness: Harness, thread: str) -> str:
    """Return the bot's last message in the thread; it has text, and no error of the code."""
    [*_, last] = [m for m in harness.thread(SUPPORT, thread) if m.get("bot_id")]
    assert str(last.get("text") or "").strip()
    assert not re.search("Traceback|validation error|internal_server_error", words(last))
    return words(last)
