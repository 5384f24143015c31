"""The pages on which people sign, requested by browsers, bots and attackers."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from anyio import CapacityLimiter, to_thread
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from webauthn.helpers import base64url_to_bytes

from bot import inbound_connections
from bot.cards import passkey_views
from bot.cards.action_names import Action
from bot.config.connection_settings import ListeningAddress, Transport
from bot.http import signing_pages
from bot.http.api_gate import MAX_SIGNING_REQUESTS
from bot.http.http_side import build_web_app
from bot.http.server import WebServer
from storage.models import Audit, Call, Delivery
from storage.states import CallStatus, DeliveryKind
from tests.authenticator import Authenticator
from tests.stories.harness import POLICY, SUPPORT, Harness
from tests.stories.signing import PEOPLE, add_passkey, links_of
from tests.stories.steps import arrived, forget_people, open_modal, press, typed
from tests.web import signing as steps

UNKNOWN_TOKEN = "A" * 43
# looks like an authenticator's answer, but is no valid signature
CREDENTIAL = {
    "id": "AAAA",
    "rawId": "AAAA",
    "type": "public-key",
    "response": {"clientDataJSON": "e30", "authenticatorData": "AAAA", "signature": "AAAA"},
    "name": "",
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """The whole product with a policy that requires signatures."""
    world = steps.build_signing_harness(tmp_path_factory.mktemp("signing"))
    yield world
    world.close()


def read_rows(world: Harness) -> list[str]:
    """Read all rows that a decision may change."""
    tables = (Audit, Call, Delivery)
    return [repr(each) for table in tables for each in world.all(table)]


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_opening_a_link_changes_nothing(world: Harness, method: str) -> None:
    """Slack's preview, a scanner or the person may open it any number of times."""
    for url in (
        steps.issue_link(world, steps.ask_for(world)),
        steps.issue_enrolment_link(world),
    ):
        before = read_rows(world)
        for agent in ("Slackbot-LinkExpanding 1.0", "Mozilla/5.0", "Mozilla/5.0"):
            answer, text = steps.fetch(url, method, User_Agent=agent)
            assert answer.status == 200
            assert ("Ana Ruiz" in text) is (method == "GET")
            outcome, _ = steps.fetch(f"{url}/outcome", method)
            assert outcome.status == 404
        assert read_rows(world) == before


def test_the_signing_page_shows_the_whole_call(world: Harness) -> None:
    """It shows effect, values, requester and deadline, and runs no foreign script."""
    evil = '</script><script>alert(1)</script> & "<!here>'
    thread = steps.ask_for(world, ("cancel_order", {"order_id": "1043", "reason": evil}))
    answer, text = steps.fetch(steps.issue_link(world, thread, "cleo"))
    assert "Sign as Cleo Martin" in text
    assert "Cancel order 1043" in text
    assert "This cannot be undone." in text
    assert "&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt; &amp; " in text
    assert "alert(1)</script>" not in text
    assert "<bdi>@Ben Okafor</bdi>" in text
    assert "Decide by <time datetime=" in text
    assert "Sign and approve" in text
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"


def test_a_person_who_is_shown_a_masked_call_is_in_the_audit(world: Harness) -> None:
    """The signing page shows more than the card does."""
    add_passkey(world, "ana", Authenticator(rp_id="localhost"))
    secret = "the login is password=hunter2-hunter2"
    thread = steps.ask_for(world, ("note", {"text": secret}))
    card = world.card(SUPPORT, thread, having="review")
    before = len(links_of(world, "ana", "http://localhost"))
    open_modal(world, "ana", SUPPORT, card, Action.REVIEW)
    assert world.person("ana").submit()["outcome"] == "closed"
    world.slack.wait(lambda: len(links_of(world, "ana", "http://localhost")) > before)
    _, text = steps.fetch(links_of(world, "ana", "http://localhost")[-1])
    assert secret in html.unescape(text)
    assert "This access is logged." in text
    [call] = world.calls_in(thread)
    found = world.all(Audit, Audit.call_id == call.id, Audit.event == "call.revealed")
    assert [json.loads(each.data)["dialog"] for each in found] == ["review", "open_page"]
    assert {each.actor for each in found} == {PEOPLE["ana"]}


