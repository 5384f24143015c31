"""Wire formats, tokens and scopes of the Web API."""

from __future__ import annotations

import json
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError

from sandbox.tests.builders import Json
from sandbox.tests.refusals import code
from slack_sandbox.server import Sandbox


def call(
    sandbox: Sandbox, method: str, body: bytes | None, content_type: str, **query: str
) -> Json:
    """A raw call with the bot's token in the header."""
    headers = {"Authorization": f"Bearer {sandbox.bot_token}", "Content-Type": content_type}
    url = f"{sandbox.api_url}{method}" + (f"?{urlencode(query)}" if query else "")
    with urlopen(
        Request(url, data=body, headers=headers, method="POST" if body is not None else "GET")
    ) as answer:
        parsed: Json = json.load(answer)
        return parsed


POST = {"channel": "C0SUPPORT", "text": "hi", "blocks": [{"type": "divider"}]}


@pytest.mark.parametrize(
    ("body", "content_type", "query"),
    [
        (json.dumps(POST).encode(), "application/json; charset=utf-8", {}),
        (
            urlencode({**POST, "blocks": json.dumps(POST["blocks"])}).encode(),
            "application/x-www-form-urlencoded",
            {},
        ),
        (b"", "application/x-www-form-urlencoded", {**POST, "blocks": json.dumps(POST["blocks"])}),
        (None, "application/x-www-form-urlencoded", {**POST, "blocks": json.dumps(POST["blocks"])}),
    ],
    ids=["json", "form", "query", "get"],
)
def test_a_post_is_understood_in_every_format(
    sandbox: Sandbox, body: bytes | None, content_type: str, query: dict[str, str]
) -> None:
    """The same post is understood in every format that Slack takes."""
    answer = call(sandbox, "chat.postMessage", body, content_type, **query)
    assert answer["ok"] is True
    assert [block["type"] for block in answer["message"]["blocks"]] == ["divider"]


def test_multipart_forms_are_understood(sandbox: Sandbox) -> None:
    """Multipart forms, which slack_sdk sends with files, are understood as well."""
    body = b'--x\r\nContent-Disposition: form-data; name="user"\r\n\r\nUANA00001\r\n--x--\r\n'
    assert (
        call(sandbox, "users.info", body, "multipart/form-data; boundary=x")["user"]["name"]
        == "ana"
    )


@pytest.mark.parametrize(
    ("body", "content_type", "error"),
    [
        (b"{", "application/json", "invalid_json"),
        (b"[1]", "application/json", "json_not_object"),
        (b"a", "text/plain", "invalid_post_type"),
    ],
)
def test_an_unreadable_body_is_refused(
    sandbox: Sandbox, body: bytes, content_type: str, error: str
) -> None:
    """The error codes are Slack's."""
    assert call(sandbox, "chat.postMessage", body, content_type)["error"] == error


def test_missing_charset_is_warned_about(sandbox: Sandbox) -> None:
    """JSON without a charset works, with the warning that Slack gives."""
    assert call(sandbox, "auth.test", b"{}", "application/json")["warning"] == "missing_charset"


def test_a_value_of_the_wrong_type_is_refused(sandbox: Sandbox) -> None:
    """A number where a string belongs is an invalid argument that names the field."""
    body = json.dumps({"channel": 5, "text": "hi"}).encode()
    answer = call(sandbox, "chat.postMessage", body, "application/json; charset=utf-8")
    assert answer["error"] == "invalid_arguments"
    assert answer["response_metadata"]["messages"] == [
        "[ERROR] must provide a string [json-pointer:/channel]"
    ]


def test_missing_and_wrong_tokens_are_refused(sandbox: Sandbox) -> None:
    """No token, an unknown one, the app's and one in the query are all refused."""
    for token, error in (
        (None, "not_authed"),
        ("xoxb-no", "invalid_auth"),
        (sandbox.app_token, "not_allowed_token_type"),
    ):
        with pytest.raises(SlackApiError) as refused:
            WebClient(token=token, base_url=sandbox.api_url).auth_test()
        assert code(refused) == error
    with urlopen(f"{sandbox.api_url}auth.test?token={sandbox.bot_token}") as answer:
        assert json.load(answer)["error"] == "not_authed"


def test_a_bot_token_opens_no_socket(sandbox: Sandbox, client: WebClient) -> None:
    """apps.connections.open takes the app-level token only."""
    with pytest.raises(SlackApiError) as refused:
        client.apps_connections_open(app_token=sandbox.bot_token)
    assert code(refused) == "not_allowed_token_type"


def test_an_unknown_method_says_so(client: WebClient) -> None:
    """The sandbox does not have the method."""
    with pytest.raises(SlackApiError) as refused:
        client.api_call("chat.shout")
    assert code(refused) == "unknown_method"


def test_a_missing_scope_is_named(sandbox: Sandbox, client: WebClient, manifest: Json) -> None:
    """A header lists the scopes that the app has."""
    assert "users:read" in client.auth_test().headers["X-OAuth-Scopes"].split(",")
    manifest["oauth_config"]["scopes"]["bot"].remove("users:read")
    with pytest.raises(SlackApiError) as refused:
        client.users_info(user="UANA00001")
    assert refused.value.response["error"] == "missing_scope"
    assert refused.value.response["needed"] == "users:read"
    assert "users:read" not in refused.value.response["provided"].split(",")


def test_reading_a_private_channel_needs_groups_read(client: WebClient, manifest: Json) -> None:
    """Reading a private channel takes groups:read, whatever else there is."""
    manifest["oauth_config"]["scopes"]["bot"].remove("groups:read")
    assert client.conversations_info(channel="C0SUPPORT")["channel"]["is_private"] is False
    with pytest.raises(SlackApiError) as refused:
        client.conversations_info(channel="C0FINANCE")
    assert refused.value.response["needed"] == "groups:read"


def test_every_call_is_logged_without_its_token(sandbox: Sandbox, client: WebClient) -> None:
    """The log has arguments and answer; a team_id does no harm."""
    client.users_info(user="UANA00001", team_id=sandbox.team_id)
    last = sandbox.requests[-1]
    assert (last.method, last.args, last.status) == (
        "users.info",
        {"user": "UANA00001", "team_id": "T0SANDBOX"},
        200,
    )
    assert last.response is not None
    assert last.response["user"]["id"] == "UANA00001"
