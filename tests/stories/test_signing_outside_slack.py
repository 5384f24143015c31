"""Calls that have to be signed with a passkey cannot be approved at the terminal."""

from __future__ import annotations

from collections.abc import Callable

from bot.cards.action_names import Action
from bot.cards.button_codec import CallTarget, encode_button_value
from bot.cli.bot_connection import send_command
from bot.cli.chat_painter import list_call_details
from bot.terminal.operator_input import build_click_delivery
from bot.terminal.terminal_messages import AllowedAction, CommandKind, OperatorCommand
from storage.backend import socket_path
from storage.models import Delivery, Vote
from storage.states import CallStatus
from tests.stories.fakes import FakeTools
from tests.stories.harness import Harness
from tests.stories.signing import ADDRESS, PEOPLE, ask_with_card, give_passkey
from tests.stories.steps import statuses, vote

C = CallStatus
ANA = PEOPLE["ana"]
POLICY = f"""
[passkeys]
enrol = "self"

[defaults]
approvers = ["@shop-leads"]
signature = "passkey"
break_glass = ["{ANA}"]
"""


def test_the_terminal_neither_offers_nor_takes_an_approval_to_sign(
    own_harness: Callable[..., Harness],
) -> None:
    """It points to Slack; a click from the terminal or in Slack alone casts no vote."""
    harness = own_harness(FakeTools().tools, POLICY, **ADDRESS, COUNTERSIGN_OPERATOR=ANA)
    give_passkey(harness, "ana")
    thread, card = ask_with_card(harness, "from the terminal")
    [call] = harness.calls_in(thread)
    target = CallTarget(call.id, call.revision)
    look = OperatorCommand(CommandKind.LOOK, encode_button_value(target))
    [seen] = send_command(socket_path(harness.app.core.store.path), look).calls
    assert seen.may == (AllowedAction.EDIT, AllowedAction.REJECT)
    assert ("In Slack only", "to approve it, with a passkey") in list(list_call_details(seen))
    run = harness.run_of(call.run_id)
    clicked = build_click_delivery(Action.APPROVE, target, run, ANA)
    harness.app.listeners.store_delivery(clicked)
    harness.settle()
    [stored] = harness.all(Delivery, Delivery.key == clicked.key)
    assert "Press the button on its card in Slack" in stored.answer
    vote(harness, "ana", card)
    assert statuses(harness, thread) == [C.PENDING]
    assert harness.all(Vote, Vote.call_id == call.id) == []
