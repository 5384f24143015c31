"""A database of the tools behind a real PgBouncer, whose sessions on the server are shared."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bot.tools import ToolError
from tests.postgres_server import Server
from tests.storage.test_pgbouncer import PGBOUNCER, pool
from tests.tools.database.harness import World, describe_database

pytestmark = pytest.mark.skipif(PGBOUNCER is None, reason="PgBouncer is not installed")


@pytest.fixture(params=["transaction", "session"])
def pooled(request: pytest.FixtureRequest, pg: World, postgres_server: Server) -> Iterator[World]:
    """A fresh PostgreSQL database, reached through PgBouncer in that mode."""
    with pool(postgres_server, request.param, 0) as url:
        database = describe_database(url.replace("owner@/record", "agent@/shop"))
        yield World("postgres", database, pg.raw, pg.dump)


def test_no_session_is_disturbed_by_an_earlier_one(pooled: World) -> None:
    """Whether that one ended well, failed, or was cut short; errors are the statement's own."""
    sql = "UPDATE heap SET number = 5 WHERE word = 'a'"
    for _ in range(3):
        assert pooled.query("SELECT count(*) FROM heap").rows == ((2,),)
        with pytest.raises(ToolError, match="division by zero"):
            pooled.query("SELECT 1 / (number - number) FROM heap")
        assert (
            len(pooled.with_options(max_rows=3).query("SELECT generate_series(1, 9999)").rows) == 3
        )
        with pytest.raises(ToolError, match="duplicate key value"):
            pooled.preview("INSERT INTO customer VALUES (1, 'Ana')")
        with pytest.raises(ToolError, match="duplicate key value"):
            pooled.change("INSERT INTO customer VALUES (1, 'Ana')")
        assert pooled.change(sql, pooled.preview(sql).expects)["rows"] == 1
