"""Backups of workspaces and of the record of installations, by the commands of the page."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from bot.workspaces.oauth_client import OAuthError
from storage.installations import TABLES_SCHEMA
from storage.states import InstallationState
from tests.hosts import use_app_once_settled
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
BACK_UP, DUMP, RESTORE_ONE, RESTORE_INSTALLATIONS = blocks_in(section(PAGE, "Backups"), "sh")
LOAD = 'pg_restore --clean --if-exists --dbname="$DATABASE_URL" backup/installations.dump'


@pytest.fixture
def hosted(make_harness: Callable[..., MovingHarness]) -> MovingHarness:
    """A process for many workspaces, which serves one of them."""
    harness = make_harness()
    harness.stop()
    folder = harness.folder / "workspaces" / TEAM
    folder.mkdir(parents=True)
    harness.serve()
    return harness


def read_all(folder: Path) -> bytes:
    """Read the bytes of all files in a folder."""
    found = [each.read_bytes() for each in sorted(folder.rglob("*")) if each.is_file()]
    assert found
    return b"".join(found)


def wait_until_stopped(harness: MovingHarness) -> None:
    """Wait until the process has stopped the workspace's app, as the page's `sleep` does."""
    host = harness.host
    assert host is not None
    host._check_now.set()
    harness.slack.wait(lambda: not any(each.is_awake for each in host.list_hosted()))


def test_one_workspace_is_restored_while_the_process_runs(hosted: MovingHarness) -> None:
    """Requests that were open at the backup are asked again, and nothing is done twice."""
    thread, card = ask_for(hosted, "once")
    hosted.run_script(BACK_UP, **hosted.environ)
    backup = hosted.folder / "backup"
    assert {each.name for each in backup.iterdir()} == {"installations.db", f"{TEAM}.db"}
    assert {each.stat().st_mode & 0o077 for each in backup.iterdir()} == {0}
    vote(hosted, "ana", card)
    hosted.slack.wait(lambda: hosted.fakes.did("note", "once") == 1)
    hosted.settle()
    first, wait, *rest = RESTORE_ONE.strip().splitlines()
    assert wait == "sleep 30"
    hosted.run_script(first, **hosted.environ)
    wait_until_stopped(hosted)
    said = hosted.run_script("\n".join(rest), **hosted.environ)
    assert "Restored from backup/" in said
    assert hosted.host is not None
    with use_app_once_settled(hosted.host, TEAM) as app:
        hosted.app = app  # type: ignore[assignment]  # it is one
    hosted.said(SUPPORT, thread, "My data may be an older copy now")
    [again] = hosted.slack.wait(
        lambda: [
            each
            for each in hosted.person("ana").messages(SUPPORT, thread)
            if each["ts"] != card["ts"] and "approve" in action_ids(each)
        ]
    )
    press(hosted, "ana", SUPPORT, card, "approve")  # on the card that was decided before
    hosted.settle()
    assert hosted.fakes.did("note", "once") == 1
    vote(hosted, "ana", again)
    hosted.slack.wait(lambda: hosted.fakes.did("note", "once") == 2)


def test_the_record_of_installations_is_restored(hosted: MovingHarness) -> None:
    """Its workspace is served again. The backup contains no token in clear."""
    hosted.run_script(BACK_UP, **hosted.environ)
    token = hosted.slack.bot_token.encode()
    assert token not in read_all(hosted.folder / "backup")
    assert token not in read_all(hosted.folder / "workspaces")
    hosted.stop()
    record = hosted.folder / "workspaces" / "installations.db"
    record.write_bytes(b"lost")
    hosted.run_script(RESTORE_INSTALLATIONS)
    hosted.serve()
    _, card = ask_for(hosted, "afterwards")
    vote(hosted, "ana", card)
    hosted.slack.wait(lambda: hosted.fakes.did("note", "afterwards") == 1)


def test_installing_again_replaces_a_restored_token_that_was_revoked(
    site: Site, tmp_path: Path
) -> None:
    """The older record has a token that Slack no longer accepts."""
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


def test_a_record_on_a_server_is_restored(
    make_harness: Callable[..., MovingHarness], server: Server
) -> None:
    """The backup is a dump of one schema and a file for each workspace, as by the nightly job."""
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
    harness.run_script(f"{loop}\n{DUMP}", **given)
    (harness.folder / "nightly").mkdir()
    for each in [*pods()[1]["initContainers"], *pods()[1]["containers"]]:
        [script] = each["args"]
        harness.run_script(script.replace("/backups", str(harness.folder / "nightly")), **given)
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
    harness.run_script(LOAD, **given)
    hosted = {**given, "COUNTERSIGN_WORKSPACE": TEAM}
    harness.run_script(f"countersign restore backup/{TEAM}.db", **hosted)
    harness.serve(**shared)
    harness.slack.wait(
        lambda: any(
            each["ts"] != card["ts"] and "approve" in action_ids(each)
            for each in harness.person("ana").everything(SUPPORT)
        )
    )
