"""llama-cpp-python's server, with tiny models that say anything and one that understands a little.

The transcript stays valid, nothing runs without approval, and everybody gets an answer. `make
test-llama` builds the server; without it these tests are skipped.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import openai
import pytest

from bot.cli.doctor.model_check import check_model
from bot.cli.read_only_core import FailingSlackDirectory
from bot.config.connection_settings import ModelApi
from bot.runs.sub_agent_runs import build_function_schema
from bot.toolbox import build_tool_registry
from storage.states import RunStatus
from tests.models.bot_with_model import (
    OFFERED,
    check_effects_were_approved,
    check_transcript,
    decide_all,
    get_answer,
    run_bot,
    wait_until_at_rest,
)
from tests.models.llama_server import (
    CALLING,
    PYTHON,
    TALKING,
    find_packaged_model,
    make_model,
    serve_model,
)
from tests.stories.harness import SUPPORT

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not PYTHON.exists(), reason="`make test-llama` builds the model's server"),
]
PACKAGED = "smollm2"
SMALL = {False: 1024, True: 256}  # tokens of a context too small for the tools
SENT = ("name", "description", "parameters")  # fields of a tool that are sent
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
    """Three models of random weights, and the one from a package."""
    folder = tmp_path_factory.mktemp("models")
    found = {f"random-{seed}": make_model(folder, seed, sorted(OFFERED)) for seed in (1, 2, 3)}
    return {**found, PACKAGED: find_packaged_model()}


@pytest.fixture(params=["random-1", PACKAGED])
def model(request: pytest.FixtureRequest, models: dict[str, Path]) -> Path:
    """One of random weights, and the one from a package."""
    return models[request.param]


@pytest.mark.parametrize("which", ["random-1", "random-2", "random-3"])
def test_nothing_runs_without_approval_whatever_a_model_proposes(
    models: dict[str, Path], which: str, tmp_path: Path
) -> None:
    """Some requests try to make it call. The transcript stays valid and everybody is answered.

    The server's API is found out.
    """
    proposed = 0
    with (
        serve_model(models[which], CALLING) as url,
        run_bot(tmp_path, url, ModelApi.AUTO) as (harness, fakes),
    ):
        for number, text in enumerate(ASKED):
            thread = harness.person("ben").say(SUPPORT, f"@bot {text}")
            decide_all(harness, thread, number)
            check_transcript(harness, thread)
            check_effects_were_approved(harness, fakes, thread)
            get_answer(harness, thread)
            assert harness.run_in(thread).status is RunStatus.COMPLETED
            proposed += len(harness.calls_in(thread))
    assert proposed > 2


def test_a_model_without_tools_only_answers(model: Path, tmp_path: Path) -> None:
    """Its words are streamed, nothing is proposed, and the record line says so.

    The doctor warns that it answers in words when it has to call.
    """
    with (
        serve_model(model, TALKING) as url,
        run_bot(tmp_path, url, ModelApi.CHAT) as (harness, fakes),
    ):
        for text in ASKED[:3]:
            thread = harness.person("ben").say(SUPPORT, f"@bot {text}")
            assert wait_until_at_rest(harness, thread).status is RunStatus.COMPLETED
            check_transcript(harness, thread)
            assert harness.calls_in(thread) == []
            assert "nothing was changed" in get_answer(harness, thread)
        good, odd = check_model(harness.settings(), harness.clock)
    assert (good.level, odd.level) == ("ok", "warn")
    assert "answered in words" in odd.text
    assert not fakes.ran


def test_people_who_ask_at_once_are_all_answered(model: Path, tmp_path: Path) -> None:
    """This server ends a stream when somebody else asks."""
    with serve_model(model, TALKING) as url, run_bot(tmp_path, url, ModelApi.CHAT) as (harness, _):
        people = ("ben", "ana", "cleo")
        threads = [harness.person(name).say(SUPPORT, f"@bot hello {name}") for name in people]
        for thread in threads:
            assert wait_until_at_rest(harness, thread).status is RunStatus.COMPLETED
            assert "nothing was changed" in get_answer(harness, thread)


def test_the_doctor_sees_that_the_model_can_call_tools(model: Path, tmp_path: Path) -> None:
    """The server can be made to call one given tool, which is enough."""
    with serve_model(model, CALLING) as url, run_bot(tmp_path, url, ModelApi.AUTO) as (harness, _):
        [found] = check_model(harness.settings(), harness.clock)
    assert (found.level, "by the Chat Completions API" in found.text) == ("ok", True)


def test_every_own_tool_can_be_called_by_the_server(
    models: dict[str, Path], tmp_path: Path
) -> None:
    """The server, made to call each in turn, writes arguments of its fields.

    A limit that no grammar supports would end it.
    """
    model = models["random-1"]
    with serve_model(model, CALLING) as url, run_bot(tmp_path, url, ModelApi.CHAT) as (harness, _):
        settings = harness.settings().model_copy(update={"slack_tools": True, "without_tools": ()})
        tools = build_tool_registry(
            settings, None, FailingSlackDirectory("it is tried without Slack")
        )
        with openai.OpenAI(api_key="offline", base_url=url, max_retries=0) as client:
            for each in tools:
                fields = build_function_schema(each)["parameters"]["properties"]
                arguments = call_tool(client, {**build_function_schema(each)})
                assert arguments.keys() <= fields.keys(), each.name
    assert len(list(tools)) > 10


def call_tool(client: openai.OpenAI, offered: dict[str, Any]) -> dict[str, Any]:
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
    [make_model] = answer["choices"][0]["message"]["tool_calls"]
    # this grammar allows raw line breaks in a text, which the bot would refuse
    found: dict[str, Any] = json.loads(make_model["function"]["arguments"], strict=False)
    return found


def test_a_context_too_small_for_the_tools_is_reported(model: Path, tmp_path: Path) -> None:
    """The stream says nothing; the reason only comes with a whole answer.

    The doctor names it, too.
    """
    context = SMALL[model == find_packaged_model()]
    with (
        serve_model(model, CALLING, context=context) as url,
        run_bot(tmp_path, url, ModelApi.CHAT) as (harness, _),
    ):
        thread = harness.person("ben").say(SUPPORT, "@bot write down that the van is late")
        assert wait_until_at_rest(harness, thread).status is RunStatus.FAILED
        assert "longer than the model can read" in get_answer(harness, thread)
        [found] = check_model(harness.settings(), harness.clock)
    assert (found.level, f"maximum context length is {context}" in found.text) == ("fail", True)
