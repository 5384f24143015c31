"""The figures are measured, printed and kept as they claim, however fast the machine is."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from dataclasses import astuple
from pathlib import Path

import pytest

from bench import (
    clicks,
    crowd,
    floor,
    hosted,
    hotspots,
    looks,
    lookups,
    pause,
    pending,
    report,
    resume,
    signatures,
    stories,
)
from bench.__main__ import MEASUREMENTS, main
from bench.commits import Counts
from bench.figures import (
    Figure,
    Measurement,
    Setup,
    build_figure,
    format_number,
    format_table,
    percentile,
)
from bench.offline import Bench
from bench.yardstick import Yardstick
from storage import transaction

Measured = Callable[[Measurement], dict[str, Figure]]


@pytest.fixture
def measured(tmp_path: Path) -> Measured:
    """Takes one measurement in its quick form and returns its figures by name; names are unique."""

    def take(measurement: Measurement) -> dict[str, Figure]:
        figures = list(measurement(Setup(tmp_path, quick=True)))
        found = {figure.name: figure for figure in figures}
        assert len(found) == len(figures)
        return found

    return take


def test_a_pause_adds_little_whatever_the_history(measured: Measured) -> None:
    """A pause adds less than 1 kB, and no more with a thousand items of history than with ten."""
    found = measured(pause.measure)
    added = [found[f"pause.{items}"] for items in resume.HISTORY]
    assert all(0 < each.value < 1000 and each.met for each in added)
    # larger numbers have more digits
    assert max(each.value for each in added) - min(each.value for each in added) <= 16
    whole = [found[f"pause.{items}.whole"].value for items in resume.HISTORY]
    assert max(whole) - min(whole) <= 32
    assert whole[0] > added[0].value
    assert found["pause.file"].value < 10_000


def test_resuming_is_timed_beside_the_yardstick_with_its_aims(measured: Measured) -> None:
    """Each kind has its processor time, the yardstick's, their ratio and the aims.

    A core story waits for the disk at request, decision, intent and result; a full one also at the
    message and the click.
    """
    found = measured(resume.measure)
    kinds = [
        f"{kind}.warm.{items}" for kind in ("core", "full", "posted") for items in resume.HISTORY
    ]
    for name in (f"resume.{kind}" for kind in [*kinds, "core.fresh.10"]):
        assert 0 < found[name].value < 10_000
        beside = found[name].value / found[f"{name}.yardstick"].value
        assert found[f"{name}.ratio"].value == pytest.approx(beside)
    aims = {name: found[f"resume.{name}.ratio"].aim for name in [*kinds, "core.fresh.10"]}
    assert {name: aim for name, aim in aims.items() if aim is not None} == resume.AIMS
    assert found["resume.core.waits"].value == 4
    assert found["resume.full.waits"].value == found["resume.posted.waits"].value == 6
    assert found["resume.core.statements"].value > found["resume.core.transactions"].value
    assert found["resume.full.statements"].value > found["resume.core.statements"].value


def test_a_story_costs_the_store_the_same_whatever_the_history(tmp_path: Path) -> None:
    """Ten items of history or a hundred: as many statements, transactions and waits."""
    counts = []
    for items in (10, 100):
        folder = tmp_path / str(items)
        folder.mkdir()
        counts.append(resume.count_story(folder, resume.run_full, items))
    assert counts[0] == counts[1]


STORY_LIMITS = [(resume.run_core, Counts(68, 15, 8, 4)), (resume.run_full, Counts(87, 24, 11, 6))]


@pytest.mark.parametrize(("story", "most"), STORY_LIMITS)
def test_a_story_uses_the_store_no_more_than_its_limits(
    tmp_path: Path, story: resume.Story, most: Counts
) -> None:
    """A step reads a row once. A change that needs more of the store raises the limits above."""
    found = resume.count_story(tmp_path, story, 10)
    assert all(each <= at_most for each, at_most in zip(astuple(found), astuple(most), strict=True))


def test_every_statement_of_a_story_is_compiled_once(tmp_path: Path) -> None:
    """The second story finds all of them; building one on the spot costs thirty times as much."""
    bench = Bench(tmp_path)
    resume.run_full(bench, "first")
    known = len(transaction.known)
    resume.run_full(bench, "second")
    bench.close()
    assert len(transaction.known) == known > 40


def test_the_yardstick_does_every_step_durably(tmp_path: Path) -> None:
    """A story leaves its entries, approval, record and cards on disk, with Countersign's pragmas.

    A fresh story goes on with the same database.
    """
    yardstick = Yardstick(tmp_path)
    for fresh in (False, True):
        took = yardstick.run_story(3, fresh=fresh)
        assert took.processor > 0
        assert took.wall > 0
    with yardstick._engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        found = [
            connection.exec_driver_sql(f"SELECT count(*) FROM {name}").scalar()
            for name in ("entry", "approval", "record", "card")
        ]
        status = connection.exec_driver_sql("SELECT DISTINCT status FROM approval").scalar()
    yardstick.close()
    assert found == [2 * (3 + 4), 2, 2 * 3, 2 * 2]
    assert status == "done"


@pytest.mark.long
def test_clicks_are_timed_through_the_local_slack(measured: Measured) -> None:
    """Acknowledgements, tool starts, whole stories and their processor time, over the real wire."""
    found = measured(clicks.measure)
    assert 0 < found["ack.p50"].value <= found["ack.p99"].value < 3000
    assert 0 < found["start"].value < 30_000
    assert 0 < found["start.burst.p50"].value <= found["start.burst.p99"].value < 30_000
    assert 0 < found["story.processor"].value < 10_000
    assert found["stories"].value > 0
    assert found["stories"].more_is_better


@pytest.mark.long
def test_the_sizes_that_stories_leave_are_measured(measured: Measured) -> None:
    """The file as a whole and by table, the log and the memory."""
    found = measured(stories.measure)
    of_tables = [found[f"stories.{name}"].value for name in stories.TABLES]
    assert 0 < sum(of_tables) <= found["stories.file"].value
    assert found["stories.file"].aim == stories.FILE
    assert found["stories.memory"].aim == stories.MEMORY
    assert found["stories.log"].value > 0
    assert found["stories.memory"].value > 0


@pytest.mark.long
def test_home_and_lists_are_timed_in_small_and_long_records(measured: Measured) -> None:
    """Each is measured in both records, with an aim for the growth."""
    found = measured(looks.measure)
    for what in ("list", "home"):
        assert found[f"looks.{what}"].value > 0
        assert found[f"looks.{what}.ratio"].aim == 1.5


@pytest.mark.long
def test_a_crowd_of_conversations_and_votes_is_measured(measured: Measured) -> None:
    """Events are acknowledged, everybody gets a card, and a stream of votes is decided."""
    found = measured(crowd.measure)
    assert 0 < found["crowd.acknowledged"].value <= 100
    assert 0 < found["crowd.p99"].value <= 10
    assert found["crowd.cards"].value > 0
    assert found["decisions"].value > 0


@pytest.mark.long
def test_many_workspaces_in_one_process_are_measured(measured: Measured) -> None:
    """They sleep, then are awake, and one is flooded while another's calls run."""
    found = measured(hosted.measure)
    assert found["hosted.ready"].aim == 3
    assert found["hosted.awake"].value > 0 < found["hosted.ready"].value
    assert found["hosted.awake.memory"].value > found["hosted.memory"].value > 0
    assert found["hosted.awake.threads"].value > 0
    assert found["hosted.flood.p99"].value >= found["hosted.flood.p50"].value > 0


