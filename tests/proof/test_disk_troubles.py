"""A disk fails for a while, at each kind of write: nothing is lost, and nothing happens twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage.models import Call
from storage.states import CallStatus
from tests.proof.crash.checks import list_violations
from tests.proof.crash.matrix import find_step, find_story_steps
from tests.proof.crash.people import Scene
from tests.proof.crash.steps import Step
from tests.proof.crash.stories import BY_NAME
from tests.proof.crash.troubles import DISK_TROUBLES, Trouble, can_fail_fsync
from tests.proof.crash.world import World, can_mount, open_world
from tests.records import ON_A_SERVER

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(ON_A_SERVER, reason="the disk is the server's affair"),
]
STORY = BY_NAME["approve"]
AFTER, BEFORE = ": after", ": before"
WRITES = {  # next write -> part of the step's name, its end, and its number among such steps
    "inbox": ("insert delivery", BEFORE, 2),
    "decision": ("insert delivery", AFTER, 2),
    "intent": ("call.running", BEFORE, 1),
    "outcome": ("effect of note", AFTER, 1),
    "outbox": ("chat.postMessage", AFTER, 1),
    "proposal": ("turn of the model", AFTER, 1),
}
CASES = [(trouble, write) for trouble in DISK_TROUBLES for write in WRITES]


@pytest.fixture(scope="module")
def steps(tmp_path_factory: pytest.TempPathFactory) -> list[Step]:
    """The steps of the story."""
    return find_story_steps(STORY, tmp_path_factory.mktemp("steps"))


def play_story_and_read_log(made: World) -> str:
    """Tell the whole story, check every promise, and return the bot's own log."""
    Scene(made).play(STORY.acts())
    assert made.struck
    assert list_violations(STORY, made) == []
    return (made.folder / "log").read_text("utf-8")


def skip_where_impossible(trouble: Trouble, folder: Path) -> None:
    """Some troubles need a right or a machine that is not everywhere."""
    if trouble is Trouble.FULL and not can_mount(folder / "mount"):
        pytest.skip("only root may mount a small disk")
    if trouble is Trouble.FSYNC and not can_fail_fsync():
        pytest.skip("the system calls of this machine are not known")


@pytest.mark.parametrize(("trouble", "write"), CASES)
def test_a_story_ends_once_a_failed_disk_works_again(
    tmp_path: Path, steps: list[Step], trouble: Trouble, write: str
) -> None:
    """A result that the tool had returned is stored."""
    skip_where_impossible(trouble, tmp_path)
    strike = (trouble, find_step(steps, *WRITES[write]))
    with open_world(tmp_path / "world", STORY.mind, STORY.policy, strike) as made:
        log = play_story_and_read_log(made)
        [call] = made.all(Call)
        wanted = {CallStatus.SUCCEEDED}
        if trouble is Trouble.FSYNC:  # it was restarted, and people recorded what they know
            wanted.add(CallStatus.FAILED)
        assert call.status in wanted
        if write == "outcome" and trouble is not Trouble.FSYNC:
            assert "is kept until it can" in log


def test_a_result_is_kept_while_the_database_is_locked(tmp_path: Path, steps: list[Step]) -> None:
    """It is locked for 40 seconds, longer than any statement waits.

    Which statements time out is open: the outcome may be queued behind those of other threads.
    """
    strike = (Trouble.LOCKED, find_step(steps, *WRITES["outcome"]))
    with open_world(tmp_path / "world", STORY.mind, STORY.policy, strike) as made:
        made.lasts = 40.0
        assert "database is locked" in play_story_and_read_log(made)
        assert [call.status for call in made.all(Call)] == [CallStatus.SUCCEEDED]
