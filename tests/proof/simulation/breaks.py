"""The product broken on purpose, each time in one way, which the simulation must find."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import count
from typing import Any
from unittest.mock import patch

from bot.approvals import call_gates, deadlines, permissions
from bot.policy import tally as tallying
from bot.policy.authority import Authority, Permission
from bot.policy.business_hours import StartTime
from bot.policy.gates import load_gate
from bot.runs import turns, worker
from bot.runs.executor import CallExecutor
from bot.slack.sender import MessageSender
from bot.workspaces import dispatcher
from storage import calls, decisions, inbox, moves, schedule
from storage.models import Delivery
from storage.states import DeliveryKind, VoteOutcome
from tests.proof.simulation.hosted import HostedProcess
from tests.proof.simulation.workspace import BOTH

Break = Callable[[], Any]  # returns a context manager that breaks the product


def the_requester_may_approve() -> Any:
    """Anybody in the group may approve, also their own request."""
    real = Authority.may_approve

    def may(self: Authority, gate: Any, person: str, **known: Any) -> Any:
        return real(self, gate, person, **{**known, "requester": "", "editors": frozenset()})

    return patch.object(Authority, "may_approve", may)


def anybody_may_approve() -> Any:
    """Nobody is looked up."""
    return patch.object(Authority, "may_approve", lambda *_, **__: Permission(why="named"))


def anybody_may_break_the_glass() -> Any:
    """The people named by the policy for it are not checked."""
    return patch.object(Authority, "may_break_glass", lambda *_, **__: Permission(why="named"))


def who_ran_it_may_look() -> Any:
    """Somebody who ran a call without approval may look at it themselves."""
    return patch.object(permissions, "find_break_glass_vote", lambda _votes: None)


def what_is_approved_for_later_starts_at_once() -> Any:
    """The start time of the policy is not waited for."""
    return patch.object(StartTime, "find_next", lambda _self, after: after + timedelta(seconds=1))


def nobody_can_stop_it() -> Any:
    """A rejection of a call approved for later does not count."""
    return patch.object(calls, "is_scheduled", lambda _call: False)


def nobody_is_asked_to_look() -> Any:
    """Calls that ran without approval are forgotten."""
    return patch.object(schedule, "list_calls_to_look_at", lambda _tx, _now: [])


def policy_is_not_asked_again() -> Any:
    """A call runs under the gate that was shown, whatever policy says now."""

    def within(*_: Any, call: Any, **__: Any) -> Any:
        return load_gate(call.gate)

    return patch.object(call_gates, "compute_gate_in_transaction", within)


def deadlines_fall_first() -> Any:
    """A deadline does not wait for clicks stored before it."""
    return patch.object(deadlines, "_was_clicked_in_time", lambda _call, _clicked: False)


def lost_posts_are_not_looked_for() -> Any:
    """A message that may be in Slack already is posted again."""
    return patch.object(MessageSender, "_may_be_posted", lambda _self, _row: False)


def cards_are_not_drawn_again() -> Any:
    """A card stays as it was posted."""
    return patch.object(moves, "mark_cards_for_redraw", lambda _tx, _plan: None)


def what_ran_at_a_crash_runs_again() -> Any:
    """Nobody is asked about the outcome."""

    def recover(self: CallExecutor, run: Any, call: Any) -> None:
        self.execute_call(run, call)

    return patch.object(CallExecutor, "recover_interrupted_call", recover)


def old_buttons_count() -> Any:
    """A click on an earlier revision counts for the current one."""
    real = decisions.check_revision_is_decidable

    def look(tx: Any, call_id: str, revision: int, at: Any, *status: Any) -> Any:
        call = decisions.calls.find_call(tx, call_id)
        return real(tx, call_id, call.revision if call else revision, at, *status)

    return patch.object(decisions, "check_revision_is_decidable", look)


def one_vote_is_enough() -> Any:
    """The quorum is not checked."""
    real = tallying._tally_votes

    def votes_alone(gate: Any, ballots: Sequence[Any]) -> Any:
        found = real(gate, ballots)
        approved = found.outcome is VoteOutcome.OPEN and any(found.approved)
        return replace(found, outcome=VoteOutcome.APPROVED) if approved else found

    return patch.object(tallying, "_tally_votes", votes_alone)


def outputs_stand_where_they_came() -> Any:
    """A late output stays behind the messages that came before it."""

    def pair(found: Any, seal: str = "", **_: Any) -> Any:
        return found.list_items_for_model(seal)

    return patch.object(turns, "pair_calls_with_outputs", pair)


def a_run_may_wait_for_nobody() -> Any:
    """The last decision makes no run ready."""
    return patch.object(moves, "resume_run_if_unblocked", lambda *_, **__: False)


def what_is_left_of_a_plan_runs() -> Any:
    """A failed step does not stop the rest of the plan."""
    return patch.object(worker, "_should_cancel_later_calls", lambda _call: False)


def messages_are_settled_when_read() -> Any:
    """Messages are settled when read, and held for no run."""
    return patch.object(
        inbox,
        "hold_message_until_next_turn",
        lambda tx, row, _run, **__: inbox.mark_delivery_done(tx, row, "lost"),
    )


# breaks of two workspaces in one process


def now_and_then_the_other_is_chosen() -> Any:
    """One of forty payloads goes to the wrong workspace."""
    real, payloads_so_far = dispatcher.find_installation, count(1)

    def find(*given: Any) -> Any:
        found = real(*given)
        if next(payloads_so_far) % 40:
            return found
        return next(each.team for each in BOTH if each.team != found)

    return patch.object(dispatcher, "find_installation", find)


def the_first_with_such_a_bot_is_chosen() -> Any:
    """The workspace named by the payload is ignored if several know the bot's id."""
    return patch.object(dispatcher, "_choose", lambda owners, _named: next(iter(owners), None))