@pytest.mark.long
@pytest.mark.skipif(not hotspots.IS_POSSIBLE, reason="cProfile profiles one thread at a time here")
def test_the_profile_lists_functions_by_part(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--profile` prints both tables for both stories, without the profiler's own functions."""
    assert main(["--quick", "--profile", "--folder", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert said.count("| part | own time |\n") == said.count("| function | part |") == 2
    assert all(said.count(f"\n| {part} | ") == 2 for part in ("storage", "sqlite3"))
    assert "hotspots." not in said
    assert list(tmp_path.iterdir()) == []


def test_profiled_functions_are_named_by_their_part() -> None:
    """Ours by package, others by library, built-in functions by the library they belong to."""
    assert hotspots.name_function(resume.run_core.__code__) == ("bench", "resume.run_core")
    assert hotspots.name_function(pytest.fail.__call__.__code__)[0] == "_pytest"
    assert hotspots.name_function(json.dumps.__code__) == ("Python's library", "__init__.dumps")
    native = "<method 'execute' of 'sqlite3.Connection' objects>"
    assert hotspots.name_function(native) == ("sqlite3", "sqlite3.Connection.execute")
    assert hotspots.name_function("<built-in method builtins.len>") == (
        hotspots.BUILT_IN,
        "builtins.len",
    )


@pytest.mark.long
def test_copies_of_a_pending_call_are_complete(tmp_path: Path) -> None:
    """Each has a card that was sent, and a bot that starts on them finds nothing to do."""
    pending.fill_database(tmp_path, 50)
    with sqlite3.connect(tmp_path / "countersign.db") as db:
        for name in ("run", "plan", "call", "revision", "message", "delivery"):
            assert db.execute(f"SELECT count(*) FROM {name}").fetchone() == (50,)
        joined = (
            "call JOIN run ON run.id = call.run_id JOIN revision ON call_id = call.id "
            "JOIN message m ON m.plan_id = call.plan_id JOIN delivery d ON d.run_id = run.id"
        )
        where = (
            "call.status = 'pending' AND run.status = 'waiting'"
            " AND m.status = 'sent' AND instr(m.body, call.id)"
        )
        assert db.execute(f"SELECT count(*) FROM {joined} WHERE {where}").fetchone() == (50,)
        assert db.execute("PRAGMA foreign_key_check").fetchall() == []
    bot = pending.Live(tmp_path, people=2)
    with bot:
        line = bot.start()
        told = bot.send_command("ticks 3")
        assert pending.measure_card(bot) > 0
    assert line["began"] < line["imported"] < line["ready"]
    assert len(told["ticks"]) == 3
    assert 10 < told["VmRSS"] <= told["VmHWM"]


def test_the_command_prints_a_table_and_writes_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both have the same figures and the machine, and no file is left behind."""
    file = tmp_path / "figures.json"
    folder = tmp_path / "disk"
    assert main(["--quick", "--only", "floor", "--json", str(file), "--folder", str(folder)]) == 0
    said = json.loads(file.read_text())
    assert [each["name"] for each in said["figures"]] == ["floor.raw", "floor.sqlmodel"]
    assert said["machine"]["disk"] != "unknown disk"
    assert said["machine"]["others"].endswith("%")
    printed = capsys.readouterr().out
    assert all(f"| {each['what']}" in printed for each in said["figures"])
    assert said["machine"]["date"] in printed
    assert list(folder.iterdir()) == []


def test_both_floors_commit_as_durably_as_countersign(tmp_path: Path) -> None:
    """Each commits one row, so that ratios to them can be compared."""
    both = floor.Floor(tmp_path)
    assert both.raw() > 0
    assert both.sqlmodel() > 0
    with both._engine.connect() as connection:
        for raw in (both._raw, connection.connection.driver_connection):
            assert raw.execute("PRAGMA synchronous").fetchone() == (2,)
            assert raw.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert both._raw.execute("SELECT count(*) FROM note").fetchone() == (1,)
    both.close()


def test_counted_row_bytes_agree_with_what_sqlite_stores(tmp_path: Path) -> None:
    """The count is compared with the pages that SQLite fills."""
    db = sqlite3.connect(tmp_path / "rows.db")
    db.execute("CREATE TABLE t (a TEXT, b INTEGER, c TEXT, d INTEGER)")
    rows = [
        ("x" * (n % 90), n * 10**6, None if n % 2 else "é" * 40, 10**15 + n) for n in range(20_000)
    ]
    db.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", rows)
    db.commit()
    filled = db.execute("PRAGMA page_count").fetchone()[0] * 4096
    # rowid, length and cell pointer of each
    counted = sum(pause.count_row_bytes(row) + 3 + 1 + 2 for row in rows)
    assert 0.95 < counted / filled < 1.0


def test_figures_show_spread_and_verdict() -> None:
    """An aim is an upper or a lower bound; percentiles take the nearest rank."""
    figure = build_figure("a", "some thing", [3.0, 1.0, 2.0], "ms", aim=2.0)
    assert (figure.value, figure.spread, figure.met) == (2.0, (1.0, 3.0), True)
    assert Figure("b", "", 2.1, "ms", aim=2.0).met is False
    assert Figure("c", "", 2.1, "ms").met is None
    least = Figure("d", "a rate", 30.0, "/s", aim=25.0, more_is_better=True)
    assert (least.met, Figure("e", "", 24.9, "/s", 25.0, None, True).met) == (True, False)
    assert format_table([least]).splitlines()[2] == "| a rate | 30 /s  |        | ≥ 25 /s ✓ |"
    assert format_table([figure]).splitlines()[2] == "| some thing | 2 ms   | 1 – 3  | ≤ 2 ms ✓ |"
    assert [format_number(value, "×") for value in (0.123, 12.34, 1234.5)] == [
        "0.12×",
        "12.3×",
        "1,234×",
    ]
    assert [percentile(list(range(1, 51)), percent) for percent in (50, 99, 100)] == [25, 50, 50]


def test_update_docs_replaces_only_the_text_between_markers(tmp_path: Path) -> None:
    """A page without both markers is refused."""
    page = tmp_path / "performance.md"
    page.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n", "utf-8")
    about = report.describe_machine(tmp_path, report.OtherLoad())
    report.update_docs(about, [Figure("a", "some thing", 1.0, "ms")], page)
    text = page.read_text("utf-8")
    assert text.startswith(f"before\n{report.BEGIN}\n")
    assert text.endswith(f"\n{report.END}\nafter\n")
    assert "some thing" in text
    assert "old" not in text
    page.write_text(f"{report.PROFILE[0]}\n{report.PROFILE[1]}", "utf-8")
    report.update_profile(["| part |"], page)
    assert "\n| part |\n" in page.read_text("utf-8")
    page.write_text("no markers")
    with pytest.raises(ValueError, match="does not have both"):
        report.update_docs(about, [], page)


def test_performance_md_can_be_updated_and_is_complete(tmp_path: Path) -> None:
    """The page names every measurement that --only takes."""
    text = report.DOCS.read_text("utf-8")
    copy = tmp_path / "copy.md"
    copy.write_text(text, "utf-8")
    report.update_docs(report.describe_machine(tmp_path, report.OtherLoad()), [], copy)
    report.update_profile([], copy)
    assert all(f"`{name}`" in text for name in MEASUREMENTS)


def test_the_cost_of_signatures_is_measured(measured: Measured) -> None:
    """For who signs, for requests that others sign, and for receipts with one and without."""
    found = measured(signatures.measure)
    assert 0 < found["signatures.other"].value < 10
    # a difference of two stories: others may have had the processors during the one without
    assert abs(found["signatures.signed"].value) < 100
    assert 0 < found["signatures.receipt.none"].value < 50
    assert 0 < found["signatures.receipt.signed"].value < 50


@pytest.mark.long
def test_a_card_for_a_channels_members_takes_few_look_ups(measured: Measured) -> None:
    """The number does not depend on how fast the machine is."""
    found = measured(lookups.measure)
    assert found["lookups.20"].value > 0
    assert 0 < found["lookups.20.calls"].value < 20
    assert found["lookups.20.beside"].value > 0
