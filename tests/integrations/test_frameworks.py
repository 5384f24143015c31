"""The examples of docs/integrations.md, run by the frameworks' own packages in a process of theirs.

`make integrations` installs them into an environment of their own; without it they are skipped.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bot.config.connection_settings import Transport
from bot.demo.model_server import Turn
from countersign import Countersign
from tests.client.shop import Shop, key_for
from tests.integrations.frameworks import (
    DONE,
    FRAMEWORKS,
    PAGE,
    PATIENCE,
    Framework,
    offline,
    said,
)
from tests.integrations.gateway import gateway
from tests.pages import blocks_in, section
from tests.stories.harness import Harness

DECORATED = blocks_in(section(PAGE, "Frameworks"), "python")[0]
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Harness, str]]:
    """The bot, a model that is scripted, and a key for what is deployed."""
    harness = Harness(tmp_path_factory.mktemp("frameworks"), transport=Transport.HTTP)
    yield harness, key_for(harness, "framework", "deploy")
    harness.close()


@pytest.fixture(params=FRAMEWORKS, ids=lambda each: each.name)
def framework(request: pytest.FixtureRequest) -> Framework:
    """Each of them that is installed."""
    found: Framework = request.param
    if not found.python.exists():
        pytest.skip("`make integrations` installs the frameworks")
    return found


def test_its_agent_waits_for_people(
    served: tuple[Harness, str], framework: Framework, tmp_path: Path
) -> None:
    """The model calls the tool, and a card appears. Edited and approved it runs, and the model is
    told; the same agent started again is told the same, and nothing is asked or run twice.
    """
    script = agent_of(framework, "first", tmp_path)
    version = f"1.{FRAMEWORKS.index(framework)}"
    with at_work(served, framework, script, version) as (shop, agent):
        shop.edit(f"Deploy {version} to prod", version=f"{version}.7")
        shop.approve(f"Deploy {version}.7 to prod", "cleo")
        ended_well(agent)
        assert f"{version}.7 is on prod" in last_told(shop)
    with at_work(served, framework, script, version) as (shop, agent):
        ended_well(agent)
        assert f"{version}.7 is on prod" in last_told(shop)
        assert len(shop.list_calls(f"{version}.7")) == 1


def test_its_agent_is_told_of_a_rejection(
    served: tuple[Harness, str], framework: Framework, tmp_path: Path
) -> None:
    """Somebody rejects it: the model is told the words as the tool's result, and goes on."""
    script = agent_of(framework, "second", tmp_path)
    version = f"2.{FRAMEWORKS.index(framework)}"
    with at_work(served, framework, script, version) as (shop, agent):
        shop.reject(f"Deploy {version} to prod", "not today")
        ended_well(agent)
        assert "not today" in last_told(shop)


def agent_of(framework: Framework, run: str, folder: Path) -> Path:
    """The page's example for it as a script, which asks in #support within a run of its own."""
    example = framework.example("Frameworks")
    around = f"run='{framework.name} {run}', channel='C0SUPPORT'"
    script = folder / "agent.py"
    script.write_text(f"{DECORATED}\n" + example.replace('run="thread 7"', around))
    return script


@contextmanager
def at_work(
    served: tuple[Harness, str], framework: Framework, script: Path, version: str
) -> Iterator[tuple[Shop, subprocess.Popen[str]]]:
    """The agent at work, whose model wants to deploy that version and then says that it is done."""
    harness, key = served
    web = harness.app.endpoints.web
    assert web is not None
    call = ("deploy", {"version": version, "env": "prod"})
    harness.planner.script(Turn(calls=[call]), said(DONE, framework.name == "beeai"))
    pipe = subprocess.PIPE
    with gateway(harness.planner.url) as url:
        environ = {
            **offline(script.parent),
            "COUNTERSIGN_URL": web.url,
            "COUNTERSIGN_API_KEY": key,
            "OPENAI_BASE_URL": url,
        }
        command = [framework.python, script]
        with (
            Shop(harness, Countersign(web.url, key), PATIENCE) as shop,
            subprocess.Popen(command, env=environ, stdout=pipe, stderr=pipe, text=True) as run,
        ):
            try:
                yield shop, run
            except TimeoutError:
                run.kill()
                pytest.fail(run.communicate()[1])
            finally:
                run.kill()
    began = harness.began
    harness.reset()
    harness.began = began  # it is one story, of an agent that is started twice


def ended_well(agent: subprocess.Popen[str]) -> None:
    """Wait until it has said what the model said last."""
    printed, complaint = agent.communicate(timeout=PATIENCE)
    assert DONE in printed, complaint


def last_told(shop: Shop) -> str:
    """What the model was told last."""
    return json.dumps(shop.harness.planner.requests[-1])
