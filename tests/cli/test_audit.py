"""`countersign audit`: verifying, showing and exporting."""

from __future__ import annotations

import base64
import csv
import io
import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from countersign import receipts
from countersign.cli.commands import main
from tests.runs.fakes import ANA
from tests.runs.harness import LoopHarness


def read_column(path: Path, name: str) -> list[str]:
    """Read that column of the audit."""
    with closing(sqlite3.connect(path)) as db:
        return [row[0] for row in db.execute(f"SELECT {name} FROM audit ORDER BY seq")]


def test_a_sound_record_verifies(record: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The last seal is printed, to be kept elsewhere."""
    assert main(["audit", "verify"]) == 0
    seals = read_column(record, "hash")
    [sound, last] = capsys.readouterr().out.splitlines()
    assert sound.startswith(f"Sound: {len(seals)} rows")
    assert last == f"The last seal is {seals[-1]}"


def test_verify_counts_rows_missing_at_the_end(
    record: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code is 1."""
    with closing(sqlite3.connect(record, isolation_level=None)) as db:
        db.execute("DROP TRIGGER audit_no_delete")
        db.execute("DELETE FROM audit WHERE seq > (SELECT max(seq) - 3 FROM audit)")
    assert main(["audit", "verify"]) == 1
    assert "3 rows are missing at its end" in capsys.readouterr().err


def test_verify_finds_changed_arguments(record: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The audit has the sealed arguments, so a changed row is noticed."""
    [birth] = [each for each in read_column(record, "payload") if each]
    assert json.loads(birth)["arguments"] == {"text": "as shown"}
    with closing(sqlite3.connect(record, isolation_level=None)) as db:
        db.execute("DROP TRIGGER revision_no_update")
        db.execute("UPDATE revision SET arguments = replace(arguments, 'as shown', 'another')")
    assert main(["audit", "verify"]) == 1
    assert "are not those that the audit has sealed" in capsys.readouterr().err


def test_show_lists_the_events_of_a_call_in_order(
    record: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says who approved it. An unknown id is an error."""
    [call] = {each for each in read_column(record, "call_id") if each}
    assert main(["audit", "show", call]) == 0
    shown = capsys.readouterr().out
    events = [line.split("  ")[2:] for line in shown.splitlines() if line[0].isdigit()]
    assert [event for event, _ in events] == [
        "call.born.pending",
        "call.approved",
        "call.running",
        "call.succeeded",
    ]
    assert ["call.approved", f"by {ANA}"] in events
    assert main(["audit", "show", "nothing"]) == 1
    assert "No request or call has the id nothing." in capsys.readouterr().err


def test_the_whole_audit_is_exported_as_json(
    record: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each row is one JSON object with its seal."""
    assert main(["audit", "export"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["hash"] for each in found] == read_column(record, "hash")
    assert {"seq", "at", "run_id", "call_id", "actor", "event", "data", "key_id"} <= set(found[0])


def test_the_audit_is_exported_as_csv(record: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It has a header; commas and quotes do not break cells."""
    assert main(["audit", "export", "--format", "csv"]) == 0
    found = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [each["hash"] for each in found] == read_column(record, "hash")
    assert [each["data"] for each in found] == read_column(record, "data")


def test_an_export_may_be_limited_to_a_time(
    record: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first moment is included, the last one is not."""
    for since, until, all_of_them in (
        ("2026-03-02", "2026-03-03", True),
        ("2026-03-02T12:00", "2026-03-02T13:00", True),
        ("2026-03-02T12:01", "2026-03-03", False),
        ("2026-03-01", "2026-03-02T12:00", False),
    ):
        assert main(["audit", "export", "--since", since, "--until", until]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) == (len(read_column(record, "seq")) if all_of_them else 0)


def test_a_time_is_refused_except_for_exports(
    record: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Otherwise it would be ignored silently."""
    with pytest.raises(SystemExit) as ended:
        main(["audit", "verify", "--since", "2026-03-02"])
    assert ended.value.code == 2
    assert "are for `audit export`" in capsys.readouterr().err


def test_a_call_without_a_receipt_hides_no_other(
    record: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request has two calls; one is not decided yet, and the other one has its receipt."""
    harness = LoopHarness(record)
    harness.number = 10
    harness.model.script = [[("note", "first"), ("free", "at once")]]
    harness.say("and then", thread="2.0")
    harness.loop.tick()
    harness.work()
    [pending, allowed] = harness.all()[1][-2:]
    harness.stop()
    own = "from tests.runs.fakes import make_tools\nTOOLS = make_tools(lambda *_: '')\n"
    Path("all_of_ours.py").write_text(own + "globals().update({t.name: t for t in TOOLS})\n")
    monkeypatch.syspath_prepend(record.parent)
    monkeypatch.setenv("COUNTERSIGN_TOOLS", "all_of_ours")
    monkeypatch.setenv("COUNTERSIGN_KEY", "k" * 32)
    assert main(["receipt", pending.run_id]) == 1
    found = capsys.readouterr()
    assert found.err == f"No receipt of {pending.id}. This is not decided yet.\n"
    assert allowed.id in base64.b64decode(json.loads(found.out)["decision"]["payload"]).decode()


def test_receipts_are_exported(
    record: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each decided call of that time has a line, which the client verifies. A call whose tool is
    gone has none, and the output says why.
    """
    export = ["audit", "export", "--format", "receipts"]
    assert main(export) == 0
    found = capsys.readouterr()
    assert found.out == ""
    assert re.search(r"No receipt of \S+\. The tool that this was for is no longer", found.err)
    own = "from tests.runs.fakes import make_tools\n[note, *_] = make_tools(lambda *_: '')\n"
    Path("notes_of_ours.py").write_text(own)
    monkeypatch.syspath_prepend(record.parent)
    monkeypatch.setenv("COUNTERSIGN_TOOLS", "notes_of_ours")
    monkeypatch.setenv("COUNTERSIGN_KEY", "k" * 32)  # the key of what was shown
    assert main([*export, "--since", "2026-03-02T12:00", "--until", "2026-03-03"]) == 0
    found = capsys.readouterr()
    assert found.err == ""
    [line] = found.out.splitlines()
    assert main(["receipt", "--keys"]) == 0
    public = json.loads(capsys.readouterr().out)
    keys = receipts.read_public_keys(json.dumps(public))
    [(decision, end)] = receipts.split_receipt_file(line)
    decided, ended = (receipts.verify_receipt(each or "", keys) for each in (decision, end))
    receipts.check_end(ended, decided)
    assert (decided.content["tool"], ended.content["status"]) == ("note", "succeeded")
    for name, text in (("r", line), ("keys", json.dumps(public))):
        Path(name).write_text(text)
    assert main(["verify", "r", "--key", "keys"]) == 1  # it is too old to run a call
    assert main(["verify", "r", "--key", "keys", "--record"]) == 0
    assert "Approved by UANA00001 on 2026-03-02T12:00" in capsys.readouterr().out
    assert main(["verify", "r", "--key", "keys", "--record", "--passkeys"]) == 1
    capsys.readouterr()
    assert main([*export, "--until", "2026-03-02T12:00"]) == 0
    assert capsys.readouterr().out == ""
