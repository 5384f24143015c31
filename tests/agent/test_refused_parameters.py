"""Parameters that not every model or server of the Responses API has."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import openai
import pytest

from bot.agent.planner import Planner
from bot.agent.turn import PlannerError, Reply
from bot.demo.model_server import Turn
from tests.agent.test_planner import COMPLETED, Words, as_sse
from tests.model_stand_in.planner import StrictPlanner


def ask(planner: Planner) -> Any:
    """Take one turn."""
    said = {"role": "user", "content": [{"type": "input_text", "text": "Is it here?"}]}
    return planner.take_turn([said], [], "Be brief.", Words())


def test_a_model_that_does_not_reason_is_not_asked_for_reasoning() -> None:
    """OpenAI refuses that; it is found out once."""
    with StrictPlanner() as server:
        server.script(Turn(text="Yes."), Turn(text="Still."))
        client = openai.OpenAI(api_key="sk-offline", base_url=server.url)
        planner = Planner(client, model="gpt-4.1", retries=0)
        assert [ask(planner).text for _ in range(2)] == ["Yes.", "Still."]
        assert server.refused == ["Encrypted content is not supported with this model."]


class PickyServer:
    """A server of the Responses API that refuses requests with one parameter; keeps them all."""

    def __init__(self, parameter: str, refusal: dict[str, Any], status: int) -> None:
        self.requests: list[dict[str, Any]] = []
        self._parameter, self._refusal, self._status = parameter, refusal, status
        http = httpx2.Client(transport=httpx2.MockTransport(self._answer))
        client = openai.OpenAI(
            api_key="sk-offline", base_url="http://model.test/v1", http_client=http
        )
        self.planner = Planner(client, model="gpt-5", retries=0)

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        body = json.loads(request.content)
        self.requests.append(body)
        if self._parameter in body:
            return httpx2.Response(self._status, json=self._refusal)
        kind = {"content-type": "text/event-stream"}
        return httpx2.Response(200, content=as_sse(COMPLETED), headers=kind)


@pytest.mark.parametrize(
    ("status", "refusal"),
    [
        (400, {"error": {"message": "Parameter 'truncation' is not supported.", "param": None}}),
        (400, {"detail": "Unsupported parameter: truncation"}),
        (400, {"error": {"message": 'json: unknown field "truncation"', "param": ""}}),
        (400, {"error": {"message": "No.", "param": "truncation", "code": "unknown_parameter"}}),
        (422, {"error": {"message": "truncation: Extra inputs are not permitted"}}),
    ],
)
def test_a_server_may_lack_a_parameter_whose_default_is_meant(
    status: int, refusal: dict[str, Any]
) -> None:
    """It is left out from then on; what says that nothing is to be stored never is."""
    server = PickyServer("truncation", refusal, status)
    assert [type(ask(server.planner)) for _ in range(2)] == [Reply, Reply]
    assert ["truncation" in each for each in server.requests] == [True, False, False]
    assert {each["store"] for each in server.requests} == {False}


def test_a_gateway_may_quote_the_refusal() -> None:
    """In its own words, without the parameter."""
    quoted = 'litellm.BadRequestError: OpenAIException - {"message": "Encrypted content is not supp'
    said = {"error": {"message": f'{quoted}orted with this model."', "param": None, "code": "400"}}
    server = PickyServer("include", said, 400)
    assert isinstance(ask(server.planner), Reply)


def test_a_request_that_is_refused_for_something_else_is_not_repeated() -> None:
    """Nor one that may not say that nothing is stored."""
    server = PickyServer("store", {"error": {"message": "Unsupported parameter: store"}}, 400)
    with pytest.raises(PlannerError, match="Unsupported parameter: store"):
        ask(server.planner)
    assert len(server.requests) == 1
