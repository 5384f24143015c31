"""The line "On record: …" about the outcomes of a request's calls."""

from __future__ import annotations

from itertools import combinations_with_replacement

import pytest

from bot.cards.answers import CallOutcome, build_call_outcomes_line
from storage.states import CallStatus

C = CallStatus
MIDWAY = "midway"
# every way a call can end; a failure after the tool had begun is one of its own
ENDS = [*CallStatus, MIDWAY]
MAY_HAVE_ACTED = {C.SUCCEEDED, C.UNKNOWN, C.RUNNING, C.ENTRUSTED, MIDWAY}


def make_outcome(how: str, *, told: bool) -> CallOutcome:
    """Make the outcome of a call that ended this way."""
    midway = how == MIDWAY
    status = C.FAILED if midway else C(how)
    return CallOutcome(status, "" if told else f"Do {how}", told, failed_midway=midway)


@pytest.mark.parametrize("told", [True, False], ids=["told", "untold"])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_the_line_says_nothing_was_done_only_if_that_is_known(number: int, told: bool) -> None:
    """Every combination of one to three outcomes, with and without notices in the thread."""
    for mix in combinations_with_replacement(ENDS, number):
        said = build_call_outcomes_line([make_outcome(each, told=told) for each in mix])
        assert said.startswith("On record: "), mix
        assert ("nothing was done" in said) is MAY_HAVE_ACTED.isdisjoint(mix), (mix, said)
        assert ("midway" in said or "part of it may have happened" in said) is (MIDWAY in mix), mix
        assert ("not known" in said or "unknown" in said) is (C.UNKNOWN in mix), (mix, said)


def test_the_line_describes_unknown_and_partial_outcomes() -> None:
    """A tool that failed after it had begun may have done a part."""
    assert (
        build_call_outcomes_line([make_outcome(C.UNKNOWN, told=True)])
        == "On record: not known whether it happened."
    )
    midway = "On record: failed after it had begun, so part of it may have happened."
    assert build_call_outcomes_line([make_outcome(MIDWAY, told=True)]) == midway
    mixed = [make_outcome(each, told=True) for each in (C.REJECTED, C.UNKNOWN)]
    assert build_call_outcomes_line(mixed) == "On record: one unknown, one rejected."
