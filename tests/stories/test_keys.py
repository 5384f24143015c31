"""The key behind the fingerprints changed: what waits under the old one stops the start."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bot.cli.doctor.checks import check_bot_database
from bot.config.startup import StartupError
from storage import backups, trail
from storage.digest import compute_key_id, format_signing_key, parse_signing_key
from storage.examination import ExaminationResult, examine_audit_and_rows
from storage.models import Audit, Call
from storage.states import CallStatus
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import action_ids, words
from tests.stories.steps import ask, now_at, open_modal, typed

NEW = "another-key-of-at-least-32-characters"
POLICY = '[defaults]\napprovers = ["@shop-leads"]\n'


@pytest.fixture
def stopped(own_harness: Callable[..., Harness]) -> tuple[Harness, FakeTools, str, dict[str, Any]]:
    """A bot that was stopped while a call waits; with its tools, the thread and the card."""
    fakes = FakeTools()
    harness = own_harness(fakes.tools, POLICY)
    thread = ask(harness, ("note", {"text": "under the first key"}))
    card = harness.card(SUPPORT, thread)
    harness.settle()
    harness.app.stop()
    return harness, fakes, thread, card


def test_another_key_stops_the_start(
    stopped: tuple[Harness, FakeTools, str, dict[str, Any]],
) -> None:
    """The start stops with both ids and what to do, and changes nothing.

    With the old key all goes on.
    """
    harness, fakes, thread, card = stopped
    old = compute_key_id(harness.app.core.key)
    [call] = harness.all(Call)
    assert call.key_id == old
    harness.extra["COUNTERSIGN_KEY"] = NEW
    with pytest.raises(StartupError) as refused:
        harness.start()
    text = str(refused.value)
    new = compute_key_id(NEW.encode())
    assert (
        f"1 call still waits that was shown under the key {old}, and the key now in use is {new}."
        in text
    )
    assert f"COUNTERSIGN_LOST_KEY={old}" in text
    assert NEW not in text
    assert harness.app.core.key.decode() not in text
    assert harness.all(Call) == [call]
    [found] = [check for check in check_bot_database(harness.settings()) if check.level == "fail"]
    assert f"COUNTERSIGN_LOST_KEY={old}" in found.text

    harness.extra["COUNTERSIGN_LOST_KEY"] = "00000000"  # not that one
    with pytest.raises(StartupError):
        harness.start()
    del harness.extra["COUNTERSIGN_KEY"]
    assert not [check for check in check_bot_database(harness.settings()) if check.subject == "key"]
    harness.start()
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("note", "under the first key") == 1

    harness.app.stop()  # nothing waits any more, so the key may change
    harness.extra["COUNTERSIGN_KEY"] = NEW
    harness.start()
    harness.card(SUPPORT, ask(harness, ("note", {"text": "under the second key"})))
    assert {call.key_id for call in harness.all(Call)} == {old, new}


def test_a_lost_key_stops_the_start(
    stopped: tuple[Harness, FakeTools, str, dict[str, Any]],
) -> None:
    """Where the key is said to be lost, what it made is closed undone.

    The card says so, and the model is told.
    """
    harness, fakes, thread, card = stopped
    harness.extra |= {
        "COUNTERSIGN_KEY": NEW,
        "COUNTERSIGN_LOST_KEY": compute_key_id(harness.app.core.key),
    }
    harness.start()
    harness.said(SUPPORT, thread, "That is all.")
    harness.settle()
    [call] = harness.calls_in(thread)
    assert call.status is CallStatus.INVALIDATED
    assert harness.outputs()[-1]["output"].startswith(
        "INVALIDATED: it was not run, because it was shown under a key"
    )
    drawn = now_at(harness, SUPPORT, card["ts"])
    assert "it was shown under a key that is lost" in words(drawn)
    assert "approve" not in action_ids(drawn)
    assert fakes.did("note", "under the first key") == 0


@pytest.mark.file
def test_a_key_file_cut_short(stopped: tuple[Harness, FakeTools, str, dict[str, Any]]) -> None:
    """A key file that holds no key stops the start in its own words.

    It does not sound as if a tool were wrong.
    """
    harness = stopped[0]
    path = harness.folder / "countersign.db.key"
    whole = path.read_text()
    path.write_text("short")
    with pytest.raises(
        StartupError, match=r"countersign\.db\.key does not hold a key.*COUNTERSIGN_KEY"
    ):
        harness.start()
    path.write_text(whole)
    harness.start()


def examined(harness: Harness) -> ExaminationResult:
    """What `audit verify` finds, under the keys in use."""
    store = harness.app.core.store
    with store.read() as tx:
        return examine_audit_and_rows(tx, store.chain, trail.get_audit_head(tx))


@pytest.mark.parametrize("edited", [False, True], ids=["as it was", "edited"])
def test_a_new_key_beside_the_old_one(
    stopped: tuple[Harness, FakeTools, str, dict[str, Any]], edited: bool
) -> None:
    """With the old key behind the new one all that waits can be edited, approved by its button and
    run; what is new is under the new key, and the audit is sound under both. Then the old one goes.
    """
    harness, fakes, thread, card = stopped
    old = harness.app.core.key.decode()
    harness.extra["COUNTERSIGN_KEY"] = f"{NEW}, {old}"
    assert not [check for check in check_bot_database(harness.settings()) if check.level == "fail"]
    harness.start()
    text = "under the first key"
    if edited:
        text = "edited under both"
        open_modal(harness, "ana", SUPPORT, card, "edit")
        assert harness.person("ana").submit(typed(text=text))["outcome"] == "closed"
        harness.said(SUPPORT, thread, "✏️")
        harness.settle()
        card = now_at(harness, SUPPORT, card["ts"])
    harness.person("cleo").click(SUPPORT, card["ts"], "approve")
    harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("note", text) == 1
    asked = ask(harness, ("note", {"text": "after the change"}))
    card = harness.card(SUPPORT, asked)
    assert compute_key_id(NEW.encode()) in {each.key_id for each in harness.all(Call)}
    found = examined(harness)
    assert found.problems == []
    sealed_by = {row.key_id for row in harness.all(Audit)}
    assert sealed_by == {compute_key_id(old.encode()), compute_key_id(NEW.encode())}

    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    harness.said(SUPPORT, asked, "That is all.")
    harness.app.stop()
    harness.extra["COUNTERSIGN_KEY"] = NEW
    harness.start()  # nothing waits under the old one any more
    assert fakes.did("note", "after the change") == 1
    [problem] = examined(harness).problems
    assert f"sealed with the key {compute_key_id(old.encode())}" in problem


def test_what_an_old_key_sealed_is_still_checked(
    stopped: tuple[Harness, FakeTools, str, dict[str, Any]],
) -> None:
    """A row of it that somebody changed is found, under both keys."""
    harness = stopped[0]
    harness.extra["COUNTERSIGN_KEY"] = f"{NEW},{harness.app.core.key.decode()}"
    harness.start()
    store = harness.app.core.store
    with store.write() as tx:
        for statement in store.database.list_drop_trigger_statements():
            tx.exec_driver_sql(statement)
        tx.exec_driver_sql("UPDATE audit SET actor = 'UEVE00001' WHERE seq = 2")
        for statement in store.database.list_create_trigger_statements():
            tx.exec_driver_sql(statement)
    assert "row 2 of the audit was changed" in examined(harness).problems[0]


@pytest.mark.file
def test_a_key_file_with_two_lines(stopped: tuple[Harness, FakeTools, str, dict[str, Any]]) -> None:
    """The first one is in use, the others are accepted; a backup with its key has all of them."""
    harness, fakes, thread, card = stopped
    path = harness.folder / "countersign.db.key"
    path.write_text(f"{NEW}\n{path.read_text()}\n")
    harness.start()
    assert compute_key_id(harness.app.core.key) == compute_key_id(NEW.encode())
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("note", "under the first key") == 1
    assert (
        parse_signing_key(format_signing_key(harness.app.core.key)).older_keys
        == harness.app.core.key.older_keys
    )  # type: ignore[attr-defined]  # it came from a file
    copy, key = harness.folder / "b.db", harness.app.core.key
    now = harness.clock.now()
    made = backups.make_backup(
        harness.app.core.store, copy, key, at=now, version="1", with_key=True
    )
    assert made.examination.problems == []
    with backups.open_working_copy_of_backup(copy, harness.folder / "r.db") as taken:
        assert taken.check_and_upgrade(taken.signing_key, now).examination.problems == []
