"""Two gates for one call, the one shown and the one that applies now: both must be met."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import pytest
from hypothesis import given

from bot.policy.gates import Approvers, Ask, Escalation, Stage, combine_gates
from bot.policy.tally import Ballot, tally_ballots
from tests.policy.builders import asks, ballot, ballots

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


def _ask(*stages: tuple[Approvers, int], **more: Any) -> Ask:
    return Ask(
        rule="r",
        stages=tuple(Stage(approvers=who, quorum=quorum) for who, quorum in stages),
        **more,
    )


def _who(stage: Stage) -> tuple[Any, ...]:
    who = stage.approvers
    return frozenset(who.users), frozenset(who.groups), who.channel, who.requester


def _meets(gate: Ask, people: dict[Any, list[tuple[str, ...]]]) -> list[Ballot]:
    """Yield ballots for `gate` from people who were let through elsewhere.

    For each stage, they are of the same approvers.
    """
    left = {who: list(each) for who, each in people.items()}
    return [
        ballot(person, at)
        for at, stage in enumerate(gate.stages)
        for person in (left[_who(stage)].pop(0) if left.get(_who(stage)) else ())[: stage.quorum]
    ]


def _strictness(gate: Ask) -> Any:
    """All that says how strict a gate is, without the order and the words."""
    skipped = {"stages", "rule", "post_to", "reminders", "escalation", "remember", "editable"}
    skipped |= {"run_at"}  # of two times neither is stricter: the one of now counts
    sets = (
        set(gate.escalation),
        set(gate.remember),
        gate.editable if gate.editable is None else set(gate.editable),
    )
    return (
        Counter((_who(each), each.quorum) for each in gate.stages),
        sets,
        gate.model_dump(exclude=skipped),
    )


def _approve(gate: Ask) -> list[Ballot]:
    return [
        ballot(f"{at}.{n}", at) for at, stage in enumerate(gate.stages) for n in range(stage.quorum)
    ]


@given(asks, asks)
def test_who_meets_it_meets_both(shown: Ask, now: Ask) -> None:
    """The people who meet it meet each gate by themselves.

    They do so stage for stage of the same approvers.
    """
    both = combine_gates(shown, now)
    standing = tally_ballots(both, _approve(both))
    assert standing.outcome == "approved"
    people: dict[Any, list[tuple[str, ...]]] = defaultdict(list)
    for stage, counted in zip(both.stages, standing.approved, strict=True):
        people[_who(stage)].append(counted)
    for gate in (shown, now):
        cast = _meets(gate, people)
        assert tally_ballots(gate, cast).outcome == "approved"
        assert len({each.person for each in cast}) == len(cast)


@given(asks, asks)
def test_it_asks_for_no_more_than_both(shown: Ask, now: Ask) -> None:
    """Of the same approvers it asks for no more stages than one gate, nor people than both."""
    both = combine_gates(shown, now)

    def per(gate: Ask) -> Counter[Any]:
        return Counter(_who(each) for each in gate.stages)

    assert per(both) == per(shown) | per(now)
    for who in per(both):
        total = [
            sum(each.quorum for each in gate.stages if _who(each) == who)
            for gate in (shown, now, both)
        ]
        assert max(total[:2]) <= total[2] <= total[0] + total[1]


@given(asks, asks, ballots)
def test_a_vote_keeps_its_place(shown: Ask, now: Ask, cast: list[Ballot]) -> None:
    """The stages that were shown stay first, so ballots mean what they meant.

    They never come further than before.
    """
    both = combine_gates(shown, now)
    for old, new in zip(shown.stages, both.stages, strict=False):
        assert old.approvers == new.approvers
        assert new.quorum >= old.quorum
    if tally_ballots(both, cast).outcome == "approved":
        loose = shown.model_copy(update={"veto": 9})
        assert tally_ballots(loose, cast).outcome == "approved"


@given(asks, asks)
def test_every_term_is_the_stricter_one(shown: Ask, now: Ask) -> None:
    """The earlier deadline and the smaller veto hold, and fewer may decide, edit and be offered.

    More have to give reasons.
    """
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
def test_the_stricter_gate_keeps_its_laws(one: Ask, two: Ask, three: Ask) -> None:
    """The same twice is the same, and either order and any grouping are as strict.

    Asking again settles at once.
    """
    both = combine_gates(one, two)
    assert combine_gates(one, one) == one
    assert combine_gates(both, two) == both
    assert combine_gates(one, both) == both
    assert _strictness(combine_gates(two, one)) == _strictness(both)
    assert _strictness(combine_gates(both, three)) == _strictness(
        combine_gates(one, combine_gates(two, three))
    )


@given(asks, asks)
def test_it_is_a_gate_like_any(shown: Ask, now: Ask) -> None:
    """What comes out is a gate that can be stored, read again and met."""
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
def test_stages_side_by_side(shown: Any, now: Any, both: Any) -> None:
    """A stage that both gates have is one stage, and twice the same stage stays two."""
    assert combine_gates(_ask(*shown), _ask(*now)).stages == _ask(*both).stages


@given(asks)
def test_the_same_terms(gate: Ask) -> None:
    """Whatever changes who may vote, how many or with what words are other terms.

    An escalation does too.
    """
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
