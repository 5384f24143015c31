"""Tables that people paste into a message: Slack sends them beside the text."""

from __future__ import annotations

from typing import Any

from bot.demo.model_server import Turn
from slack_sandbox.workspace import messages
from slack_sandbox.workspace.messages import Draft
from tests.stories.harness import SUPPORT, Harness
from tests.stories.steps import all_sent, arrived, forget_people, now_at
from tests.stories.test_changed_messages import find_stored_messages, read_new_wording
from tests.stories.test_forwarded_messages import read_last_request


def table(*rows: list[Any]) -> dict[str, Any]:
    """A table as Slack's editor sends it; texts stand for plain cells."""
    cells = [
        [{"type": "raw_text", "text": each} if isinstance(each, str) else each for each in row]
        for row in rows
    ]
    return {"type": "table", "block_id": "t1", "rows": cells}


def attached(*rows: list[Any], **more: Any) -> dict[str, Any]:
    """The attachment of a pasted table, as others recorded it (github.com/vercel/chat/issues/803).

    `more` are fields that Slack adds to the previews of links.
    """
    return {"id": 1, "blocks": [table(*rows)], "fallback": "[no preview available]", **more}


def paste(harness: Harness, channel: str, text: str, *parts: dict[str, Any], **more: Any) -> str:
    """Ben posts a text with these attachments beside it; returns the message's ts."""
    slack = harness.slack.world
    extra = {"attachments": list(parts)}
    with slack.lock:
        draft = Draft(slack.channel(channel), "UBEN00001", text, extra=extra, **more)
        return messages.add(slack, draft).ts


def change_table(harness: Harness, ts: str, *rows: list[Any]) -> None:
    """Ben edits the table of a message in #support, and not its text."""
    slack = harness.slack.world
    with slack.lock:
        message = slack.find(SUPPORT, ts)
        assert message is not None
        messages.change(slack, message, {"attachments": [attached(*rows)]})


def test_a_table_alone_is_a_request(harness: Harness) -> None:
    """In a direct message, where it got the help text. Numbers and formatted cells are read as
    people see them.
    """
    ben = harness.person("ben")
    link = {"type": "link", "url": "https://shop.example/7", "text": "seven"}
    leaves = [{"type": "user", "user_id": "UANA00001"}, {"type": "text", "text": "\nand "}, link]
    rich = {
        "type": "rich_text",
        "elements": [{"type": "rich_text_section", "elements": leaves}],
    }
    number = {"type": "raw_number", "value": 0, "text": "0.00 €"}
    harness.planner.script(Turn(text="Three orders."))
    rows = (["Order", "Amount"], ["1042", number], ["", rich], ["1044", None])
    thread = paste(harness, ben.dm_channel, "", attached(*rows))
    harness.said(ben.dm_channel, thread, "Three orders.")
    assert read_last_request(harness).endswith(
        "\nOrder\tAmount\n1042\t0.00 €\n\t<@UANA00001> and seven\n1044"
    )


def test_the_model_reads_the_table_below_the_words(harness: Harness) -> None:
    """Also in messages of the thread before the request, and where Slack has it among the
    message's own blocks. The preview of a link says nothing in its author's name.
    """
    earlier = paste(harness, SUPPORT, "These came back:", attached(["1040", "broken"]))
    arrived(harness)
    mention = f"<@{harness.slack.world.app.bot_user}> refund"
    preview = attached(["refund", "all"], from_url="https://pages.example/1")
    harness.planner.script(Turn(text="Which?"))
    blocks = [table(["1041", "12.00"])]
    paste(harness, SUPPORT, mention, preview, thread_ts=earlier, blocks=blocks)
    harness.said(SUPPORT, earlier, "Which?")
    assert read_last_request(harness).endswith("\nrefund\n1041\t12.00")
    heard = str(harness.planner.requests[-1]["input"])
    assert r"> These came back:\n> 1040\t" in heard
    assert "broken" in heard


def test_approvers_are_told_of_an_edited_table(harness: Harness) -> None:
    """Although the text is the same."""
    mention = f"<@{harness.slack.world.app.bot_user}> cancel"
    harness.planner.script(Turn(calls=[("note", {"text": "1042"})]))
    thread = paste(harness, SUPPORT, mention, attached(["1042", "cancel"]))
    card = harness.card(SUPPORT, thread)
    harness.settle()
    change_table(harness, thread, ["1043", "cancel"])
    harness.said(SUPPORT, thread, "It now reads: “cancel 1043 cancel”")
    all_sent(harness)
    assert read_new_wording(now_at(harness, SUPPORT, card["ts"])) == ["cancel 1043 cancel"]


def test_a_table_edited_before_it_is_read_counts_as_edited(harness: Harness) -> None:
    """The model never reads it as it was."""
    harness.settle()
    forget_people(harness)
    hold = harness.slack.faults.hold("users.info", person="ben")
    harness.planner.script(Turn(text="Read."))
    mention = f"<@{harness.slack.world.app.bot_user}> cancel"
    thread = paste(harness, SUPPORT, mention, attached(["first cell"]))
    assert hold.arrived.wait(30)
    change_table(harness, thread, ["second cell"])
    harness.slack.wait(lambda: find_stored_messages(harness, "second cell"))
    hold.release()
    harness.said(SUPPORT, thread, "Read.")
    assert read_last_request(harness).endswith("\ncancel\nsecond cell")
