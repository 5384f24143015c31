"""The consent page: its content, the people who may decide, and its redirects."""

from __future__ import annotations

import pytest
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError

from sandbox.tests.oauth.browser import BACK, Parts, address, consent, exchange_code, fetch
from sandbox.tests.refusals import code
from slack_sandbox.server import Sandbox
from slack_sandbox.workspace.apps import App


def test_the_consent_page_names_app_and_scopes(sandbox: Sandbox, app: App) -> None:
    """The page names app and scopes, lets people choose who they are, and has labels."""
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
    answer = exchange_code(sandbox, back["code"])
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
    exchange_code(sandbox, consent(sandbox, scope="usergroups:read")["code"])
    assert client.usergroups_list()["ok"]
    assert client.users_info(user="UANA00001")["ok"]


def test_cancelling_sends_back_access_denied(sandbox: Sandbox) -> None:
    """The redirect has the state, too."""
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
def test_a_wrong_install_address_shows_the_reason(
    sandbox: Sandbox, query: dict[str, str], error: str
) -> None:
    """The page says why the address is wrong."""
    for form in (None, {"as": "ana", "decision": "allow"}):
        status, page, location = fetch(address(sandbox, **query), form)
        assert (status, location) == (400, "")
        assert f"<code>{error}</code>" in page
        assert "<b>" not in page


def test_a_guest_installs_nothing(sandbox: Sandbox) -> None:
    """Only members can consent."""
    assert fetch(address(sandbox), {"as": "gus", "decision": "allow"})[0] == 400
    assert sandbox.world.codes == {}


def test_a_redirect_uri_below_a_configured_one_is_accepted(sandbox: Sandbox) -> None:
    """It may have a query, and has to be repeated with the code."""
    below = f"{BACK}/here?x=1"
    back = consent(sandbox, redirect_uri=below)
    assert back["x"] == "1"
    with pytest.raises(SlackApiError) as refused:
        exchange_code(sandbox, back["code"])
    assert code(refused) == "bad_redirect_uri"
    assert exchange_code(sandbox, back["code"], redirect_uri=below)["ok"]
