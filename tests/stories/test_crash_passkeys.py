"""The bot is killed while a passkey is added and while it is approved: it is added, and counts,
once.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select
from sqlmodel import col

from bot.approvals.signatures import (
    build_page_delivery,
    compute_challenge,
    hash_token,
    parse_credential,
)
from storage import inbox, passkeys
from storage.models import Audit, Call
from storage.passkeys import Passkey
from storage.states import CallStatus
from storage.transaction import fetch_rows
from tests.authenticator import Authenticator
from tests.local_slack import build_local_slack
from tests.model_stand_in.planner import StrictPlanner
from tests.records import store_of
from tests.stories.enrolling import ENROL, make_credential
from tests.stories.messages import action_ids, elements, words
from tests.stories.process import BotProcess
from tests.stories.signing import ADDRESS

POLICY = """
[defaults]
approvers = ["UANA00001", "UCLEO0001"]
signature = "passkey"
"""
HERE = f"{ADDRESS['COUNTERSIGN_URL']}{ENROL}"
NEW = "A new passkey was added for you"


@pytest.fixture
def bot(tmp_path: Path) -> Iterator[BotProcess]:
    """A bot in a process of its own, whose approvers sign."""
    with build_local_slack() as slack, StrictPlanner() as planner:
        bot = BotProcess(tmp_path, slack, planner, **ADDRESS)
        (tmp_path / "policy.toml").write_text(POLICY)
        bot.start()
        yield bot
        bot.kill()


def find_direct_messages(bot: BotProcess, who: str, part: str) -> list[dict[str, Any]]:
    """This person's direct messages with that text."""
    person = bot.slack.person(who)
    return [m for m in person.everything(person.dm_channel) if part in words(m)]


def request_passkey_link(bot: BotProcess) -> str:
    """Ana asks on Home for a link to add a passkey; returns its token."""
    ana = bot.slack.person("ana")
    ana.open_home()
    for button in ("home_passkeys", "add_passkey"):
        bot.slack.wait(lambda each=button: each in str(ana.home()))
        ana.click_home(button)
    [message] = bot.slack.wait(lambda: find_direct_messages(bot, "ana", "with this private link"))
    [url] = [each["url"] for each in elements(message) if each.get("url", "").startswith(HERE)]
    return str(url.removeprefix(HERE))


def store_credential_while_down(bot: BotProcess, token: str) -> None:
    """Stop the bot and store what the page would post, so that it is handled at the next start."""
    bot.kill()
    store = store_of(bot.folder / "countersign.db")
    with store.write() as tx:
        link = passkeys.find_signing_link(tx, hash_token(token))
        assert link is not None
        made = make_credential(Authenticator(), compute_challenge(link), name="Ana’s phone")
        credential = parse_credential(link.kind, made)
        assert credential is not None
        delivery = build_page_delivery(link, credential)
        delivery.received_at = datetime.now(UTC)
        assert inbox.insert_delivery(tx, delivery)
    store.close()


def hold_bot_at(bot: BotProcess, stage: str) -> Any:
    """Make the bot stop before or after that post, so that it can be killed there."""
    what, _, when = stage.partition(", ")
    shown = {"notice": NEW, "request": "asks:", "card": "'approve'"}[what]
    return bot.slack.faults.hold(
        "chat.postMessage", when=when, match=lambda args: shown in str(args)
    )


@pytest.mark.long
@pytest.mark.parametrize(
    "stage",
    [
        pytest.param("notice, before", marks=pytest.mark.long),
        "notice, after",
        pytest.param("request, before", marks=pytest.mark.long),
        pytest.param("request, after", marks=pytest.mark.long),
        "card, before",
        pytest.param("card, after", marks=pytest.mark.long),
    ],
)
def test_a_passkey_is_added_once_despite_crashes(bot: BotProcess, stage: str) -> None:
    """There is one passkey, one message about it and one card; it counts once Cleo has
    approved it.
    """
    store_credential_while_down(bot, request_passkey_link(bot))
    held = hold_bot_at(bot, stage)
    bot.start()
    assert held.arrived.wait(30)
    bot.kill()
    held.release()
    bot.start()
    bot.slack.wait(lambda: find_direct_messages(bot, "ana", NEW))
    [card] = bot.slack.wait(
        lambda: [m for m in find_direct_messages(bot, "cleo", "Ana’s phone") if is_card(m)]
    )
    bot.kill()
    bot.start()  # so that it looks Cleo up again
    gate = bot.slack.faults.hold("users.info", when="before")
    cleo = bot.slack.person("cleo")
    cleo.click(cleo.dm_channel, card["ts"], "approve", seen=card)
    assert gate.arrived.wait(30)
    bot.kill()
    gate.release()
    bot.start()
    bot.slack.wait(lambda: find_direct_messages(bot, "ana", "counts from now on"))
    assert len(find_direct_messages(bot, "ana", NEW)) == 1
    assert len(find_direct_messages(bot, "cleo", "Ana’s phone")) == 1
    assert [getattr(row, "counts_from", None) is None for row in bot.rows(Passkey)] == [False]
    assert [getattr(call, "status", "") for call in bot.rows(Call)] == [CallStatus.SUCCEEDED]
    assert list_passkey_events(bot) == ["passkey.added", "passkey.counts"]


def list_passkey_events(bot: BotProcess) -> list[str]:
    """The audit's events about passkeys, in order."""
    store = store_of(bot.folder / "countersign.db")
    try:
        with store.read() as tx:
            rows = fetch_rows(tx, Audit, select(Audit).order_by(col(Audit.seq)))
    finally:
        store.close()
    return [each.event for each in rows if each.event.startswith("passkey.")]


def is_card(message: dict[str, Any]) -> bool:
    """Whether it has the buttons of a card."""
    return "approve" in action_ids(message)
