"""Reads and checks the TOML file of the databases that the agent may use (COUNTERSIGN_DATABASES).

No database is opened, and no message holds a URL or the content of a variable.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, StringConstraints, field_validator
from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from bot import toml_file

_ALLOWED_URL_PARAMETERS = {"sslmode", "sslrootcert", "sslcert", "sslkey", "host", "port"}


SchemaName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,62}$")]
_SECRET_PATTERN = re.compile(  # usual names of columns that hold secrets
    r"passw|passphrase|secret|api_?key|private_?key|credential|card_?n(?:o|um)|tax_?id|passport"
    r"|(?:^|_)(?:iban|cvv|cvc|ssn|pin|salt|tokens?)$|_hash$|_token$",
    re.IGNORECASE,
)


_FIELD_HINTS = {
    "name": "write a-z, 0-9, _ and -, up to 40 characters, a letter first",
    "about": "write one line of up to 200 characters",
}
Dialect = Literal["sqlite", "postgres"]


class Database(BaseModel):
    """One database that the agent may use, as its [[database]] table has it.

    The URL may also come from an environment variable.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, hide_input_in_errors=True)

    name: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]{0,39}$")]
    url: SecretStr = Field(strict=False)
    about: Annotated[str, StringConstraints(pattern=r"^\S[^\x00-\x1f\x7f]{0,199}$")]
    schemas: tuple[SchemaName, ...] = Field(("public",), alias="schema", min_length=1, strict=False)
    secret: tuple[str, ...] = Field((), strict=False)
    not_secret: tuple[str, ...] = Field((), strict=False)
    read_only: bool = False
    max_rows: int = Field(200, ge=1, le=10_000)
    max_changes: int = Field(100, ge=1, le=1_000_000)
    timeout: float = Field(10.0, ge=0.1, le=300, strict=False)
    lock_timeout: float = Field(2.0, ge=0.1, le=60, strict=False)

    @property
    def dialect(self) -> Dialect:
        """The kind of the database: "sqlite" or "postgres"."""
        return "sqlite" if self.url_parts.drivername.startswith("sqlite") else "postgres"

    @property
    def url_parts(self) -> URL:
        """The database's URL, parsed."""
        return make_url(self.url.get_secret_value())

    @property
    def path(self) -> Path:
        """The absolute path of an SQLite database's file."""
        return Path(self.url_parts.database or "").absolute()

    def is_secret(self, table: str, column: str) -> bool:
        """Whether `secret` names this column, or its name looks secret and `not_secret` lacks it.

        Case is ignored.
        """
        if _is_column_matched(self.secret, table, column):
            return True
        return bool(_SECRET_PATTERN.search(column)) and not self.is_declared_not_secret(
            table, column
        )

    def is_declared_not_secret(self, table: str, column: str) -> bool:
        """Whether `not_secret` names this column."""
        return _is_column_matched(self.not_secret, table, column)

    @field_validator("schemas", mode="before")
    @classmethod
    def _wrap_single_schema(cls, value: object) -> object:
        return (value,) if isinstance(value, str) else value

    @field_validator("secret", "not_secret")
    @classmethod
    def _check_column_patterns(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        for each in values:
            if not re.fullmatch(r"[^.\x00-\x1f]+\.[^.\x00-\x1f]+", each):
                raise ValueError(
                    f'{each!r} is not a column; write "orders.card_number" or "*.password"'
                )
        return values

    @field_validator("url")
    @classmethod
    def _check_url(cls, value: SecretStr) -> SecretStr:
        try:
            parts = make_url(value.get_secret_value())
        except (ArgumentError, ValueError):  # the second one for a port, which it would show
            raise ValueError(
                'it is not a URL; write "sqlite:////folder/file" or "postgresql://…"'
            ) from None
        if "@" in (parts.host or ""):
            raise ValueError("in a password write @ as %40, / as %2F and % as %25")
        if parts.drivername in ("sqlite", "sqlite+pysqlite"):
            if not parts.database or parts.query or parts.host or ":memory:" in parts.database:
                raise ValueError(
                    "it names no file; write sqlite:///file (relative) or sqlite:////folder/file"
                )
            if parts.database.startswith("file:"):
                raise ValueError("write the file's plain path, not a file: URI")
        elif parts.drivername in ("postgresql", "postgresql+psycopg"):
            if not parts.database or not parts.username:
                raise ValueError(
                    "it names no database or no role; write postgresql://role@host/database"
                )
            if odd := set(parts.query) - _ALLOWED_URL_PARAMETERS:
                raise ValueError(
                    f"the parameter {min(odd)} is not taken; these are: "
                    f"{', '.join(sorted(_ALLOWED_URL_PARAMETERS))}"
                )
        else:
            raise ValueError("only sqlite and postgresql are supported")
        return value


def _is_column_matched(patterns: tuple[str, ...], table: str, column: str) -> bool:
    whole = f"{table}.{column}".lower()
    return any(fnmatchcase(whole, each.lower()) for each in patterns)


def read_databases(path: Path, environ: Mapping[str, str]) -> tuple[Database, ...]:
    """Return the databases in the file at `path`; `url_env` is looked up in `environ`.

    Raises TomlFileError.
    """
    try:
        text = path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = toml_file.unreadable_file_sentence(str(path), error)
        raise toml_file.TomlFileError("databases", str(path), [why]) from None
    return parse_databases(text, environ, str(path))


def parse_databases(
    text: str, environ: Mapping[str, str], source: str = "databases"
) -> tuple[Database, ...]:
    """Return the databases that the TOML `text` describes.

    Raises TomlFileError with all that is wrong, a line each.
    """
    problems = toml_file.FileProblems(source, text)
    databases: dict[str, Database] = {}
    for index, entry in enumerate(toml_file.parse_tables_under_heading(text, "database", problems)):
        database = _parse_database(entry, index, environ, problems)
        if database is None:
            continue
        if database.name in databases:
            sentence = f"the name {database.name!r} is taken; give each its own"
            problems.add(("database", index, "name"), sentence)
        databases[database.name] = database
    if problems:
        raise toml_file.TomlFileError("databases", source, problems.list_sentences())
    return tuple(databases.values())


def _parse_database(
    entry: dict[str, object],
    index: int,
    environ: Mapping[str, str],
    problems: toml_file.FileProblems,
) -> Database | None:
    """Return the database that an entry describes; None if it is invalid."""
    place = ("database", index)
    if "url_env" in entry:
        name = entry["url_env"]
        url = environ.get(name, "").strip() if isinstance(name, str) else ""
        if "url" in entry or not url:
            why = f"the variable {name} is not set"
            if "url" in entry:
                why = "there is a url as well; remove one of them"
            problems.add((*place, "url_env"), why)
            return None
        entry = {key: value for key, value in entry.items() if key != "url_env"} | {"url": url}
    elif "url" not in entry:
        why = 'is missing; write url = "…", or url_env = "NAME" of a variable that holds it'
        problems.add((*place, "url"), why)
        return None
    return toml_file.validate_toml_table(Database, entry, place, problems, _FIELD_HINTS)
