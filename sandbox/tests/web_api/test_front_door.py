"""Checks of every Web API request: formats, tokens, scopes, arguments."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.client import HTTPConnection
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest

from sandbox.tests.builders import Json
from slack_sandbox.server import Sandbox
from slack_sandbox.setup.manifests import full_manifest
from slack_sandbox.spec.facts import FACTS
from slack_sandbox.spec.table import WORDS_FOR_MISSING


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    """A sandbox whose app has every scope."""
    with Sandbox(full_manifest()) as running:
        yield running


def answer(
    sandbox: Sandbox, method: str, token: str = "", *, body: bytes | None = None, **headers: str
) -> Json:
    """The answer of the sandbox to one request."""
    sent = {key.replace("_", "-"): value for key, value in headers.items()}
    if token:
        sent["Authorization"] = f"Bearer {token}"
    with urlopen(Request(sandbox.api_url + method, body, sent)) as response:
        found: Json = json.loads(response.read())
    return found


@pytest.mark.parametrize("method", sorted(name for name, facts in FACTS.items() if facts.required))
def test_a_call_without_arguments_is_refused(sandbox: Sandbox, method: str) -> None:
    """A call without arguments is refused as Slack does, or with each one named."""
    if FACTS[method].caller != "bot":
        pytest.skip("no bot may call it")
    found = answer(sandbox, method, sandbox.bot_token)
    required = FACTS[method].required
    named = [
        f"[ERROR] missing required field: {name}"
        for name in required
        if (method, name) not in WORDS_FOR_MISSING
    ]
    if named:
        assert (found["error"], found["response_metadata"]["messages"]) == (
            "invalid_arguments",
            named,
        )
    else:
        assert found["error"] == WORDS_FOR_MISSING[method, required[0]]


@pytest.mark.parametrize("method", sorted(FACTS))
def test_a_missing_or_wrong_token_is_refused(sandbox: Sandbox, method: str) -> None:
    """No token, a wrong one and one of the wrong kind are refused as Slack does it."""
    caller = FACTS[method].caller
    if caller == "anyone":
        assert answer(sandbox, method).get("error") != "not_authed"
        return
    assert answer(sandbox, method)["error"] == "not_authed"
    assert answer(sandbox, method, "xoxb-of-another")["error"] == "invalid_auth"
    wrong = sandbox.app_token if caller != "app" else sandbox.bot_token
    assert answer(sandbox, method, wrong)["error"] == "not_allowed_token_type"


def test_an_app_without_scopes_is_refused(sandbox: Sandbox) -> None:
    """The answer names the missing scope."""
    bare = sandbox.install({"oauth_config": {"scopes": {"bot": []}}})
    for method, facts in FACTS.items():
        if facts.scopes and facts.caller == "bot":
            found = answer(sandbox, method, bare.bot_token)
            assert (found["error"], found["needed"]) == ("missing_scope", ",".join(facts.scopes)), (
                method
            )


JSON, FORM = "application/json; charset=utf-8", "application/x-www-form-urlencoded"


@pytest.mark.parametrize(
    ("method", "body", "kind", "error"),
    [
        ("no.such.method", b"", FORM, "unknown_method"),
        ("auth.test", b"<a/>", "application/xml", "invalid_post_type"),
        ("auth.test", b"a=b", FORM + "; charset=utf-7", "invalid_charset"),
        ("auth.test", b"a=%zz&\xff", FORM, "invalid_form_data"),
        ("auth.test", b"a[0]=b", FORM, "invalid_array_arg"),
        ("auth.test", b"a-b=c", FORM, "invalid_arg_name"),
        ("auth.test", b"{", JSON, "invalid_json"),
        ("auth.test", b"[1]", JSON, "json_not_object"),
        ("users.info", b'{"user": "UANA00001"}', JSON, "invalid_arguments"),
        ("chat.postMessage", b'{"channel": 7}', JSON, "invalid_arguments"),
    ],
)
def test_an_unreadable_request_is_refused(
    sandbox: Sandbox, method: str, body: bytes, kind: str, error: str
) -> None:
    """A request that Slack could not read is refused with its word.

    Methods that read forms only read no JSON.
    """
    assert (
        answer(sandbox, method, sandbox.bot_token, body=body, Content_Type=kind)["error"] == error
    )


def test_a_body_without_a_content_type_is_not_read(sandbox: Sandbox) -> None:
    """The sandbox does not guess its format."""
    connection = HTTPConnection(sandbox.url.removeprefix("http://"), timeout=5)
    connection.request(
        "POST", "/api/auth.test", b"a=b", {"Authorization": f"Bearer {sandbox.bot_token}"}
    )
    assert json.loads(connection.getresponse().read())["error"] == "missing_post_type"
    connection.close()


def test_methods_take_get_and_post_only(sandbox: Sandbox) -> None:
    """Every method takes GET and POST, and nothing else."""
    head = {"Authorization": f"Bearer {sandbox.bot_token}"}
    for verb, status in (("GET", 200), ("POST", 200), ("PUT", 405), ("DELETE", 405)):
        connection = HTTPConnection(sandbox.url.removeprefix("http://"), timeout=5)
        connection.request(verb, "/api/auth.test", headers=head)
        assert connection.getresponse().status == status
        connection.close()


@pytest.mark.parametrize(
    ("method", "arguments", "error"),
    [
        (
            "functions.completeSuccess",
            {"function_execution_id": "Fx1", "outputs": "{}"},
            "function_execution_not_found",
        ),
        (
            "functions.completeSuccess",
            {"function_execution_id": "Fx1", "outputs": "["},
            "parameter_validation_failed",
        ),
        (
            "functions.completeError",
            {"function_execution_id": "Fx1", "error": "no"},
            "function_execution_not_found",
        ),
        ("entity.presentDetails", {"trigger_id": "1"}, "invalid_trigger_id"),
        (
            "entity.presentDetails",
            {"trigger_id": "1", "user_auth_required": "1"},
            "user_auth_url_missing",
        ),
        ("entity.presentComments", {"trigger_id": "1", "comments": "[]"}, "invalid_trigger_id"),
        ("entity.presentComments", {"trigger_id": "1", "comments": "{}"}, "invalid_arguments"),
        ("entity.acknowledgeCommentAction", {"trigger_id": "1"}, "missing_comment_data"),
        (
            "entity.acknowledgeCommentAction",
            {"trigger_id": "1", "comment": "{}"},
            "invalid_trigger_id",
        ),
        ("api.test", {"error": "my_error", "foo": "bar"}, "my_error"),
        ("api.test", {"foo": "bar"}, None),
    ],
)
def test_methods_about_missing_features_are_refused(
    sandbox: Sandbox, method: str, arguments: Json, error: str | None
) -> None:
    """The refusal is that of a workspace without the feature.

    Workflow steps and work objects, for example.
    """
    body = urlencode(arguments).encode()
    found = answer(sandbox, method, sandbox.bot_token, body=body, Content_Type=FORM)
    assert found.get("error") == error
    assert method != "api.test" or found["args"] == arguments
