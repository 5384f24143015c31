"""When something is due before the deadline of a gate, and who may decide from then on."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from bot.policy.gates import Approvers, Ask, Escalation, Stage
from tests.policy.builders import asks

FINANCE, OPS = Approvers(groups=("finance",)), Approvers(groups=("ops",))


@given(asks, st.lists(st.integers(0, 8000), max_size=3))
def test_escalation_counts_from_its_moment(gate: Ask, moments: list[int]) -> None:
    """Who comes in by escalation counts from that moment, and in every stage.

    They do not a microsecond before.
    """
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
def test_moments_come_in_order(gate: Ask) -> None:
    """Reminders and escalations are due in order, each moment once, only before the deadline."""
    due = {*gate.reminders, *(step.after for step in gate.escalation)}
    assert gate.list_notification_delay_seconds() == sorted(
        each for each in due if each < gate.deadline
    )


def test_a_reminder_at_the_deadline() -> None:
    """At the deadline itself the deadline falls, and nobody is reminded."""
    late = Escalation(after=601, approvers=OPS)
    gate = Ask(
        rule="r",
        stages=(Stage(approvers=FINANCE),),
        deadline=600,
        reminders=(599, 600, 60),
        escalation=(late,),
    )
    assert gate.list_notification_delay_seconds() == [60, 599]