def test_the_signing_page_allows_only_its_own_script_and_style(world: Harness) -> None:
    """Its Content-Security-Policy has their hashes, and it loads nothing."""
    answer, text = steps.fetch(steps.issue_enrolment_link(world))
    rules = dict(
        each.strip().split(" ", 1) for each in answer.headers["Content-Security-Policy"].split(";")
    )
    for name, tag in (("script-src", "script"), ("style-src", "style")):
        [inner] = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inner.encode()).digest()).decode()
        assert rules[name] == f"'sha256-{digest}'"
    for name in ("default-src", "frame-ancestors", "form-action", "base-uri"):
        assert rules[name] == "'none'"
    assert "http" not in re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "publickey-credentials-get=(self)" in answer.headers["Permissions-Policy"]
    assert not re.search(r' (?:on\w+|style)="', text)


@pytest.mark.parametrize("path", ["/sign", "/passkeys"])
@pytest.mark.parametrize("token", [UNKNOWN_TOKEN, "x", "%00", "hook-claude", "é", "a" * 4_000])
def test_an_unknown_signing_link_is_not_found(world: Harness, path: str, token: str) -> None:
    """The token may contain anything."""
    url = f"{world.app.core.settings.url}{path}/{quote(token, safe='%')}"
    answer, text = steps.fetch(url)
    assert (answer.status, html.escape(signing_pages.UNKNOWN_LINK_ERROR) in text) == (404, True)
    assert steps.post(url, CREDENTIAL) == (404, {"detail": signing_pages.UNKNOWN_LINK_ERROR})
    assert steps.fetch(f"{url}/outcome")[0].status == 404
    assert steps.fetch(url, "PUT")[0].status == 405


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": ""},
        {"Origin": "http://localhost"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
        {"Sec_Fetch_Site": "none"},
    ],
)
def test_a_post_from_another_page_is_refused(world: Harness, headers: dict[str, str]) -> None:
    """The link still works afterwards."""
    url = steps.issue_link(world, steps.ask_for(world))
    assert steps.post(url, CREDENTIAL, **headers) == (
        403,
        {"detail": signing_pages.NOT_FROM_PAGE_ERROR},
    )
    assert steps.fetch(url)[0].status == 200


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"x" * 16_385, {}, 413),
        (json.dumps(CREDENTIAL | {"more": "x" * 16_384}).encode(), {}, 413),
        (b"not json", {}, 400),
        (b"[]", {}, 400),
        (b'{"id": "a", "id": "b"}', {}, 400),
        (json.dumps(CREDENTIAL | {"response": {}}).encode(), {}, 400),
        (json.dumps(CREDENTIAL | {"id": 1}).encode(), {}, 400),
        (b"", {}, 400),
        (json.dumps(CREDENTIAL).encode(), {"Content_Type": "text/plain"}, 415),
        (json.dumps(CREDENTIAL).encode(), {"Content_Encoding": "gzip"}, 415),
    ],
)
def test_a_post_that_cannot_be_read_is_refused(
    world: Harness, body: bytes, headers: dict[str, str], status: int
) -> None:
    """It is too long, or no authenticator's answer. The link still works."""
    url = steps.issue_link(world, steps.ask_for(world))
    found, said = steps.post(url, body, **headers)
    assert found == status, said
    assert said["detail"]
    assert steps.fetch(url)[0].status == 200


def test_a_vote_signed_in_a_browser_is_decided(world: Harness) -> None:
    """The page says what to sign and with which keys; its post is stored, then decided."""
    origin = world.app.core.settings.url
    key = Authenticator(rp_id="localhost", origin=str(origin))
    add_passkey(world, "ana", key, transports="internal,hybrid")
    thread = steps.ask_for(world, steps.NOTE)
    url = steps.press_approve(world, thread)
    _, page = steps.fetch(url)
    [asked] = re.findall(r'data-options="([^"]*)"', page)
    options = json.loads(html.unescape(asked))
    assert (options["rpId"], options["userVerification"]) == ("localhost", "required")
    assert {
        "type": "public-key",
        "id": key.credential_id,
        "transports": ["internal", "hybrid"],
    } in options["allowCredentials"]
    signed = key.sign(base64url_to_bytes(options["challenge"]))
    assert steps.post(url, signed | {"name": ""})[0] == 202
    assert any(each.kind is DeliveryKind.SIGNATURE for each in world.all(Delivery))
    world.slack.wait(lambda: steps.fetch(f"{url}/outcome")[0].status == 200)
    assert steps.post(url, signed)[1]["detail"] == passkey_views.SIGNED_REPLY
    world.settle()
    [call] = world.calls_in(thread)
    assert call.status is CallStatus.SUCCEEDED


