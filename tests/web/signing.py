"""A bot whose policy requires signatures, and the private links that people get from it."""

from __future__ import annotations

import json
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bot.config.connection_settings import Transport
from storage.models import Delivery
from storage.states import CallVerb, DeliveryKind
from tests.stories.fakes import FakeTools
from tests.stories.harness import POLICY, SUPPORT, Harness
from tests.stories.over_http import free_port
from tests.stories.signing import PEOPLE, links_of
from tests.stories.steps import press, waiting

SIGNED = POLICY.read_text("utf-8").replace(
    "[defaults]", '[passkeys]\nenrol = "self"\n\n[defaults]\nsignature = "passkey"'
)
NOTE = ("note", {"text": "that it arrived broken"})
REFUND = ("refund_order", {"order_id": "1042", "amount": "40.00", "reason": "damaged"})


def build_signing_harness(folder: Path, policy: str = SIGNED, **options: Any) -> Harness:
    """Build the whole product, with its pages at http://localhost."""
    port = free_port()
    address = {
        "COUNTERSIGN_HTTP": f"127.0.0.1:{port}",
        "COUNTERSIGN_URL": f"http://localhost:{port}",
        "COUNTERSIGN_MAX_PENDING": "10000",
    }
    return Harness(
        folder, FakeTools().tools, policy=policy, transport=Transport.SOCKET, **address | options
    )


def ask_for(world: Harness, call: tuple[str, Any] = REFUND) -> str:
    """Have Ben ask, and wait until people are asked; returns the thread."""
    thread = waiting(world, call)
    world.slack.wait(lambda: world.calls_in(thread))
    world.settle()
    return thread


def press_approve(world: Harness, thread: str, who: str = "ana") -> str:
    """Have somebody press Approve on the card; returns the address in the private answer."""
    before = len(links_of(world, who, "http://localhost"))
    press(world, who, SUPPORT, world.card(SUPPORT, thread, who), "approve")
    [url] = world.slack.wait(lambda: links_of(world, who, "http://localhost")[before:])
    return str(url)


def issue_link(world: Harness, thread: str, who: str = "ana", verb: Any = CallVerb.APPROVE) -> str:
    """Issue a link to sign the last call of a thread, as the bot does; returns its address."""
    [*_, call] = world.calls_in(thread)
    core, click = world.app.core, _build_click(world, who)
    links = core.build_signing_links()
    with core.store.write() as tx:
        made = links.issue_signing_link(tx, click, call, "", verb, reason="", effect="")
    return links.build_url(made.kind, made.nonce)


def issue_enrolment_link(world: Harness, who: str = "ana") -> str:
    """Issue a link to add a passkey, as the bot does; returns its address."""
    core, click = world.app.core, _build_click(world, who)
    with core.store.write() as tx:
        made = core.build_signing_links().issue_enrolment_link(tx, click)
    return core.build_signing_links().build_url(made.kind, made.nonce)


def _build_click(world: Harness, who: str) -> Delivery:
    team, kind, at = world.app.core.identity.team, DeliveryKind.ACTION, world.clock.now()
    return Delivery(key="", kind=kind, team=team, user=PEOPLE[who], received_at=at)


def fetch(
    url: str, method: str = "GET", body: bytes | None = None, **headers: str
) -> tuple[HTTPResponse, str]:
    """Send a request to the bot; returns the answer and its text."""
    parts = urlsplit(url)
    connection = HTTPConnection("127.0.0.1", parts.port, timeout=10)
    try:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, parts.path, body, sent)
        answer = connection.getresponse()
        return answer, answer.read().decode()
    finally:
        connection.close()


def post(url: str, credential: Any, **headers: str) -> tuple[int, dict[str, Any]]:
    """Post as the page does, from a browser; returns status and answer."""
    parts = urlsplit(url)
    own = {
        "Origin": f"{parts.scheme}://{parts.netloc}",
        "Sec_Fetch_Site": "same-origin",
        "Content_Type": "application/json",
    }
    body = credential if isinstance(credential, bytes) else json.dumps(credential).encode()
    answer, text = fetch(url, "POST", body, **{k: v for k, v in (own | headers).items() if v})
    return answer.status, json.loads(text)
