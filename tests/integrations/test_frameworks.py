"""The examples of docs/integrations.md, run with the frameworks' own packages as processes.

`make integrations` installs them into environments of their own; without it they are skipped.
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
    build_environment,
    build_last_turn,
)
from tests.integrations.gateway import gateway
from tests.pages import blocks_in, section
from tests.stories.harness import Harness

DECORATED = blocks_in(section(PAGE, "Frameworks"), "python")[0]
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Harness, str]]:
    """The bot, a scripted model, and a key for deployments."""
    harness = Harness(tmp_path_factory.mktemp("frameworks"), transport=Transport.HTTP)
    yield harness, key_for(harness, "framework", "deploy")
    harness.close()


@pytest.fixture(params=FRAMEWORKS, ids=lambda each: each.name)
def framework(request: pytest.FixtureRequest) -> Framework:
    """Each framework that is installed."""
    found: Framework = request.param
    if not found.python.exists():
        pytest.skip("`make integrations` installs the frameworks")
    return found


def test_an_agent_waits_for_approval_and_runs_once(
    served: tuple[Harness, str], framework: Framework, tmp_path: Path
) -> None:
    """Edited and approved, it runs, and the model gets the result.

    The same agent started again gets it too, without asking or running twice.
    """
    script = write_agent(framework, "first", tmp_path)
    version = f"1.{FRAMEWORKS.index(framework)}"
    with run_agent(served, framework, script, version) as (shop, agent):
        shop.edit(f"Deploy {version} to prod", version=f"{version}.7")
        shop.approve(f"Deploy {version}.7 to prod", "cleo")
        wait_for_success(agent)
        assert f"{version}.7 is on prod" in get_last_request(shop)
    with run_agent(served, framework, script, version) as (shop, agent):
        wait_for_success(agent)
        assert f"{version}.7 is on prod" in get_last_request(shop)
        assert len(shop.list_calls(f"{version}.7")) == 1


def test_an_agent_gets_the_words_of_a_rejection(
    served: tuple[Harness, str], framework: Framework, tmp_path: Path
) -> None:
    """The words are the tool's result, and the model goes on."""
    script = write_agent(framework, "second", tmp_path)
    version = f"2.{FRAMEWORKS.index(framework)}"
    with run_agent(served, framework, script, version) as (shop, agent):
        shop.reject(f"Deploy {version} to prod", "not today")
        wait_for_success(agent)
        assert "not today" in get_last_request(shop)


def write_agent(framework: Framework, run: str, folder: Path) -> Path:
    """The page's example as a script, which asks in #support within its own run."""
    example = framework.example("Frameworks")
    around = f"run='{framework.name} {run}', channel='C0SUPPORT'"
    script = folder / "agent.py"
    script.write_text(f"{DECORATED}\n" + example.replace('run="thread 7"', around))
    return script


@contextmanager
def run_agent(
    served: tuple[Harness, str], framework: Framework, script: Path, version: str
) -> Iterator[tuple[Shop, subprocess.Popen[str]]]:
    """Run the agent; its model deploys that version and then says that it is done."""
    harness, key = served
    web = harness.app.endpoints.web
    assert web is not None
    call = ("deploy", {"version": version, "env": "prod"})
    harness.planner.script(Turn(calls=[call]), build_last_turn(DONE, framework.name == "beeai"))
    pipe = subprocess.PIPE
    with gateway(harness.planner.url) as url:
        environ = {
            **build_environment(script.parent),
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
    harness.began = began  # the same story goes on when the agent is started again


def wait_for_success(agent: subprocess.Popen[str]) -> None:
    """Wait until it has printed the model's last words."""
    printed, complaint = agent.communicate(timeout=PATIENCE)
    assert DONE in printed, complaint


def get_last_request(shop: Shop) -> str:
    """The last request to the model."""
    return json.dumps(shop.harness.planner.requests[-1])
