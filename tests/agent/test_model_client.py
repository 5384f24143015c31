"""The model's client sends what the library itself would send."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx2
import openai
import pytest

from bot.agent.planner import ModelClient

BODIES: dict[str, dict[str, Any]] = {
    "words": {"input": [{"role": "user", "content": "é “quoted” \u2028 \u0000 👩🏽‍💻 <&>"}]},
    "numbers": {"input": [1, 1.0, 1e16, -0.0, 2**63, 10**30, 0.1, True, None]},
    "empty": {"input": [], "tools": [{}]},
    "long": {"input": [{"role": "user", "content": "x" * 200}] * 1000},
}


@pytest.fixture
def sent() -> list[httpx2.Request]:
    """The requests that the clients of this test sent."""
    return []


@pytest.fixture
def client(sent: list[httpx2.Request]) -> Iterator[ModelClient]:
    """A client whose server answers with an empty object."""

    def answer(request: httpx2.Request) -> httpx2.Response:
        sent.append(request)
        return httpx2.Response(200, json={})

    http = httpx2.Client(transport=httpx2.MockTransport(answer))
    with ModelClient(api_key="k", base_url="http://model.test/v1", http_client=http) as made:
        yield made


@pytest.mark.parametrize("name", BODIES)
def test_the_body_equals_what_the_library_sends(
    client: ModelClient, sent: list[httpx2.Request], name: str
) -> None:
    """The same values, under the same headers."""
    client.post("/responses", body=BODIES[name], cast_to=object)
    plain = openai.OpenAI(api_key="k", base_url="http://model.test/v1", http_client=client._client)
    plain.post("/responses", body=BODIES[name], cast_to=object)
    ours, theirs = sent[0], sent[-1]
    assert json.loads(ours.content) == json.loads(theirs.content) == BODIES[name]
    assert ours.headers["content-type"] == theirs.headers["content-type"] == "application/json"


def test_text_without_an_encoding_raises_the_librarys_error(client: ModelClient) -> None:
    """Half a surrogate pair has no encoding."""
    with pytest.raises(UnicodeEncodeError):
        client.post("/responses", body={"input": "\ud800"}, cast_to=object)
