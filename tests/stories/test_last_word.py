"""What stands below the model's words is made from the rows; an empty or cut answer says so."""

from __future__ import annotations

import pytest

from bot.sandbox.openai.server import Turn
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import words
from tests.stories.steps import ask, chat, reject, vote


def ending(harness: Harness, thread: str) -> str:
    """All that the last message with the record's line says."""
    return words(harness.said(SUPPORT, thread, "On record:"))


def test_a_false_claim_stands_beside_the_record(harness: Harness) -> None:
    """The model says that it was done; a person rejected it, and the line below says that."""
    thread = ask(harness, ("note", {"text": "refund"}), answer="Your refund is **done**.")
    reject(harness, "ana", SUPPORT, harness.card(SUPPORT, thread), "not this one")
    said = ending(harness, thread)
    assert "Your refund is" in said
    assert "On record: nothing was done; rejected." in said


def test_what_was_done_and_what_failed_is_on_record(harness: Harness) -> None:
    """Approved calls that ran and failed are counted, each was told of; the third is named."""
    calls = [
        ("note", {"text": "first"}),
        ("refuse", {"text": "second"}),
        ("note", {"text": "third"}),
    ]
    thread = ask(harness, *calls, answer="All three are done.")
    harness.person("ana").click(SUPPORT, harness.card(SUPPORT, thread)["ts"], "approve_all")
    said = ending(harness, thread)
    assert "On record: one done, one failed; not run: Write “third”." in said


def test_a_limits_refusal_stays_on_record(harness: Harness) -> None:
    """A call that a person rejected before is told as not asked, though another one was done."""
    note = ("note", {"text": "same"})
    harness.planner.script(
        Turn(calls=[note]), Turn(calls=[note, ("note", {"text": "other"})]), Turn(text="Done.")
    )
    thread = harness.person("ben").say(SUPPORT, "@bot please")
    reject(harness, "ana", SUPPORT, harness.card(SUPPORT, thread), "no")
    vote(harness, "ana", harness.said(SUPPORT, thread, "asks to write “other”"))
    said = ending(harness, thread)
    assert "On record: one done, one rejected; nobody was asked: Write a note." in said


def test_a_slip_that_was_mended_is_not_told(harness: Harness) -> None:
    """Arguments the tool does not take, proposed anew and done, are not on record."""
    harness.planner.script(
        Turn(calls=[("note", {"text": 5})]),
        Turn(calls=[("note", {"text": "five"})]),
        Turn(text="Done."),
    )
    thread = harness.person("ben").say(SUPPORT, "@bot please")
    vote(harness, "ana", harness.card(SUPPORT, thread))
    assert "On record: done." in ending(harness, thread)


def test_an_answer_without_any_call_changed_nothing(harness: Harness) -> None:
    """A model that claims what it never proposed stands beside a line that says so."""
    thread = chat(harness, "I have refunded it.")
    assert "On record: nothing was changed." in ending(harness, thread)


@pytest.mark.parametrize("thanks", ["thanks!", "Thank you so much", "ok, great, thanks 🙏"])
def test_plain_thanks_have_no_record(harness: Harness, thanks: str) -> None:
    """Nothing was asked for, so there is nothing to say of what was done."""
    thread = chat(harness, "Order 1042 is on its way.")
    assert "On record: nothing was changed." in ending(harness, thread)
    harness.settle()
    harness.planner.script(Turn(text="You are welcome."))
    harness.person("ben").say(SUPPORT, thanks, thread)
    assert "On record" not in words(harness.said(SUPPORT, thread, "You are welcome."))


def test_thanks_and_a_wish_have_one(harness: Harness) -> None:
    """Whatever else is said beside the thanks may be claimed to be done."""
    thread = chat(harness, "Order 1042 is on its way.")
    harness.said(SUPPORT, thread, "On record")
    harness.settle()
    harness.planner.script(Turn(text="I have cancelled it."))
    harness.person("ben").say(SUPPORT, "thanks, cancel it then", thread)
    said = words(harness.said(SUPPORT, thread, "I have cancelled it."))
    assert "On record: nothing was changed." in said


@pytest.mark.parametrize(
    ("turn", "says"),
    [
        (Turn(text=""), "The model gave no answer."),
        (Turn(text="", incomplete="content_filter"), "content filter stopped it"),
        (Turn(text="It will", incomplete="max_output_tokens"), "cut off here: it reached"),
    ],
    ids=["empty", "filtered", "cut"],
)
def test_an_empty_or_cut_answer_says_so(harness: Harness, turn: Turn, says: str) -> None:
    """Nothing stands as the answer that is none, or only its beginning."""
    harness.planner.script(turn)
    thread = harness.person("ben").say(SUPPORT, "@bot say something")
    said = ending(harness, thread)
    assert says in said
    assert "Done" not in said


def test_what_the_models_server_objects_to_is_told(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    """The reason of a refused request is in the thread and, with the run, in the log."""
    harness.planner.fail(400)
    thread = harness.person("ben").say(SUPPORT, "@bot hello")
    harness.said(SUPPORT, thread, "error (400): The request was refused on demand.")
    run = harness.run_in(thread)
    assert any(
        run.id in each.message and "refused on demand" in each.message for each in caplog.records
    )


def test_every_request_begins_the_same(harness: Harness) -> None:
    """The time stands in the person's message, so that the model's server can keep the rest."""
    asked = len(harness.planner.requests)
    for _ in range(2):
        harness.said(SUPPORT, chat(harness, "Yes."), "Yes.")
        harness.clock.advance(61)
    first, second = harness.planner.requests[asked:]
    assert first["instructions"] == second["instructions"]
    assert first["tools"] == second["tools"]
    assert "UTC:\n" in str(first["input"][-1]["content"][0]["text"])
