"""OAuth v2: the consent page, codes, tokens and what ends them.

Last, a real Bolt app that installs itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any
from urllib.error import HTTPError
from urllib.parse import parse_qs, urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

import pytest
from slack_bolt import App as Bolt
from slack_bolt import BoltRequest
from slack_bolt.oauth.oauth_settings import OAuthSettings
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError
from slack_sdk.oauth.installation_store import FileInstallationStore
from slack_sdk.oauth.state_store import FileOAuthStateStore

from bot.sandbox.server import Sandbox
from bot.sandbox.workspace.apps import App
from tests.sandbox.http_app import HttpApp, serving, through
from tests.sandbox.support import Json, code

BACK = "http://127.0.0.1:9/back"


@pytest.fixture
def manifest(manifest: Json) -> Json:
    """An app with a place to come back to."""
    manifest["oauth_config"]["redirect_urls"] = [BACK]
    return manifest


@pytest.fixture
def app(sandbox: Sandbox) -> App:
    """The app."""
    return sandbox.world.app


class NoRedirect(HTTPRedirectHandler):
    """Gives back redirects as they are."""

    def redirect_request(self, *_: Any) -> None:
        return None


def fetch(url: str, form: dict[str, str] | None = None) -> tuple[int, str, str]:
    """Status, body and Location of a page or of a form that is sent."""
    body = None if form is None else urlencode(form).encode()
    try:
        with build_opener(NoRedirect).open(Request(url, body)) as answer:
            return answer.status, answer.read().decode(), ""
    except HTTPError as error:
        return error.code, error.read().decode(), error.headers.get("Location", "")


def address(sandbox: Sandbox, **query: str) -> str:
    """The address an app sends people to."""
    given = {
        "client_id": sandbox.world.app.client_id,
        "scope": "chat:write,users:read",
        "state": "s & t",
    } | query
    return f"{sandbox.url}/oauth/v2/authorize?{urlencode(given)}"


def consent(
    sandbox: Sandbox, who: str = "ana", decision: str = "allow", **query: str
) -> dict[str, str]:
    """What comes back in the address after somebody has decided on the page."""
    status, _, location = fetch(address(sandbox, **query), {"as": who, "decision": decision})
    assert status == 302
    assert location.startswith(query.get("redirect_uri", BACK))
    return {name: values[0] for name, values in parse_qs(urlsplit(location).query).items()}


def exchanged(sandbox: Sandbox, given: str, app: App | None = None, **more: str) -> Json:
    """The answer for a code."""
    app = app or sandbox.world.app
    client = WebClient(base_url=sandbox.api_url)
    secret = more.pop("client_secret", app.client_secret)
    answer = client.oauth_v2_access(
        client_id=app.client_id, client_secret=secret, code=given, **more
    )
    return dict(answer.data)


class Parts(HTMLParser):
    """The tags of a page with their attributes, and its words."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words += data


def test_the_consent_page_names_app_and_scopes(sandbox: Sandbox, app: App) -> None:
    """The page names app and scopes, lets members choose who they are, and has labels and a
    language.
    """
    app.manifest["features"]["bot_user"]["display_name"] = "Tea & <Biscuits>"
    status, page, _ = fetch(address(sandbox))
    assert status == 200
    parts = Parts(page)
    assert "Let tea & <biscuits> in?" in parts.words
    assert {"chat:write", "users:read"} <= set(parts.words.split())
    assert ("html", {"lang": "en"}) in parts.tags
    assert ("label", {"for": "as"}) in parts.tags
    people = {attrs["value"] for tag, attrs in parts.tags if tag == "option"}
    assert people == {"ana", "ben", "cleo", "dan"}
    assert [attrs["value"] for tag, attrs in parts.tags if tag == "button"] == ["allow", "cancel"]


def test_consent_gives_a_code_and_the_state_back(sandbox: Sandbox, app: App) -> None:
    """Consent gives a code and the state back.

    The code gives a token with the scopes that were asked for.
    """
    back = consent(sandbox, "ben")
    assert back["state"] == "s & t"
    answer = exchanged(sandbox, back["code"])
    assert answer == {
        "ok": True,
        "app_id": app.id,
        "authed_user": {"id": "UBEN00001"},
        "scope": "chat:write,users:read",
        "token_type": "bot",
        "access_token": app.bot_token,
        "bot_user_id": app.bot_user,
        "team": {"id": sandbox.team_id, "name": "Sandbox Coffee"},
        "enterprise": None,
        "is_enterprise_install": False,
    }
    client = WebClient(answer["access_token"], base_url=sandbox.api_url)
    assert client.users_info(user="UANA00001")["ok"]
    with pytest.raises(SlackApiError) as refused:
        client.usergroups_list()
    assert code(refused) == "missing_scope"
    exchanged(sandbox, consent(sandbox, scope="usergroups:read")["code"])
    assert client.usergroups_list()["ok"]
    assert client.users_info(user="UANA00001")["ok"]


