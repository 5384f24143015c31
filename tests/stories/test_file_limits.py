"""Files that people attach: limits on number and size, and what stops or deletions do to them."""

from __future__ import annotations

import threading

import pytest

from bot.agent import file_items
from bot.demo.model_server import Turn
from storage.transcripts import WithheldReason
from tests.stories.harness import SUPPORT, Harness
from tests.stories.steps import arrived
from tests.stories.test_files import (
    PDF,
    PNG,
    build_data_url,
    emit_file_share,
    is_about_files,
    list_stored_files,
    read_file_parts,
    read_last_input,
    read_texts,
    share_files,
    split_parts,
)


def test_files_above_the_limits_are_only_named(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limits are ten files at once, three long texts among them, and as many pictures and PDFs
    as the thread has room for, earlier requests included.
    """
    long = {f"{number}.log": b"x" * 30_000 for number in range(5)}
    short = {f"{number}.txt": b"short" for number in range(6)}
    thread = share_files(
        harness, "@bot read all of it", {**long, **short}, Turn(text="What I can.")
    )
    harness.said(SUPPORT, thread, "What I can.")
    assert read_texts(harness).count("[… 10000 more characters were left out]") == 3
    assert read_texts(harness).count(f"not read, because {file_items.TOO_MUCH_TEXT_REASON}.") == 7
    assert f"5.txt: not read, because {file_items.TOO_MANY_FILES_REASON}." in read_texts(harness)

    monkeypatch.setattr(file_items, "MAX_FILE_BYTES_PER_THREAD", len(PNG) + len(PDF))
    share_files(harness, "@bot the first", {"a.png": PNG}, Turn(text="Seen."), thread=thread)
    more = {"b.png": PNG, "c.pdf": PDF, "d.pdf": PDF}
    share_files(harness, "@bot more", more, Turn(text="One of them."), thread=thread)
    harness.said(SUPPORT, thread, "One of them.")
    for name in ("b.png", "d.pdf"):
        assert f"{name}: not read, because {file_items.THREAD_FULL_REASON}." in read_texts(harness)
    assert read_file_parts(harness)[3]["file_data"] == build_data_url("application/pdf", PDF)


def test_a_refused_request_leaves_out_only_its_new_files(harness: Harness) -> None:
    """Files that the model's server has accepted before are sent again."""
    thread = share_files(harness, "@bot keep this", {"first.png": PNG}, Turn(text="I have it."))
    harness.said(SUPPORT, thread, "I have it.")
    harness.planner.fail_next_requests(400)
    turn = Turn(text="Not the second.")
    later = share_files(harness, "@bot and this", {"second.png": PNG + b"2"}, turn, thread=thread)
    harness.said(SUPPORT, thread, "Not the second.")
    harness.settle()
    sent = [
        part
        for item in read_last_input(harness)
        if is_about_files(item)
        for part in split_parts(item)
    ]
    assert [each["image_url"] for each in sent if "image_url" in each] == [
        build_data_url("image/png", PNG)
    ]
    assert file_items.REFUSED_FILE_TEXT in read_texts(harness)
    assert [
        each.withheld
        for each in (*list_stored_files(harness, thread), *list_stored_files(harness, later))
    ] == [
        WithheldReason.NO,
        WithheldReason.REFUSED,
    ]


def test_a_deleted_file_of_somebody_else_is_forgotten(harness: Harness) -> None:
    """Its message was not for the bot, and the request is over."""
    root = harness.person("ana").say(SUPPORT, "lunch?")
    ana = harness.person("ana")
    menu = ana.share(SUPPORT, "the menu", {"menu.txt": b"Stew, 5 EUR"}, root)
    harness.planner.script(Turn(text="Stew."))
    harness.person("ben").say(SUPPORT, "@bot what is there today?", root)
    harness.said(SUPPORT, root, "Stew.")
    arrived(harness)
    assert "> Stew, 5 EUR" in read_texts(harness)
    ana.delete(SUPPORT, menu)
    arrived(harness)
    harness.planner.script(Turn(text="I do not know any more."))
    harness.person("ben").say(SUPPORT, "@bot and again?", root)
    harness.said(SUPPORT, root, "I do not know any more.")
    harness.settle()
    assert "Stew, 5 EUR" not in str(read_last_input(harness))
    assert [(each.withheld, each.data) for each in list_stored_files(harness, menu)] == [
        (WithheldReason.DELETED, "")
    ]


def test_a_stop_while_files_are_fetched_loses_none(harness: Harness) -> None:
    """The next start reads the file; it is not taken for unreadable."""
    menu = harness.person("ana").share(SUPPORT, "the menu", {"menu.txt": b"Pie, 6 EUR"})
    [file] = harness.person("ana").files_of(SUPPORT, menu)
    hold = harness.slack.faults.hold("files.info")
    harness.planner.script(Turn(text="Pie it is."))
    with harness.slack.world.lock:
        told = {"id": file["id"], "name": "menu.txt", "file_access": "check_file_info"}
        bot = harness.slack.world.app.bot_user
        ts = emit_file_share(harness, f"<@{bot}> what is there to eat?", [told])
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
    assert "> Pie, 6 EUR" in read_texts(harness)
    assert len(list_stored_files(harness, ts)) == 1
