"""A posted message mentions only the people it notifies; others are shown by name."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from bot.policy.authority import Person
from bot.slack.directory import replace_other_mentions
from storage import outbox
from storage.models import Message
from tests.runs.fakes import ANA, BEN, CLEO, TEAM, FakeDirectory
from tests.slack.sender_harness import SenderHarness

MENTION = re.compile(r'<@([A-Z0-9]+)|"user_id": "([A-Z0-9]+)')
SAID = f"<@{ANA}> edited what <@{BEN}> asked for"


def find_mentioned_people(args: dict[str, Any]) -> set[str]:
    """The ids of the people whom Slack would notify."""
    given = {key: args.get(key) for key in ("text", "blocks")}
    said = json.dumps(given).replace('\\"', '"')
    return {text or element for text, element in MENTION.findall(said)}


def queue_notice(harness: SenderHarness, *notified: str, **columns: Any) -> Message:
    body = {"text": SAID, outbox.NOTIFIED_KEY: list(notified)}
    return harness.queue(body=body, **columns)


@pytest.mark.parametrize("notified", [(), (BEN,), (ANA, BEN)])
def test_a_notice_mentions_only_the_people_it_notifies(
    harness: SenderHarness, notified: tuple[str, ...]
) -> None:
    """In its text and its blocks; others are named."""
    row = queue_notice(harness, *notified)
    assert harness.send(row)
    [post] = harness.take_requests()
    assert find_mentioned_people(post.args) == {*notified}
    for user, name in ((ANA, "Ana Ruiz"), (BEN, "Ben Okafor")):
        assert (name in json.dumps(post.args["blocks"])) is (user not in notified)


def test_a_notice_of_an_earlier_build_notifies_nobody(harness: SenderHarness) -> None:
    """Its row does not say whom to notify."""
    harness.send(harness.queue(body={"text": SAID}))
    [post] = harness.take_requests()
    assert find_mentioned_people(post.args) == set()


def test_a_changed_message_mentions_everybody(harness: SenderHarness) -> None:
    """Slack notifies nobody of a change."""
    drawn, _, _ = harness.renderer.render_message(queue_notice(harness))
    assert find_mentioned_people({"text": drawn.text, "blocks": drawn.blocks}) == {ANA, BEN}


def test_direct_messages_keep_their_mentions(harness: SenderHarness) -> None:
    """Only their reader can be notified."""
    harness.send(queue_notice(harness, channel="DANA00001"))
    [post] = harness.take_requests()
    assert find_mentioned_people(post.args) == {ANA, BEN}


def test_people_who_cannot_be_looked_up_stay_mentioned(harness: SenderHarness) -> None:
    """Who it is matters more than a notification too many."""
    assert isinstance(harness.renderer.directory, FakeDirectory)
    harness.renderer.directory.down = True
    harness.send(queue_notice(harness))
    [post] = harness.take_requests()
    assert find_mentioned_people(post.args) == {ANA, BEN}


@pytest.mark.parametrize("loud", [True, False, None])
def test_quiet_record_lines_of_an_earlier_build_are_not_shown(
    harness: SenderHarness, loud: bool | None
) -> None:
    """Its quiet record lines are not shown; loud ones are, and so are those without a mark."""
    body = {"text": "It is done.", "last": True, "record": "On record: done."}
    harness.send(harness.queue(kind="answer", body=body | ({} if loud is None else {"loud": loud})))
    [post] = harness.take_requests()
    assert ("On record" in json.dumps(post.args["blocks"])) is (loud is not False)


EVIL = [
    "<!channel>",
    "<@UCLEO0001>",
    "*Approved* by <https://evil.example|Ana>",
    "two\nlines",
    "x" * 500,
    "\u202eanA",
]


@pytest.mark.parametrize("name", EVIL)
@pytest.mark.parametrize("kind", ["mrkdwn", "rich_text"])
def test_a_chosen_name_is_shown_as_plain_text(name: str, kind: str) -> None:
    """It mentions nobody, has no link or line break, and is not long."""
    directory = FakeDirectory()
    directory.known[BEN] = Person(BEN, TEAM, name)
    block: dict[str, Any] = {
        "mrkdwn": {"type": "mrkdwn", "text": f"Asked by <@{BEN}>"},
        "rich_text": {"type": "user", "user_id": BEN, "style": {"bold": True}},
    }[kind]
    [shown] = replace_other_mentions(directory, [block], {CLEO})
    said = str(shown["text"])
    if kind == "mrkdwn":
        assert not re.search(r"<[!@#h]", said)
    else:
        assert shown == {"type": "text", "text": said, "style": {"bold": True}}
    assert "\n" not in said
    assert "\u202e" not in said
    assert len(said) < 200


def test_mentions_stay_where_names_make_a_text_too_long() -> None:
    """Slack would refuse the whole message."""
    directory = FakeDirectory()
    directory.known[BEN] = Person(BEN, TEAM, "B" * 80)
    many = " ".join([f"<@{BEN}>"] * 200)
    [kept] = replace_other_mentions(directory, [{"type": "mrkdwn", "text": many}], set())
    assert kept["text"] == many
