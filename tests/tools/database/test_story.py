"""The database tools from a message in Slack to rows in the thread."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.request import urlopen

import pytest

from bot.tools.registration import REASON_FIELD
from storage.models import Audit
from storage.states import CallStatus
from tests.postgres_server import binaries
from tests.stories.harness import POLICY, SUPPORT, Harness
from tests.stories.messages import action_ids, words
from tests.stories.steps import all_sent, ask, menu, now_at, open_modal, told, typed
from tests.tools.database import harness as databases
from tests.tools.database.harness import SECRET, VALUES

INSERT_MANY_ROWS = (
    "INSERT INTO heap SELECT 'w', a.number FROM heap AS a, heap AS b, heap AS c, heap AS d, "
    "heap AS e"
)


OPEN_DATA_RULE = """
[[rule]]
name = "open data"
tool = "query"
when = "args.database == 'open'"
verdict = "allow"
"""


@dataclass
class Story:
    """The product with both kinds of database, and the one that this story uses."""

    world: Harness
    name: str
    data: databases.World

    def ask(self, tool: str, sql: str, answer: str) -> str:
        """Ben asks, and the model calls the tool with this SQL; returns the thread."""
        call = (tool, {"database": self.name, "sql": sql, REASON_FIELD: "Ben wants it"})
        return ask(self.world, call, answer=answer)


@pytest.fixture(scope="module")
def product(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Harness, dict[str, databases.World]]]:
    """A bot with a databases file, an SQLite database, and PostgreSQL where it is installed."""
    folder = tmp_path_factory.mktemp("story")
    (folder / "data").mkdir()
    there = {"lite": databases.create_sqlite_world(folder / "data")}
    if binaries():
        there["pg"] = databases.create_postgres_world(
            request.getfixturevalue("postgres_server"), "story"
        )
    tables = [
        f'[[database]]\nname = "{name}"\nurl = "{each.database.url.get_secret_value()}"\nabout '
        '= "The shop"\n'
        f"secret = {list(SECRET)}\n"
        for name, each in there.items()
    ]
    tables.append(tables[0].replace('name = "lite"', 'name = "open"'))  # Ben may read this one
    (folder / "databases.toml").write_text("\n".join(tables))
    policy = POLICY.read_text("utf-8") + OPEN_DATA_RULE
    world = Harness(folder, policy=policy, COUNTERSIGN_DATABASES=str(folder / "databases.toml"))
    yield world, there
    world.close()


@pytest.fixture(params=["lite", "pg"])
def story(
    request: pytest.FixtureRequest, product: tuple[Harness, dict[str, databases.World]]
) -> Iterator[Story]:
    """The product, at rest, with one of its databases."""
    world, there = product
    if request.param not in there:
        pytest.skip("PostgreSQL is not installed: what concerns it is not tested here")
    yield Story(world, request.param, there[request.param])
    world.reset()


def test_a_change_of_other_rows_than_shown_is_asked_again(story: Story) -> None:
    """More rows match than were shown: nothing is changed, and a new card shows all of them.

    Approved, that one runs.
    """
    world = story.world
    thread = story.ask(
        "change",
        "UPDATE orders SET status = 'paid', card_number = NULL WHERE status = 'pending'",
        "Paid.",
    )
    old = world.card(SUPPORT, thread, having="review")
    assert "Update orders in the database" in words(old)
    assert "Changes 2 rows of orders." in words(old)
    assert "columns: status" in words(old)
    assert "pending → paid" not in words(old)  # Ben may not read the database unasked
    shown = words(open_modal(world, "ana", SUPPORT, old, "review"))
    assert "pending → paid" in shown
    assert "•••••••• → ••••••••" in shown
    story.data.raw("INSERT INTO orders VALUES (4, 2, 'pending', 5, '4111-0004', 'late')")
    assert world.person("ana").submit()["outcome"] == "closed"
    new = world.slack.wait(
        lambda: next(
            (m for m in world.thread(SUPPORT, thread) if "Changes 3 rows of orders." in words(m)),
            None,
        )
    )
    assert story.data.raw("SELECT count(*) FROM orders WHERE status = 'paid'") == [(0,)]
    assert story.data.raw("SELECT count(*) FROM orders WHERE card_number IS NULL") == [(1,)]
    [call] = world.calls_in(thread)
    assert (call.status, call.revision) == (CallStatus.PENDING, 2)
    all_sent(world)
    assert "review" not in action_ids(now_at(world, SUPPORT, old["ts"]))
    assert "It would now touch 3 rows of orders, and 2 were shown." in words(
        now_at(world, SUPPORT, new["ts"])
    )
    open_modal(world, "ana", SUPPORT, now_at(world, SUPPORT, new["ts"]), "review")
    assert world.person("ana").submit()["outcome"] == "closed"
    world.said(SUPPORT, thread, "Paid.")
    assert story.data.raw("SELECT count(*) FROM orders WHERE status = 'paid'") == [(3,)]
    assert '"rows":3' in world.outputs()[0]["output"]
    assert not any(
        value in words(each) for each in world.thread(SUPPORT, thread) for value in VALUES
    )


def test_several_statements_are_one_call(story: Story) -> None:
    """One card shows what each statement does; once it is approved, all of them run."""
    world = story.world
    sql = (
        "INSERT INTO customer (id, name) VALUES (70, 'Ada; Lovelace'); "
        "UPDATE customer SET email = 'ada@example.com' WHERE id = 70;"
    )
    thread = story.ask("change", sql, "Ada is there.")
    card = world.card(SUPPORT, thread, having="review")
    assert "Insert into customer, then update customer in the database" in words(card)
    assert "Adds 1 row of customer." in words(card)
    shown = words(open_modal(world, "ana", SUPPORT, card, "review"))
    assert "Statement 2:" in shown
    assert (
        '{"type": "rich_text_preformatted", "elements": [{"type": "text", "text": "INSERT' in shown
    )
    assert shown.count("SET email") == 1
    for each in (card["blocks"][0]["text"]["text"], shown):
        assert f" in the database {story.name}: 2 rows" in each
    assert "NULL → ada@example.com" in shown
    assert world.person("ana").submit()["outcome"] == "closed"
    world.said(SUPPORT, thread, "Ada is there.")
    assert '"statements":{"1. customer":1,"2. customer":1}' in world.outputs()[0]["output"]
    assert story.data.raw("SELECT email FROM customer WHERE id = 70") == [("ada@example.com",)]


def test_a_card_shows_rows_if_the_requester_may_read_the_database(story: Story) -> None:
    """The policy allows Ben's queries of that database without asking."""
    if story.name != "lite":
        pytest.skip("the database that may be read is a file")
    sql = "UPDATE customer SET name = 'Jon' WHERE id = 2"
    call = {"database": "open", "sql": sql, REASON_FIELD: "Ben wants it"}
    thread = ask(story.world, ("change", call), answer="Renamed.")
    card = story.world.card(SUPPORT, thread)
    assert "Jonas → Jon" in words(card)
    assert "approve" in action_ids(card)


