"""The client's connection to Countersign: retries, refusals, and where its key is sent."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from countersign import Countersign, NotAllowed, Unreachable
from countersign.wire import ApiTransport
from tests.client.shop import Shop
from tests.stories.harness import SUPPORT
from tests.stories.over_http import free_port


@contextmanager
def serve(*answers: tuple[int, str]) -> Iterator[tuple[str, list[str]]]:
    """Serve these statuses and bodies in turn; yield the address and the paths asked for."""
    heard: list[str] = []

    class AnswerHandler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = answers[len(heard) % len(answers)]
            heard.append(self.path)
            self.send_response(status)
            self.send_header("Location", f"http://{self.headers['Host']}/somewhere")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    server = HTTPServer(("127.0.0.1", 0), AnswerHandler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", heard
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_key_goes_to_no_other_address() -> None:
    """A redirect is named in the error, not followed."""
    with serve((HTTPStatus.TEMPORARY_REDIRECT, "")) as (url, heard):
        with pytest.raises(Unreachable, match=f"{url}/somewhere"):
            Countersign(url, "csk_x").get_request("anything")
        assert len(heard) == 1


@pytest.mark.parametrize("status", [408, 429, 502])
def test_a_proxy_that_cannot_answer_now_is_asked_again(status: int) -> None:
    """Its page is no answer of Countersign."""
    with serve((status, "<h1>Not now</h1>"), (200, "{}")) as (url, heard):
        assert ApiTransport(url, "csk_x").get("/v1/requests/x", patience=5.0) == {}
        assert len(heard) == 2


@pytest.mark.parametrize("body", ["<h1>Sign in to this network</h1>", "[" * 100_000])
def test_an_answer_that_is_not_countersigns_is_an_error(body: str) -> None:
    """A hotel's page, for example."""
    with serve((200, body)) as (url, _), pytest.raises(Unreachable, match="not Countersign"):
        ApiTransport(url, "csk_x").get("/v1/requests/x")


@pytest.mark.parametrize(
    ("url", "key", "says"),
    [
        ("", "csk_x", "COUNTERSIGN_URL"),
        ("countersign.example.com", "csk_x", "COUNTERSIGN_URL"),
        ("file:///etc/passwd", "csk_x", "COUNTERSIGN_URL"),
        ("http://[::1", "csk_x", "COUNTERSIGN_URL"),
        ("http://127.0.0.1:99999", "csk_x", "COUNTERSIGN_URL"),
        ("https://countersign..example.com", "csk_x", "COUNTERSIGN_URL"),
        (f"https://{'x' * 64}.example.com", "csk_x", "COUNTERSIGN_URL"),
        ("https://count ersign.example.com", "csk_x", "COUNTERSIGN_URL"),
        ("https://ben:a-password@countersign.example.com/x", "csk_x", "COUNTERSIGN_URL"),
        ("https://countersign.example.com", "csk_ü", "COUNTERSIGN_API_KEY"),
        ("https://countersign.example.com", "csk_a\nb", "COUNTERSIGN_API_KEY"),
        ("https://countersign.example.com", "", "COUNTERSIGN_API_KEY"),
        ("https://countersign.example.com", "a-signing-key", "COUNTERSIGN_API_KEY"),
    ],
)
def test_an_impossible_address_or_key_is_refused(
    url: str, key: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is sent. The error names the variable, not its value."""
    for name in ("COUNTERSIGN_URL", "COUNTERSIGN_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(NotAllowed, match=says) as told:
        Countersign(url, key)
    assert "a-" not in str(told.value)


def test_a_line_end_in_address_or_key_is_ignored(shop: Shop, monkeypatch: Any) -> None:
    """Secrets made from files end with one."""
    for name in ("COUNTERSIGN_URL", "COUNTERSIGN_API_KEY"):
        monkeypatch.setenv(name, f"{os.environ[name]}\n")
    with pytest.raises(NotAllowed, match="has no request none"):
        Countersign().get_request("none")


def test_demands_on_approvers_need_verification(shop: Shop, monkeypatch: Any) -> None:
    """Only a receipt says who approved: without checking it, nothing is asked."""
    monkeypatch.delenv("COUNTERSIGN_VERIFY", raising=False)
    for demanded in ({"approvers": 2}, {"passkeys": True}):
        with pytest.raises(NotAllowed, match="`verify`"):
            Countersign(**demanded)


def test_a_server_that_does_not_answer_is_tried_again() -> None:
    """For as long as it may take; then it raises."""
    wire = ApiTransport(f"http://127.0.0.1:{free_port()}", "csk_x")
    with pytest.raises(Unreachable, match="does not answer"):
        wire.get("/v1/requests/x", patience=0.6)


def test_refusals_raise_with_the_servers_words(shop: Shop) -> None:
    """A wrong key, somebody else's request, fields that do not fit."""
    web = shop.harness.app.endpoints.web
    assert web is not None
    with pytest.raises(NotAllowed, match="key"):
        Countersign(web.url, "csk_none").get_request("x")
    with pytest.raises(NotAllowed):
        shop.client.get_request("nobody/../s")
    with pytest.raises(NotAllowed, match=r"^arguments.text: [^;]+$"):
        shop.client.request("note", {"env": "prod"}, channel=SUPPORT)


def test_asking_claiming_and_reporting_twice_counts_once(shop: Shop) -> None:
    """As after a lost answer."""
    first, again = (shop.ask("5.1", run="twice") for _ in range(2))
    assert first.id == again.id
    shop.approve("Deploy 5.1 to prod")
    assert shop.client.wait(first.id, 30).decided_by == ("UANA00001",)
    claimant = "the only one of them"
    claimant = claimant.replace(" ", "-")
    assert shop.client.claim(first.id, claimant) == shop.client.claim(first.id, claimant)
    for _ in range(2):
        said = shop.client.report(first.id, claimant, succeeded=True, result={"version": "5.1"})
    assert said.result == {"version": "5.1"}
    assert said.has_ended
    with pytest.raises(NotAllowed):
        shop.client.report(first.id, claimant, succeeded=False, result="it was not me")
    with pytest.raises(NotAllowed):
        shop.client.cancel(first.id)
