"""A thread that becomes longer than the model can read goes on, and what people decided stands."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from bot.agent.compaction import words as told
from bot.config.model import ModelApi
from bot.sandbox.openai.server import Part, Turn
from bot.sandbox.openai.wire import tokens
from storage import runs
from storage.compactions import KIND
from storage.models import Item
from storage.states import CallStatus
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.steps import arrived, ask_for, reject

pytestmark = pytest.mark.long
WINDOW = 60_000  # tokens
MADE = "the-one-that-was-made"
REFUSED = "the-one-that-was-not"
WHY = "Not before the audit, said the board."
TALK = "Some words about an order that somebody wanted looked after, as people write them. " * 2
SUMMARY = "Ben had many orders looked at; 1042 came late."


def decided(harness: Harness) -> tuple[str, list[dict[str, Any]]]:
    """A thread in which one call was approved and one rejected; and what the model was told."""
    thread, card = ask_for(harness, MADE)
    harness.person("ana").click(SUPPORT, card["ts"], "approve", seen=card)
    arrived(harness)
    harness.planner.script(Turn(calls=[("note", {"text": REFUSED})]), Turn(text="As you wish."))
    harness.person("ben").say(SUPPORT, f"@bot note {REFUSED}", thread)
    card = harness.slack.wait(
        lambda: next(
            (
                m
                for m in harness.thread(SUPPORT, thread)
                if REFUSED in json.dumps(m) and "reject" in json.dumps(m)
            ),
            None,
        )
    )
    reject(harness, "ana", SUPPORT, card, WHY)
    harness.said(SUPPORT, thread, "As you wish.")
    harness.settle()
    statuses = [call.status for call in harness.calls_in(thread)]
    assert statuses == [CallStatus.SUCCEEDED, CallStatus.REJECTED]
    kinds = ("function_call", "function_call_output")
    return thread, [each for each in items_of(harness) if each.get("type") in kinds]


def items_of(harness: Harness) -> list[dict[str, Any]]:
    """Every item that is stored, in order."""
    return [json.loads(each.body) for each in sorted(harness.all(Item), key=lambda e: e.seq)]


def go_on_for_weeks(harness: Harness, thread: str, items: int = 1_000) -> None:
    """So many more items in the thread: requests, look-ups and answers."""
    with harness.app.core.store.write() as tx:
        for number in range(items // 4):
            name = f"call_{thread}_{number}"
            about = {"name": "peek", "arguments": json.dumps({"text": TALK[:60]})}
            for item in (
                {"role": "user", "content": [{"type": "input_text", "text": TALK}]},
                {"type": "function_call", "call_id": name, **about},
                {"type": "function_call_output", "call_id": name, "output": TALK},
                {"role": "assistant", "content": [{"type": "output_text", "text": TALK}]},
            ):
                runs.append(tx, harness.run_in(thread), item, at=harness.clock.now())


def size(request: dict[str, Any]) -> int:
    """Tokens of a request, as the model's server counts them."""
    return tokens([request.get(each) for each in ("instructions", "input", "tools")])


def goes_on(harness: Harness, thread: str, words: str) -> dict[str, Any]:
    """Ben asks for more in the thread and is answered; returns the request that was answered."""
    harness.person("ben").say(SUPPORT, "@bot and now?", thread)
    harness.said(SUPPORT, thread, words)
    harness.settle()
    request: dict[str, Any] = harness.planner.requests[-1]
    return request


@pytest.mark.parametrize("api", [ModelApi.RESPONSES, ModelApi.CHAT])
def test_a_long_thread_goes_on(own_harness: Callable[..., Harness], api: ModelApi) -> None:
    """After 1,000 items the model refuses what it is asked; that is said in fewer words, once, and
    it answers. What was approved and what was rejected stands there word for word; the next request
    begins with the same bytes, and nothing of the record is gone.
    """
    harness = own_harness(FakeTools().tools, OPENAI_API=api)
    thread, on_record = decided(harness)
    go_on_for_weeks(harness, thread)
    before = items_of(harness)
    harness.planner.context = WINDOW
    by_server = api is ModelApi.RESPONSES
    harness.planner.script(*([] if by_server else [Turn(text=SUMMARY)]), Turn(text="On we go."))
    asked = goes_on(harness, thread, "On we go.")
    refused = next(each for each in harness.planner.requests if size(each) > WINDOW)
    assert len(harness.planner.refused) == 1
    assert len(harness.planner.compactions) == int(by_server)
    assert size(refused) > WINDOW > 1.5 * size(asked)
    sent = asked["input"]
    for each in on_record:
        assert [same(item, each) for item in sent].count(True) == 1, each
    assert "REJECTED by <@" in json.dumps(sent)
    assert WHY in json.dumps(sent)
    stands = sent[0] if not by_server else next(i for i in sent if i.get("type") == "compaction")
    assert by_server or SUMMARY in stands["content"][0]["text"]
    after = items_of(harness)
    assert after[: len(before)] == before
    assert [each["type"] for each in after if each.get("type") == KIND] == [KIND]

    harness.restart()
    harness.planner.script(Turn(text="Still here."))
    later = goes_on(harness, thread, "Still here.")
    assert json.dumps(later["input"]).startswith(json.dumps(sent).removesuffix("]"))
    assert len(harness.planner.refused) == 1


