"""Templates of the policy: prepared requests with fields that the requester cannot change."""

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


def open_dialog_by_command(harness: Harness, line: str, who: str = "ben") -> str:
    """Type a command; returns the dialog that it opens, as JSON text."""
    harness.person(who).command(SUPPORT, line)
    view = harness.slack.wait(harness.person(who).view)
    return words({"blocks": view["blocks"]})


def test_a_fixed_field_is_shown_as_text(harness: Harness, fakes: FakeTools) -> None:
    """It is not an input, and its value is the one that runs."""
    ben = harness.person("ben")
    assert "coffee for everybody" in open_dialog_by_command(
        harness, "/approvals request Order coffee"
    )
    assert [b["block_id"] for b in ben.view()["blocks"] if b["type"] == "input"] == ["why"]
    assert ben.submit({})["outcome"] == "closed"
    root = harness.slack.wait(
        lambda: next((m for m in ben.messages(SUPPORT) if "coffee for everybody" in words(m)), None)
    )
    vote(harness, "ana", harness.card(SUPPORT, root["ts"]))
    harness.said(SUPPORT, root["ts"], "noted coffee for everybody")
    assert fakes.did("note", "coffee for everybody") == 1


def test_the_picker_lists_only_what_a_person_may_ask_for(harness: Harness) -> None:
    """It has no template for others, no tool that the policy denies them, and none that takes a
    secret.
    """
    seen = open_dialog_by_command(harness, "/approvals request")
    assert "Order coffee" in seen
    assert "Log in to the bank" not in seen
    assert "Wipe something" not in seen
    assert '"Log in"' not in seen
    assert ASK_PERSON.title not in seen
    assert "Set a value" in seen
    harness.person("ben").close_view()
    assert "Log in to the bank" in open_dialog_by_command(harness, "/approvals request", "cleo")
    harness.person("cleo").close_view()
    assert '"Set a value"' not in open_dialog_by_command(harness, "/approvals request", "dan")
    harness.person("dan").close_view()


def test_a_template_that_fits_no_tool_is_refused_at_start(
    own_harness: Callable[..., Harness],
) -> None:
    """Unknown tools, unknown fields and values of the wrong type are named with their lines."""
    wrong = POLICY + (
        '\n[[template]]\ntitle = "A"\ntool = "note_"\n'
        '\n[[template]]\ntitle = "B"\ntool = "note"\nfixed = { txt = "x", text = 5 }\n'
    )
    with pytest.raises(StartupError) as refused:
        own_harness(FakeTools().tools, wrong)
    assert refused.value.policy == (
        "policy:29: template 3: there is no tool 'note_'; did you mean note?",
        "policy:33: template 4: note has no field 'txt'; correct it",
        "policy:33: template 4: text: input should be a valid string; correct it",
    )


def test_a_new_policy_with_a_bad_template_is_not_loaded(harness: Harness) -> None:
    """The running bot keeps the old policy."""
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


def test_two_templates_cannot_have_one_title() -> None:
    """The policy is refused."""
    with pytest.raises(ValueError, match="the title 'Order coffee' is taken"):
        parse(POLICY + '\n[[template]]\ntitle = "Order coffee"\ntool = "put"\n')
