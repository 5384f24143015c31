"""A freeze of the policy that begins while people decide."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from storage.states import CallStatus
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.steps import ask, later, statuses, vote

C = CallStatus
FREEZE_POLICY = """
[freezes]
launch = {{ from = {begins}, to = {ends} }}

[defaults]
approvers = ["UANA00001"]
deadline = "2d"

[[rule]]
name = "frozen"
tool = "note"
when = "freezes.launch"
verdict = "deny"
reason = "Nothing is noted during the launch."
"""


def test_a_call_that_would_start_in_a_freeze_is_refused(
    own_harness: Callable[..., Harness],
) -> None:
    """Asked before it and approved in it, a call does not run; asked and approved after it, it
    does.
    """
    fakes = FakeTools()
    harness = own_harness(fakes.tools, '[defaults]\napprovers = ["UANA00001"]\n')
    begins = harness.clock.now().replace(microsecond=0) + timedelta(hours=1)
    ends = begins + timedelta(hours=3)
    harness.policy = FREEZE_POLICY.format(begins=begins.isoformat(), ends=ends.isoformat())
    harness.restart()
    early = ask(harness, ("note", {"text": "early"}))
    card = harness.card(SUPPORT, early)
    later(harness, 3601)
    vote(harness, "ana", card)
    harness.said(SUPPORT, early, "Nothing is noted during the launch.")
    harness.said(SUPPORT, early, "That is all.")
    assert (statuses(harness, early), fakes.did("note", "early")) == ([C.INVALIDATED], 0)
    inside = ask(harness, ("note", {"text": "inside"}))
    harness.said(SUPPORT, inside, "That is all.")
    assert statuses(harness, inside) == [C.REFUSED]
    later(harness, 3 * 3600)
    after = ask(harness, ("note", {"text": "after"}))
    vote(harness, "ana", harness.card(SUPPORT, after))
    harness.said(SUPPORT, after, "That is all.")
    assert (statuses(harness, after), fakes.did("note", "after")) == ([C.SUCCEEDED], 1)
