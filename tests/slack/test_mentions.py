"""Whom a posted message mentions: only whom it notifies; everybody else is shown by name."""

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
from tests.slack.post_office import PostOffice

MENTION = re.compile(r'<@([A-Z0-9]+)|"user_id": "([A-Z0-9]+)')
SAID = f"<@{ANA}> edited what <@{BEN}> asked for"


def mentioned(args: dict[str, Any]) -> set[str]:
    """The ids of the people whom Slack would notify."""
    given = {key: args.get(key) for key in ("text", "blocks")}
    said = json.dumps(given).replace('\\"', '"')
    return {text or element for text, element in MENTION.findall(said)}


def notice(office: PostOffice, *notified: str, **columns: Any) -> Message:
    body = {"text": SAID, outbox.NOTIFIED_KEY: list(notified)}
    return office.put(body=body, **columns)


@pytest.mark.parametrize("notified", [(), (BEN,), (ANA, BEN)])
def test_a_line_mentions_whom_it_notifies(office: PostOffice, notified: tuple[str, ...]) -> None:
    """In its text and its blocks; the others stand there by name."""
    row = notice(office, *notified)
    assert office.send(row)
    [post] = office.asked()
    assert mentioned(post.args) == {*notified}
    for user, name in ((ANA, "Ana Ruiz"), (BEN, "Ben Okafor")):
        assert (name in json.dumps(post.args["blocks"])) is (user not in notified)


def test_a_line_of_an_earlier_build_notifies_nobody(office: PostOffice) -> None:
    """Its row does not say whom."""
    office.send(office.put(body={"text": SAID}))
    [post] = office.asked()
    assert mentioned(post.args) == set()


def test_a_change_to_a_message_has_mentions(office: PostOffice) -> None:
    """Slack notifies nobody of a change."""
    drawn, _, _ = office.renderer.render_message(notice(office))
    assert mentioned({"text": drawn.text, "blocks": drawn.blocks}) == {ANA, BEN}


def test_direct_messages_keep_their_mentions(office: PostOffice) -> None:
    """They can notify nobody else than who reads them."""
    office.send(notice(office, channel="DANA00001"))
    [post] = office.asked()
    assert mentioned(post.args) == {ANA, BEN}


def test_who_cannot_be_looked_up_stays_a_mention(office: PostOffice) -> None:
    """Who it is matters more than whom it notifies."""
    assert isinstance(office.renderer.directory, FakeDirectory)
    office.renderer.directory.down = True
    office.send(notice(office))
    [post] = office.asked()
    assert mentioned(post.args) == {ANA, BEN}


@pytest.mark.parametrize("loud", [True, False, None])
def test_an_earlier_builds_answer_keeps_what_its_record_meant(
    office: PostOffice, loud: bool | None
) -> None:
    """Quiet lines of the record are no contradiction; loud ones are, and so are today's."""
    body = {"text": "It is done.", "last": True, "record": "On record: done."}
    office.send(office.put(kind="answer", body=body | ({} if loud is None else {"loud": loud})))
    [post] = office.asked()
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
def test_a_name_does_nothing_but_stand_there(name: str, kind: str) -> None:
    """It mentions nobody, links to nothing, breaks no line and does not fill the message."""
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


def test_a_text_that_names_would_make_too_long_keeps_its_mentions() -> None:
    """Slack would refuse the whole message otherwise."""
    directory = FakeDirectory()
    directory.known[BEN] = Person(BEN, TEAM, "B" * 80)
    many = " ".join([f"<@{BEN}>"] * 200)
    [kept] = replace_other_mentions(directory, [{"type": "mrkdwn", "text": many}], set())
    assert kept["text"] == many
