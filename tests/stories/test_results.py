"""Rows that a tool found: a table in the thread, a file when that does not hold all, and all of it
to the model.
"""

from __future__ import annotations

from tests.stories.kit import Kit
from tests.stories.world import SUPPORT, World, all_sent, ask, words


def files_in(world: World, thread: str) -> list[str]:
    """The names of the files in a thread."""
    return [
        file["name"]
        for message in world.thread(SUPPORT, thread)
        for file in message.get("files", [])
    ]


def test_few_rows(world: World, kit: Kit) -> None:
    """Three rows stand in a table, with nothing hidden and no file beside it.

    The model reads them.
    """
    kit.shelf = 3
    thread = ask(world, ("books", {"text": "drama"}))
    world.said(SUPPORT, thread, "That is all.")
    all_sent(world)
    table = world.said(SUPPORT, thread, "Books on drama")
    [block] = [block for block in table["blocks"] if block["type"] == "table"]
    assert [[cell["text"] for cell in row] for row in block["rows"]][:2] == [
        ["no", "title", "lent to"],
        ["1", "=Book 1", "—"],
    ]
    assert (len(block["rows"]), files_in(world, thread)) == (4, [])
    assert '[3,"=Book 3",null]' in world.outputs()[0]["output"]


def test_many_rows(world: World, kit: Kit) -> None:
    """Of forty-one rows twenty stand in the table, all in one file, and it is said that there are
    more.
    """
    kit.shelf = 41
    thread = ask(world, ("books", {"text": "comedy"}))
    world.said(SUPPORT, thread, "That is all.")
    all_sent(world)
    table = world.said(SUPPORT, thread, "Books on comedy")
    assert "41 rows, and there are more, the first 20 here, all of it in the file below" in words(
        table
    )
    assert [name.partition("-")[0] for name in files_in(world, thread)] == ["books"]


def test_the_upload_s_answer_is_lost(world: World, kit: Kit) -> None:
    """The file was put there and nobody said so: it is found, and not put there again."""
    kit.shelf = 30
    world.slack.faults.drop("files.completeUploadExternal", when="after")
    thread = ask(world, ("books", {"text": "farce"}))
    world.said(SUPPORT, thread, "That is all.")
    all_sent(world)
    assert len(files_in(world, thread)) == 1


def test_slack_takes_no_file(world: World, kit: Kit) -> None:
    """Where Slack refuses the file, the thread is told that it will not come."""
    kit.shelf = 30
    world.slack.faults.fail("files.getUploadURLExternal", "missing_scope")
    thread = ask(world, ("books", {"text": "satire"}))
    world.said(SUPPORT, thread, "That is all.")
    all_sent(world)
    world.said(SUPPORT, thread, "I could not upload the file")
    assert files_in(world, thread) == []
