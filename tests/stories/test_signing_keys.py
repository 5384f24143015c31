"""Changing the signing key: calls that wait under the old one stop the start, unless it is kept."""

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

NEW_KEY = "another-key-of-at-least-32-characters"
POLICY = '[defaults]\napprovers = ["@shop-leads"]\n'


@pytest.fixture
def stopped_bot(
    own_harness: Callable[..., Harness],
) -> tuple[Harness, FakeTools, str, dict[str, Any]]:
    """A bot stopped while a call waits, with its tools, the thread and the card."""
    fakes = FakeTools()
    harness = own_harness(fakes.tools, POLICY)
    thread = ask(harness, ("note", {"text": "under the first key"}))
    card = harness.card(SUPPORT, thread)
    harness.settle()
    harness.app.stop()
    return harness, fakes, thread, card


def test_the_bot_does_not_start_if_calls_wait_under_another_key(
    stopped_bot: tuple[Harness, FakeTools, str, dict[str, Any]],
) -> None:
    """The error names both keys' ids and what to do. Nothing is changed, and with the old key the
    call runs.
    """
    harness, fakes, thread, card = stopped_bot
    old = compute_key_id(harness.app.core.key)
    [call] = harness.all(Call)
    assert call.key_id == old
    harness.extra["COUNTERSIGN_KEY"] = NEW_KEY
    with pytest.raises(StartupError) as refused:
        harness.start()
    text = str(refused.value)
    new = compute_key_id(NEW_KEY.encode())
    assert (
        f"1 call still waits that was shown under the key {old}, and the key now in use is {new}."
        in text
    )
    assert f"COUNTERSIGN_LOST_KEY={old}" in text
    assert NEW_KEY not in text
    assert harness.app.core.key.decode() not in text
    assert harness.all(Call) == [call]
    [found] = [check for check in check_bot_database(harness.settings()) if check.level == "fail"]
    assert f"COUNTERSIGN_LOST_KEY={old}" in found.text

    harness.extra["COUNTERSIGN_LOST_KEY"] = "00000000"  # another key's id
    with pytest.raises(StartupError):
        harness.start()
    del harness.extra["COUNTERSIGN_KEY"]
    assert not [check for check in check_bot_database(harness.settings()) if check.subject == "key"]
    harness.start()
    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("note", "under the first key") == 1

    harness.app.stop()  # nothing waits any more
    harness.extra["COUNTERSIGN_KEY"] = NEW_KEY
    harness.start()
    harness.card(SUPPORT, ask(harness, ("note", {"text": "under the second key"})))
    assert {call.key_id for call in harness.all(Call)} == {old, new}


def test_calls_under_a_lost_key_are_closed_without_running(
    stopped_bot: tuple[Harness, FakeTools, str, dict[str, Any]],
) -> None:
    """The operator says that the key is lost. Card and model say why the call did not run."""
    harness, fakes, thread, card = stopped_bot
    harness.extra |= {
        "COUNTERSIGN_KEY": NEW_KEY,
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
def test_the_bot_does_not_start_with_a_key_file_cut_short(
    stopped_bot: tuple[Harness, FakeTools, str, dict[str, Any]],
) -> None:
    """The error is about the file and not about a tool."""
    harness = stopped_bot[0]
    path = harness.folder / "countersign.db.key"
    whole = path.read_text()
    path.write_text("short")
    with pytest.raises(
        StartupError, match=r"countersign\.db\.key does not hold a key.*COUNTERSIGN_KEY"
    ):
        harness.start()
    path.write_text(whole)
    harness.start()


def verify_audit(harness: Harness) -> ExaminationResult:
    """The result of `audit verify` under the keys in use."""
    store = harness.app.core.store
    with store.read() as tx:
        return examine_audit_and_rows(tx, store.chain, trail.get_audit_head(tx))


@pytest.mark.parametrize("edited", [False, True], ids=["as it was", "edited"])
def test_a_new_key_is_used_while_the_old_one_is_still_accepted(
    stopped_bot: tuple[Harness, FakeTools, str, dict[str, Any]], edited: bool
) -> None:
    """What waits can be edited, approved and run, new calls are under the new key, and the audit is
    sound under both. Once nothing waits under the old one, it can be removed.
    """
    harness, fakes, thread, card = stopped_bot
    old = harness.app.core.key.decode()
    harness.extra["COUNTERSIGN_KEY"] = f"{NEW_KEY}, {old}"
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
    assert compute_key_id(NEW_KEY.encode()) in {each.key_id for each in harness.all(Call)}
    found = verify_audit(harness)
    assert found.problems == []
    sealed_by = {row.key_id for row in harness.all(Audit)}
    assert sealed_by == {compute_key_id(old.encode()), compute_key_id(NEW_KEY.encode())}

    harness.person("ana").click(SUPPORT, card["ts"], "approve")
    harness.said(SUPPORT, asked, "That is all.")
    harness.app.stop()
    harness.extra["COUNTERSIGN_KEY"] = NEW_KEY
    harness.start()  # nothing waits under the old one any more
    assert fakes.did("note", "after the change") == 1
    [problem] = verify_audit(harness).problems
    assert f"sealed with the key {compute_key_id(old.encode())}" in problem


def test_audit_rows_sealed_by_an_old_key_are_still_checked(
    stopped_bot: tuple[Harness, FakeTools, str, dict[str, Any]],
) -> None:
    """One of them was changed by hand; both keys are in use."""
    harness = stopped_bot[0]
    harness.extra["COUNTERSIGN_KEY"] = f"{NEW_KEY},{harness.app.core.key.decode()}"
    harness.start()
    store = harness.app.core.store
    with store.write() as tx:
        for statement in store.database.list_drop_trigger_statements():
            tx.exec_driver_sql(statement)
        tx.exec_driver_sql("UPDATE audit SET actor = 'UEVE00001' WHERE seq = 2")
        for statement in store.database.list_create_trigger_statements():
            tx.exec_driver_sql(statement)
    assert "row 2 of the audit was changed" in verify_audit(harness).problems[0]


@pytest.mark.file
def test_the_first_key_of_a_key_file_is_the_one_in_use(
    stopped_bot: tuple[Harness, FakeTools, str, dict[str, Any]],
) -> None:
    """The other keys are accepted, and a backup with its key contains all of them."""
    harness, fakes, thread, card = stopped_bot
    path = harness.folder / "countersign.db.key"
    path.write_text(f"{NEW_KEY}\n{path.read_text()}\n")
    harness.start()
    assert compute_key_id(harness.app.core.key) == compute_key_id(NEW_KEY.encode())
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