def test_nobody_is_asked_about_a_change_that_touches_no_row(story: Story) -> None:
    """The model is told that it failed; in Edit it is an error at the field."""
    world = story.world
    sql = "UPDATE heap SET number = 7 WHERE word = 'nowhere'"
    thread = story.ask("change", sql, "Nothing is called so.")
    world.said(SUPPORT, thread, "Nothing is called so.")
    assert world.outputs()[0]["output"] == (
        "FAILED before it was run, and nobody was asked: it would change nothing: no row of heap "
        "matches"
    )
    thread = story.ask("change", "DELETE FROM heap WHERE word = 'a'", "Gone.")
    open_modal(world, "ana", SUPPORT, world.card(SUPPORT, thread, having="review"), "edit")
    outcome = world.person("ana").submit(typed(sql=sql))
    assert outcome["errors"] == {"f:sql": "it would change nothing: no row of heap matches"}


def test_an_approver_is_sent_all_rows_as_a_file(story: Story) -> None:
    """The card shows a part of them. Who saw the rows, or was refused, is in the audit."""
    world = story.world
    values = ", ".join(f"('=w{number}', {number})" for number in range(100, 130))
    sql = f"INSERT INTO heap VALUES {values}"
    thread = story.ask("change", sql, "They are there.")
    card = world.card(SUPPORT, thread, having="review")
    menu(world, "dan", card, "rows")
    told(world, "dan", SUPPORT, thread, "cannot decide")
    menu(world, "ana", card, "rows")
    told(world, "ana", SUPPORT, thread, "all rows as a file in a direct message")
    all_sent(world)
    [call] = world.calls_in(thread)
    [file] = world.slack.wait(lambda: _list_files_for(world, "ana", call.id))
    with urlopen(f"{file['url_private']}?as=UANA00001", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    assert lines[:2] == [
        "statement,table,row,change,column,before,after",
        "1,heap,no. 1,added,word,,'=w100",
    ]
    assert len(lines) == 1 + 2 * 30
    assert not _list_files_for(world, "dan", call.id)
    assert not [each for each in world.thread(SUPPORT, thread) if each.get("files")]
    rows = world.all(Audit, Audit.call_id == call.id)
    told_of = [row for row in rows if json.loads(row.data).get("dialog") == "rows"]
    assert [(each.event, each.actor) for each in told_of] == [
        ("dialog.refused", "UDAN00001"),
        ("call.revealed", "UANA00001"),
    ]
    world.slack.faults.fail("files.getUploadURLExternal", "missing_scope")
    menu(world, "ana", card, "rows")
    ana = world.person("ana")
    world.slack.wait(
        lambda: any("could not send you the file" in words(m) for m in ana.messages(ana.dm_channel))
    )
    assert "All rows as a file" in words(open_modal(world, "ana", SUPPORT, card, "review"))


def _list_files_for(world: Harness, name: str, call: str) -> list[dict[str, Any]]:
    """List the files about a call in that person's direct messages with the bot."""
    person = world.person(name)
    messages = person.messages(person.dm_channel)
    found = [file for message in messages for file in message.get("files", [])]
    return [file for file in found if call[:8] in file["name"]]


def test_a_query_waits_for_approval_and_shows_a_table(story: Story) -> None:
    """The thread gets a table block, the model the rows as JSON."""
    world = story.world
    thread = story.ask("query", "SELECT id, login FROM account ORDER BY id", "There they are.")
    card = world.card(SUPPORT, thread)
    assert "Reads at most 200 rows and changes nothing." in words(card)
    world.person("ana").click(SUPPORT, card["ts"], "approve")
    world.said(SUPPORT, thread, "There they are.")
    all_sent(world)
    shown = world.said(SUPPORT, thread, f"Rows from {story.name}")
    [table] = [block for block in shown["blocks"] if block["type"] == "table"]
    assert [[cell["text"] for cell in row] for row in table["rows"]] == [
        ["id", "login"],
        ["1", "root"],
        ["2", "guest"],
    ]
    assert '[1,"root"]' in world.outputs()[0]["output"]
    assert not any(
        value in words(each) for each in world.thread(SUPPORT, thread) for value in VALUES
    )


def test_many_rows_of_a_query_come_as_a_csv_file(
    story: Story, caplog: pytest.LogCaptureFixture
) -> None:
    """There are more of them than a table in Slack can show."""
    caplog.set_level(0)
    world = story.world
    if story.data.raw("SELECT count(*) FROM heap") == [(2,)]:
        story.data.raw(INSERT_MANY_ROWS)
    thread = story.ask(
        "query",
        "SELECT heap.word, account.login AS p FROM heap CROSS JOIN account",
        "All of it is in the file.",
    )
    world.person("ana").click(SUPPORT, world.card(SUPPORT, thread)["ts"], "approve")
    world.said(SUPPORT, thread, "All of it is in the file.")
    all_sent(world)
    [file] = [
        each for message in world.thread(SUPPORT, thread) for each in message.get("files", [])
    ]
    with urlopen(f"{file['url_private']}?as=UANA00001", timeout=10) as answer:
        text = answer.read().decode()
    assert text.splitlines()[0] == "word,p"
    assert text.count("root") == 34
    assert not any(value in each for value in VALUES for each in (text, caplog.text))


def test_nobody_is_asked_about_a_refused_statement(story: Story) -> None:
    """The model is told why, and no card is posted."""
    world = story.world
    thread = story.ask("query", "SELECT 1; DROP TABLE orders", "I cannot do that.")
    world.said(SUPPORT, thread, "I cannot do that.")
    assert "more than one statement" in re.sub(r"\s+", " ", world.outputs()[0]["output"])
    assert not [each for each in world.thread(SUPPORT, thread) if "approve" in action_ids(each)]
    assert story.data.raw("SELECT count(*) FROM orders")[0][0] >= 3
