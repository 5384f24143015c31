"""Rate limits, switched on: per method, app and channel, on the sandbox's clock."""

from __future__ import annotations

import pytest
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError
from slack_sdk.http_retry.builtin_handlers import RateLimitErrorRetryHandler

from sandbox.tests.harness import second_client
from slack_sandbox.server import Sandbox
from slack_sandbox.spec.facts import TIERS
from slack_sandbox.web_api.rates import CHANNEL_BURST

SUPPORT = "C0SUPPORT"


def get_retry_after(client: WebClient, method: str, **arguments: object) -> int:
    """Retry-After of a call; 0 if it was not limited."""
    try:
        client.api_call(method, params=dict(arguments))
    except SlackApiError as error:
        if error.response["error"] != "ratelimited" or error.response.status_code != 429:
            raise
        return int(error.response.headers["Retry-After"])
    return 0


def test_rate_limits_are_off_by_default(sandbox: Sandbox, client: WebClient) -> None:
    """Switching them off forgets the counts."""
    for _ in range(25):
        assert get_retry_after(client, "users.list") == 0
    sandbox.rates.enabled = True
    while not get_retry_after(client, "users.list"):
        pass
    sandbox.rates.enabled = False
    assert get_retry_after(client, "users.list") == 0
    sandbox.rates.enabled = True
    assert get_retry_after(client, "users.list") == 0


@pytest.mark.parametrize(
    ("method", "tier"), [("users.list", 20), ("team.info", 50), ("users.profile.get", 100)]
)
def test_a_minute_takes_the_calls_of_its_tier(
    sandbox: Sandbox, client: WebClient, method: str, tier: int
) -> None:
    """A minute takes as many calls as the tier has; the next is told how long to wait.

    Moving the clock frees it.
    """
    assert TIERS[method] == tier
    sandbox.rates.enabled = True
    assert [get_retry_after(client, method) for _ in range(tier)] == [0] * tier
    wait = get_retry_after(client, method)
    assert 50 <= wait <= 60
    sandbox.clock.advance(wait - 15)
    assert get_retry_after(client, method) > 0
    sandbox.clock.advance(wait)
    assert get_retry_after(client, method) == 0


def test_rate_limits_are_per_method_and_app(sandbox: Sandbox, client: WebClient) -> None:
    """Another method and another app are not limited."""
    sandbox.rates.enabled = True
    while not get_retry_after(client, "users.list"):
        pass
    assert get_retry_after(client, "conversations.list") == 0
    assert get_retry_after(second_client(sandbox), "users.list") == 0


def test_a_channel_takes_a_burst_then_a_message_a_second(
    sandbox: Sandbox, client: WebClient
) -> None:
    """A channel takes a short burst, then a message a second; other channels take theirs."""
    sandbox.rates.enabled = True
    sent = 0
    while not (wait := get_retry_after(client, "chat.postMessage", channel=SUPPORT, text="x")):
        sent += 1
    assert CHANNEL_BURST <= sent <= CHANNEL_BURST + 2, "a second may have gone by meanwhile"
    assert wait == 1
    assert get_retry_after(client, "chat.postMessage", channel="C0FINANCE", text="x") == 0
    sandbox.clock.advance(1)
    assert get_retry_after(client, "chat.postMessage", channel=SUPPORT, text="x") == 0
    assert len(client.conversations_history(channel=SUPPORT)["messages"]) == sent + 1


def test_a_refused_call_has_no_effect(sandbox: Sandbox, client: WebClient) -> None:
    """The call is in the log with its status."""
    sandbox.rates.enabled = True
    for number in range(21):
        get_retry_after(client, "conversations.create", name=f"c{number}")
    assert "c20" not in [c.name for c in sandbox.world.channels.values()]
    assert sandbox.requests[-1].status == 429
    assert sandbox.requests[-1].response == {"ok": False, "error": "ratelimited"}


def test_slack_sdk_waits_and_tries_again(sandbox: Sandbox, client: WebClient) -> None:
    """slack_sdk's own handler for 429 reads Retry-After and gets through."""
    sandbox.rates.enabled = True
    while not get_retry_after(client, "chat.postMessage", channel=SUPPORT, text="x"):
        pass
    patient = WebClient(
        token=sandbox.bot_token,
        base_url=sandbox.api_url,
        retry_handlers=[RateLimitErrorRetryHandler(max_retry_count=3)],
    )
    assert patient.chat_postMessage(channel=SUPPORT, text="at last")["ok"] is True


def test_calls_with_a_wrong_token_are_not_counted(sandbox: Sandbox) -> None:
    """A call with a wrong token is refused as such, however often."""
    sandbox.rates.enabled = True
    stranger = WebClient(token="xoxb-of-nobody", base_url=sandbox.api_url, retry_handlers=[])
    for _ in range(25):
        with pytest.raises(SlackApiError) as refused:
            stranger.users_list()
        assert refused.value.response["error"] == "invalid_auth"


def test_an_unlisted_app_reads_fifteen_messages_a_minute(
    sandbox: Sandbox, client: WebClient
) -> None:
    """This holds for history and for replies, whatever limit the call gives."""
    sandbox.world.app.is_unlisted = True
    root = client.chat_postMessage(channel=SUPPORT, text="root")["ts"]
    for number in range(20):
        client.chat_postMessage(channel=SUPPORT, text=f"reply {number}", thread_ts=root)
    found = client.conversations_replies(channel=SUPPORT, ts=root, limit=200)
    assert (len(found["messages"]), found["has_more"]) == (1 + 15, True)
    cursor = found["response_metadata"]["next_cursor"]
    assert 50 <= get_retry_after(client, "conversations.replies", channel=SUPPORT, ts=root) <= 60
    assert get_retry_after(client, "conversations.history", channel=SUPPORT) == 0
    sandbox.clock.advance(60)
    rest = client.conversations_replies(channel=SUPPORT, ts=root, limit=200, cursor=cursor)
    assert (len(rest["messages"]), rest["has_more"]) == (1 + 5, False)