def test_cancelling_sends_back_access_denied(sandbox: Sandbox) -> None:
    """Whoever cancels is sent back with access_denied and the state."""
    assert consent(sandbox, decision="cancel") == {"error": "access_denied", "state": "s & t"}


@pytest.mark.parametrize(
    ("query", "error"),
    [
        ({"client_id": "1.2"}, "invalid_client_id"),
        ({"scope": ""}, "no_scopes"),
        ({"scope": "chat:write,<b>tea:make"}, "invalid_scope"),
        ({"user_scope": "chat:write"}, "invalid_scope"),
        ({"redirect_uri": "http://127.0.0.1:10/back"}, "bad_redirect_uri"),
        ({"redirect_uri": "https://127.0.0.1:9/back"}, "bad_redirect_uri"),
        ({"redirect_uri": f"{BACK}packer"}, "bad_redirect_uri"),
        ({"redirect_uri": f"{BACK}/../elsewhere"}, "bad_redirect_uri"),
        ({"team": "T0OTHERCO"}, "invalid_team_for_non_distributed_app"),
    ],
)
def test_a_wrong_address(sandbox: Sandbox, query: dict[str, str], error: str) -> None:
    """An address that asks for what cannot be ends on a page that says why, for both looking and
    deciding.
    """
    for form in (None, {"as": "ana", "decision": "allow"}):
        status, page, location = fetch(address(sandbox, **query), form)
        assert (status, location) == (400, "")
        assert f"<code>{error}</code>" in page
        assert "<b>" not in page


def test_a_guest_installs_nothing(sandbox: Sandbox) -> None:
    """Nobody but a member can say yes."""
    assert fetch(address(sandbox), {"as": "gus", "decision": "allow"})[0] == 400
    assert sandbox.world.codes == {}


def test_a_path_below(sandbox: Sandbox) -> None:
    """A redirect_uri below a configured one will do, has to be repeated with the code, and keeps
    its own query.
    """
    below = f"{BACK}/here?x=1"
    back = consent(sandbox, redirect_uri=below)
    assert back["x"] == "1"
    with pytest.raises(SlackApiError) as refused:
        exchanged(sandbox, back["code"])
    assert code(refused) == "bad_redirect_uri"
    assert exchanged(sandbox, back["code"], redirect_uri=below)["ok"]


def test_a_code_works_once_for_its_own_app(sandbox: Sandbox, app: App, manifest: Json) -> None:
    """A code works once, for ten minutes, for its own app with its own secret."""
    other = sandbox.install(manifest)
    first, second = consent(sandbox)["code"], consent(sandbox)["code"]

    def refusal(given: str, whose: App = app, **more: str) -> str:
        with pytest.raises(SlackApiError) as refused:
            exchanged(sandbox, given, whose, **more)
        return code(refused)

    assert refusal(first, other) == "invalid_code"
    assert refusal(first, client_secret="wrong") == "bad_client_secret"
    assert refusal("made-up") == "invalid_code"
    assert exchanged(sandbox, first)["ok"]
    assert refusal(first) == "invalid_code"
    sandbox.clock.advance(601)
    assert refusal(second) == "invalid_code"


def test_ids_in_the_form(sandbox: Sandbox, app: App) -> None:
    """Client id and secret are taken from a form as well as from Basic authorization."""
    client = WebClient(base_url=sandbox.api_url)
    for secret, error in (("wrong", "bad_client_secret"), (app.client_secret, "invalid_code")):
        fields = {"client_id": app.client_id, "client_secret": secret, "code": "x"}
        with pytest.raises(SlackApiError) as refused:
            client.api_call("oauth.v2.access", data=fields)
        assert code(refused) == error