def test_the_page_waits_while_its_vote_is_being_decided(world: Harness) -> None:
    """Slack is asked who Ana is; what her page posts meanwhile changes nothing."""
    key = Authenticator(rp_id="localhost", origin=str(world.app.core.settings.url))
    add_passkey(world, "ana", key)
    url = steps.press_approve(world, steps.ask_for(world, steps.NOTE))
    [asked] = re.findall(r'data-options="([^"]*)"', steps.fetch(url)[1])
    challenge = json.loads(html.unescape(asked))["challenge"]
    signed = key.sign(base64url_to_bytes(challenge)) | {"name": ""}
    world.settle()
    forget_people(world)
    hold = world.slack.faults.hold("users.info", person="ana")
    assert steps.post(url, signed)[0] == 202
    assert hold.arrived.wait(30)
    assert steps.fetch(f"{url}/outcome")[0].status == 202
    assert steps.post(url, signed)[0] == 202
    answer, text = steps.fetch(url)
    assert (answer.status, signing_pages.BEING_DECIDED_NOTICE in html.unescape(text)) == (410, True)
    hold.release()
    world.slack.wait(lambda: steps.fetch(f"{url}/outcome")[0].status == 200)
    world.settle()


def test_a_posted_signature_is_decided_once(world: Harness) -> None:
    """It is stored before it is answered. A second post changes nothing."""
    thread = steps.ask_for(world)
    url = steps.issue_link(world, thread)
    assert steps.post(url, CREDENTIAL)[0] == 202
    again = steps.post(url, CREDENTIAL | {"id": "BBBB", "rawId": "BBBB"})
    assert again[0] in (200, 202)
    world.settle()
    found = [each for each in world.all(Delivery) if each.key.startswith("sign:")]
    assert (
        len([each for each in found if json.loads(each.body)["call"] == get_call_id(world, thread)])
        == 1
    )
    answer, text = steps.fetch(f"{url}/outcome")
    assert answer.status == 200
    said = json.loads(text)["detail"]
    assert said == passkey_views.UNKNOWN_PASSKEY_REPLY
    answer, text = steps.fetch(url)
    assert answer.status == 410
    assert said in text
    assert "<button" not in text
    assert world.calls_in(thread)[-1].status is CallStatus.PENDING


def get_call_id(world: Harness, thread: str) -> str:
    """Get the id of the last call of a thread."""
    return str(world.calls_in(thread)[-1].id)


def test_a_signing_link_expires_after_five_minutes(world: Harness) -> None:
    """The page says so, and posts are refused."""
    url = steps.issue_link(world, steps.ask_for(world))
    world.clock.advance(300)
    expect_refusal(url, passkey_views.EXPIRED_LINK_REPLY)


def test_a_call_decided_meanwhile_cannot_be_signed(world: Harness) -> None:
    """The page says that it is too late, and has no button."""
    thread = steps.ask_for(world)
    url = steps.issue_link(world, thread)
    press(world, "ana", SUPPORT, world.card(SUPPORT, thread), Action.REJECT_NOW)
    arrived(world)
    expect_refusal(url, passkey_views.ALREADY_DECIDED_REPLY)


def test_a_call_edited_meanwhile_cannot_be_signed(world: Harness) -> None:
    """The page says that it has changed, and shows no values."""
    thread = steps.ask_for(world)
    url = steps.issue_link(world, thread)
    open_modal(world, "cleo", SUPPORT, world.card(SUPPORT, thread, "cleo"), Action.EDIT)
    world.person("cleo").submit(typed(amount="41.00"))
    arrived(world)
    assert "41.00" not in expect_refusal(url, passkey_views.CHANGED_SINCE_REPLY)


def expect_refusal(url: str, sentence: str) -> str:
    """Fail unless the page says only this, and refuses posts; returns the page."""
    answer, text = steps.fetch(url)
    assert (answer.status, html.escape(sentence) in text) == (410, True)
    assert "<button" not in text
    assert steps.post(url, CREDENTIAL) == (410, {"detail": sentence})
    assert steps.fetch(f"{url}/outcome")[0].status == 404
    return text