def same(sent: dict[str, Any], item: dict[str, Any]) -> bool:
    """Whether an item that was sent says what that one says; a chat keeps no ids of its own."""
    return all(sent.get(key) == item[key] for key in item if key not in ("id", "status"))


def stands_for(harness: Harness) -> list[dict[str, Any]]:
    """The compactions that are stored, in order."""
    return [each for each in items_of(harness) if each.get("type") == KIND]


def test_a_restart_amid_a_compaction(own_harness: Callable[..., Harness]) -> None:
    """Whoever stops the bot while it sums up, or right after, loses nothing: it is summed up once
    in the end, and the answer comes.
    """
    harness = own_harness(FakeTools().tools, COUNTERSIGN_CONTEXT_TOKENS=str(WINDOW))
    planner = harness.planner
    planner.without, planner.context = {Part.COMPACTION}, WINDOW
    thread, on_record = decided(harness)
    go_on_for_weeks(harness, thread)
    summing_up = planner.hold()
    harness.person("ben").say(SUPPORT, "@bot and now?", thread)
    assert summing_up.arrived.wait(20)
    harness.app.stop()
    assert stands_for(harness) == []

    planner.clear()
    planner.script(Turn(text=SUMMARY))
    planner.hold().release()
    answering = planner.hold()
    harness.start()
    assert answering.arrived.wait(20)
    harness.app.stop()
    assert len(stands_for(harness)) == 1

    planner.clear()
    planner.script(Turn(text="On we go."))
    harness.start()
    harness.said(SUPPORT, thread, "On we go.")
    harness.settle()
    assert len(stands_for(harness)) == 1
    sent = planner.requests[-1]["input"]
    assert SUMMARY in json.dumps(sent[0])
    assert all(any(same(item, each) for item in sent) for each in on_record)
    assert all("exceeds the context" not in each for each in planner.refused)


def test_a_thread_that_cannot_be_summed_up(own_harness: Callable[..., Harness]) -> None:
    """Then it goes on without its oldest messages, and the thread is told so; the next time all of
    them are summed up after all.
    """
    harness = own_harness(FakeTools().tools, COUNTERSIGN_CONTEXT_TOKENS=str(WINDOW))
    planner = harness.planner
    planner.without = {Part.COMPACTION}
    thread, on_record = decided(harness)
    go_on_for_weeks(harness, thread)
    planner.fail(400)
    planner.script(Turn(text="On we go."))
    sent = goes_on(harness, thread, "On we go.")["input"]
    harness.said(SUPPORT, thread, "I go on without its oldest messages")
    assert sent[0]["role"] == "developer"
    assert "left out" in json.dumps(sent[0])
    assert all(any(same(item, each) for item in sent) for each in on_record)

    go_on_for_weeks(harness, thread)
    planner.script(Turn(text=SUMMARY), Turn(text="And on."))
    sent = goes_on(harness, thread, "And on.")["input"]
    assert SUMMARY in json.dumps(sent[0])
    [asked] = planner.requests[-2]["input"]
    assert told.SOURCE in asked["content"][0]["text"]
    assert [each["whole"] for each in stands_for(harness)] == [False, True]
    assert all(any(same(item, each) for item in sent) for each in on_record)


def test_what_does_not_fit_at_all(own_harness: Callable[..., Harness]) -> None:
    """Where nothing can be left away the thread is told so in a sentence, after one try."""
    harness = own_harness(FakeTools().tools)
    harness.planner.context = 200
    thread = harness.person("ben").say(SUPPORT, "@bot please")
    harness.said(SUPPORT, thread, "longer than the model can read")
    harness.settle()
    assert len(harness.planner.refused) == 1
    assert stands_for(harness) == []
