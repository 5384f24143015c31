"""Work that a framework suspends while people decide: examples of docs/integrations.md, begun by
one process and finished by others, with the frameworks' own packages.

`make integrations` installs them; without them it is skipped.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bot.config.connection_settings import Transport
from countersign import Countersign
from storage.programs import CLAIM_LEASE_DURATION
from storage.states import CallStatus
from tests.client.shop import Shop, key_for
from tests.integrations.frameworks import DONE, FRAMEWORKS, PATIENCE, Framework
from tests.integrations.gateway import gateway
from tests.integrations.suspended import AWAITED_GRAPH, Dies, Work, plan_deployment
from tests.model_stand_in.planner import StrictPlanner
from tests.stories.harness import Harness

WAITING = "People decide."
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """The bot, which serves the API."""
    made = Harness(tmp_path_factory.mktemp("suspended"), transport=Transport.HTTP)
    yield made
    made.close()


@pytest.fixture(scope="module", params=FRAMEWORKS, ids=lambda each: each.name)
def work(
    request: pytest.FixtureRequest, harness: Harness, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Work]:
    """Agents of one framework, their model, and a key for deployments."""
    framework: Framework = request.param
    if not framework.python.exists():
        pytest.skip("`make integrations` installs the frameworks")
    web = harness.app.endpoints.web
    assert web is not None
    key = key_for(harness, framework.name, "deploy")
    asked = {"COUNTERSIGN_URL": web.url, "COUNTERSIGN_API_KEY": key}
    client = Countersign(web.url, key)
    with (
        StrictPlanner(mind=plan_deployment) as model,
        gateway(model.url) as url,
        Shop(harness, client, PATIENCE) as shop,
    ):
        folder = tmp_path_factory.mktemp(framework.name)
        found = Work(framework, shop, model, folder, {**asked, "OPENAI_BASE_URL": url})
        yield found
        found.close()
    harness.reset()


def test_suspended_calls_are_resumed_once(work: Work) -> None:
    """Four calls are asked, and their process ends.

    Resumed by two processes, the edited call has one effect. After a death during the effect nobody
    knows, and it is not repeated; after one before the framework stored the result, the result is
    given again. The rejected one gives the words.
    """
    edited, dies, reported, rejected = (f"{work.number}.{each}" for each in range(1, 5))
    everything = (edited, dies, reported, rejected)
    assert work.run(*everything) == [WAITING] * 4
    shop = work.shop
    for version in everything:
        shop.wait_for_card(f"Deploy {version} to prod")
    assert work.run(edited) == [WAITING]
    shop.edit(f"Deploy {edited} to prod", version=f"{edited}.7")
    shop.approve(f"Deploy {edited}.7 to prod", "cleo")
    shop.approve(f"Deploy {dies} to prod")
    shop.approve(f"Deploy {reported} to prod")
    shop.reject(f"Deploy {rejected} to prod", "not today")

    resume_twice(work, edited)
    work.run(dies, dies=Dies.AT_WORK)
    work.run(reported, dies=Dies.ONCE_REPORTED)
    shop.harness.clock.advance(CLAIM_LEASE_DURATION.total_seconds() + 1)
    shop.harness.slack.wait(lambda: shop.list_calls(f'"{dies}"')[0].status is CallStatus.UNKNOWN)
    assert work.run(dies, reported, rejected) == [DONE] * 3

    assert work.effects(*everything) == [f"{edited}.7", dies, reported]
    assert [f"{edited}.7 is on prod" in each for each in work.told(edited)] == [True, True]
    assert ["Outcome unknown" in each for each in work.told(dies)] == [True]
    assert [f"{reported} is on prod" in each for each in work.told(reported)] == [True]
    assert ["not today" in each for each in work.told(rejected)] == [True]


def test_two_calls_of_one_turn_are_asked_together(work: Work) -> None:
    """The agent waits until both are decided.

    Each is asked once, and the approved one runs once.
    """
    one, other = f"{work.number}.5", f"{work.number}.6"
    shop = work.shop
    assert work.run(f"{one}+{other}") == [WAITING]
    shop.wait_for_card(f"Deploy {other} to prod")
    shop.approve(f"Deploy {one} to prod")
    assert work.run(f"{one}+{other}") == [WAITING]
    shop.reject(f"Deploy {other} to prod", "not both")
    assert work.run(f"{one}+{other}") == [DONE]
    assert work.effects(one, other) == [one]
    results = " ".join(work.told(one))
    assert f"{one} is on prod" in results
    assert "not both" in results
    assert len(shop.list_calls(f'"{one}"')) == len(shop.list_calls(f'"{other}"')) == 1


def test_a_call_whose_arguments_do_not_fit_asks_nobody(work: Work) -> None:
    """The model is told, and the agent goes on."""
    version = f"{work.number}.wrong"
    said = work.run(version)
    if said == [WAITING]:  # this framework interrupts before it looks at arguments
        said = work.run(version)
    assert said == [DONE]
    assert ["env" in each for each in work.told(version)] == [True]
    assert not work.shop.list_calls(version)


@pytest.mark.parametrize("work", FRAMEWORKS[:1], ids=["langgraph"], indirect=True)
def test_a_graph_without_an_agent_can_be_suspended(work: Work) -> None:
    """LangGraph's node of tools suspends as well, with async functions."""
    done, rejected = f"{work.number}.8", f"{work.number}.9"
    work.begin(done, rejected, code=AWAITED_GRAPH, awaits=True)
    work.shop.edit(f"Deploy {done} to prod", version=f"{done}.7")
    work.shop.approve(f"Deploy {done}.7 to prod", "cleo")
    work.shop.reject(f"Deploy {rejected} to prod", "not awaited")
    said, why = work.wait_for_end(done, rejected)
    assert said == f"success: {done}.7 is on prod"
    assert why.startswith("error: It was not done.")
    assert "not awaited" in why


def resume_twice(work: Work, version: str) -> None:
    """Resume it in two processes; while one is at work, the other waits."""
    work.hold.touch()
    work.begin(version, version)
    try:
        work.shop.harness.slack.wait(lambda: work.effects(version), PATIENCE)
        work.shop.harness.slack.wait(work.hold.with_name("waits").exists, PATIENCE)
    finally:
        work.hold.unlink()
        said = work.wait_for_end(version, version)
    assert said == [DONE, DONE]
