"""The file that names databases: its settings, the errors in it, and what doctor says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bot.cli.doctor.checks import check_agent_databases
from bot.config.settings import Settings, SettingsError
from bot.policy.condition_values import Facts
from bot.policy.evaluation import parse
from bot.policy.gates import Allow, Ask, Deny
from bot.toml_file import TomlFileError
from bot.tools.database.config import parse_databases
from bot.tools.registration import REASON_FIELD
from tests.tools.database.harness import World, create_sqlite_world

DATABASES_FILE = """
[[database]]
name = "shop"
url = "sqlite:///shop.db"
about = "Orders and customers"
secret = ["orders.card_number", "*.password"]
max_rows = 50
timeout = 3

[[database]]
name = "crm"
url_env = "CRM_URL"
about = "People we know"
schema = "sales"
read_only = true
"""
ENVIRON = {"CRM_URL": "postgresql://agent:s3cret@db.example/crm?sslmode=require"}


def list_problems(text: str) -> list[str]:
    """List what is wrong with a file, line by line."""
    with pytest.raises(TomlFileError) as caught:
        parse_databases(text, ENVIRON, "d.toml")
    assert "s3cret" not in str(caught.value)
    return list(caught.value.problems)


def test_a_databases_file_is_read_with_its_defaults() -> None:
    """No password is ever printed."""
    shop, crm = parse_databases(DATABASES_FILE, ENVIRON)
    assert (shop.name, shop.dialect, shop.max_rows, shop.timeout, shop.read_only) == (
        "shop",
        "sqlite",
        50,
        3.0,
        False,
    )
    assert shop.path == Path.cwd() / "shop.db"
    assert (crm.dialect, crm.schemas, crm.read_only, crm.max_changes) == (
        "postgres",
        ("sales",),
        True,
        100,
    )
    assert shop.is_secret("Orders", "CARD_NUMBER")
    assert shop.is_secret("anything", "password")
    assert shop.is_secret("orders", "password_hint")  # its name sounds secret
    assert not shop.is_secret("orders", "passengers")
    assert "s3cret" not in repr((shop, crm))
    assert parse_databases("", {}) == ()


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ('name = "shop"', 'name = "Shop!"', 3, "database 1 name: write a-z"),
        ('name = "crm"', 'name = "shop"', 11, "database 2 name: the name 'shop' is taken"),
        ('"sqlite:///shop.db"', '"sqlite://"', 4, "it names no file"),
        ('"sqlite:///shop.db"', '"sqlite:///:memory:"', 4, "it names no file"),
        ('"sqlite:///shop.db"', '"sqlite:///file:shop.db?uri=true"', 4, "it names no file"),
        ('"sqlite:///shop.db"', '"sqlite:///file:shop.db"', 4, "not a file: URI"),
        ('"sqlite:///shop.db"', '"mysql://x:s3cret@y/z"', 4, "only sqlite and postgresql"),
        ('"sqlite:///shop.db"', '"postgresql://host/db"', 4, "no role"),
        ('"sqlite:///shop.db"', '"postgresql://a:x@s3cret:y@h/d"', 4, "it is not a URL"),
        ('"sqlite:///shop.db"', '"postgresql://a:x@s3cret@h/d"', 4, "write @ as %40"),
        (
            '"sqlite:///shop.db"',
            '"postgresql://a:s3cret@h/d?options=-csearch_path=x"',
            4,
            "options is not taken",
        ),
        ('"sqlite:///shop.db"', '"s3cret"', 4, "it is not a URL"),
        ("CRM_URL", "NOT_SET", 12, "database 2 url_env: the variable NOT_SET is not set"),
        (
            'url_env = "CRM_URL"',
            'url_env = "CRM_URL"\nurl = "sqlite:///x"',
            12,
            "remove one of them",
        ),
        ('url_env = "CRM_URL"\n', "", 10, "database 2 url: is missing"),
        ("max_rows = 50", "max_rows = 0", 7, "write 1 or more"),
        ("max_rows = 50", "maxrows = 50", 7, "unknown key"),
        ("read_only = true", 'read_only = "yes"', 15, "write true or false"),
        ('"*.password"', '"password"', 6, "is not a column"),
        ('about = "People we know"', "", 10, "database 2 about: is missing"),
        ("[[database]]", "[database]", 1, "this is not TOML|two brackets"),
        ("[[database]]", "[[databases]]", 1, "unknown key; databases are headed"),
        ("max_rows = 50", "max_rows = ", 7, "this is not TOML"),
    ],
)
def test_each_mistake_in_a_databases_file_is_explained(
    old: str, new: str, line: int, words: str
) -> None:
    """The error has file, line, key and remedy, and nothing of a URL."""
    assert old in DATABASES_FILE
    count = -1 if old == "[[database]]" else 1
    (first, *_) = list_problems(DATABASES_FILE.replace(old, new, count))
    assert first.startswith("d.toml:")
    if "TOML" not in words and "headed" not in words:
        assert first.startswith(f"d.toml:{line}:")
    assert re.search(words, first)


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """The settings that a start needs at least, and a databases file."""
    (tmp_path / "policy.toml").touch()
    (tmp_path / "databases.toml").write_text(
        DATABASES_FILE.replace("sqlite:///shop.db", f"sqlite:///{tmp_path / 'shop.db'}")
    )
    return {
        "SLACK_BOT_TOKEN": "xoxb-1",
        "SLACK_APP_TOKEN": "xapp-1",
        "OPENAI_API_KEY": "key",
        "COUNTERSIGN_POLICY": str(tmp_path / "policy.toml"),
        "COUNTERSIGN_DATABASES": str(tmp_path / "databases.toml"),
        "DATABASE_URL": f"sqlite:///{tmp_path / 'countersign.db'}",
    }


def test_the_settings_name_the_databases_file(environ: dict[str, str], tmp_path: Path) -> None:
    """Its mistakes are reported with all others at the start; url_env may name one from .env."""
    (tmp_path / ".env").write_text(f"CRM_URL={ENVIRON['CRM_URL']}\n")
    assert [each.name for each in Settings.load(environ, tmp_path / ".env").databases] == [
        "shop",
        "crm",
    ]
    with pytest.raises(SettingsError) as caught:
        Settings.load(environ | {"COUNTERSIGN_TICK": "x"})
    tick, crm = caught.value.problems  # first the settings in their order, then the files
    assert "database 2 url_env" in crm
    assert tick.startswith("COUNTERSIGN_TICK: ")
    with pytest.raises(SettingsError, match="make it a readable text file"):
        Settings.load(environ | {"COUNTERSIGN_DATABASES": "/nowhere"})


def test_doctor_opens_each_database_as_a_tool_would(
    environ: dict[str, str], tmp_path: Path
) -> None:
    """It says what it sees in each of them."""
    path = tmp_path / "databases.toml"
    path.write_text(path.read_text().replace('"*.password"', '"*.password", "orders.cvv"'))
    create_sqlite_world(tmp_path)
    settings = Settings.load(environ | {"CRM_URL": f"sqlite:///{tmp_path / 'countersign.db'}"})
    ok, warn, fail = check_agent_databases(settings)
    assert (ok.level, ok.subject) == ("ok", "database shop")
    assert "9 tables, 2 secret columns; it can be read and changed" in ok.text
    assert (warn.level, warn.text) == ("warn", "no column is named orders.cvv")
    assert (fail.level, fail.subject) == ("fail", "database crm")
    assert "Countersign's own database" in fail.text


def test_doctor_names_the_server_and_the_role(pg: World) -> None:
    """The database is on PostgreSQL."""
    settings = Settings.model_construct(databases=(pg.database,), database_url="sqlite:///c.db")
    found, *_ = check_agent_databases(settings)
    assert found.text.startswith("PostgreSQL ")
    assert " as agent, " in found.text


def test_doctor_reports_unlisted_secrets_and_a_read_only_role(world: World) -> None:
    """A column whose name sounds secret is never read, although the file does not list it."""
    if world.dialect == "postgres":
        world.raw("REVOKE ALL ON ALL TABLES IN SCHEMA public FROM agent")
        world.raw("GRANT SELECT (id, login) ON account TO agent")
    database = world.with_options(secret=("orders.card_number",)).database
    found = list(
        check_agent_databases(
            Settings.model_construct(databases=(database,), database_url="sqlite:///c.db")
        )
    )
    assert found[-1].text == "not listed under secret, but never read either: account.password"
    if world.dialect == "postgres":
        assert found[0].text.endswith("can be read")
        assert (found[1].level, found[1].text) == ("warn", "the role may not change anything there")
    assert len(found) == (4 if world.dialect == "postgres" else 2)


APPROVERS = '[defaults]\napprovers = ["U0123"]\n'


@pytest.mark.parametrize(
    ("rule", "verdict"),
    [
        ("", Ask),
        ('[[rule]]\ntool = "*"\neffect = "read"\nverdict = "allow"\n', Ask),
        ('[[rule]]\nverdict = "allow"\neffect = "read"\n', Ask),
        ('[[rule]]\ntool = ["*", "look_up_order"]\neffect = "read"\nverdict = "allow"\n', Ask),
        ('[[rule]]\ntool = "query"\nverdict = "allow"\n', Allow),
        ('[[rule]]\ntool = ["*", "quer?"]\neffect = "read"\nverdict = "allow"\n', Allow),
        ('[[rule]]\ntool = "*"\nverdict = "deny"\nreason = "No."\n', Deny),
    ],
)
def test_people_are_asked_about_queries_unless_a_rule_names_them(rule: str, verdict: type) -> None:
    """Other reads are allowed without asking."""
    policy = parse(APPROVERS + rule).model_copy(update={"asking": frozenset({"query"})})
    assert isinstance(
        policy.get_gate(Facts(tool="query", effect="read", requester="UBEN00001", args={})), verdict
    )
    assert isinstance(
        policy.get_gate(Facts(tool="tables", effect="read", requester="UBEN00001", args={})),
        Deny if verdict is Deny else Allow,
    )


def test_a_query_has_a_reason_for_the_approver(lite: World) -> None:
    """It has one because people may have to approve it, like a change."""
    assert {
        name: REASON_FIELD in tool.schema()["properties"] for name, tool in lite.tools.items()
    } == {
        "tables": False,
        "query": True,
        "change": True,
    }