def test_a_stopping_process_refuses_signatures(world: Harness, monkeypatch: Any) -> None:
    """The page asks to try again; the same post is accepted later."""
    url = steps.issue_link(world, steps.ask_for(world))
    web = world.app.endpoints.web
    assert web is not None
    monkeypatch.setattr(web, "_is_closed", True)
    assert steps.post(url, CREDENTIAL) == (503, {"detail": signing_pages.RESTARTING_ERROR})
    monkeypatch.undo()
    assert steps.post(url, CREDENTIAL)[0] == 202


def test_there_is_no_signing_page_without_a_url(tmp_path: Path) -> None:
    """COUNTERSIGN_URL is not set."""
    world = steps.build_signing_harness(tmp_path, POLICY.read_text("utf-8"), COUNTERSIGN_URL="")
    try:
        web = world.app.endpoints.web
        assert web is not None
        answer, _ = steps.fetch(f"{web.url}/sign/{UNKNOWN_TOKEN}")
        assert answer.status == 404
        assert "Content-Security-Policy" not in answer.headers
    finally:
        world.close()


@pytest.mark.parametrize("asks", [True, False])
def test_run_serves_signing_pages_only_if_the_policy_needs_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asks: bool
) -> None:
    """Without COUNTERSIGN_HTTP they are at the default address."""
    usual = ListeningAddress("127.0.0.1", 0)  # the default one may be in use on this machine
    monkeypatch.setattr(inbound_connections, "DEFAULT_ADDRESS", usual)
    policy = steps.SIGNED if asks else POLICY.read_text("utf-8")
    world = steps.build_signing_harness(tmp_path, policy, COUNTERSIGN_HTTP="")
    try:
        web = world.app.endpoints.web
        assert (web is not None) is asks
        if web is not None:
            assert web.url.startswith("http://127.0.0.1:")
            answer, text = steps.fetch(f"{web.url}/sign/{UNKNOWN_TOKEN}")
            assert (answer.status, signing_pages.UNKNOWN_LINK_ERROR in text) == (404, True)
    finally:
        world.close()


def test_serve_has_signing_pages_too(tmp_path: Path) -> None:
    """They are at the same address as Slack's requests."""
    url = {"COUNTERSIGN_URL": "https://approve.example.com/team"}
    world = Harness(tmp_path, policy=steps.SIGNED, transport=Transport.HTTP, **url)
    try:
        web = world.app.endpoints.web
        assert web is not None
        link = steps.issue_link(world, steps.ask_for(world))
        assert link.startswith("https://approve.example.com/team/sign/")
        here = f"{web.url}/sign/{link.rpartition('/')[2]}"
        assert "Sign as Ana Ruiz" in steps.fetch(here)[1]
        assert steps.post(here, CREDENTIAL)[0] == 403
        assert steps.post(here, CREDENTIAL, Origin="https://approve.example.com")[0] == 202
    finally:
        world.close()


def test_too_many_signing_requests_at_once_are_refused() -> None:
    """The health page is still answered."""
    entered, go = threading.Semaphore(0), threading.Event()

    async def slow(_: Request) -> Response:
        entered.release()
        await to_thread.run_sync(go.wait, limiter=CapacityLimiter(1))
        return Response()

    server = WebServer.create_listening_server(ListeningAddress("127.0.0.1", 0))
    pages = {"/healthz": lambda: PlainTextResponse("alive")}
    server.start(build_web_app(pages, None, signing=[Route("/sign/{token}", slow)]))
    try:
        with ThreadPoolExecutor(MAX_SIGNING_REQUESTS) as people:
            first = [
                people.submit(steps.fetch, f"{server.url}/sign/x")
                for _ in range(MAX_SIGNING_REQUESTS)
            ]
            for _ in first:
                assert entered.acquire(timeout=10)
            assert steps.fetch(f"{server.url}/sign/x")[0].status == 503
            assert steps.fetch(f"{server.url}/healthz")[0].status == 200
            go.set()
            assert {each.result()[0].status for each in first} == {200}
    finally:
        go.set()
        server.close()
