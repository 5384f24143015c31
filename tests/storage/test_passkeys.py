"""Passkeys, links and signatures as rows: what counts when, what is used once, and what goes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

from bot.approvals.signatures import find_passkey_problem, queue_links
from bot.cards.passkey_views import LinkButton
from bot.policy.gates import PasskeyTerms
from storage import inbox, passkeys, personal_data, purge
from storage.passkeys import Passkey, SigningLink
from storage.record import Message
from storage.states import SigningLinkKind
from storage.store import Store
from storage.transaction import fetch_rows
from tests.records import store_of
from tests.runs.fakes import ANA, BEN
from tests.storage.builders import AT, TEAM, click

DAY = timedelta(days=1)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = store_of(tmp_path / "countersign.db")
    yield store
    store.close()


def key_of(person: str = ANA, **columns: Any) -> Passkey:
    """A passkey that counts from the beginning."""
    usual = {"team": TEAM, "person": person, "public_key": "AQ", "rp_id": "a.example"}
    usual |= {"credential_id": f"of {person}", "created_at": AT, "counts_from": AT}
    return Passkey(**{**usual, **columns})


def link_of(person: str = ANA, token: str = "0" * 64) -> SigningLink:
    return SigningLink(
        hash=token,
        kind=SigningLinkKind.SIGN,
        team=TEAM,
        person=person,
        reason="because of Ben",
        statement="{}",
        issued_at=AT,
        expires_at=AT + timedelta(minutes=5),
    )


def test_a_credential_is_known_once(store: Store) -> None:
    """Nobody else can claim it; it is found by its person, its credential and its workspace."""
    mine = key_of()
    with store.write() as tx:
        assert passkeys.add_passkey(tx, mine)
        assert not passkeys.add_passkey(tx, key_of(BEN, credential_id=mine.credential_id))
    with store.read() as tx:
        assert passkeys.find_passkey_by_credential(tx, mine.credential_id) == mine
        assert passkeys.find_passkey(tx, mine.id) == mine
        assert passkeys.list_passkeys_of_person(tx, TEAM, ANA) == [mine]
        assert passkeys.list_passkeys_of_team(tx, TEAM) == [mine]
        assert passkeys.list_passkeys_of_team(tx, "TOTHER") == []


@pytest.mark.parametrize(
    ("columns", "days", "counts"),
    [
        ({}, 365, True),
        ({"counts_from": None}, 365, False),
        ({"counts_from": AT + DAY}, 365, False),
        ({"created_at": AT - 2 * DAY}, 1, False),
        ({"created_at": AT - 2 * DAY}, 0, True),
        ({"created_at": AT - 2 * DAY}, 3, True),
        ({"revoked_at": AT}, 365, False),
        ({"revoked_at": AT + DAY}, 365, True),
        ({"rp_id": "example.com"}, 365, False),
    ],
)
def test_when_it_counts(columns: dict[str, Any], days: int, counts: bool) -> None:
    """Once others have approved it, not for too long, and until it is revoked."""
    row, terms = key_of(**columns), PasskeyTerms(days=days)
    problem = find_passkey_problem(row, terms, AT, "a.example")
    assert (problem == "") is counts


def test_a_counter_only_grows(store: Store) -> None:
    """One that says 0 says so for ever; a revoked passkey is not used."""
    row = key_of()

    def use(count: int) -> bool:
        with store.write() as tx:
            return passkeys.record_passkey_use(tx, row, count, AT)

    with store.write() as tx:
        passkeys.add_passkey(tx, row)
    assert [use(count) for count in (0, 0, 4, 4, 3, 0, 5)] == [True] * 3 + [False] * 3 + [True]
    with store.write() as tx:
        assert passkeys.revoke_passkey(tx, row, BEN, AT, why="lost")
        assert not passkeys.revoke_passkey(tx, row, BEN, AT)
    assert not use(9)
    with store.read() as tx:
        assert passkeys.list_passkeys_of_person(tx, TEAM, ANA) == []
        found = passkeys.find_passkey(tx, row.id)
    assert found is not None
    assert (found.revoked_at, found.revoked_by, found.sign_count) == (AT, BEN, 5)


def test_a_link_is_used_once(store: Store) -> None:
    """Whoever comes second changes nothing."""
    with store.write() as tx:
        passkeys.store_signing_link(tx, link_of())
        assert passkeys.use_signing_link(tx, link_of(), AT)
        assert not passkeys.use_signing_link(tx, link_of(), AT + DAY)
    with store.read() as tx:
        found = passkeys.find_signing_link(tx, "0" * 64)
        assert passkeys.find_signing_link(tx, "1" * 64) is None
    assert found is not None
    assert found.used_at == AT


def test_old_links_go_with_what_was_typed(store: Store) -> None:
    """The purge deletes those that expired before."""
    with store.write() as tx:
        passkeys.store_signing_link(tx, link_of())
        purge.erase_old_delegation_notes_and_links(tx, AT)
        assert fetch_rows(tx, SigningLink, select(SigningLink))
        purge.erase_old_delegation_notes_and_links(tx, AT + DAY)
        assert not fetch_rows(tx, SigningLink, select(SigningLink))


def queued_links(store: Store) -> list[str]:
    """Have Ana sent a link by a click, long ago; returns what she was sent."""
    with store.write() as tx:
        inbox.insert_delivery(tx, click("one", "approve", "call:1", ANA))
        asked = inbox.find_delivery(tx, "one")
        assert asked is not None
        link = LinkButton(SigningLinkKind.SIGN, "n", "Open and sign", "Refund order 7 of Ben")
        queue_links(tx, asked, "Sign this.", [link])
        inbox.mark_delivery_done(tx, asked, "asked to sign")
        tx.execute(update(Message).values(status="sent"))
        return [each.body for each in fetch_rows(tx, Message, select(Message))]


def test_old_links_that_were_sent_go_with_their_click(store: Store) -> None:
    """They say what was to be signed."""
    [body] = queued_links(store)
    assert "Refund order 7" in body
    with store.write() as tx:
        purge.purge_old_deliveries(tx, AT)
        assert fetch_rows(tx, Message, select(Message))
        purge.purge_old_deliveries(tx, AT + DAY)
        assert not fetch_rows(tx, Message, select(Message))


def test_a_person_is_told_all_and_forgotten(store: Store) -> None:
    """The export has both, without what opens a link; erasing leaves the key without its name."""
    with store.write() as tx:
        for who in (ANA, BEN):
            passkeys.add_passkey(tx, key_of(who, name=f"the phone of {who}"))
            passkeys.store_signing_link(tx, link_of(who, who))
    with store.read() as tx:
        held = personal_data.export_personal_data(tx, ANA)["elsewhere"]
    [key], [link] = held["passkey"], held["signing_link"]
    assert (key["name"], link["reason"], "hash" in link) == (
        f"the phone of {ANA}",
        "because of Ben",
        False,
    )
    personal_data.erase_personal_data(store, ANA, at=AT, actor="operator")
    with store.read() as tx:
        names = {each.person: each.name for each in fetch_rows(tx, Passkey, select(Passkey))}
        left = [each.person for each in fetch_rows(tx, SigningLink, select(SigningLink))]
    assert names == {ANA: "", BEN: f"the phone of {BEN}"}
    assert left == [BEN]
