"""Messages that are not for the bot, and requests whose message is edited or deleted."""

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


def read_new_wording(card: dict[str, Any]) -> list[str]:
    """The request's new wording as the card quotes it, one text for each quotation."""
    blocks = [b for b in card["blocks"] if b["block_id"].startswith("y:")]
    return [
        part["elements"][0]["text"]
        for block in blocks
        for part in block["elements"]
        if part["type"] == "rich_text_quote"
    ]


def find_stored_messages(harness: Harness, text: str) -> list[Delivery]:
    """The messages stored in the inbox that contain this text."""
    found: list[Delivery] = harness.all(Delivery, Delivery.kind == DeliveryKind.MESSAGE)
    return [row for row in found if text in row.body]


def test_messages_that_are_not_for_the_bot_are_not_stored(harness: Harness) -> None:
    """They come from the channel and from a request's thread. The request's own message
    is stored.
    """
    thread = ask(harness, ("note", {"text": "kept"}))
    harness.card(SUPPORT, thread)
    ana = harness.person("ana")
    alone = ana.say(SUPPORT, "my private plum cake")
    reply = ana.say(SUPPORT, "my private plum jam", thread_ts=thread)
    arrived(harness)  # a message deleted before it is handled leaves another note
    ana.edit(SUPPORT, alone, "my private plum tart")
    ana.delete(SUPPORT, reply)
    arrived(harness)
    assert not find_stored_messages(harness, "plum")
    assert not find_stored_messages(harness, '"bot_id"')
    assert find_stored_messages(harness, "please")
    assert not harness.all(Delivery, Delivery.key.endswith(alone))  # type: ignore[attr-defined] # a column
    [seen] = harness.all(Delivery, Delivery.key.endswith(reply))  # type: ignore[attr-defined] # a column
    assert (seen.body, seen.note) == ("{}", "not addressed to the bot")


def test_card_and_thread_show_an_edited_request(harness: Harness) -> None:
    """They show it as plain text, beside the original quotation. An edit that changes no words is
    not mentioned, and the card drops the new wording once the old one is back.
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
    assert read_new_wording(told) == ["write <b> *instead*"]
    assert quoted(told) == ["“please”"]
    assert "approve" in action_ids(told)
    run = harness.run_in(thread)
    [row] = harness.all(Audit, Audit.run_id == run.id, Audit.event == "request.edited")
    assert row.actor == "UBEN00001"
    ben.edit(SUPPORT, thread, "@bot please")
    arrived(harness)
    all_sent(harness)
    assert read_new_wording(now_at(harness, SUPPORT, card["ts"])) == []


def test_a_card_in_another_channel_shows_an_edited_request(harness: Harness) -> None:
    """A message below each card makes people notice."""
    thread = ask(harness, ("cancel_order", {"order_id": 1043, "reason": "edited later"}))
    card = harness.card(FINANCE, None)
    harness.settle()  # so that the bot knows where its card is
    harness.person("ben").edit(SUPPORT, thread, "@bot cancel 1044")
    harness.said(FINANCE, card["ts"], "It now reads: “cancel 1044”", who="ana")
    all_sent(harness)
    assert read_new_wording(now_at(harness, FINANCE, card["ts"])) == ["cancel 1044"]


def test_a_message_edited_before_it_is_read_counts_as_edited(harness: Harness) -> None:
    """A deleted one begins no request."""
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
    harness.slack.wait(
        lambda: (
            find_stored_messages(harness, "second words")
            and not find_stored_messages(harness, "never mind")
        )
    )
    hold.release()
    harness.said(SUPPORT, kept_one, "Read.")
    arrived(harness)
    assert "second words" in str(harness.planner.requests[-1]["input"][-1])
    assert not harness.all(Run, Run.thread_ts == gone)


def test_deleting_a_later_message_withdraws_nothing(harness: Harness, fakes: FakeTools) -> None:
    """Only the request's first message does. What is deleted or edited before the model has read it
    never reaches the model as it was.
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
            lambda said=said: (
                [row.status for row in find_stored_messages(harness, said)] == [DeliveryStatus.HELD]
            )
        )
    ben.delete(SUPPORT, unsaid)
    ben.edit(SUPPORT, put_right, "@bot who has it?")
    harness.slack.wait(lambda: not find_stored_messages(harness, "secret diary"))
    harness.slack.wait(lambda: not find_stored_messages(harness, "who hass it"))
    hold.release()
    harness.said(SUPPORT, thread, "Ana has it.")
    heard = str(harness.planner.requests[-1]["input"])
    assert "who has it?" in heard
    assert "secret diary" not in heard
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    arrived(harness)
    assert fakes.did("note", "stays") == 1


