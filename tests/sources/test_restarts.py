"""The bot is ended and started anew at each stage of a request, with each source."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

import pytest

from tests.sources.place import Place, new_text
from tests.sources.source import End, Source, Stage
from tests.sources.table import cells
from tests.sources.test_each_source import as_told

HOLDS = {Stage.APPROVED: "POST /claim", Stage.DONE: "POST /outcome"}


@pytest.mark.parametrize(("name", "stage"), cells(Stage, Stage.APPROVED, Stage.CLAIMED))
def test_it_outlives_a_restart(
    place: Place, source_of: Callable[[str], Source], name: str, stage: Stage
) -> None:
    """Asked once, done once as people approved it, and the source hears so, whenever it was."""
    source, text = source_of(name), new_text(stage.name.lower(), name)
    harness, line = place.harness, place.line
    match stage:
        case Stage.BEFORE:
            harness.app.stop()
            asked = source.ask(text)
            if name != "message":
                place.wait(line.cut.is_set)
            harness.start()
            place.approve(text)
        case Stage.STORED:
            trouble = line.losing(source.loses[stage])
            asked = source.ask(text)
            place.wait(trouble.met.is_set)
            harness.restart()
            place.approve(text)
        case Stage.WAITING:
            asked = source.ask(text)
            place.card(text)
            harness.restart()
            asked.come_back()
            place.approve(text)
        case Stage.APPROVED if not source.claims:
            asked = source.ask(text)
            place.approve_and_restart(text)
        case Stage.APPROVED | Stage.DONE:
            with ExitStack() as held:
                trouble = held.enter_context(line.holding(HOLDS[stage]))
                asked = source.ask(text)
                place.approve(text)
                place.wait(trouble.met.is_set)
                harness.restart()
        case Stage.CLAIMED | Stage.REPORTED:
            asked = source.ask(text)
            place.card(text)
            trouble = line.losing(source.loses[stage])
            place.approve(text)
            place.wait(trouble.met.is_set)
            harness.restart()
    as_told(source, End.DONE, asked.outcome())
    assert place.cards(text) == 1
    assert place.wrong_with(text) == []
