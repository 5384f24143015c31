"""`countersign forget` and `export`: a person's words are in no column and no file afterwards."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from bot.demo.model_server import Turn
from bot.runs.program_requests import ProgramRequests
from bot.tools.handed_over import HandedOverAction
from countersign.cli.commands import main
from storage import trail
from storage.columns import StoredEnum
from storage.examination import examine_audit_and_rows
from storage.models import Call, Run, Vote
from storage.record_copies import list_record_tables
from storage.sqlite_connections import DIALECT
from tests.record_checks import list_transcript_items
from tests.records import ON_A_SERVER, settings_of
from tests.stories.fakes import FakeTools
from tests.stories.forms import request
from tests.stories.harness import SUPPORT, Harness
from tests.stories.steps import all_sent, arrived, ask, now_at, open_modal, reject, typed, vote

BEN = "UBEN00001"
WORD = "zanzibarine"  # written by Ben wherever a person can write
KEPT_WORD = "quetzalcoatl"  # asked by Ana, where Ben wrote nothing
# Text columns that hold nobody's words. Any other has to be emptied by `storage.personal_data`.
COLUMNS_WITHOUT_WORDS = {
    "attached": "id run_id message slack_id person media sha256",
    "attempt": "call_id",
    "audit": "run_id call_id actor event data key_id previous hash",
    "answer": "call_id person",
    "call": "id run_id plan_id provider_id tool does schema_digest digest key_id gate grant_id"
    " claimant assignee assigned_by",
    "client_key": "id team name person tools hash webhook",
    "contact": "team person",
    "delegation": "id team giver delegate revoked_by",
    "delivery": "key team user channel thread_ts run_id",
    "item": "run_id",
    "message": "key run_id plan_id channel thread_ts recipient ts",
    "mode": "team channel person",
    "passkey": "id team person credential_id public_key aaguid rp_id transports call_id revoked_by",
    "plan": "id run_id",
    "remembered": "id team requester tool schema_digest rule channel thread_ts call_id given_by"
    " revoked_by",
    "revision": "call_id digest author",
    "run": "id team channel thread_ts requester client root_id parent_call asked_in",
    "signature": "call_id person passkey_id statement authenticator_data client_data signature"
    " public_key aaguid rp_id",
    "signing_link": "hash team person call_id verb statement",
    "vote": "call_id person also digest for_person passkey_id",
    "webhook": "id run_id about key_id",
}
EMPTIED_COLUMNS = {
    "attached": "data",
    "answer": "given",
    "audit": "payload",
    "call": "reason preview names action preview_in_thread preview_rows expects output note",
    "delegation": "words",
    "delivery": "body note answer",
    "item": "body",
    "message": "body showing error",  # the row is deleted
    "passkey": "name",
    "remembered": "pinned",
    "revision": "arguments",
    "run": "error reworded",
    "signing_link": "reason",  # the row is deleted
    "vote": "reason",
    "webhook": "error",
}


def list_text_columns() -> Iterator[tuple[str, str]]:
    """Every text column of the record, with its table."""
    for table in list_record_tables():
        for column in table.columns:
            kind = column.type.compile(DIALECT)
            if kind.startswith(("VARCHAR", "TEXT")) and not isinstance(column.type, StoredEnum):
                yield table.name, column.name


def test_every_text_column_is_emptied_or_holds_no_words() -> None:
    """A new column has to be added to one of the two tables above."""
    named = {
        (table, column)
        for found in (COLUMNS_WITHOUT_WORDS, EMPTIED_COLUMNS)
        for table, columns in found.items()
        for column in columns.split()
    }
    assert named == set(list_text_columns())


def find_columns_with(harness: Harness, word: str) -> list[str]:
    """The columns that contain this word."""
    with harness.app.core.store.read() as tx:
        quote = tx.dialect.identifier_preparer.quote
        found = []
        for table, column in list_text_columns():
            sql = f"SELECT {quote(column)} FROM {quote(table)}"
            if any(word in (row[0] or "") for row in tx.exec_driver_sql(sql)):
                found.append(f"{table}.{column}")
    return found


def write_word_everywhere(harness: Harness) -> None:
    """Ben writes the word wherever a person can write."""
    note = ("note", {"text": f"{WORD} in a note"})
    harness.planner.script(Turn(calls=[note]), Turn(text=f"So {WORD} it is."))
    thread = harness.person("ben").say(SUPPORT, f"@bot {WORD} please")
    card = harness.card(SUPPORT, thread)
    open_modal(harness, "ana", SUPPORT, card, "edit")
    assert harness.person("ana").submit(typed(text=f"{WORD}, edited"))["outcome"] == "closed"
    harness.said(SUPPORT, thread, "✏️")
    harness.settle()
    vote(harness, "cleo", now_at(harness, SUPPORT, card["ts"]))
    harness.said(SUPPORT, thread, f"So {WORD}")
    harness.planner.script(Turn(text="I have read it."))
    harness.person("ben").share(SUPPORT, "@bot read this", {"a.csv": f"{WORD},1\n".encode()})
    arrived(harness)
    with_form = request(harness, f"{WORD} by a form")
    vote(harness, "ana", harness.card(SUPPORT, with_form))
    programs = ProgramRequests(harness.app.core.forms(), harness.app.core.signals)
    deploy = HandedOverAction("deploy", f"Deploy {WORD}", f"Deploy {WORD} now")
    programs.ask(deploy, {}, requester=BEN, channel=SUPPORT, client="ci", why=WORD, key=WORD)
    arrived(harness)


def write_word_to_others(harness: Harness) -> None:
    """Ben writes the word into Cleo's requests: by a rejection, and in the thread that
    she asks in.
    """
    thread = ask(harness, ("note", {"text": "sought by Cleo"}), who="cleo")
    card = harness.card(SUPPORT, thread, "ben")
    reject(harness, "ben", SUPPORT, card, f"{WORD} says no")
    harness.said(SUPPORT, thread, "That is all.")
    root = harness.person("ben").say(SUPPORT, f"{WORD} is what I told them")
    harness.planner.script(Turn(text="I see."))
    harness.person("cleo").say(SUPPORT, "@bot what is this about?", root)
    harness.said(SUPPORT, root, "I see.")


POLICY_WITH_BEN = '[defaults]\napprovers = ["UANA00001", "UCLEO0001", "UBEN00001"]\n'


@pytest.fixture
def harness_with_words(own_harness: Callable[..., Harness]) -> Harness:
    """A bot to which Ben wrote the word everywhere, and Ana asked for something of her own."""
    harness = own_harness(FakeTools().tools, POLICY_WITH_BEN)
    write_word_everywhere(harness)
    write_word_to_others(harness)
    thread = ask(harness, ("note", {"text": KEPT_WORD}), who="ana")
    vote(harness, "cleo", harness.card(SUPPORT, thread, "cleo"))
    harness.said(SUPPORT, thread, "That is all.")
    return harness


def reject_waiting_call(harness: Harness) -> None:
    """Ana rejects the program's request, and everything is reported."""
    [call] = [each for each in harness.all(Call) if each.status == "pending"]
    run = harness.run_of(call.run_id)
    card = harness.card(SUPPORT, run.thread_ts, "ana")
    reject(harness, "ana", SUPPORT, card, "not today")
    arrived(harness)
    all_sent(harness)


