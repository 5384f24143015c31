"""The operator's other commands at the terminal: edit, answer, resolve, cancel, break glass."""

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
from tests.stories.operator_steps import ANA, at_the_machine, command, waits, world
from tests.stories.steps import arrived, ask, noted, open_modal, statuses, typed, vote

C = CallStatus
__all__ = ["at_the_machine", "world"]


def test_an_edit_at_the_terminal_is_approved_by_others(
    harness: Harness, fakes: FakeTools, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command lists the fields; the editor cannot approve the new revision."""
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
def test_values_that_the_dialog_would_refuse_are_refused(
    harness: Harness, capsys: pytest.CaptureFixture[str], typed_in: str, said: str
) -> None:
    """The command prints the error, and nothing is stored."""
    asked = {"order_id": 1042, "amount": "5.00", "reason": "damaged"}
    thread = ask(harness, ("refund_order", asked))
    wanted = waits(harness, thread)
    code, printed = command(capsys, "edit", wanted, typed_in)
    assert code == 1
    assert said in printed
    [call] = harness.calls_in(thread)
    assert (call.status, call.revision) == (C.PENDING, 1)


def test_a_choice_is_typed_by_its_label(
    harness: Harness, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command lists the choices; upper and lower case are the same."""
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


def test_a_plan_is_approved_as_a_whole_by_its_id(
    harness: Harness, fakes: FakeTools, capsys: pytest.CaptureFixture[str]
) -> None:
    """`pending` prints the id, which changes with every edit of the plan's calls."""
    texts = ("first of two", "second of two")
    thread = ask(harness, *(("note", {"text": text}) for text in texts))
    harness.card(SUPPORT, thread, having="approve_all")
    plan = find_plan_id(command(capsys, "pending")[1])
    card = harness.card(SUPPORT, thread)
    open_modal(harness, "cleo", SUPPORT, card, "edit", nth=1)
    harness.person("cleo").submit(typed(text="second, edited"))
    arrived(harness)
    code, said = command(capsys, "approve", plan, "--plan")
    assert (code, "out of date" in said) == (1, True)
    assert statuses(harness, thread) == [C.PENDING, C.PENDING]
    plan = find_plan_id(command(capsys, "pending")[1])
    code, said = command(capsys, "approve", plan, "--plan")
    assert (code, said) == (
        0,
        "Approved: Write “first of two”\nApproved: Write “second, edited”\n",
    )
    harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("note", "first of two") == fakes.did("note", "second, edited") == 1


def find_plan_id(listed: str) -> str:
    """Return the id of the only plan of which several calls wait."""
    [found] = {line.split()[3].rstrip(",") for line in listed.splitlines() if "of plan" in line}
    return found


def test_a_plan_with_a_secret_can_be_approved_only_in_slack(
    harness: Harness, capsys: pytest.CaptureFixture[str]
) -> None:
    """One call with a secret is enough."""
    secret = {"text": "key sk-abcdefghijklmnopqrst67890"}
    thread = ask(harness, ("note", {"text": "in the clear"}), ("note", secret))
    harness.card(SUPPORT, thread, having="review")
    plan = find_plan_id(command(capsys, "pending")[1])
    code, said = command(capsys, "approve", plan, "--plan")
    assert (code, "Approve it in Slack" in said) == (1, True)
    assert statuses(harness, thread) == [C.PENDING, C.PENDING]


def test_the_operator_can_break_the_glass_with_a_reason(
    harness: Harness, fakes: FakeTools, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only where the policy names them; others are asked to look at the call."""
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


def test_pending_leaves_out_calls_the_operator_can_only_break_glass_for(harness: Harness) -> None:
    """Looked up by its id, such a call is shown."""
    socket = socket_path(harness.app.core.store.path)
    wanted = waits(harness, ask(harness, ("put", {"text": "for Dan"})))
    [call] = send_command(socket, OperatorCommand(CommandKind.LOOK, wanted)).calls
    assert call.may == (AllowedAction.BREAK_GLASS,)
    pending = send_command(socket, OperatorCommand(CommandKind.PENDING)).calls
    assert wanted not in [each.id for each in pending]


def test_a_question_is_answered_at_the_terminal(
    harness: Harness, capsys: pytest.CaptureFixture[str]
) -> None:
    """An answer of the wrong kind is refused; the agent is given the answer with the person."""
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


def test_a_person_is_named_at_the_terminal_by_handle(
    harness: Harness, capsys: pytest.CaptureFixture[str]
) -> None:
    """An unknown handle is refused."""
    thread = ask(harness, question(question="Who takes over?", kind="person", to=ANA))
    harness.slack.wait(lambda: harness.calls_in(thread))
    [call] = harness.calls_in(thread)
    code, said = command(capsys, "answer", f"{call.id}:1", "@nobody-here")
    assert (code, "There is nobody called @nobody-here" in said) == (1, True)
    assert command(capsys, "answer", f"{call.id}:1", "@dan")[0] == 0
    assert '"<@UDAN00001>"' in outcome(harness, "ANSWERED")
    assert "UDAN00001" in command(capsys, "show", call.id)[1]


def test_a_question_can_be_declined_at_the_terminal(
    harness: Harness, capsys: pytest.CaptureFixture[str]
) -> None:
    """`show` says that it was declined."""
    thread = ask(harness, question(question="Which shelf was it?", to=ANA))
    harness.slack.wait(lambda: harness.calls_in(thread))
    [call] = harness.calls_in(thread)
    assert command(capsys, "answer", f"{call.id}:1", "--decline")[0] == 0
    harness.said(SUPPORT, thread, "That is all.")
    assert statuses(harness, thread) == [C.ANSWERED]
    assert "Ana Ruiz (UANA00001) declined: they cannot say" in command(capsys, "show", call.id)[1]


def test_the_operator_cannot_answer_for_others(
    harness: Harness, capsys: pytest.CaptureFixture[str]
) -> None:
    """The question is for Ben; the operator is Ana."""
    thread = ask(harness, question(question="Is the parcel at your desk?", kind="yes_no"))
    harness.slack.wait(lambda: harness.calls_in(thread))
    [call] = harness.calls_in(thread)
    code, said = command(capsys, "answer", f"{call.id}:1", "yes")
    assert code == 1
    assert "Ben Okafor" in said
    assert statuses(harness, thread) == [C.PENDING]


@pytest.mark.parametrize(
    ("resolution", "status", "ran", "event"),
    [
        ("done", C.SUCCEEDED, 1, "call.succeeded"),
        ("not-done", C.FAILED, 1, "call.failed"),
        ("again", C.UNKNOWN, 2, "call.approved"),
    ],
)
def test_an_unknown_outcome_is_resolved_at_the_terminal(
    harness: Harness,
    fakes: FakeTools,
    capsys: pytest.CaptureFixture[str],
    resolution: str,
    status: CallStatus,
    ran: int,
    event: str,
) -> None:
    """As done, as not done, or to run again, like the buttons of its card."""
    text = f"lost, then {resolution}"
    thread = ask(harness, ("lose", {"text": text}))
    wanted = waits(harness, thread)
    command(capsys, "approve", wanted)
    harness.slack.wait(lambda: statuses(harness, thread) == [C.UNKNOWN])
    harness.settle()
    assert "outcome unknown: started, never confirmed" in command(capsys, "pending")[1]
    code, said = command(capsys, "resolve", wanted, resolution)
    assert (code, said) == (0, "Noted.\n")
    harness.slack.wait(lambda: fakes.did("lose", text) == ran)
    harness.settle()
    assert statuses(harness, thread) == [status]
    [call] = harness.calls_in(thread)
    assert noted(harness, call.run_id, event)[-1]["said"] == resolution.replace("-", "_")


def test_the_operator_can_cancel_only_their_own_requests(
    harness: Harness, capsys: pytest.CaptureFixture[str]
) -> None:
    """The operator can cancel their own request, but not Ben's."""
    mine = ask(harness, ("note", {"text": "mine to stop"}), who="ana")
    waits(harness, mine)
    harness.planner.clear_script()  # drop the answer, which is never asked for
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
def test_wrong_arguments_end_the_command_with_exit_code_2(
    capsys: pytest.CaptureFixture[str], line: tuple[str, ...]
) -> None:
    """The bot is not asked."""
    with pytest.raises(SystemExit) as ended:
        command(capsys, *line)
    assert ended.value.code == 2