def both_post_with_one_token() -> Any:
    """One workspace's messages go to the other's Slack."""
    real = HostedProcess._assemble
    slacks: list[Any] = []

    def assemble(self: HostedProcess, slack: Any, *given: Any) -> None:
        slacks.append(slack)
        real(self, slacks[0], *given)

    return patch.object(HostedProcess, "_assemble", assemble)


def both_keep_messages_in_one_store() -> Any:
    """Messages in one workspace are stored in the record of the other."""
    real, real_start = HostedProcess.keep, HostedProcess.start
    begun: list[HostedProcess] = []

    def start(self: HostedProcess) -> None:
        if self.team == BOTH[0].team:
            begun.append(self)
        real_start(self)

    def keep(self: HostedProcess, delivery: Delivery) -> None:
        is_message = delivery.kind is DeliveryKind.MESSAGE
        real(begun[-1] if is_message else self, delivery)

    return patch.multiple(HostedProcess, start=start, keep=keep)


BREAKS_OF_TWO: tuple[Break, ...] = (
    now_and_then_the_other_is_chosen,
    the_first_with_such_a_bot_is_chosen,
    both_post_with_one_token,
    both_keep_messages_in_one_store,
)
BREAKS: tuple[Break, ...] = (
    the_requester_may_approve,
    anybody_may_approve,
    anybody_may_break_the_glass,
    who_ran_it_may_look,
    what_is_approved_for_later_starts_at_once,
    nobody_can_stop_it,
    nobody_is_asked_to_look,
    policy_is_not_asked_again,
    deadlines_fall_first,
    lost_posts_are_not_looked_for,
    cards_are_not_drawn_again,
    what_ran_at_a_crash_runs_again,
    old_buttons_count,
    one_vote_is_enough,
    outputs_stand_where_they_came,
    a_run_may_wait_for_nobody,
    what_is_left_of_a_plan_runs,
    messages_are_settled_when_read,
)
