"""The stories of the Slack path, with every source."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.sources.place import Place, new_text
from tests.sources.source import Asked, End, ReportedEnd, Source, is_plain
from tests.sources.table import CANNOT, IN_SLACK, SOURCES, Story, build_cases

WHY = "not on a Friday"
HOUR = 3601  # seconds, longer than the deadline


def approve(place: Place, asked: Asked) -> None:
    """Ana approves."""
    place.approve(asked.text)


def reject(place: Place, asked: Asked) -> None:
    """Ana rejects, with a reason."""
    place.reject(asked.text, WHY)


def expire(place: Place, asked: Asked) -> None:
    """Nobody decides for an hour."""
    place.card(asked.text)
    place.harness.clock.advance(HOUR)


def cancel(place: Place, asked: Asked) -> None:
    """It is taken back while people decide."""
    place.card(asked.text)
    asked.take_back()


ENDS: dict[Story, tuple[Callable[[Place, Asked], None], End]] = {
    Story.APPROVE: (approve, End.DONE),
    Story.REJECT: (reject, End.REJECTED),
    Story.EXPIRE: (expire, End.EXPIRED),
    Story.CANCEL: (cancel, End.CANCELLED),
}


def check_reported_end(source: Source, end: End, heard: ReportedEnd) -> None:
    """Check that the source was told that end, in plain words if it was not done."""
    assert heard.how == source.hears[end], heard
    by_itself = end is End.CANCELLED and not heard.sentence and source.name not in IN_SLACK
    assert by_itself or end is End.DONE or is_plain(heard.sentence), heard


@pytest.mark.parametrize(
    ("name", "story"),
    build_cases(Story, *Story),
)
def test_each_story_ends_the_same_with_every_source(
    place: Place, source_of: Callable[[str], Source], name: str, story: Story
) -> None:
    """There is one effect with enough votes, or none, and the card is true."""
    source = source_of(name)
    text = new_text("both want it" if story is Story.QUORUM else story, name)
    place.line.twice = story is Story.TWICE
    asked = source.ask(text)
    match story:
        case Story.EDIT:
            other = f"{text}, edited"
            place.edit(text, other)
            place.approve(other, "cleo")
            check_reported_end(source, End.DONE, asked.outcome())
            assert place.done(text) == 0
            assert place.wrong_with(other) == []
        case Story.QUORUM:
            place.approve(text)
            assert place.done(text) == 0
            place.approve(text, "cleo")
            check_reported_end(source, End.DONE, asked.outcome())
            assert place.wrong_with(text, needs=2) == []
        case Story.TWICE:
            place.approve(text, twice=True)
            check_reported_end(source, End.DONE, asked.outcome())
            assert place.cards(text) == 1
            assert place.wrong_with(text) == []
        case _:
            act, end = ENDS[story]
            act(place, asked)
            heard = asked.outcome()
            check_reported_end(source, end, heard)
            assert end is not End.REJECTED or WHY in heard.sentence, heard
            assert place.wrong_with(text, times=int(end is End.DONE)) == []


@pytest.mark.long
@pytest.mark.parametrize("name", ["HTTP", "handed over"])
def test_a_cancellation_whose_answer_is_lost_is_repeated(
    place: Place, source_of: Callable[[str], Source], name: str
) -> None:
    """The answer is lost; the program cancels again, and gets the answer."""
    source, text = source_of(name), new_text("unheard", name)
    asked = source.ask(text)
    place.card(text)
    trouble = place.line.losing("POST /cancel")
    asked.take_back()
    assert trouble.met.is_set()
    check_reported_end(source, End.CANCELLED, asked.outcome())
    assert place.wrong_with(text, times=0) == []


def test_the_table_has_every_source_once() -> None:
    """Each reason is about an existing source, and is not empty."""
    names = [each.name for each in SOURCES]
    assert len(set(names)) == len(names)
    for name in [*CANNOT, *IN_SLACK]:
        assert name in names
    assert all(why for reasons in CANNOT.values() for why in reasons.values())
