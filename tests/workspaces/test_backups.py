"""Backups of all workspaces and of who they are, by the commands of the page, and back."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from bot.workspaces.oauth_client import OAuthError
from storage.installations import TABLES_SCHEMA
from storage.states import InstallationState
from tests.pages import ROOT, blocks_in, section
from tests.postgres_server import Server
from tests.stories.harness import SUPPORT
from tests.stories.messages import action_ids
from tests.stories.steps import ask_for, press, vote
from tests.test_docs_kubernetes import pods
from tests.workspaces.installing import Site
from tests.workspaces.moving import TEAM, MovingHarness
from tests.workspaces.test_moving import KEYS, make_harness

__all__ = ["make_harness"]

pytestmark = [
    pytest.mark.long,
    pytest.mark.file,
    pytest.mark.skipif(not shutil.which("sqlite3"), reason="sqlite3 is not installed"),
]
PAGE = ROOT / "docs" / "workspaces.md"
BACK_UP, DUMP, ONE_BACK, INSTALLATIONS_BACK = blocks_in(section(PAGE, "Backups"), "sh")
LOAD = 'pg_restore --clean --if-exists --dbname="$DATABASE_URL" backup/installations.dump'


@pytest.fixture
def hosted(make_harness: Callable[..., MovingHarness]) -> MovingHarness:
    """A process for many workspaces, of which one has a request that waits."""
    harness = make_harness()
    harness.stop()
    folder = harness.folder / "workspaces" / TEAM
    folder.mkdir(parents=True)
    harness.serve()
    return harness


def read_all(folder: Path) -> bytes:
    """The bytes of all files there."""
    found = [each.read_bytes() for each in sorted(folder.rglob("*")) if each.is_file()]
    assert found
    return b"".join(found)


def pause(harness: MovingHarness) -> None:
    """Wait until the process has stopped the workspace's app, as the page's `sleep` does."""
    host = harness.host
    assert host is not None
    host._check_now.set()
    harness.slack.wait(lambda: not any(each.is_awake for each in host.list_hosted()))


def test_one_workspace_back_while_it_works(hosted: MovingHarness) -> None:
    """What was open then is asked again, and nothing happens twice; the process went on."""
    thread, card = ask_for(hosted, "once")
    hosted.type(BACK_UP, **hosted.environ)
    backup = hosted.folder / "backup"
    assert {each.name for each in backup.iterdir()} == {"installations.db", f"{TEAM}.db"}
    assert {each.stat().st_mode & 0o077 for each in backup.iterdir()} == {0}
    vote(hosted, "ana", card)
    hosted.slack.wait(lambda: hosted.fakes.did("note", "once") == 1)
    hosted.settle()
    first, wait, *rest = ONE_BACK.strip().splitlines()
    assert wait == "sleep 30"
    hosted.type(first, **hosted.environ)
    pause(hosted)
    said = hosted.type("\n".join(rest), **hosted.environ)
    assert "Restored from backup/" in said
    assert hosted.host is not None
    with hosted.host.use_app(TEAM) as app:
        hosted.app = app  # type: ignore[assignment]  # it is one
    hosted.said(SUPPORT, thread, "My data was restored from a backup")
    [again] = hosted.slack.wait(
        lambda: [
            each
            for each in hosted.person("ana").messages(SUPPORT, thread)
            if each["ts"] != card["ts"] and "approve" in action_ids(each)
        ]
    )
    press(hosted, "ana", SUPPORT, card, "approve")  # of the card that was decided before
    hosted.settle()
    assert hosted.fakes.did("note", "once") == 1
    vote(hosted, "ana", again)
    hosted.slack.wait(lambda: hosted.fakes.did("note", "once") == 2)


def test_who_they_are_comes_back(hosted: MovingHarness) -> None:
    """The record of installations is put back, and its workspace is served; no token is in it."""
    hosted.type(BACK_UP, **hosted.environ)
    token = hosted.slack.bot_token.encode()
    assert token not in read_all(hosted.folder / "backup")
    assert token not in read_all(hosted.folder / "workspaces")
    hosted.stop()
    record = hosted.folder / "workspaces" / "installations.db"
    record.write_bytes(b"lost")
    hosted.type(INSTALLATIONS_BACK)
    hosted.serve()
    _, card = ask_for(hosted, "afterwards")
    vote(hosted, "ana", card)
    hosted.slack.wait(lambda: hosted.fakes.did("note", "afterwards") == 1)


def test_a_token_that_was_revoked_since(site: Site, tmp_path: Path) -> None:
    """An older record has a token that Slack takes no more; installing the bot again mends it."""
    site.install()
    old, file = site.tokens().bot, tmp_path / "installations.db"
    site.clock.advance(60)
    site.record.close()
    shutil.copyfile(file, tmp_path / "older.db")
    site.slack.uninstall()
    site.record.set_state(TEAM, InstallationState.REMOVED, site.clock.now())
    site.install()
    assert site.tokens().bot != old
    site.record.close()
    for name in ("installations.db-wal", "installations.db-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    shutil.copyfile(tmp_path / "older.db", file)
    assert site.tokens().bot == old
    with pytest.raises(OAuthError):
        site.oauth.find_bot_id_and_url(old)
    installed = site.install()
    assert installed.state is InstallationState.ACTIVE
    assert site.oauth.find_bot_id_and_url(site.tokens().bot)[0] == installed.bot_id


def test_a_server_s_record_comes_back(
    make_harness: Callable[..., MovingHarness], server: Server
) -> None:
    """By a dump of one schema and a backup of each workspace; the nightly job does the same."""
    harness = make_harness()
    harness.stop()
    (harness.folder / "workspaces" / TEAM).mkdir(parents=True)
    server.fresh("backed")
    url = server.url("backed", "owner")
    shared = {"DATABASE_URL": url, "COUNTERSIGN_KEY": "c" * 40, "COUNTERSIGN_TOKEN_KEYS": KEYS}
    harness.serve(**shared)
    _, card = ask_for(harness, "before")
    given = harness.environ
    loop = "\n".join(line for line in BACK_UP.splitlines() if "sqlite3" not in line)
    harness.type(f"{loop}\n{DUMP}", **given)
    (harness.folder / "nightly").mkdir()
    for each in [*pods()[1]["initContainers"], *pods()[1]["containers"]]:
        [script] = each["args"]
        harness.type(script.replace("/backups", str(harness.folder / "nightly")), **given)
    token = harness.slack.bot_token.encode()
    for folder in ("backup", "nightly"):
        found = {each.name for each in (harness.folder / folder).rglob("*.d*")}
        assert found == {"installations.dump", f"{TEAM}.db"}
        assert token not in read_all(harness.folder / folder)
    harness.stop()
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute(f"DROP SCHEMA {TABLES_SCHEMA} CASCADE")
        owner.execute(f"DROP SCHEMA countersign_{TEAM.lower()} CASCADE")
    assert LOAD.replace('"', "") in PAGE.read_text("utf-8").replace('"', "")
    harness.type(LOAD, **given)
    hosted = {**given, "COUNTERSIGN_WORKSPACE": TEAM}
    harness.type(f"countersign restore backup/{TEAM}.db", **hosted)
    harness.serve(**shared)
    harness.slack.wait(
        lambda: any(
            each["ts"] != card["ts"] and "approve" in action_ids(each)
            for each in harness.person("ana").everything(SUPPORT)
        )
    )
