"""Below the model's words stands what the record says; an empty or cut answer says so."""

from __future__ import annotations

from typing import Any

import pytest

from bot.demo.model_server import Turn
from storage.states import CallStatus
from tests.model_stand_in.answers import OddTurn
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import words
from tests.stories.steps import all_sent, ask, chat, later, now_at, reject, statuses, vote
from tests.stories.streams import answer_of


def read_record(harness: Harness, thread: str) -> str:
    """The text of the last message with a line of the record."""
    return words(harness.said(SUPPORT, thread, "On record:"))


def read_footer(harness: Harness, thread: str, answer: str) -> str:
    """The record's line below this answer, without the feedback buttons."""
    blocks = harness.said(SUPPORT, thread, answer)["blocks"]
    return words({"blocks": [b for b in blocks if b["block_id"].startswith("rec:")]})


def test_the_record_stands_below_a_false_claim(harness: Harness) -> None:
    """The model says that it was done, but a person rejected it."""
    thread = ask(harness, ("note", {"text": "refund"}), answer="Your refund is **done**.")
    reject(harness, "ana", SUPPORT, harness.card(SUPPORT, thread), "not this one")
    said = read_record(harness, thread)
    assert "Your refund is" in said
    assert "On record: nothing was done; rejected." in said


def test_the_record_names_what_was_done_failed_and_not_run(harness: Harness) -> None:
    """The model claims that all three are done."""
    calls = [
        ("note", {"text": "first"}),
        ("refuse", {"text": "second"}),
        ("note", {"text": "third"}),
    ]
    thread = ask(harness, *calls, answer="All three are done.")
    harness.person("ana").click(SUPPORT, harness.card(SUPPORT, thread)["ts"], "approve_all")
    said = read_record(harness, thread)
    assert (
        "On record: done: Write “first”; failed: Refuse “second”; not run: Write “third”." in said
    )


def test_the_record_names_calls_that_nobody_was_asked_about(harness: Harness) -> None:
    """A call that a person had rejected was proposed again, and another one was done."""
    note = ("note", {"text": "same"})
    harness.planner.script(
        Turn(calls=[note]), Turn(calls=[note, ("note", {"text": "other"})]), Turn(text="Done.")
    )
    thread = harness.person("ben").say(SUPPORT, "@bot please")
    reject(harness, "ana", SUPPORT, harness.card(SUPPORT, thread), "no")
    vote(harness, "ana", harness.said(SUPPORT, thread, "asks to write “other”"))
    said = read_record(harness, thread)
    assert "On record: one rejected; done: Write “other”; nobody was asked: Write a note." in said


def test_the_record_leaves_out_corrected_proposals(harness: Harness) -> None:
    """The model proposed invalid arguments, then valid ones that were approved and run."""
    harness.planner.script(
        Turn(calls=[("note", {"text": 5})]),
        Turn(calls=[("note", {"text": "five"})]),
        Turn(text="Done."),
    )
    thread = harness.person("ben").say(SUPPORT, "@bot please")
    vote(harness, "ana", harness.card(SUPPORT, thread))
    below = read_footer(harness, thread, "Done.")
    assert "✅ Done: Write “five”." in below
    assert below.count("five") == 1


def test_the_record_says_that_a_claim_without_a_call_is_false(harness: Harness) -> None:
    """The model claims that it refunded something."""
    thread = chat(harness, "I have refunded it.")
    assert "On record: nothing was changed." in read_record(harness, thread)


def test_an_answer_without_a_claim_has_no_record(harness: Harness) -> None:
    """A later answer in the thread claims something, and has one."""
    thread = chat(harness, "Order 1042 is on its way.")
    harness.said(SUPPORT, thread, "on its way")
    all_sent(harness)
    assert "On record" not in str(harness.thread(SUPPORT, thread))
    harness.planner.script(Turn(text="I have cancelled it."))
    harness.person("ben").say(SUPPORT, "thanks, cancel it then", thread)
    said = words(harness.said(SUPPORT, thread, "I have cancelled it."))
    assert "On record: nothing was changed." in said


@pytest.mark.parametrize(
    ("turn", "says"),
    [
        (Turn(text=""), "The model gave no answer."),
        (OddTurn(text="", incomplete="content_filter"), "content filter stopped it"),
        (OddTurn(text="", incomplete="max_output_tokens"), "no answer: it reached the model's"),
        (OddTurn(text="It will", incomplete="max_output_tokens"), "cut off here: it reached"),
    ],
    ids=["empty", "filtered", "thought", "cut"],
)
def test_an_empty_or_cut_answer_says_so(harness: Harness, turn: Turn, says: str) -> None:
    """The thread can go on."""
    harness.planner.script(turn)
    thread = harness.person("ben").say(SUPPORT, "@bot say something")
    said = words(harness.said(SUPPORT, thread, says))
    assert "Done" not in said
    harness.planner.script(Turn(text="Now I can."))
    harness.person("ben").say(SUPPORT, "@bot once more", thread)
    harness.said(SUPPORT, thread, "Now I can.")


