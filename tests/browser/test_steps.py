"""What the agent is doing, as people see it on the page meanwhile."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bot.demo.model_server import Turn
from bot.tools import runner
from sandbox.tests.page.page import THREAD, Page
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness

pytestmark = [pytest.mark.browser, pytest.mark.long]
TASK = f"{THREAD} .task-card"
ANSWER = "Two parcels are on their way. " * 8


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Harness, FakeTools]]:
    """The whole product with a scripted model, and tools that wait until they may go on."""
    fakes = FakeTools()
    world = Harness(tmp_path_factory.mktemp("steps"), fakes.tools)
    yield world, fakes
    fakes.go_on.set()
    world.close()


@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (390, "dark")])
def test_a_running_step_is_shown_on_the_page(
    page: Page,
    world: tuple[Harness, FakeTools],
    monkeypatch: pytest.MonkeyPatch,
    width: int,
    theme: str,
) -> None:
    """The status names it, the task spins and then has a tick; the answer follows below."""
    monkeypatch.setattr(runner, "FIRST_BEAT_SECONDS", 0.3)
    harness, fakes = world
    fakes.go_on.clear()
    harness.planner.script(
        Turn(calls=[("watch", {"text": "the parcel service"})]), Turn(text=ANSWER)
    )
    page.size(width, 844)
    page.open(harness.slack.url, "ben", SUPPORT, theme=theme)
    root = harness.person("ben").say(SUPPORT, f"@bot where are they, on {width}")
    page.ts(f"on {width}")
    page.open(harness.slack.url, "ben", SUPPORT, theme=theme, thread=root)
    page.wait(lambda: page.all(f"{TASK}.in_progress", "Watching the parcel service"), "no task")
    page.wait(
        lambda: "is watching the parcel service…" in page.text("[data-testid=status]"), "no status"
    )
    fakes.go_on.set()
    page.message("Two parcels are on their way", thread=True)
    page.wait(lambda: page.all(f"{TASK}.complete", "Watching the parcel service"), "no tick")
    page.gone(f"{TASK}.in_progress")
    assert len(page.all(TASK)) == 1
    assert page.complaints() == []
