"""What the operator does at the terminal beside a yes or a no: as its click would, and no more."""

from __future__ import annotations

import pytest

from bot.cli.bot_connection import send_command
from bot.terminal.terminal_messages import AllowedAction, CommandKind, OperatorCommand
from storage.backend import socket_path
from storage.states import CallStatus, RunStatus
from tests.stories.asked_people import outcome, question
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import words
from tests.stories.operator_steps import (
    ANA,
    at_the_machine,
    command,
    waits,
    world,
)
from tests.stories.steps import arrived, ask, noted, open_modal, statuses, typed, vote

C = CallStatus
__all__ = ["at_the_machine", "world"]


def test_an_edit_is_stored_and_others_approve_it(
    harness: Harness, fakes: FakeTools, capsys: pytest.CaptureFixture[str]
) -> None:
    """Fields are listed by name; what is saved is a new revision, and no editor approves it."""
    thread = ask(harness, ("note", {"text": "before the edit"}))
    wanted = waits(harness, thread)
    assert command(capsys, "edit", wanted) == (0, "text=before the edit  Text\n")
    code, said = command(capsys, "edit", wanted, "text=after the edit")
    new = wanted.removesuffix(":1") + ":2"
    assert (code, said) == (
        0,
        f"Saved: Write “after the edit”\nIt still waits for approval, as {new}\n",
    )
    harness.said(SUPPORT, thread, "edited")
    code, said = command(capsys, "approve", new)
    assert code == 1
    assert statuses(harness, thread) == [C.PENDING]
    assert "out of date" in command(capsys, "edit", wanted, "text=too late")[1]
    vote(harness, "cleo", harness.card(SUPPORT, thread))
    harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("note", "after the edit") == 1


@pytest.mark.parametrize(
    ("typed_in", "said"),
    [
        ("amount=much", "Amount (EUR): This must be a number, like 12.50."),
        ("amount=-5", "Amount (EUR): "),
        (
            "reason=because",
            "Please choose one of these: damaged, wrong item, late, goodwill, other.",
        ),
        ("colour=red", "There is no such field; there are order_id, amount, reason, note."),
        ("amount=5.00", "That changes nothing: it already has these values."),
        ("amount=99999", "Amount (EUR): "),
    ],
)
def test_what_the_dialog_refuses_is_refused(
    harness: Harness, capsys: pytest.CaptureFixture[str], typed_in: str, said: str
) -> None:
    """Each error stands behind its field's name, and nothing is stored."""
    asked = {"order_id": 1042, "amount": "5.00", "reason": "damaged"}
    thread = ask(harness, ("refund_order", asked))
    wanted = waits(harness, thread)
    code, told = command(capsys, "edit", wanted, typed_in)
    assert code == 1
    assert said in told
    [call] = harness.calls_in(thread)
    assert (call.status, call.revision) == (C.PENDING, 1)


