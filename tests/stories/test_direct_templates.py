"""Templates of the policy: prepared requests, some of whose fields nobody who asks can change."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bot.config.startup import StartupError
from bot.policy.evaluation import parse
from bot.tools.person_question import ASK_PERSON
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import words
from tests.stories.steps import vote

POLICY = """
[defaults]
approvers = ["@shop-leads"]

[[rule]]
name = "wipes"
tool = "wipe"
verdict = "deny"
reason = "Nothing is wiped here."

[[rule]]
name = "dan's puts"
tool = "put"
requester = "UDAN00001"
verdict = "deny"
reason = "Not for Dan."

[[template]]
title = "Order coffee"
tool = "note"
fixed = { text = "coffee for everybody" }

[[template]]
title = "Log in to the bank"
tool = "note"
fixed = { text = "bank" }
who = ["@finance"]
"""


def opened(harness: Harness, line: str, who: str = "ben") -> str:
    """The dialog that a command opens, as JSON text."""
    harness.person(who).command(SUPPORT, line)
    view = harness.slack.wait(harness.person(who).view)
    return words({"blocks": view["blocks"]})


def test_what_is_fixed_cannot_be_changed(harness: Harness, fakes: FakeTools) -> None:
    """The fixed field is shown as text; a value sent for it all the same counts for nothing."""
    ben = harness.person("ben")
    assert "coffee for everybody" in opened(harness, "/approvals request Order coffee")
    assert [b["block_id"] for b in ben.view()["blocks"] if b["type"] == "input"] == ["why"]
    assert ben.submit({})["outcome"] == "closed"
    root = harness.slack.wait(
        lambda: next((m for m in ben.messages(SUPPORT) if "coffee for everybody" in words(m)), None)
    )
    vote(harness, "ana", harness.card(SUPPORT, root["ts"]))
    harness.said(SUPPORT, root["ts"], "noted coffee for everybody")
    assert fakes.did("note", "coffee for everybody") == 1


def test_the_picker_has_what_a_person_may_ask_for(harness: Harness) -> None:
    """It has templates of theirs, no tool that policy denies them, and none that needs a secret."""
    seen = opened(harness, "/approvals request")
    assert "Order coffee" in seen
    assert "Log in to the bank" not in seen
    assert "Wipe something" not in seen
    assert '"Log in"' not in seen
    assert ASK_PERSON.title not in seen
    assert "Set a value" in seen
    harness.person("ben").close_view()
    assert "Log in to the bank" in opened(harness, "/approvals request", "cleo")
    harness.person("cleo").close_view()
    assert '"Set a value"' not in opened(harness, "/approvals request", "dan")
    harness.person("dan").close_view()


def test_a_template_that_fits_no_tool_is_refused_at_start(
    own_harness: Callable[..., Harness],
) -> None:
    """An unknown tool, an unknown field and a value that does not fit are named with their line."""
    wrong = POLICY + (
        '\n[[template]]\ntitle = "A"\ntool = "note_"\n'
        '\n[[template]]\ntitle = "B"\ntool = "note"\nfixed = { txt = "x", text = 5 }\n'
    )
    with pytest.raises(StartupError) as refused:
        own_harness(FakeTools().tools, wrong)
    assert refused.value.policy == (
        "policy:29: template 3: there is no tool 'note_'; is note meant?",
        "policy:33: template 4: note has no field 'txt'; correct it",
        "policy:33: template 4: text: input should be a valid string; correct it",
    )


def test_a_new_policy_with_a_bad_template_is_not_taken(harness: Harness) -> None:
    """While the bot works, the old policy stays where the new one's template fits no tool."""
    path = harness.folder / "policy.toml"
    digest = harness.app.core.policy.digest
    path.write_text(POLICY + '\n[[template]]\ntitle = "A"\ntool = "gone"\n', "utf-8")
    for _ in range(3):
        harness.clock.advance(4)
        harness.settle()
    assert harness.app.core.policy.digest == digest
    path.write_text(POLICY + '\n[[template]]\ntitle = "A"\ntool = "note"\n', "utf-8")
    harness.clock.advance(4)
    harness.settle()
    harness.clock.advance(4)
    harness.slack.wait(lambda: harness.app.core.policy.digest != digest)
    path.write_text(POLICY, "utf-8")
    harness.clock.advance(4)
    harness.settle()
    harness.clock.advance(4)
    harness.slack.wait(lambda: harness.app.core.policy.digest == digest)


def test_two_templates_of_one_title() -> None:
    """A title names one template."""
    with pytest.raises(ValueError, match="the title 'Order coffee' is taken"):
        parse(POLICY + '\n[[template]]\ntitle = "Order coffee"\ntool = "put"\n')
