"""Every story, struck at every step by every trouble, and what was found."""

from __future__ import annotations

import json
import logging
import time
import traceback
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import mkdtemp

from tests.proof.crash.checks import list_violations
from tests.proof.crash.life import Stuck
from tests.proof.crash.people import Scene
from tests.proof.crash.steps import Step
from tests.proof.crash.stories import BY_NAME, Story
from tests.proof.crash.troubles import Trouble
from tests.proof.crash.world import describe_world, open_world


@dataclass
class Telling:
    """One telling of a story."""

    story: str
    trouble: str
    step: str
    struck: bool = False
    lives: int = 0
    seconds: float = 0.0
    wrong: list[str] = field(default_factory=list)


def find_story_steps(story: Story, folder: Path) -> list[Step]:
    """Tell the story undisturbed; return its steps. Raises AssertionError if that goes wrong."""
    told, steps = tell_story(story, None, folder)
    assert not told.wrong, told.wrong
    return steps


def tell_story(
    story: Story, strike: tuple[Trouble, Step] | None, folder: Path
) -> tuple[Telling, list[Step]]:
    """Tell the story in a world of its own; also return its steps, if none was struck."""
    told = Telling(story.name, strike[0] if strike else "", str(strike[1]) if strike else "")
    begun = time.monotonic()
    place = Path(mkdtemp(dir=folder)) / "world"
    with open_world(
        place, story.mind, story.policy, strike, over=story.over, served=story.served
    ) as made:
        try:
            Scene(made).play(story.acts())
            told.wrong = list_violations(story, made)
        except (Stuck, TimeoutError, AssertionError, LookupError) as error:
            told.wrong = [f"{type(error).__name__}: {error}", traceback.format_exc()[-1500:]]
        if told.wrong:
            told.wrong += [*describe_world(made), (made.folder / "log").read_text()[-3000:]]
        told.struck, told.lives = made.struck, made.lives
        steps = made.steps
    place.parent.rmdir()
    told.seconds = time.monotonic() - begun
    return told, steps


def tell_for_pool(work: tuple[str, Trouble, Step, str]) -> str:
    """One telling in a process pool, from story name, trouble, step and folder; returns JSON."""
    name, trouble, step, folder = work
    logging.getLogger("aiohttp").setLevel(logging.CRITICAL)  # it logs each cut connection
    told, _ = tell_story(BY_NAME[name], (trouble, step), Path(folder))
    if not told.struck and not told.wrong:  # it took another course this time
        told, _ = tell_story(BY_NAME[name], (trouble, step), Path(folder))
    return json.dumps(asdict(told))


def find_step(steps: Sequence[Step], part: str, when: str, number: int) -> Step:
    """The step of that number whose name has that part and that end."""
    found = [each for each in steps if part in each.what and each.what.endswith(when)]
    return found[number - 1]


def sample_steps(steps: Sequence[Step], most: int) -> list[Step]:
    """At most so many of these steps, at equal distances."""
    every = max(1, -(-len(steps) // most))
    return list(steps[::every])
