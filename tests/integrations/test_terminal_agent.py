"""The demo's agent of another framework, as `make agent` runs it, with the real package."""

from __future__ import annotations

import os
import re
import subprocess
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from bot.demo.demo import start_demo
from tests.integrations.frameworks import FRAMEWORKS, PATIENCE
from tests.model_stand_in.planner import StrictPlanner
from tests.pages import ROOT
from tests.stories.first_hour import SUPPORT, Hour, typed
from tests.stories.messages import words

[PYDANTIC_AI] = [each for each in FRAMEWORKS if each.name == "pydantic_ai"]
PYTHON = PYDANTIC_AI.python
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not PYTHON.exists(), reason="`make integrations` installs the framework"),
]


def test_the_terminal_agent_waits_for_approval() -> None:
    """It is to put mugs on sale; Ana edits, Cleo approves, and then it happens."""
    [target] = re.findall(r"^agent:.*\n(?:\t.*\n)+", (ROOT / "Makefile").read_text("utf-8"), re.M)
    shell = target.splitlines()[-1].strip("\t@")
    here = {"../../.venv-agent/bin/python": str(PYTHON), "../../docs": str(ROOT / "docs")}
    here["PYTHONPATH=../../client"] = f"PYTHONPATH={ROOT / 'client'}"
    for written, meant in here.items():
        assert written in shell
        shell = shell.replace(written, meant)
    with ExitStack() as stack:
        place = Path(stack.enter_context(TemporaryDirectory()))  # short enough for sockets
        hour = Hour(start_demo(stack, place / "var" / "demo", 0, {}, StrictPlanner))
        with subprocess.Popen(
            ["sh", "-c", f"{shell} put the mugs on sale for 20 percent"],
            cwd=place,
            env={"PATH": os.environ["PATH"], "HOME": str(place)},
            stdout=subprocess.PIPE,
            text=True,
        ) as agent:
            stack.callback(agent.kill)
            try:
                thread = hour.slack.wait(lambda: find_thread("Put mugs on sale", hour), PATIENCE)
            except TimeoutError:
                agent.kill()  # or leaving the block would wait for it
                raise
            hour.presses("ana", "edit", thread)
            hour.dialog("ana", **typed(percent="10"))
            hour.presses("cleo", "approve", thread)
            told, _ = agent.communicate(timeout=PATIENCE)
        assert "mugs: 10 % off" in told
        assert (place / "var" / "demo" / "sale.txt").read_text("utf-8") == "mugs: 10 % off\n"


def find_thread(text: str, hour: Hour) -> str | None:
    """The thread in which a program asks this."""
    seen = hour.person("ana").messages(SUPPORT)
    return next((m["ts"] for m in seen if f"asks: “{text}" in words(m)), None)
