"""The log in JSON."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import BaseModel

from bot.demo.model_server import Turn
from bot.tools import Effect, ToolContext, tool
from storage.states import CallStatus
from tests.local_slack import build_local_slack
from tests.model_stand_in.planner import StrictPlanner
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import words
from tests.stories.process import BotProcess
from tests.stories.steps import ask, vote
from tests.watch.log_lines import json_lines


class Nothing(BaseModel):
    """It is given nothing."""


@tool(title="Use a library", effect="Use a library", does=Effect.READ)
def chatty(args: Nothing, context: ToolContext) -> str:
    """Have a library log something on the tool's thread."""
    logging.getLogger("some.library").info("connected")
    return "used"


def test_each_line_of_a_story_is_json_with_its_ids(own_harness: Callable[..., Harness]) -> None:
    """Lines of libraries and of failures are, too. None has an argument."""
    fakes = FakeTools()
    with json_lines() as lines:
        harness = own_harness([*fakes.tools, chatty])
        words, secret = "lavender-and-thyme", "open-sesame-1234"
        given = {"account": "the-cellar", "password": secret}
        threads = []
        for name, arguments in (
            ("note", {"text": words}),
            ("explode", {"text": words}),
            ("login", given),
        ):
            threads.append(ask(harness, (name, arguments), ("chatty", {})))
            vote(harness, "ana", harness.card(SUPPORT, threads[-1]))
            harness.said(SUPPORT, threads[-1], "That is all.")
        harness.settle()
        runs = {harness.run_in(each).id for each in threads}
        calls = [each for thread in threads for each in harness.calls_in(thread)]
    assert {each.status for each in calls} == {CallStatus.SUCCEEDED, CallStatus.FAILED}
    told = lines.read(logger="countersign.audit")
    assert {each["run_id"] for each in told} == runs
    for call in calls:
        events = [each["event"] for each in told if each.get("call_id") == call.id]
        assert events[-1] == f"call.{call.status}"
    library = lines.read(logger="some.library")
    assert {(each["run_id"], each["call_id"]) for each in library} == {
        (each.run_id, each.id) for each in calls if each.tool == "chatty"
    }
    for unsaid in (words, secret, "the-cellar", "boom", "noted", "please"):
        assert unsaid not in lines.text


@pytest.mark.long
def test_a_process_writes_nothing_but_json(tmp_path: Path) -> None:
    """This holds from its first line to its last."""
    with build_local_slack() as slack, StrictPlanner() as planner:
        bot = BotProcess(tmp_path, slack, planner, COUNTERSIGN_LOG_FORMAT="json")
        bot.start()
        planner.script(Turn(text="Good morning."))
        thread = slack.person("ben").say(SUPPORT, "@bot good morning")
        slack.wait(
            lambda: any(
                "Good morning." in words(each)
                for each in slack.person("ben").messages(SUPPORT, thread)
            )
        )
        assert bot.process is not None
        bot.process.terminate()
        bot.process.join(20)
        assert bot.process.exitcode == 0
    lines = [json.loads(each) for each in (tmp_path / "log").read_text("utf-8").splitlines()]
    assert {"run.born", "run.completed"} <= {each["event"] for each in lines}
    assert all({"time", "level", "logger", "message"} <= set(each) for each in lines)
