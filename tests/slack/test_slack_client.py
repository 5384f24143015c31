"""The client that keeps connections open, over the wire: reuse, cuts, retries, proxies."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from typing import Any
from urllib.parse import urlsplit

import pytest
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError
from slack_sdk.http_retry.builtin_handlers import (
    ConnectionErrorRetryHandler,
    RateLimitErrorRetryHandler,
)

from bot.slack import client as module
from bot.slack.client import SlackClient
from slack_sandbox.server import Sandbox
from tests.local_slack import build_local_slack

SUPPORT = "C0SUPPORT"


class Relay:
    """Stands between client and Slack, counts connections and ends them on demand."""

    def __init__(self, far: tuple[str, int]) -> None:
        self._far = far
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/api/"
        self.count = 0
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection(self._far)
            self.count += 1
            self._open += [near, far]
            for source, target in ((near, far), (far, near)):
                thread = threading.Thread(target=_pump, args=(source, target), daemon=True)
                thread.start()
                self._threads.append(thread)

    def end_all(self) -> None:
        """End every connection, as a server does after an idle time."""
        ended, self._open = self._open, []
        for each in ended:
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                each.close()

    def close(self) -> None:
        """Accept no more connections."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.end_all()
        for thread in self._threads:
            thread.join(30)


def _pump(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65_536):
            target.sendall(data)
    except OSError:
        return
    finally:
        for each in (source, target):
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                each.close()


@pytest.fixture(scope="module")
def slack() -> Iterator[Sandbox]:
    with build_local_slack() as running:
        yield running


@pytest.fixture
def relay(slack: Sandbox) -> Iterator[Relay]:
    parts = urlsplit(slack.api_url)
    made = Relay((str(parts.hostname), int(parts.port or 0)))
    yield made
    slack.faults.clear()
    made.close()


@pytest.fixture
def client(slack: Sandbox, relay: Relay) -> Iterator[SlackClient]:
    """One without retries, like the client that posts."""
    made = SlackClient(slack.bot_token, base_url=relay.url, retry_handlers=[], timeout=10)
    yield made
    made.close()


def post(client: WebClient, text: str) -> Any:
    return client.chat_postMessage(channel=SUPPORT, text=text)


def count_messages(slack: Sandbox, text: str) -> int:
    """How many messages with this text there are."""
    return sum(m["text"] == text for m in slack.person("ana").messages(SUPPORT))


def test_calls_share_one_connection(client: SlackClient, relay: Relay, slack: Sandbox) -> None:
    """So do answers with errors."""
    post(client, "one")
    client.auth_test()
    client.users_info(user="UANA00001")
    with pytest.raises(SlackApiError, match="channel_not_found"):
        client.chat_postMessage(channel="C0NOWHERE", text="lost")
    slack.faults.status("auth.test", 500)
    with pytest.raises(SlackApiError) as caught:
        client.auth_test()
    assert caught.value.response.status_code == 500
    post(client, "two")
    assert (relay.count, count_messages(slack, "one"), count_messages(slack, "two")) == (1, 1, 1)


def test_answers_equal_those_of_slack_sdk(client: SlackClient, slack: Sandbox) -> None:
    """Data, status and header names are those of the plain WebClient."""
    plain = WebClient(slack.bot_token, base_url=slack.api_url, retry_handlers=[])
    ours, theirs = client.auth_test(), plain.auth_test()
    assert (ours.data | {"url": ""}) == (theirs.data | {"url": ""})  # type: ignore[operator] # may be bytes elsewhere
    assert ours.status_code == theirs.status_code
    assert set(theirs.headers) - set(ours.headers) <= {"Connection"}


def test_a_call_may_carry_its_own_token(client: SlackClient, relay: Relay) -> None:
    """The next call carries the client's token again."""
    with pytest.raises(SlackApiError, match="invalid_auth"):
        client.auth_test(token="xoxb-nobody")
    assert client.auth_test()["ok"]
    assert relay.count == 1


def test_paging_and_file_uploads_work(client: SlackClient, slack: Sandbox) -> None:
    """All pages of an answer are read, and a file is uploaded."""
    thread = post(client, "root")["ts"]
    for number in range(3):
        client.chat_postMessage(channel=SUPPORT, thread_ts=thread, text=f"reply {number}")
    pages = client.conversations_replies(channel=SUPPORT, ts=thread, limit=2)
    found = [message["text"] for page in pages for message in page["messages"]]
    assert [text for text in found if text != "root"] == [f"reply {n}" for n in range(3)]
    client.files_upload_v2(channel=SUPPORT, filename="rows.csv", content="a,b\n1,2\n")
    files = [f for m in slack.person("ana").messages(SUPPORT) for f in m.get("files") or []]
    assert "rows.csv" in [f["name"] for f in files]


def test_a_connection_closed_by_the_server_is_not_reused(
    client: SlackClient, relay: Relay, slack: Sandbox
) -> None:
    """The next post arrives, once, on a new connection."""
    post(client, "before the end")
    relay.end_all()
    slack.wait(lambda: not module._is_connection_reusable(client._connections._idle[0][0]))
    post(client, "after the end")
    assert (relay.count, count_messages(slack, "after the end")) == (2, 1)


