"""Rows that a tool returns are shown as a table or a file, and given to the model."""

from __future__ import annotations

from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import having, words
from tests.stories.steps import all_sent, ask


def list_files(harness: Harness, thread: str) -> list[str]:
    """Return the names of the files in a thread."""
    return [
        file["name"]
        for message in harness.thread(SUPPORT, thread)
        for file in message.get("files", [])
    ]


def test_few_rows_are_shown_in_a_table(harness: Harness, fakes: FakeTools) -> None:
    """All three are in it, there is no file, and the model is given them."""
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
    assert (len(block["rows"]), list_files(harness, thread)) == (4, [])
    assert '[3,"=Book 3",null]' in harness.outputs()[0]["output"]


def test_many_rows_are_uploaded_as_a_file(harness: Harness, fakes: FakeTools) -> None:
    """Of forty-one rows twenty are in the table, whose heading points to the file."""
    fakes.shelf = 41
    thread = ask(harness, ("books", {"text": "comedy"}))
    harness.said(SUPPORT, thread, "That is all.")
    all_sent(harness)
    table = harness.said(SUPPORT, thread, "Books on comedy")
    assert "41 rows, and there are more, the first 20 here, all of it in the file below" in words(
        table
    )
    assert [name.partition("-")[0] for name in list_files(harness, thread)] == ["books"]


def test_rows_too_wide_for_a_table_become_a_file(harness: Harness, fakes: FakeTools) -> None:
    """The cells are more than Slack takes in one table; two rows are shown."""
    thread = ask(harness, ("books", {"text": "wide"}))
    harness.said(SUPPORT, thread, "That is all.")
    all_sent(harness)
    assert "20 rows, the first 2 here, all of it in the file below" in words(
        harness.said(SUPPORT, thread, "Wide")
    )
    assert len(list_files(harness, thread)) == 1


def test_rows_of_a_cancelled_request_are_not_shown(harness: Harness, fakes: FakeTools) -> None:
    """The call still ends as it went."""
    thread = ask(harness, ("books", {"text": "slowly"}))
    assert fakes.entered.wait(30)
    harness.person("ben").say(SUPPORT, "cancel", thread)
    harness.slack.wait(lambda: harness.run_in(thread).status == "cancelled")
    fakes.go_on.set()
    harness.slack.wait(lambda: harness.calls_in(thread)[0].status == "succeeded")
    all_sent(harness)
    assert "Books on slowly" not in words({"blocks": harness.thread(SUPPORT, thread)})


def test_the_thread_is_told_if_slack_refuses_the_table(harness: Harness, fakes: FakeTools) -> None:
    """Slack answers with `invalid_blocks`."""
    fakes.shelf = 3
    harness.slack.faults.fail("chat.postMessage", "invalid_blocks", match=having("Books on poems"))
    thread = ask(harness, ("books", {"text": "poems"}))
    harness.said(SUPPORT, thread, "That is all.")
    all_sent(harness)
    harness.said(SUPPORT, thread, "I could not show the rows")


def test_a_file_whose_upload_seems_lost_is_sent_once(harness: Harness, fakes: FakeTools) -> None:
    """The bot finds the file in the thread and does not upload it again."""
    fakes.shelf = 30
    harness.slack.faults.drop("files.completeUploadExternal", when="after")
    thread = ask(harness, ("books", {"text": "farce"}))
    harness.said(SUPPORT, thread, "That is all.")
    all_sent(harness)
    assert len(list_files(harness, thread)) == 1


def test_the_thread_is_told_if_slack_refuses_the_file(harness: Harness, fakes: FakeTools) -> None:
    """Slack answers with `missing_scope`."""
    fakes.shelf = 30
    harness.slack.faults.fail("files.getUploadURLExternal", "missing_scope")
    thread = ask(harness, ("books", {"text": "satire"}))
    harness.said(SUPPORT, thread, "That is all.")
    all_sent(harness)
    harness.said(SUPPORT, thread, "I could not upload the full file")
    assert list_files(harness, thread) == []
