"""Controls of the stand-in for the model: scripted turns, faults, cuts, holds, stopping."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import openai
import pytest
from openai import OpenAI
from openai.types.responses import ResponseFunctionToolCall

from bot.demo.model_server import Turn
from tests.demo.model.samples import ASK, TWO, read_stream
from tests.model_stand_in.answers import OddTurn
from tests.model_stand_in.planner import StrictPlanner


def test_scripted_turns_come_in_order(planner: StrictPlanner, client: OpenAI) -> None:
    """With the given call ids and arguments, even nonsense."""
    planner.script(
        OddTurn(
            calls=[("a", '{"a": 1, "a": 2}'), ("b", "[1,")],
            call_ids=["same", "same"],
        ),
        Turn(text="second"),
    )
    calls = [
        i for i in client.responses.create(**ASK).output if isinstance(i, ResponseFunctionToolCall)
    ]
    assert [(c.name, c.call_id, c.arguments) for c in calls] == [
        ("a", "same", '{"a": 1, "a": 2}'),
        ("b", "same", "[1,"),
    ]
    assert client.responses.create(**ASK).output_text == "second"


def test_a_scripted_turn_can_fail_or_be_incomplete(planner: StrictPlanner, client: OpenAI) -> None:
    """The API reports such trouble after the stream began."""
    planner.script(
        OddTurn(failed="server_error"), OddTurn(text="Half", incomplete="max_output_tokens")
    )
    last = read_stream(client)[-1]
    assert last.type == "response.failed"
    assert last.response.error is not None
    assert last.response.error.code == "server_error"
    last = read_stream(client)[-1]
    assert last.type == "response.incomplete"
    assert last.response.incomplete_details is not None
    assert last.response.incomplete_details.reason == "max_output_tokens"


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (429, openai.RateLimitError),
        (500, openai.InternalServerError),
        (503, openai.InternalServerError),
    ],
)
def test_ordered_faults_become_the_clients_errors(
    planner: StrictPlanner, client: OpenAI, status: int, expected: type[openai.APIStatusError]
) -> None:
    """Once, with Retry-After; the script is kept."""
    planner.script(Turn(text="after all"))
    planner.fail_next_requests(status, retry_after=7)
    with pytest.raises(expected) as caught:
        client.responses.create(**ASK)
    assert caught.value.status_code == status
    assert caught.value.response.headers["retry-after"] == "7"
    assert client.responses.create(**ASK).output_text == "after all"


def test_a_turn_that_was_cut_off_is_repeated(planner: StrictPlanner, client: OpenAI) -> None:
    """The cut is a connection error; the turn then comes whole."""
    planner.script(TWO)
    planner.cut_next_answers(after_events=5)
    with pytest.raises(openai.APIConnectionError):
        read_stream(client)
    again = [item.type for item in client.responses.create(**ASK).output]
    assert again == ["message", "reasoning", "function_call", "function_call"]


def test_a_cut_leaves_the_events_before_it(planner: StrictPlanner, client: OpenAI) -> None:
    """The later ones are missing."""
    planner.cut_next_answers(after_events=5)
    seen: list[object] = []
    events = client.responses.create(**ASK, stream=True)
    with pytest.raises(openai.APIConnectionError):
        seen.extend(events)
    assert len(seen) == 5


def test_refused_connections_reach_the_client(planner: StrictPlanner, client: OpenAI) -> None:
    """As connection errors; no request is recorded."""
    planner.refuse_next_connections(2)
    for _ in range(2):
        with pytest.raises(openai.APIConnectionError):
            client.responses.create(**ASK)
    assert planner.requests == []
    assert client.responses.create(**ASK).status == "completed"


@pytest.mark.parametrize("after_events", [0, 4])
def test_a_held_request_waits_for_its_release(
    planner: StrictPlanner, client: OpenAI, after_events: int
) -> None:
    """Before its answer or in mid-stream."""
    hold = planner.hold_next_request(after_events)
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(read_stream, client)
        assert hold.arrived.wait(30)
        assert not answer.done()
        hold.release()
        assert answer.result(30)[-1].type == "response.completed"


def test_a_held_request_does_not_use_a_later_script(planner: StrictPlanner, client: OpenAI) -> None:
    """It is released by clearing the script."""
    hold = planner.hold_next_request()
    with ThreadPoolExecutor(1) as pool:
        before = pool.submit(client.responses.create, **ASK)
        assert hold.arrived.wait(30)
        planner.clear_script()
        planner.script(Turn(text="of the next story"))
        assert before.result(30).output_text != "of the next story"
    assert client.responses.create(**ASK).output_text == "of the next story"


def test_stopping_ends_held_requests() -> None:
    """Stopping does not wait for a release that never comes."""
    with StrictPlanner() as planner, ThreadPoolExecutor(1) as pool:
        client = OpenAI(base_url=planner.url, api_key="sk-offline", max_retries=0, timeout=10)
        hold = planner.hold_next_request()
        pending = pool.submit(read_stream, client)
        assert hold.arrived.wait(30)
        planner.stop()
        assert pending.exception(5) is None or isinstance(pending.exception(), openai.APIError)
        hold.release()  # too late, and harmless


def test_a_taken_port_is_reported() -> None:
    """On the caller's thread, without hanging."""
    with StrictPlanner() as planner, pytest.raises(OSError, match="address"):
        StrictPlanner(int(planner.url.split(":")[2].split("/")[0])).start()


def test_models_are_listed_and_named(client: OpenAI) -> None:
    """An unknown model is not found, also when asked for an answer."""
    assert [each.id for each in client.models.list()] == ["stand-in"]
    assert client.models.retrieve("gpt-5").id == "gpt-5"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("no-such-model")
    with pytest.raises(openai.BadRequestError, match="does not exist"):
        client.responses.create(**{**ASK, "model": "no-such-model"})
