"""What becomes of messages that are not for the bot, and of requests whose message changes."""

from __future__ import annotations

from typing import Any

from bot.demo.model_server import Turn
from storage.models import Audit, Delivery, Run
from storage.states import CallStatus, DeliveryKind, DeliveryStatus, RunStatus
from tests.stories.fakes import FakeTools
from tests.stories.harness import FINANCE, SUPPORT, Harness
from tests.stories.messages import action_ids
from tests.stories.steps import all_sent, arrived, ask, forget_people, now_at, session, statuses
from tests.stories.test_quoted import quoted


def reworded(card: dict[str, Any]) -> list[str]:
    """What the card says that the request reads now; each text is a quotation of its own."""
    blocks = [b for b in card["blocks"] if b["block_id"].startswith("y:")]
    return [
        part["elements"][0]["text"]
        for block in blocks
        for part in block["elements"]
        if part["type"] == "rich_text_quote"
    ]


def kept(harness: Harness, text: str) -> list[Delivery]:
    """The messages that the inbox keeps and that have this text anywhere."""
    found: list[Delivery] = harness.all(Delivery, Delivery.kind == DeliveryKind.MESSAGE)
    return [row for row in found if text in row.body]


def test_what_is_not_for_the_bot_is_not_kept(harness: Harness) -> None:
    """Talk among people leaves no words behind, in the channel or in a request's thread.

    The request's own stay.
    """
    thread = ask(harness, ("note", {"text": "kept"}))
    harness.card(SUPPORT, thread)
    ana = harness.person("ana")
    alone = ana.say(SUPPORT, "my private plum cake")
    reply = ana.say(SUPPORT, "my private plum jam", thread_ts=thread)
    arrived(harness)  # else it may be deleted before it is taken in, and a note says so
    ana.edit(SUPPORT, alone, "my private plum tart")
    ana.delete(SUPPORT, reply)
    arrived(harness)
    assert not kept(harness, "plum")
    assert not kept(harness, '"bot_id"')
    assert kept(harness, "please")
    assert not harness.all(Delivery, Delivery.key.endswith(alone))  # type: ignore[attr-defined] # a column
    [seen] = harness.all(Delivery, Delivery.key.endswith(reply))  # type: ignore[attr-defined] # a column
    assert (seen.body, seen.note) == ("{}", "not addressed to the bot")


def test_an_edited_request_says_so(harness: Harness) -> None:
    """Card and thread read the new words, as plain text; what is asked and quoted stays as it was.

    Other changes to the message, and to other messages, say nothing; nor does the card once the
    words are again what they were.
    """
    thread = ask(harness, ("note", {"text": "first"}))
    card = harness.card(SUPPORT, thread)
    ben = harness.person("ben")
    ben.edit(SUPPORT, thread, "@bot please")
    arrived(harness)
    assert "edited the request" not in str(harness.thread(SUPPORT, thread))
    ben.edit(SUPPORT, thread, "@bot write <b> *instead*")
    line = harness.said(SUPPORT, thread, "edited the request after this was asked")
    assert "“write &lt;b&gt; *instead*”" in str(line)
    all_sent(harness)
    told = now_at(harness, SUPPORT, card["ts"])
    assert reworded(told) == ["write <b> *instead*"]
    assert quoted(told) == ["“please”"]
    assert "approve" in action_ids(told)
    run = harness.run_in(thread)
    [row] = harness.all(Audit, Audit.run_id == run.id, Audit.event == "request.edited")
    assert row.actor == "UBEN00001"
    ben.edit(SUPPORT, thread, "@bot please")
    arrived(harness)
    all_sent(harness)
    assert reworded(now_at(harness, SUPPORT, card["ts"])) == []


def test_an_edited_request_says_so_where_people_vote(harness: Harness) -> None:
    """Cards in another channel say it, and a line under each of them, so that it is noticed."""
    thread = ask(harness, ("cancel_order", {"order_id": 1043, "reason": "edited later"}))
    card = harness.card(FINANCE, None)
    harness.settle()  # until then the bot does not know where its card stands
    harness.person("ben").edit(SUPPORT, thread, "@bot cancel 1044")
    harness.said(FINANCE, card["ts"], "It now reads: “cancel 1044”", who="ana")
    all_sent(harness)
    assert reworded(now_at(harness, FINANCE, card["ts"])) == ["cancel 1044"]