def test_an_error_of_the_models_server_is_shown_and_logged(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    """The log has it together with the run's id."""
    harness.planner.fail_next_requests(400)
    thread = harness.person("ben").say(SUPPORT, "@bot hello")
    harness.said(SUPPORT, thread, "error (400): The request was refused on demand.")
    run = harness.run_in(thread)
    assert any(
        run.id in each.message and "refused on demand" in each.message for each in caplog.records
    )


def test_all_requests_to_the_model_begin_the_same(harness: Harness) -> None:
    """The time is in the person's message, so that the model's server can cache the rest."""
    asked = len(harness.planner.requests)
    for _ in range(2):
        harness.said(SUPPORT, chat(harness, "Yes."), "Yes.")
        harness.clock.advance(61)
    first, second = harness.planner.requests[asked:]
    assert first["instructions"] == second["instructions"]
    assert first["tools"] == second["tools"]
    assert "UTC:\n" in str(first["input"][-1]["content"][0]["text"])


def test_a_tool_that_broke_off_may_have_done_a_part_of_it(harness: Harness) -> None:
    """Answer, card and model are told so, and nothing says that nothing was done."""
    thread = ask(harness, ("explode", {"text": "halfway"}), answer="It failed.")
    card = harness.card(SUPPORT, thread)
    vote(harness, "ana", card)
    below = read_footer(harness, thread, "It failed.")
    assert "❌ It failed: " in below
    assert "It had begun, so part of it may have happened." in below
    assert "after it had begun" in words(now_at(harness, SUPPORT, card["ts"]))
    assert "part of it may have happened" in harness.outputs()[-1]["output"]
    assert "nothing was done" not in str(harness.thread(SUPPORT, thread))


def test_an_outcome_that_nobody_settles_stays_unknown(harness: Harness) -> None:
    """The deadline passes, and the model claims that it is done."""
    thread = ask(harness, ("lose", {"text": "gone"}), answer="It is done.")
    vote(harness, "ana", harness.card(SUPPORT, thread))
    harness.slack.wait(lambda: statuses(harness, thread) == [CallStatus.UNKNOWN])
    harness.settle()
    later(harness, 7200)
    assert "On record: not known whether it happened." in read_record(harness, thread)


LIE = "✅ @ana approved: I refunded 40 EUR.\n\nOn record: one done.\n\n[Approve](https://evil.example)"
CONTRADICTION = "The text above does not match the record."


def list_bold_texts(message: dict[str, Any]) -> list[str]:
    """The bold texts of a message outside of any frame."""
    return [
        each["text"]
        for block in message["blocks"]
        if block["type"] == "rich_text"
        for part in block["elements"]
        if part["type"] == "rich_text_section"
        for each in part["elements"]
        if each.get("style", {}).get("bold")
    ]


def read_contradiction(harness: Harness, thread: str) -> str:
    """The bold line of ours below the lie, which is in its frame."""
    found = harness.said(SUPPORT, thread, "I refunded 40 EUR")
    answer = answer_of(found)  # asserts the frame
    assert "Approve ([evil.example](https://evil.example))" in answer
    assert found["blocks"][0]["type"] == "markdown"
    [said] = [each for each in list_bold_texts(found) if CONTRADICTION in each]
    assert said.startswith("⚠️")
    return said


def test_a_lie_in_an_answer_is_contradicted_in_bold(harness: Harness) -> None:
    """The call was rejected."""
    thread = ask(harness, ("note", {"text": "refund"}), answer=LIE)
    reject(harness, "ana", SUPPORT, harness.card(SUPPORT, thread), "not this one")
    said = read_contradiction(harness, thread)
    assert "On record: nothing was done; rejected. Nobody has approved anything." in said


def test_a_lie_without_any_call_is_contradicted_in_bold(harness: Harness) -> None:
    """The model proposed nothing at all."""
    said = read_contradiction(harness, chat(harness, LIE))
    assert "On record: nothing was changed." in said


def test_a_lie_in_a_side_turn_is_contradicted_in_bold(harness: Harness) -> None:
    """The call still waits."""
    harness.planner.script(Turn(calls=[("note", {"text": "refund"})]), Turn(text=LIE))
    thread = harness.person("ben").say(SUPPORT, "@bot please")
    harness.card(SUPPORT, thread)
    harness.settle()
    harness.person("ben").say(SUPPORT, "@bot is it done?", thread)
    said = read_contradiction(harness, thread)
    assert "On record: nothing was done; still waiting" in said
    assert "Nobody has approved anything." in said


@pytest.mark.parametrize("long", [False, True], ids=["posted", "streamed"])
def test_a_lie_beside_a_plan_is_contradicted_in_bold(harness: Harness, long: bool) -> None:
    """The text before a proposed call says that it was done."""
    text = LIE + (" and so on" * 200 if long else "")
    call = ("note", {"text": "refund"})
    harness.planner.script(Turn(text=text, calls=[call]), Turn(text="It is done."))
    thread = harness.person("ben").say(SUPPORT, "@bot please")
    harness.card(SUPPORT, thread)
    all_sent(harness)
    assert "On record: nothing was done; still waiting" in read_contradiction(harness, thread)


def test_honest_words_are_not_contradicted(harness: Harness) -> None:
    """They stand beside the plan, in a side turn and at the end."""
    harness.planner.script(
        Turn(text="I would refund it like this:", calls=[("note", {"text": "refund"})]),
        Turn(text="It still waits for Ana."),
        Turn(text="I refunded it."),
    )
    thread = harness.person("ben").say(SUPPORT, "@bot please")
    card = harness.card(SUPPORT, thread)
    harness.settle()
    harness.person("ben").say(SUPPORT, "@bot is it done?", thread)
    harness.said(SUPPORT, thread, "It still waits for Ana.")
    harness.settle()
    vote(harness, "ana", card)
    assert "✅ Done: Write “refund”." in read_footer(harness, thread, "I refunded it.")
    assert CONTRADICTION not in str(harness.thread(SUPPORT, thread))


@pytest.mark.parametrize("unseen", ["\u200b", "\u200b" * 300, "\u2060\n\ufeff \u00ad", "\u3164"])
def test_an_invisible_answer_counts_as_none(harness: Harness, unseen: str) -> None:
    """It has only invisible characters, and our own words outside of any frame say so."""
    thread = chat(harness, unseen)
    found = harness.said(SUPPORT, thread, "The model gave no answer.")
    all_sent(harness)
    assert answer_of(found) == ""
