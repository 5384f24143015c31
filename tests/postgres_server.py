"""A PostgreSQL server for the tests, on a Unix socket in a temporary folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

FOUND = sorted(
    Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[4])
)
PATIENCE = 60  # seconds that starting may take


def binaries() -> Path | None:
    """The folder of the newest PostgreSQL on this machine, or None."""
    if FOUND:
        return FOUND[-1].parent
    found = shutil.which("initdb")
    return Path(found).parent if found else None


class Server:
    """A running server; its superuser is `owner`, a role that the product never uses."""

    def __init__(self, folder: Path, control: Callable[..., None], options: str) -> None:
        self.folder, self._control, self._options = folder, control, options

    def start(self) -> None:
        """Start the server and wait until it accepts connections."""
        self._control("-l", str(self.folder / "log"), "-o", self._options, "start")

    def stop(self, mode: str = "immediate") -> None:
        """Stop the server and end every connection; `start` starts it again."""
        self._control("-m", mode, "stop")

    def url(self, database: str, role: str = "agent") -> str:
        """The URL by which `role` reaches `database`."""
        return f"postgresql://{role}@/{database}?host={self.folder}"

    def connect(
        self, database: str = "postgres", role: str = "owner"
    ) -> psycopg.Connection[tuple[object, ...]]:
        """A connection outside the product, each statement a transaction of its own."""
        return psycopg.connect(host=str(self.folder), dbname=database, user=role, autocommit=True)

    def fresh(self, name: str, template: str = "template1") -> None:
        """Create the database `name`; an older one is dropped first."""
        self.drop(name)
        with self.connect() as owner:
            make = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
            owner.execute(make.format(sql.Identifier(name), sql.Identifier(template)))

    def drop(self, name: str) -> None:
        """Drop the database `name` if it exists, even while it is in use."""
        away = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)")
        with self.connect() as owner:
            owner.execute(away.format(sql.Identifier(name)))


@contextmanager
def serve(programs: Path) -> Iterator[Server]:
    """Start a server without fsync; as `nobody` if we are root, which PostgreSQL refuses."""
    # not in pytest's own folder: the path of a Unix socket is limited to about 100 bytes
    with tempfile.TemporaryDirectory(prefix="cspg", dir="/tmp") as name:
        folder = Path(name)
        as_nobody: dict[str, Any] = {}
        if os.geteuid() == 0:
            shutil.chown(folder, "nobody")
            as_nobody = {"user": folder.stat().st_uid}
        folder.chmod(0o755)
        data = str(folder / "data")

        def run(*command: str) -> None:
            subprocess.run(
                command,
                check=True,
                timeout=PATIENCE,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                **as_nobody,
            )

        control = [str(programs / "pg_ctl"), "-D", data, "-w", "-s"]
        how = ["-D", data, "-U", "owner", "-A", "trust", "-E", "UTF8", "--no-sync", "--locale=C"]
        run(str(programs / "initdb"), *how)
        options = (
            f"-c listen_addresses='' -k {folder} -c fsync=off -c full_page_writes=off -c "
            "max_connections=300"
        )
        server = Server(folder, partial(run, *control), options)
        server.start()
        try:
            yield server
        finally:
            server.stop()
