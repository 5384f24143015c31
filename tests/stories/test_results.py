"""Rows that a tool found: a table in the thread or a file, and all of it to the model."""

from __future__ import annotations

from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import having, words
from tests.stories.steps import all_sent, ask


def files_in(harness: Harness, thread: str) -> list[str]:
    """The names of the files in a thread."""
    return [
        file["name"]
        for message in harness.thread(SUPPORT, thread)
        for file in message.get("files", [])
    ]


def test_few_rows_stand_in_a_table(harness: Harness, fakes: FakeTools) -> None:
    """Three rows stand in a table, with nothing hidden and no file beside it.

    The model reads them.
    """
    fakes.shelf = 3
    thread = ask(harness, ("books", {"text": "drama"}))
    harness.said(SUPPORT, thread, "That is all.")
    all_sent(harness)
    table = harness.said(SUPPORT, thread, "Books on drama")
    [block] = [block for block in table["blocks"] if block["type"] == "table"]
    assert [[cell["text"] for cell in row] for row in block["rows"]][:2] == [
        ["no", "title", "lent to"],
        ["1", "=Book 1", "—"],
    ]
    assert (len(block["rows"]), files_in(harness, thread)) == (4, [])
    assert '[3,"=Book 3",null]' in harness.outputs()[0]["output"]


def test_many_rows_go_into_a_file(harness: Harness, fakes: FakeTools) -> None:
    """Of forty-one rows twenty stand in the table, and all are in one file.

    It is said that there are more.
    """
    fakes.shelf = 41
    thread = ask(harness, ("books", {"text": "comedy"}))
    harness.said(SUPPORT, thread, "That is all.")
    all_sent(harness)
    table = harness.said(SUPPORT, thread, "Books on comedy")
    assert "41 rows, and there are more, the first 20 here, all of it in the file below" in words(
        table
    )
    assert [name.partition("-")[0] for name in files_in(harness, thread)] == ["books"]


def test_rows_that_a_table_cannot_hold(harness: Harness, fakes: FakeTools) -> None:
    """Cells that are more than Slack takes in one table stand in the file; some are shown."""
    thread = ask(harness, ("books", {"text": "wide"}))
    harness.said(SUPPORT, thread, "That is all.")
    all_sent(harness)
    assert "20 rows, the first 2 here, all of it in the file below" in words(
        harness.said(SUPPORT, thread, "Wide")
    )
    assert len(files_in(harness, thread)) == 1


def test_slack_takes_no_table(harness: Harness, fakes: FakeTools) -> None:
    """Where Slack refuses the table, the thread is told that it will not come."""
    fakes.shelf = 3
    harness.slack.faults.fail("chat.postMessage", "invalid_blocks", match=having("Books on poems"))
    thread = ask(harness, ("books", {"text": "poems"}))
    harness.said(SUPPORT, thread, "That is all.")
    all_sent(harness)
    harness.said(SUPPORT, thread, "I could not show the rows")


def test_the_upload_s_answer_is_lost(harness: Harness, fakes: FakeTools) -> None:
    """The file was put there and nobody said so: it is found, and not put there again."""
    fakes.shelf = 30
    harness.slack.faults.drop("files.completeUploadExternal", when="after")
    thread = ask(harness, ("books", {"text": "farce"}))
    harness.said(SUPPORT, thread, "That is all.")
    all_sent(harness)
    assert len(files_in(harness, thread)) == 1


def test_slack_takes_no_file(harness: Harness, fakes: FakeTools) -> None:
    """Where Slack refuses the file, the thread is told that it will not come."""
    fakes.shelf = 30
    harness.slack.faults.fail("files.getUploadURLExternal", "missing_scope")
    thread = ask(harness, ("books", {"text": "satire"}))
    harness.said(SUPPORT, thread, "That is all.")
    all_sent(harness)
    harness.said(SUPPORT, thread, "I could not upload the full file")
    assert files_in(harness, thread) == []
