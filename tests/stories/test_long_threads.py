"""A thread that becomes longer than the model can read goes on, and keeps what people decided."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from bot.agent import file_items, prompt
from bot.config.connection_settings import ModelApi
from bot.demo.model_server import Turn, estimate_tokens
from storage import runs
from storage.models import Item
from storage.states import CallStatus
from storage.transcripts import COMPACTION_TYPE, AttachedFile, WithheldReason
from tests.model_stand_in import answers
from tests.model_stand_in.planner import ApiFeature
from tests.stories.asked_people import question
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import action_ids, words
from tests.stories.steps import arrived, ask_for, open_modal, reject, statuses, typed, vote

pytestmark = pytest.mark.long
WINDOW = 60_000  # tokens
BY_SERVER = {"OPENAI_API": ModelApi.RESPONSES}  # its server compacts by itself, without a turn
MADE, REFUSED = "the-one-that-was-made", "the-one-that-was-not"
EDITED, EDITED_TO = "the-one-as-proposed", "the-one-as-edited"
PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(range(200))
WAITS = "the-one-that-waits"
WHY = "Not before the audit, said the board."
TALK = "Some words about an order that somebody wanted looked after, as people write them. " * 2
SUMMARY = "Ben had many orders looked at; 1042 came late."


def make_decisions(harness: Harness) -> tuple[str, list[dict[str, Any]]]:
    """A thread with calls that were approved, rejected and edited, and an answered question;
    returns it and the items about them.
    """
    thread, card = ask_for(harness, MADE)
    harness.person("ana").click(SUPPORT, card["ts"], "approve", seen=card)
    arrived(harness)
    harness.planner.script(Turn(calls=[("note", {"text": REFUSED})]), Turn(text="As you wish."))
    harness.person("ben").say(SUPPORT, f"@bot note {REFUSED}", thread)
    reject(harness, "ana", SUPPORT, wait_for_card(harness, thread, REFUSED), WHY)
    harness.said(SUPPORT, thread, "As you wish.")
    harness.settle()
    harness.planner.script(Turn(calls=[("note", {"text": EDITED})]), Turn(text="As edited."))
    harness.person("ben").say(SUPPORT, f"@bot note {EDITED}", thread)
    open_modal(harness, "ana", SUPPORT, wait_for_card(harness, thread, EDITED), "edit")
    harness.person("ana").submit(typed(text=EDITED_TO))
    harness.settle()
    vote(harness, "cleo", wait_for_card(harness, thread, EDITED_TO))
    harness.said(SUPPORT, thread, "As edited.")
    asks = question(question="Is the parcel of Eve here?", kind="yes_no")
    harness.planner.script(Turn(calls=[asks]), Turn(text="It is here."))
    harness.person("ben").say(SUPPORT, "@bot ask me", thread)
    asked = harness.card(SUPPORT, thread, "ben", "choose_1")
    harness.person("ben").click(SUPPORT, asked["ts"], "choose_1")
    harness.said(SUPPORT, thread, "It is here.")
    harness.settle()
    C = CallStatus
    ends = [C.SUCCEEDED, C.REJECTED, C.SUCCEEDED, C.ANSWERED]
    assert statuses(harness, thread) == ends
    kinds = ("function_call", "function_call_output")
    return thread, [each for each in list_items(harness) if each.get("type") in kinds]


def wait_for_card(harness: Harness, thread: str, text: str) -> dict[str, Any]:
    """The card about this text that can be decided, waited for."""

    def look() -> dict[str, Any] | None:
        shown = harness.person("ana").messages(SUPPORT, thread)
        return next((m for m in shown if text in words(m) and "approve" in action_ids(m)), None)

    found: dict[str, Any] = harness.slack.wait(look)
    return found


def list_items(harness: Harness) -> list[dict[str, Any]]:
    """All stored items, in order."""
    return [json.loads(each.body) for each in sorted(harness.all(Item), key=lambda e: e.seq)]


def append_items(harness: Harness, thread: str, items: int = 1_000) -> None:
    """Append so many items to the thread: requests, look-ups and answers."""
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
                runs.append_transcript_item(
                    tx, harness.run_in(thread), item, at=harness.clock.now()
                )


def count_tokens(request: dict[str, Any]) -> int:
    """The tokens of a request, as the model's server counts them."""
    return estimate_tokens([request.get(each) for each in ("instructions", "input", "tools")])


def ask_for_more(harness: Harness, thread: str, words: str) -> dict[str, Any]:
    """Ben asks for more in the thread and is answered; returns the request to the model."""
    harness.person("ben").say(SUPPORT, "@bot and now?", thread)
    harness.said(SUPPORT, thread, words)
    harness.settle()
    request: dict[str, Any] = harness.planner.requests[-1]
    return request


