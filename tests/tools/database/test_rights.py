"""A PostgreSQL role must not be able to read secrets; the refusal says which rights to revoke."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pytest

from bot.cli.doctor.checks import check_agent_databases
from bot.cli.service import run_run
from bot.config.settings import Settings
from bot.config.startup import StartupError
from bot.tools import ToolError
from bot.tools.database.postgres_rights import ExcessiveRoleRightsError
from tests.tools.database.harness import GRANTS, World

EVERYTHING = "GRANT ALL ON ALL TABLES IN SCHEMA public TO agent"


def read_refusal(pg: World) -> ExcessiveRoleRightsError:
    """Query the database and return the refusal."""
    with pytest.raises(ExcessiveRoleRightsError) as caught:
        pg.query("SELECT 1")
    return caught.value


def test_the_refusal_of_a_role_has_statements_that_mend_it(pg: World) -> None:
    """The role can read secrets, some of them through a view."""
    pg.raw(EVERYTHING)
    found = read_refusal(pg)
    for name in ("account.password", "orders.card_number", "cards.shouted", "totals.total"):
        assert name in str(found)
    (told,) = check_agent_databases(
        Settings.model_construct(databases=(pg.database,), database_url="sqlite:///c.db")
    )
    assert all(each in told.remedy for each in found.remedy)
    for each in found.remedy:
        pg.raw(each)
    assert pg.query("SELECT id, login FROM account").rows[0] == (1, "root")
    with pytest.raises(ToolError, match="permission denied for table account"):
        pg.query("SELECT password FROM account")


def test_run_ends_if_the_role_can_read_a_secret(
    pg: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message has the statements that mend it."""
    pg.raw(EVERYTHING)
    (tmp_path / "p.toml").write_text('[defaults]\napprovers = ["U0123"]\n')
    url = pg.database.url_parts.render_as_string(hide_password=False)
    (tmp_path / "d.toml").write_text(
        f'[[database]]\nname = "shop"\nurl = "{url}"\nabout = "The shop"\n'
    )
    monkeypatch.chdir(tmp_path)
    for name, value in {
        "SLACK_BOT_TOKEN": "xoxb-unused",
        "SLACK_APP_TOKEN": "xapp-unused",
        "OPENAI_API_KEY": "unused",
        "COUNTERSIGN_POLICY": "p.toml",
        "COUNTERSIGN_DATABASES": "d.toml",
    }.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(StartupError) as caught:
        run_run(Namespace())
    told = str(caught.value)
    assert "database shop: the role can read what is secret" in told
    assert 'REVOKE SELECT ON "public"."account" FROM "agent";' in told
    assert not (tmp_path / "countersign.db").exists()


@pytest.mark.parametrize(
    "made",
    [
        "GRANT SELECT (password) ON account TO agent",
        "GRANT SELECT ON account TO PUBLIC",
        "CREATE ROLE lender; GRANT SELECT ON account TO lender; GRANT lender TO agent",
        "CREATE VIEW v AS SELECT u.c FROM account AS u(a, b, c); GRANT SELECT ON v TO agent",
        "CREATE VIEW v AS SELECT to_jsonb(u) AS j FROM account AS u; GRANT SELECT ON v TO agent",
        "CREATE VIEW v AS SELECT a.id FROM account a JOIN account b USING (password); "
        "CREATE VIEW w AS SELECT id FROM v; GRANT SELECT ON w TO agent",
        "CREATE MATERIALIZED VIEW m AS SELECT password AS p FROM account; "
        "GRANT SELECT ON m TO agent",
        "ALTER TABLE account ADD made text GENERATED ALWAYS AS (upper(password)) STORED; "
        "GRANT SELECT (made) ON account TO agent",
        "CREATE TABLE child () INHERITS (orders); GRANT SELECT ON child TO agent",
        "CREATE TABLE user_token (api_key text); GRANT SELECT ON user_token TO agent",
        "CREATE EXTENSION postgres_fdw; CREATE SERVER far FOREIGN DATA WRAPPER postgres_fdw; "
        "CREATE FOREIGN TABLE away (password text) SERVER far; GRANT SELECT ON away TO agent",
        "ALTER TABLE account ADD UNIQUE (password); GRANT SELECT (id) ON account TO agent; "
        "CREATE TABLE lent (w text REFERENCES account (password)); GRANT SELECT ON lent TO agent",
    ],
)
def test_every_right_that_leads_to_a_secret_is_found(pg: World, made: str) -> None:
    """It is found before anything is read."""
    assert pg.query("SELECT 1").rows == ((1,),)
    pg.raw(made)
    assert read_refusal(pg).remedy
    if "ROLE lender" in made:  # roles belong to the server, not to this database
        pg.raw("DROP OWNED BY lender; DROP ROLE lender")


@pytest.mark.parametrize(
    "made",
    [
        "CREATE TABLE kept () INHERITS (orders)",
        "CREATE TABLE whole (id int, note text) PARTITION BY LIST (id); "
        "CREATE TABLE kept PARTITION OF whole FOR VALUES IN (1); GRANT SELECT ON whole TO agent",
    ],
)
def test_a_secret_of_a_part_is_found_in_the_whole(pg: World, made: str) -> None:
    """Whoever reads a table reads the rows of all that inherit from it, without a right on them."""
    pg.raw(made)
    found = read_refusal(pg.with_options(secret=("kept.note",)))
    assert ".note" in str(found)
    for each in found.remedy:
        pg.raw(each)
    assert pg.with_options(secret=("kept.note",)).query("SELECT 1").rows == ((1,),)


def test_columns_listed_as_not_secret_can_be_read(pg: World) -> None:
    """An operator has looked at the view; the column only sounds secret."""
    pg.raw("GRANT SELECT ON totals TO agent; CREATE TABLE used (id int, api_tokens int)")
    pg.raw("GRANT SELECT ON used TO agent")
    read_refusal(pg)
    looked = pg.with_options(not_secret=("totals.*", "used.api_tokens"))
    assert looked.query("SELECT status FROM totals ORDER BY 1").rows == (("pending",),)
    assert looked.query("SELECT api_tokens FROM used").rows == ()


def test_a_view_with_its_readers_rights_needs_no_revoke(pg: World) -> None:
    """The server checks the reader's right on the table."""
    pg.raw(
        "CREATE VIEW mine WITH (security_invoker = true) AS SELECT id, card_number FROM orders; "
        + GRANTS
    )
    with pytest.raises(ToolError, match="permission denied for table orders"):
        pg.query("SELECT card_number FROM mine")
