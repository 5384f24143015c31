"""The bot is restarted at each stage of a request, with every source."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.sources.place import Place, new_text
from tests.sources.source import Asked, End, Source, Stage
from tests.sources.table import build_cases
from tests.sources.test_each_source import check_reported_end


@pytest.mark.parametrize(("name", "stage"), build_cases(Stage, Stage.APPROVED, Stage.CLAIMED))
def test_a_request_survives_a_restart_at_every_stage(
    place: Place, source_of: Callable[[str], Source], name: str, stage: Stage
) -> None:
    """It is asked once and done once as approved.

    If the source takes a restart for a refusal, nothing is done.
    """
    source, text = source_of(name), new_text(stage.name.lower(), name)
    asked, end = ask_with_restart(place, source, stage, text), source.ends.get(stage, End.DONE)
    check_reported_end(source, end, asked.outcome())
    assert place.cards(text) == 1
    assert place.wrong_with(text, times=int(end is End.DONE)) == []


def ask_with_restart(place: Place, source: Source, stage: Stage, text: str) -> Asked:
    """Have it asked and approved, with the bot restarted at that stage."""
    harness, line = place.harness, place.line
    match stage:
        case Stage.BEFORE:
            harness.app.stop()
            asked = source.ask(text)
            if source.name != "message":
                place.wait(line.cut.is_set)
            harness.start()
            asked.come_back()
            place.approve(text)
        case Stage.STORED:
            is_lost = source.losing(stage, text)
            asked = source.ask(text)
            place.wait(is_lost)
            harness.restart()
            asked.come_back()
            place.approve(text)
        case Stage.WAITING:
            asked = source.ask(text)
            place.card(text)
            harness.restart()
            asked.come_back()
            if stage not in source.ends:
                place.approve(text)
        case Stage.APPROVED if not source.claims:
            asked = source.ask(text)
            place.approve_and_restart(text)
        case Stage.RUNNING:
            asked = source.ask(text)
            place.restart_during_effect(text)
        case Stage.APPROVED | Stage.DONE:
            with line.holding(source.says[stage]) as trouble:
                asked = source.ask(text)
                place.approve(text)
                place.wait(trouble.met.is_set)
                harness.restart()
        case Stage.CLAIMED | Stage.REPORTED:
            asked = source.ask(text)
            place.card(text)
            is_lost = source.losing(stage, text)
            place.approve(text)
            place.wait(is_lost)
            harness.restart()
    return asked