def test_a_message_that_changes_before_it_is_read(harness: Harness) -> None:
    """It is taken as it reads then; deleted, it is no request at all."""
    harness.settle()
    forget_people(harness)
    hold = harness.slack.faults.hold("users.info", person="ben")
    harness.planner.script(Turn(text="Read."))
    ben = harness.person("ben")
    gone = ben.say(SUPPORT, "@bot never mind")
    assert hold.arrived.wait(30)
    kept_one = ben.say(SUPPORT, "@bot first words")
    ben.delete(SUPPORT, gone)
    ben.edit(SUPPORT, kept_one, "@bot second words")
    harness.slack.wait(lambda: kept(harness, "second words") and not kept(harness, "never mind"))
    hold.release()
    harness.said(SUPPORT, kept_one, "Read.")
    arrived(harness)
    assert "second words" in str(harness.planner.requests[-1]["input"][-1])
    assert not harness.all(Run, Run.thread_ts == gone)


def test_a_later_message_that_is_deleted_withdraws_nothing(
    harness: Harness, fakes: FakeTools
) -> None:
    """Only the message that the request began with takes it along; the card can still be decided.

    What was deleted before the model read it, it never hears.
    """
    thread = ask(harness, ("note", {"text": "stays"}), answer="")
    card = harness.card(SUPPORT, thread)
    harness.settle()
    harness.planner.clear_script()
    harness.planner.script(Turn(text="Until tonight."))
    ben = harness.person("ben")
    later = ben.say(SUPPORT, "@bot until when can they decide?", thread)
    harness.said(SUPPORT, thread, "Until tonight.")
    arrived(harness)
    ben.delete(SUPPORT, later)
    arrived(harness)
    assert statuses(harness, thread) == [CallStatus.PENDING]
    run = harness.run_in(thread)
    assert harness.all(Audit, Audit.run_id == run.id, Audit.event == "request.unsaid")

    harness.planner.script(Turn(text="Yes."), Turn(text="Ana has it."))
    hold = harness.planner.hold_next_request()
    ben.say(SUPPORT, "@bot is anybody there?", thread)
    assert hold.arrived.wait(20)
    unsaid = ben.say(SUPPORT, "@bot my secret diary", thread)
    put_right = ben.say(SUPPORT, "@bot who hass it?", thread)
    for said in ("secret diary", "who hass it"):
        harness.slack.wait(
            lambda said=said: [row.status for row in kept(harness, said)] == [DeliveryStatus.HELD]
        )
    ben.delete(SUPPORT, unsaid)
    ben.edit(SUPPORT, put_right, "@bot who has it?")
    harness.slack.wait(lambda: not kept(harness, "secret diary"))
    harness.slack.wait(lambda: not kept(harness, "who hass it"))
    hold.release()
    harness.said(SUPPORT, thread, "Ana has it.")
    heard = str(harness.planner.requests[-1]["input"])
    assert "who has it?" in heard
    assert "secret diary" not in heard
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    arrived(harness)
    assert fakes.did("note", "stays") == 1


def test_words_that_change_while_they_are_read(harness: Harness) -> None:
    """Edited while the bot reads what stood before them in the thread: the new words are heard."""
    ben = harness.person("ben")
    thread = ben.say(SUPPORT, "the boxes are wet")
    hold = harness.slack.faults.hold("conversations.replies")
    harness.planner.script(Turn(text="Twelve."))
    asked = ben.say(SUPPORT, "@bot how manny?", thread)
    harness.slack.wait(hold.arrived.is_set)
    ben.edit(SUPPORT, asked, "@bot how many?")
    harness.slack.wait(lambda: kept(harness, "how many?") and not kept(harness, "how manny?"))
    hold.release()
    harness.said(SUPPORT, thread, "Twelve.")
    heard = str(harness.planner.requests[-1]["input"])
    assert ("how many?" in heard, "manny" in heard) == (True, False)
    assert "the boxes are wet" in heard


def test_a_deleted_request_is_withdrawn(harness: Harness) -> None:
    """Its card closes, nothing runs, thread and audit say why; whether it had replies or not."""
    thread = ask(harness, ("note", {"text": "gone"}))
    card = harness.card(SUPPORT, thread)
    harness.person("ben").delete(SUPPORT, thread)
    harness.said(SUPPORT, thread, "The message was deleted, so the request is withdrawn")
    arrived(harness)
    assert "approve" not in action_ids(now_at(harness, SUPPORT, card["ts"]))
    assert statuses(harness, thread) == [CallStatus.CANCELLED]
    run = harness.run_in(thread)
    assert run.status is RunStatus.CANCELLED
    harness.slack.wait(lambda: session(harness, thread) == "active")
    [row] = harness.all(Audit, Audit.run_id == run.id, Audit.event == "request.withdrawn")
    assert "deleted" in row.payload

    hold = harness.planner.hold_next_request()
    alone = ask(harness, ("note", {"text": "unheard"}))
    assert hold.arrived.wait(20)
    with harness.slack.world.lock:  # before the bot has said anything in the thread
        harness.person("ben").delete(SUPPORT, alone)
    harness.slack.wait(lambda: harness.run_in(alone).status is RunStatus.CANCELLED)
    hold.release()
    arrived(harness)
    assert not harness.calls_in(alone)
