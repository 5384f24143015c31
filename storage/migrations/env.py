"""Alembic's entry: runs migrations on the store's engine, with SQLite's foreign keys turned off.

Batch changes drop and recreate tables there; with foreign keys on, that would cascade into every
child row.
"""

from typing import Any

from alembic import context
from sqlalchemy import Engine, inspect

engine: Engine = context.config.attributes["engine"]
with engine.connect() as connection:
    sqlite = engine.dialect.name == "sqlite"
    raw: Any = connection.connection.driver_connection
    if sqlite:
        # has no effect inside a transaction, hence before it
        raw.execute("PRAGMA foreign_keys=OFF")
    context.configure(connection=connection, render_as_batch=True, transactional_ddl=True)
    with context.begin_transaction():
        for statement in context.config.attributes["beforehand"]:
            connection.exec_driver_sql(statement)
        context.run_migrations()
        there = inspect(connection).get_table_names()
        for statement in context.config.attributes["afterwards"](there):
            connection.exec_driver_sql(statement)
        if sqlite:
            broken = connection.exec_driver_sql("PRAGMA foreign_key_check").fetchall()
            if broken:
                raise RuntimeError(f"the migration would leave dangling rows: {broken[:5]}")
    if sqlite:
        raw.execute("PRAGMA foreign_keys=ON")
