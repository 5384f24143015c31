"""The bot is struck at a step of a story and started again: every promise holds."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.proof.crash.checks import list_violations
from tests.proof.crash.matrix import find_step, find_story_steps, sample_steps, tell_story
from tests.proof.crash.people import Press, Say, Scene
from tests.proof.crash.steps import Step
from tests.proof.crash.stories import BY_NAME, STORIES
from tests.proof.crash.troubles import Trouble
from tests.proof.crash.world import open_world
from tests.records import ON_A_SERVER

STORY = BY_NAME["approve"]
KINDS = ("commit of", "Slack's", "turn of the model", "effect of")


@pytest.fixture(scope="module")
def steps(tmp_path_factory: pytest.TempPathFactory) -> list[Step]:
    """The steps of the story."""
    return find_story_steps(STORY, tmp_path_factory.mktemp("steps"))


def strike_story(name: str, trouble: Trouble, most: int) -> list[str]:
    """Strike that story at so many of its steps; return what was wrong, with its step."""
    story = BY_NAME[name]
    found: list[str] = []
    with TemporaryDirectory() as short:  # a path short enough for sockets
        folder = Path(short)
        for step in sample_steps(find_story_steps(story, folder), most):
            told, _ = tell_story(story, (trouble, step), folder)
            found += [f"{step}: {each}" for each in told.wrong]
    return found


def test_a_story_has_steps_of_every_kind(steps: list[Step]) -> None:
    """They are before and after commits, calls to Slack, turns of the model and effects."""
    for kind in KINDS:
        for when in (": before", ": after"):
            assert find_step(steps, kind, when, 1)
    assert len(set(steps)) == len(steps)


@pytest.mark.parametrize(
    ("part", "when"),
    [
        pytest.param("call.running", ": after", marks=pytest.mark.long),
        ("effect of note", ": after"),
        pytest.param("call.succeeded", ": before", marks=pytest.mark.long),
    ],
)
def test_no_promise_breaks_if_killed_around_the_effect(
    tmp_path: Path, steps: list[Step], part: str, when: str
) -> None:
    """The process is really killed."""
    told, _ = tell_story(STORY, (Trouble.KILLED, find_step(steps, part, when, 1)), tmp_path)
    assert (told.struck, told.wrong) == (True, [])


@pytest.mark.long
@pytest.mark.file
def test_a_power_failure_at_the_effect_loses_nothing_told(
    tmp_path: Path, steps: list[Step]
) -> None:
    """Only writes that nobody waited for are gone."""
    told, _ = tell_story(STORY, (Trouble.POWER, find_step(steps, "effect", ": after", 1)), tmp_path)
    assert (told.struck, told.wrong) == (True, [])


@pytest.mark.long
@pytest.mark.parametrize("name", [story.name for story in STORIES])
@pytest.mark.parametrize(
    "trouble", [Trouble.KILLED, Trouble.TWICE if ON_A_SERVER else Trouble.POWER]
)
def test_each_story_survives_a_strike_at_one_of_its_steps(name: str, trouble: Trouble) -> None:
    """`make proof` takes all steps."""
    assert strike_story(name, trouble, 1) == []


@pytest.mark.long
def test_the_checks_find_planted_violations(tmp_path: Path) -> None:
    """These are a second effect, a lost click, a card out of date and an unknown message."""
    with open_world(tmp_path / "world", STORY.mind, STORY.policy) as made:
        scene = Scene(made)
        scene.play(STORY.acts())
        assert list_violations(STORY, made) == []
        line = made.ledger.lines()[0]
        line["record"] |= {"agreed": ["UBEN00001"]}
        with made.ledger.path.open("a") as file:
            file.write(f"{json.dumps(line)}\n")
        found = "\n".join(list_violations(STORY, made))
        assert "was done 2 times" in found
        assert "by the votes of [] alone" in found
        store = made.store()
        with store.write() as tx:
            tx.exec_driver_sql("UPDATE message SET wanted = wanted + 1 WHERE kind = 'card'")
            tx.exec_driver_sql("DELETE FROM delivery WHERE kind = 'action'")
            tx.exec_driver_sql("UPDATE message SET ts = '1.0' WHERE kind = 'answer'")
        store.close()
        found = "\n".join(list_violations(STORY, made))
        assert "and not" in found
        assert "1 clicks were acknowledged, and 0 are there" in found
        assert "no row knows of it" in found


@pytest.mark.long
def test_people_click_again_after_an_error_until_they_are_heard(
    tmp_path: Path, steps: list[Step]
) -> None:
    """A click that was stored and not acknowledged is also an error if the next start is slow."""
    for when, clicks in ((": before", {2}), (": after", {1, 2})):
        step = find_step(steps, "insert delivery", when, 2)
        place = tmp_path / str(len(clicks)) / "world"
        with open_world(place, STORY.mind, STORY.policy, (Trouble.KILLED, step)) as made:
            scene = Scene(made)
            scene.play([Say("@bot please"), Press("ana", "approve")])
            sent = [d for d in made.slack.deliveries if d.payload.get("type") == "block_actions"]
            assert made.struck
            assert len(sent) in clicks
            assert list_violations(STORY, made) == []