def test_a_message_edited_while_it_is_read_counts_as_edited(harness: Harness) -> None:
    """The bot was still reading the earlier messages of the thread."""
    ben = harness.person("ben")
    thread = ben.say(SUPPORT, "the boxes are wet")
    hold = harness.slack.faults.hold("conversations.replies")
    harness.planner.script(Turn(text="Twelve."))
    asked = ben.say(SUPPORT, "@bot how manny?", thread)
    harness.slack.wait(hold.arrived.is_set)
    ben.edit(SUPPORT, asked, "@bot how many?")
    harness.slack.wait(
        lambda: (
            find_stored_messages(harness, "how many?")
            and not find_stored_messages(harness, "how manny?")
        )
    )
    hold.release()
    harness.said(SUPPORT, thread, "Twelve.")
    heard = str(harness.planner.requests[-1]["input"])
    assert ("how many?" in heard, "manny" in heard) == (True, False)
    assert "the boxes are wet" in heard


def test_a_deleted_request_is_withdrawn(harness: Harness) -> None:
    """The card closes, nothing runs, and thread and audit say why. Replies to the message do not
    matter.
    """
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
    with harness.slack.world.lock:  # before the bot says anything in the thread
        harness.person("ben").delete(SUPPORT, alone)
    harness.slack.wait(lambda: harness.run_in(alone).status is RunStatus.CANCELLED)
    hold.release()
    arrived(harness)
    assert not harness.calls_in(alone)


def test_an_edit_that_adds_the_mention_is_a_request(harness: Harness) -> None:
    """Also in a thread, where the bot has seen the message before it was for it; and only once,
    though Slack tells of the edit twice and its author goes on editing.
    """
    ben, ana = harness.person("ben"), harness.person("ana")
    thread = ana.say(SUPPORT, "order 1042 came broken")
    reply = ben.say(SUPPORT, "please refund it", thread)
    root = ben.say(SUPPORT, "@ana who can refund 1042?")
    arrived(harness)
    asked = len(harness.planner.requests)
    for begun, ts in ((thread, reply), (root, root)):
        harness.planner.script(Turn(text="I am on it."))
        ben.edit(SUPPORT, ts, "@bot refund it, please")
        harness.said(SUPPORT, begun, "I am on it.")
        ben.edit(SUPPORT, ts, "refund it")
        ben.edit(SUPPORT, ts, "@bot refund it")
        arrived(harness)
        [run] = harness.all(Run, Run.thread_ts == begun)
        assert run.requester == "UBEN00001"
    first, _ = harness.planner.requests[asked:]
    assert "order 1042 came broken" in str(first["input"])


def test_a_request_that_an_edit_made_can_be_deleted(harness: Harness) -> None:
    """It is withdrawn like any other."""
    ben = harness.person("ben")
    thread = harness.person("ana").say(SUPPORT, "order 1042 came broken")
    reply = ben.say(SUPPORT, "note it", thread)
    arrived(harness)
    harness.planner.script(Turn(calls=[("note", {"text": "broken"})]))
    ben.edit(SUPPORT, reply, "@bot note it")
    harness.card(SUPPORT, thread)
    ben.delete(SUPPORT, reply)
    harness.said(SUPPORT, thread, "The message was deleted, so the request is withdrawn")
    arrived(harness)
    assert statuses(harness, thread) == [CallStatus.CANCELLED]
