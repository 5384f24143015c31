"""A disk that fails for a while, at each kind of write: nothing is lost, nothing happens twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage.models import Call
from storage.states import CallStatus
from tests.proof.crash.checks import violations
from tests.proof.crash.matrix import step_like, steps_of
from tests.proof.crash.people import Scene
from tests.proof.crash.steps import Step
from tests.proof.crash.stories import BY_NAME
from tests.proof.crash.troubles import OF_THE_DISK, Trouble, can_fail_fsync
from tests.proof.crash.world import World, can_mount, world
from tests.records import ON_A_SERVER

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(ON_A_SERVER, reason="the disk is the server's affair"),
]
STORY = BY_NAME["approve"]
AFTER, BEFORE = ": after", ": before"
WRITES = {  # what is written next, by a part of the step's name and the how-manyth of these it is
    "inbox": ("insert delivery", BEFORE, 2),
    "decision": ("insert delivery", AFTER, 2),
    "intent": ("call.running", BEFORE, 1),
    "outcome": ("effect of note", AFTER, 1),
    "outbox": ("chat.postMessage", AFTER, 1),
    "proposal": ("turn of the model", AFTER, 1),
}
CASES = [(trouble, write) for trouble in OF_THE_DISK for write in WRITES]


@pytest.fixture(scope="module")
def steps(tmp_path_factory: pytest.TempPathFactory) -> list[Step]:
    """The steps of the story."""
    return steps_of(STORY, tmp_path_factory.mktemp("steps"))


def told(made: World) -> str:
    """What the bot's own log says, after the whole story was told and every promise was kept."""
    Scene(made).play(STORY.acts())
    assert made.struck
    assert violations(STORY, made) == []
    return (made.folder / "log").read_text("utf-8")


def skip_where_impossible(trouble: Trouble, folder: Path) -> None:
    """Some troubles take a right or a machine that is not everywhere."""
    if trouble is Trouble.FULL and not can_mount(folder / "mount"):
        pytest.skip("only root may mount a small disk")
    if trouble is Trouble.FSYNC and not can_fail_fsync():
        pytest.skip("the system calls of this machine are not known")


@pytest.mark.parametrize(("trouble", "write"), CASES)
def test_a_disk_that_fails_at_a_write(
    tmp_path: Path, steps: list[Step], trouble: Trouble, write: str
) -> None:
    """The story comes to its end once the disk is well, and a result that was had is stored."""
    skip_where_impossible(trouble, tmp_path)
    strike = (trouble, step_like(steps, *WRITES[write]))
    with world(tmp_path / "world", STORY.mind, STORY.policy, strike) as made:
        log = told(made)
        [call] = made.all(Call)
        wanted = {CallStatus.SUCCEEDED}
        if trouble is Trouble.FSYNC:  # it was started again, and people said what they know
            wanted.add(CallStatus.FAILED)
        assert call.status in wanted
        if write == "outcome" and trouble is not Trouble.FSYNC:
            assert "is kept until it can" in log


def test_a_database_locked_for_forty_seconds(tmp_path: Path, steps: list[Step]) -> None:
    """Somebody else writes for longer than any statement waits: it is kept, and stored then.

    Which statements wait in vain is open: the outcome may stand behind those of other threads.
    """
    strike = (Trouble.LOCKED, step_like(steps, *WRITES["outcome"]))
    with world(tmp_path / "world", STORY.mind, STORY.policy, strike) as made:
        made.lasts = 40.0
        assert "database is locked" in told(made)
        assert [call.status for call in made.all(Call)] == [CallStatus.SUCCEEDED]