@pytest.mark.parametrize("api", [ModelApi.RESPONSES, ModelApi.CHAT])
def test_a_long_thread_is_compacted_and_keeps_decisions(
    own_harness: Callable[..., Harness], api: ModelApi
) -> None:
    """After 1,000 items the model refuses its input, which is then compacted once. What was
    approved, edited, rejected and answered is kept word for word, the next request begins with the
    same bytes, and no stored item is lost.
    """
    harness = own_harness(FakeTools().tools, OPENAI_API=api)
    thread, on_record = make_decisions(harness)
    append_items(harness, thread)
    before = list_items(harness)
    harness.planner.context = WINDOW
    by_server = api is ModelApi.RESPONSES
    harness.planner.script(*([] if by_server else [Turn(text=SUMMARY)]), Turn(text="On we go."))
    asked = ask_for_more(harness, thread, "On we go.")
    refused = next(each for each in harness.planner.requests if count_tokens(each) > WINDOW)
    assert len(harness.planner.refused) == 1
    assert len(harness.planner.compactions) == int(by_server)
    assert count_tokens(refused) > WINDOW
    assert count_tokens(asked) < (41_000 if by_server else 27_000)
    sent = asked["input"]
    for each in on_record:
        assert [is_same(item, each) for item in sent].count(True) == 1, each
    for each in ("REJECTED by <@", WHY, "ran with: ", EDITED_TO, "ANSWERED by <@"):
        assert each in json.dumps(sent)
    stands = sent[0] if not by_server else next(i for i in sent if i.get("type") == "compaction")
    assert by_server or SUMMARY in stands["content"][0]["text"]
    after = list_items(harness)
    assert after[: len(before)] == before
    assert [each["type"] for each in after if each.get("type") == COMPACTION_TYPE] == [
        COMPACTION_TYPE
    ]

    harness.restart()
    harness.planner.script(Turn(text="Still here."))
    later = ask_for_more(harness, thread, "Still here.")
    assert json.dumps(later["input"]).startswith(json.dumps(sent).removesuffix("]"))
    assert len(harness.planner.refused) == 1


def test_a_waiting_call_survives_a_compaction(own_harness: Callable[..., Harness]) -> None:
    """A question beside a waiting card is answered in a compacted thread, whose model knows that
    the call waits. Later the call is approved and runs once, and its output stands where the call
    does.
    """
    fakes = FakeTools()
    harness = own_harness(fakes.tools, **BY_SERVER, COUNTERSIGN_CONTEXT_TOKENS=str(WINDOW))
    harness.planner.context = WINDOW
    thread, card = ask_for(harness, WAITS)
    append_items(harness, thread)
    harness.planner.script(Turn(text="It waits."))
    sent = ask_for_more(harness, thread, "It waits.")["input"]
    assert len(list_compactions(harness)) == 1
    [call] = harness.calls_in(thread)
    told_of = {e["call_id"]: e["output"] for e in sent if e.get("type") == "function_call_output"}
    assert told_of[call.provider_id].startswith("WAITING")

    harness.planner.script(Turn(text="It is noted."))
    vote(harness, "ana", card)
    harness.said(SUPPORT, thread, "It is noted.")
    harness.settle()
    assert fakes.did("note", WAITS) == 1
    [stood] = [each for each in harness.outputs() if each["call_id"] == call.provider_id]
    assert stood["output"].startswith("SUCCEEDED. Approved by <@UANA00001>")
    assert harness.planner.refused == []


def test_a_new_file_is_read_in_a_long_thread(own_harness: Callable[..., Harness]) -> None:
    """The thread is compacted, and no bytes of an older file are kept in that. A file that is too
    long by itself is left out.
    """
    harness = own_harness(**BY_SERVER)
    thread, _ = attach(harness, "first.png", PICTURE, None)
    append_items(harness, thread)
    harness.planner.context = WINDOW
    _, sent = attach(harness, "second.png", PICTURE + b"2", thread)
    assert "data:image/png;base64," in json.dumps(sent["input"][-2])
    assert "data:image/png;base64," not in json.dumps(sent["input"][:-2])
    assert count_tokens(sent) < WINDOW
    [stands] = list_compactions(harness)
    assert (stands["seal"], "base64" in json.dumps(stands)) == (f"{harness.planner.url}/", False)
    assert prompt.SUMMARISED_FILE_TEXT in json.dumps(stands)
    assert [each.withheld for each in harness.all(AttachedFile)] == [
        WithheldReason.NO,
        WithheldReason.NO,
    ]
    harness.planner.context = count_tokens(sent) - count_tokens({"input": sent["input"]}) + 2_000
    _, sent = attach(harness, "long.txt", b"Words. " * 3_000, None)
    assert file_items.REFUSED_FILE_TEXT in json.dumps(sent["input"][-2])
    withheld = [each.withheld for each in harness.all(AttachedFile)]
    assert sorted(withheld) == [WithheldReason.NO, WithheldReason.NO, WithheldReason.REFUSED]
    assert len(list_compactions(harness)) == 1


def attach(
    harness: Harness, name: str, content: bytes, thread: str | None
) -> tuple[str, dict[str, Any]]:
    """Ben asks with a file; returns the thread and the request to the model."""
    harness.planner.script(Turn(text=f"I have read {name}."))
    ts = harness.person("ben").share(SUPPORT, "@bot look", {name: content}, thread)
    harness.said(SUPPORT, thread or ts, f"I have read {name}.")
    harness.settle()
    return thread or ts, harness.planner.requests[-1]


