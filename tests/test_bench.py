"""The figures are measured, printed and kept as they claim, however fast the machine is."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from bench import clicks, floor, pause, pending, report, resume
from bench.__main__ import MEASUREMENTS, main
from bench.commits import Span, within
from bench.figures import Figure, Measurement, Setup, of_rounds, percentile, table, written

Measured = Callable[[Measurement], dict[str, Figure]]


@pytest.fixture
def measured(tmp_path: Path) -> Measured:
    """Takes one measurement in its quick form; the figures by name, each with a name of its own."""

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
    # longer numbers
    assert max(each.value for each in added) - min(each.value for each in added) <= 16
    whole = [found[f"pause.{items}.whole"].value for items in resume.HISTORY]
    assert max(whole) - min(whole) <= 32
    assert whole[0] > added[0].value
    assert found["pause.file"].value < 10_000


def test_a_pause_and_its_resumption(measured: Measured) -> None:
    """Warm and fresh at three lengths of history.

    The number of commits is the same whatever the history.
    """
    found = measured(resume.measure)
    assert {each.value for name, each in found.items() if name.startswith("resume.commits")} == {8}
    assert {each.value for name, each in found.items() if name.startswith("resume.durable")} == {4}
    for items in resume.HISTORY:
        assert found[f"resume.fresh.{items}"].value > 0
        assert 1 < found[f"resume.warm.{items}.ratio"].value < 10_000
    assert [found[f"resume.warm.{items}.ratio"].aim for items in resume.HISTORY] == [3, None, 8]


def test_clicks_through_slack(measured: Measured) -> None:
    """Acknowledgements, tool starts and whole stories over the real wire.

    What is beyond commits is less than all.
    """
    found = measured(clicks.measure)
    assert 0 < found["ack.p50"].value <= found["ack.p99"].value < 3000
    assert 0 < found["start"].value < found["start.total"].value < 30_000
    assert found["stories"].value > 0


def test_pending_calls_are_really_pending(tmp_path: Path) -> None:
    """The copies are complete, each with a card that stands.

    The bot that starts on them finds nothing to do.
    """
    pending.fill(tmp_path, 50)
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
        told = bot.tell("ticks 3")
        assert pending.to_card(bot) > 0
    assert line["began"] < line["imported"] < line["ready"]
    assert len(told["ticks"]) == 3
    assert 10 < told["VmRSS"] <= told["VmHWM"]


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run prints the table and writes the same figures as JSON, with the machine.

    Nothing is left behind.
    """
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


def test_the_floor_is_durable(tmp_path: Path) -> None:
    """Both floors commit as Countersign does, each commit one row, so that ratios compare."""
    both = floor.Floor(tmp_path)
    assert both.raw() > 0
    assert both.sqlmodel() > 0
    with both._engine.connect() as connection:
        for raw in (both._raw, connection.connection.driver_connection):
            assert raw.execute("PRAGMA synchronous").fetchone() == (2,)
            assert raw.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert both._raw.execute("SELECT count(*) FROM note").fetchone() == (1,)
    both.close()


def test_row_bytes_are_what_sqlite_stores(tmp_path: Path) -> None:
    """The bytes counted for rows agree with the pages that SQLite fills with them."""
    db = sqlite3.connect(tmp_path / "rows.db")
    db.execute("CREATE TABLE t (a TEXT, b INTEGER, c TEXT, d INTEGER)")
    rows = [
        ("x" * (n % 90), n * 10**6, None if n % 2 else "é" * 40, 10**15 + n) for n in range(20_000)
    ]
    db.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", rows)
    db.commit()
    filled = db.execute("PRAGMA page_count").fetchone()[0] * 4096
    # rowid, length and cell pointer of each
    counted = sum(pause.record(row) + 3 + 1 + 2 for row in rows)
    assert 0.95 < counted / filled < 1.0


def test_numbers_as_they_are_written() -> None:
    """Medians have their spread and verdict, percentiles the nearest rank.

    Overlapping commits share their time.
    """
    figure = of_rounds("a", "some thing", [3.0, 1.0, 2.0], "ms", aim=2.0)
    assert (figure.value, figure.spread, figure.met) == (2.0, (1.0, 3.0), True)
    assert Figure("b", "", 2.1, "ms", aim=2.0).met is False
    assert Figure("c", "", 2.1, "ms").met is None
    assert table([figure]).splitlines()[2] == "| some thing | 2 ms   | 1 – 3  | ≤ 2 ms ✓ |"
    assert [written(value, "×") for value in (0.123, 12.34, 1234.5)] == ["0.12×", "12.3×", "1,234×"]
    assert [percentile(list(range(1, 51)), percent) for percent in (50, 99, 100)] == [25, 50, 50]
    spans = [Span(began, ended, True, "loop") for began, ended in [(0, 2), (1, 3), (5, 6), (8, 20)]]
    assert within(spans, 1, 10) == 2 + 1 + 2
    assert within([*spans, Span(3, 5, True, "outbox_0")], 1, 10) == 2 + 1 + 2


def test_the_page_keeps_the_table(tmp_path: Path) -> None:
    """--update-docs replaces what is between the markers and nothing else.

    A page without markers is refused.
    """
    page = tmp_path / "performance.md"
    page.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n", "utf-8")
    about = report.machine(tmp_path, report.Others())
    report.update_docs(about, [Figure("a", "some thing", 1.0, "ms")], page)
    text = page.read_text("utf-8")
    assert text.startswith(f"before\n{report.BEGIN}\n")
    assert text.endswith(f"\n{report.END}\nafter\n")
    assert "some thing" in text
    assert "old" not in text
    page.write_text("no markers")
    with pytest.raises(ValueError, match="does not have both"):
        report.update_docs(about, [], page)


def test_the_page_in_docs_can_be_refreshed(tmp_path: Path) -> None:
    """docs/performance.md has the markers, and names every measurement that --only takes."""
    text = report.DOCS.read_text("utf-8")
    copy = tmp_path / "copy.md"
    copy.write_text(text, "utf-8")
    report.update_docs(report.machine(tmp_path, report.Others()), [], copy)
    assert all(f"`{name}`" in text for name in MEASUREMENTS)
