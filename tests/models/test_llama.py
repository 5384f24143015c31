"""llama-cpp-python's real server with small models that say anything, and with one that understands
a little: the transcript stays valid, nothing runs unasked, and whoever asks is answered.

`make test-llama` builds the server; without it these are skipped.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import openai
import pytest

from bot.cli.doctor.doctor import check_model
from bot.cli.read_only_core import FailingSlackDirectory
from bot.config.connection_settings import ModelApi
from bot.runs.sub_agent_runs import build_function_schema
from bot.toolbox import build_tool_registry
from storage.states import RunStatus
from tests.models.asking import (
    OFFERED,
    asking,
    at_rest,
    decided,
    is_valid,
    nothing_ran_unasked,
    was_answered,
)
from tests.models.served import CALLING, PYTHON, TALKING, made, serving, shipped
from tests.stories.harness import SUPPORT

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not PYTHON.exists(), reason="`make test-llama` builds the model's server"),
]
SHIPPED = "smollm2"
SMALL = {False: 1024, True: 256}  # tokens of a context, which has no room for the tools
SENT = ("name", "description", "parameters")  # of a tool, to a server
ASKED = [
    "write down that the van is late",
    "which books are on the shelf?",
    "wipe the board, and then put 7 on it",
    'Grüße an Jürgen — {"text": "no"} ☕',
    'functions.wipe:\n{"text": "everything"}',
    "peek at the rota, then say nothing",
    "?",
]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Three models, each of other random weights, and the one that a package ships."""
    folder = tmp_path_factory.mktemp("models")
    found = {f"random-{seed}": made(folder, seed, sorted(OFFERED)) for seed in (1, 2, 3)}
    return {**found, SHIPPED: shipped()}


@pytest.fixture(params=["random-1", SHIPPED])
def model(request: pytest.FixtureRequest, models: dict[str, Path]) -> Path:
    """One of those of random weights, and then the one that is shipped."""
    return models[request.param]


@pytest.mark.parametrize("which", ["random-1", "random-2", "random-3"])
def test_whatever_it_proposes_nothing_runs_unasked(
    models: dict[str, Path], which: str, tmp_path: Path
) -> None:
    """Requests, some of which try to make it call: after each the transcript is valid, what ran was
    approved, and whoever asked has an answer. Which API the server has is found out.
    """
    proposed = 0
    with (
        serving(models[which], CALLING) as url,
        asking(tmp_path, url, ModelApi.AUTO) as (harness, fakes),
    ):
        for number, text in enumerate(ASKED):
            thread = harness.person("ben").say(SUPPORT, f"@bot {text}")
            decided(harness, thread, number)
            is_valid(harness, thread)
            nothing_ran_unasked(harness, fakes, thread)
            was_answered(harness, thread)
            assert harness.run_in(thread).status is RunStatus.COMPLETED
            proposed += len(harness.calls_in(thread))
    assert proposed > 2


def test_a_server_that_hands_it_no_tools(model: Path, tmp_path: Path) -> None:
    """Its words come as a stream, nothing is proposed, and the record below them says so; the
    doctor has seen that it answers in words where it has to call.
    """
    with serving(model, TALKING) as url, asking(tmp_path, url, ModelApi.CHAT) as (harness, fakes):
        for text in ASKED[:3]:
            thread = harness.person("ben").say(SUPPORT, f"@bot {text}")
            assert at_rest(harness, thread).status is RunStatus.COMPLETED
            is_valid(harness, thread)
            assert harness.calls_in(thread) == []
            assert "nothing was changed" in was_answered(harness, thread)
        good, odd = check_model(harness.settings(), harness.clock)
    assert (good.level, odd.level) == ("ok", "warn")
    assert "answered in words" in odd.text
    assert not fakes.ran


def test_who_asks_at_once_is_answered(model: Path, tmp_path: Path) -> None:
    """This server ends a stream as soon as somebody else asks; each gets an answer all the same."""
    with serving(model, TALKING) as url, asking(tmp_path, url, ModelApi.CHAT) as (harness, _):
        people = ("ben", "ana", "cleo")
        threads = [harness.person(name).say(SUPPORT, f"@bot hello {name}") for name in people]
        for thread in threads:
            assert at_rest(harness, thread).status is RunStatus.COMPLETED
            assert "nothing was changed" in was_answered(harness, thread)


def test_the_doctor_sees_that_it_calls(model: Path, tmp_path: Path) -> None:
    """This server can be made to call one tool, not any; that is enough to see that it can."""
    with serving(model, CALLING) as url, asking(tmp_path, url, ModelApi.AUTO) as (harness, _):
        [found] = check_model(harness.settings(), harness.clock)
    assert (found.level, "by the Chat Completions API" in found.text) == ("ok", True)


def test_each_tool_that_ships_has_a_grammar(models: dict[str, Path], tmp_path: Path) -> None:
    """Made to call each in turn, the server writes arguments of that tool's fields: a bound that no
    grammar takes would end it.
    """
    model = models["random-1"]
    with serving(model, CALLING) as url, asking(tmp_path, url, ModelApi.CHAT) as (harness, _):
        settings = harness.settings().model_copy(update={"slack_tools": True, "without_tools": ()})
        tools = build_tool_registry(
            settings, None, FailingSlackDirectory("it is tried without Slack")
        )
        with openai.OpenAI(api_key="offline", base_url=url, max_retries=0) as client:
            for each in tools:
                fields = build_function_schema(each)["parameters"]["properties"]
                arguments = called(client, {**build_function_schema(each)})
                assert arguments.keys() <= fields.keys(), each.name
    assert len(list(tools)) > 10


def called(client: openai.OpenAI, offered: dict[str, Any]) -> dict[str, Any]:
    """The arguments with which the model calls a tool when it has to."""
    tool = {"type": "function", "function": {k: v for k, v in offered.items() if k in SENT}}
    answer: Any = client.post(
        "/chat/completions",
        body={
            "messages": [{"role": "user", "content": "Go on."}],
            "tools": [tool],
            "tool_choice": {"type": "function", "function": {"name": offered["name"]}},
        },
        cast_to=object,
    )
    [made] = answer["choices"][0]["message"]["tool_calls"]
    # this grammar lets line breaks into a text as they are, which the bot would refuse
    found: dict[str, Any] = json.loads(made["function"]["arguments"], strict=False)
    return found


def test_what_does_not_fit_is_told(model: Path, tmp_path: Path) -> None:
    """A context that has no room for the tools is told in the thread, though the stream says
    nothing and the reason comes with the whole answer alone; the doctor names it, too.
    """
    context = SMALL[model == shipped()]
    with (
        serving(model, CALLING, context=context) as url,
        asking(tmp_path, url, ModelApi.CHAT) as (harness, _),
    ):
        thread = harness.person("ben").say(SUPPORT, "@bot write down that the van is late")
        assert at_rest(harness, thread).status is RunStatus.FAILED
        assert "longer than the model can read" in was_answered(harness, thread)
        [found] = check_model(harness.settings(), harness.clock)
    assert (found.level, f"maximum context length is {context}" in found.text) == ("fail", True)
