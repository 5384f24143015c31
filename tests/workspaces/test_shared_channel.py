"""A channel shared by two workspaces that both have the bot: a request belongs to one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bot.config.connection_settings import Transport
from storage.states import CallStatus
from tests.stories.messages import action_ids, words
from tests.workspaces.hosting import ONE, TWO, Hosting, Workspace

PLACE = "C0GENERAL"
MEMBERS = "Only full members of this workspace"
POLICY = """
shared_channels = ["C0GENERAL"]
[defaults]
approvers = [{0}]
deadline = "1h"
"""


@pytest.fixture(params=[False, True], ids=["an event for each", "one event"])
def hosting(make_hosting: Callable[..., Hosting], request: pytest.FixtureRequest) -> Hosting:
    """Two companies with a shared channel, and the bot of each in it."""
    made = make_hosting(Transport.HTTP, same_ids=False)
    made.slack.world.shared.one_event = request.param
    (made.folder / "policy.toml").write_text(POLICY.format('"@shop-leads"'), "utf-8")
    made.start()
    made.install(ONE, "ana", PLACE)
    made.install(TWO, "ana", "C0GENERALB")
    made.slack.workspace(ONE).share(PLACE, TWO)
    two = made.slack.workspace(TWO)
    two.invite_bot(PLACE)
    for name in ("ana", "ben"):
        two.join(name, PLACE)
    made.clock.advance(1)
    return made


def wait_until_acknowledged(hosting: Hosting) -> None:
    """Wait until all deliveries are acknowledged, and nothing is under way."""
    hosting.wait(lambda: all(each.outcome != "pending" for each in hosting.slack.deliveries))
    for team in (ONE, TWO):
        hosting.workspace(team).settle()


def count_calls(workspace: Workspace) -> int:
    """Count the calls in a workspace's record."""
    workspace.settle()
    return len(workspace.calls()) if workspace.app is not None else 0


def test_a_request_in_a_shared_channel_belongs_to_one_workspace(hosting: Hosting) -> None:
    """Replies and clicks of both companies reach it; only its own people decide."""
    one, two = hosting.workspace(ONE), hosting.workspace(TWO)
    thread = one.ask("of the one", channel=PLACE)
    card = one.card(thread, channel=PLACE)
    seen = two.card(thread, channel=PLACE)
    assert (seen["ts"], "approve" in action_ids(seen)) == (card["ts"], True)
    assert two.person("ana").click(PLACE, card["ts"], "approve").wait() == "acked"

    def refused() -> bool:
        shown = two.person("ana").everything(PLACE)
        return any(MEMBERS in words(each) for each in shown if each.get("is_ephemeral"))

    hosting.wait(refused)
    two.person("ben").say(PLACE, "please make it blue", thread)
    two.person("ben").say(PLACE, "cancel", thread)
    wait_until_acknowledged(hosting)
    assert [each.status for each in one.calls()] == [CallStatus.PENDING]
    assert count_calls(two) == 0
    one.approve(thread, channel=PLACE)
    one.said(thread, "That is all.", channel=PLACE)
    assert hosting.fakes.did("note", "of the one") == 1
    one.person("ben").say(PLACE, "thank you", thread)
    wait_until_acknowledged(hosting)
    shown = [words(each) for each in one.person("ben").messages(PLACE, thread)]
    assert len([each for each in shown if "That is all." in each]) == 1
    assert count_calls(two) == 0


def test_each_workspace_has_its_own_requests_in_a_shared_channel(hosting: Hosting) -> None:
    """A person who mentions the other company's bot is refused."""
    one, two = hosting.workspace(ONE), hosting.workspace(TWO)
    mine = one.ask("of the one", channel=PLACE)
    one.card(mine, channel=PLACE)
    bot = one.admin.world.app.bot_user
    two.person("ben").say(PLACE, f"<@{bot}> note: of a stranger")
    wait_until_acknowledged(hosting)
    assert count_calls(one) == 1
    assert count_calls(two) == 0
    two.folder.mkdir(parents=True, exist_ok=True)
    theirs = two.ask("of the two", channel=PLACE)
    two.approve(theirs, channel=PLACE)
    two.said(theirs, "That is all.", channel=PLACE)
    assert (count_calls(one), count_calls(two)) == (1, 1)
    one.approve(mine, channel=PLACE)
    one.said(mine, "That is all.", channel=PLACE)
    assert hosting.fakes.did("note", "of the one") == 1
    assert hosting.fakes.did("note", "of a stranger") == 0


def test_an_approver_of_the_other_company_cannot_decide(hosting: Hosting) -> None:
    """The policy names them; the requester is told that they cannot be reached."""
    one, two = hosting.workspace(ONE), hosting.workspace(TWO)
    theirs = two.person("ana").id
    one.folder.mkdir(parents=True, exist_ok=True)
    (one.folder / "policy.toml").write_text(POLICY.format(f'"{theirs}"'), "utf-8")
    one.stop_app()  # after the policy is written, as it may start again at any time
    thread = one.ask("decided by a partner", channel=PLACE)
    one.said(thread, "none of its approvers can be reached", channel=PLACE)
    wait_until_acknowledged(hosting)
    assert hosting.fakes.did("note", "decided by a partner") == 0
    assert count_calls(two) == 0


def test_a_reply_reaches_a_request_whose_app_is_stopped(hosting: Hosting) -> None:
    """The app starts again for it."""
    one, two = hosting.workspace(ONE), hosting.workspace(TWO)
    thread = one.ask("over a sleep", channel=PLACE)
    one.card(thread, channel=PLACE)
    one.settle()
    one.stop_app()
    one.person("ben").say(PLACE, "cancel", thread)
    hosting.wait(lambda: one.app and [each.status for each in one.calls()] != [CallStatus.PENDING])
    assert count_calls(two) == 0


@pytest.mark.long
def test_a_reply_waits_for_a_request_whose_app_is_starting(hosting: Hosting) -> None:
    """It is not taken by the other workspace; Slack sends it again."""
    one, two = hosting.workspace(ONE), hosting.workspace(TWO)
    assert hosting.host is not None
    thread = one.ask("while it starts", channel=PLACE)
    one.card(thread, channel=PLACE)
    one.settle()
    one.stop_app()
    with hosting.host._get_hosted(ONE)._start_lock:
        one.person("ben").say(PLACE, "cancel", thread)
        sent = [each for each in hosting.slack.deliveries if each.event.get("text") == "cancel"]
        assert sent
        hosting.wait(lambda: all(each.attempts == 2 and each.next_at for each in sent))
        assert {each.retry_reason for each in sent} == {"http_error"}  # answered in time
    hosting.clock.advance(60)
    hosting.wait(lambda: one.app and [each.status for each in one.calls()] != [CallStatus.PENDING])
    assert count_calls(two) == 0
