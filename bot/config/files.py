"""What stands in files that settings name: databases and servers; a part of the settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from bot.servers.file import ServerFile, ServersError, read_servers
from bot.tools.database.config import Database, DatabasesError, read_databases


class Files(BaseModel):
    """All of it, as settings: `title` is the variable, the description the sentence for people."""

    databases: tuple[Database, ...] = Field(
        (),
        title="COUNTERSIGN_DATABASES",
        description="A TOML file that names the databases the agent may use.",
    )
    servers: ServerFile | None = Field(
        None,
        title="COUNTERSIGN_SERVERS",
        description="A TOML file that names MCP servers whose tools the agent may use.",
    )


def read_files(values: dict[str, Any], given: Mapping[str, str]) -> Sequence[str]:
    """Put what each file says in the place of its name in `values`; return what is wrong there.

    `given`: the variables that the files may refer to.
    """
    problems: list[str] = []
    for name, read in (("databases", read_databases), ("servers", read_servers)):
        try:
            if name in values:
                values[name] = read(Path(values[name]), given)
        except (DatabasesError, ServersError) as error:
            del values[name]
            problems += error.problems
    return problems