def run_command(harness: Harness, monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    """Run a command while the bot runs."""
    given = settings_of(harness.folder / "countersign.db")
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("COUNTERSIGN_POLICY", str(harness.folder / "policy.toml"))
    return main([*words])


def run_forget(harness: Harness, monkeypatch: pytest.MonkeyPatch, *more: str) -> int:
    """Run `countersign forget` for Ben."""
    return run_command(harness, monkeypatch, "forget", BEN, *more)


def test_forgetting_leaves_no_word_of_a_person(
    harness_with_words: Harness, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither columns nor files contain them. What Ana asked stays, and the audit is sound."""
    harness = harness_with_words
    assert run_forget(harness, monkeypatch) == 0
    said = capsys.readouterr().out
    assert "  5 requests: " in said  # the program's is still open
    assert "(2 of them by other people, " in said
    before = {each.partition(".")[0] for each in find_columns_with(harness, WORD)}
    assert before >= {
        "item",
        "revision",
        "call",
        "delivery",
        "audit",
        "message",
        "vote",
        "attached",
    }
    votes = len(harness.all(Vote))

    assert run_forget(harness, monkeypatch, "--yes") == 1
    assert "is open or not fully reported" in capsys.readouterr().out
    reject_waiting_call(harness)
    assert run_forget(harness, monkeypatch) == 0
    said = capsys.readouterr().out
    assert ("  1 request: " in said, "by other people" in said) == (True, False)
    assert run_forget(harness, monkeypatch, "--yes") == 0
    assert "Not touched: backups" in capsys.readouterr().out

    assert find_columns_with(harness, WORD) == []
    assert "revision.arguments" in find_columns_with(harness, KEPT_WORD)
    assert len(harness.all(Vote)) == votes + 1
    store = harness.app.core.store
    with store.read() as tx:
        found = examine_audit_and_rows(tx, store.chain, trail.get_audit_head(tx))
    assert found.problems == []
    assert any(f"what {BEN} asked and wrote was erased" in each for each in found.remarks)
    if not ON_A_SERVER:
        for file in store.path.parent.glob(f"{store.path.name}*"):
            if file.is_file():
                assert WORD.encode() not in file.read_bytes(), file


def test_forgotten_words_are_not_sent_to_the_model(
    harness_with_words: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread's transcript is empty, in the rows and in memory."""
    harness = harness_with_words
    reject_waiting_call(harness)
    thread = next(
        each.thread_ts
        for each in harness.all(Run)
        if each.requester == BEN and each.source == "message"
    )
    assert run_forget(harness, monkeypatch, "--yes") == 0
    run = harness.run_in(thread)
    with harness.app.core.store.read() as tx:
        assert harness.app.core.transcripts.read_transcript(tx, run).items == ()
        assert list_transcript_items(tx, run) == []


def test_everything_a_person_wrote_is_exported(
    harness_with_words: Harness, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The export leaves out what others asked in their own words."""
    harness = harness_with_words
    assert run_command(harness, monkeypatch, "export", BEN) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["person"] == BEN
    assert {each["requester"] for each in told["asked"]["run"]} == {BEN}
    assert WORD in json.dumps(told["asked"])
    assert f"{WORD} says no" in json.dumps(told["elsewhere"]["vote"])
    assert any(WORD in each["body"] for each in told["elsewhere"]["item"])
    assert len(told["emptied_with"]) == 2
    assert KEPT_WORD not in json.dumps(told)