def test_a_connection_idle_for_too_long_is_not_reused(
    client: SlackClient, relay: Relay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if it seems to be alive."""
    post(client, "fresh")
    monkeypatch.setattr(module, "MAX_IDLE_SECONDS", 0.0)
    post(client, "later")
    assert relay.count == 2


@pytest.mark.parametrize("kept", [False, True], ids=["new connection", "kept connection"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_cut_post_is_not_repeated(
    client: SlackClient, slack: Sandbox, when: Any, kept: bool
) -> None:
    """It raises what urllib raises, and the post is there at most once."""
    if kept:
        client.auth_test()
    text = f"cut {when} {kept}"
    slack.faults.drop("chat.postMessage", when=when)
    with pytest.raises((OSError, HTTPException)):
        post(client, text)
    assert count_messages(slack, text) == (when == "after")
    sent = [c for c in slack.requests if c.method == "chat.postMessage" and c.args["text"] == text]
    assert len(sent) == 1
    post(client, text + " again")
    assert count_messages(slack, text + " again") == 1


def test_a_call_not_answered_in_time_raises_timeout_error(slack: Sandbox, relay: Relay) -> None:
    """Its connection is not kept."""
    client = SlackClient(slack.bot_token, base_url=relay.url, retry_handlers=[], timeout=1)
    slack.faults.hang("auth.test")
    with pytest.raises(TimeoutError):
        client.auth_test()
    assert client.auth_test()["ok"]
    assert relay.count == 2
    client.close()


def test_an_address_where_nobody_listens_raises_url_error() -> None:
    """So that slack_sdk's retry handlers recognise it."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    client = SlackClient("xoxb-1", base_url=f"http://127.0.0.1:{port}/api/", retry_handlers=[])
    with pytest.raises(OSError, match="urlopen error"):
        client.auth_test()


def test_retry_handlers_repeat_calls(slack: Sandbox, relay: Relay) -> None:
    """They wait out a 429 and repeat a call whose connection broke."""
    handlers = [RateLimitErrorRetryHandler(), ConnectionErrorRetryHandler()]
    client = SlackClient(slack.bot_token, base_url=relay.url, retry_handlers=handlers)
    slack.faults.rate_limit("auth.test", retry_after=0)
    assert client.auth_test()["ok"]
    slack.faults.drop("auth.test")
    assert client.auth_test()["ok"]
    client.close()


def test_a_429_without_retry_handlers_raises_an_error(client: SlackClient, slack: Sandbox) -> None:
    """The error says how long to wait."""
    slack.faults.rate_limit("chat.postMessage", retry_after=7)
    with pytest.raises(SlackApiError) as caught:
        post(client, "too many")
    assert caught.value.response.status_code == 429
    assert caught.value.response.headers["Retry-After"] == "7"
    assert count_messages(slack, "too many") == 0


def test_eight_threads_can_post_at_once(client: SlackClient, relay: Relay, slack: Sandbox) -> None:
    """Each answer belongs to its post, on eight connections at most."""

    def say(number: int) -> bool:
        return bool(post(client, f"many {number}")["message"]["text"] == f"many {number}")

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(say, range(40)))
    assert relay.count <= 8
    assert [count_messages(slack, f"many {number}") for number in range(40)] == [1] * 40


def test_a_closed_client_keeps_no_connection(client: SlackClient, relay: Relay) -> None:
    """Each later call has a connection of its own."""
    client.auth_test()
    client.close()
    for _ in range(2):
        assert client.auth_test()["ok"]
    assert relay.count == 3
    assert not client._connections._idle


@pytest.fixture
def no_proxy_exceptions(monkeypatch: pytest.MonkeyPatch) -> None:
    """No address is excepted from the proxy, whatever ran in this process before."""
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)


def test_a_proxy_is_used(slack: Sandbox, relay: Relay, no_proxy_exceptions: None) -> None:
    """As slack_sdk does."""
    proxy = relay.url.removesuffix("/api/")
    client = SlackClient(slack.bot_token, base_url=slack.api_url, proxy=proxy, retry_handlers=[])
    with pytest.raises(SlackApiError):  # the relay is no proxy: the server gets an absolute URL
        client.auth_test(token="xoxb-nobody")
    assert relay.count == 1


def test_a_proxy_of_the_environment_is_used(
    slack: Sandbox, relay: Relay, monkeypatch: pytest.MonkeyPatch, no_proxy_exceptions: None
) -> None:
    """HTTPS_PROXY, which slack_sdk reads itself."""
    monkeypatch.setenv("HTTPS_PROXY", relay.url.removesuffix("/api/"))
    client = SlackClient(slack.bot_token, base_url=slack.api_url, retry_handlers=[])
    with pytest.raises(SlackApiError):
        client.auth_test(token="xoxb-nobody")
    assert relay.count == 1


def test_requests_are_described_only_when_logged(slack: Sandbox) -> None:
    """slack_sdk describes requests only at log level DEBUG."""
    client = SlackClient(slack.bot_token, base_url=slack.api_url)
    assert client.logger.level == logging.getLogger().getEffectiveLevel() > logging.DEBUG
