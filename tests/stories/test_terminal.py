"""The operator's commands at the terminal: listing, showing, approving and rejecting calls."""

from __future__ import annotations

import json
import threading
from base64 import b64decode
from typing import Any

import pytest
from sqlmodel import col

from bot.approvals.receipts import ReceiptWriter
from bot.cli.bot_connection import send_command
from bot.terminal.terminal_messages import CommandKind, OperatorCommand
from storage import calls
from storage.models import Delivery, Message, Vote
from storage.states import CallStatus, CallVerb, DeliveryStatus, MessageKind, Surface
from tests.stories.asked_people import question
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.operator_steps import (
    ANA,
    at_the_machine,
    bot_socket,
    command,
    post_body,
    waits,
    world,
)
from tests.stories.steps import arrived, ask, noted, open_modal, statuses, typed, vote

UNKNOWN_COMMAND = b'{"kind": "sell", "target": "x:1", "words": ""}'
__all__ = ["at_the_machine", "world"]


def test_a_waiting_call_is_approved_at_the_terminal(
    harness: Harness, fakes: FakeTools, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is listed with its id; the approval is stored as a delivery and counts like a click."""
    thread = ask(harness, ("note", {"text": "typed yes"}))
    wanted = waits(harness, thread)
    code, listed = command(capsys, "pending")
    assert (code, wanted in listed) == (0, True)
    assert "asked by Ben Okafor (UBEN00001) in #support (C0SUPPORT)" in listed
    assert "who decides: @shop-leads" in listed
    code, said = command(capsys, "approve", wanted, "--note", "fine with me")
    assert (code, said) == (0, "Approved: Write “typed yes”\n")
    harness.said(SUPPORT, thread, "fine with me")
    harness.said(SUPPORT, thread, "That is all.")
    harness.settle()
    assert fakes.did("note", "typed yes") == 1
    [call] = harness.calls_in(thread)
    [approved] = noted(harness, call.run_id, "call.approved")
    assert (approved["surface"], approved["counts_as"]) == ("terminal", "member of @shop-leads")
    [delivery] = harness.all(Delivery, col(Delivery.surface) == Surface.TERMINAL)
    assert (delivery.status, delivery.user) == (DeliveryStatus.DONE, ANA)
    assert "Nothing is waiting." in command(capsys, "pending")[1]


def test_a_receipt_does_not_call_a_vote_at_the_terminal_slacks_word(
    harness: Harness, capsys: pytest.CaptureFixture[str]
) -> None:
    """For an approval and a rejection; that of a click in Slack does."""
    for verb, option in (("approve", "--note"), ("reject", "--reason"), ("approve", "")):
        thread = ask(harness, ("note", {"text": f"{verb} {option}"}))
        wanted = waits(harness, thread)
        if option:
            assert command(capsys, verb, wanted, option, "as asked")[0] == 0
        else:
            vote(harness, "ana", harness.card(SUPPORT, thread, having="approve"))
        harness.settle()
        [call] = harness.calls_in(thread)
        with harness.app.core.store.read() as tx:
            written = ReceiptWriter(harness.app.core.key, harness.app.core.tools).write_receipts(
                tx, call
            )
        content = json.loads(b64decode(written["decision"]["payload"]))["predicate"]
        evidence = "terminal" if option else "slack"
        assert [(each["verb"], each["evidence"]) for each in content["votes"]] == [(verb, evidence)]


def test_a_rejection_at_the_terminal_is_posted_with_its_reason(
    harness: Harness, capsys: pytest.CaptureFixture[str]
) -> None:
    """The reason is posted in the request's thread."""
    thread = ask(harness, ("note", {"text": "typed no"}))
    code, said = command(capsys, "reject", waits(harness, thread), "--reason", "not this month")
    assert (code, said) == (0, "Rejected: Write “typed no”\n")
    harness.said(SUPPORT, thread, "not this month")
    assert statuses(harness, thread) == [CallStatus.REJECTED]


def test_an_operator_cannot_approve_their_own_request(
    harness: Harness, fakes: FakeTools, capsys: pytest.CaptureFixture[str]
) -> None:
    """The refusal is shown at the terminal and not in Slack."""
    thread = ask(harness, ("note", {"text": "for myself"}), who="ana")
    code, said = command(capsys, "approve", waits(harness, thread))
    assert code == 1
    assert "This is your own request" in said
    assert statuses(harness, thread) == [CallStatus.PENDING]
    [call] = harness.calls_in(thread)
    [refused] = noted(harness, call.run_id, "decision.refused")
    assert (refused["surface"], refused["why"]) == ("terminal", "own_request")
    harness.settle()
    private = harness.all(Message, col(Message.kind) == MessageKind.PRIVATE)
    assert not [each for each in private if "your own request" in each.body]
    assert fakes.did("note", "for myself") == 0


def test_a_quorum_counts_the_operator_once(
    harness: Harness, fakes: FakeTools, capsys: pytest.CaptureFixture[str]
) -> None:
    """A second approval at the terminal does not count; somebody else's click does."""
    thread = ask(harness, ("wipe", {"text": "by two"}))
    wanted = waits(harness, thread)
    code, said = command(capsys, "approve", wanted)
    assert code == 0
    assert said == "Your approval counts; 1 more person has to approve: Wipe “by two”\n"
    assert "approved by Ana Ruiz" in command(capsys, "pending")[1]
    code, said = command(capsys, "approve", wanted)
    assert code == 1
    assert "You already approved this. Nothing was changed." in said  # nobody has clicked
    assert fakes.did("wipe", "by two") == 0
    vote(harness, "cleo", harness.card(SUPPORT, thread))
    harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("wipe", "by two") == 1


def test_an_edited_call_is_not_approved_with_its_old_id(
    harness: Harness, capsys: pytest.CaptureFixture[str]
) -> None:
    """The id includes the revision; `show` lists both revisions."""
    thread = ask(harness, ("note", {"text": "as first read"}))
    wanted = waits(harness, thread)
    open_modal(harness, "cleo", SUPPORT, harness.card(SUPPORT, thread), "edit")
    harness.person("cleo").submit(typed(text="as edited"))
    arrived(harness)
    code, said = command(capsys, "approve", wanted)
    assert code == 1
    assert "out of date" in said
    assert statuses(harness, thread) == [CallStatus.PENDING]
    code, said = command(capsys, "show", wanted)
    assert "Revision 1 by the agent" in said
    assert "Revision 2 by Cleo Martin" in said


def test_a_call_with_a_secret_can_be_approved_only_in_slack(
    harness: Harness, capsys: pytest.CaptureFixture[str]
) -> None:
    """The terminal shows no secrets, so it takes no approval of one; it takes a rejection."""
    thread = ask(harness, ("note", {"text": "key sk-abcdefghijklmnopqrst12345"}))
    harness.card(SUPPORT, thread, having="review")
    [call] = harness.calls_in(thread)
    code, said = command(capsys, "show", call.id)
    assert code == 0
    assert "abcdefghijklmnopqrst12345" not in said
    for how in ((), ("--break-glass", "the key has leaked")):
        code, said = command(capsys, "approve", f"{call.id}:1", *how)
        assert (code, statuses(harness, thread)) == (1, [CallStatus.PENDING])
        assert "Approve it in Slack: Review shows all of it" in said
    assert command(capsys, "reject", f"{call.id}:1", "--reason", "no keys")[0] == 0


def test_show_names_both_people_of_a_delegated_vote(
    harness: Harness, capsys: pytest.CaptureFixture[str]
) -> None:
    """The vote is by a delegate."""
    thread = ask(harness, ("wipe", {"text": "for somebody else"}))
    wanted = waits(harness, thread)
    [call] = harness.calls_in(thread)
    given = Vote(call_id=call.id, revision=1, person="UCLEO0001", verb=CallVerb.APPROVE)
    given.digest, given.created_at, given.for_person = call.digest, harness.clock.now(), ANA
    with harness.app.core.store.write() as tx:
        calls.insert_vote(tx, given)
    shown = command(capsys, "show", wanted)[1]
    assert "Cleo Martin (UCLEO0001) approved for Ana Ruiz (UANA00001)" in shown


def test_pending_and_show_can_print_json(
    harness: Harness, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the request, its call, votes with their reasons, and the digest."""
    thread = ask(harness, ("note", {"text": "as data"}))
    wanted = waits(harness, thread)
    [listed] = json.loads(command(capsys, "pending", "--json")[1])
    assert (listed["id"], listed["deciders"]["groups"]) == (wanted, ["shop-leads"])
    command(capsys, "reject", wanted, "--reason", "seen as data")
    harness.said(SUPPORT, thread, "That is all.")
    harness.settle()
    run = harness.run_in(thread)
    shown: dict[str, Any] = json.loads(command(capsys, "show", run.id, "--json")[1])
    assert (shown["id"], shown["requester"], shown["asked"]) == (run.id, "UBEN00001", ["please"])
    [call] = shown["calls"]
    assert (call["status"], call["arguments"]) == ("rejected", {"Text": "as data"})
    assert [(each["person"], each["words"]) for each in call["votes"]] == [(ANA, "seen as data")]
    [row] = harness.calls_in(thread)
    assert call["digest"] == row.digest


def test_an_unknown_id_decides_nothing(
    harness: Harness, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither does an id without its revision."""
    thread = ask(harness, ("note", {"text": "left alone"}))
    bare = waits(harness, thread).removesuffix(":1")
    for odd in ("nothing:1", bare, "a b"):
        code, said = command(capsys, "approve", odd)
        assert (code, "Nothing has that id" in said) == (1, True)
    assert command(capsys, "show", "nothing")[0] == 1
    assert statuses(harness, thread) == [CallStatus.PENDING]


def test_the_socket_is_private_and_refuses_malformed_commands(harness: Harness) -> None:
    """Proper commands are answered after malformed ones."""
    path = bot_socket(harness)
    assert path.stat().st_mode & 0o777 == 0o600
    for odd in (b"{}", b"approve", UNKNOWN_COMMAND, b"[]", b'{"kind": "say", "values": {"x": 1}}'):
        status, said = post_body(path, "/v1/terminal", odd)
        assert (status, said["status"]) in ((400, 400), (422, 422))
    answer = send_command(path, OperatorCommand(CommandKind.APPROVE, "x:1"))
    assert (answer.counted, "Nothing has that id" in answer.sentence) == (False, True)


def test_without_a_bot_or_an_operator_nothing_is_decided(
    harness: Harness, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commands say so; `pending` works without a bot, whose socket is removed."""
    path = bot_socket(harness)
    harness.app.stop()
    try:
        assert not path.exists()
        code, said = command(capsys, "approve", "x:1")
        assert (code, "No bot listens at" in said) == (1, True)
        assert "Nothing is waiting." in command(capsys, "pending")[1]
    finally:
        harness.start()
    monkeypatch.delenv("COUNTERSIGN_OPERATOR")
    code, said = command(capsys, "approve", "x:1")
    assert (code, "There is no operator" in said) == (2, True)


def test_a_decision_typed_while_the_bot_stops_counts_after_its_start(
    harness: Harness, fakes: FakeTools, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command says that the decision is stored."""
    thread = ask(harness, ("note", {"text": "typed at the end"}))
    wanted = waits(harness, thread)
    harness.app.loop.pause()
    said: list[tuple[int, str]] = []
    typing = threading.Thread(target=lambda: said.append(command(capsys, "approve", wanted)))
    typing.start()

    def stored() -> bool:
        found = harness.all(Delivery, col(Delivery.surface) == Surface.TERMINAL)
        return any(each.status is DeliveryStatus.NEW for each in found)

    harness.slack.wait(stored)
    harness.app.stop()
    typing.join(20)
    assert not typing.is_alive()
    assert fakes.did("note", "typed at the end") == 0
    harness.start()
    harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("note", "typed at the end") == 1
    assert said[0][0] == 1
    assert "It is stored" in said[0][1]


def test_a_question_cannot_be_approved_at_the_terminal(
    harness: Harness, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is listed with the person it is for, and left out of the report."""
    to_ben = {"question": "Is the parcel here?", "kind": "yes_no", "to": "UBEN00001"}
    thread = ask(harness, question(**to_ben), who="cleo")
    asked = harness.card(SUPPORT, thread, "ben", "choose_1")
    [call] = harness.calls_in(thread)
    before = command(capsys, "report")[1]
    assert "ask_person" not in before
    listed = command(capsys, "pending")[1]
    assert "a question, to be answered by Ben Okafor (UBEN00001)" in listed
    for words in (["approve"], ["reject", "--reason", "no"]):
        code, said = command(capsys, *words, f"{call.id}:1")
        assert (code, "That is a question" in said) == (1, True)
    assert statuses(harness, thread) == [CallStatus.PENDING]
    harness.person("ben").click(SUPPORT, asked["ts"], "choose_1")
    harness.said(SUPPORT, thread, "That is all.")
    assert statuses(harness, thread) == [CallStatus.ANSWERED]
    shown = command(capsys, "show", call.id)[1]
    assert "Ben Okafor (UBEN00001) answered" in shown
    assert ": yes" in shown