def test_a_choice_is_typed_by_its_name(
    harness: Harness, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a menu offers is typed as it reads there."""
    asked = {"order_id": 1043, "amount": "5.00", "reason": "damaged"}
    wanted = waits(harness, ask(harness, ("refund_order", asked)))
    listed = command(capsys, "edit", wanted)[1]
    assert "reason=damaged  Reason (damaged | wrong item | late | goodwill | other)" in listed
    code, said = command(capsys, "edit", wanted, "reason=Wrong Item", "note=the blue one came")
    assert code == 0, said
    shown = command(capsys, "show", wanted)[1]
    assert "Reason: wrong item" in shown
    again = command(capsys, "edit", wanted.removesuffix("1") + "2", "reason=wrong_item")
    assert "That changes nothing" in again[1]
    assert "Note: the blue one came" in shown


def test_a_plan_is_approved_as_a_whole(
    harness: Harness, fakes: FakeTools, capsys: pytest.CaptureFixture[str]
) -> None:
    """`pending` tells the plan's id; one word approves all that waits in it, at that revision."""
    texts = ("first of two", "second of two")
    thread = ask(harness, *(("note", {"text": text}) for text in texts))
    harness.card(SUPPORT, thread, having="approve_all")
    plan = plan_of(command(capsys, "pending")[1])
    card = harness.card(SUPPORT, thread)
    open_modal(harness, "cleo", SUPPORT, card, "edit", nth=1)
    harness.person("cleo").submit(typed(text="second, edited"))
    arrived(harness)
    code, said = command(capsys, "approve", plan, "--plan")
    assert (code, "out of date" in said) == (1, True)
    assert statuses(harness, thread) == [C.PENDING, C.PENDING]
    plan = plan_of(command(capsys, "pending")[1])
    code, said = command(capsys, "approve", plan, "--plan")
    assert (code, said) == (
        0,
        "Approved: Write “first of two”\nApproved: Write “second, edited”\n",
    )
    harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("note", "first of two") == fakes.did("note", "second, edited") == 1


def plan_of(listed: str) -> str:
    """The id of the one plan of which several calls wait."""
    [found] = {line.split()[3].rstrip(",") for line in listed.splitlines() if "of plan" in line}
    return found


def test_a_plan_with_something_masked_is_approved_in_slack(
    harness: Harness, capsys: pytest.CaptureFixture[str]
) -> None:
    """One call of it that is not shown whole is enough."""
    secret = {"text": "key sk-abcdefghijklmnopqrst67890"}
    thread = ask(harness, ("note", {"text": "in the clear"}), ("note", secret))
    harness.card(SUPPORT, thread, having="review")
    plan = plan_of(command(capsys, "pending")[1])
    code, said = command(capsys, "approve", plan, "--plan")
    assert (code, "Approve it in Slack" in said) == (1, True)
    assert statuses(harness, thread) == [C.PENDING, C.PENDING]


def test_the_operator_breaks_the_glass(
    harness: Harness, fakes: FakeTools, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where the policy names them, with a reason, alone; others are asked to look at it."""
    thread = ask(harness, ("wipe", {"text": "the queue"}))
    wanted = waits(harness, thread)
    for why in ("", "   ", "now"):
        code, said = command(capsys, "approve", wanted, "--break-glass", why)
        assert (code, "at least 10 characters" in said) == (1, True)
    why = "the queue is full and nobody answers"
    assert command(capsys, "approve", wanted, "--break-glass", why) == (
        0,
        "Run without approval: Wipe “the queue”\nOthers are asked to look at it.\n",
    )
    harness.said(SUPPORT, thread, "That is all.")
    assert (statuses(harness, thread), fakes.did("wipe", "the queue")) == ([C.SUCCEEDED], 1)
    assert why in words(harness.said(SUPPORT, thread, "please look at what"))
    [call] = harness.calls_in(thread)
    [data] = noted(harness, call.run_id, "call.approved")
    assert (data["vote"], data["surface"]) == ("break_glass", "terminal")
    assert command(capsys, "approve", wanted, "--break-glass", why)[0] == 1
    thread = ask(harness, ("note", {"text": "not named"}))
    code, said = command(capsys, "approve", waits(harness, thread), "--break-glass", why)
    assert (code, "You can’t run this without approval" in said) == (1, True)
    assert statuses(harness, thread) == [C.PENDING]


def test_what_waits_for_others_is_not_pending(harness: Harness) -> None:
    """Whoever may only break its glass has a call not listed; asked about it, they are told."""
    socket = socket_path(harness.app.core.store.path)
    wanted = waits(harness, ask(harness, ("put", {"text": "for Dan"})))
    [call] = send_command(socket, OperatorCommand(CommandKind.LOOK, wanted)).calls
    assert call.may == (AllowedAction.BREAK_GLASS,)
    pending = send_command(socket, OperatorCommand(CommandKind.PENDING)).calls
    assert wanted not in [each.id for each in pending]


def test_a_question_is_answered_there(harness: Harness, capsys: pytest.CaptureFixture[str]) -> None:
    """What does not fit is told; the answer reaches the agent, as that of who was asked."""
    asked = question(question="How many came broken?", kind="number", to=ANA)
    thread = ask(harness, asked, who="ben")
    harness.slack.wait(lambda: harness.calls_in(thread))
    [call] = harness.calls_in(thread)
    wanted = f"{call.id}:1"
    code, said = command(capsys, "answer", wanted, "a few")
    assert (code, "This must be a number" in said) == (1, True)
    code, said = command(capsys, "answer", wanted, "3")
    assert (code, said) == (0, "Answered; the answer was passed on.\n")
    assert ANA in outcome(harness, "3")
    harness.said(SUPPORT, thread, "That is all.")
    assert statuses(harness, thread) == [C.ANSWERED]
    code, said = command(capsys, "answer", wanted, "4")
    assert code == 1


def test_a_name_is_typed_there(harness: Harness, capsys: pytest.CaptureFixture[str]) -> None:
    """A person is named as in a request; who is not there is refused before anything is sent."""
    thread = ask(harness, question(question="Who takes over?", kind="person", to=ANA))
    harness.slack.wait(lambda: harness.calls_in(thread))
    [call] = harness.calls_in(thread)
    code, said = command(capsys, "answer", f"{call.id}:1", "@nobody-here")
    assert (code, "There is nobody called @nobody-here" in said) == (1, True)
    assert command(capsys, "answer", f"{call.id}:1", "@dan")[0] == 0
    assert '"<@UDAN00001>"' in outcome(harness, "ANSWERED")
    assert "UDAN00001" in command(capsys, "show", call.id)[1]


def test_who_cannot_say_declines(harness: Harness, capsys: pytest.CaptureFixture[str]) -> None:
    """The agent hears that it was declined."""
    thread = ask(harness, question(question="Which shelf was it?", to=ANA))
    harness.slack.wait(lambda: harness.calls_in(thread))
    [call] = harness.calls_in(thread)
    assert command(capsys, "answer", f"{call.id}:1", "--decline")[0] == 0
    harness.said(SUPPORT, thread, "That is all.")
    assert statuses(harness, thread) == [C.ANSWERED]
    assert "Ana Ruiz (UANA00001) declined: they cannot say" in command(capsys, "show", call.id)[1]


def test_nobody_answers_for_others(harness: Harness, capsys: pytest.CaptureFixture[str]) -> None:
    """The question is Ben's, and the terminal is Ana's."""
    thread = ask(harness, question(question="Is the parcel at your desk?", kind="yes_no"))
    harness.slack.wait(lambda: harness.calls_in(thread))
    [call] = harness.calls_in(thread)
    code, said = command(capsys, "answer", f"{call.id}:1", "yes")
    assert code == 1
    assert "Ben Okafor" in said
    assert statuses(harness, thread) == [C.PENDING]


@pytest.mark.parametrize(
    ("became", "status", "ran", "event"),
    [
        ("done", C.SUCCEEDED, 1, "call.succeeded"),
        ("not-done", C.FAILED, 1, "call.failed"),
        ("again", C.UNKNOWN, 2, "call.approved"),
    ],
)
def test_what_became_of_a_call_is_said_there(
    harness: Harness,
    fakes: FakeTools,
    capsys: pytest.CaptureFixture[str],
    became: str,
    status: CallStatus,
    ran: int,
    event: str,
) -> None:
    """It happened, it did not, or it is to run once more; as the buttons of its card say."""
    text = f"lost, then {became}"
    thread = ask(harness, ("lose", {"text": text}))
    wanted = waits(harness, thread)
    command(capsys, "approve", wanted)
    harness.slack.wait(lambda: statuses(harness, thread) == [C.UNKNOWN])
    harness.settle()
    assert "outcome unknown: started, never confirmed" in command(capsys, "pending")[1]
    code, said = command(capsys, "resolve", wanted, became)
    assert (code, said) == (0, "Noted.\n")
    harness.slack.wait(lambda: fakes.did("lose", text) == ran)
    harness.settle()
    assert statuses(harness, thread) == [status]
    [call] = harness.calls_in(thread)
    assert noted(harness, call.run_id, event)[-1]["said"] == became.replace("-", "_")


def test_only_who_asked_cancels(harness: Harness, capsys: pytest.CaptureFixture[str]) -> None:
    """The operator stops requests of their own, and nobody else's."""
    mine = ask(harness, ("note", {"text": "mine to stop"}), who="ana")
    waits(harness, mine)
    harness.planner.clear_script()  # of its answer, which is never reached
    others = ask(harness, ("note", {"text": "not mine to stop"}))
    waits(harness, others)
    run, other = harness.run_in(mine), harness.run_in(others)
    code, said = command(capsys, "cancel", other.id)
    assert (code, "Ben Okafor" in said) == (1, True)
    assert command(capsys, "cancel", run.id) == (0, "Cancelled; nothing more of it will run.\n")
    assert harness.run_of(run.id).status is RunStatus.CANCELLED
    assert harness.run_of(other.id).status is RunStatus.WAITING
    assert command(capsys, "cancel", "nothing")[0] == 1


@pytest.mark.parametrize(
    "line",
    [
        ("edit", "x:1", "no assignment"),
        ("edit", "x:1", "a=1", "a=2"),
        ("answer", "x:1"),
        ("answer", "x:1", "yes", "--decline"),
        ("approve", "x:1", "--plan", "--note", "fine"),
        ("approve", "x:1", "--plan", "--break-glass", "it is on fire"),
        ("approve", "x:1", "--note", "fine", "--break-glass", "it is on fire"),
    ],
)
def test_what_is_typed_wrong_ends_with_the_usage(
    capsys: pytest.CaptureFixture[str], line: tuple[str, ...]
) -> None:
    """Nothing reaches the bot; exit code 2."""
    with pytest.raises(SystemExit) as ended:
        command(capsys, *line)
    assert ended.value.code == 2
