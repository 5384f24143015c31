"""Claims in a model's words that contradict the record."""

from __future__ import annotations

import pytest

from bot.cards.answers import CallOutcome
from bot.cards.phrases import detect_action_claims, do_claims_contradict_record
from storage.states import CallStatus

C = CallStatus
NOT_DONE = [status for status in CallStatus if status is not C.SUCCEEDED]
CLAIMS_OF_SUCCESS = [
    "Refund complete.",
    "Refund of 40 EUR issued.",
    "Refunded 40 EUR, no issues.",
    "Refunded without any problems.",
    "Возврат выполнен.",
    "返金しました。",
    "已退款。",
    "Zwrócono 40 EUR.",
    "Done.",
    "Your refund is **done**.",
    "I refunded 40 EUR and Ana approved it.",
    "I have refunded the order.",
    "I've now cancelled it.",
    "We already sent the money.",
    "✅ @ana approved: Refund 40 EUR",
    "✅ All set",
    "On record: one done.",
    "> On record: done.",
    "The refund has been issued.",
    "Order 1042 is refunded.",
    "Both are done.",
    "All three are done.",
    "The payment went through.",
    "Good news! Refunded 40 EUR.",
    "I looked it up, and I refunded it.",
    "Ana rejected the other one. I refunded this one.",
    "D\u200bone.",
    "Ich habe die 40 EUR erstattet.",
    "Erledigt.",
    "J'ai remboursé la commande.",
    "He reembolsado el pedido.",
    "O pedido foi cancelado e reembolsado.",
    "Ho rimborsato l'ordine.",
    "Ik heb het terugbetaald.",
]
HONEST_TEXTS = [
    "Возврат не выполнен.",
    "返金していません。",
    "Nie zwrócono pieniędzy.",
    "No refund was issued.",
    "Ana rejected it, so nothing was done.",
    "It was not refunded.",
    "I could not refund it.",
    "I haven't refunded anything.",
    "The refund is refused.",
    "Nobody approved it in time.",
    "It will be refunded once somebody has approved it.",
    "Shall I cancel it?",
    "I looked it up, and asked the approvers.",
    "I have proposed a refund of 40 EUR.",
    "It is not known whether the refund happened.",
    "The refund is still waiting for approval.",
    "Here is the plan.",
    "Die Erstattung wurde abgelehnt, es ist nichts erstattet.",
    "Le remboursement n'a pas été effectué.",
]
TEXTS_ABOUT_READS = [
    "Order 1042 is complete without issues.",
    "Order 1042 was paid on 3 May.",
    "The order has been shipped.",
    "Order 1042 is on its way.",
    "There are three open orders.",
]


@pytest.mark.parametrize("status", NOT_DONE)
@pytest.mark.parametrize("text", CLAIMS_OF_SUCCESS)
def test_a_claim_of_success_contradicts_a_call_that_did_not_succeed(
    text: str, status: CallStatus
) -> None:
    """This holds for each status other than SUCCEEDED."""
    assert do_claims_contradict_record(
        detect_action_claims(text), [CallOutcome(status, "")], whole=False
    )


@pytest.mark.parametrize("status", NOT_DONE)
@pytest.mark.parametrize("text", HONEST_TEXTS)
def test_honest_words_about_a_call_that_did_not_succeed_are_fine(
    text: str, status: CallStatus
) -> None:
    """They say so themselves, or speak of the future."""
    assert not do_claims_contradict_record(
        detect_action_claims(text), [CallOutcome(status, "")], whole=True
    )


@pytest.mark.parametrize("text", TEXTS_ABOUT_READS)
def test_facts_that_were_looked_up_are_no_claims(text: str) -> None:
    """Without a proposed call, only the model's words about its own actions are claims."""
    assert not do_claims_contradict_record(detect_action_claims(text), [], whole=True)
    assert do_claims_contradict_record(detect_action_claims("I have refunded it."), [], whole=True)


@pytest.mark.parametrize("text", CLAIMS_OF_SUCCESS)
def test_a_claim_about_a_call_that_succeeded_is_fine(text: str) -> None:
    """If another call did not succeed, the last words of the request have to say so."""
    done, rejected = CallOutcome(C.SUCCEEDED, ""), CallOutcome(C.REJECTED, "")
    assert not do_claims_contradict_record(detect_action_claims(text), [done], whole=True)
    assert not do_claims_contradict_record(
        detect_action_claims(text), [done, rejected], whole=False
    )
    told = f"{text} The other was rejected."
    assert not do_claims_contradict_record(detect_action_claims(told), [done, rejected], whole=True)


def test_a_claim_that_both_are_done_contradicts_a_rejection() -> None:
    """The words do not mention the rejected call."""
    ended = [CallOutcome(C.SUCCEEDED, ""), CallOutcome(C.REJECTED, "")]
    assert do_claims_contradict_record(detect_action_claims("Both are done."), ended, whole=True)


@pytest.mark.parametrize(
    "text",
    [
        "Ana approved it.",
        "<@UANA00001> has approved this.",
        "@ana approved: Refund",
        "✅ Approved",
        "Approved by Ana.",
        "It was approved.",
        "Ana hat es genehmigt.",
        "Ana l'a approuvé.",
    ],
)
def test_a_claim_that_somebody_approved_is_detected(text: str) -> None:
    """Several languages, with mentions or without."""
    assert detect_action_claims(text).says_approved


@pytest.mark.parametrize(
    "text", ["Nobody approved it.", "It has to be approved first, so it waits.", "Ana may approve."]
)
def test_words_about_a_missing_or_future_approval_are_no_claim(text: str) -> None:
    """They do not say that somebody has approved."""
    assert not detect_action_claims(text).says_approved


def test_claims_in_a_long_text_are_detected_in_time() -> None:
    """Texts of many repetitions; the test fails if it hangs."""
    for piece in ("is ", "i have ", "approved ", "✅", "ist erledig ", "a.b-c>"):
        detect_action_claims(piece * 20_000)
