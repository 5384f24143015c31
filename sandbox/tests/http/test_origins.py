"""Pages of other sites cannot act in the sandbox or read it."""

from __future__ import annotations

import json
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from slack_sandbox.server import Sandbox

SAYS = {"as": "ana", "channel": "C0SUPPORT", "text": "said from a page"}


def status(sandbox: Sandbox, path: str, body: object, **headers: str) -> int:
    """The HTTP status of the answer to a request with these headers."""
    data = None if body is None else json.dumps(body).encode()
    try:
        with urlopen(Request(f"{sandbox.url}{path}", data, headers)) as answer:
            return int(answer.status)
    except HTTPError as error:
        return error.code


@pytest.mark.parametrize("origin", ["http://example.com", "null", "http://127.0.0.1:1"])
def test_another_sites_page_may_not_act(sandbox: Sandbox, origin: str) -> None:
    """Browsers send the page's origin; only the sandbox's own origin may post."""
    before = len(sandbox.person("ana").messages("C0SUPPORT"))
    assert status(sandbox, "/sandbox/say", SAYS, Origin=origin) == 403
    assert status(sandbox, "/sandbox/faults", {"kind": "cut"}, Origin=origin) == 403
    assert len(sandbox.person("ana").messages("C0SUPPORT")) == before
    assert status(sandbox, "/sandbox/say", SAYS, Origin=sandbox.url) == 200


def test_another_host_name_for_this_machine_is_refused(sandbox: Sandbox) -> None:
    """A foreign name that resolves to this machine can neither read nor act; localhost can."""
    port = sandbox.url.rpartition(":")[2]
    for path, body in (("/", None), ("/sandbox/people", None), ("/sandbox/say", SAYS)):
        assert status(sandbox, path, body, Host=f"rebound.example:{port}") == 403
        assert status(sandbox, path, body, Host=f"localhost:{port}") == 200
