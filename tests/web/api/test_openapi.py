"""The API behaves as its OpenAPI description says."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance

from tests.stories.harness import Harness
from tests.stories.steps import vote
from tests.web.api.conftest import NewProgram
from tests.web.api.program import Program

METHODS = {"get", "post"}


@pytest.fixture
def program(new_program: NewProgram) -> Program:
    """A program that may ask for few tools, as often as it likes."""
    return new_program(tools=("note", "ask_person", "deploy"), per_hour=100_000)


@pytest.fixture
def described(program: Program) -> Any:
    """The description as it is served to a client with a key."""
    web = program.harness.app.endpoints.web
    assert web is not None
    headers = {"Authorization": f"Bearer {program.key}"}
    schema = schemathesis.openapi.from_url(f"{web.url}/v1/openapi.json", headers=headers)

    @schema.auth()
    class Key:
        def get(self, case: Any, context: Any) -> str:
            return program.key

        def set(self, case: Any, data: str, context: Any) -> None:
            case.headers["Authorization"] = f"Bearer {data}"

    return schema


def test_the_description_has_every_operation_and_answer(program: Program) -> None:
    """It is OpenAPI 3.1 with the key as security, one form of problems, and examples."""
    _, said = program.ask("GET", "/v1/openapi.json")
    assert said["openapi"].startswith("3.1.")
    assert said["servers"] == [{"url": "/v1"}]
    assert said["components"]["securitySchemes"]["key"]["scheme"] == "bearer"
    problem = {"schema": {"$ref": "#/components/schemas/Problem"}}
    shown = {"$ref": "#/components/schemas/RequestShown"}
    seen = set()
    for path, ways in said["paths"].items():
        for method in METHODS & ways.keys():
            seen.add((method, path))
            way = ways[method]
            assert way["security"] == [{"key": []}]
            for status, answer in way["responses"].items():
                [(kind, found)] = answer["content"].items()
                if int(status) >= 400:
                    assert (kind, found) == ("application/problem+json", problem)
                elif (method, path) == ("get", "/requests"):
                    assert found["schema"] == {"$ref": "#/components/schemas/RequestsShown"}
                elif not path.endswith(("claim", "receipt", "keys")):
                    assert found["schema"] == shown
            assert {"401", "422", "500"} <= way["responses"].keys()
    assert len(seen) == 10
    assert "HTTPValidationError" not in said["components"]["schemas"]
    assert said["components"]["schemas"]["ToolWanted"]["properties"]["tool"]["examples"]


@pytest.mark.long
@pytest.mark.parametrize("mode", GenerationMode)
def test_any_request_is_answered_as_described(described: Any, mode: GenerationMode) -> None:
    """Valid and invalid requests are generated from the description."""
    operations = [each.ok() for each in described.get_all_operations()]
    assert len(operations) == 10
    for operation in operations:

        @given(case=operation.as_strategy(generation_mode=mode))
        @settings(max_examples=25, suppress_health_check=list(HealthCheck))
        def check_answer(case: Any) -> None:
            # the description cannot say which arguments a tool takes, or which people there are
            case.call_and_validate(excluded_checks=[positive_data_acceptance])

        check_answer()


def build_example_body(said: dict[str, Any], model: str) -> dict[str, Any]:
    """Build a body of the examples beside its fields, as pages that show the document do."""
    schema = said["components"]["schemas"][model]
    return {
        name: each["examples"][0]
        for name, each in schema["properties"].items()
        if each.get("examples")
    }


def test_the_description_has_every_schema_that_it_refers_to(program: Program) -> None:
    """Also those that only problems contain."""
    _, said = program.ask("GET", "/v1/openapi.json")
    named = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(said)))
    assert {"Problem", "FieldError"} <= named <= said["components"]["schemas"].keys()


def test_every_example_of_the_description_is_accepted(
    bot: Harness, new_program: NewProgram
) -> None:
    """Posted as they are, the examples ask people, claim and report."""
    program = new_program()
    _, said = program.ask("GET", "/v1/openapi.json")
    posted = set()
    for model, path in (
        ("ToolWanted", "/v1/requests"),
        ("ActionWanted", "/v1/requests"),
        ("QuestionWanted", "/v1/questions"),
    ):
        schema = said["components"]["schemas"][model]
        body = build_example_body(said, model)
        assert set(schema["required"]) <= set(body), model
        status, asked = program.ask("POST", path, body)
        assert status == 201, (model, asked)
        posted.add(path)
        bot.settle()
        stands = program.look(asked)
        assert stands["status"] == "pending", (model, stands)
    deployed = program.deploy("1.4.2")
    vote(bot, "ana", program.card("Deploy 1.4.2"))
    bot.settle()
    for model, act in (("ClaimSent", "claim"), ("OutcomeSent", "outcome")):
        body = build_example_body(said, model)
        assert set(said["components"]["schemas"][model]["required"]) <= set(body), model
        status, answer = program.ask("POST", f"/v1/requests/{deployed['id']}/{act}", body)
        assert status == 200, (model, answer)
        posted.add(f"/v1/requests/{{request_id}}/{act}")
    bodies = {
        f"/v1{path}"
        for path, ways in said["paths"].items()
        if "requestBody" in ways.get("post", {})
    }
    assert posted == bodies