def test_uninstall_and_back(sandbox: Sandbox, app: App) -> None:
    """An app that removes itself loses its token and hears of it.

    A new consent gives a new one, old scopes gone.
    """
    exchanged(sandbox, consent(sandbox)["code"])
    old = app.bot_token
    client = WebClient(old, base_url=sandbox.api_url)
    with pytest.raises(SlackApiError) as refused:
        client.api_call(
            "apps.uninstall", data={"client_id": app.client_id, "client_secret": "wrong"}
        )
    assert code(refused) == "bad_client_secret"
    assert client.api_call(
        "apps.uninstall", data={"client_id": app.client_id, "client_secret": app.client_secret}
    )["ok"]
    assert [d.event["type"] for d in sandbox.deliveries] == ["tokens_revoked", "app_uninstalled"]
    with pytest.raises(SlackApiError) as refused:
        client.auth_test()
    assert code(refused) == "token_revoked"
    answer = exchanged(sandbox, consent(sandbox, scope="team:read")["code"])
    assert answer["scope"] == "team:read"
    assert answer["access_token"] != old
    assert WebClient(answer["access_token"], base_url=sandbox.api_url).team_info()["ok"]


def test_a_refresh_token_works_once(sandbox: Sandbox, app: App) -> None:
    """Tokens of an app that rotates them expire after twelve hours.

    A refresh token gives the next, once.
    """
    app.manifest["settings"]["token_rotation_enabled"] = True
    client = WebClient(base_url=sandbox.api_url)
    ids = {"client_id": app.client_id, "client_secret": app.client_secret}
    first = client.oauth_v2_exchange(token=app.bot_token, **ids)
    assert (first["expires_in"], first["access_token"][:12]) == (43200, "xoxe.xoxb-1-")
    with pytest.raises(SlackApiError) as refused:
        client.oauth_v2_exchange(token=first["access_token"], **ids)
    assert code(refused) == "token_already_exchanged"
    again = {"grant_type": "refresh_token", "refresh_token": first["refresh_token"]}
    second = client.oauth_v2_access(**ids, **again)
    for token in (first["access_token"], second["access_token"]):
        assert client.auth_test(token=token)["ok"]
    with pytest.raises(SlackApiError) as refused:
        client.oauth_v2_access(**ids, **again)
    assert code(refused) == "invalid_refresh_token"
    sandbox.clock.advance(43201)
    for token in (first["access_token"], second["access_token"]):
        with pytest.raises(SlackApiError) as refused:
            client.auth_test(token=token)
        assert code(refused) == "token_expired"


@pytest.fixture
def there() -> Iterator[HttpApp]:
    """The server of the Bolt app."""
    with serving() as app:
        yield app


def test_bolt_installs_itself(sandbox: Sandbox, app: App, there: HttpApp, tmp_path: Any) -> None:
    """A real Bolt app leads a person through its own install page and ours, and then works with
    what it stored.
    """
    app.manifest["oauth_config"]["redirect_urls"] = [there.url]
    there.manifest(app.manifest)
    settings = OAuthSettings(
        client_id=app.client_id,
        client_secret=app.client_secret,
        scopes=["chat:write", "app_mentions:read", "channels:history"],
        redirect_uri=f"{there.url}/slack/oauth_redirect",
        authorization_url=f"{sandbox.url}/oauth/v2/authorize",
        installation_store=FileInstallationStore(base_dir=str(tmp_path)),
        state_store=FileOAuthStateStore(expiration_seconds=60, base_dir=str(tmp_path)),
        state_validation_enabled=True,
    )
    client = WebClient(base_url=sandbox.api_url)
    bolt = Bolt(client=client, signing_secret=app.signing_secret, oauth_settings=settings)
    bolt.event("app_mention")(lambda event, say: say(text="installed and awake"))
    flow = bolt.oauth_flow
    assert flow is not None

    started = flow.handle_installation(BoltRequest(body="", query="", headers={}))
    ours = next(a["href"] for tag, a in Parts(started.body).tags if tag == "a")
    cookie = started.headers["set-cookie"][0].split(";")[0]
    status, _, location = fetch(str(ours), {"as": "ana", "decision": "allow"})
    assert status == 302
    query = {name: values[0] for name, values in parse_qs(urlsplit(location).query).items()}
    done = flow.handle_callback(BoltRequest(body="", query=query, headers={"cookie": [cookie]}))
    assert done.status == 200

    there.answer = through(bolt)
    ana = sandbox.person("ana")
    ana.say("support", "@bot hello")
    sandbox.wait(lambda: "installed and awake" in [m["text"] for m in ana.messages("support")])
