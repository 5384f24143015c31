"""The client whose connections stay open, over the wire: kept, found dead, cut, retried."""

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
    """Stands between client and Slack, counts the connections and ends them on demand."""

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
        """End every connection, as a server does that has waited long enough."""
        ended, self._open = self._open, []
        for each in ended:
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                each.close()

    def close(self) -> None:
        """Serve nobody any more."""
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
    """One that repeats nothing, as the client that posts."""
    made = SlackClient(slack.bot_token, base_url=relay.url, retry_handlers=[], timeout=10)
    yield made
    made.close()


def post(client: WebClient, text: str) -> Any:
    return client.chat_postMessage(channel=SUPPORT, text=text)


def times(slack: Sandbox, text: str) -> int:
    """How many messages with this text there are."""
    return sum(m["text"] == text for m in slack.person("ana").messages(SUPPORT))


def test_calls_share_one_connection(client: SlackClient, relay: Relay, slack: Sandbox) -> None:
    """Calls of all kinds, answers with errors among them, travel on one connection."""
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
    assert (relay.count, times(slack, "one"), times(slack, "two")) == (1, 1, 1)


def test_answers_are_those_of_slack_sdk(client: SlackClient, slack: Sandbox) -> None:
    """Data, status and header names of an answer are the plain WebClient's."""
    plain = WebClient(slack.bot_token, base_url=slack.api_url, retry_handlers=[])
    ours, theirs = client.auth_test(), plain.auth_test()
    assert (ours.data | {"url": ""}) == (theirs.data | {"url": ""})  # type: ignore[operator] # may be bytes elsewhere
    assert ours.status_code == theirs.status_code
    assert set(theirs.headers) - set(ours.headers) <= {"Connection"}


def test_a_token_of_its_own_counts(client: SlackClient, relay: Relay) -> None:
    """A call may carry another token, and the next one carries the client's again."""
    with pytest.raises(SlackApiError, match="invalid_auth"):
        client.auth_test(token="xoxb-nobody")
    assert client.auth_test()["ok"]
    assert relay.count == 1


def test_pages_and_files_go_through(client: SlackClient, slack: Sandbox) -> None:
    """Pages of an answer are read to the end, and a file is uploaded."""
    thread = post(client, "root")["ts"]
    for number in range(3):
        client.chat_postMessage(channel=SUPPORT, thread_ts=thread, text=f"reply {number}")
    pages = client.conversations_replies(channel=SUPPORT, ts=thread, limit=2)
    found = [message["text"] for page in pages for message in page["messages"]]
    assert [text for text in found if text != "root"] == [f"reply {n}" for n in range(3)]
    client.files_upload_v2(channel=SUPPORT, filename="rows.csv", content="a,b\n1,2\n")
    files = [f for m in slack.person("ana").messages(SUPPORT) for f in m.get("files") or []]
    assert "rows.csv" in [f["name"] for f in files]


def test_an_ended_connection_is_noticed(client: SlackClient, relay: Relay, slack: Sandbox) -> None:
    """What the server closed meanwhile is not used again: the next post arrives, once."""
    post(client, "before the end")
    relay.end_all()
    slack.wait(lambda: not module._is_connection_reusable(client._connections._idle[0][0]))
    post(client, "after the end")
    assert (relay.count, times(slack, "after the end")) == (2, 1)


