"""`/approvals`, above all `explain`: answered privately, in the command line's words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from slack_bolt import BoltRequest

from slack_sandbox.workspace.records import Delivery
from storage.models import Delivery as Row
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import words
from tests.stories.steps import ask


@pytest.fixture
def harness(own_harness: Callable[..., Harness]) -> Harness:
    """A bot whose policy counts calls, looks into groups and asks the channel."""
    return own_harness(
        FakeTools().tools,
        """
[defaults]
approvers = ["@shop-leads"]

[[rule]]
name = "often <@UANA00001> *now*"
tool = "note"
when = 'count("note", "24h") >= 1 && !(requester in groups.finance)'
verdict = "ask"
approvers = ["channel"]
post_to = "#finance-approvals"
""",
    )


def asked(harness: Harness, line: str, who: str = "ben", channel: str = SUPPORT) -> str:
    """Send a command; returns the one new message that only this person sees, as JSON text."""
    person = harness.person(who)
    before = {m["ts"] for m in person.everything(channel)}
    delivery = person.command(channel, line)
    assert isinstance(delivery, Delivery)
    assert delivery.wait() == "acked"

    def look() -> list[dict[str, Any]]:
        new = [m for m in person.everything(channel) if m["ts"] not in before]
        return [m for m in new if m.get("is_ephemeral")]

    [message] = harness.slack.wait(look)
    return words(message)


def test_explain_answers_for_the_person_who_asks(harness: Harness) -> None:
    """The rule, its reason and the approvers depend on person, place and time. Names become
    mentions.
    """
    text = asked(harness, '/approvals explain note text="two words"')
    assert "Write “two words”" in text
    assert '"user_id": "UBEN00001"' in text
    assert "does not apply" in text
    assert '"usergroup_id": "S0LEADS"' in text
    assert "no answer within 1 hour is a no" in text
    harness.planner.clear_script()
    thread = ask_note(harness)
    text = asked(harness, "/approvals explain note text=again")
    assert "often <@UANA00001> *now*" in text
    assert "the members of" in text
    assert '"channel_id": "C0FINANCE"' in text
    assert "does not apply" in asked(harness, "/approvals explain note text=again", "cleo")
    assert harness.calls_in(thread)


def test_explain_shows_no_id_of_a_direct_message(harness: Harness) -> None:
    """Slack would show the id as it is."""
    text = asked(
        harness, "/approvals explain note text=x", channel=harness.person("ben").dm_channel
    )
    assert "in a direct message." in text
    assert harness.person("ben").dm_channel not in text


def ask_note(harness: Harness) -> str:
    """Ask for a note and wait for its card; returns the thread."""
    thread = ask(harness, ("note", {"text": "x"}))
    harness.card(SUPPORT, thread)
    return thread


def test_explain_mentions_saved_approvals_and_limits(
    own_harness: Callable[..., Harness],
) -> None:
    """Both come before anybody is asked."""
    policy = '[defaults]\napprovers = ["UANA00001"]\n[[rule]]\ntool = "put"\nverdict = "once"\n'
    harness = own_harness(FakeTools().tools, policy, COUNTERSIGN_MAX_PENDING="1")
    thread = ask(harness, ("put", {"text": "x"}))
    harness.person("ana").click(SUPPORT, harness.card(SUPPORT, thread)["ts"], "approve")
    harness.said(SUPPORT, thread, "That is all.")
    text = asked(harness, "/approvals explain put text=x")
    assert "★ It runs without asking, though" in text
    assert "saved an approval, until" in text
    other = asked(harness, "/approvals explain put text=y")
    assert "★" not in other
    assert "⚠" not in other
    harness.settle()
    ask_note(harness)
    assert "⚠ Right now nobody would be asked: 1 of your requests is" in asked(
        harness, "/approvals explain note text=y"
    )
    assert "★ It runs without asking, though" in asked(harness, "/approvals explain put text=x")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("/approvals", "What would you like to see?"),
        ("/approvals show", "Name one request"),
        ("/approvals show nothing", "There is no request with that id that you may read."),
        ("/approvals history soon", "Say how many days"),
        ("/approvals history 91", "Say how many days"),
        ("/approvals help", "explain <tool> key=value …"),
        ("/approvals HELP", "this list"),
        ("/approvals explain", "Name a tool"),
        ("/approvals explain nothing", "There is no tool 'nothing'"),
        ("/approvals explain note", "text: A value is needed here."),
        ('/approvals explain note text="open', "A quotation mark is not closed."),
        ("/approvals dance", "I do not know /approvals 'dance'."),
    ],
)
def test_help_and_mistakes_are_answered(
    shared_harness: tuple[Harness, FakeTools], line: str, told: str
) -> None:
    """The answer is the list of subcommands, or says what is wrong and where that list is."""
    assert told in asked(shared_harness[0], line)


def test_smart_quotes_hold_words_together(
    shared_harness: tuple[Harness, FakeTools],
) -> None:
    """Some keyboards type them instead of plain ones, and non-breaking spaces between words."""
    assert "Write “two words”" in asked(
        shared_harness[0], "/approvals explain\u00a0note\u202ftext=“two words”"
    )


def test_explain_masks_secret_values(shared_harness: tuple[Harness, FakeTools]) -> None:
    """The password was typed in the command."""
    text = asked(shared_harness[0], "/approvals explain login account=ben password=hunter2")
    assert "Log in to ben with ••••••••" in text
    assert "hunter2" not in text


def test_guests_are_refused(shared_harness: tuple[Harness, FakeTools]) -> None:
    """They get one sentence and learn nothing about the policy."""
    text = asked(shared_harness[0], "/approvals explain note text=x", "gus")
    assert "I answer full members of this workspace only." in text
    assert "shop-leads" not in text


def test_nothing_is_explained_if_the_look_up_fails(
    own_harness: Callable[..., Harness],
) -> None:
    """The person is told to try again."""
    harness = own_harness(FakeTools().tools)
    harness.slack.faults.fail("users.info", "internal_error", times=99)
    assert "I could not ask Slack about this just now" in asked(
        harness, "/approvals explain note text=x"
    )


def test_a_command_of_another_workspace_is_dropped(
    shared_harness: tuple[Harness, FakeTools], caplog: pytest.LogCaptureFixture
) -> None:
    """It is acknowledged with an empty body, and nobody is answered."""
    harness = shared_harness[0]
    body = {
        "command": "/approvals",
        "text": "help",
        "team_id": "T0OTHERCO",
        "user_id": "UBEN00001",
        "channel_id": SUPPORT,
        "response_url": f"{harness.slack.url}/nowhere",
    }
    answer = harness.app.bolt.dispatch(BoltRequest(body=body, mode="socket_mode"))
    assert (answer.status, answer.body) == (200, "")
    assert "dropped a delivery of another workspace" in caplog.text


def test_a_command_is_acknowledged_before_any_look_up(harness: Harness) -> None:
    """The answer follows, and nothing of it is stored."""
    held = harness.slack.faults.hold("users.info", person="ben")
    person = harness.person("ben")
    delivery = person.command(SUPPORT, "/approvals help")
    assert isinstance(delivery, Delivery)
    assert delivery.wait() == "acked"
    assert [m for m in person.everything(SUPPORT) if "/approvals" in words(m)] == []
    held.release()
    harness.slack.wait(lambda: [m for m in person.everything(SUPPORT) if "/approvals" in words(m)])
    assert [row for row in harness.all(Row) if "/approvals" in row.body] == []


def test_an_answer_that_slack_refuses_is_logged(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    """Answers are taken for half an hour; slack_sdk raises nothing for one that comes later."""
    held = harness.slack.faults.hold("users.info", person="ben")
    delivery = harness.person("ben").command(SUPPORT, "/approvals help")
    assert isinstance(delivery, Delivery)
    assert delivery.wait() == "acked"
    assert held.arrived.wait(20)
    harness.clock.advance(1_801)
    held.release()
    said = "an answer to /approvals could not be given: HTTP 404, "
    harness.slack.wait(lambda: said in caplog.text)
    assert "expired_url" in caplog.text
