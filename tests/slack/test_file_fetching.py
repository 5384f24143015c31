"""Fetching files from Slack: limited in size and time, and the token goes nowhere else."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from bot.agent import file_items
from bot.slack import file_reader
from bot.slack.file_reader import FileFetcher, NotFetchedError

Answer = Callable[[BaseHTTPRequestHandler], None]


class Host:
    """A host with given answers, which keeps the tokens that it was sent."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.tokens: list[str | None] = []
        host = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                host.tokens.append(self.headers["Authorization"])
                host.answers.pop(0)(self)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def fetch(
        self, *answers: Answer, most: int = 1000, seconds: float = 5
    ) -> file_reader.FetchedFile:
        """Fetch a file of this host, which gives one of the answers to each try."""
        self.answers = [*answers]
        fetcher = FileFetcher(lambda: "xoxb-secret", f"{self.url}/api/")
        return fetcher.fetch(f"{self.url}/files-pri/a", most, time.monotonic() + seconds)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def host() -> Iterator[Host]:
    made = Host()
    yield made
    made.close()


def build_answer(
    status: int = 200, body: bytes = b"", kind: str = "text/plain", length: int | None = None
) -> Answer:
    """An answer; `length` is announced instead of the true one, a negative one not at all."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        handler.send_header("Content-Type", kind)
        announced = len(body) if length is None else length
        if announced >= 0:
            handler.send_header("Content-Length", str(announced))
        handler.end_headers()
        handler.wfile.write(body)

    return answer


def build_redirect(url: str) -> Answer:
    """An answer that redirects."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(302)
        handler.send_header("Location", url)
        handler.end_headers()

    return answer


def test_a_file_is_fetched_with_the_token_and_pages_are_marked(host: Host) -> None:
    """Its bytes are unchanged; an HTML page is marked as one."""
    got = host.fetch(build_answer(body=b"\x00a,b"))
    assert (got.data, got.is_web_page, host.tokens) == (b"\x00a,b", False, ["Bearer xoxb-secret"])
    assert host.fetch(build_answer(body=b"<p>", kind="text/html; charset=utf-8")).is_web_page


@pytest.mark.parametrize(
    "url",
    [
        "https://evil.example/files-pri/T-F/a",
        "http://files.slack.com/a",
        "https://files.slack.com.evil.example/a",
        "https://files.slack.com@evil.example/a",
        "https://x:y@files.slack.com/a",
        "https://files.slack.com:8443/a",
        "https://evilslack.com/a",
        "http://127.0.0.1:1/a",
        "http://[::1/a",
        "file:///etc/passwd",
        "/etc/passwd",
        "",
    ],
)
def test_the_token_goes_nowhere_else(host: Host, url: str) -> None:
    """Only Slack's hosts for files, over TLS, and the host of the Web API are asked."""
    fetcher = FileFetcher(lambda: "xoxb-secret", f"{host.url}/api/")
    with pytest.raises(NotFetchedError) as failed:
        fetcher.fetch(url, 10, time.monotonic() + 5)
    assert failed.value.reason == file_items.EXTERNAL_FILE_REASON
    assert host.tokens == []


def test_no_redirect_is_followed(host: Host) -> None:
    """Neither to Slack's sign-in page nor to another host."""
    other = Host()
    try:
        for url in (f"{other.url}/signin", f"{host.url}/signin"):
            with pytest.raises(NotFetchedError, match="302") as failed:
                host.fetch(build_redirect(url))
            assert failed.value.reason == file_items.MISSING_SCOPE_REASON
        assert (len(host.tokens), other.tokens) == (2, [])
    finally:
        other.close()


def test_a_file_over_the_limit_is_refused(host: Host) -> None:
    """Whatever length was announced."""
    for length in (None, 5, -1):
        if length == 5:  # no more than announced is read
            assert host.fetch(build_answer(body=b"x" * 2000, length=5)).data == b"xxxxx"
            continue
        with pytest.raises(NotFetchedError, match="more than"):
            host.fetch(build_answer(body=b"x" * 2000, length=length))


def test_a_temporary_failure_is_tried_once_more(host: Host) -> None:
    """A broken connection and a server error are tried again once; a refusal is not."""
    short = build_answer(body=b"half", length=8)
    assert host.fetch(build_answer(500), build_answer(body=b"whole")).data == b"whole"
    assert host.fetch(short, build_answer(body=b"whole")).data == b"whole"
    with pytest.raises(NotFetchedError, match="4 bytes are missing"):
        host.fetch(short, short)
    for status, reason in (
        (403, file_items.MISSING_SCOPE_REASON),
        (404, file_items.HIDDEN_FILE_REASON),
    ):
        with pytest.raises(NotFetchedError) as failed:
            host.fetch(build_answer(status))
        assert failed.value.reason == reason
    assert host.answers == []


def test_a_silent_host_is_given_up_in_time(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """So is one that sends a little at a time, and any once the bot is stopping."""
    monkeypatch.setattr(file_reader, "READ_TIMEOUT_SECONDS", 0.1)
    ended = threading.Event()

    def silent(_: BaseHTTPRequestHandler) -> None:
        ended.wait(5)

    def drips(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        while not ended.wait(0.02):
            handler.wfile.write(b"x")
            handler.wfile.flush()

    began = time.monotonic()
    with pytest.raises(NotFetchedError):
        host.fetch(silent, silent)
    with pytest.raises(NotFetchedError):
        host.fetch(drips, drips, most=10**9, seconds=0.2)
    assert time.monotonic() - began < 4.5

    stopping, asked = threading.Event(), []

    def stops(handler: BaseHTTPRequestHandler) -> None:
        asked.append(handler.path)
        stopping.set()
        drips(handler)

    other = Host()  # a new host: fetches given up may reach the first one only now
    other.answers = [stops]
    fetcher = FileFetcher(lambda: "xoxb-secret", other.url, stopping)
    with pytest.raises(NotFetchedError):
        fetcher.fetch(f"{other.url}/a", 10**9, time.monotonic() + 60)
    ended.set()
    other.close()
    assert asked == ["/a"]
