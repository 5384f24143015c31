"""Agents whose work is suspended: the page's examples as programs of their own."""

from __future__ import annotations

import json
import re
import select
import subprocess
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

from bot.demo.model_server import Turn
from tests.client.shop import Shop
from tests.integrations.frameworks import (
    ANSWER,
    DONE,
    FRAMEWORKS,
    PATIENCE,
    Framework,
    build_environment,
    build_last_turn,
)
from tests.model_stand_in.planner import StrictPlanner

ENDS = 9  # the exit code of a process that dies on purpose

# the page's `deploy`, with an effect that can be counted, and able to die or to take long
FUNCTION = '''
import os, time
from pathlib import Path
from countersign import Countersign, asking, countersigned

DIES, EFFECTS, HOLD = os.environ["DIES"], Path(os.environ["EFFECTS"]), Path(os.environ["HOLD"])

class Mortal(Countersign):
    def report(self, *args, **kwargs):
        found = super().report(*args, **kwargs)
        if DIES == "once reported":
            os._exit(9)
        return found

    def wait_while_running(self, request_id):
        if self.get_request(request_id).status == "running":
            HOLD.with_name("waits").touch()
        return super().wait_while_running(request_id)

TERMS = {"channel": "C0SUPPORT", "client": Mortal()}

@countersigned(title="Deploy", effect="Deploy {version} to {env}", **TERMS)
def deploy(version: str, env: str) -> str:
    """Deploy a version of the shop."""
    with EFFECTS.open("a") as effects:
        effects.write(f"{version}\\n")
    if DIES == "at work":
        os._exit(9)
    while HOLD.exists():
        time.sleep(0.02)
    return f"{version} is on {env}"
'''
# imports a framework once, and runs each order's scripts at the same time in own processes
DRIVER = """
import json, os, runpy, sys, traceback

exec(sys.argv[1])
for line in sys.stdin:
    order, children = json.loads(line), []
    for script in order["scripts"]:
        child = os.fork()
        if child == 0:
            os.environ["DIES"] = order["dies"]
            said = os.open(f"{script}.{len(children)}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(said, 1), os.dup2(said, 2)
            code = 1
            try:
                runpy.run_path(script)
                code = 0
            except BaseException:
                traceback.print_exc()
            sys.stdout.flush()
            os._exit(code)
        children.append(child)
    ends = [os.waitstatus_to_exitcode(os.waitpid(each, 0)[1]) for each in children]
    print(json.dumps(ends), flush=True)
"""

# an awaited LangGraph graph without a model, whose process keeps running
AWAITED_GRAPH = """
import asyncio

from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

from countersign.adapters.langgraph import ApprovalMiddleware, get_next_input

graph = StateGraph(MessagesState)
graph.add_node("tools", ToolNode([deploy], awrap_tool_call=ApprovalMiddleware().awrap_tool_call))
graph.add_edge(START, "tools")
agent = graph.compile(checkpointer=InMemorySaver())
thread = {"configurable": {"thread_id": "thread 7"}}
call = {"name": "deploy", "args": {"version": "1.2", "env": "prod"}, "id": "call_1"}

async def main() -> str:
    found = await agent.ainvoke({"messages": [AIMessage("", tool_calls=[call])]}, thread)
    while "__interrupt__" in found:
        await asyncio.sleep(0.1)
        found = await agent.ainvoke(get_next_input(await agent.aget_state(thread)), thread)
    return f"{found['messages'][-1].status}: {found['messages'][-1].text}"

print(asyncio.run(main()))
"""


class Dies(StrEnum):
    """When a process dies while it runs an approved call."""

    NEVER = "never"
    AT_WORK = "at work"  # after the effect, before it is reported
    ONCE_REPORTED = "once reported"  # before the framework has stored that it ran


def plan_deployment(body: dict[str, Any]) -> Turn:
    """A model that deploys what it is asked to, and accepts any outcome.

    Of a version that is called wrong it leaves out where to.
    """
    items = body["input"]
    if any(each.get("type") == "function_call_output" for each in items):
        return build_last_turn(DONE, any(each["name"] == ANSWER for each in body["tools"]))
    found = re.search(r"Deploy (\S+?)(?: and (\S+))? to prod", json.dumps(items))
    assert found, items
    versions = [each for each in found.groups() if each]
    to = {} if "wrong" in versions[0] else {"env": "prod"}
    return Turn(calls=[("deploy", {"version": each, **to}) for each in versions])