def test_an_old_connection_is_not_trusted(
    client: SlackClient, relay: Relay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a while without a call a new connection is made, though the old one seems to live."""
    post(client, "fresh")
    monkeypatch.setattr(module, "MAX_IDLE_SECONDS", 0.0)
    post(client, "later")
    assert relay.count == 2


@pytest.mark.parametrize("kept", [False, True], ids=["new connection", "kept connection"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_cut_post_is_not_repeated(
    client: SlackClient, slack: Sandbox, when: Any, kept: bool
) -> None:
    """A connection that breaks once the request was sent raises what urllib raises.

    The post is there at most once.
    """
    if kept:
        client.auth_test()
    text = f"cut {when} {kept}"
    slack.faults.drop("chat.postMessage", when=when)
    with pytest.raises((OSError, HTTPException)):
        post(client, text)
    assert times(slack, text) == (when == "after")
    sent = [c for c in slack.requests if c.method == "chat.postMessage" and c.args["text"] == text]
    assert len(sent) == 1
    post(client, text + " again")
    assert times(slack, text + " again") == 1


def test_no_answer_in_time(slack: Sandbox, relay: Relay) -> None:
    """A call that is not answered in time raises TimeoutError, and its connection is not kept."""
    client = SlackClient(slack.bot_token, base_url=relay.url, retry_handlers=[], timeout=1)
    slack.faults.hang("auth.test")
    with pytest.raises(TimeoutError):
        client.auth_test()
    assert client.auth_test()["ok"]
    assert relay.count == 2
    client.close()


def test_nobody_listens_at_the_address() -> None:
    """An address where nobody listens is a URLError, as slack_sdk's retry handlers know it."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    client = SlackClient("xoxb-1", base_url=f"http://127.0.0.1:{port}/api/", retry_handlers=[])
    with pytest.raises(OSError, match="urlopen error"):
        client.auth_test()


def test_retry_handlers_are_asked(slack: Sandbox, relay: Relay) -> None:
    """A client with handlers waits out a 429 and repeats a call whose connection broke."""
    handlers = [RateLimitErrorRetryHandler(), ConnectionErrorRetryHandler()]
    client = SlackClient(slack.bot_token, base_url=relay.url, retry_handlers=handlers)
    slack.faults.rate_limit("auth.test", retry_after=0)
    assert client.auth_test()["ok"]
    slack.faults.drop("auth.test")
    assert client.auth_test()["ok"]
    client.close()


def test_too_many_requests_without_handlers(client: SlackClient, slack: Sandbox) -> None:
    """A 429 is an error that carries how long to wait."""
    slack.faults.rate_limit("chat.postMessage", retry_after=7)
    with pytest.raises(SlackApiError) as caught:
        post(client, "too many")
    assert caught.value.response.status_code == 429
    assert caught.value.response.headers["Retry-After"] == "7"
    assert times(slack, "too many") == 0


def test_many_threads_at_once(client: SlackClient, relay: Relay, slack: Sandbox) -> None:
    """Eight threads post at once: each answer belongs to its post, on eight connections at most."""

    def say(number: int) -> bool:
        return bool(post(client, f"many {number}")["message"]["text"] == f"many {number}")

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(say, range(40)))
    assert relay.count <= 8
    assert [times(slack, f"many {number}") for number in range(40)] == [1] * 40


def test_a_closed_client_keeps_nothing(client: SlackClient, relay: Relay) -> None:
    """Closing ends the connections; a call that comes later has one of its own."""
    client.auth_test()
    client.close()
    for _ in range(2):
        assert client.auth_test()["ok"]
    assert relay.count == 3
    assert not client._connections._idle


@pytest.fixture
def nothing_spared(monkeypatch: pytest.MonkeyPatch) -> None:
    """No address is spared the proxy, whatever was started in this process before."""
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)


def test_a_proxy_is_used(slack: Sandbox, relay: Relay, nothing_spared: None) -> None:
    """Where slack_sdk would go through a proxy, so does this client."""
    proxy = relay.url.removesuffix("/api/")
    client = SlackClient(slack.bot_token, base_url=slack.api_url, proxy=proxy, retry_handlers=[])
    with pytest.raises(SlackApiError):  # the relay is no proxy: the server sees a whole address
        client.auth_test(token="xoxb-nobody")
    assert relay.count == 1


def test_a_proxy_of_the_environment_is_used(
    slack: Sandbox, relay: Relay, monkeypatch: pytest.MonkeyPatch, nothing_spared: None
) -> None:
    """The same for HTTPS_PROXY, which slack_sdk reads for itself."""
    monkeypatch.setenv("HTTPS_PROXY", relay.url.removesuffix("/api/"))
    client = SlackClient(slack.bot_token, base_url=slack.api_url, retry_handlers=[])
    with pytest.raises(SlackApiError):
        client.auth_test(token="xoxb-nobody")
    assert relay.count == 1


def test_requests_are_not_described_for_nobody(slack: Sandbox) -> None:
    """slack_sdk makes its descriptions only where the log's level asks for them."""
    client = SlackClient(slack.bot_token, base_url=slack.api_url)
    assert client.logger.level == logging.getLogger().getEffectiveLevel() > logging.DEBUG
