"""Reminders and escalations before the deadline of a gate, and who may decide from then on."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from bot.policy.gates import Approvers, Ask, Escalation, Stage
from tests.policy.builders import asks

FINANCE, OPS = Approvers(groups=("finance",)), Approvers(groups=("ops",))


@given(asks, st.lists(st.integers(0, 8000), max_size=3))
def test_escalated_approvers_count_in_every_stage_once_due(gate: Ask, moments: list[int]) -> None:
    """They do not count a microsecond before."""
    for stage, own in enumerate(gate.stages):
        for moment in [*moments, *(step.after for step in gate.escalation)]:
            for early in (timedelta(0), timedelta(microseconds=1)):
                waited = timedelta(seconds=moment) - early
                due = [
                    step.approvers
                    for step in gate.escalation
                    if timedelta(seconds=step.after) <= waited
                ]
                found = gate.get_stage_approvers(stage, waited)
                assert set(found.groups) == {
                    name for each in (own.approvers, *due) for name in each.groups
                }
                assert set(found.users) == {
                    name for each in (own.approvers, *due) for name in each.users
                }
                assert found.channel is any(each.channel for each in (own.approvers, *due))
                assert found.requester is any(each.requester for each in (own.approvers, *due))
                assert len(set(found.users)) == len(found.users)


@given(asks)
def test_reminders_and_escalations_are_due_in_order_once(gate: Ask) -> None:
    """Each moment comes once, and only before the deadline."""
    due = {*gate.reminders, *(step.after for step in gate.escalation)}
    assert gate.list_notification_delay_seconds() == sorted(
        each for each in due if each < gate.deadline
    )


def test_nobody_is_reminded_at_or_after_the_deadline() -> None:
    """The deadline itself applies then."""
    late = Escalation(after=601, approvers=OPS)
    gate = Ask(
        rule="r",
        stages=(Stage(approvers=FINANCE),),
        deadline=600,
        reminders=(599, 600, 60),
        escalation=(late,),
    )
    assert gate.list_notification_delay_seconds() == [60, 599]