class Work:
    """The agents of one framework, each with its own version to deploy."""

    def __init__(
        self,
        framework: Framework,
        shop: Shop,
        model: StrictPlanner,
        folder: Path,
        asked: Mapping[str, str],
    ) -> None:
        """`folder`: for files of its processes; `asked`: the variables of the bot to ask."""
        self.shop, self._framework, self._model, self._folder = shop, framework, model, folder
        self.hold = folder / "hold"  # a deployment takes as long as this file exists
        environ = {
            **build_environment(folder),
            "EFFECTS": str(folder / "effects"),
            "HOLD": str(self.hold),
            **asked,
        }
        self._example = framework.example("Frameworks that suspend")
        imports = re.findall(r"^(?:from|import) .*", self._example, re.M)
        self._driver = subprocess.Popen(
            [framework.python, "-c", DRIVER, "\n".join([*imports, framework.loads])],
            cwd=folder,
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def close(self) -> None:
        """End the driver."""
        self._driver.kill()
        self._driver.communicate()

    def _script(self, version: str, code: str, awaits: bool) -> Path:
        """The example that deploys this version, or two with + between, with its own files."""
        version, _, more = version.partition("+")
        script = self._folder / f"{version}.py"
        for there, here in {
            '"1.2"': f'"{version}"',
            "Deploy 1.2": f"Deploy {version} and {more}" if more else f"Deploy {version}",
            "run.json": f"{version}.json",
            '"openai:gpt-5")': '"openai:gpt-5", allow_parallel_tool_calls=True)',  # BeeAI's
            "thread 7": f"{self._framework.name} {version}",
        }.items():
            code = code.replace(there, here)
        function = FUNCTION.replace("def deploy", "async def deploy") if awaits else FUNCTION
        script.write_text(f"{function}\n{code}")
        return script

    @property
    def number(self) -> int:
        """The first number of its versions."""
        return FRAMEWORKS.index(self._framework) + 1

    def run(self, *versions: str, dies: Dies = Dies.NEVER) -> list[str]:
        """Run processes that begin or continue with these; return their last lines.

        They end well, or die on purpose.
        """
        self.begin(*versions, dies=dies)
        return self.wait_for_end(*versions, ends=ENDS if dies is not Dies.NEVER else 0)

    def begin(
        self, *versions: str, dies: Dies = Dies.NEVER, code: str = "", awaits: bool = False
    ) -> None:
        """Start processes that begin or continue with these, at the same time: with the page's
        example, or with `code`, which `awaits` the function.
        """
        awaits = awaits or self._framework.awaits
        code = code or self._example
        scripts = [str(self._script(each, code, awaits)) for each in versions]
        order = {"scripts": scripts, "dies": dies.value}
        assert self._driver.stdin is not None
        self._driver.stdin.write(f"{json.dumps(order)}\n")
        self._driver.stdin.flush()

    def wait_for_end(self, *versions: str, ends: int = 0) -> list[str]:
        """The last lines of those processes, once they have ended with this code."""
        assert self._driver.stdout is not None
        ready, _, _ = select.select([self._driver.stdout], [], [], PATIENCE)
        codes = json.loads(self._driver.stdout.readline()) if ready else None
        printed = [
            (self._folder / f"{each.partition('+')[0]}.py.{place}").read_text()
            for place, each in enumerate(versions)
        ]
        assert codes == [ends] * len(versions), printed
        return [(text.splitlines() or [""])[-1] for text in printed]

    def effects(self, *versions: str) -> list[str]:
        """What was deployed of those versions, and of edited ones."""
        done = self._folder / "effects"
        lines = done.read_text().splitlines() if done.exists() else []
        return [each for each in lines if each.startswith(versions)]

    def told(self, version: str) -> list[str]:
        """The outputs of the call that the model was given."""
        return [
            str(item["output"])
            for body in self._model.requests
            if f"Deploy {version} " in json.dumps(body["input"])
            for item in body["input"]
            if item.get("type") == "function_call_output"
        ]
