"""Passkeys, signing links and signatures as rows: when they count, single use, and deletion."""

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


def make_passkey(person: str = ANA, **columns: Any) -> Passkey:
    """A passkey that counts from the beginning."""
    usual = {"team": TEAM, "person": person, "public_key": "AQ", "rp_id": "a.example"}
    usual |= {"credential_id": f"of {person}", "created_at": AT, "counts_from": AT}
    return Passkey(**{**usual, **columns})


def make_link(person: str = ANA, token: str = "0" * 64) -> SigningLink:
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


def test_a_credential_belongs_to_one_person(store: Store) -> None:
    """Nobody else can claim it; it is found by person, credential and workspace."""
    mine = make_passkey()
    with store.write() as tx:
        assert passkeys.add_passkey(tx, mine)
        assert not passkeys.add_passkey(tx, make_passkey(BEN, credential_id=mine.credential_id))
    with store.read() as tx:
        assert passkeys.find_passkey_by_credential(tx, mine.credential_id) == mine
        assert passkeys.list_passkeys(tx, TEAM, id=mine.id) == [mine]
        assert passkeys.list_passkeys(tx, TEAM, person=ANA) == [mine]
        assert passkeys.list_passkeys(tx, TEAM) == [mine]
        assert passkeys.list_passkeys(tx, "TOTHER") == []


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
def test_a_passkey_counts_once_approved_until_it_expires(
    columns: dict[str, Any], days: int, counts: bool
) -> None:
    """Revocation ends it as well."""
    row, terms = make_passkey(**columns), PasskeyTerms(days=days)
    problem = find_passkey_problem(row, terms, AT, "a.example")
    assert (problem == "") is counts


def test_a_passkeys_counter_only_grows(store: Store) -> None:
    """One that says 0 says so for ever; a revoked passkey is not used."""
    row = make_passkey()

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
        assert passkeys.list_passkeys(tx, TEAM, id=row.id) == []
        found = passkeys.find_passkey_by_credential(tx, row.credential_id)
    assert found is not None
    assert (found.revoked_at, found.revoked_by, found.sign_count) == (AT, BEN, 5)


def test_a_signing_link_is_used_once(store: Store) -> None:
    """The second attempt changes nothing."""
    with store.write() as tx:
        passkeys.store_signing_link(tx, make_link())
        assert passkeys.use_signing_link(tx, make_link(), AT)
        assert not passkeys.use_signing_link(tx, make_link(), AT + DAY)
    with store.read() as tx:
        found = passkeys.find_signing_link(tx, "0" * 64)
        assert passkeys.find_signing_link(tx, "1" * 64) is None
    assert found is not None
    assert found.used_at == AT


def test_the_purge_deletes_expired_signing_links(store: Store) -> None:
    """Links that expired later stay."""
    with store.write() as tx:
        passkeys.store_signing_link(tx, make_link())
        purge.erase_old_delegation_notes_and_links(tx, AT)
        assert fetch_rows(tx, SigningLink, select(SigningLink))
        purge.erase_old_delegation_notes_and_links(tx, AT + DAY)
        assert not fetch_rows(tx, SigningLink, select(SigningLink))


def queue_link(store: Store) -> list[str]:
    """Have a link sent to Ana after a click, long ago; returns what she was sent."""
    with store.write() as tx:
        inbox.insert_delivery(tx, click("one", "approve", "call:1", ANA))
        asked = inbox.find_delivery(tx, "one")
        assert asked is not None
        link = LinkButton(SigningLinkKind.SIGN, "n", "Open and sign", "Refund order 7 of Ben")
        queue_links(tx, asked, "Sign this.", [link])
        inbox.mark_delivery_done(tx, asked, "asked to sign")
        tx.execute(update(Message).values(status="sent"))
        return [each.body for each in fetch_rows(tx, Message, select(Message))]


def test_the_purge_deletes_sent_links_with_their_click(store: Store) -> None:
    """They say what was to be signed."""
    [body] = queue_link(store)
    assert "Refund order 7" in body
    with store.write() as tx:
        purge.purge_old_deliveries(tx, AT)
        assert fetch_rows(tx, Message, select(Message))
        purge.purge_old_deliveries(tx, AT + DAY)
        assert not fetch_rows(tx, Message, select(Message))


def test_passkeys_and_links_are_exported_and_erased(store: Store) -> None:
    """The export has nothing that opens a link; erasing leaves the key without its name."""
    with store.write() as tx:
        for who in (ANA, BEN):
            passkeys.add_passkey(tx, make_passkey(who, name=f"the phone of {who}"))
            passkeys.store_signing_link(tx, make_link(who, who))
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
