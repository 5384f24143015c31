"""Values that a database takes from its clock, in whatever form a column's default keeps them."""

from __future__ import annotations

import pytest

from bot.tools import ChangedError
from tests.tools.database.harness import World

AT_RUN = "(set at run time"
POSTGRES_DEFAULTS = (
    "timestamp(3) DEFAULT CURRENT_TIMESTAMP",
    "timestamp(0) DEFAULT CURRENT_TIMESTAMP",
    "timestamptz(0) DEFAULT now()",
    "timestamptz(3) DEFAULT now() + interval '7 days'",
    "timestamptz(0) DEFAULT now() + interval '30 minutes'",
    "timestamp DEFAULT date_trunc('second', now())",
    "time DEFAULT LOCALTIME",
    "timetz DEFAULT CURRENT_TIME",
    "numeric DEFAULT extract(epoch FROM now())",
    "text DEFAULT extract(epoch FROM now())::bigint::text",
    "text DEFAULT to_char(now(), 'YYYY-MM-DD HH24:MI:SS')",
    """text DEFAULT to_char(now() AT TIME ZONE 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')""",
    "jsonb DEFAULT jsonb_build_object('at', now()::timestamp(0), 'by', 'x' || now()::timestamp(3))",
    "interval DEFAULT now() - timestamp '2026-01-01'",
    "bigint DEFAULT extract(epoch FROM now()) + 3600",
    "tstzrange DEFAULT tstzrange(now(), now() + interval '1 hour')",
    "jsonb DEFAULT jsonb_build_object('until', now() + interval '1 month')",
    "timestamptz DEFAULT date_trunc('hour', now())",
    "date DEFAULT CURRENT_DATE + 30",
)
SQLITE_DEFAULTS = (
    "strftime('%Y-%m-%d %H:%M:%f', 'now')",
    "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')",
    "strftime('%Y-%m-%dT%H:%M:%SZ', 'now')",
    "'at ' || strftime('%Y-%m-%dT%H:%M:%f', 'now')",
    "strftime('%s', 'now')",
    "strftime('%H:%M:%f', 'now')",
    "time('now')",
    "datetime('now', '+30 minutes')",
    "unixepoch('now') + 3600",
    "date('now', '+1 month')",
)


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata"])
def test_a_time_of_any_precision_is_set_at_run_time_in_postgresql(pg: World, zone: str) -> None:
    """Such a default is the usual one of Prisma and Laravel; the run writes another time."""
    pg.raw(f"ALTER ROLE agent IN DATABASE shop SET timezone = '{zone}'")
    columns = ", ".join(f"c{at} {each}" for at, each in enumerate(POSTGRES_DEFAULTS))
    pg.raw(f"CREATE TABLE stamped (id INTEGER PRIMARY KEY, {columns})")
    pg.raw("GRANT ALL ON stamped TO agent")
    for number in range(3):
        sql = f"INSERT INTO stamped (id) VALUES ({number})"
        shown = pg.preview(sql)
        assert shown.rows is not None
        values = {str(each[4]): str(each[6]) for each in shown.rows.rows}
        assert len(values) == len(POSTGRES_DEFAULTS) + 1
        fixed = {
            default: values[f"c{at}"]
            for at, default in enumerate(POSTGRES_DEFAULTS)
            if not values[f"c{at}"].startswith(AT_RUN)
        }
        assert not fixed
        assert pg.change(sql, shown.expects)["rows"] == 1


def test_a_time_with_fractions_is_set_at_run_time_in_sqlite(lite: World) -> None:
    """Whether both trials fall into the same millisecond makes no difference."""
    columns = ", ".join(f"c{at} DEFAULT ({each})" for at, each in enumerate(SQLITE_DEFAULTS))
    lite.raw(f"CREATE TABLE stamped (id INTEGER PRIMARY KEY, {columns})")
    for number in range(20):
        sql = f"INSERT INTO stamped (id) VALUES ({number})"
        shown = lite.preview(sql)
        assert shown.rows is not None
        assert str(shown.rows.rows).count(AT_RUN) == len(SQLITE_DEFAULTS)
        assert lite.change(sql, shown.expects)["rows"] == 1


def test_only_the_columns_that_a_statement_leaves_to_their_default_are_set_at_run_time(
    world: World,
) -> None:
    """A row that was there before keeps its value, and so does one that is given."""
    default = {
        "sqlite": "(unixepoch('now') + 3600)",
        "postgres": "extract(epoch FROM now()) + 3600",
    }
    world.raw(
        "CREATE TABLE lent (id INTEGER PRIMARY KEY, item TEXT UNIQUE, "
        f"due NUMERIC DEFAULT {default[world.dialect]})"
    )
    if world.dialect == "postgres":
        world.raw("GRANT ALL ON lent TO agent")
    world.raw("INSERT INTO lent VALUES (1, 'tent', 77)")
    for sql, line in (
        ("INSERT INTO lent (id, item) VALUES (2, 'boat')", f"2   boat  {AT_RUN})"),
        ("INSERT INTO lent VALUES (2, 'boat', 78)", "2   boat  78"),
        ("INSERT INTO lent SELECT 2, 'boat', due FROM lent", "2   boat  77"),
        (
            "INSERT INTO lent (id, item) VALUES (1, 'x') ON CONFLICT (id) DO UPDATE SET item = 'y'",
            "   item  tent → y",
        ),
    ):
        shown = world.preview(sql)
        assert line in shown.text.splitlines()
        assert (AT_RUN in shown.text) == (AT_RUN in line)
    if world.dialect == "postgres":  # SQLite wants each value, and has no word for a default
        for sql in ("INSERT INTO lent VALUES (2, 'boat')", "UPDATE lent SET due = DEFAULT"):
            shown = world.preview(sql)
            assert AT_RUN in shown.text
            assert world.change(sql, shown.expects)["rows"]


def test_a_time_that_is_only_copied_is_shown_and_compared(pg: World) -> None:
    """It may be as round as the run's own time."""
    pg.raw("CREATE TABLE stamped (id INTEGER PRIMARY KEY, a TIMESTAMP(3), b TIMESTAMP(3))")
    pg.raw("GRANT ALL ON stamped TO agent")
    pg.raw(
        "INSERT INTO stamped SELECT i, timestamp '2025-03-04 05:06:07.25' + i * interval '61.5 s' "
        "FROM generate_series(1, 90) i"
    )
    sql = "UPDATE stamped SET b = a"
    shown = pg.preview(sql)
    assert AT_RUN not in shown.text
    pg.raw("UPDATE stamped SET a = a + interval '1 ms' WHERE id = 7")
    with pytest.raises(ChangedError, match="write other values"):
        pg.change(sql, shown.expects)