def is_same(sent: dict[str, Any], item: dict[str, Any]) -> bool:
    """Whether a sent item says what a stored one does; Chat Completions keeps no ids of its own."""
    return all(sent.get(key) == item[key] for key in item if key not in ("id", "status"))


def list_compactions(harness: Harness) -> list[dict[str, Any]]:
    """The stored compactions, in order."""
    return [each for each in list_items(harness) if each.get("type") == COMPACTION_TYPE]


def test_a_restart_during_a_compaction_loses_nothing(own_harness: Callable[..., Harness]) -> None:
    """The bot is stopped during it and right after it."""
    harness = own_harness(FakeTools().tools, COUNTERSIGN_CONTEXT_TOKENS=str(WINDOW))
    planner = harness.planner
    planner.without, planner.context = {ApiFeature.COMPACTION}, WINDOW
    thread, on_record = make_decisions(harness)
    append_items(harness, thread)
    summing_up = planner.hold_next_request()
    harness.person("ben").say(SUPPORT, "@bot and now?", thread)
    assert summing_up.arrived.wait(20)
    harness.app.stop()
    assert list_compactions(harness) == []

    planner.clear_script()
    planner.script(Turn(text=SUMMARY))
    planner.hold_next_request().release()
    answering = planner.hold_next_request()
    harness.start()
    assert answering.arrived.wait(20)
    harness.app.stop()
    assert len(list_compactions(harness)) == 1

    planner.clear_script()
    planner.script(Turn(text="On we go."))
    harness.start()
    harness.said(SUPPORT, thread, "On we go.")
    harness.settle()
    assert len(list_compactions(harness)) == 1
    sent = planner.requests[-1]["input"]
    assert SUMMARY in json.dumps(sent[0])
    assert all(any(is_same(item, each) for item in sent) for each in on_record)
    assert all("exceeds the context" not in each for each in planner.refused)


def test_a_failed_compaction_drops_the_oldest_messages(
    own_harness: Callable[..., Harness],
) -> None:
    """The thread is told so. The next compaction includes them after all."""
    harness = own_harness(FakeTools().tools, COUNTERSIGN_CONTEXT_TOKENS=str(WINDOW))
    planner = harness.planner
    planner.without = {ApiFeature.COMPACTION}
    thread, on_record = make_decisions(harness)
    append_items(harness, thread)
    planner.fail_next_requests(400)
    planner.script(Turn(text="On we go."))
    sent = ask_for_more(harness, thread, "On we go.")["input"]
    harness.said(SUPPORT, thread, "I am continuing without its oldest messages")
    assert sent[0]["role"] == "developer"
    assert "left out" in json.dumps(sent[0])
    assert all(any(is_same(item, each) for item in sent) for each in on_record)

    append_items(harness, thread)
    planner.script(Turn(text=SUMMARY), Turn(text="And on."))
    sent = ask_for_more(harness, thread, "And on.")["input"]
    assert SUMMARY in json.dumps(sent[0])
    [asked] = planner.requests[-2]["input"]
    assert prompt.SUMMARY_SOURCE_HEADING in asked["content"][0]["text"]
    assert "could not be summed up" not in asked["content"][0]["text"]
    assert [each["whole"] for each in list_compactions(harness)] == [False, True]
    assert all(any(is_same(item, each) for item in sent) for each in on_record)


def test_the_thread_says_if_a_request_does_not_fit(
    own_harness: Callable[..., Harness],
) -> None:
    """The model is asked only once."""
    harness = own_harness(FakeTools().tools)
    harness.planner.context = 200
    thread = harness.person("ben").say(SUPPORT, "@bot please")
    harness.said(SUPPORT, thread, "longer than the model can read")
    harness.settle()
    assert len(harness.planner.refused) == 1
    assert list_compactions(harness) == []


def test_a_compaction_that_its_server_cannot_read_any_more_is_replaced(
    own_harness: Callable[..., Harness], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a change of the key: the thread is compacted anew, and goes on."""
    harness = own_harness(**BY_SERVER, COUNTERSIGN_CONTEXT_TOKENS=str(WINDOW))
    harness.planner.context = WINDOW
    harness.planner.script(Turn(text="First."))
    thread = harness.person("ben").say(SUPPORT, "@bot begin")
    harness.said(SUPPORT, thread, "First.")
    harness.settle()
    append_items(harness, thread)
    harness.planner.script(Turn(text="Second."))
    ask_for_more(harness, thread, "Second.")
    assert [each["seal"] for each in list_compactions(harness)] == [f"{harness.planner.url}/"]

    monkeypatch.setattr(answers, "_SEAL", "of another organisation")
    harness.planner.context = 2 * WINDOW // 3  # without the compaction the thread does not fit
    harness.planner.script(Turn(text=SUMMARY), Turn(text="Third."))
    sent = ask_for_more(harness, thread, "Third.")
    assert [each["seal"] for each in list_compactions(harness)] == [f"{harness.planner.url}/", ""]
    assert SUMMARY in json.dumps(sent["input"])
