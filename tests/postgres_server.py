"""A PostgreSQL server for the tests, on a Unix socket in a temporary folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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

    def __init__(self, folder: Path, run: Callable[..., None], options: str) -> None:
        self.folder, self._run, self._options = folder, run, options
        self._data = "data"

    def start(self) -> None:
        """Start the server and wait until it accepts connections."""
        self._control("-l", str(self.folder / "log"), "-o", self._options, "start")

    def stop(self, mode: str = "immediate") -> None:
        """Stop the server and end every connection; `start` starts it again."""
        self._control("-m", mode, "stop")

    def _control(self, *command: str) -> None:
        self._run("pg_ctl", "-D", str(self.folder / self._data), "-w", "-s", *command)

    def copy_as_standby(self, name: str) -> None:
        """Copy the server's files as they are now, as those of a standby that does not run."""
        where = ("-D", str(self.folder / name), "-h", str(self.folder), "-U", "owner")
        self._run("pg_basebackup", *where, "-R", "--checkpoint=fast", "--no-sync")

    @contextmanager
    def follow_synchronously(self, name: str) -> Iterator[None]:
        """Let that standby run, and each commit wait for it; at the end both servers stop."""
        sockets = self.folder / f"{name}.sockets"
        sockets.mkdir()
        shutil.chown(sockets, self.folder.stat().st_uid)
        options = self._options.replace(f"-k {self.folder}", f"-k {sockets}")
        standby = ("pg_ctl", "-D", str(self.folder / name), "-w", "-s")
        self._run(*standby, "-l", str(sockets / "log"), "-o", options, "start")
        with self.connect() as owner:
            owner.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            owner.execute("SELECT pg_reload_conf()")
        yield
        self.stop()
        self._run(*standby, "-m", "fast", "stop")

    def take_over(self, name: str) -> None:
        """Stop this server as a crash does, and let that standby take its place."""
        self.stop()
        self.start_standby(name)
        self.promote()

    def start_standby(self, name: str) -> None:
        """Start that standby in the place of this server, which is stopped."""
        self._data = name
        self.start()

    def promote(self) -> None:
        """Make a server of the standby that runs."""
        self._control("promote")

    def url(self, database: str, role: str = "agent") -> str:
        """The URL by which `role` reaches `database`."""
        return f"postgresql://{role}@/{database}?host={self.folder}"

    def connect(
        self, database: str = "postgres", role: str = "owner"
    ) -> psycopg.Connection[tuple[object, ...]]:
        """A connection outside the product, each statement a transaction of its own."""
        return psycopg.connect(host=str(self.folder), dbname=database, user=role, autocommit=True)

    def fresh(self, name: str, template: str = "template1") -> None:
        """Create the database `name`; an older one is dropped first.

        A record in the template becomes one that was never anywhere else.
        """
        self.drop(name)
        with self.connect() as owner:
            make = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
            owner.execute(make.format(sql.Identifier(name), sql.Identifier(template)))
        with self.connect(name) as owner:
            for [table] in owner.execute(
                "SELECT oid::regclass::text FROM pg_class WHERE relname = 'audit'"
            ).fetchall():
                owner.execute(f"COMMENT ON TABLE {table} IS NULL")

    def dump(self, name: str, *options: str) -> str:
        """Return the database `name` as SQL, as `pg_dump` writes it."""
        return self._run_client("pg_dump", name, *options)

    def put_back(self, name: str, dump: str) -> None:
        """Create the database `name` with what `dump` returned; an older one is dropped first."""
        self.drop(name)
        with self.connect() as owner:
            owner.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        self.run_sql(name, dump)

    def run_sql(self, name: str, dump: str) -> None:
        """Run what `dump` returned in the database `name`."""
        self._run_client("psql", name, "-v", "ON_ERROR_STOP=1", given=dump)

    def _run_client(self, program: str, database: str, *options: str, given: str = "") -> str:
        folder = binaries()
        assert folder is not None
        where = [f"--host={self.folder}", "--username=owner", f"--dbname={database}"]
        done = subprocess.run(
            [folder / program, *where, *options],
            input=given,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=True,
        )
        return done.stdout

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

        def run(program: str, *options: str) -> None:
            subprocess.run(
                [programs / program, *options],
                check=True,
                timeout=PATIENCE,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                **as_nobody,
            )

        how = ["-D", data, "-U", "owner", "-A", "trust", "-E", "UTF8", "--no-sync", "--locale=C"]
        run("initdb", *how)
        options = (
            f"-c listen_addresses='' -k {folder} -c fsync=off -c full_page_writes=off -c "
            "max_connections=300"
        )
        server = Server(folder, run, options)
        server.start()
        try:
            yield server
        finally:
            server.stop()
