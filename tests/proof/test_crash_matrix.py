"""Struck at a step of a story and started again: every promise holds, whatever the step."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.proof.crash.checks import violations
from tests.proof.crash.matrix import sample, step_like, steps_of, tell
from tests.proof.crash.people import Press, Say, Scene
from tests.proof.crash.steps import Step
from tests.proof.crash.stories import BY_NAME, STORIES
from tests.proof.crash.troubles import Trouble
from tests.proof.crash.world import world
from tests.records import ON_A_SERVER

STORY = BY_NAME["approve"]
KINDS = ("commit of", "Slack's", "turn of the model", "effect of")


@pytest.fixture(scope="module")
def steps(tmp_path_factory: pytest.TempPathFactory) -> list[Step]:
    """The steps of the story."""
    return steps_of(STORY, tmp_path_factory.mktemp("steps"))


def wrong(name: str, trouble: Trouble, most: int) -> list[str]:
    """Strike that story at so many of its steps; return what was wrong, with its step."""
    story = BY_NAME[name]
    found: list[str] = []
    with TemporaryDirectory() as short:  # enough for sockets
        folder = Path(short)
        for step in sample(steps_of(story, folder), most):
            told, _ = tell(story, (trouble, step), folder)
            found += [f"{step}: {each}" for each in told.wrong]
    return found


def test_a_story_has_steps_of_every_kind(steps: list[Step]) -> None:
    """Tracing finds commits, calls to Slack, turns of the model and effects, before and after."""
    for kind in KINDS:
        for when in (": before", ": after"):
            assert step_like(steps, kind, when, 1)
    assert len(set(steps)) == len(steps)


@pytest.mark.parametrize(
    ("part", "when"),
    [
        pytest.param("call.running", ": after", marks=pytest.mark.long),
        ("effect of note", ": after"),
        pytest.param("call.succeeded", ": before", marks=pytest.mark.long),
    ],
)
def test_killed_around_the_effect(tmp_path: Path, steps: list[Step], part: str, when: str) -> None:
    """The process is really killed where it matters most, and no promise is broken."""
    told, _ = tell(STORY, (Trouble.KILLED, step_like(steps, part, when, 1)), tmp_path)
    assert (told.struck, told.wrong) == (True, [])


@pytest.mark.long
@pytest.mark.file
def test_a_power_failure_amid_an_approval(tmp_path: Path, steps: list[Step]) -> None:
    """What was not waited for is gone, and nothing that anybody was told of is."""
    told, _ = tell(STORY, (Trouble.POWER, step_like(steps, "effect", ": after", 1)), tmp_path)
    assert (told.struck, told.wrong) == (True, [])


@pytest.mark.long
@pytest.mark.parametrize("name", [story.name for story in STORIES])
@pytest.mark.parametrize(
    "trouble", [Trouble.KILLED, Trouble.TWICE if ON_A_SERVER else Trouble.POWER]
)
def test_each_story_struck_here_and_there(name: str, trouble: Trouble) -> None:
    """A step of each story; `make proof` takes all of them."""
    assert wrong(name, trouble, 1) == []


@pytest.mark.long
def test_the_checks_see_what_is_wrong(tmp_path: Path) -> None:
    """A second effect, lost words, a card that lies and a doubled message are each found."""
    with world(tmp_path / "world", STORY.mind, STORY.policy) as made:
        scene = Scene(made)
        scene.play(STORY.acts())
        assert violations(STORY, made) == []
        line = made.ledger.lines()[0]
        line["record"] |= {"agreed": ["UBEN00001"]}
        with made.ledger.path.open("a") as file:
            file.write(f"{json.dumps(line)}\n")
        found = "\n".join(violations(STORY, made))
        assert "was done 2 times" in found
        assert "by the votes of [] alone" in found
        store = made.store()
        with store.write() as tx:
            tx.exec_driver_sql("UPDATE message SET wanted = wanted + 1 WHERE kind = 'card'")
            tx.exec_driver_sql("DELETE FROM delivery WHERE kind = 'action'")
            tx.exec_driver_sql("UPDATE message SET ts = '1.0' WHERE kind = 'answer'")
        store.close()
        found = "\n".join(violations(STORY, made))
        assert "and not" in found
        assert "1 clicks were acknowledged, and 0 are there" in found
        assert "no row knows of it" in found


@pytest.mark.long
def test_a_bot_that_dies_is_waited_for(tmp_path: Path, steps: list[Step]) -> None:
    """Who clicked and saw an error clicks again; who was heard need not.

    A click that was stored, but not acknowledged, is an error as well where the next start is slow.
    """
    for when, clicks in ((": before", {2}), (": after", {1, 2})):
        step = step_like(steps, "insert delivery", when, 2)
        place = tmp_path / str(len(clicks)) / "world"
        with world(place, STORY.mind, STORY.policy, (Trouble.KILLED, step)) as made:
            scene = Scene(made)
            scene.play([Say("@bot please"), Press("ana", "approve")])
            sent = [d for d in made.slack.deliveries if d.payload.get("type") == "block_actions"]
            assert made.struck
            assert len(sent) in clicks
            assert violations(STORY, made) == []
