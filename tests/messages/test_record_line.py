"""The record's line says that nothing was done only where that is known, whatever the mix."""

from __future__ import annotations

from itertools import combinations_with_replacement

import pytest

from bot.cards.answers import CallOutcome, build_call_outcomes_line
from storage.states import CallStatus

C = CallStatus
MIDWAY = "midway"
# every end there is, a failure told apart by whether the tool had begun
ENDS = [*CallStatus, MIDWAY]
MAY_HAVE_ACTED = {C.SUCCEEDED, C.UNKNOWN, C.RUNNING, C.ENTRUSTED, MIDWAY}


def ended(how: str, *, told: bool) -> CallOutcome:
    """A call that ended so."""
    midway = how == MIDWAY
    status = C.FAILED if midway else C(how)
    return CallOutcome(status, "" if told else f"Do {how}", told, failed_midway=midway)


@pytest.mark.parametrize("told", [True, False], ids=["told", "untold"])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_nothing_was_done_is_said_only_where_that_is_known(number: int, told: bool) -> None:
    """Each mix of so many ends, as calls the thread was told of or not."""
    for mix in combinations_with_replacement(ENDS, number):
        said = build_call_outcomes_line([ended(each, told=told) for each in mix])
        assert said.startswith("On record: "), mix
        assert ("nothing was done" in said) is MAY_HAVE_ACTED.isdisjoint(mix), (mix, said)
        assert ("midway" in said or "part of it may have happened" in said) is (MIDWAY in mix), mix
        assert ("not known" in said or "unknown" in said) is (C.UNKNOWN in mix), (mix, said)


def test_what_is_known_is_said_in_words() -> None:
    """An outcome that nobody knows, and a tool that broke off."""
    assert (
        build_call_outcomes_line([ended(C.UNKNOWN, told=True)])
        == "On record: not known whether it happened."
    )
    midway = "On record: failed after it had begun, so part of it may have happened."
    assert build_call_outcomes_line([ended(MIDWAY, told=True)]) == midway
    mixed = [ended(each, told=True) for each in (C.REJECTED, C.UNKNOWN)]
    assert build_call_outcomes_line(mixed) == "On record: one unknown, one rejected."
