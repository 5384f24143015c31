"""Two gates for one call, the one shown and the one that applies now: both must be met."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import pytest
from hypothesis import given

from bot.policy.gates import Approvers, Ask, Escalation, Stage, combine_gates
from bot.policy.tally import Ballot, tally_ballots
from tests.policy.builders import asks, ballots, make_ballot

FINANCE, OPS, CHANNEL = (
    Approvers(groups=("finance",)),
    Approvers(groups=("ops",)),
    Approvers(channel=True),
)
PAIR = Approvers(users=("U1", "U2"))
EDITORS = ("nobody", "approvers", "approvers_and_requester")
WORDS = {
    "never": set(),
    "approve": {"approve"},
    "reject": {"reject"},
    "always": {"approve", "reject"},
}


def _make_gate(*stages: tuple[Approvers, int], **more: Any) -> Ask:
    return Ask(
        rule="r",
        stages=tuple(Stage(approvers=who, quorum=quorum) for who, quorum in stages),
        **more,
    )


def _get_approvers(stage: Stage) -> tuple[Any, ...]:
    who = stage.approvers
    return frozenset(who.users), frozenset(who.groups), who.channel, who.requester


def _list_ballots_of(gate: Ask, people: dict[Any, list[tuple[str, ...]]]) -> list[Ballot]:
    """Ballots for `gate` from `people`, who are grouped by the approvers they belong to."""
    left = {who: list(each) for who, each in people.items()}
    return [
        make_ballot(person, at)
        for at, stage in enumerate(gate.stages)
        for person in (
            left[_get_approvers(stage)].pop(0) if left.get(_get_approvers(stage)) else ()
        )[: stage.quorum]
    ]


def _get_strictness(gate: Ask) -> Any:
    """What says how strict a gate is, without the order of its stages and its words."""
    skipped = {"stages", "rule", "post_to", "reminders", "escalation", "remember", "editable"}
    skipped |= {"run_at"}  # neither of two times is stricter: the current one counts
    sets = (
        set(gate.escalation),
        set(gate.remember),
        gate.editable if gate.editable is None else set(gate.editable),
    )
    return (
        Counter((_get_approvers(each), each.quorum) for each in gate.stages),
        sets,
        gate.model_dump(exclude=skipped),
    )


def _approve_gate(gate: Ask) -> list[Ballot]:
    return [
        make_ballot(f"{at}.{n}", at)
        for at, stage in enumerate(gate.stages)
        for n in range(stage.quorum)
    ]


@given(asks, asks)
def test_votes_that_meet_the_combined_gate_meet_both_gates(shown: Ask, now: Ask) -> None:
    """They meet them stage for stage of the same approvers."""
    both = combine_gates(shown, now)
    standing = tally_ballots(both, _approve_gate(both))
    assert standing.outcome == "approved"
    people: dict[Any, list[tuple[str, ...]]] = defaultdict(list)
    for stage, counted in zip(both.stages, standing.approved, strict=True):
        people[_get_approvers(stage)].append(counted)
    for gate in (shown, now):
        cast = _list_ballots_of(gate, people)
        assert tally_ballots(gate, cast).outcome == "approved"
        assert len({each.person for each in cast}) == len(cast)


@given(asks, asks)
def test_a_combined_gate_asks_for_no_more_than_both_together(shown: Ask, now: Ask) -> None:
    """Of the same approvers it has no more stages than one gate, nor more people than both."""
    both = combine_gates(shown, now)

    def per(gate: Ask) -> Counter[Any]:
        return Counter(_get_approvers(each) for each in gate.stages)

    assert per(both) == per(shown) | per(now)
    for who in per(both):
        total = [
            sum(each.quorum for each in gate.stages if _get_approvers(each) == who)
            for gate in (shown, now, both)
        ]
        assert max(total[:2]) <= total[2] <= total[0] + total[1]


@given(asks, asks, ballots)
def test_the_stages_shown_stay_first_so_votes_keep_their_place(
    shown: Ask, now: Ask, cast: list[Ballot]
) -> None:
    """Votes never come further than they did with the gate shown."""
    both = combine_gates(shown, now)
    for old, new in zip(shown.stages, both.stages, strict=False):
        assert old.approvers == new.approvers
        assert new.quorum >= old.quorum
    if tally_ballots(both, cast).outcome == "approved":
        loose = shown.model_copy(update={"veto": 9})
        assert tally_ballots(loose, cast).outcome == "approved"


@given(asks, asks)
def test_a_combined_gate_takes_the_stricter_of_each_term(shown: Ask, now: Ask) -> None:
    """Its deadline is the earlier, its veto the smaller; fewer may edit, more give reasons."""
    both = combine_gates(shown, now)
    for each in (shown, now):
        assert both.deadline <= each.deadline
        assert both.good_for <= each.good_for
        assert both.veto <= each.veto
        assert both.run_at or not each.run_at
        assert both.self_approval <= each.self_approval
        assert both.editor_counts <= each.editor_counts
        assert EDITORS.index(both.editors) <= EDITORS.index(each.editors)
        assert each.editable is None or (
            both.editable is not None and set(both.editable) <= set(each.editable)
        )
        assert WORDS[both.reasons] >= WORDS[each.reasons]
        assert set(both.escalation) <= set(each.escalation)
        assert set(both.remember) <= set(each.remember)
        assert both.once in (None, each.once)
    assert both.deadline in (shown.deadline, now.deadline)
    assert WORDS[both.reasons] == WORDS[shown.reasons] | WORDS[now.reasons]
    assert (both.post_to, both.rule, both.reminders) == (now.post_to, now.rule, now.reminders)


@given(asks, asks, asks)
def test_combining_is_idempotent_and_as_strict_in_any_order(one: Ask, two: Ask, three: Ask) -> None:
    """Any grouping of three gates is as strict, too."""
    both = combine_gates(one, two)
    assert combine_gates(one, one) == one
    assert combine_gates(both, two) == both
    assert combine_gates(one, both) == both
    assert _get_strictness(combine_gates(two, one)) == _get_strictness(both)
    assert _get_strictness(combine_gates(both, three)) == _get_strictness(
        combine_gates(one, combine_gates(two, three))
    )


@given(asks, asks)
def test_a_combined_gate_can_be_stored_and_read_again(shown: Ask, now: Ask) -> None:
    """All its reminders come before its deadline."""
    both = combine_gates(shown, now)
    assert Ask.model_validate_json(both.model_dump_json()) == both
    assert all(moment < both.deadline for moment in both.list_notification_delay_seconds())


@pytest.mark.parametrize(
    ("shown", "now", "both"),
    [
        ([(FINANCE, 1)], [(FINANCE, 1), (FINANCE, 1)], [(FINANCE, 1), (FINANCE, 1)]),
        ([(FINANCE, 1)], [(FINANCE, 2), (OPS, 1)], [(FINANCE, 2), (OPS, 1)]),
        ([(OPS, 1)], [(FINANCE, 1), (OPS, 1)], [(OPS, 1), (FINANCE, 1)]),
        ([(FINANCE, 1), (OPS, 1)], [(OPS, 2), (FINANCE, 1)], [(FINANCE, 1), (OPS, 2)]),
        ([(FINANCE, 1), (OPS, 2)], [(CHANNEL, 1)], [(FINANCE, 1), (OPS, 2), (CHANNEL, 1)]),
        ([(PAIR, 1)], [(Approvers(users=("U2", "U1")), 2)], [(PAIR, 2)]),
    ],
)
def test_a_stage_of_both_gates_becomes_one_stage(shown: Any, now: Any, both: Any) -> None:
    """The same stage twice in one gate stays two."""
    assert combine_gates(_make_gate(*shown), _make_gate(*now)).stages == _make_gate(*both).stages


@given(asks)
def test_votes_count_alike_unless_voters_numbers_or_words_change(gate: Ask) -> None:
    """An escalation changes them, too."""
    step = Escalation(after=59, approvers=OPS)
    longer = (*gate.stages, gate.stages[0])
    for other in (
        {"stages": longer},
        {"veto": gate.veto + 1},
        {"self_approval": not gate.self_approval},
        {"editor_counts": not gate.editor_counts},
        {"escalation": (*gate.escalation, step)},
        {"reasons": "always" if gate.reasons != "always" else "never"},
    ):
        assert not gate.counts_votes_like(gate.model_copy(update=other))
    for same in (
        {"rule": "new"},
        {"post_to": "C9"},
        {"deadline": 61},
        {"remember": ()},
        {"reminders": ()},
    ):
        assert gate.counts_votes_like(gate.model_copy(update=same))
