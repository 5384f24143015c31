"""A browser at the consent page, and the exchange of the code that it brings back."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any
from urllib.error import HTTPError
from urllib.parse import parse_qs, urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from slack_sdk import WebClient

from sandbox.tests.builders import Json
from slack_sandbox.server import Sandbox
from slack_sandbox.workspace.apps import App

Form = dict[str, str] | list[tuple[str, str]]
BACK = "http://127.0.0.1:9/back"


class NoRedirect(HTTPRedirectHandler):
    """Returns redirects without following them."""

    def redirect_request(self, *_: Any) -> None:
        return None


def fetch(url: str, form: Form | None = None) -> tuple[int, str, str]:
    """Status, body and Location of a page, or of the answer to a form."""
    body = None if form is None else urlencode(form).encode()
    try:
        with build_opener(NoRedirect).open(Request(url, body)) as answer:
            return answer.status, answer.read().decode(), ""
    except HTTPError as error:
        return error.code, error.read().decode(), error.headers.get("Location", "")


def address(sandbox: Sandbox, **query: str) -> str:
    """The address to which an app sends people."""
    given = {
        "client_id": sandbox.world.app.client_id,
        "scope": "chat:write,users:read",
        "state": "s & t",
    } | query
    return f"{sandbox.url}/oauth/v2/authorize?{urlencode(given)}"


def consent(
    sandbox: Sandbox, who: str = "ana", decision: str = "allow", **query: str
) -> dict[str, str]:
    """The query of the redirect after a person has decided on the page."""
    status, _, location = fetch(address(sandbox, **query), {"as": who, "decision": decision})
    assert status == 302
    assert location.startswith(query.get("redirect_uri", BACK))
    return {name: values[0] for name, values in parse_qs(urlsplit(location).query).items()}


def exchange_code(sandbox: Sandbox, given: str, app: App | None = None, **more: str) -> Json:
    """The answer of oauth.v2.access to a code."""
    app = app or sandbox.world.app
    client = WebClient(base_url=sandbox.api_url)
    secret = more.pop("client_secret", app.client_secret)
    answer = client.oauth_v2_access(
        client_id=app.client_id, client_secret=secret, code=given, **more
    )
    return dict(answer.data)


class Parts(HTMLParser):
    """The tags of a page with their attributes, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words += data
