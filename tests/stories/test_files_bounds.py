"""Files that people attach: how many, how much, and what becomes of the others."""

from __future__ import annotations

import threading

import pytest

from bot.agent import file_items as told_of
from bot.demo.model_server import Turn
from storage.transcripts import WithheldReason
from tests.stories.harness import SUPPORT, Harness
from tests.stories.steps import arrived
from tests.stories.test_files import (
    PDF,
    PNG,
    about_files,
    asked,
    data,
    file_share,
    kept,
    parts,
    parts_of,
    shared,
    texts,
)


def test_no_more_is_read_than_the_limits_let_in(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten files are read at once, three long texts of them, and pictures and PDFs as the thread has
    room for, requests before counted; the others are named, with why.
    """
    long = {f"{number}.log": b"x" * 30_000 for number in range(5)}
    short = {f"{number}.txt": b"short" for number in range(6)}
    thread = shared(harness, "@bot read all of it", {**long, **short}, Turn(text="What I can."))
    harness.said(SUPPORT, thread, "What I can.")
    assert texts(harness).count("[… 10000 more characters were left out]") == 3
    assert texts(harness).count(f"not read, because {told_of.TOO_MUCH_TEXT_REASON}.") == 7
    assert f"5.txt: not read, because {told_of.TOO_MANY_FILES_REASON}." in texts(harness)

    monkeypatch.setattr(told_of, "MAX_FILE_BYTES_PER_THREAD", len(PNG) + len(PDF))
    shared(harness, "@bot the first", {"a.png": PNG}, Turn(text="Seen."), thread=thread)
    more = {"b.png": PNG, "c.pdf": PDF, "d.pdf": PDF}
    shared(harness, "@bot more", more, Turn(text="One of them."), thread=thread)
    harness.said(SUPPORT, thread, "One of them.")
    for name in ("b.png", "d.pdf"):
        assert f"{name}: not read, because {told_of.THREAD_FULL_REASON}." in texts(harness)
    assert parts(harness)[3]["file_data"] == data("application/pdf", PDF)


def test_a_refused_file_takes_no_other_along(harness: Harness) -> None:
    """Where a request is refused only those files are left out that the model's server has not
    taken before.
    """
    thread = shared(harness, "@bot keep this", {"first.png": PNG}, Turn(text="I have it."))
    harness.said(SUPPORT, thread, "I have it.")
    harness.planner.fail_next_requests(400)
    turn = Turn(text="Not the second.")
    later = shared(harness, "@bot and this", {"second.png": PNG + b"2"}, turn, thread=thread)
    harness.said(SUPPORT, thread, "Not the second.")
    harness.settle()
    sent = [part for item in asked(harness) if about_files(item) for part in parts_of(item)]
    assert [each["image_url"] for each in sent if "image_url" in each] == [data("image/png", PNG)]
    assert told_of.REFUSED_FILE_TEXT in texts(harness)
    assert [each.withheld for each in (*kept(harness, thread), *kept(harness, later))] == [
        WithheldReason.NO,
        WithheldReason.REFUSED,
    ]


def test_a_file_of_somebody_else_that_is_deleted_is_gone(harness: Harness) -> None:
    """Also the file of a message that was none to the bot is forgotten with its message, when the
    request is over.
    """
    root = harness.person("ana").say(SUPPORT, "lunch?")
    ana = harness.person("ana")
    menu = ana.share(SUPPORT, "the menu", {"menu.txt": b"Stew, 5 EUR"}, root)
    harness.planner.script(Turn(text="Stew."))
    harness.person("ben").say(SUPPORT, "@bot what is there today?", root)
    harness.said(SUPPORT, root, "Stew.")
    arrived(harness)
    assert "> Stew, 5 EUR" in texts(harness)
    ana.delete(SUPPORT, menu)
    arrived(harness)
    harness.planner.script(Turn(text="I do not know any more."))
    harness.person("ben").say(SUPPORT, "@bot and again?", root)
    harness.said(SUPPORT, root, "I do not know any more.")
    harness.settle()
    assert "Stew, 5 EUR" not in str(asked(harness))
    assert [(each.withheld, each.data) for each in kept(harness, menu)] == [
        (WithheldReason.DELETED, "")
    ]


def test_a_stop_while_files_are_fetched_loses_none(harness: Harness) -> None:
    """What the bot was fetching when it was stopped is not taken for what cannot be read: the next
    start reads it.
    """
    menu = harness.person("ana").share(SUPPORT, "the menu", {"menu.txt": b"Pie, 6 EUR"})
    [file] = harness.person("ana").files_of(SUPPORT, menu)
    hold = harness.slack.faults.hold("files.info")
    harness.planner.script(Turn(text="Pie it is."))
    with harness.slack.world.lock:
        told = {"id": file["id"], "name": "menu.txt", "file_access": "check_file_info"}
        bot = harness.slack.world.app.bot_user
        ts = file_share(harness, f"<@{bot}> what is there to eat?", [told])
    assert hold.arrived.wait(30)
    stopped = threading.Thread(target=harness.app.stop)
    stopped.start()
    assert harness.app.core.signals.stopping.wait(30)
    hold.release()
    stopped.join(20)
    asked_before = len(harness.planner.requests)
    harness.start()
    harness.slack.wait(lambda: len(harness.planner.requests) > asked_before)
    harness.settle()
    assert "> Pie, 6 EUR" in texts(harness)
    assert len(kept(harness, ts)) == 1
